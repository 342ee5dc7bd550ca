"""A second judge: I1 to I12 from the rows of a recording in plain Python, in loops over all rows.

It shares no code with the simulator, with the model, or with the checks; what they have in common is the recording
and the words of the invariants. `Found` is what can be compared: how much was judged, and when something was broken.

On stream cuts, key by key: the bounds of all key ranges of a stream part its key space into atoms, so a range is a set
of atoms, and for each atom it matters which segment of a cut is the latest there, and how far it reaches. On late
events: an event is late when it is first read after a window of its group showed a larger lower bound. That is nobody's
fault when its writer had noted nothing, had been dropped, or had noted a larger time at a place that does not cover the
event; then it does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

Row = dict[str, Any]
Rows = Mapping[str, list[Row]]
"""The rows of one stream, by table."""
Answer = tuple[int, list[int]]
"""How many single things were judged, and when (ms) something was broken."""
KnownOverTime = Iterator[tuple[int, tuple[int | None, int | None]]]
"""When (ms) which lower and upper bound were known."""
Place = tuple[int, float]
"""A segment and how far in it: bytes, beyond all of them, or before its start."""

_NEVER_MS: Final = 2**63

# The log and the windows: I1, I2, I7, I8 and I9.


def log_of(rows: Rows) -> list[Row]:
    """The watermarks in the order of the log."""
    return sorted(rows["watermarks"], key=lambda row: (row["seq"], row["revision"], row["emitted_ms"]))


def lower_increases(rows: Rows) -> Answer:
    """I1."""
    pairs = list(pairwise(log_of(rows)))
    return len(pairs), [later["emitted_ms"] for earlier, later in pairs if later["lower"] <= earlier["lower"]]


def upper_never_decreases(rows: Rows) -> Answer:
    """I2: of a stream that was never led by two at a time."""
    cycles = [(row["controller"], row["at_ms"], row["at_ms"]) for row in rows["cycles"]]
    cycles += [
        (row["controller"], row["cycle_ms"] or row["emitted_ms"], row["emitted_ms"]) for row in rows["watermarks"]
    ]
    terms = [(row["controller"], row["from_ms"], row["to_ms"] or _NEVER_MS) for row in rows["ownership"]]
    if not terms:  # who owned the bucket is not known: a term is from the first cycle to the last one
        for name in {name for name, _, _ in cycles}:
            own = [at_ms for other, *span in cycles for at_ms in span if other == name]
            terms.append((name, min(own), max(own)))
    if any(led != owns and begin < to and end > since for led, begin, end in cycles for owns, since, to in terms):
        return 0, []
    pairs = list(pairwise(log_of(rows)))
    return len(pairs), [later["emitted_ms"] for earlier, later in pairs if later["upper"] < earlier["upper"]]


def bounds_in_order(rows: Rows) -> Answer:
    """I7, of watermarks and of windows."""
    bounds = [(row["lower"], row["upper"], row["emitted_ms"]) for row in rows["watermarks"]]
    bounds += [(row["lower"], row["upper"], row["at_ms"]) for row in rows["windows"]]
    known = [(lower, upper, at) for lower, upper, at in bounds if lower is not None and upper is not None]
    return len(known), [at for lower, upper, at in known if lower > upper]


def one_winner(rows: Rows) -> Answer:
    """I8: places and revisions strictly increase."""
    log = log_of(rows)
    broken = [
        later["emitted_ms"]
        for earlier, later in pairwise(log)
        if later["seq"] == earlier["seq"] or later["revision"] <= earlier["revision"]
    ]
    return len(log), broken


def windows_monotone(rows: Rows) -> Answer:
    """I9, within each life of each reader."""
    log_falls = any(later["upper"] < earlier["upper"] for earlier, later in pairwise(log_of(rows)))
    lives: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows["windows"]:
        who = (row["group"], row["reader"])
        faults = sum(_befell(fault, *who) and fault["at_ms"] <= row["at_ms"] for fault in rows["incidents"])
        lives[*who, faults].append(row)
    judged, broken = 0, []
    for seen in lives.values():
        seen.sort(key=lambda row: (row["at_ms"], _nulls_first(row["lower"]), _nulls_first(row["upper"])))
        judged += len(seen) - 1
        last_lower = last_upper = None
        for row in seen:
            back = False
            if row["lower"] is not None:
                back = last_lower is not None and row["lower"] < last_lower
                last_lower = row["lower"]
            if row["upper"] is not None:
                back |= not log_falls and last_upper is not None and row["upper"] < last_upper
                last_upper = row["upper"]
            if back:
                broken.append(row["at_ms"])
    return judged, broken


def _befell(fault: Row, group: str, reader: str) -> bool:
    """Whether an incident changed this reader or its group; a writer, for one, may have the same name."""
    return fault["outcome"] == "done" and (fault["subject"], fault["target"]) in (("reader", reader), ("group", group))


def _nulls_first(value: int | None) -> tuple[bool, int]:
    return value is not None, value or 0


# Stream cuts: I3, I4 and I5.


def cut_never_moves_back(rows: Rows) -> Answer:
    """I3, of neighbours in the log that name known segments only."""
    atoms = _atoms(rows)
    judged, broken = 0, []
    for earlier, later in pairwise(log_of(rows)):
        if not (earlier["cut"].keys() | later["cut"].keys()) - atoms.keys():
            judged += 1
            if _behind(_ends(earlier["cut"]), _ends(later["cut"]), atoms):
                broken.append(later["emitted_ms"])
    return judged, broken


def cut_beyond_writers(rows: Rows) -> Answer:
    """I4: of the marks that a cycle can have counted, one at least is not ahead of the cut."""
    atoms = _atoms(rows)
    judged, broken = 0, []
    for entry in log_of(rows):
        if entry["cut"].keys() - atoms.keys():
            continue
        reach = _ends(entry["cut"])
        for writer in sorted(entry["writers"]):
            positions = counted_positions(rows, entry, writer)
            judged += bool(positions)
            if positions and all(_behind(_starts(position), reach, atoms) for position in positions):
                broken.append(entry["emitted_ms"])
                break
    return judged, broken


def cut_complete(rows: Rows) -> Answer:
    """I5: every atom once, and every ancestor of the segments of the cut is behind the cut at each of its atoms."""
    atoms, ancestors = _atoms(rows), _ancestors(rows)
    space = frozenset().union(*(atoms[segment] for segment in _members(rows).get(0, ())))
    log = log_of(rows)
    return len(log), [row["emitted_ms"] for row in log if not _complete(row["cut"], atoms, space, ancestors)]


def counted_positions(rows: Rows, entry: Row, writer: str) -> list[dict[int, int | None]]:
    """The position of the mark that a watermark counted of a writer; of several in one ms with that time, of each."""
    time, received_ms = entry["writers"][writer], entry["counted"].get(writer)
    return [
        mark["position"]
        for mark in rows["writer_marks"]
        if (mark["writer"], mark["time"], mark["outcome"]) == (writer, time, "success")
        and mark["received_ms"] == received_ms
    ]


def _atoms(rows: Rows) -> dict[int, frozenset[int]]:
    """The atoms of every segment."""
    ranges = {row["segment_id"]: tuple(map(Fraction, row["keys"].split(".."))) for row in rows["segments"]}
    bounds = sorted({bound for low_high in ranges.values() for bound in low_high})
    place = {bound: number for number, bound in enumerate(bounds)}
    return {segment: frozenset(range(place[low], place[high])) for segment, (low, high) in ranges.items()}


def overlapping(rows: Rows) -> dict[int, set[int]]:
    """The segments over some of a segment's keys, by segment."""
    atoms = _atoms(rows)
    return {one: {other for other in atoms if other != one and atoms[one] & atoms[other]} for one in atoms}


