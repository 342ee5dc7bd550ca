"""Windows over event time and their slices, and the operators that fill and emit them.

The windows are [k·slide, k·slide + size) for k = 0, 1, ...; slices are cut at all their starts and ends. A window is
the disjoint union of its slices, so a record is kept once however many windows overlap. Windows that are shorter than
their slide leave slices in between that belong to no window.

Windows fill, fire and are gone; a stateful operator may hand a window on as follows.

    state          on a record                             on the watermark W or the end of the stream
    open           counted in its slice                    fires at end <= W (exact) or end < W (strict), or at the end
    fired, empty   late: named, counted in open windows    nothing

Windows fire in the order of their ends; each one that holds a record takes the next output number from 1. The trigger
sees the largest watermark so far, so one that goes back fires and reopens nothing.

A windowed join keeps what both sides have built in each slice; the probe matches pairs of slices.

    call      side    does
    build     build   adds the records of a buffer to the table of their slice and side
    outputs   probe   each pair of slices of a window in which both sides have records is a task and a chunk: how many
                      pairs of records with equal keys it has

A window goes out under the operator's own origin, with the window's output number as sequence: one chunk for an
aggregation, one chunk per pair of slices for a join.

Source: "Watermarking and Progress", Triggering windows; upstream classes `SliceAssigner`,
`WindowBasedOperatorHandler`, `DefaultTimeBasedSliceStore` (states of a window), `StreamJoinOperatorHandler`,
`StreamJoinProbePhysicalOperator` and `AggregationProbePhysicalOperator`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import product
from numbers import Integral
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.progress.model.numbers import ChunkBase, TupleBuffer


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows of one size and slide, in the unit of the event times; tumbling if both are equal.

    Raises `ModelError` unless both are whole numbers of at least 1.
    """

    size: int
    slide: int

    def __post_init__(self) -> None:
        if not all(isinstance(length, Integral) and length >= 1 for length in (self.size, self.slide)):
            raise ModelError(
                f"No window has size {self.size!r} and slide {self.slide!r}.", remedy="Give whole numbers from 1 on."
            )

    def slice_of(self, time: int) -> tuple[int, int]:
        """The slice [start, end) of a time. Raises `ModelError` for a negative time."""
        _require_time(time)
        begun = time - time % self.slide
        if time < self.size:
            return begun, min(begun + self.slide, self.size)
        ended = time - (time - self.size) % self.slide
        return max(begun, ended), min(begun, ended) + self.slide

    def slices(self, start: int, end: int) -> Iterator[int]:
        """The starts of the slices in [start, end), ascending; the first begins at `start`."""
        while start < end:
            yield start
            start = self.slice_of(start)[1]

    def windows_of(self, time: int) -> range:
        """The numbers k of all windows that hold a time, ascending. Raises as `slice_of`."""
        _require_time(time)
        first = max(0, (time - self.size) // self.slide + 1)
        return range(first, time // self.slide + 1)

    def span(self, number: int) -> tuple[int, int]:
        """The window's [start, end)."""
        return number * self.slide, number * self.slide + self.size

    def records_of_slices(self, times: Iterable[int]) -> dict[int, int]:
        """How many of these times fall in each slice, by its start, ascending. Raises as `slice_of`."""
        return dict(sorted(Counter(self.slice_of(time)[0] for time in times).items()))

    def ended_before(self, time: int) -> int:
        """How many windows end before a time, that is, end < time."""
        return max(0, (time - self.size - 1) // self.slide + 1)


def _require_time(time: int) -> None:
    if time < 0:
        raise ModelError(f"The time {time} is before the first window.", remedy="Give times of at least 0.")


Trigger = Literal["strict", "exact"]
FiringCause = Literal["watermark", "end of stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringRules:
    """Which windows, and when they fire.

    `exact` fires at end <= W, since W promises that no record with a time below it follows; `strict`, as the engine
    does, at end < W. `emit_lag` is taken off every watermark first. Raises `ModelError` for a negative lag.
    """

    windows: SlidingWindows
    trigger: Trigger = "exact"
    emit_lag: int = 0

    def __post_init__(self) -> None:
        if self.emit_lag < 0:
            raise ModelError(f"An emit lag of {self.emit_lag} is not a rule.", remedy="Give a lag of at least 0.")


@dataclass(frozen=True, slots=True)
class Fired:
    """Effect: a window with this many records was handed on as output number `sequence`."""

    sequence: int
    start: int
    end: int
    records: int
    cause: FiringCause


@dataclass(frozen=True, slots=True)
class Late:
    """Effect: a record came for windows that the watermark had closed, the first of which is [start, end).

    The source was not in order, or its promise was not kept.
    """

    time: int
    start: int
    end: int
    closed: int


class Firing:
    """The windows of one operator: records per slice, open windows, and how many have fired.

    `slices` counts the records in each slice of an open window, by the slice's start. `closed` is how many windows
    (from the first on, empty or not) the watermark has closed, `sequence` the number of the last output.
    """

    def __init__(self, rules: FiringRules) -> None:
        self.rules = rules
        self.slices: dict[int, int] = {}
        self.closed = 0
        self.ended = False
        self.sequence = 0
        self._open: set[int] = set()
        self._first_open: list[int] = []
        """The open windows as a heap."""

    def fill(self, times: Iterable[int]) -> tuple[Late, ...]:
        """Count the records of one buffer; those that come too late are named. Raises `ModelError` below time 0."""
        late: list[Late] = []
        windows = self.rules.windows
        for time in times:
            shut = self.count(time)
            if shut:
                late.append(Late(time, *windows.span(shut[0]), len(shut)))
        return tuple(late)

    def count(self, time: int, records: int = 1) -> range:
        """Count records of one time, or of one slice; the numbers of those of their windows that are closed."""
        start, _ = self.rules.windows.slice_of(time)
        within = self.rules.windows.windows_of(time)
        shut = len(within) if self.ended else min(max(0, self.closed - within.start), len(within))
        still_open = within[shut:]
        if still_open:
            for number in still_open:
                if number not in self._open:
                    self._open.add(number)
                    heappush(self._first_open, number)
            self.slices[start] = self.slices.get(start, 0) + records
        return within[:shut]

    def advance(self, watermark: int | None) -> tuple[Fired, ...]:
        """The windows that fire because the global watermark has reached `watermark` (None: unknown)."""
        if watermark is None:
            return ()
        reached = max(0, watermark - self.rules.emit_lag) + (self.rules.trigger == "exact")
        self.closed = max(self.closed, self.rules.windows.ended_before(reached))
        return self._fire("watermark")

    def end(self) -> tuple[Fired, ...]:
        """The windows that fire because the last input has ended: all that are open."""
        self.ended = True
        self.closed = max(self.closed, max(self._open, default=-1) + 1)
        return self._fire("end of stream")

    def _fire(self, cause: FiringCause) -> tuple[Fired, ...]:
        fired = []
        while self._first_open and self._first_open[0] < self.closed:
            number = heappop(self._first_open)
            self._open.remove(number)
            self.sequence += 1
            span = self.rules.windows.span(number)
            slices = [start for start in self.rules.windows.slices(*span) if start in self.slices]
            records = sum(self.slices[start] for start in slices)
            fired.append(Fired(self.sequence, *span, records, cause))
            for start in slices:
                if start // self.rules.windows.slide == number:  # It is the last window that holds the slice.
                    del self.slices[start]
        return tuple(fired)


class WindowedAggregation(Firing):
    """Counts the records of its inputs in windows, and puts out one chunk for a window, under an origin of its own."""

    def __init__(self, rules: FiringRules, origin: int, chunk_base: ChunkBase = 0) -> None:
        super().__init__(rules)
        self.origin = origin
        self.chunk_base = chunk_base

    def build(self, origin: int, times: Sequence[int], keys: Sequence[int]) -> tuple[Late, ...]:  # noqa: ARG002
        """Take the records of one buffer of an input; those that come too late are named.

        `times` and `keys` are parallel. Raises `ModelError` for a negative time.
        """
        return self.fill(times)

    def outputs(self, fired: Fired) -> list[tuple[TupleBuffer, Mapping[int, int]]]:
        """The buffers of the probe side that a window becomes, each with its number of results by key.

        They carry the start of the window, so that nothing downstream fires past results still to come.
        Source: upstream class `AggregationProbePhysicalOperator`.
        """
        return self._chunks(fired, [(fired.start, {0: 1})])

    def _chunks(
        self, fired: Fired, chunks: Sequence[tuple[int, Mapping[int, int]]]
    ) -> list[tuple[TupleBuffer, Mapping[int, int]]]:
        """A window as chunks, each with its watermark and its number of results by key."""
        final = len(chunks) - 1
        return [
            (TupleBuffer(self.origin, fired.sequence, self.chunk_base + index, index == final, watermark), results)
            for index, (watermark, results) in enumerate(chunks)
        ]


Carried = Literal["start", "largest"]


@dataclass(slots=True)
class JoinSide:
    """What one side of a join has built in a slice: how many records each key has, and the largest time of all."""

    keys: Counter[int] = field(default_factory=Counter)
    largest: int = 0


class WindowedJoin(WindowedAggregation):
    """Joins records of equal keys in windows; `sides` tells the side of each input origin, 0 for left and 1 for right.

    `tables` has both sides of each slice, by its start. An output carries the `start` of its window, as in the engine,
    or the `largest` time of the records of its two slices, as by the rule for all buffers.
    """

    def __init__(
        self,
        rules: FiringRules,
        origin: int,
        chunk_base: ChunkBase = 0,
        *,
        sides: Mapping[int, int],
        carries: Carried = "start",
    ) -> None:
        super().__init__(rules, origin, chunk_base)
        self.sides = sides
        self.carries = carries
        self.tables: dict[int, tuple[JoinSide, JoinSide]] = {}

    def build(self, origin: int, times: Sequence[int], keys: Sequence[int]) -> tuple[Late, ...]:
        """Take the records of one buffer of an input, see `WindowedAggregation`; late ones are joined, too."""
        late = self.fill(times)
        side = self.sides[origin]
        for time, key in zip(times, keys, strict=True):
            start, _ = self.rules.windows.slice_of(time)
            if start not in self.tables:
                self.tables[start] = (JoinSide(), JoinSide())
            table = self.tables[start][side]
            table.keys[key] += 1
            table.largest = max(table.largest, time)
        return late

    def outputs(self, fired: Fired) -> list[tuple[TupleBuffer, Mapping[int, int]]]:
        """One chunk for each pair of slices of a window, with its matches by key; an empty one without a pair.

        Source: upstream class `StreamJoinProbePhysicalOperator`; "Watermarking and Progress", Watermark Timestamp and
        the outputs of the diagram.
        """
        chunks = []
        for left, right in self._pairs(fired.start, fired.end):
            watermark = fired.start if self.carries == "start" else max(left.largest, right.largest)
            matches = {key: count * right.keys[key] for key, count in left.keys.items() if key in right.keys}
            chunks.append((watermark, matches))
        return self._chunks(fired, chunks or [(fired.start, {})])

    def _pairs(self, start: int, end: int) -> Iterator[tuple[JoinSide, JoinSide]]:
        """The left and right sides of the slices of the window [start, end) in which there are records."""
        tables = [self.tables[begin] for begin in self.rules.windows.slices(start, end) if begin in self.tables]
        lefts, rights = ([table[side] for table in tables if table[side].keys] for side in (0, 1))
        return product(lefts, rights)
