"""What a table of progress says in one sentence: how long time stood, who held it, and what waited."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wmlab.core.charts.steps import Value
from wmlab.core.charts.ticks import format_duration, format_instant, is_instant
from wmlab.progress.charts.table import ProgressTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """The longest time for which a value did not change: the value, from when to when (clock, ms), and in which rows.

    `ended` tells whether the value changed at `until_ms`, or the table ends there.
    """

    value: Value
    from_ms: int
    until_ms: int
    rows: range
    ended: bool

    @property
    def lasted_ms(self) -> int:
        """How long it lasted."""
        return self.until_ms - self.from_ms


def longest_standstill(at_ms: Sequence[int], values: Sequence[Value]) -> Standstill:
    """The longest stretch of equal values; the first one of several."""
    found: list[Standstill] = []
    begin = 0
    for row in range(1, len(values) + 1):
        if row == len(values) or values[row] != values[begin]:
            ended = row < len(values)
            until = at_ms[row] if ended else at_ms[-1]
            stretch = Standstill(
                value=values[begin], from_ms=at_ms[begin], until_ms=until, rows=range(begin, row), ended=ended
            )
            found.append(stretch)
            begin = row
    return max(found, key=lambda stretch: (stretch.lasted_ms, -stretch.from_ms))


def holders(table: ProgressTable, stretch: Standstill) -> list[str]:
    """The origins whose local watermark was the global one all through a stretch; without one, those unheard of."""
    last: dict[str, Value] = dict.fromkeys(table.emitters)
    for row in range(stretch.rows.stop):
        last[table.emitter[row]] = table.local[row]
    return [name for name, value in last.items() if value == stretch.value]


def describe_progress(table: ProgressTable) -> str:
    """The sentence of the chart of watermarks."""
    when = clock_words(table.at_ms)
    stretch = longest_standstill(table.at_ms, table.overall)
    known = [value for value in table.overall if value is not None]
    if not known:
        silent = holders(table, stretch)
        who = f"; nothing complete came from {_and(silent)}" if silent else ", for a declared origin sent nothing"
        return f"The global watermark is unknown throughout{who}."
    value = "was unknown" if stretch.value is None else f"stood at {clock_words(known)(stretch.value)}"
    end = "" if stretch.ended else ", the end of the table"
    by = _and(holders(table, stretch)) or "an origin that had not sent"
    back = sum(a > b for a, b in itertools.pairwise(known))
    falls = f" It went back {back} times." if back > 1 else " It went back once." if back else ""
    return (
        f"The global watermark {value} for {format_duration(stretch.lasted_ms)} (from {when(stretch.from_ms)} to "
        f"{when(stretch.until_ms)}{end}), held by {by}.{falls}"
    )


def describe_prefix(table: ProgressTable, emitter: str) -> str:
    """The sentence of the chart of one origin's prefix."""
    rows = table.of(emitter)
    at_ms, prefix = [table.at_ms[row] for row in rows], [table.prefix[row] for row in rows]
    when = clock_words(table.at_ms)
    waiting = _waiting([table.sequence[row] for row in rows], prefix)
    most = max(waiting)
    if not most:
        return f"All {len(rows)} buffers of {emitter} came in order; its prefix never waited."
    # A gap is a stretch in which the prefix stands while something waits behind it.
    gapped: list[Value] = [p if w else None for p, w in zip(prefix, waiting, strict=True)]
    at_most = waiting.index(most)
    begin = next(place for place in range(at_most, -1, -1) if place == 0 or gapped[place - 1] != gapped[at_most])
    end = next((place for place in range(at_most, len(rows)) if prefix[place] != prefix[at_most]), None)
    lacking = f"The prefix of {emitter} stood at {prefix[at_most]} for want of sequence {prefix[at_most] + 1}"
    if end is None:
        return f"{lacking} from {when(at_ms[begin])} to the end; {_buffers(most)} wait behind it."
    jump = f"then the prefix jumped to {prefix[end]}"
    lasted = format_duration(at_ms[end] - at_ms[begin])
    return f"{lacking} for {lasted} (from {when(at_ms[begin])}), with {_buffers(most)} behind it; {jump}."


def _waiting(sequences: Sequence[int], prefix: Sequence[int]) -> list[int]:
    """How many buffers beyond the prefix have come, after each arrival."""
    pending: Counter[int] = Counter()
    found, reached = [], 0
    for sequence, length in zip(sequences, prefix, strict=True):
        if sequence > reached:
            pending[sequence] += 1
        for number in range(reached + 1, length + 1):
            pending.pop(number, None)
        reached = length
        found.append(pending.total())
    return found


def clock_words(values: Sequence[int]) -> ClockWords:
    """How to write the instants or durations of one axis."""
    return ClockWords(is_instant(values), max(values) - min(values))


@dataclass(frozen=True, slots=True)
class ClockWords:
    """Writes a time: as an instant in UTC, or as a duration."""

    instants: bool
    span_ms: int

    def __call__(self, value: int) -> str:
        """The time in words."""
        return format_instant(value, span_ms=self.span_ms) if self.instants else format_duration(value)


def _buffers(count: int) -> str:
    return "1 buffer" if count == 1 else f"{count:,} buffers"


def _and(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