def _members(rows: Rows) -> dict[int, list[int]]:
    return {row["epoch"]: row["segment_ids"] for row in rows["epochs"]}


def _ancestors(rows: Rows) -> dict[int, set[int]]:
    """Everything that each segment came from, directly or not."""
    atoms, members = _atoms(rows), _members(rows)
    parents = defaultdict(set)
    for epoch, ids in members.items():
        gone = set(members.get(epoch - 1, ())) - set(ids)
        for segment in set(ids) - set(members.get(epoch - 1, ())):
            parents[segment] = {parent for parent in gone if atoms[parent] & atoms[segment]}
    ancestors: dict[int, set[int]] = {}
    for segment in sorted(atoms):
        ancestors[segment] = parents[segment].union(*(ancestors[parent] for parent in parents[segment]))
    return ancestors


def _complete(
    cut: Mapping[int, int | None],
    atoms: Mapping[int, frozenset[int]],
    space: frozenset[int],
    ancestors: Mapping[int, set[int]],
) -> bool:
    if cut.keys() - atoms.keys() or sum(len(atoms[segment]) for segment in cut) != len(space):
        return False
    at = {atom: segment for segment in cut for atom in atoms[segment]}
    waited_for = set().union(*(ancestors[segment] for segment in cut))
    return at.keys() == space and all(at[atom] > old for old in waited_for for atom in atoms[old])


