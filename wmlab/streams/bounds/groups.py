"""Two-sided time bounds of reader groups, at every moment at which they can change.

That is at every version of a group's state, and, for a reader that knows only what was emitted by then, whenever a
watermark becomes visible to a group that stands where it was. Between two rows of a group nothing changes.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from wmlab.core.spark.schemas import choose, require
from wmlab.streams.bounds.log_by_segment import (
    Flags,
    Longs,
    Marks,
    Ranges,
    Runs,
    bounds_of,
    column,
    log_of,
    parts,
)
from wmlab.streams.model.log import known_from

GROUP_COLUMNS: Final = ("stream", "group", "version", "at_ms")
_CHANGES: Final = {"stream": "string", "group": "string", "finished": "boolean"} | dict.fromkeys(
    ("segment_id", "offset", "version", "at_ms"), "long"
)
ANEW: Final = "anew"
"""The column of positions that says that a group begins anew."""
_ROWS: Final = (
    "stream string, group string, version long, at_ms long, change string, "
    "lower long, upper long, lower_seq long, upper_seq long"
)
CHANGES: Final = ("position", "watermark", "end")
"""What a row of a group begins with: another position, a watermark that became visible, or the end of the run."""
_POSITION, _WATERMARK, _END = range(len(CHANGES))
Ends = int | Mapping[str, int] | None
"""The end of the run (ms), or of each stream by its name; None: not known."""
Tie = Literal["watermark", "position"]
"""What came first within a millisecond in which a watermark became visible and the group changed its position."""
Counts = npt.NDArray[np.int32]
Ranks = tuple[int, int]


def group_time_bounds(
    positions: DataFrame,
    watermarks: DataFrame,
    segments: DataFrame,
    *,
    visible: Literal["all", "then"] = "all",
    until_ms: Ends = None,
) -> DataFrame:
    """The time bounds of every reader group at every change of them, as one tracker that follows the group sees them.

    `positions` is a log of changes: from `version` and `at_ms` (ms) on, the group's last read offset in `segment_id`
    is `offset` (bytes), or, with `finished`, the segment has left its position. Rows of one version are one change. If
    there is a column `anew` and it is true in all of them, the group begins anew with that version, as after a reset:
    another tracker follows it, which has passed nothing yet. `watermarks` and `segments` are as in `time_bounds`.

    The result is stream, group, version, at_ms, change, lower, upper, lower_seq, upper_seq; bounds are null while
    unknown, and hold until the next row of the group. `change` says what the row begins with:

    - `position`: a version of the group, with its at_ms;
    - `watermark`: a watermark became visible while the group stood at this version, and changed its bounds. at_ms is
      that of the watermark and lies between those of this version and the next one. What becomes visible in the
      millisecond of a version is in the row of the version, and no row says that nothing changed;
    - `end`: the bounds of the group at `until_ms` (ms), the end of the run, if that is given and later than all else.

    `until_ms` may give each stream its own end, as when it was deleted. No row is later than the end of its stream.

    `visible="all"` takes the complete log as known from the beginning, so nothing becomes visible between two
    positions; with `"then"` a watermark is known from its emitted_ms on, which is what a reader can have known. Nothing
    is executed here. Raises `ModelError` for a missing column, or anything else as `visible`. Source: PDP-33, Client
    Changes; upstream class `WatermarkReaderImpl`.
    """
    choose("visible", visible, ("all", "then"))
    require(positions, "positions", _CHANGES)
    then = visible == "then"
    anew = F.col(ANEW) if ANEW in positions.columns else F.lit(False)
    changes = positions.select(
        *(F.col(name).cast(kind).alias(name) for name, kind in _CHANGES.items()), anew.cast("boolean").alias(ANEW)
    )
    log = log_of(watermarks, segments, emitted=then)
    # Under another name: Spark cannot tell a column of `changes` from the same one come back by a join.
    groups = changes.select("stream", F.col("group").alias("of_group")).distinct()
    by_group = log.join(F.broadcast(groups), "stream").groupBy("stream", "of_group")

    def replayed(changes: pa.Table, log: pa.Table) -> pa.Table:
        """The bounds of one group; runs on an executor."""
        return bounds_of_group(changes, *parts(log), then=then, until_ms=until_ms)

    return changes.groupBy("stream", "group").cogroup(by_group).applyInArrow(replayed, _ROWS)


def bounds_of_group(changes: pa.Table, marks: Marks, ranges: Ranges, *, then: bool, until_ms: Ends) -> pa.Table:
    """The rows of one group, as in `group_time_bounds`.

    `changes` are the rows of its positions, with a column `anew`; `marks` and `ranges` are the log of its stream.
    """
    rows = _followed(changes, marks, ranges, then=then)
    return _ended(rows, until_of(until_ms, changes["stream"][0].as_py())).drop_columns(["settled"])


def possible_time_bounds(changes: pa.Table, marks: Marks, ranges: Ranges) -> pa.Table:
    """The bounds of one group with `visible="then"` in either order of what happened in one millisecond.

    A reader that looks in a millisecond in which a watermark becomes visible and the group changes its position may
    know of both, of either, or of none. So there are rows for each of these states, in no order, some of them twice.
    `changes` are rows of `positions` as `group_time_bounds` takes them, with `anew`. The columns are those that it has,
    and `settled`: whether it is the last state of its millisecond.
    """
    return pa.concat_tables(
        [_followed(changes, marks, ranges, then=True, tie=tie) for tie in ("watermark", "position")]
    )


def _followed(changes: pa.Table, marks: Marks, ranges: Ranges, *, then: bool, tie: Tie | None = None) -> pa.Table:
    """The rows of one group, with `tie` as the order of what happened in one millisecond."""
    known_ms = np.array(known_from(marks.emitted_ms.tolist()), np.int64) if then else None
    moves = _Moves.of(marks, ranges, changes.sort_by("version"))
    first = {name: changes[name][0].as_py() for name in ("stream", "group")}
    return _rows(first, moves, Steps.of(moves.at_ms, known_ms, len(marks.seq), tie), marks)


def anew_of(positions: Iterable[Mapping[str, Any]], applied: Iterable[Mapping[str, Any]]) -> list[bool]:
    """Of each change of a position in one stream whether it is one of a reset, with which the readers begin anew.

    `applied` are the updates of the groups that were applied. Of those of one millisecond a reset is the one that no
    reader asked for.
    """
    resets = {(row["group"], row["at_ms"]) for row in applied if row["operation"] == "reset"}
    return [row["reader"] is None and (row["group"], row["at_ms"]) in resets for row in positions]


def until_of(until_ms: Ends, stream: str) -> int | None:
    """The end of one stream (ms); None: it is not known."""
    return until_ms.get(stream) if isinstance(until_ms, Mapping) else until_ms


class Steps(NamedTuple):
    """What the tracker of a group goes through, in this order.

    Of each step the number of the group's version, from 0, the clock (ms), how many watermarks are known, and the place
    in `CHANGES` of what it begins with.
    """

    version: Longs
    at_ms: Longs
    known: Longs
    change: Longs

    @classmethod
    def of(cls, at_ms: Longs, known_ms: Longs | None, count: int, tie: Tie | None) -> Steps:
        """The versions at these times, and what becomes visible between them; without `known_ms` all always is.

        Without a `tie` a version sees what becomes visible in its millisecond.
        """
        versions = np.arange(len(at_ms))
        found = [cls(versions, at_ms, np.full(len(at_ms), count), np.full(len(at_ms), _POSITION))]
        if known_ms is not None:
            side: Literal["left", "right"] = "left" if tie == "position" else "right"
            found[0] = found[0]._replace(known=known_ms.searchsorted(at_ms, side))
            moments = np.unique(known_ms)
            if tie is None:
                moments = moments[~np.isin(moments, at_ms)]
            side = "left" if tie == "watermark" else "right"
            of_version = np.maximum.accumulate(at_ms).searchsorted(moments, side) - 1
            moments, of_version = moments[of_version >= 0], of_version[of_version >= 0]
            known = known_ms.searchsorted(moments, "right")
            found.append(cls(of_version, moments, known, np.full(len(moments), _WATERMARK)))
        steps = cls(*(np.concatenate(column) for column in zip(*found, strict=True)))
        order = np.lexsort((steps.at_ms, steps.change, steps.version))
        return cls(*(column[order] for column in steps))


def _rows(first: Mapping[str, str], moves: _Moves, steps: Steps, marks: Marks) -> pa.Table:
    """The rows of one group that goes through these steps."""
    group = Group(*np.zeros((2, len(marks.seq)), np.int32))
    places = []
    for version, known, change in zip(steps.version.tolist(), steps.known.tolist(), steps.change.tolist(), strict=True):
        if change == _POSITION:
            for segment, ranks in moves.of_version(version):
                group.move(segment, ranks)
            if moves.anew[version]:
                group.begin_anew()
        group.advance(known)
        places.append((group.lower, group.upper))
    bounds = pa.table(bounds_of(marks, *np.array(places).T))
    seqs = np.column_stack([bounds[name].fill_null(-1).to_numpy() for name in ("lower_seq", "upper_seq")])
    same = np.append(False, (seqs[1:] == seqs[:-1]).all(axis=1))
    kept = pa.array(~(same & (steps.change == _WATERMARK)))
    columns = {
        **{name: [value] * len(seqs) for name, value in first.items()},
        "version": moves.versions[steps.version],
        "at_ms": steps.at_ms,
        "change": np.array(CHANGES)[steps.change],
    }
    rows = pa.table(columns | dict(zip(bounds.column_names, bounds.columns, strict=True))).filter(kept)
    at_ms = column(rows, "at_ms")
    return rows.append_column("settled", pa.array(np.append(at_ms[1:] != at_ms[:-1], True)))


def _ended(rows: pa.Table, end_ms: int | None) -> pa.Table:
    """The rows of one group up to its end, and one that begins there."""
    if end_ms is None:
        return rows
    rows = rows.filter(pc.less_equal(rows["at_ms"], end_ms))
    if not rows.num_rows or max(rows["at_ms"].to_pylist()) == end_ms:
        return rows
    last = rows.slice(rows.num_rows - 1).to_pylist()[0] | {"at_ms": end_ms, "change": CHANGES[_END]}
    return pa.concat_tables([rows, pa.Table.from_pylist([last], rows.schema)])


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


@dataclass(frozen=True, slots=True)
class _Moves:
    """The versions of a group, ascending, and the changes that cross a cut, open a segment or close one, in order.

    Of each version its number, time and whether the group begins anew. The moves of version i are those from `ends[i]`
    up to `ends[i + 1]`: a segment and its ranks, None if it leaves the position.
    """

    versions: Longs
    at_ms: Longs
    anew: list[bool]
    moves: list[tuple[Segment, Ranks | None]]
    ends: list[int]

    @classmethod
    def of(cls, marks: Marks, ranges: Ranges, changes: pa.Table) -> _Moves:
        """From the changes of one group in the order of their versions."""
        counted = [("at_ms", "max"), (ANEW, "all"), ([], "count_all")]
        versions = changes.group_by("version").aggregate(counted).sort_by("version")
        rows, moves = _moves(marks, ranges, changes)
        ends = np.searchsorted(rows, np.cumsum(np.append(0, column(versions, "count_all"))))
        anew = [bool(value) for value in versions[f"{ANEW}_all"].to_pylist()]
        return cls(column(versions, "version"), column(versions, "at_ms_max"), anew, moves, ends.tolist())

    def of_version(self, number: int) -> list[tuple[Segment, Ranks | None]]:
        """The moves of one version, by its place from 0."""
        return self.moves[self.ends[number] : self.ends[number + 1]]


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

    def begin_anew(self) -> None:
        """Go on with a tracker that has read nothing; the group stays where it is."""
        self.lower, self.fetched = -1, 0
        self.pending.clear()

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
