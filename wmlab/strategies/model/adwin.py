"""A watermark at each change of the delays: ADWIN, and the adaptive watermark that it drives.

Source: Awad, Traub and Sakr, "Adaptive Watermarks: A Concept Drift-based Approach for Predicting Event-Time Progress in
Data Streams", EDBT 2019; Bifet and Gavaldà, "Learning from Time-Changing Data with Adaptive Windowing", SDM 2007, in
the form that MOA ships (class `ADWIN`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Final

from wmlab.strategies.model.strategy import END, UNKNOWN, Input, Positive, PositiveReal, Record, ShareBetween, Strategy

_PER_ROW: Final = 5
_TEST_EVERY: Final = 32
_LEAST: Final = 6
SMALLEST_DELTA: Final = 1e-23


class Adwin:
    """A window of numbers that drops its oldest part when the means of two parts differ; it holds O(log n) buckets.

    A bucket of row i is the sum of 2^i numbers and the sum of their squared distances to their mean. A row has at most
    5, its two oldest ones move on as one of the next row. At every 32nd number each border between buckets is tested.
    With n0 and n1 the numbers on its sides, both above 6, and v the variance of all n, they differ if

        |mean0 - mean1| > sqrt(2 m v d) + 2/3 d m,   d = ln(2 ln n / delta),   m = 1/(n0 - 4) + 1/(n1 - 4)

    and then the oldest bucket is dropped, and the test begins again.
    """

    __slots__ = ("_count", "_distances", "_rows", "_sum", "width")

    def __init__(self) -> None:
        self._rows: list[list[tuple[float, float]]] = [[]]
        self._sum = self._distances = 0.0
        self._count = self.width = 0

    def add(self, value: float, delta: float) -> bool:
        """Whether the window was cut after one more number."""
        if self.width:
            self._distances += self.width * (value - self._sum / self.width) ** 2 / (self.width + 1)
        self.width += 1
        self._sum += value
        self._rows[0].append((value, 0.0))
        self._merge()
        self._count += 1
        cut = False
        if self._count % _TEST_EVERY == 0:
            while self._differ(delta):
                self._drop()
                cut = True
        return cut

    def _merge(self) -> None:
        for level, row in enumerate(self._rows):
            if len(row) <= _PER_ROW:
                break
            (first, near), (second, far) = row[:2]
            del row[:2]
            if level + 1 == len(self._rows):
                self._rows.append([])
            self._rows[level + 1].append((first + second, near + far + (first - second) ** 2 / (2 << level)))

    def _differ(self, delta: float) -> bool:
        older, total = 0, 0.0
        for level in range(len(self._rows) - 1, -1, -1):
            for part, _ in self._rows[level]:
                older += 1 << level
                total += part
                newer = self.width - older
                if newer <= _LEAST:
                    return False
                if older > _LEAST:
                    scale = log(2 * log(self.width) / delta)
                    m = 1 / (older - 4) + 1 / (newer - 4)
                    variance = max(0.0, self._distances / self.width)
                    limit = sqrt(2 * m * variance * scale) + 2 / 3 * scale * m
                    if abs(total / older - (self._sum - total) / newer) > limit:
                        return True
        return False

    def _drop(self) -> None:
        level = len(self._rows) - 1
        part, distances = self._rows[level].pop(0)
        size = 1 << level
        self.width -= size
        self._sum -= part
        apart = part / size - self._sum / self.width
        self._distances -= distances + size * self.width * apart**2 / (size + self.width)
        if not self._rows[level]:
            del self._rows[level]


class Chunk:
    """The state of the adaptive watermark; `low` and `high` are the event times since the last cut.

    `late` and `count` are of the records since the watermark last moved, `most` is the largest delay of the warm-up.
    """

    __slots__ = ("adwin", "count", "delta", "high", "late", "low", "most", "warm", "x")

    def __init__(self, delta: float) -> None:
        self.adwin, self.delta = Adwin(), delta
        self.count = self.late = self.most = self.warm = 0
        self.low, self.high, self.x = END, UNKNOWN, UNKNOWN


@dataclass(frozen=True, slots=True)
class AdwinWatermark(Strategy[Chunk]):
    """X = the largest event time of a chunk minus M, at the end of the chunk, which is a cut of ADWIN on the delays.

    M is the largest |arrival - event time| of the first `warm_up` records, and delays are fed divided by it (by 1 if it
    is 0). At a cut, with r the late share since X last moved, the sensitivity delta of ADWIN becomes min(1, delta / s)
    if r is below `late_share`, else max(delta s, 1e-23), s = `factor`. X moves if it never has, or if r is below
    `late_share` and X lies before low - (high - low) of the chunk. Native is X. Event and arrival times have one unit.
    """

    late_share: ShareBetween
    factor: PositiveReal = 0.5
    delta: PositiveReal = 1.0
    """The sensitivity of ADWIN at the start."""
    warm_up: Positive = 1_000

    def start(self) -> Chunk:
        return Chunk(self.delta)

    def step(self, state: Chunk, item: Input) -> tuple[Chunk, int, int]:
        if isinstance(item, Record):
            delay = abs(item.arrival_ms - item.event_time)
            if state.warm < self.warm_up:
                state.warm += 1
                state.most = max(state.most, delay)
            else:
                state.count += 1
                state.late += item.event_time < state.x
                state.low, state.high = min(state.low, item.event_time), max(state.high, item.event_time)
                if state.adwin.add(delay / max(state.most, 1), state.delta):
                    self._cut(state)
        return state, state.x, state.x

    def _cut(self, state: Chunk) -> None:
        few = state.late / state.count < self.late_share
        state.delta = min(1.0, state.delta / self.factor) if few else max(state.delta * self.factor, SMALLEST_DELTA)
        if state.x == UNKNOWN or (few and state.x < 2 * state.low - state.high):
            state.x = max(state.x, state.high - state.most)
            state.late = state.count = 0
        state.low, state.high = END, UNKNOWN