def _behind(position: Mapping[int, float], cut: Mapping[int, float], atoms: Mapping[int, frozenset[int]]) -> bool:
    """Whether the cut lies behind the position at some atom that both cover."""
    reach = _latest(cut, atoms)
    return any(
        atom in reach and reach[atom] < (segment, offset)
        for segment, offset in position.items()
        for atom in atoms.get(segment, ())
    )


def _latest(cut: Mapping[int, float], atoms: Mapping[int, frozenset[int]]) -> dict[int, Place]:
    return {atom: (segment, cut[segment]) for segment in sorted(cut) for atom in atoms[segment]}


def _ends(cut: Mapping[int, int | None]) -> dict[int, float]:
    return {segment: float("inf") if offset is None else offset for segment, offset in cut.items()}


def _starts(position: Mapping[int, int | None]) -> dict[int, float]:
    return {segment: -1 if offset is None else offset for segment, offset in position.items()}


# Late events: I6.


def nothing_late(rows: Rows) -> Answer:
    """I6."""
    judged, broken = 0, []
    overlaps = None
    for event, promised, read_ms in deliveries(rows):
        judged += 1
        if event["event_time"] < promised:
            overlaps = overlaps or overlapping(rows)
            if _is_wrong(rows, event, promised, overlaps):
                broken.append(read_ms)
    return judged, broken


def deliveries(rows: Rows) -> Iterator[tuple[Row, int, int]]:
    """Every event that a group read while it had a bound: the event, the largest bound shown before, and when."""
    events = defaultdict(list)
    for event in rows["events"]:
        events[event["segment_id"]].append(event)
    shown = defaultdict(list)
    for window in rows["windows"]:
        if window["lower"] is not None:
            shown[window["group"]].append((window["at_ms"], window["lower"]))
    for read in rows["reads"]:
        promised = max((lower for at, lower in shown[read["group"]] if at < read["at_ms"]), default=None)
        if promised is not None and not read["again"]:
            for event in events[read["segment_id"]]:
                if read["from_offset"] < event["offset"] <= read["to_offset"]:
                    yield event, promised, read["at_ms"]


def _is_wrong(rows: Rows, event: Row, promised: int, overlaps: Mapping[int, set[int]]) -> bool:
    """Whether one of the bounds above the event that were shown was wrong about its writer."""
    marks = [mark for mark in rows["writer_marks"] if (mark["writer"], mark["outcome"]) == (event["writer"], "success")]
    if not marks:
        return False
    bounds = [entry for entry in rows["watermarks"] if event["event_time"] < entry["lower"] <= promised]
    return not bounds or any(not _excused(rows, event, entry, marks, overlaps) for entry in bounds)


def _excused(rows: Rows, event: Row, entry: Row, marks: list[Row], overlaps: Mapping[int, set[int]]) -> bool:
    """Whether a bound is right about the writer of a late event all the same."""
    writer = event["writer"]
    if writer in entry["writers"]:
        counted = counted_positions(rows, entry, writer)
        return bool(counted) and not _covers(counted[-1], event, overlaps)
    noted = [mark["received_ms"] for mark in marks if mark["received_ms"] < entry["cycle_ms"]]
    if not noted:
        return True
    return any(writer in row["removed"] and max(noted) <= row["at_ms"] <= entry["emitted_ms"] for row in rows["cycles"])


def _covers(position: Mapping[int, int | None], event: Row, overlaps: Mapping[int, set[int]]) -> bool:
    """Whether a position lies beyond an event."""
    segment = event["segment_id"]
    if segment in position:
        return position[segment] is not None and position[segment] >= event["offset"]
    return any(other > segment for other in overlaps[segment] & position.keys())


# What the document promises of time: I10, I11 and I12.


