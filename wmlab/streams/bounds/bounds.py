"""Two-sided time bounds of positions: what event times can still come behind a position, and what lies before it.

A fresh tracker (`wmlab.streams.model.window.Tracker`) that is given one position and the complete log gives both. Per
segment the answer is constant on intervals of offsets, and for all segments that nobody knows on intervals of ids, so
the question is a lookup in a broadcast table, which has a row for each segment and one for all others of a stream. A
position shifts its offset to a cell of its segment's grid, which says at which record to begin, and goes on to the last
record that starts at or before it. No position is sorted, shuffled or sent to Python.

A fresh tracker stops at the first watermark that is ahead of the position. Seen from one segment, only a watermark
that reaches further than all before it can be that first one, so each such step begins a new interval of offsets.
This holds for cuts that move back too (Pravega's own algorithm can make them).

Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
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
    Flags,
    Longs,
    Marks,
    Ranges,
    Runs,
    bounds_of,
    log_of,
    parts,
)

POSITION_COLUMNS: Final = ("stream", "segment_id", "offset")
BOUND_COLUMNS: Final = ("lower", "upper", "lower_seq", "upper_seq")
_OWN: Final = "_wmlab_"
_LONGS: Final = pa.list_(pa.int64())
_INTS: Final = pa.list_(pa.int32())
_LOOKUP: Final = pa.schema(
    {
        "stream": pa.string(),
        "segment_id": pa.int64(),
        "shift": pa.int32(),
        "last": pa.int64(),
        "steps": _INTS,
        "numbers": _LONGS,
    }
)
"""One row for each segment that is known or named in a cut, and for each stream one for all others: segment_id null.

`numbers` are the cells of a grid, then a record for each interval of offsets, or of ids in the row of the others. A
record is `RECORD` numbers: start, lower, upper, lower_seq, upper_seq. Cell `min(value >> shift, last)` holds the index
of the last record that starts before the cell, or of the first. From there `steps` are the jumps of a binary search,
largest first, enough for the fullest cell: unevenly spread watermarks cost time and never the answer.
"""
RECORD: Final = 5
"""Numbers in the record of an interval."""
_NEAR: Final = 2
"""Records behind a cell's first that are tried before the search, which Spark interprets."""


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
    lookup = log_of(watermarks, segments).groupBy("stream").applyInArrow(_lookup_rows, _ddl(_LOOKUP))
    # The hash of an int is not that of the same long.
    stream, segment, offset = F.col("stream"), F.col("segment_id").cast("long"), F.col("offset").cast("long")
    known = _joined(positions, lookup, "known_", F.xxhash64(stream, segment), lambda own: own == segment)
    is_known = _own("known_key").isNotNull()
    # A key of null is not looked up. The condition names the position too: by one on the table alone Spark would filter
    # the table, and make it once more.
    key = F.when(~is_known, F.xxhash64(stream))
    found = _joined(known, lookup, "other_", key, lambda own: F.coalesce(own, segment) == segment)
    value = F.when(offset >= 0, F.when(is_known, offset).otherwise(segment))
    # Both joins read the same columns, for the same reason.
    tables = {name: F.coalesce(_own("known_" + name), _own("other_" + name)) for name in _TABLES}
    found = _placed(found.withColumns({_OWN + name: column for name, column in (tables | {"value": value}).items()}))
    bounds = (
        F.get(_own("numbers"), _own("at") + place).alias(name) for place, name in enumerate(BOUND_COLUMNS, start=1)
    )
    return found.select("*", *bounds).drop(*(column for column in found.columns if column.startswith(_OWN)))


_TABLES: Final = ("shift", "last", "steps", "numbers")


def _joined(
    rows: DataFrame, lookup: DataFrame, prefix: str, key: Column, is_row: Callable[[Column], Column]
) -> DataFrame:
    """`rows` with the row of the lookup table that has this key, the same stream and a segment as wanted."""
    columns = (F.col(name).alias(_OWN + prefix + name) for name in lookup.columns)
    table = lookup.select(F.xxhash64("stream", "segment_id").alias(_OWN + prefix + "key"), *columns)
    same = (F.col("stream") == _own(prefix + "stream")) & is_row(_own(prefix + "segment_id"))
    # A table with one long key is looked up in an array; with several keys it would be a hash of rows, at thrice the
    # price. So what is compared has a form that Spark does not take for further keys: `last` is never negative.
    checked = same | (_own(prefix + "last") < 0)
    return rows.join(F.broadcast(table), (key == _own(prefix + "key")) & checked, "left")


