"""What a table of time bounds says: standstills, distance from the truth, broken promises, and the sentence.

The lower bound promises that no event with a smaller time is still to come; the perfect watermark is the smallest time
that really was still to come. A lower bound above the truth broke its promise. The upper bound is the largest time a
writer had noted ahead of the reader; it is a hint and promises nothing about events (pravega/pravega#4182).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from wmlab.core.charts.steps import Value, minus
from wmlab.core.charts.ticks import format_duration, format_instant, is_instant
from wmlab.streams.charts.bounds_table import BoundsTable, Happening

_PAUSE: Final = {"crash": ("restart", "down"), "silence": ("speak", "silent")}
_NOTABLE: Final = 3


@dataclass(frozen=True, slots=True)
class Standstill:
    """A stretch of the reader's clock in which the lower bound kept one value."""

    value: int
    from_ms: int
    to_ms: int

    @property
    def length_ms(self) -> int:
        """How long it lasted."""
        return self.to_ms - self.from_ms


@dataclass(frozen=True, slots=True)
class Pause:
    """A stretch of the reader's clock in which `what` was `state`: down or silent."""

    from_ms: int
    to_ms: int
    what: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsFacts:
    """The figures behind the sentence; times in ms, counts in positions (rows).

    `checked` positions have a known lower and a known perfect watermark; `unsafe` of them have lower above truth, the
    first at `first_unsafe_ms` and by at most `worst_ms`. `mean_slack_ms` is truth minus lower over the checked
    positions, rounded half up; None if nothing could be checked.
    """

    positions: int
    unknown_lower: int
    unknown_upper: int
    standstills: tuple[Standstill, ...]
    steps_back: int
    checked: int
    unsafe: int
    first_unsafe_ms: int | None
    worst_ms: int
    mean_slack_ms: int | None
    upper_below_truth: int

    @property
    def longest(self) -> Standstill | None:
        """The longest standstill, the first of equals; None if the lower bound is never known."""
        return max(self.standstills, key=lambda s: s.length_ms, default=None)


class _Words:
    """Writes a time the way its column reads: as an instant in UTC or as seconds."""

    def __init__(self, column: Sequence[Value]) -> None:
        known = [value for value in column if value is not None]
        self._instants = is_instant(known)
        self._span_ms = max(known) - min(known)

    def __call__(self, value_ms: int) -> str:
        return format_instant(value_ms, span_ms=self._span_ms) if self._instants else format_duration(value_ms)


def find_facts(table: BoundsTable) -> BoundsFacts:
    """All figures of a table, in integer arithmetic."""
    truth = table.perfect_watermark or [None] * len(table.at_ms)
    behind = minus(truth, table.lower)
    slacks = [(slack, at) for slack, at in zip(behind, table.at_ms, strict=True) if slack is not None]
    unsafe = [(slack, at) for slack, at in slacks if slack < 0]
    known = [value for value in table.lower if value is not None]
    return BoundsFacts(
        positions=len(table.at_ms),
        unknown_lower=table.lower.count(None),
        unknown_upper=table.upper.count(None),
        standstills=tuple(find_standstills(table.at_ms, table.lower)),
        steps_back=sum(later < earlier for earlier, later in pairwise(known)),
        checked=len(slacks),
        unsafe=len(unsafe),
        first_unsafe_ms=unsafe[0][1] if unsafe else None,
        worst_ms=-min(unsafe)[0] if unsafe else 0,
        mean_slack_ms=_mean([slack for slack, _ in slacks]),
        upper_below_truth=sum(width is not None and width < 0 for width in minus(table.upper, truth)),
    )


def find_standstills(at_ms: Sequence[int], lower: Sequence[Value]) -> list[Standstill]:
    """Every stretch of one known value; it lasts until the row that changes it or makes it unknown, or to the end."""
    found: list[Standstill] = []
    start = 0
    for i in range(1, len(lower) + 1):
        value = lower[start]
        if i < len(lower) and lower[i] == value:
            continue
        if value is not None:
            found.append(Standstill(value, at_ms[start], at_ms[min(i, len(lower) - 1)]))
        start = i
    return found


def find_pauses(happened: Sequence[Happening], end_ms: int) -> list[Pause]:
    """Every stretch between a crash and its restart, or a silence and the next word; to `end_ms` if none follows."""
    pauses = []
    for number, begin in enumerate(happened):
        if begin.kind not in _PAUSE or not begin.what:
            continue
        ends_with, state = _PAUSE[begin.kind]
        ends = (later.at_ms for later in happened[number + 1 :] if (later.kind, later.what) == (ends_with, begin.what))
        pauses.append(Pause(begin.at_ms, next(ends, end_ms), begin.what, state))
    return pauses


