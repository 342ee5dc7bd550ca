"""The axes of a chart: their range, where their ticks are, and how a time, a duration or a number is written.

Times and durations are integers in milliseconds, and only integers decide where a tick lies, so every platform
puts the same ticks at the same values. Instants are written in UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import ClassVar, Final, overload

from wmlab.core.words import (
    DAY_MS,
    FIRST_INSTANT_MS,
    HOUR_MS,
    LAST_INSTANT_MS,
    MINUTE_MS,
    SECOND_MS,
    counted,
    exactly,
    is_instant,
    listed,
    rounded,
    since_1970_ms,
    utc,
)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Coordinate = int | float


@dataclass(frozen=True, slots=True)
class Tick:
    """A position on an axis, in the axis' own unit, and what is written there."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of duration: its symbol, its length in ms, and the steps between ticks that read well, in ms."""

    symbol: str
    ms: int
    steps_ms: tuple[int, ...]

    def scale(self, value_ms: float) -> float:
        """The duration in this unit, to less than 10 ms, in s to a ms, in ms to hundredths; whole values are `int`."""
        whole, rest = divmod(value_ms, self.ms)
        return whole if rest == 0 else round(value_ms / self.ms, len(str(self.ms)) - 1 or 2)


def _times(factor: int, steps: Iterable[int]) -> tuple[int, ...]:
    return tuple(factor * step for step in steps)


_DECIMAL = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_UNITS: Final = (
    (1_500, Unit("ms", 1, _DECIMAL)),
    (10 * MINUTE_MS, Unit("s", SECOND_MS, (100, 200, 500, *_times(SECOND_MS, _DECIMAL)))),
    (10 * HOUR_MS, Unit("min", MINUTE_MS, _times(MINUTE_MS, (1, 2, 5, 10, 15, 30, 60, 120)))),
    (10 * DAY_MS, Unit("h", HOUR_MS, _times(HOUR_MS, (1, 2, 3, 6, 12, 24, 48)))),
)
_INSTANT_STEPS_MS: Final = (
    *_DECIMAL,
    *_times(SECOND_MS, (1, 2, 5, 10, 15, 30)),
    *_times(MINUTE_MS, (1, 2, 5, 10, 15, 30)),
    *_times(HOUR_MS, (1, 2, 3, 6, 12)),
    *_times(DAY_MS, (1, 2, 7, 14)),
)
_MONTH_STEPS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 2_400, 6_000, 12_000, 24_000)
_FEWEST: Final = 4
_FENCE: Final = 3
_SQUEEZED: Final = 10
_OF_EQUAL_VALUES: Final = 8
"""The fence of `bulk`, in lengths of the middle half, how many times longer than the core the axis may be, and of how
many values one may be beyond where the middle half is one value."""
_LONG_LABEL: Final = 100_000
"""From how many units on the numbers of a duration axis are written with several units: "19 723 d 2 h"."""
_RIM: Final = 50
"""How far inside its end an axis draws what lies beyond, as a part of its length."""
_YEARS_MS: Final = 1_000 * DAY_MS


def duration_unit(span_ms: int) -> Unit:
    """The unit in which an axis that covers `span_ms` has numbers of one to three digits."""
    return next((unit for limit, unit in _UNITS if span_ms <= limit), Unit("d", DAY_MS, ()))


