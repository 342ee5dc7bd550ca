"""Cuts against the key space, on Spark's executors: rows of a recording become the values of `wmlab.streams.model`.

The functions are run once per stream, with all watermarks of the stream on one side and its segments and epochs on
the other. Whether a cut lies behind a position, and whether it is complete, is decided by the model, on exact ranges.
A null in a cut is the end of the segment, as readers take it (issue 6510 upstream).

Source: PDP-33, Watermark Computation; upstream class `WatermarkWorkflow`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.position import Position, behind_at_a_key, first_unpassed_ancestor
from wmlab.streams.model.segment import KeyRange, Segment, gaps, segment_name, split_id

END: Final = 2**63 - 1
"""Stands for the end of a segment: beyond every offset."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Behind:
    """Where a cut lies behind a position: the position's segment and offset, and the cut's at the same keys."""

    segment: int
    offset: int | None
    cut_segment: int
    cut_offset: int | None


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a cut, and the ids of the segments that show it."""

    what: str
    segments: tuple[int, ...]


@dataclass(slots=True)
class Lineage:
    """The segments of a stream and, unless the epochs are wrong, its history; answers are kept per set of segments."""

    segments: Mapping[int, Segment]
    keys: Mapping[int, str]
    history: StreamHistory | None
    complaint: str = ""
    _faults: dict[frozenset[int], Fault | None] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Lineage:
        """From rows of the tables segments (with `segment_id`) and epochs (with `segment_ids`) of one stream."""
        given = list(rows)
        keys = {row["segment_id"]: row["keys"] for row in given if row["segment_id"] is not None}
        try:
            segments = {i: Segment(*split_id(i), KeyRange.parse(text)) for i, text in sorted(keys.items())}
        except ModelError as wrong:
            return cls({}, keys, None, wrong.problem)
        epochs = sorted((r for r in given if r["segment_ids"] is not None), key=lambda r: int(r["epoch"]))
        try:
            return cls(segments, keys, StreamHistory(tuple(_epoch(row, segments) for row in epochs)))
        except ModelError as wrong:
            return cls(segments, keys, None, wrong.problem)

    def unknown(self, cut: Mapping[int, int | None]) -> list[int]:
        """The segments of a cut that the stream never had."""
        return [segment for segment in cut if segment not in self.segments]

    def behind(self, position: Mapping[int, int | None], cut: Mapping[int, int | None]) -> Behind | None:
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

    def fault(self, cut: Mapping[int, int | None]) -> Fault | None:
        """Why a cut is not range-complete and lineage-valid, or None; needs a history."""
        ids = frozenset(cut)
        if ids not in self._faults:
            self._faults[ids] = self._fault(sorted(ids))
        return self._faults[ids]

    def _fault(self, ids: Sequence[int]) -> Fault | None:
        if self.history is None:
            raise ModelError(self.complaint, remedy="Give the segments and epochs of the recording.")
        if strangers := [i for i in ids if i not in self.segments]:
            return Fault(f"names {segment_name(strangers[0])}, which the stream never had", ())
        members = [self.segments[i] for i in ids]
        for place, left in enumerate(members):
            for right in members[place + 1 :]:
                if left.keys.overlaps(right.keys):
                    return Fault(f"covers keys twice, in {left.name} and {right.name}", (left.id, right.id))
        if missing := gaps([s.keys for s in members], within=self.history.space):
            return Fault(f"does not cover the keys {missing[0].text}", tuple(ids))
        ancestor = first_unpassed_ancestor(Position(dict.fromkeys(ids, 0)), self.history)
        if ancestor is None:
            return None
        waits = tuple(s.id for s in members if s.keys.overlaps(ancestor.keys))
        return Fault(f"is passed before {ancestor.name}, which its segments wait for, is read", (ancestor.id, *waits))

    def rows(self, stream: str, ids: Iterable[int]) -> list[Row]:
        """Evidence: the rows of the segments table for these ids, with their exact key ranges."""
        known = [i for i in dict.fromkeys(ids) if i in self.keys]
        return [evidence("segments", stream=stream, segment_id=i, keys=self.keys[i]) for i in known]


def evidence(table: str, **row: object) -> Row:
    """One row of evidence, as `wmlab.core.spark.findings.EVIDENCE` wants it; offset maps are dicts."""
    return {"table": table, "row": json.dumps(row, ensure_ascii=False)}


def named(segment: int, offset: int | None, *, unknown: str = "its end") -> str:
    """A place in a segment as people read it: "0@0 at 400"; `unknown` says what null means there."""
    return f"{segment_name(segment)} at {unknown if offset in (None, END) else offset}"


def _reach(offset: int | None) -> int:
    return END if offset is None else offset


def _epoch(row: Row, segments: Mapping[int, Segment]) -> Epoch:
    if strangers := [i for i in row["segment_ids"] if i not in segments]:
        raise ModelError(
            f"Epoch {row['epoch']} lists {segment_name(strangers[0])}, which is not in the segments table.",
            remedy="Give every segment of every epoch.",
        )
    return Epoch(row["epoch"], row["kind"], tuple(segments[i] for i in row["segment_ids"]))
