"""The axes of a chart: their range, where their ticks are, and how a time, a duration or a number is written.

Times and durations are integers in milliseconds, and only integers decide where a tick lies. So every platform puts the
same ticks at the same values. Instants are written in UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import ClassVar, Final

from wmlab.core.words import (
    DAY_MS,
    FIRST_INSTANT_MS,
    HOUR_MS,
    LAST_INSTANT_MS,
    MINUTE_MS,
    SECOND_MS,
    exactly,
    is_instant,
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
_OUTER: Final = 4
_REACH: Final = 4
"""One part in so many of a curve's time may be beyond an axis at either end, and only what is so many lengths of the
rest away."""
_LONG_LABEL: Final = 100_000
"""From how many units on the numbers of a duration axis are written with several units: "19 723 d 2 h"."""
_FROM_0, _WIDER = 0.05, 0.02
"""By which share of its range an axis is made longer: to begin at 0, and to end at round numbers."""
_YEARS_MS: Final = 1_000 * DAY_MS


def duration_unit(span_ms: int) -> Unit:
    """The unit in which an axis that covers `span_ms` has numbers of one to three digits."""
    return next((unit for limit, unit in _UNITS if span_ms <= limit), Unit("d", DAY_MS, ()))


Piece = tuple[int, int, int]
"""A stretch of a curve that lies between two values, the smaller first, and for how long, in ms."""


def held(xs: Sequence[int], ys: Sequence[int | None]) -> list[Piece]:
    """The pieces of a curve that holds each value until the next x, and the last for no time; None is unknown."""
    lengths = [*(after - before for before, after in pairwise(xs)), 0]
    return [(y, y, length) for y, length in zip(ys, lengths, strict=False) if y is not None]


def sloping(xs: Sequence[int], ys: Sequence[int | None]) -> list[Piece]:
    """The pieces of straight lines through points; those that go straight up take no time, and None breaks the line."""
    points = list(zip(xs, ys, strict=True))
    lines = [
        (min(before, y), max(before, y), x - from_x)
        for (from_x, before), (x, y) in pairwise(points)
        if before is not None and y is not None
    ]
    return [*lines, *((y, y, 0) for _, y in points if y is not None)]


def single(values: Iterable[int | None]) -> list[Piece]:
    """Values of which each counts as much as the others; None is unknown."""
    return [(value, value, count) for value, count in Counter(values).items() if value is not None]


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

    def parts(self, count: int) -> int:
        """Into how many parts, at most `count`, the ticks of a duration axis cut the range."""
        low, high = self._ends
        return max((high - low) // _step(low, high, count, self.unit), 1)

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


def shown_range(
    curves: Iterable[Sequence[Piece]], beside: Iterable[Sequence[Piece]] = (), *, least_ms: int = SECOND_MS
) -> tuple[int, int]:
    """From where to where an axis in ms over the `curves` goes, so that a few far values do not squeeze the others.

    Of each curve the middle half of its time is always shown. The axis goes on to the outermost value that is
    at most four lengths of that range away, a length being `least_ms` or more. Values of the curves `beside` them are
    shown as far as they are in this reach; if the `curves` hold one value, these count as much.
    What is beyond is not drawn, and said after the answer (`Scene.beyond`).

    >>> shown_range([single([*range(100), 300, 10**9])])
    (0, 300)
    >>> shown_range([held([0, 1_000, 20_000], [10**9, 1_000, 2_000])])
    (1000, 2000)
    """
    known = [pieces for pieces in curves if pieces]
    others = [pieces for pieces in beside if pieces]
    if not known:
        known, others = others, []
    if not known:
        return 0, 1
    middles = [_middle(pieces) for pieces in known]
    if min(middles)[0] == max(end for _, end in middles):
        middles += [_middle(pieces) for pieces in others]
    low, high = min(begin for begin, _ in middles), max(end for _, end in middles)
    reach = _REACH * max(high - low, least_ms)
    ends = [end for pieces in (*known, *others) for piece in pieces for end in piece[:2]]
    near = [low, high, *(end for end in ends if low - reach <= end <= high + reach)]
    return min(near), max(near)


def _middle(pieces: Sequence[Piece]) -> tuple[int, int]:
    """The range outside of which a curve is for less than a quarter of its time at either end."""
    if not any(length for *_, length in pieces):
        pieces = [(low, high, 1) for low, high, _ in pieces]
    share = sum(length for *_, length in pieces) / _OUTER
    downwards = _after(sorted(((high, length) for _, high, length in pieces), reverse=True), share)
    return _after(sorted((low, length) for low, _, length in pieces), share), downwards


def _after(ordered: Sequence[tuple[int, int]], time_ms: float) -> int:
    """The value that is reached when values with their times have taken so long."""
    for value, length in ordered:
        time_ms -= length
        if time_ms < 0:
            return value
    return ordered[-1][0]


def time_axis(
    name: str, values: Iterable[int | None], *, pad_percent: int = 0, clock: Iterable[int | None] = ()
) -> Axis:
    """An axis that covers the known `values` (ms): instants if they read as such, durations otherwise.

    They are read by the `clock` of the run, see `is_instant`. It has a margin on both sides, of a ms at least, or of a
    second if the values are equal. Durations without a margin begin and end at round numbers nearby, so that the ends
    have ticks.
    """
    known = [value for value in values if value is not None] or [0, 1]
    low, high = min(known), max(known)
    pad = max((high - low) * pad_percent // 100, min(pad_percent, 1)) if low < high else SECOND_MS
    low, high = low - pad, high + pad
    instants = is_instant(known, clock=clock)
    if instants:
        low, high = max(low, FIRST_INSTANT_MS), min(high, LAST_INSTANT_MS)
    elif not pad_percent:
        low, high = _round_ends(low, high)
    return Axis(name, low, high, instants, duration_unit(high - low))


def _round_ends(low: int, high: int) -> tuple[int, int]:
    """The ends moved outwards, to 0 or to multiples of the largest step between ticks that is near enough."""
    if 0 < low <= _FROM_0 * (high - low):
        low = 0
    span = high - low
    for step in reversed(duration_unit(span).steps_ms):
        begin, end = low // step * step, -(-high // step) * step
        if (end - begin - span) <= _WIDER * span:
            return begin, end
    return low, high


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
    step = _step(low_ms, high_ms, count, unit)
    is_long = _is_long(low_ms, high_ms, unit)
    return [
        Tick(value, exactly(value) if is_long else _plain(unit.scale(value)))
        for value in _multiples(low_ms, high_ms, step)
    ]


def _step(low_ms: int, high_ms: int, count: int, unit: Unit) -> int:
    """The step between the ticks of a duration axis: rather one with ticks at both ends, if that has three parts."""
    span_ms = max(high_ms - low_ms, 1)
    fitting = [step for step in unit.steps_ms if step * count >= span_ms]
    to_the_ends = (step for step in fitting if low_ms % step == high_ms % step == 0 and 3 * step <= span_ms)
    shortest = fitting[0] if fitting else unit.ms * nice_step(-(-span_ms // unit.ms), count)
    return next(to_the_ends, shortest)


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

    They are read by the `clock` of the run, see `is_instant`.
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
