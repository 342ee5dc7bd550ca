"""What a table of time bounds says: the rows in the reader's order, standstills, distances, and the sentence.

The lower bound promises that no event with a smaller time is still to come; the perfect watermark is the smallest time
that really was still to come. A lower bound above it broke its promise. The upper bound is the largest time a writer
had noted ahead of the reader; it is a hint and promises nothing about events (pravega/pravega#4182).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from wmlab.core.charts.axis import TimeWords, format_duration
from wmlab.core.charts.rows import one_value, plain_columns, whole
from wmlab.core.charts.steps import Standstill, Value, minus, standstills
from wmlab.core.errors import ChartError
from wmlab.core.words import listed

_REQUIRED: Final[tuple[str, ...]] = ("stream", "at_ms", "lower", "upper")
_TIMES: Final[tuple[str, ...]] = ("at_ms", "lower", "upper", "perfect_watermark")
_KEYS: Final = ("stream", "group", "segment_id")
_OPTIONAL: Final[tuple[str, ...]] = ("group", "segment_id", "version", "perfect_watermark", "happened")
_VERBS: Final[dict[str, str]] = {
    "crash": "crashes",
    "restart": "restarts",
    "silence": "falls silent",
    "speak": "speaks again",
}
_PAUSE: Final = {"crash": ("restart", "down"), "silence": ("speak", "silent")}
_NOTABLE: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class Happening:
    """Something that happened to the stream: when, its kind (scale, crash, restart, silence, speak), and to what."""

    at_ms: int
    kind: str
    what: str

    @property
    def label(self) -> str:
        """What a chart writes beside its line: "w2 crashes", "scale 0@0 → 2@1, 3@1", "payments aborts"."""
        if self.kind in _VERBS and self.what:
            return f"{self.what} {_VERBS[self.kind]}"
        # Only of a scale the phrase is no sentence of its own.
        return f"{self.kind} {self.what}".strip() if self.kind == "scale" or not self.what else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsTable:
    """The bounds that one reader or group saw, ascending by `at_ms`; None is unknown.

    `perfect_watermark` is None as a whole if the table has no such column.
    """

    stream: str
    group: str | None
    at_ms: list[int]
    lower: list[Value]
    upper: list[Value]
    perfect_watermark: list[Value] | None
    happened: list[Happening]


def read_bounds(frame: Any) -> BoundsTable:
    """Read a pandas DataFrame, or a Spark one (anything with `columns`, `[...]` and `toArrow()`).

    Needs `stream`, `at_ms`, `lower`, `upper`; uses `group`, `segment_id`, `version`, `perfect_watermark` and `happened`
    if they are there. Raises `ChartError` for a missing column, no rows, a time that is no integer, or rows of several
    streams, groups or segments.
    """
    cells = plain_columns(
        frame, _REQUIRED, _OPTIONAL, chart="A chart of time bounds", example="recording.time_bounds(spark)"
    )
    if not cells["at_ms"]:
        raise ChartError(
            "The table of bounds has no rows.",
            remedy="Draw a recording in which a reader read something, or loosen the filter.",
        )
    for name in _KEYS:
        one_value(name, cells.get(name, []))
    times = {
        name: [whole(name, value, unknown=name != "at_ms") for value in cells[name]] for name in _TIMES if name in cells
    }
    order = _order(times, cells)
    group = cells.get("group", [None])[0]
    return BoundsTable(
        stream=str(cells["stream"][0]),
        group=None if group is None else str(group),
        at_ms=[value for i in order if (value := times["at_ms"][i]) is not None],
        lower=[times["lower"][i] for i in order],
        upper=[times["upper"][i] for i in order],
        perfect_watermark=[times["perfect_watermark"][i] for i in order] if "perfect_watermark" in times else None,
        happened=_happenings(cells.get("happened", [])),
    )


def _order(times: Mapping[str, list[Value]], cells: Mapping[str, list[Any]]) -> list[int]:
    """Row numbers by clock, then by version; rows that still tie are ordered by what they say, so the result is one."""
    versions = cells.get("version") or [0] * len(times["at_ms"])
    names = [name for name in ("lower", "upper", "perfect_watermark") if name in times]

    def key(i: int) -> tuple[Any, ...]:
        said = [(value is not None, value or 0) for value in (times[name][i] for name in names)]
        return times["at_ms"][i], versions[i] if versions[i] is not None else -1, *said

    return sorted(range(len(times["at_ms"])), key=key)


def _happenings(cells: Iterable[Any]) -> list[Happening]:
    found = {_happening(entry) for cell in cells if cell is not None for entry in cell}
    return sorted(found)


def _happening(entry: Any) -> Happening:
    fields = entry.asDict() if hasattr(entry, "asDict") else entry
    if not isinstance(fields, Mapping) or not {"at_ms", "kind", "what"} <= fields.keys():
        raise ChartError(
            f"Column 'happened' holds {entry!r}.",
            remedy="Give each cell as a list of structs with at_ms, kind and what, or null.",
        )
    at_ms = whole("at_ms", fields["at_ms"])
    kind, what = str(fields["kind"]), "" if fields["what"] is None else str(fields["what"])
    return Happening(at_ms or 0, kind, what.removesuffix(_VERBS.get(kind, "")).strip())


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

    `checked` positions have a known lower and a known perfect watermark; `unsafe` of them have lower above it, the
    first at `first_unsafe_ms` and by at most `worst_ms`. `mean_slack_ms` is perfect watermark minus lower over the
    checked positions, rounded half up; None if nothing could be checked.
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
    upper_below_perfect: int

    @property
    def longest(self) -> Standstill | None:
        """The longest standstill, the first of equals; None if the lower bound is never known."""
        return max(self.standstills, key=lambda s: s.length_ms, default=None)


def find_facts(table: BoundsTable) -> BoundsFacts:
    """All figures of a table, in integer arithmetic."""
    perfect = table.perfect_watermark or [None] * len(table.at_ms)
    behind = minus(perfect, table.lower)
    slacks = [(slack, at) for slack, at in zip(behind, table.at_ms, strict=True) if slack is not None]
    unsafe = [(slack, at) for slack, at in slacks if slack < 0]
    known = [value for value in table.lower if value is not None]
    return BoundsFacts(
        positions=len(table.at_ms),
        unknown_lower=table.lower.count(None),
        unknown_upper=table.upper.count(None),
        standstills=tuple(s for s in standstills(table.at_ms, table.lower) if s.value is not None),
        steps_back=sum(later < earlier for earlier, later in pairwise(known)),
        checked=len(slacks),
        unsafe=len(unsafe),
        first_unsafe_ms=unsafe[0][1] if unsafe else None,
        worst_ms=-min(unsafe)[0] if unsafe else 0,
        mean_slack_ms=_mean([slack for slack, _ in slacks]),
        upper_below_perfect=sum(width is not None and width < 0 for width in minus(table.upper, perfect)),
    )


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
    clock = TimeWords.of(table.at_ms)
    event = TimeWords.of([*table.lower, *table.upper, *(table.perfect_watermark or [])])
    known = [value for value in table.lower if value is not None]
    if longest.length_ms == 0:
        return f"The lower bound is {event(known[-1])} at {clock(table.at_ms[-1])}"
    if not _is_notable(longest, facts.standstills):
        verb = "moved" if facts.steps_back else "rose"
        never = f"and never stood still for more than {format_duration(longest.length_ms)}"
        return f"The lower bound {verb} from {event(known[0])} to {event(known[-1])} {never}"
    until = "" if longest.ended else "the end at "
    stretch = f"from {clock(longest.from_ms)} to {until}{clock(longest.to_ms)}"
    still = f"stood still at {event(longest.value or 0)} for {format_duration(longest.length_ms)} ({stretch})"
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
    said = [
        f"{listed(names, most=3, rest='others')} {'was' if len(names) == 1 else 'were'} {state}"
        for state, names in states.items()
    ]
    return f" while {' and '.join(said)}" if said else ""


def _safety(table: BoundsTable, facts: BoundsFacts) -> str:
    if facts.unsafe:
        first = TimeWords.of(table.at_ms)(facts.first_unsafe_ms or 0)
        return (
            f"it is not safe: above the perfect watermark at {facts.unsafe:,} of {_positions(facts.checked)}"
            f", first at {first}, by up to {format_duration(facts.worst_ms)}"
        )
    slack = facts.mean_slack_ms or 0
    distance = f"{format_duration(slack)} behind the perfect watermark" if slack else "at the perfect watermark"
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
    count = facts.upper_below_perfect
    return f"The upper bound, which is a hint, is below the perfect watermark at {_positions(count)}" if count else ""


def _mean(values: Sequence[int]) -> int | None:
    return (2 * sum(values) + len(values)) // (2 * len(values)) if values else None


def _positions(count: int) -> str:
    return f"{count:,} position{'' if count == 1 else 's'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
