"""A quantile of how late records have been so far: the windowed percentile and its relatives.

The quantile at `share` of n values is the smallest of them that at least `share` of them do not exceed: the one of
rank ceil(share * n), counted from 1 in ascending order, and the least one for a share of 0. This is the inverse of
the empirical distribution function, without interpolation, so a quantile is always one of the values.

The lateness of a record is max(0, m - e), with e its event time and m the largest one before it; of the first record
it is 0. A record counts before its own watermark is made. The watermark never goes back, even if the quantile grows.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from dataclasses import dataclass
from math import ceil, floor
from typing import Final, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.core.words import DAY_MS
from wmlab.strategies.model.strategy import (
    UNKNOWN,
    Input,
    NotNegativeMs,
    Positive,
    PositiveMs,
    Record,
    ShareBetween,
    Strategy,
    earlier,
    now_of,
)
from wmlab.strategies.model.writers import Minimum

_ROUNDING: Final = 1e-9
"""A share such as 0.07 is not an exact double: 0.07 * 100 must have rank 7."""
_RELATIVE: Final = 1e-14
"""The same of very many values, of which the last digits of a double are more than that."""


def rank(share: float, count: int) -> int:
    """The rank from 1 to `count` of the quantile at `share`, from 0 to 1.

    >>> rank(0.95, 20), rank(0.07, 100), rank(0, 5), rank(1, 5)
    (19, 7, 1, 5)
    """
    exact = share * count
    return min(count, max(1, ceil(exact - max(_ROUNDING, exact * _RELATIVE))))


def within(share: float, count: int) -> int:
    """The most of `count` whose share `number / count` is not above `share`; raises `ModelError` if that is none.

    A share is taken for the quotient that it stands for: 29 of 100 are within 0.29, though as a double that is less.

    >>> within(0.29, 100), within(29 / 100, 100), within(0.1, 39), within(1, 7)
    (29, 29, 3, 7)
    """
    if not 0 <= share <= 1:
        raise ModelError(f"The late share {share!r} is not a share.", remedy="Give a number from 0 to 1.")
    number = min(count, floor(share * count))
    while number / count > share:
        number -= 1
    while number < count and (number + 1) / count <= share:
        number += 1
    return number


class SlidingWindow:
    """The last `size` values. Adding one costs O(log size) comparisons and one move within a list."""

    __slots__ = ("_arrived", "_ascending", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._arrived: deque[int] = deque()
        self._ascending: list[int] = []

    def __len__(self) -> int:
        return len(self._ascending)

    def add(self, value: int) -> None:
        """One more value, in place of the oldest one if the window is full."""
        ascending = self._ascending
        if len(ascending) == self._size:
            del ascending[bisect_left(ascending, self._arrived.popleft())]
        self._arrived.append(value)
        insort(ascending, value)

    def quantile(self, share: float) -> int:
        """The quantile at `share` of the values in the window, which must not be empty."""
        return self._ascending[rank(share, len(self._ascending)) - 1]

    def largest(self, count: int) -> list[int]:
        """The `count` largest values, in descending order; fewer if there are not as many."""
        return self._ascending[: -count - 1 : -1]

    def bound(self, share: float) -> int:
        """The quantile at `share` when one more value counts that is above all; the largest value stands for that one.

        The next value is at most this with a probability of at least `share`, if their order does not matter and there
        are enough of them: the quantile of conformal prediction.
        """
        count = len(self._ascending)
        return self._ascending[min(count, rank(share, count + 1)) - 1]


class SlidingState:
    """The records so far: how many, the largest event time, and the last `size` latenesses."""

    __slots__ = ("count", "top", "window")

    def __init__(self, size: int) -> None:
        self.count = 0
        self.top = UNKNOWN
        self.window = SlidingWindow(size)

    def add(self, event_time: int) -> None:
        """One more record."""
        self.count += 1
        # As `lateness` has it, without a call for each record.
        self.window.add(max(0, self.top - event_time))
        self.top = max(self.top, event_time)


@dataclass(frozen=True, slots=True)
class WindowedPercentile(Strategy[tuple[int, SlidingState]]):
    """X = m - B, B the smallest bound that covers `share` of the last `size` latenesses, as in `SlidingWindow.bound`.

    There is no watermark before `hold` records, the warm-up, at most `size`. Native is X, which the state contains next
    to the records.
    """

    share: ShareBetween
    size: Positive = 2_000
    hold: Positive = 1

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        require_warm_up(self.hold, self.size)

    def start(self) -> tuple[int, SlidingState]:
        return UNKNOWN, SlidingState(self.size)

    def step(self, state: tuple[int, SlidingState], item: Input) -> tuple[tuple[int, SlidingState], int, int]:
        x, seen = state
        if isinstance(item, Record):
            seen.add(item.event_time)
            if seen.count >= self.hold:
                x = max(x, earlier(seen.top, seen.window.bound(self.share)))
        return (x, seen), x, x


def require_warm_up(warm_up: int, size: int) -> None:
    """Raise `ModelError` if a warm-up is longer than the window of `size` records that it fills."""
    if warm_up > size:
        raise ModelError(
            f"A hold of {warm_up} records is longer than the window of {size}.", remedy="Give a hold of at most size."
        )


def lateness(top: int, event_time: int) -> int:
    """How much `event_time` is below the largest one before it, `top`; 0 for the first record.

    >>> lateness(10, 7), lateness(10, 12), lateness(UNKNOWN, 5)
    (3, 0, 0)
    """
    return top - event_time if event_time < top else 0


class ConfluentState(NamedTuple):
    """All partitions by name, and the least of their watermarks."""

    of: defaultdict[str, SlidingState]
    minimum: Minimum


@dataclass(frozen=True, slots=True)
class ConfluentWatermark(Strategy[ConfluentState]):
    """The default of Confluent Cloud (`SOURCE_WATERMARK()`): for each partition, here a writer, the maximum event time
    minus the quantile at `share` of its last `size` latenesses, kept within `least_ms` and `most_ms`, minus a margin.

    The margin depends on the number of records: it is 7 days up to 250, so there is no usable watermark before. X is
    the minimum over partitions that are not idle, and native is Flink's X - 1. A partition is idle after `idle_ms`
    without a record (None: never). Times are milliseconds. Source: the documents of Confluent Cloud for Apache Flink;
    the margins as in confluentinc/online-retailer-flink-demo#46.
    """

    share: ShareBetween = 0.95
    size: Positive = 5_000
    least_ms: NotNegativeMs = 50
    most_ms: NotNegativeMs = 7 * DAY_MS
    margins: tuple[tuple[int, int], ...] = ((250, 7 * DAY_MS), (500, 30_000), (750, 10_000), (1_000, 1_000))
    """Pairs of a number of records and the margin up to there, in ms."""
    idle_ms: PositiveMs | None = None

    def start(self) -> ConfluentState:
        return ConfluentState(defaultdict(lambda: SlidingState(self.size)), Minimum(self.idle_ms))

    def step(self, state: ConfluentState, item: Input) -> tuple[ConfluentState, int, int]:
        if isinstance(item, Record):
            partition = state.of[item.writer]
            partition.add(item.event_time)
            bound = min(max(partition.window.quantile(self.share), self.least_ms), self.most_ms)
            value = earlier(partition.top, bound + self.margin_ms(partition.count))
            x = state.minimum.put(item.writer, value, item.arrival_ms)
        else:
            x = state.minimum.advance(now_of(item))
        return state, x, earlier(x, 1)

    def margin_ms(self, count: int) -> int:
        """The margin of a partition with this many records.

        >>> [ConfluentWatermark().margin_ms(count) for count in (251, 750, 751, 1_001)]
        [30000, 10000, 1000, 0]
        """
        return next((margin for until, margin in self.margins if count <= until), 0)


class Delays(NamedTuple):
    """X, the last delays, and their quantile (None: no delay yet)."""

    x: int
    window: SlidingWindow
    bound: int | None


@dataclass(frozen=True, slots=True)
class DelayPercentile(Strategy[Delays]):
    """X = now minus the quantile at `share` of the last `size` delays max(0, arrival - event time); also native.

    It moves with the clock, so a record meets the X of its own arrival, and a silent stream does not stall it. Both
    times must have the same unit and clock. Source: Apache IoTDB, class `DelayAnalyzer`, after "Separation or Not"
    (ICDE 2022).
    """

    share: ShareBetween = 0.99
    size: Positive = 10_000

    def start(self) -> Delays:
        return Delays(UNKNOWN, SlidingWindow(self.size), None)

    def step(self, state: Delays, item: Input) -> tuple[Delays, int, int]:
        x, window, bound = state
        if isinstance(item, Record):
            window.add(max(0, item.arrival_ms - item.event_time))
            bound = window.quantile(self.share)
            x = max(self.met(state, x, item), item.arrival_ms - bound)
        elif bound is not None:
            x = max(x, item.now_ms - bound)
        return Delays(x, window, bound), x, x

    def met(self, state: Delays, x: int, record: Record) -> int:
        return x if state.bound is None else max(x, record.arrival_ms - state.bound)