_LOST: Final = ("unknown segment", "no positions", "time not advanced")
"""The causes for which a cycle that waits for nobody need not emit."""


def lower_rises(rows: Rows) -> Answer:
    """I10: of the cycles of one owner that find the same bound and some writer beyond it, those overdue emit."""
    taken = [(row["from_ms"], "", row) for row in rows["ownership"]]
    ran = [(row["at_ms"], row["controller"], row["outcome"], row["cause"], row) for row in rows["cycles"]]
    judged, broken = 0, []
    generation: list[Row] = []
    for *_, row in sorted([*taken, *ran], key=lambda entry: entry[:-1]):
        if "outcome" not in row or not row["participating"]:
            generation = []
            continue
        if generation and any(generation[-1][name] != row[name] for name in ("controller", "previous_lower")):
            generation = []
        generation.append(row)
        held = row["outcome"] == "held" and row["cause"] != "conflict"
        judged += row["timeout_ms"] is not None
        if held and len(generation) > 1 and row["timeout_ms"] is not None:
            gone = {name for cycle in generation for name in cycle["removed"]}
            waits = (set(row["lagging"]) & set(generation[0]["lagging"])) - gone
            overdue = row["at_ms"] >= generation[1]["at_ms"] + row["timeout_ms"]
            lost = row["cause"] in _LOST
            if overdue and (waits if row["lagging"] else not lost):
                broken.append(row["at_ms"])
        if not held:
            generation = []
    return judged, broken


def upper_covers_noted(rows: Rows) -> Answer:
    """I11: what was noted before an event of the cut came in is not above the upper bound."""
    came = defaultdict(list)
    for event in rows["events"]:
        came[event["segment_id"]].append((event["offset"], event["append_ms"]))
    judged, broken = 0, []
    for entry in rows["watermarks"]:
        reach = _ends(entry["cut"])
        until_ms = 0
        for segment, end in reach.items():
            covered = max((at for offset, at in came[segment] if offset <= end), default=0)
            later = entry["cut"][segment] is None and covered > entry["emitted_ms"]
            until_ms = max(until_ms, covered if later else min(covered, entry["cycle_ms"]))
        accepted = [mark for mark in rows["writer_marks"] if mark["outcome"] == "success"]
        noted = [mark["time"] for mark in accepted if mark["received_ms"] < until_ms]
        if entry["writers"] and noted:
            judged += 1
            if max(noted) > entry["upper"]:
                broken.append(entry["emitted_ms"])
    return judged, broken


def lower_below_latest(rows: Rows) -> Answer:
    """I12: whoever is on record when a watermark is appended has noted its lower bound, or more."""
    judged, broken = 0, []
    marks = defaultdict(list)
    for mark in rows["writer_marks"]:
        if mark["outcome"] == "success":
            marks[mark["writer"]].append((mark["received_ms"], mark["time"]))
    for entry in rows["watermarks"]:
        read_ms, end_ms = entry["cycle_ms"], entry["emitted_ms"]
        for writer, noted in marks.items() if entry["writers"] else ():
            known = max((at for at, _ in noted if at < read_ms), default=None)
            gone = any(
                writer in row["removed"] and known is not None and known <= row["at_ms"] <= end_ms
                for row in rows["cycles"]
            )
            if writer in entry["writers"] or (known is not None and not gone):
                judged += 1
                latest = max([time for at, time in noted if at <= end_ms], default=entry["writers"].get(writer))
                if latest is not None and latest < entry["lower"]:
                    broken.append(end_ms)
    return judged, broken


# Windows against the position of the group and the log.


def windows_are_bounds(rows: Rows, known: Callable[..., KnownOverTime] | None = None) -> Answer:
    """Of the groups that are compared, every window is what one that follows the group knows at that moment.

    That is by the loops below, or by `known`. Of a group with a map of times it is what the map says.

    In a log in which a cut lies before an earlier one, it depends on the way, and nothing is broken. Nor is it for a
    reader that did not look at what the group knew before its position moved back.
    """
    judged, broken = 0, []
    overlaps, falls, follow = None, False, known or _known_over_time
    for entry in rows["compared_groups"]:
        if entry["why_not"] is not None:
            continue
        if overlaps is None:
            overlaps = overlapping(rows)
            falls = _a_cut_falls(rows, overlaps)
        if entry["with_map"]:
            either_way = [list(_shared_over_time(rows, entry["group"]))]
        else:
            either_way = [list(follow(rows, entry["group"], overlaps, late=late)) for late in (False, True)]
        for window in rows["windows"]:
            if window["group"] == entry["group"]:
                judged += 1
                at_ms, seen = window["at_ms"], (window["lower"], window["upper"])
                possible = {bounds for states in either_way for at, bounds in states if at == at_ms}
                before = [bounds for at, bounds in either_way[0] if at < at_ms]
                depends = not entry["with_map"] and (falls or _has_missed(rows, window, either_way[0]))
                if seen not in possible | {before[-1] if before else (None, None)} and not depends:
                    broken.append(at_ms)
    return judged, broken


