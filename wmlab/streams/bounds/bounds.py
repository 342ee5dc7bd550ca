"""Two-sided time bounds of positions: what event times can still come behind a position, and what lies before it.

A fresh tracker (`wmlab.streams.model.window.Tracker`) that is given one position and the complete log gives both. Per
segment the answer is constant on intervals of offsets, and for all segments that nobody knows on intervals of ids, so
the question is a lookup in a broadcast table, which has a row for each segment and one for all others of a stream. A
position shifts its offset to a cell of its segment's grid, which says between which records to search for the last one
that starts at or before it. No position is sorted, shuffled or sent to Python, and the search is compiled.

A fresh tracker stops at the first watermark that is ahead of the position. Seen from one segment, only a watermark
that reaches further than all before it can be that first one, so each such step begins a new interval of offsets.
This holds for cuts that move back too (Pravega's own algorithm can make them).

Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from wmlab.core.spark.schemas import refuse, require, spark_schema
from wmlab.streams.bounds.log_by_segment import NEVER, Flags, Longs, Marks, Ranges, Runs, bounds_of, log_of, parts

POSITION_COLUMNS: Final = ("stream", "segment_id", "offset")
BOUND_COLUMNS: Final = ("lower", "upper", "lower_seq", "upper_seq")
_OWN: Final = "_wmlab_"
_STREAM: Final = "STRING({asked}.stream)"
_LOOKUP: Final = pa.schema({"stream": pa.string(), "segment_id": pa.int64(), "numbers": pa.list_(pa.int64())})
"""One row for each segment that is known or named in a cut, and for each stream one for all others: segment_id null.

