"""Two-sided time bounds of positions: what event times can still come behind a position, and what lies before it.

A fresh tracker (`wmlab.streams.model.window.Tracker`) that is given one position and the complete log gives both. Per
segment the answer is constant on intervals of offsets, so the question is a lookup, and the whole lookup is one
broadcast join on one long key. The table has one row per segment, which holds all of its intervals: a position hashes
its segment, shifts its offset to a cell of the segment's grid, and reads the record of its interval; where a cell holds
several, a binary search in that cell decides. No position is sorted, shuffled or sent to Python.

A fresh tracker stops at the first watermark that is ahead of the position. Seen from one segment, only a watermark
that reaches further than all before it can be that first one, so each such step begins a new interval of offsets.
This holds for cuts that move back too (Pravega's own algorithm can make them).

Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from wmlab.core.spark.schemas import refuse, require
from wmlab.streams.bounds.log_by_segment import (
    ALWAYS,
    BELOW,
    NEVER,
    Extremes,
    Flags,
    Longs,
    Marks,
    Ranges,
    Runs,
    bounds_of,
    extremes_of,
    log_of,
    parts,
)

POSITION_COLUMNS: Final = ("stream", "segment_id", "offset")
BOUND_COLUMNS: Final = ("lower", "upper", "lower_seq", "upper_seq")
_OWN: Final = "_wmlab_"
_LONGS: Final = pa.list_(pa.int64())
_INTS: Final = pa.list_(pa.int32())

_SEGMENT_ROWS: Final = pa.schema(
    {
        "stream": pa.string(),
        "segment_id": pa.int64(),
        "shift": pa.int32(),
        "last": pa.int64(),
        "steps": _INTS,
        "numbers": _LONGS,
    }
)
_GAP_ROWS: Final = pa.schema(
    {"stream": pa.string(), "after": pa.int64(), "before": pa.int64()} | dict.fromkeys(BOUND_COLUMNS, pa.int64())
)


def time_bounds(positions: DataFrame, watermarks: DataFrame, segments: DataFrame) -> DataFrame:
    """The time bounds of every position, as a fresh tracker over the complete log gives them.

    `positions` needs stream, segment_id and offset (bytes read); all its columns and rows are kept as they are, in
    any number and with duplicates. `watermarks` needs stream, seq (unique and increasing along a stream's log),
    lower, upper and cut; `segments` needs stream, segment_id, low and high. Added are, all nullable longs:

    - lower, lower_seq: of the last watermark passed; null when none is;
    - upper, upper_seq: of the first watermark ahead, or of the last undecided one when no watermark is ahead.

    A position with a null or negative offset, without segment, or in a stream without watermarks gets four nulls.
    A segment that is not in `segments` overlaps every other, as it does for a reader. Nothing is executed here.
    Raises `ModelError` for a missing column, and for one that is there already under an added name.
    Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
    """
    require(positions, "positions", POSITION_COLUMNS)
    refuse(positions, "positions", BOUND_COLUMNS)
    lookup = log_of(watermarks, segments).groupBy("stream").applyInArrow(_segment_rows, _ddl(_SEGMENT_ROWS))
    between = extremes_of(watermarks).groupBy("stream").applyInArrow(_gap_rows, _ddl(_GAP_ROWS))
    found = _in_gaps(_in_segments(positions, lookup), between)
    # Where the segment is known the gap has no match, and the other way round.
    bounds = (
        F.coalesce(F.get(_own("numbers"), _own("at") + place), _own("gap_" + name)).alias(name)
        for place, name in enumerate(BOUND_COLUMNS, start=1)
    )
    kept = [column for column in found.columns if column.startswith(_OWN)]
    return found.select("*", *bounds).drop(*kept)


def _in_segments(positions: DataFrame, lookup: DataFrame) -> DataFrame:
    """Positions with the table of their segment and `at`, the index of their record."""
    key = F.xxhash64("stream", "segment_id")
    table = lookup.select(key.alias(_OWN + "key"), *(F.col(name).alias(_OWN + name) for name in lookup.columns))
    same = (F.col("stream") == _own("stream")) & (F.col("segment_id") == _own("segment_id"))
    found = positions.join(F.broadcast(table), (key == _own("key")) & _checked(same, _own("shift")), "left")
    offset = F.col("offset").cast("long")
    cell = F.least(_own("last"), F.call_function("shiftright", offset, _own("shift")))
    cell = F.when(offset >= 0, cell).cast("int")
    found = found.withColumn(_OWN + "cell", F.get(_own("numbers"), cell).cast("int"))
    return found.withColumn(_OWN + "at", F.when(_own("cell") >= 0, _own("cell")).otherwise(_searched(offset)))


def _searched(offset: Column) -> Column:
    """The index of the last record that starts at or before the offset, in a cell with several."""

    def jump(index: Column, step: Column) -> Column:
        return F.when(F.get(_own("numbers"), index + step) <= offset, index + step).otherwise(index)

    return F.aggregate(_own("steps"), F.bitwise_not(_own("cell")), jump)


def _in_gaps(found: DataFrame, between: DataFrame) -> DataFrame:
    """Positions in segments that neither the segments nor a cut knows, with the bounds of their gap between ids."""
    columns = (F.col(name).alias(_OWN + "gap_" + name) for name in between.columns)
    table = between.select(F.xxhash64("stream").alias(_OWN + "gap_key"), *columns)
    key = F.when(_own("key").isNull() & (F.col("offset") >= 0), F.xxhash64("stream"))
    inside = (F.col("segment_id") > _own("gap_after")) & (F.col("segment_id") < _own("gap_before"))
    same = _checked(F.col("stream") == _own("gap_stream"), _own("gap_before"))
    return found.join(F.broadcast(table), (key == _own("gap_key")) & inside & same, "left")


def _checked(same: Column, never: Column) -> Column:
    """The columns behind a hashed key compared, in a form that Spark does not take for a further join key.

    A table with one long key is looked up in an array; with several keys it would be a hash of rows, at thrice the
    price. `never` is a column that is not negative in any row, which only we know.
    """
    return same | (never < 0)


def _own(name: str) -> Column:
    return F.col(_OWN + name)


def _ddl(schema: pa.Schema) -> str:
    names = {pa.string(): "string", pa.int32(): "int", pa.int64(): "long", _INTS: "array<int>", _LONGS: "array<long>"}
    return ", ".join(f"{field.name} {names[field.type]}" for field in schema)


def _segment_rows(rows: pa.Table) -> pa.Table:
    """The lookup table of one stream; runs on an executor."""
    marks, ranges = parts(rows)
    found = dict(of_segments(marks, ranges)) if len(marks.seq) else {}
    if not found:
        return _SEGMENT_ROWS.empty_table()
    shift, last, steps, numbers = zip(*(_lookup(marks, intervals) for intervals in found.values()), strict=True)
    stream = [rows["stream"][0].as_py()] * len(found)
    columns = (stream, list(found), list(shift), list(last), _lists(steps), _lists(numbers))
    return pa.table(dict(zip(_SEGMENT_ROWS.names, columns, strict=True)), schema=_SEGMENT_ROWS)


def _lists(parts: Sequence[pa.Array]) -> pa.Array:
    ends = pa.array(accumulate((len(part) for part in parts), initial=0), pa.int32())
    return pa.ListArray.from_arrays(ends, pa.concat_arrays(parts))


def _gap_rows(rows: pa.Table) -> pa.Table:
    """The bounds of one stream's unknown segments; runs on an executor."""
    log = Extremes.from_arrow(rows)
    stream = rows["stream"][0].as_py()
    out = []
    for after, before, found in of_gaps(log):
        bounds = {name: values[0].as_py() for name, values in bounds_of(log, found.lower, found.upper).items()}
        out.append({"stream": stream, "after": after, "before": before} | bounds)
    return pa.Table.from_pylist(out, schema=_GAP_ROWS)


RECORD: Final = 5
"""Numbers in the record of an interval."""
_CELLS_PER_INTERVAL: Final = 8
_MANY_CELLS: Final = 1 << 16
"""From here on two cells per interval have to do: the table is sent to every executor."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of offsets: `starts` ascending from 0, the last one open; places in the log, -1: none."""

    starts: Longs
    lower: Longs
    upper: Longs


def intervals(place: Longs, reach: Longs, decided: Flags) -> Intervals:
    """The intervals of a segment that passes the watermark at `place[i]` from offset `reach[i]` on.

    Places ascend. Where not `decided`, the watermark is undecided ("mixed") at every offset.
    """
    furthest = np.maximum.accumulate(np.append(ALWAYS, np.where(decided, reach, ALWAYS)))
    stops = np.flatnonzero(decided & (reach > furthest[:-1]))
    passed = np.maximum.accumulate(np.append(-1, np.where(decided, place, -1)))
    starts, lower, upper = furthest[:-1][stops], passed[:-1][stops], place[stops]
    if furthest[-1] < NEVER:
        mixed = place[~decided]
        starts, lower = np.append(starts, furthest[-1]), np.append(lower, passed[-1])
        upper = np.append(upper, mixed[-1] if len(mixed) else -1)
    return Intervals(starts, lower, upper)


def of_segments(marks: Marks, ranges: Ranges) -> Iterator[tuple[int, Intervals]]:
    """The intervals of every segment that is known or named in a cut, by id."""
    runs = Runs.of(marks, ranges)
    for segment in sorted(ranges.keys() | set(runs.segment.tolist())):
        place, reach = runs.cuts_of(segment, marks)
        older, newer = runs.sides(segment, ranges)
        never, mixed = newer & ~older, newer & older
        # A run that compares alike throughout is passed up to its last watermark, or stops the tracker at its first.
        other = np.where(never, runs.first, runs.last), np.where(never, NEVER, ALWAYS), ~mixed
        yield segment, _merged((place, reach, np.ones(len(place), np.bool_)), other, ~runs.naming(segment))


def of_gaps(log: Extremes) -> Iterator[tuple[int, int, Intervals]]:
    """One interval for all unknown segments with after < id < before, for neighbouring ids of the cuts.

    A segment of unknown range is compared with all segments of a cut, so the least and the most of them decide.
    """
    ids = np.unique(np.concatenate([log.least, log.most, [BELOW, NEVER]])).tolist()
    place = np.arange(len(log.seq))
    for after, before in pairwise(ids):
        older, newer = log.least <= after, log.most > after
        yield after, before, intervals(place, np.where(newer & ~older, NEVER, ALWAYS), ~(newer & older))


def _merged(own: tuple[Longs, Longs, Flags], other: tuple[Longs, Longs, Flags], which: Flags) -> Intervals:
    if not which.any():
        return intervals(*own)
    place, reach, decided = (np.append(mine, theirs[which]) for mine, theirs in zip(own, other, strict=True))
    order = np.argsort(place, kind="stable")
    return intervals(place[order], reach[order], decided[order])


def _lookup(marks: Marks, found: Intervals) -> tuple[int, int, pa.Array, pa.Array]:
    """One segment's table: shift, last, steps and numbers, which are the cells of its grid, then a record per interval.

    A record is `RECORD` numbers: start, lower, upper, lower_seq, upper_seq. Cell `min(offset >> shift, last)` holds the
    index of the record at its start, or the complement of it when more records start inside the cell. Then `steps`
    are the jumps of a binary search for the last record that starts at or before the offset, largest first. Its depth
    fits the fullest cell, so unevenly spread watermarks cost time and never the answer.
    """
    starts = found.starts
    wanted = max(2 * len(starts), min(_CELLS_PER_INTERVAL * len(starts), _MANY_CELLS))
    shift = (int(starts[-1]) // wanted).bit_length()
    last = int(starts[-1]) >> shift
    edges = np.arange(last + 1, dtype=np.int64) << shift
    first = np.searchsorted(starts, edges, side="right") - 1
    inside = np.append(np.searchsorted(starts, edges[1:], side="left"), len(starts)) - 1 - first
    index = len(edges) + RECORD * first
    steps = RECORD << np.arange(int(inside.max()).bit_length())[::-1]
    bounds = bounds_of(marks, found.lower, found.upper).values()
    values = np.column_stack([starts, *(bound.fill_null(0).to_numpy() for bound in bounds)])
    nowhere = np.zeros(len(starts), np.bool_)
    unknown = np.column_stack([nowhere, *(np.asarray(bound.is_null()) for bound in bounds)])
    records = pa.array(values.ravel(), mask=unknown.ravel())
    cells = pa.array(np.where(inside > 0, ~index, index))
    return shift, last, pa.array(steps, pa.int32()), pa.concat_arrays([cells, records])
