"""The axes of a chart: their range, where their ticks are, and how a time, a duration or a number is written.

Times and durations are integers in milliseconds, and only integers decide where a tick lies, so every platform
puts the same ticks in the same places. Instants are written in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar, Final

from wmlab.core.words import (
    DAY_MS,
    FIRST_INSTANT_MS,
    HOUR_MS,
    LAST_INSTANT_MS,
    MINUTE_MS,
    SECOND_MS,
    is_instant,
    rounded,
    since_1970_ms,
    utc,
)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Number = int | float


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

    def scale(self, value_ms: int) -> float:
        """The duration in this unit, rounded to less than 10 ms (exact in ms and s); whole values are `int`."""
        whole, rest = divmod(value_ms, self.ms)
        return whole if rest == 0 else round(value_ms / self.ms, len(str(self.ms)) - 1)


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


def duration_unit(span_ms: int) -> Unit:
    """The unit in which an axis that covers `span_ms` has numbers of one to three digits."""
    return next((unit for limit, unit in _UNITS if span_ms <= limit), Unit("d", DAY_MS, ()))


@dataclass(frozen=True, slots=True)
class Axis:
    """A range in ms and how to read it: as instants in UTC, or as durations in `unit`."""

    name: str
    low: int
    high: int
    instants: bool
    unit: Unit

    @property
    def title(self) -> str:
        """Name and unit."""
        if not self.instants:
            return f"{self.name} ({self.unit.symbol})"
        first, last = utc(self.low).year, utc(self.high).year
        return f"{self.name} (UTC, {first if first == last else f'{first} to {last}'})"

    def ticks(self, count: int) -> list[Tick]:
        """At most `count` + 1 ticks inside the range."""
        if self.instants:
            return instant_ticks(self.low, self.high, count=count)
        return duration_ticks(self.low, self.high, count=count, unit=self.unit)

    def plotted(self, values: Iterable[Number | None]) -> list[float | None]:
        """Values as a plotly axis takes them: ms for instants, otherwise numbers of the unit."""
        whole = [None if value is None else round(value) for value in values]
        return list(whole) if self.instants else [None if value is None else self.unit.scale(value) for value in whole]


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

    def plotted(self, values: Iterable[Number | None]) -> list[float | None]:
        """Values as a plotly axis takes them."""
        return list(values)


Scale = Axis | Numbers


def time_axis(
    name: str, values: Iterable[int | None], *, pad_percent: int = 0, clock: Iterable[int | None] = ()
) -> Axis:
    """An axis that covers the known `values` (ms): instants if they read as such, durations otherwise.

    They are read beside the `clock` of the run, see `is_instant`. It has a margin on both sides, or a second if the
    values are equal.
    """
    known = [value for value in values if value is not None] or [0, 1]
    low, high = min(known), max(known)
    pad = (high - low) * pad_percent // 100 if low < high else SECOND_MS
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
    """Ticks of a duration axis; labels are plain numbers of `unit`, which the axis title names."""
    span_ms = max(high_ms - low_ms, 1)
    fitting = (step for step in unit.steps_ms if step * count >= span_ms)
    step = next(fitting, None) or unit.ms * nice_step(-(-span_ms // unit.ms), count)
    return [Tick(value, _plain(unit.scale(value))) for value in _multiples(low_ms, high_ms, step)]


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