Piece = tuple[int, int, int]
"""From which value to which a curve goes, and for how long, in ms."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """The values of a curve with the time for which it has them, in pieces, each of which it passes at one speed."""

    pieces: tuple[Piece, ...]

    @classmethod
    def steps(cls, xs: Sequence[int], ys: Sequence[int | None]) -> OverTime:
        """A curve that holds each value until the next x, and the last for no time; None is unknown."""
        lengths = [*(after - before for before, after in pairwise(xs)), 0]
        return cls(tuple((y, y, length) for y, length in zip(ys, lengths, strict=False) if y is not None))

    @classmethod
    def line(cls, xs: Sequence[int], ys: Sequence[int | None]) -> OverTime:
        """Straight lines through points; those that go straight up are jumps, and None breaks the line."""
        points = list(zip(xs, ys, strict=True))
        lines = [
            (min(before, y), max(before, y), x - from_x)
            for (from_x, before), (x, y) in pairwise(points)
            if before is not None and y is not None and from_x < x
        ]
        return cls((*lines, *((y, y, 0) for _, y in points if y is not None)))

    def outside(self, low: int, high: int) -> tuple[float, list[int]]:
        """For how long the curve is not between two values, in ms, and its values out there, ascending.

        Of a piece the values are its two ends.
        """
        time_ms, values = 0.0, set[int]()
        for first, last, length_ms in self.pieces:
            within = min(last, high) - max(first, low)
            values |= {value for value in (first, last) if not low <= value <= high}
            if within < 0:
                time_ms += length_ms
            elif first < last:
                time_ms += length_ms * (1 - within / (last - first))
        return time_ms, sorted(values)


@dataclass(frozen=True, slots=True)
class Axis:
    """A range in ms and how to read it: as instants in UTC, or as durations in `unit`.

    The low end may be the larger number: then values grow downwards, or to the left.
    """

    name: str
    low: int
    high: int
    instants: bool
    unit: Unit

    @property
    def title(self) -> str:
        """Name and unit; without it where each number has its own."""
        if self.far:
            return self.name
        if not self.instants:
            return f"{self.name} ({self.unit.symbol})"
        first, last = (utc(end).year for end in self._ends)
        return f"{self.name} (UTC, {first if first == last else f'{first} to {last}'})"

    def ticks(self, count: int) -> list[Tick]:
        """At most `count` + 1 ticks inside the range."""
        low, high = self._ends
        if self.instants:
            return instant_ticks(low, high, count=count)
        return duration_ticks(low, high, count=count, unit=self.unit)

    @property
    def far(self) -> bool:
        """Whether the range lies so far from 0 that its durations are long numbers of the unit that fits its length."""
        return not self.instants and _is_long(*self._ends, self.unit)

    @property
    def _ends(self) -> tuple[int, int]:
        return min(self.low, self.high), max(self.low, self.high)

    def turned(self) -> Axis:
        """The same range, in which values grow the other way."""
        return replace(self, low=self.high, high=self.low)

    def beyond(self, values: Iterable[int | None]) -> list[int]:
        """The known values that lie beyond the range, ascending."""
        low, high = self._ends
        return sorted(value for value in values if value is not None and not low <= value <= high)

    @overload
    def at_rim(self, value: int) -> int: ...
    @overload
    def at_rim(self, value: int | None) -> int | None: ...
    @overload
    def at_rim(self, value: Coordinate | None) -> Coordinate | None: ...

    def at_rim(self, value: Coordinate | None) -> Coordinate | None:
        """The value where it is drawn: inside the range as it is, beyond it near the end where it left."""
        low, high = self._ends
        margin = (high - low) // _RIM
        if value is None or low <= value <= high:
            return value
        return low + margin if value < low else high - margin

    def said_beyond(self, values: Mapping[str, Iterable[int | None] | OverTime]) -> str:
        """How many of the values of each kind lie beyond the axis, and how far, as a sentence; "" if none does.

        Of a curve it says for how long.

        >>> axis = time_axis("lag", [0, 60_000])
        >>> axis.said_beyond({"record": [5_000, 90_000, 3_600_000], "lag": [0]})
        'Beyond the axis: 2 records, up to 1 h.'
        >>> axis.said_beyond({"the lag of r1": OverTime.steps([0, 4_000, 5_000], [0, 90_000, 0])})
        'Beyond the axis: the lag of r1 for 1.0 s, up to 90.0 s.'
        """
        low, high = self._ends
        parts = []
        for noun, of_noun in values.items():
            is_curve = isinstance(of_noun, OverTime)
            time_ms, beyond = (
                of_noun.outside(low, high) if isinstance(of_noun, OverTime) else (0.0, self.beyond(of_noun))
            )
            if beyond:
                ways = [f"down to {self.written(beyond[0])}"] if beyond[0] < low else []
                ways += [f"up to {self.written(beyond[-1])}"] if beyond[-1] > high else []
                lasting = f"for {rounded(round(time_ms))}" if round(time_ms) else "for a moment"
                what = f"{noun} {lasting}" if is_curve else counted(len(beyond), noun)
                parts.append(f"{what}, {listed(ways)}")
        return f"Beyond the axis: {'; '.join(parts)}." if parts else ""

    def written(self, value: int) -> str:
        """A value in words: an instant, or a duration."""
        if self.instants:
            with suppress(OverflowError):  # a year that no calendar has
                return format_instant(value, span_ms=_YEARS_MS)
        return rounded(value)

    def plotted(self, values: Iterable[Coordinate | None]) -> list[float | None]:
        """Values as a plotly axis takes them: ms for instants, otherwise numbers of the unit.

        They are rounded to whole ms, but where a ms is a pixel or more.
        """
        digits = 2 if self.high - self.low < _ROUNDED_FROM_MS else 0
        rounded = [None if value is None else _rounded_to(value, digits) for value in values]
        return rounded if self.instants else [None if value is None else self.unit.scale(value) for value in rounded]


_ROUNDED_FROM_MS: Final = 1_000
"""An axis as long as this has less than a pixel for a ms."""


def _rounded_to(value: Coordinate, digits: int) -> Coordinate:
    """Rounded, and an integer where it is a whole number."""
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded


@dataclass(frozen=True, slots=True)
class Numbers:
    """An axis of numbers, with its own ticks if `marked`; the low end may be the larger number."""

    title: str
    low: float
    high: float
    marked: tuple[Tick, ...] | None = None
    instants: ClassVar[bool] = False

    def ticks(self, count: int) -> list[Tick]:
        """At most `count` + 1 ticks at round numbers, or those that are marked."""
        if self.marked is not None:
            return list(self.marked)
        low, high = int(self.low), int(self.high)
        step = nice_step(max(high - low, 1), count)
        return [Tick(value, format_number(value)) for value in _multiples(low, high, step)]

    def plotted(self, values: Iterable[Coordinate | None]) -> list[float | None]:
        """Values as a plotly axis takes them."""
        return list(values)


AnyAxis = Axis | Numbers


Values = Sequence[int | None] | OverTime
"""Single values, each as important as the others, or a curve."""


def bulk(values: Iterable[int | None] | OverTime, *, least_ms: int = SECOND_MS) -> tuple[int, int]:
    """From where to where an axis in ms over the known `values` goes, so that a few far ones do not squeeze the others.

    What is beyond stands at the rim (`scene.at_rim`), and is said in words (`Axis.said_beyond`).

    The core are the values within three lengths of the middle half (at least of a second, or of `least_ms`) before and
    behind it, and those that follow without a gap of such a length. The axis goes on from value to value, the nearest
    first, while it is at most ten times as long as the core (or than a second): what is beyond would squeeze the core
    to less than a tenth. That is at most a quarter of the values at either end, and none of less than four. Where the
    middle half is one value, the length is that of the middle half of the others, and at most an eighth of all is
    beyond: one value is a line on any axis.

    Of a curve the values count by the time for which it has them, so a quarter is a quarter of the time, however many
    rows there are.

    >>> bulk([10, 20, 30, 5_000]), bulk([1_000, 2_000, 3_000, 4_000, 10**9])
    ((10, 5000), (1000, 4000))
    >>> bulk(OverTime.steps([0, 1_000, 20_000], [10**9, 1_000, 2_000]))
    (1000, 2000)
    """
    pieces = sorted(_pieces(values))
    if not any(weight for *_, weight in pieces):
        pieces = [(low, high, 1) for low, high, _ in pieces]
    total = sum(weight for *_, weight in pieces)
    lowest, highest = (pieces[0][0], max(high for _, high, _ in pieces)) if pieces else (0, 1)
    if total < _FEWEST:
        return lowest, highest
    middles = sorted(((low + high) // 2, weight) for low, high, weight in pieces)
    first, third = _middle_half(middles)
    if highest - lowest <= _SQUEEZED * max(third - first, least_ms):
        return lowest, highest
    others = [(middle, weight) for middle, weight in middles if middle != first] if first == third else []
    begins, ends = _middle_half(others) if any(weight for _, weight in others) else (first, third)
    reach = _FENCE * max(ends - begins, least_ms)
    core = next(span for span in _joined(pieces, gap=reach) if span[0] <= first <= span[1])
    low, high = _extended(core, _joined(pieces), _SQUEEZED * max(core[1] - core[0], least_ms))
    beyond = sum(weight for begin, end, weight in pieces if end < low or begin > high)
    few = first != third or _OF_EQUAL_VALUES * beyond <= total
    return (low, high) if few else (lowest, highest)


def _pieces(values: Iterable[int | None] | OverTime) -> Iterable[Piece]:
    """The pieces of a curve, or the known values, each of which counts as often as it is there."""
    if isinstance(values, OverTime):
        return values.pieces
    return [(value, value, count) for value, count in Counter(values).items() if value is not None]


def bulk_of_curves(
    curves: Iterable[Values], beside: Iterable[Values] = (), *, least_ms: int = SECOND_MS
) -> tuple[int, int]:
    """From where to where an axis goes that shows the bulk of each of the `curves`, and what is near of the others.

    The values of the curves `beside` them, the nearest first, lengthen the axis to at most ten times of what the
    `curves` take of it, or of `least_ms`.
    """
    known = [bulk(curve, least_ms=least_ms) for curve in curves if _pieces(curve)]
    others = _joined([piece for curve in beside for piece in _pieces(curve)])
    if not known:
        return (others[0][0], others[-1][1]) if others else (0, 1)
    core = min(low for low, _ in known), max(high for _, high in known)
    return _extended(core, others, _SQUEEZED * max(core[1] - core[0], least_ms))


def bulk_of_first(first: OverTime, others: Sequence[OverTime], *, least_ms: int) -> tuple[int, int]:
    """From where to where an axis goes over the bulk of the first curve, and what is near of the others.

    Where that of the first is one value, or nothing, it is over the bulk of all.
    """
    low, high = bulk(first, least_ms=least_ms)
    stands = low == high or not first.pieces
    return bulk_of_curves([first, *others] if stands else [first], others, least_ms=least_ms)


def _joined(pieces: Iterable[Piece], *, gap: int = 0) -> list[tuple[int, int]]:
    """The ranges that the pieces cover, ascending; those with no more than `gap` between them are one."""
    ranges: list[tuple[int, int]] = []
    for low, high, _ in sorted(pieces):
        if ranges and low - ranges[-1][1] <= gap:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], high)
        else:
            ranges.append((low, high))
    return ranges


def _extended(core: tuple[int, int], spans: Iterable[tuple[int, int]], longest: int) -> tuple[int, int]:
    """The core with the ranges around it, the nearest first, while it is at most so long."""
    low, high = core
    outside = (span for span in spans if span[0] < low or span[1] > high)
    for begin, end in sorted(outside, key=lambda span: (max(core[0] - span[0], span[1] - core[1]), -span[1])):
        if max(high, end) - min(low, begin) > longest:
            break
        low, high = min(low, begin), max(high, end)
    return low, high


def _middle_half(ascending: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The ends of the middle half of values with their weights, which count as so many equal values.

    Of fewer than four a quarter is none, and the first may be the larger.
    """
    last = sum(weight for _, weight in ascending) - 1
    return _at_rank(ascending, -(-last // 4)), _at_rank(ascending, 3 * last // 4)


def _at_rank(ascending: Sequence[tuple[int, int]], rank: int) -> int:
    for value, weight in ascending:
        if rank < weight:
            return value
        rank -= weight
    return ascending[-1][0]


def time_axis(
    name: str, values: Iterable[int | None], *, pad_percent: int = 0, clock: Iterable[int | None] = ()
) -> Axis:
    """An axis that covers the known `values` (ms): instants if they read as such, durations otherwise.

    They are read beside the `clock` of the run, see `is_instant`. It has a margin on both sides, of a ms at least, or a
    second if the values are equal.
    """
    known = [value for value in values if value is not None] or [0, 1]
    low, high = min(known), max(known)
    pad = max((high - low) * pad_percent // 100, min(pad_percent, 1)) if low < high else SECOND_MS
    low, high = low - pad, high + pad
    instants = is_instant(known, clock=clock)
    if instants:
        low, high = max(low, FIRST_INSTANT_MS), min(high, LAST_INSTANT_MS)
    return Axis(name, low, high, instants, duration_unit(high - low))


def nice_step(span: int, count: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, … that cuts `span` into at most `count` parts."""
    power = 1
    while 5 * power * count < span:
        power *= 10
    return next(digit * power for digit in (1, 2, 5) if digit * power * count >= span)


def duration_ticks(low_ms: int, high_ms: int, *, count: int, unit: Unit) -> list[Tick]:
    """Ticks of a duration axis; labels are plain numbers of `unit`, which the axis title names.

    Where those are long, as far from 0, each label has its units: "19 723 d 2 h".
    """
    span_ms = max(high_ms - low_ms, 1)
    fitting = (step for step in unit.steps_ms if step * count >= span_ms)
    step = next(fitting, None) or unit.ms * nice_step(-(-span_ms // unit.ms), count)
    is_long = _is_long(low_ms, high_ms, unit)
    return [
        Tick(value, exactly(value) if is_long else _plain(unit.scale(value)))
        for value in _multiples(low_ms, high_ms, step)
    ]


def _is_long(low_ms: int, high_ms: int, unit: Unit) -> bool:
    return unit.ms < DAY_MS and max(abs(low_ms), abs(high_ms)) >= _LONG_LABEL * unit.ms


def instant_ticks(low_ms: int, high_ms: int, *, count: int) -> list[Tick]:
    """Ticks of a UTC axis; the first tick and the first of each day name the day."""
    span_ms = max(high_ms - low_ms, 1)
    step = next((step for step in _INSTANT_STEPS_MS if step * count >= span_ms), None)
    if step is None:
        return _month_ticks(low_ms, high_ms, count)
    ticks, day = [], None
    for value in _multiples(low_ms, high_ms, step):
        moment = utc(value)
        clock = "" if step >= DAY_MS else _clock(moment, with_seconds=step < MINUTE_MS, with_ms=step < SECOND_MS)
        name = "" if clock and moment.date() == day else f"{_MONTHS[moment.month - 1]} {moment.day}"
        ticks.append(Tick(value, ", ".join(part for part in (name, clock) if part)))
        day = moment.date()
    return ticks


def format_number(value: int) -> str:
    """A count, short: 950, 12.5k, 3M."""
    for least, size, suffix in ((10**9, 10**9, "G"), (10**6, 10**6, "M"), (10_000, 1_000, "k")):
        if abs(value) >= least:
            return f"{_plain(value / size, 3)}{suffix}"
    return _plain(value)


def format_instant(value_ms: int, *, span_ms: int) -> str:
    """An instant in UTC, as fine as a chart over `span_ms` shows: "Jan 3, 14:20:05", "Jan 3, 14:20", "Jan 3 2024"."""
    moment = utc(value_ms)
    day = f"{_MONTHS[moment.month - 1]} {moment.day}"
    if span_ms > 60 * DAY_MS:
        return f"{day} {moment.year}"
    return f"{day}, {_clock(moment, with_seconds=span_ms < 2 * HOUR_MS, with_ms=span_ms < 10 * SECOND_MS)}"


def time_words(values: Iterable[int | None], *, clock: Iterable[int | None] = ()) -> Callable[[int], str]:
    """Writes a time as a column of these values reads: an instant as exact as their span shows, or a duration.

    They are read beside the `clock` of the run, see `is_instant`.
    """
    known = [value for value in values if value is not None]
    span_ms = max(known) - min(known)
    return partial(format_instant, span_ms=span_ms) if is_instant(known, clock=clock) else rounded


def _multiples(low: int, high: int, step: int) -> range:
    return range(-(-low // step) * step, high + 1, step)


def _month_ticks(low_ms: int, high_ms: int, count: int) -> list[Tick]:
    first, last = (moment.year * 12 + moment.month - 1 for moment in (utc(low_ms), utc(high_ms)))
    step = next((step for step in _MONTH_STEPS if step * count >= last - first), _MONTH_STEPS[-1])
    ticks = []
    for month in _multiples(first, last, step):
        year, index = divmod(month, 12)
        value = since_1970_ms(datetime(year, index + 1, 1, tzinfo=UTC))
        if value >= low_ms:
            ticks.append(Tick(value, f"{_MONTHS[index]} {year}" if step < 12 else str(year)))
    return ticks


def _clock(moment: datetime, *, with_seconds: bool, with_ms: bool) -> str:
    text = f"{moment:%H:%M:%S}" if with_seconds or with_ms else f"{moment:%H:%M}"
    return f"{text}.{moment.microsecond // 1_000:03}" if with_ms else text


def _plain(value: float, digits: int = 9) -> str:
    return f"{value:.{digits}g}".replace("-", "−")
