"""Invariants of the log of watermarks (I1, I2, I7, I8) and of its stream cuts (I3, I4, I5).

Cuts are compared at every key, on exact ranges, by the functions of `wmlab.streams.model`. That is done once per stream
on an executor, with all watermarks of the stream on one side and its segments and epochs on the other: watermarks are
few where events are many. A null in a cut is the end of the segment, as readers take it (issue 6510 upstream).

Source: PDP-33, Internal Changes (marks segment), Watermark Computation and Periodic Watermark Workflow; upstream
classes `WatermarkClient`, `RevisionedStreamClientImpl`, `PeriodicWatermarking` and `WatermarkWorkflow`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.errors import ModelError
from wmlab.core.spark.verdict import (
    BEFORE,
    FINDINGS,
    FINDINGS_IN_ARROW,
    batch_invariant,
    findings,
    phrase,
    previous,
    row_of,
    rows_of_pair,
    undecided,
)
from wmlab.streams.bounds.log_by_segment import is_end
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position, behind_at_a_key, first_unpassed_ancestor
from wmlab.streams.model.segment import Segment, gaps, segment_name

EMPTY: Final = "the log has no watermarks"
_TOO_SHORT: Final = "the log has fewer than two watermarks"


@batch_invariant("the lower bound strictly increases along the log", _TOO_SHORT)
def lower_increases(watermarks: DataFrame) -> DataFrame:
    """I1: one finding per pair of neighbouring entries."""
    return findings(
        _pairs(with_writers(watermarks)).where("before is not null"),
        ok=F.col("lower") > F.col("before.lower"),
        at_ms="emitted_ms",
        what="lower goes from {before.lower:ms} to {lower:ms} between watermarks {before.seq} and {seq}",
        evidence=_both("lower"),
    )


@batch_invariant("the upper bound never decreases along the log (single leader)", _TOO_SHORT)
def upper_never_decreases(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """I2: one finding per pair of neighbouring entries.

    Where the cycles of two controllers overlap in time nothing is decided: one finding that says so.
    """
    rivals = _rivals(watermarks, cycles)
    pairs = _pairs(watermarks).where("before is not null").join(F.broadcast(rivals), "stream", "left_anti")
    found = findings(
        pairs,
        ok=F.col("upper") >= F.col("before.upper"),
        at_ms="emitted_ms",
        what="upper goes from {before.upper:ms} to {upper:ms} between watermarks {before.seq} and {seq}",
        evidence=_both("upper"),
    )
    why = phrase("not promised: {first} and {second} both led {stream} for a while")
    return found.unionByName(undecided(rivals, why))


@batch_invariant(
    "the lower bound is at or below the upper bound", "there are no watermarks and no windows with two bounds"
)
def bounds_in_order(watermarks: DataFrame, windows: DataFrame) -> DataFrame:
    """I7: one finding per watermark, and per window that has both bounds."""
    in_order = F.col("lower") <= F.col("upper")
    log = findings(
        watermarks,
        ok=in_order,
        at_ms="emitted_ms",
        what="watermark {seq} has lower {lower:ms} above upper {upper:ms}",
        evidence=[row_of("watermarks", "stream", "seq", "lower", "upper", "emitted_ms")],
    )
    shown = findings(
        windows.where("lower is not null and upper is not null"),
        ok=in_order,
        at_ms="at_ms",
        what="the window of {reader} has lower {lower:ms} above upper {upper:ms}",
        evidence=[row_of("windows", "stream", "group", "reader", "lower", "upper", "at_ms")],
    )
    return log.unionByName(shown)


@batch_invariant("every revision of the log has one winner", EMPTY)
def one_winner(watermarks: DataFrame) -> DataFrame:
    """I8: every place in the log, too, has one entry; one finding per entry."""
    seq, revision, before = F.col("seq"), F.col("revision"), F.col("before")
    follows = (seq > before["seq"]) & (revision > before["revision"])
    same = phrase("watermarks {before.seq} and {seq} both end at revision {revision}")
    other = phrase("watermark {seq} ends at revision {revision}, watermark {before.seq} at {before.revision}")
    return findings(
        _pairs(watermarks),
        ok=before.isNull() | F.coalesce(follows, F.lit(False)),
        at_ms="emitted_ms",
        what=F.when(revision == before["revision"], same).otherwise(other),
        evidence=_both("revision", "controller"),
    )


def with_writers(watermarks: DataFrame) -> DataFrame:
    """The watermarks without ends of known time, which count no writers."""
    return watermarks.where(~is_end(watermarks))


def _pairs(watermarks: DataFrame) -> DataFrame:
    """Every entry of a log, with the one before it as `before`; null for the first."""
    columns = ("stream", "seq", "lower", "upper", "controller", "emitted_ms", "revision")
    before = previous(columns, by=["stream"], order=["seq", "revision", "emitted_ms"])
    return watermarks.select(*columns, before.alias("before"))


def _both(*columns: str) -> list[Column]:
    return rows_of_pair("watermarks", "stream", "seq", *columns, "emitted_ms")


def _rivals(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """Streams in which two controllers led at the same time: stream, first, second (the controllers)."""
    led = cycles.select("stream", "controller", "at_ms").unionByName(
        watermarks.select("stream", "controller", F.col("emitted_ms").alias("at_ms"))
    )
    terms = led.groupBy("stream", "controller").agg(F.min("at_ms").alias("begin"), F.max("at_ms").alias("end"))
    earlier = Window.partitionBy("stream").orderBy("begin", "end", "controller").rowsBetween(*BEFORE)
    longest = F.max(F.struct("end", "controller")).over(earlier)
    overlaps = terms.withColumn("before", longest).where("before.end >= begin")
    pair = F.min(F.struct(F.col("before.controller").alias("first"), F.col("controller").alias("second")))
    return overlaps.groupBy("stream").agg(pair.alias("pair")).select("stream", "pair.first", "pair.second")


def accepted(writer_marks: DataFrame) -> DataFrame:
    """The marks that were stored: stream, writer, time, received_ms, position."""
    return writer_marks.where("outcome = 'success'").select("stream", "writer", "time", "received_ms", "position")


def with_counted(watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame) -> DataFrame:
    """The watermarks with `counted`: the marks of every counted writer that the cycle can have read.

    A mark was counted with its time. Of several with that time the cycle read the last one before it ran, or one that
    arrived in the same millisecond or until the append. `counted` is null when there is none.
    """
    counted = read_at(watermarks, cycles).select(
        "stream", "seq", "emitted_ms", "read_ms", F.explode("writers").alias("writer", "time")
    )
    pairs = counted.join(accepted(writer_marks), ["stream", "writer", "time"]).where("received_ms <= emitted_ms")
    one_writer = Window.partitionBy("stream", "seq", "writer")
    last_before = F.max(F.when(F.col("received_ms") < F.col("read_ms"), F.col("received_ms"))).over(one_writer)
    readable = pairs.withColumn("since_ms", last_before).where("since_ms is null or received_ms >= since_ms")
    mark = F.struct("writer", "received_ms", "time", "position")
    listed = readable.groupBy("stream", "seq").agg(F.collect_list(mark).alias("counted"))
    return watermarks.join(listed, ["stream", "seq"], "left")


def read_at(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """The watermarks with `read_ms`: when the cycle that emitted each one began, to read the marks first of all.

    That cycle is the one of the same controller whose previous lower bound is that of the entry before. A controller
    that goes down after the append leaves no row of it; then the controller's last cycle before that counts, which is
    earlier, and without any the moment of the append.
    """
    log = Window.partitionBy("stream").orderBy("seq", "revision")
    entries = watermarks.withColumn("previous_lower", F.lag("lower").over(log)).alias("entry")
    place = ("stream", "controller", "previous_lower")
    ran = cycles.where("outcome = 'emitted'").groupBy(*place).agg(F.max("at_ms").alias("began_ms"))
    same = [F.col(f"entry.{name}").eqNullSafe(F.col(f"ran.{name}")) for name in place]
    matched = entries.join(F.broadcast(ran).alias("ran"), same, "left").select("entry.*", "began_ms")
    others = cycles.select("stream", "controller", F.col("at_ms").alias("emitted_ms"), F.col("at_ms").alias("last_ms"))
    both = matched.drop("previous_lower").unionByName(others, allowMissingColumns=True)
    by_time = Window.partitionBy("stream", "controller").orderBy("emitted_ms", F.col("seq").asc_nulls_first())
    last_ms = F.last("last_ms", ignorenulls=True).over(by_time)
    read_ms = F.coalesce("began_ms", last_ms, "emitted_ms")
    return both.withColumn("read_ms", read_ms).where("seq is not null").drop("began_ms", "last_ms")


END: Final = 2**63 - 1
"""Stands for the end of a segment: beyond every offset."""

Row = dict[str, Any]
Offsets = Mapping[int, int | None]


@batch_invariant("the cut never moves back at any key", _TOO_SHORT)
def cut_never_moves_back(watermarks: DataFrame, segments: DataFrame, epochs: DataFrame) -> DataFrame:
    """I3: one finding per pair of neighbouring entries.

    Not decided are cuts that name unknown segments.
    """
    return _found(watermarks, segments, epochs, _backwards, neighbours=True)


@batch_invariant("the cut is at or beyond every counted writer at every key", EMPTY)
def cut_beyond_writers(
    watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame, segments: DataFrame, epochs: DataFrame
) -> DataFrame:
    """I4: one finding per entry.

    A counted writer's position is that of its accepted mark with the counted time: the last one that the cycle can
    have read, and any that arrived between cycle and append. Not decided are entries without such a mark.
    """
    return _found(with_counted(with_writers(watermarks), writer_marks, cycles), segments, epochs, _behind_writer)


@batch_invariant("the cut covers the key space once and can be passed by a reader", EMPTY)
def cut_complete(watermarks: DataFrame, segments: DataFrame, epochs: DataFrame) -> DataFrame:
    """I5: one finding per entry; a reader cannot pass a cut of which a segment waits for one that it has not passed.

    Nothing is decided when the epochs are not a history.
    """
    return _found(watermarks, segments, epochs, _incomplete)


def _found(
    watermarks: DataFrame,
    segments: DataFrame,
    epochs: DataFrame,
    finding: Callable[..., Row],
    *,
    neighbours: bool = False,
) -> DataFrame:
    """One finding per watermark, in the order of the log, or per pair of `neighbours`; `finding` also has the lineage.

    A finding without `ok` decides nothing.
    """

    def found(log: pa.Table, lineage: pa.Table) -> pa.Table:
        ordered = log.sort_by([("seq", "ascending"), ("revision", "ascending")]).to_pylist(maps_as_pydicts="strict")
        known, rows = Lineage.of(lineage.to_pylist()), []
        for entries in pairwise(ordered) if neighbours else zip(ordered, strict=True):
            one = {"stream": entries[-1]["stream"], "judged": 1} | finding(known, *entries)
            rows.append(one | ({"at_ms": entries[-1]["emitted_ms"]} if "ok" in one else {"judged": 0}))
        return pa.Table.from_pylist(rows, schema=FINDINGS_IN_ARROW)

    named = segments.select("stream", "segment_id", "keys")
    listed = epochs.select("stream", "epoch", "kind", "segment_ids")
    lineage = named.unionByName(listed, allowMissingColumns=True)
    return watermarks.groupBy("stream").cogroup(lineage.groupBy("stream")).applyInArrow(found, FINDINGS)


def _backwards(lineage: Lineage, before: Row, entry: Row) -> Row:
    if complaint := lineage.complaint(before) or lineage.complaint(entry):
        return {"what": complaint}
    reached = {segment: _reach(offset) for segment, offset in before["cut"].items()}
    back = lineage.behind(reached, entry["cut"])
    if back is None:
        return {"ok": True}
    places = f"from {_named(back.segment, back.offset)} to {_named(back.cut_segment, back.cut_offset)}"
    rows = [
        _cut_row(before, {back.segment: before["cut"][back.segment]}),
        _cut_row(entry, {back.cut_segment: back.cut_offset}),
        *lineage.rows(entry["stream"], (back.segment, back.cut_segment)),
    ]
    return {"ok": False, "what": f"the cut of watermark {entry['seq']} moves back, {places}", "evidence": rows}


def _behind_writer(lineage: Lineage, entry: Row) -> Row:
    if complaint := lineage.complaint(entry):
        return {"what": complaint}
    judged = 0
    for writer in sorted(entry["writers"]):
        marks = [m for m in entry["counted"] or () if m["writer"] == writer and m["position"] is not None]
        judged += bool(marks)
        behind = [(mark, lineage.behind(dict(mark["position"]), entry["cut"])) for mark in marks]
        mark, back = behind[-1] if all(back for _, back in behind) and behind else (None, None)
        if mark is None or back is None:
            continue
        stands = _named(back.segment, back.offset, unknown="its start")
        places = f"{_named(back.cut_segment, back.cut_offset)}, the writer in {stands}"
        noted = {"stream": entry["stream"], "writer": writer, "time": mark["time"], "received_ms": mark["received_ms"]}
        rows = [
            _cut_row(entry, {back.cut_segment: back.cut_offset}, writers={writer: entry["writers"][writer]}),
            _evidence("writer_marks", **noted, position={back.segment: back.offset}),
            *lineage.rows(entry["stream"], (back.segment, back.cut_segment)),
        ]
        what = f"the cut of watermark {entry['seq']} is behind writer {writer}: {places}"
        return {"ok": False, "judged": judged, "what": what, "evidence": rows}
    if not judged:
        return {"what": f"no accepted mark of the writers that watermark {entry['seq']} counted is recorded"}
    return {"ok": True, "judged": judged}


def _incomplete(lineage: Lineage, entry: Row) -> Row:
    try:
        fault = lineage.fault(entry["cut"])
    except ModelError as wrong:
        return {"what": f"segments and epochs are no history: {wrong.problem}"}
    if fault is None:
        return {"ok": True}
    what, segments = fault
    rows = [_cut_row(entry, entry["cut"]), *lineage.rows(entry["stream"], segments)]
    return {"ok": False, "what": f"the cut of watermark {entry['seq']} {what}", "evidence": rows}


class Behind(NamedTuple):
    """Where a cut lies behind a position: the position's segment and offset, and the cut's at the same keys."""

    segment: int
    offset: int | None
    cut_segment: int
    cut_offset: int | None


Fault = tuple[str, Sequence[int]]
"""What is wrong with a cut, and the ids of the segments that show it."""


@dataclass(slots=True)
class Lineage:
    """The segments of a stream and its history, or what is wrong with that; faults are kept per set of segments."""

    segments: Mapping[int, Segment]
    keys: Mapping[int, str]
    history: StreamHistory | ModelError
    _faults: dict[frozenset[int], Fault | None] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Lineage:
        """From rows of the tables segments (with `segment_id`) and epochs (with `segment_ids`) of one stream."""
        keys = {row["segment_id"]: row["keys"] for row in rows if row["segment_id"] is not None}
        segments: dict[int, Segment] = {}
        try:
            segments |= {i: Segment.parse(i, text) for i, text in sorted(keys.items())}
            epochs = (row for row in rows if row["segment_ids"] is not None)
            return cls(segments, keys, StreamHistory.recorded(epochs, segments))
        except ModelError as wrong:
            return cls(segments, keys, wrong)

    def complaint(self, entry: Row) -> str:
        """That the cut of a watermark names a segment which the stream never had, or nothing."""
        strangers = [_named(named, offset) for named, offset in entry["cut"].items() if named not in self.segments]
        return f"watermark {entry['seq']} names {strangers[0]}, which is no segment" if strangers else ""

    def behind(self, position: Offsets, cut: Offsets) -> Behind | None:
        """Where `cut` lies behind `position`, at its latest segment, or None; both are compared at every key."""
        if all(segment in cut and _reach(cut[segment]) >= (offset or 0) for segment, offset in position.items()):
            return None
        ends = Position({segment: _reach(offset) for segment, offset in cut.items()})
        for segment, offset in sorted(position.items(), reverse=True):
            alone = Position({segment: offset})
            if segment not in self.segments or not behind_at_a_key(alone, ends, self.segments):
                continue
            for other in cut:
                if behind_at_a_key(alone, Position({other: ends[other]}), self.segments):
                    return Behind(segment, offset, other, cut[other])
        return None

    def fault(self, cut: Offsets) -> Fault | None:
        """Why a cut is not range-complete and lineage-valid, or None. Raises `ModelError` without a history."""
        ids = frozenset(cut)
        if ids not in self._faults:
            self._faults[ids] = self._fault(sorted(ids))
        return self._faults[ids]

    def _fault(self, ids: Sequence[int]) -> Fault | None:
        if isinstance(self.history, ModelError):
            raise self.history
        if strangers := [i for i in ids if i not in self.segments]:
            return f"names {segment_name(strangers[0])}, which the stream never had", ()
        members = [self.segments[i] for i in ids]
        for left, right in combinations(members, 2):
            if left.keys.overlaps(right.keys):
                return f"covers keys twice, in {left.name} and {right.name}", (left.id, right.id)
        if missing := gaps([s.keys for s in members], within=self.history.space):
            return f"does not cover the keys {missing[0].text}", ids
        ancestor = first_unpassed_ancestor(Position(dict.fromkeys(ids, 0)), self.history)
        if ancestor is None:
            return None
        waits = [s.id for s in members if s.keys.overlaps(ancestor.keys)]
        return f"is passed before {ancestor.name}, which its segments wait for, is read", (ancestor.id, *waits)

    def rows(self, stream: str, ids: Iterable[int]) -> list[Row]:
        """Evidence: the rows of the segments table for these ids, with their exact key ranges."""
        known = [i for i in dict.fromkeys(ids) if i in self.keys]
        return [_evidence("segments", stream=stream, segment_id=i, keys=self.keys[i]) for i in known]


def _evidence(table: str, **row: object) -> Row:
    return {"table": table, "row": json.dumps(row, ensure_ascii=False)}


def _cut_row(entry: Row, cut: Offsets, **more: object) -> Row:
    return _evidence(
        "watermarks", stream=entry["stream"], seq=entry["seq"], cut=cut, **more, emitted_ms=entry["emitted_ms"]
    )


def _named(segment: int, offset: int | None, *, unknown: str = "its end") -> str:
    """A place in a segment as people read it: "0@0 at 400"; `unknown` says what null means there."""
    return f"{segment_name(segment)} at {unknown if offset in (None, END) else offset}"


def _reach(offset: int | None) -> int:
    return END if offset is None else offset