def _has_missed(rows: Rows, window: Row, states: Sequence[tuple[int, tuple[int | None, int | None]]]) -> bool:
    """Whether the position had moved back by then, and the reader had not polled since the group knew more.

    After the crash of another reader a segment is read from the last checkpoint on; who joins has not polled at all.
    """
    group, at_ms = window["group"], window["at_ms"]
    join = (group, "applied", "join", window["reader"])
    joined_ms = max(
        (
            row["at_ms"]
            for row in rows["group_updates"]
            if (row["group"], row["outcome"], row["operation"], row["reader"]) == join and row["at_ms"] <= at_ms
        ),
        default=-1,
    )
    looks = [
        row["at_ms"]
        for row in rows["windows"]
        if (row["group"], row["reader"]) == (group, window["reader"]) and row["at_ms"] >= joined_ms
    ]
    furthest: dict[int, int] = {}
    for row in sorted(rows["positions"], key=lambda row: row["version"]):
        if row["group"] != group or row["at_ms"] > at_ms:
            continue
        if row["offset"] < furthest.get(row["segment_id"], 0) and not row["reset"]:
            looked_ms = max((look for look in looks if look < row["at_ms"]), default=-1)
            if any(looked_ms <= changed_ms < row["at_ms"] for changed_ms, _ in states):
                return True
        furthest[row["segment_id"]] = row["offset"]
    return False


def _shared_over_time(rows: Rows, group: str) -> KnownOverTime:
    """When the map of times of a group had which bounds."""
    applied = [row for row in rows["group_updates"] if (row["group"], row["outcome"]) == (group, "applied")]
    for row in sorted(applied, key=lambda row: row["revision"]):
        yield row["at_ms"], (row["lower"], row["upper"])


def _a_cut_falls(rows: Rows, overlaps: Mapping[int, set[int]]) -> bool:
    """Whether a cut names a segment at a smaller offset, again after a gap, or after a newer one over its keys."""
    named: dict[int, tuple[int, float]] = {}
    for place, entry in enumerate(log_of(rows)):
        for segment, offset in _ends(entry["cut"]).items():
            before = named.get(segment)
            if before is not None and (before[0] != place - 1 or offset < before[1]):
                return True
            newer = [other for other in named if other > segment and _over(segment, other, overlaps)]
            if newer:
                return True
        named |= {segment: (place, offset) for segment, offset in _ends(entry["cut"]).items()}
    return False


def _over(one: int, other: int, overlaps: Mapping[int, set[int]]) -> bool:
    """Whether two segments share a key; one that is not known shares keys with all."""
    return one not in overlaps or other not in overlaps or other in overlaps[one]


def _known_over_time(rows: Rows, group: str, overlaps: Mapping[int, set[int]], *, late: bool) -> KnownOverTime:
    """When one that follows a group knows which bounds; with `late` marks come after the positions of their ms."""
    versions = defaultdict(list)
    for row in rows["positions"]:
        if row["group"] == group:
            versions[row["version"]].append(row)
    steps = [(changes[0]["at_ms"], not late, version, changes) for version, changes in versions.items()]
    seen_ms, log = 0, log_of(rows)
    for entry in log:
        seen_ms = max(seen_ms, entry["emitted_ms"])
        steps.append((seen_ms, late, entry["seq"], entry))
    held: dict[int, int] = {}
    knows, readable, begun = _Knowledge(overlaps), [], False
    for at_ms, _, _, what in sorted(steps, key=lambda step: step[:3]):
        if isinstance(what, dict):
            readable.append(what)
        else:
            held |= {row["segment_id"]: row["offset"] for row in what}
            gone = {row["segment_id"] for row in what if row["finished"]}
            held = {segment: offset for segment, offset in held.items() if segment not in gone}
            if all(row["reset"] for row in what):
                knows = _Knowledge(overlaps)
        if not isinstance(what, dict):
            begun = True
        if begun:
            knows.look(held, readable)
            yield at_ms, knows.bounds