def describe(table: BoundsTable, facts: BoundsFacts) -> str:
    """The answer in one to three sentences."""
    first = f"{_movement(table, facts)}; {_safety(table, facts)}" if facts.checked else _movement(table, facts)
    sentences = [first, _going_back(facts), _unknown(facts), _hint(facts)]
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _movement(table: BoundsTable, facts: BoundsFacts) -> str:
    longest = facts.longest
    if longest is None:
        bounds = "Both bounds are" if facts.unknown_upper == facts.positions else "The lower bound is"
        return f"{bounds} unknown at all {_positions(facts.positions)}"
    clock, event = _clock_words(table), _event_words(table)
    known = [value for value in table.lower if value is not None]
    if longest.length_ms == 0:
        return f"The lower bound is {event(known[-1])} at {clock(table.at_ms[-1])}"
    if not _is_notable(longest, facts.standstills):
        verb = "moved" if facts.steps_back else "rose"
        never = f"and never stood still for more than {format_duration(longest.length_ms)}"
        return f"The lower bound {verb} from {event(known[0])} to {event(known[-1])} {never}"
    until = "the end at " if longest is facts.standstills[-1] and table.lower[-1] is not None else ""
    stretch = f"from {clock(longest.from_ms)} to {until}{clock(longest.to_ms)}"
    still = f"stood still at {event(longest.value)} for {format_duration(longest.length_ms)} ({stretch})"
    return f"The lower bound {still}{_meanwhile(table, longest)}"


def _is_notable(longest: Standstill, standstills: Sequence[Standstill]) -> bool:
    lengths = sorted(standstill.length_ms for standstill in standstills if standstill.length_ms)
    return len(standstills) == 1 or longest.length_ms >= _NOTABLE * lengths[(len(lengths) - 1) // 2]


def _meanwhile(table: BoundsTable, still: Standstill) -> str:
    """Who was down or silent for at least half of a standstill."""
    states: dict[str, list[str]] = {}
    for pause in find_pauses(table.happened, table.at_ms[-1]):
        if 2 * (min(pause.to_ms, still.to_ms) - max(pause.from_ms, still.from_ms)) >= still.length_ms:
            names = states.setdefault(pause.state, [])
            names += [pause.what] if pause.what not in names else []
    said = [f"{_listed(names)} {'was' if len(names) == 1 else 'were'} {state}" for state, names in states.items()]
    return f" while {' and '.join(said)}" if said else ""


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if len(names) <= 3:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{names[0]}, {names[1]} and {len(names) - 2} others"


def _safety(table: BoundsTable, facts: BoundsFacts) -> str:
    if facts.unsafe:
        first = _clock_words(table)(facts.first_unsafe_ms or 0)
        return (
            f"it is not safe: above the truth at {facts.unsafe:,} of {_positions(facts.checked)}"
            f", first at {first}, by up to {format_duration(facts.worst_ms)}"
        )
    slack = facts.mean_slack_ms or 0
    distance = f"{format_duration(slack)} behind the truth" if slack else "at the truth"
    if facts.checked == 1:
        return f"it is safe at the only position that can be checked, {distance}"
    where = "all" if facts.checked == facts.positions else "the"
    which = "" if facts.checked == facts.positions else " that can be checked"
    return f"it is safe at {where} {_positions(facts.checked)}{which} and on average {distance}"


def _going_back(facts: BoundsFacts) -> str:
    return f"The lower bound went back {_times(facts.steps_back)}" if facts.steps_back else ""


def _unknown(facts: BoundsFacts) -> str:
    lower = facts.unknown_lower if facts.longest else 0
    upper = facts.unknown_upper if facts.longest or facts.unknown_upper < facts.positions else 0
    if lower and upper:
        return f"The lower bound is unknown at {_positions(lower)}, the upper bound at {upper:,}"
    if lower:
        return f"The lower bound is unknown at {_positions(lower)}"
    return f"The upper bound is unknown at {_positions(upper)}" if upper else ""


def _hint(facts: BoundsFacts) -> str:
    count = facts.upper_below_truth
    return f"The upper bound, which is a hint, is below the truth at {_positions(count)}" if count else ""


def _clock_words(table: BoundsTable) -> _Words:
    return _Words(table.at_ms)


def _event_words(table: BoundsTable) -> _Words:
    return _Words([*table.lower, *table.upper, *(table.perfect_watermark or [])])


def _mean(values: Sequence[int]) -> int | None:
    return (2 * sum(values) + len(values)) // (2 * len(values)) if values else None


def _positions(count: int) -> str:
    return f"{count:,} position{'' if count == 1 else 's'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
