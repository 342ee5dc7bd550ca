"""Two-sided time bounds of reader groups, at every version of a group's state.

A group's tracker compares its whole open position with a watermark, so no segment can answer alone, and it never moves
back, so no version can either: the rule is sequential and is replayed once per group. What goes into a replay has one
row per change of a position, not one per version and segment.

`wmlab.streams.model.window.Tracker` compares the whole position with a watermark at every step, 100 segments with 100.
Here two counters per watermark say in how many segments the group is before it and in how many it is past it, and a
change of one offset touches only the watermarks between the old offset and the new one. So a replay costs as much as
the crossings there are, and each comparison of the tracker is a look at two counters. The steps are those of the
tracker, in its order, and hold for every log and every position, also for those that move back.

Source: PDP-33, Client Changes; upstream classes `WatermarkReaderImpl` (compare, advanceTo) and `ReaderGroupState`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from wmlab.core.spark.schemas import choose, require
from wmlab.streams.bounds.log_by_segment import Flags, Longs, Marks, Ranges, Runs, bounds_of, column, log_of, parts
from wmlab.streams.model.log import known_from

GROUP_COLUMNS: Final = ("stream", "group", "version", "at_ms")
_CHANGES: Final = {"stream": "string", "group": "string", "finished": "boolean"} | dict.fromkeys(
    ("segment_id", "offset", "version", "at_ms"), "long"
)
_ROWS: Final = (
    "stream string, group string, version long, at_ms long, lower long, upper long, lower_seq long, upper_seq long"
)
Counts = npt.NDArray[np.int32]
Ranks = tuple[int, int]


def group_time_bounds(
    positions: DataFrame, watermarks: DataFrame, segments: DataFrame, *, visible: Literal["all", "then"] = "all"
) -> DataFrame:
    """The time bounds of every version of every reader group, as one tracker that follows the group sees them.

    `positions` is a log of changes: from `version` and `at_ms` (ms) on, the group's last read offset in `segment_id`
    is `offset` (bytes), or, with `finished`, the segment has left its position. Rows of one version are one change.
    The result has one row per stream, group and version: stream, group, version, at_ms, lower, upper, lower_seq,
    upper_seq; bounds are null while unknown. `watermarks` and `segments` are as in `time_bounds`.

    `visible="all"` takes the complete log as known from the beginning; with `"then"` a watermark is known from its
    emitted_ms on, which is what a reader can have known. Nothing is executed here. Raises `ModelError` for a missing
    column, or anything else as `visible`. Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
    """
    choose("visible", visible, ("all", "then"))
    require(positions, "positions", _CHANGES)
    changes = positions.select(*(F.col(name).cast(kind).alias(name) for name, kind in _CHANGES.items()))
    then = visible == "then"
    log = log_of(watermarks, segments, emitted=then)
    # Under another name: Spark cannot tell a column of `changes` from the same one come back by a join.
    groups = changes.select("stream", F.col("group").alias("of_group")).distinct()
    by_group = log.join(F.broadcast(groups), "stream").groupBy("stream", "of_group")

    def replayed(changes: pa.Table, log: pa.Table) -> pa.Table:
        """The bounds of one group; runs on an executor."""
        marks, ranges = parts(log)
        versions = changes.group_by("version").aggregate([("at_ms", "max"), ([], "count_all")]).sort_by("version")
        known = np.full(versions.num_rows, len(marks.seq))
        if then:
            emitted = np.array(known_from(marks.emitted_ms.tolist()), np.int64)
            known = emitted.searchsorted(column(versions, "at_ms_max"), side="right")
        rows, moves = _moves(marks, ranges, changes.sort_by("version"))
        ends = np.searchsorted(rows, np.cumsum(column(versions, "count_all")))
        group = Group(*np.zeros((2, len(marks.seq)), np.int32))
        places, begin = [], 0
        for end, count in zip(ends.tolist(), known.tolist(), strict=True):
            for segment, ranks in moves[begin:end]:
                group.move(segment, ranks)
            group.advance(count)
            places.append((group.lower, group.upper))
            begin = end
        first = {name: [changes[name][0].as_py()] * versions.num_rows for name in ("stream", "group")}
        times = {"version": versions["version"], "at_ms": versions["at_ms_max"]}
        return pa.table(first | times | bounds_of(marks, *np.array(places).T))

    return changes.groupBy("stream", "group").cogroup(by_group).applyInArrow(replayed, _ROWS)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """One segment against the log: its cuts by offset, and which whole runs it is past or before at any offset."""

    offsets: Longs
    places: Longs
    past: tuple[slice, ...]
    before: tuple[slice, ...]

    @classmethod
    def of(cls, segment: int, marks: Marks, ranges: Ranges, runs: Runs) -> Segment:
        """The segment with this id."""
        places, offsets = runs.cuts_of(segment, marks)
        order = np.argsort(offsets, kind="stable")
        older, newer = runs.sides(segment, ranges)
        unnamed = ~runs.naming(segment)

        def spans(which: Flags) -> tuple[slice, ...]:
            chosen = np.flatnonzero(which & unnamed)
            return tuple(slice(int(runs.first[run]), int(runs.last[run]) + 1) for run in chosen)

        return cls(offsets[order], places[order], spans(older), spans(newer))

    def ranks(self, offsets: Longs) -> tuple[Longs, Longs]:
        """How many cuts each offset is past, and how many it has reached."""
        return self.offsets.searchsorted(offsets, side="left"), self.offsets.searchsorted(offsets, side="right")


def _moves(marks: Marks, ranges: Ranges, changes: pa.Table) -> tuple[Longs, list[tuple[Segment, Ranks | None]]]:
    """The changes that cross a cut, open a segment or close one, in order: their rows, and the segment and its ranks.

    Ranks of None: the segment leaves the position.
    """
    runs = Runs.of(marks, ranges)
    ids, offset = column(changes, "segment_id"), column(changes, "offset")
    finished = changes["finished"].to_numpy()
    segments, parts = {}, []
    for segment_id in np.unique(ids).tolist():
        segment = segments[segment_id] = Segment.of(segment_id, marks, ranges, runs)
        rows = np.flatnonzero(ids == segment_id)
        ranks = np.where(finished[rows], -1, segment.ranks(offset[rows]))
        # A segment that was not in the position is not there when it leaves it, either.
        before = np.column_stack([[-1, -1], ranks[:, :-1]])
        parts.append(np.vstack([rows, np.full(len(rows), segment_id), ranks])[:, (ranks != before).any(axis=0)])
    moves = np.hstack(parts)
    moves = moves[:, np.argsort(moves[0], kind="stable")]
    ranked = moves[1:].T.tolist()
    return moves[0], [(segments[of], (past, reached) if past >= 0 else None) for of, past, reached in ranked]


@dataclass(slots=True)
class Group:
    """The tracker of one group over its counters: per watermark the segments in which it is before it, and past it.

    `lower`, `pending` and `upper` are places in the log, -1: none.
    """

    before: Counts
    past: Counts
    ranks: dict[Segment, Ranks] = field(default_factory=dict)
    lower: int = -1
    pending: deque[int] = field(default_factory=deque)
    fetched: int = 0

    def move(self, segment: Segment, to: Ranks | None) -> None:
        """Count a segment at its new ranks; None: it has left the position."""
        at = self.ranks.pop(segment, None)
        if (at is None) != (to is None):
            step = 1 if at is None else -1
            for span in segment.past:
                self.past[span] += step
            for span in segment.before:
                self.before[span] += step
        past, reached = at or (0, len(segment.places))
        new_past, new_reached = to or (0, len(segment.places))
        _shift(self.past, segment.places, past, new_past, 1)
        _shift(self.before, segment.places, reached, new_reached, -1)
        if to is not None:
            self.ranks[segment] = to

    def advance(self, known: int) -> None:
        """Follow the group to its position now, with the first `known` watermarks in the log."""
        before, past, pending = self.before, self.past, self.pending
        while pending and not before[pending[0]]:
            self.lower = pending.popleft()
        while self.fetched < known:
            if pending and before[pending[-1]] and not past[pending[-1]]:
                break
            if before[self.fetched]:
                pending.append(self.fetched)
            else:
                self.lower = self.fetched
            self.fetched += 1

    @property
    def upper(self) -> int:
        """The last watermark in flight."""
        return self.pending[-1] if self.pending else -1


def _shift(counts: Counts, places: Longs, old: int, new: int, step: int) -> None:
    """Add `step` at the places from rank `old` up to `new`, or take it away on the way back."""
    if new > old:
        counts[places[old:new]] += step
    elif new < old:
        counts[places[new:old]] -= step