`numbers` are a shift, the last cell, the cells of a grid, and a record for each interval of offsets, or of ids in the
row of the others. A record is `RECORD` numbers: start, lower, upper, lower_seq, upper_seq. Cell `min(value >> shift,
last)` holds the index of the last record that starts before it, or of the first; the next cell, of the last one in it.
"""
RECORD: Final = 5
"""Numbers in the record of an interval."""
_BITS: Final = 27
"""Two to this power is more than the records that a row of Spark can hold, so it is enough for the fullest cell."""
_BITS_AT_ONCE: Final = 3
"""Bits of the place that are searched in one column: Spark compiles each column once, and skips it where it can."""


def time_bounds(positions: DataFrame, watermarks: DataFrame, segments: DataFrame) -> DataFrame:
    """The time bounds of every position, as a fresh tracker over the complete log gives them.

    `positions` needs stream, segment_id and offset (bytes read); all its columns and rows are kept as they are, in
    any number and with duplicates. `watermarks` needs stream, seq (unique and increasing along a stream's log),
    lower, upper (null: it gives no such bound) and cut; one whose cut is null is left out. `segments` needs stream,
    segment_id, low and high. Added are, all nullable longs:

    - lower, lower_seq: of the last watermark passed; null when none is;
    - upper, upper_seq: of the first watermark ahead, or of the last undecided one when no watermark is ahead.

    A position with a null or negative offset, without segment, or in a stream without watermarks gets four nulls.
    A segment that is not in `segments` overlaps every other, as it does for a reader. Nothing is executed here.
    Raises `ModelError` for a missing column, and for one that is there already under an added name.
    Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
    """
    require(positions, "positions", POSITION_COLUMNS)
    refuse(positions, "positions", BOUND_COLUMNS)
    lookup = log_of(watermarks, segments).groupBy("stream").applyInArrow(_lookup_rows, spark_schema(_LOOKUP))
    lookup = lookup.select(F.expr("XXHASH64(stream, segment_id) AS key"), "*")
    segment = "BIGINT({asked}.segment_id)"  # The hash of an int is not that of the same long.
    asked = positions.alias(_OWN + "asked")
    known = _joined(asked, lookup, "known", f"XXHASH64({_STREAM}, {segment})", f"{{known}}.segment_id = {segment}")
    # A key of null is not looked up. The condition names the position too: by one on the table alone Spark would filter
    # the table, and make it once more.
    key = f"IF({{known}}.key IS NULL, XXHASH64({_STREAM}), NULL)"
    found = _joined(known, lookup, "other", key, f"COALESCE({{other}}.segment_id, {segment}) = {segment}")
    for columns in _search(segment):
        found = found.withColumns({_OWN + name: _sql(text) for name, text in columns.items()})
    bounds = (_sql(f"GET({{numbers}}, {{at}} + {place})").alias(name) for place, name in enumerate(BOUND_COLUMNS, 1))
    return found.select(_OWN + "asked.*", *bounds)


def _joined(rows: DataFrame, lookup: DataFrame, name: str, key: str, is_row: str) -> DataFrame:
    """`rows` with the row of the lookup table that has this key, the same stream and a segment as wanted."""
    # A table with one long key is looked up in an array; with several keys it would be a hash of rows, at thrice the
    # price. So what is compared has a form that Spark does not take for further keys: `numbers` is never null.
    same = f"({{{name}}}.stream = {_STREAM} AND {is_row} OR {{{name}}}.numbers IS NULL)"
    return rows.join(F.broadcast(lookup.alias(_OWN + name)), _sql(f"{{{name}}}.key = {key} AND {same}"), "left")


def _search(segment: str) -> Iterator[dict[str, str]]:
    """SQL of columns, group by group. The last, `at`, is the index of the last record that starts at or before a value.

    It is null where nothing is known. The search has a fixed number of steps: a function over an array would be
    interpreted, at up to twice the time of the whole.
    """
    # Both joins read the same columns, for the same reason as above.
    value = f"IF({{asked}}.offset >= 0, IF({{known}}.key IS NULL, {segment}, BIGINT({{asked}}.offset)), NULL)"
    yield {"numbers": "COALESCE({known}.numbers, {other}.numbers)", "value": value}
    yield {"cell": "SHIFTRIGHT({value}, INT(GET({numbers}, 0)))", "last": "GET({numbers}, 1)"}
    yield {"cell": "INT(IF({cell} < 0, 0, IF({cell} > {last}, {last}, {cell})))"}
    yield {
        "at": "INT(GET({numbers}, {cell} + 2))",
        "more": "INT(GET({numbers}, {cell} + 3) - GET({numbers}, {cell} + 2))",
    }
    for bit in range(_BITS - _BITS_AT_ONCE, -1, -_BITS_AT_ONCE):
        step = RECORD << bit
        yield {"at": f"IF({{more}} >= {step}, {_jump(step, 0, 1 << _BITS_AT_ONCE)}, {{at}})"}


def _jump(step: int, first: int, count: int) -> str:
    """SQL of a binary search: of the indices `at + step * i`, i from `first`, `count` of them, the last to begin at.

    Records behind those of the cell begin behind the value, or are none: null, which is not less.
    """
    if count == 1:
        return f"{{at}} + {step * first}"
    half = count // 2
    middle = step * (first + half)
    is_behind = f"{{more}} >= {middle} AND GET({{numbers}}, {{at}} + {middle}) <= {{value}}"
    return f"IF({is_behind}, {_jump(step, first + half, half)}, {_jump(step, first, half)})"


def _sql(text: str) -> Column:
    """SQL with own names in braces. A text is one call of the JVM, where a `Column` is one for each operator."""
    return F.expr(re.sub(r"{(\w+)}", _OWN + r"\1", text))


def _lookup_rows(rows: pa.Table) -> pa.Table:
    """The lookup table of one stream; runs on an executor."""
    marks, ranges = parts(rows)
    if not len(marks.seq):
        return _LOOKUP.empty_table()
    found = {None: of_others(marks)} | dict(of_segments(marks, ranges))
    numbers = [_table(marks, intervals) for intervals in found.values()]
    stream = [rows["stream"][0].as_py()] * len(found)
    return pa.table([stream, list(found), _lists(numbers)], schema=_LOOKUP)


def _lists(parts: Sequence[pa.Array]) -> pa.Array:
    ends = pa.array(accumulate((len(part) for part in parts), initial=0), pa.int32())
    return pa.ListArray.from_arrays(ends, pa.concat_arrays(parts))


_ALWAYS: Final = 0
"""A reach that every offset has: the watermark is passed by being in the segment at all."""
_BELOW: Final = -(2**63)
"""Before every segment id."""
_CELLS_PER_INTERVAL: Final = 8
_MANY_CELLS: Final = 1 << 16
"""From here on one cell per interval has to do: the table is sent to every executor."""


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
    furthest = np.maximum.accumulate(np.append(_ALWAYS, np.where(decided, reach, _ALWAYS)))
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
        other = np.where(never, runs.first, runs.last), np.where(never, NEVER, _ALWAYS), ~mixed
        yield segment, _merged((place, reach, np.ones(len(place), np.bool_)), other, ~runs.naming(segment))


def of_others(marks: Marks) -> Intervals:
    """The intervals of ids of the segments that are neither known nor named in a cut, at whatever offset.

    A segment of unknown range is compared with all segments of a cut, so the least and the most of them decide.
    """
    count = len(marks.seq)
    least, most = np.full(count, NEVER), np.full(count, _BELOW)
    np.minimum.at(least, marks.place, marks.segment)
    np.maximum.at(most, marks.place, marks.segment)
    starts = np.unique(np.concatenate([[_BELOW], least[least < NEVER], most]))
    place, found = np.arange(count), []
    for after in starts.tolist():
        older, newer = least <= after, most > after
        found.append(intervals(place, np.where(newer & ~older, NEVER, _ALWAYS), ~(newer & older)))
    return Intervals(starts, *(np.array([getattr(one, name)[0] for one in found]) for name in ("lower", "upper")))


def _merged(own: tuple[Longs, Longs, Flags], other: tuple[Longs, Longs, Flags], which: Flags) -> Intervals:
    if not which.any():
        return intervals(*own)
    place, reach, decided = (np.append(mine, theirs[which]) for mine, theirs in zip(own, other, strict=True))
    order = np.argsort(place, kind="stable")
    return intervals(place[order], reach[order], decided[order])


def _table(marks: Marks, found: Intervals) -> pa.Array:
    """The numbers of one row of the lookup table."""
    starts = found.starts
    wanted = max(len(starts), min(_CELLS_PER_INTERVAL * len(starts), _MANY_CELLS))
    shift = (max(0, int(starts[-1])) // wanted).bit_length()
    # All ids below zero are in the first cell.
    inside = np.bincount(np.maximum(starts, 0) >> shift)
    before = np.append(0, np.cumsum(inside))
    cells = 2 + len(before) + RECORD * np.maximum(before - 1, 0)
    bounds = bounds_of(marks, found.lower, found.upper).values()
    values = np.column_stack([starts, *(bound.fill_null(0).to_numpy() for bound in bounds)])
    nowhere = np.zeros(len(starts), np.bool_)
    unknown = np.column_stack([nowhere, *(np.asarray(bound.is_null()) for bound in bounds)])
    records = pa.array(values.ravel(), mask=unknown.ravel())
    return pa.concat_arrays([pa.array([shift, len(inside) - 1]), pa.array(cells), records])
