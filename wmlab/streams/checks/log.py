"""Invariants of the log of watermarks (I1, I2, I7, I8) and of its stream cuts (I3, I4, I5).

Each is a rule over the rows of one stream. Cuts are compared at every key, on exact ranges, by the functions of
`wmlab.streams.model`. A null in a cut is the end of the segment, as readers take it (issue 6510 upstream).

Source: PDP-33, Internal Changes (marks segment), Watermark Computation and Periodic Watermark Workflow; upstream
classes `WatermarkClient`, `RevisionedStreamClientImpl`, `PeriodicWatermarking` and `WatermarkWorkflow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, name_text, time_text
from wmlab.streams.checks.facts import SEGMENT_END, NotedTimes, owners_of, titled
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position, behind_at_a_key, first_unpassed_ancestor
from wmlab.streams.model.segment import Segment, gaps, segment_name
from wmlab.streams.tables import marks_read_ms

EMPTY: Final = "the log has no watermarks"
_TOO_SHORT: Final = "the log has fewer than two watermarks"


@titled("the lower bound rises", _TOO_SHORT)
def lower_increases(counting_log: TableRows) -> Iterator[Finding]:
    """I1: one finding per pair of neighbouring entries."""
    for before, row in pairwise(counting_log):
        yield _of_pair(before, row, "lower", ok=row["lower"] > before["lower"])


@titled("the upper bound never falls", _TOO_SHORT)
def upper_never_decreases(ordered_log: TableRows, cycles: TableRows, ownership: TableRows) -> Iterator[Finding]:
    """I2: one finding per pair of neighbouring entries.

    Where a controller ran cycles while another one led nothing is decided: one finding that says so.
    """
    if rivals := _rivals(ordered_log, cycles, ownership):
        first, second = map(name_text, rivals)
        stream = name_text((*ordered_log, *cycles)[0]["stream"])
        yield Finding.undecided(f"not promised: {first} and {second} both led {stream} for a while")
        return
    for before, row in pairwise(ordered_log):
        yield _of_pair(before, row, "upper", ok=row["upper"] >= before["upper"])


@titled("lower at or below upper", "there are no watermarks and no windows with two bounds")
def bounds_in_order(watermarks: TableRows, windows: TableRows) -> Iterator[Finding]:
    """I7: one finding per watermark, and per window that has both bounds."""
    for row in watermarks:
        proof = Evidence.of("watermarks", row, "stream", "seq", "lower", "upper", "emitted_ms")
        yield _in_order(row, f"watermark {row['seq']}", row["emitted_ms"], proof)
    for row in windows:
        if None not in (row["lower"], row["upper"]):
            proof = Evidence.of("windows", row, *WINDOW)
            yield _in_order(row, f"the window of {name_text(row['reader'])}", row["at_ms"], proof)


WINDOW: Final = ("stream", "group", "reader", "lower", "upper", "at_ms")
"""The columns of a window that prove something."""


def _in_order(row: TableRow, whose: str, at_ms: int, proof: Evidence) -> Finding:
    if row["lower"] <= row["upper"]:
        return Finding(True)
    what = f"{whose} has lower {time_text(row['lower'])} above upper {time_text(row['upper'])}"
    return Finding(False, at_ms, what, [proof])


@titled("one winner for each revision", EMPTY)
def one_winner(ordered_log: TableRows) -> Iterator[Finding]:
    """I8: every index of the log, too, has one entry; one finding per entry."""
    yield from (Finding(True) for _ in ordered_log[:1])
    for before, row in pairwise(ordered_log):
        if row["seq"] > before["seq"] and row["revision"] > before["revision"]:
            yield Finding(True)
            continue
        what = f"watermarks {before['seq']} and {row['seq']} both end at revision {row['revision']}"
        if row["revision"] != before["revision"]:
            ends = f"watermark {row['seq']} ends at revision {row['revision']}"
            what = f"{ends}, watermark {before['seq']} at {before['revision']}"
        yield Finding(False, row["emitted_ms"], what, _both(before, row, "revision", "controller"))


def _of_pair(before: TableRow, row: TableRow, bound: str, *, ok: bool) -> Finding:
    """What was found about a bound of two neighbouring entries of the log."""
    if ok:
        return Finding(True)
    change = f"{bound} goes from {time_text(before[bound])} to {time_text(row[bound])}"
    what = f"{change} between watermarks {before['seq']} and {row['seq']}"
    return Finding(False, row["emitted_ms"], what, _both(before, row, bound))


def _both(before: TableRow, row: TableRow, *columns: str) -> list[Evidence]:
    return [Evidence.of("watermarks", entry, "stream", "seq", *columns, "emitted_ms") for entry in (before, row)]


def _rivals(watermarks: TableRows, cycles: TableRows, ownership: TableRows) -> tuple[str, str] | None:
    """Two controllers that led at the same time, the first two by name; None: there were none.

    One ran a cycle while the bucket was another one's. Where owners are not recorded, each counts as the owner from its
    first cycle to its last one.
    """
    led = [(row["controller"], row["at_ms"], row["at_ms"]) for row in cycles]
    led += [(row["controller"], marks_read_ms(row), row["emitted_ms"]) for row in watermarks]
    terms = [(row["controller"], row["from_ms"], row["to_ms"]) for row in owners_of((*watermarks, *cycles), ownership)]
    if not terms:
        of_each: dict[str, list[int]] = {}
        for name, *span in led:
            of_each.setdefault(name, []).extend(span)
        terms = [(name, min(moments), max(moments)) for name, moments in of_each.items()]
    rivals = [
        (min(owner, name), max(owner, name))
        for name, begin, end in led
        for owner, from_ms, to_ms in terms
        if owner != name and from_ms < end and (to_ms is None or begin < to_ms)
    ]
    return min(rivals, default=None)


Offsets = Mapping[int, int | None]


@titled("no cut moves back", _TOO_SHORT)
def cut_never_moves_back(ordered_log: TableRows, lineage: Lineage) -> Iterator[Finding]:
    """I3: one finding per pair of neighbouring entries.

    Not decided are cuts that name unknown segments.
    """
    for before, row in pairwise(ordered_log):
        if complaint := lineage.complaint(before) or lineage.complaint(row):
            yield Finding.undecided(complaint)
            continue
        reached = {segment: _reach(offset) for segment, offset in before["cut"].items()}
        back = lineage.behind(reached, row["cut"])
        if back is None:
            yield Finding(True)
            continue
        move = f"from {_named(back.segment, back.offset)} to {_named(back.cut_segment, back.cut_offset)}"
        proof = [
            _cut_row(before, {back.segment: before["cut"][back.segment]}),
            _cut_row(row, {back.cut_segment: back.cut_offset}),
            *lineage.rows(row["stream"], (back.segment, back.cut_segment)),
        ]
        yield Finding(False, row["emitted_ms"], f"the cut of watermark {row['seq']} moves back, {move}", proof)


@titled("no cut behind a counted writer", EMPTY)
def cut_beyond_writers(
    counting_log: TableRows, marks_by_writer: Mapping[str, NotedTimes], lineage: Lineage
) -> Iterator[Finding]:
    """I4: one finding per entry.

    A counted writer's position is that of its counted mark. A log that does not say which mark it counted is believed
    to have counted any with that time. Not decided are entries without such a mark.
    """
    for row in counting_log:
        if complaint := lineage.complaint(row):
            yield Finding.undecided(complaint)
        else:
            yield _beyond_writers(row, marks_by_writer, lineage)


def _beyond_writers(row: TableRow, marks_by_writer: Mapping[str, NotedTimes], lineage: Lineage) -> Finding:
    judged = 0
    for writer in sorted(row["writers"]):
        of_writer = marks_by_writer[writer].counted(row, writer) if writer in marks_by_writer else ()
        marks = [mark for mark in of_writer if mark["position"] is not None]
        judged += bool(marks)
        behind = [(mark, lineage.behind(mark["position"], row["cut"])) for mark in marks]
        if not behind or not all(back for _, back in behind):
            continue
        mark, back = behind[-1]
        assert back is not None
        position_text = _named(back.segment, back.offset, unknown="its start")
        offsets = f"{_named(back.cut_segment, back.cut_offset)}, the writer in {position_text}"
        position = {back.segment: back.offset}
        proof = [
            _cut_row(row, {back.cut_segment: back.cut_offset}, writers={writer: row["writers"][writer]}),
            Evidence.of("writer_marks", mark, "stream", "writer", "time", "received_ms", position=position),
            *lineage.rows(row["stream"], (back.segment, back.cut_segment)),
        ]
        what = f"the cut of watermark {row['seq']} is behind writer {name_text(writer)}: {offsets}"
        return Finding(False, row["emitted_ms"], what, proof, judged)
    if not judged:
        counted = f"the writers that watermark {row['seq']} counted"
        return Finding.undecided(f"no accepted mark of {counted} is recorded")
    return Finding(True, judged=judged)


@titled("every cut is complete", EMPTY)
def cut_complete(ordered_log: TableRows, lineage: Lineage) -> Iterator[Finding]:
    """I5: one finding per entry; a reader cannot pass a cut of which a segment waits for one that it has not passed.

    Nothing is decided when the epochs are not a history.
    """
    for row in ordered_log:
        try:
            fault = lineage.fault(row["cut"])
        except ModelError as wrong:
            yield Finding.undecided(f"segments and epochs are not a history: {wrong.problem}")
            continue
        if fault is None:
            yield Finding(True)
        else:
            proof = [_cut_row(row, row["cut"]), *lineage.rows(row["stream"], fault.segments)]
            yield Finding(False, row["emitted_ms"], f"the cut of watermark {row['seq']} {fault.what}", proof)


class Behind(NamedTuple):
    """Where a cut lies behind a position: the position's segment and offset, and the cut's at the same keys."""

    segment: int
    offset: int | None
    cut_segment: int
    cut_offset: int | None


class CutFault(NamedTuple):
    """What is wrong with a cut, and the ids of the segments that show it."""

    what: str
    segments: Sequence[int]


@dataclass(slots=True)
class Lineage:
    """The segments of a stream and its history, or what is wrong with that; faults are kept per set of segments."""

    segments: Mapping[int, Segment]
    keys: Mapping[int, str]
    history: StreamHistory | ModelError
    _faults: dict[frozenset[int], CutFault | None] = field(default_factory=dict)

    @classmethod
    def of(cls, segments: TableRows, epochs: TableRows) -> Lineage:
        """From the tables of one stream."""
        keys = {row["segment_id"]: row["keys"] for row in segments}
        known: dict[int, Segment] = {}
        try:
            known |= {i: Segment.parse(i, text) for i, text in sorted(keys.items())}
            return cls(known, keys, StreamHistory.recorded(epochs, known))
        except ModelError as wrong:
            return cls(known, keys, wrong)

    def complaint(self, entry: TableRow) -> str:
        """That the cut of a watermark names a segment which the stream never had, or nothing."""
        strangers = [_named(named, offset) for named, offset in entry["cut"].items() if named not in self.segments]
        return f"watermark {entry['seq']} names {strangers[0]}, which is not a segment" if strangers else ""

    def behind(self, position: Offsets, cut: Offsets) -> Behind | None:
        """Where `cut` lies behind `position`, at its latest segment, or None; both are compared at every key."""
        ahead = {s: o for s, o in position.items() if s not in cut or _reach(cut[s]) < (o or 0)}
        if not ahead:
            return None
        ends = Position({segment: _reach(offset) for segment, offset in cut.items()})
        for segment, offset in sorted(ahead.items(), reverse=True):
            alone = Position({segment: offset})
            if segment not in self.segments or not behind_at_a_key(alone, ends, self.segments):
                continue
            for other in cut:
                if behind_at_a_key(alone, Position({other: ends[other]}), self.segments):
                    return Behind(segment, offset, other, cut[other])
        return None

    def fault(self, cut: Offsets) -> CutFault | None:
        """Why a cut is not range-complete and lineage-valid, or None. Raises `ModelError` without a history."""
        ids = frozenset(cut)
        if ids not in self._faults:
            self._faults[ids] = self._fault(sorted(ids))
        return self._faults[ids]

    def _fault(self, ids: Sequence[int]) -> CutFault | None:
        if isinstance(self.history, ModelError):
            raise self.history
        if strangers := [i for i in ids if i not in self.segments]:
            return CutFault(f"names {segment_name(strangers[0])}, which the stream never had", ())
        members = [self.segments[i] for i in ids]
        for left in members:
            if later := [i for i in self.history.over_keys_of(left.id).intersection(ids) if i > left.id]:
                right = self.segments[min(later)]
                return CutFault(f"covers keys twice, in {left.name} and {right.name}", (left.id, right.id))
        if missing := gaps([s.keys for s in members], within=self.history.space):
            return CutFault(f"does not cover the keys {missing[0].text}", ids)
        ancestor = first_unpassed_ancestor(Position(dict.fromkeys(ids, 0)), self.history)
        if ancestor is None:
            return None
        waits = [s.id for s in members if s.keys.overlaps(ancestor.keys)]
        return CutFault(
            f"is passed before {ancestor.name}, which its segments wait for, is read", (ancestor.id, *waits)
        )

    def rows(self, stream: str, ids: Iterable[int]) -> list[Evidence]:
        """Evidence: the rows of the segments table for these ids, with their exact key ranges."""
        known = [i for i in dict.fromkeys(ids) if i in self.keys]
        return [
            Evidence.of("segments", {"stream": stream, "segment_id": i, "keys": self.keys[i]}, *_SEGMENT) for i in known
        ]


_SEGMENT: Final = ("stream", "segment_id", "keys")


def _cut_row(entry: TableRow, cut: Offsets, **more: object) -> Evidence:
    return Evidence.of("watermarks", entry, "stream", "seq", cut=cut, **more, emitted_ms=entry["emitted_ms"])


def _named(segment: int, offset: int | None, *, unknown: str = "its end") -> str:
    """A position in a segment as people read it: "0@0 at 400"; `unknown` says what null means there."""
    return f"{segment_name(segment)} at {unknown if offset in (None, SEGMENT_END) else offset}"


def _reach(offset: int | None) -> int:
    return SEGMENT_END if offset is None else offset