class _Knowledge:
    """What is known of a log by one that follows a group: how far it has read, what it has passed, what is ahead."""

    def __init__(self, overlaps: Mapping[int, set[int]]) -> None:
        self._overlaps = overlaps
        self.read = 0
        self._passed: Row | None = None
        self._ahead: list[Row] = []

    def look(self, held: Mapping[int, int], log: list[Row]) -> None:
        """Pass what the position has reached, and read on as long as nothing read is wholly ahead."""
        while self._ahead and self._order(held, self._ahead[0]) == "reached":
            self._passed = self._ahead.pop(0)
        while self.read < len(log) and not (self._ahead and self._order(held, self._ahead[-1]) == "ahead"):
            entry = log[self.read]
            self.read += 1
            if self._order(held, entry) == "reached":
                self._passed = entry
            else:
                self._ahead.append(entry)

    def _order(self, held: Mapping[int, int], entry: Row) -> str:
        """Whether the position has reached a cut, the cut is ahead of it everywhere, or it is mixed."""
        cut, sides = _ends(entry["cut"]), set()
        for segment, offset in held.items():
            others = [segment] if segment in cut else [at for at in cut if _over(segment, at, self._overlaps)]
            sides |= {_sign((segment, offset), (other, cut[other])) for other in others}
        if -1 not in sides:
            return "reached"
        return "mixed" if 1 in sides else "ahead"

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """Lower and upper bound."""
        lower, upper = self._passed, self._ahead[-1] if self._ahead else None
        return (
            lower["lower"] if lower is not None and lower["writers"] else None,
            upper["upper"] if upper is not None and upper["writers"] else None,
        )


def _sign(here: Place, there: Place) -> int:
    return (here > there) - (here < there)


# All of them.

RULES: Final[Mapping[str, Callable[[Rows], Answer]]] = {
    "I1": lower_increases,
    "I2": upper_never_decreases,
    "I3": cut_never_moves_back,
    "I4": cut_beyond_writers,
    "I5": cut_complete,
    "I6": nothing_late,
    "I7": bounds_in_order,
    "I8": one_winner,
    "I9": windows_monotone,
    "I10": lower_rises,
    "I11": upper_covers_noted,
    "I12": lower_below_latest,
    "windows": windows_are_bounds,
}
"""The invariants by name, and the comparison of windows with bounds.

Each gives how many single things it judged, and at which ms each violation happened.
"""

TABLES: Final = (
    "segments",
    "epochs",
    "events",
    "writer_marks",
    "cycles",
    "watermarks",
    "windows",
    "reads",
    "incidents",
    "positions",
    "group_updates",
    "compared_groups",
)
"""The tables with a column `stream`; what is taken of `ownership` names its streams in a list."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one rule says about one stream: `judged` single things, and when (ms) it was broken, ascending."""

    judged: int
    broken: tuple[int, ...] = ()


Findings = dict[tuple[str, str], Found]
"""By stream and invariant; what was neither judged nor broken is left out."""


def judge(tables: Mapping[str, pa.Table]) -> Findings:
    """All rules over all streams of a recording."""
    streams: dict[str, dict[str, list[Row]]] = defaultdict(lambda: {name: [] for name in TABLES})
    for name in TABLES:
        for row in tables[name].to_pylist(maps_as_pydicts="strict"):
            streams[row["stream"]][name].append(row)
    for row in tables["ownership"].to_pylist():
        for stream, rows in streams.items():
            if stream.partition("#")[0] in row["streams"]:
                rows.setdefault("ownership", []).append(row)
    found = {}
    for stream, rows in streams.items():
        rows.setdefault("ownership", [])
        for invariant, rule in RULES.items():
            judged, broken = rule(rows)
            if judged or broken:
                found[stream, invariant] = Found(judged, tuple(sorted(broken)))
    return found


def violated(found: Findings) -> set[str]:
    """The invariants that are violated somewhere."""
    return {invariant for (_, invariant), one in found.items() if one.broken}