def _placed(found: DataFrame) -> DataFrame:
    """Positions with `at`, the index of the last record that starts at or before their value; null of null."""
    value = _own("value")
    cell = F.greatest(F.least(F.call_function("shiftright", value, _own("shift")), _own("last")), F.lit(0))
    first = F.get(_own("numbers"), F.when(value.isNotNull(), cell).cast("int")).cast("int")
    found = found.withColumn(_OWN + "at", first)

    def jumped(at: Column, step: Column) -> Column:
        return F.when(F.get(_own("numbers"), at + step) <= value, at + step).otherwise(at)

    for _ in range(_NEAR):
        found = found.withColumn(_OWN + "at", jumped(_own("at"), F.lit(RECORD)))
    is_further = F.get(_own("numbers"), _own("at") + RECORD) <= value
    searched = F.aggregate(_own("steps"), _own("at"), jumped)
    return found.withColumn(_OWN + "at", F.when(is_further, searched).otherwise(_own("at")))


def _own(name: str) -> Column:
    return F.col(_OWN + name)


def _ddl(schema: pa.Schema) -> str:
    names = {pa.string(): "string", pa.int32(): "int", pa.int64(): "long", _INTS: "array<int>", _LONGS: "array<long>"}
    return ", ".join(f"{field.name} {names[field.type]}" for field in schema)


def _lookup_rows(rows: pa.Table) -> pa.Table:
    """The lookup table of one stream; runs on an executor."""
    marks, ranges = parts(rows)
    if not len(marks.seq):
        return _LOOKUP.empty_table()
    found = {None: of_others(marks)} | dict(of_segments(marks, ranges))
    shift, last, steps, numbers = zip(*(_table(marks, intervals) for intervals in found.values()), strict=True)
    stream = [rows["stream"][0].as_py()] * len(found)
    columns = (stream, list(found), list(shift), list(last), _lists(steps), _lists(numbers))
    return pa.table(dict(zip(_LOOKUP.names, columns, strict=True)), schema=_LOOKUP)


def _lists(parts: Sequence[pa.Array]) -> pa.Array:
    ends = pa.array(accumulate((len(part) for part in parts), initial=0), pa.int32())
    return pa.ListArray.from_arrays(ends, pa.concat_arrays(parts))


_CELLS_PER_INTERVAL: Final = 8
_MANY_CELLS: Final = 1 << 16
"""From here on two cells per interval have to do: the table is sent to every executor."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of offsets or ids: `starts` ascend, the last one is open; places in the log, -1: none."""

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


def of_others(marks: Marks) -> Intervals:
    """The intervals of ids of the segments that are neither known nor named in a cut, at whatever offset.

    A segment of unknown range is compared with all segments of a cut, so the least and the most of them decide.
    """
    count = len(marks.seq)
    least, most = np.full(count, NEVER), np.full(count, BELOW)
    np.minimum.at(least, marks.place, marks.segment)
    np.maximum.at(most, marks.place, marks.segment)
    starts = np.unique(np.concatenate([[BELOW], least[least < NEVER], most]))
    place, found = np.arange(count), []
    for after in starts.tolist():
        older, newer = least <= after, most > after
        found.append(intervals(place, np.where(newer & ~older, NEVER, ALWAYS), ~(newer & older)))
    return Intervals(starts, *(np.array([getattr(one, name)[0] for one in found]) for name in ("lower", "upper")))


def _merged(own: tuple[Longs, Longs, Flags], other: tuple[Longs, Longs, Flags], which: Flags) -> Intervals:
    if not which.any():
        return intervals(*own)
    place, reach, decided = (np.append(mine, theirs[which]) for mine, theirs in zip(own, other, strict=True))
    order = np.argsort(place, kind="stable")
    return intervals(place[order], reach[order], decided[order])


def _table(marks: Marks, found: Intervals) -> tuple[int, int, pa.Array, pa.Array]:
    """Shift, last, steps and numbers of one row of the lookup table."""
    starts = found.starts
    wanted = max(2 * len(starts), min(_CELLS_PER_INTERVAL * len(starts), _MANY_CELLS))
    shift = (max(0, int(starts[-1])) // wanted).bit_length()
    # All ids below zero are in the first cell.
    inside = np.bincount(np.maximum(starts, 0) >> shift)
    cells = len(inside) + RECORD * np.maximum(np.cumsum(inside) - inside - 1, 0)
    steps = RECORD << np.arange(int(inside.max()).bit_length())[::-1]
    bounds = bounds_of(marks, found.lower, found.upper).values()
    values = np.column_stack([starts, *(bound.fill_null(0).to_numpy() for bound in bounds)])
    nowhere = np.zeros(len(starts), np.bool_)
    unknown = np.column_stack([nowhere, *(np.asarray(bound.is_null()) for bound in bounds)])
    records = pa.array(values.ravel(), mask=unknown.ravel())
    return shift, len(inside) - 1, pa.array(steps, pa.int32()), pa.concat_arrays([pa.array(cells), records])
