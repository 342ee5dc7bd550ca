"""Two-sided time bounds of positions: which event times can still come after a position, and which are before it.

A fresh tracker (`wmlab.streams.model.window.Tracker`) that is given one position and the complete log gives both. Per
segment the answer is constant on intervals of offsets, and for all unknown segments on intervals of ids. So the
question is a lookup in a broadcast table, which has a row for each segment and one for all others of a stream. In the
numbers of its row a position finds the last interval to start at or before its offset. No position is sorted, shuffled
or sent to Python, and the search is compiled.

A fresh tracker stops at the first watermark that is ahead of the position. Seen from one segment, only a watermark that
reaches further than all before it can be that first one. So each such step begins a new interval of offsets. This holds
for cuts that move back too (Pravega's own algorithm can make them).

Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F

from wmlab.core.spark.schemas import refuse, require, spark_schema
from wmlab.core.times import Int64Array
from wmlab.streams.bounds.layout import (
    BOUND,
    CELL,
    GRID,
    GRID_KIND,
    LIST_KIND,
    LOCATION,
    MOST_RECORDS,
    NO_WATERMARK,
    PackedNumber,
)
from wmlab.streams.bounds.log_by_segment import (
    Intervals,
    WatermarkColumns,
    intervals_by_segment,
    intervals_elsewhere,
    log_of,
    parts,
)

BOUND_COLUMNS: Final = ("lower", "upper", "lower_seq", "upper_seq")
_OWN: Final = "_wmlab_"
_STREAM: Final = "STRING({asked}.stream)"
_NUMBERS: Final = pa.list_(pa.field("element", pa.int64(), nullable=False))
_LOOKUP: Final = pa.schema({"stream": pa.string(), "segment_id": pa.int64(), "numbers": _NUMBERS})
"""One row for each segment that is known or named in a cut, and for each stream one for all others: segment_id null.

`wmlab.streams.bounds.layout` says what the numbers are. Where they could be null, Spark would look for it at each of
them, at a fifth of the time of a query.
"""
_CELLS: Final = 2
"""Cells of a grid for each of its records, at least."""
_FEW_CELLS: Final = 1 << 16
"""Up to here there are four times as many: the numbers are sent to every executor."""


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
    require(positions, "positions", ("stream", "segment_id", "offset"))
    refuse(positions, "positions", BOUND_COLUMNS)
    lookup = log_of(watermarks, segments).groupBy("stream").applyInArrow(_lookup_rows, spark_schema(_LOOKUP))
    # Ids under a hash of the stream cost half of a hash of both. What has the same key is told apart when it is joined.
    lookup = lookup.select(_sql("IFNULL(XXHASH64(stream) ^ segment_id, ~XXHASH64(stream)) AS key"), "*")
    segment = "BIGINT({asked}.segment_id)"
    aliased = positions.alias(_OWN + "asked")
    known = _joined(aliased, lookup, "known", f"XXHASH64({_STREAM}) ^ {segment}", f"{{known}}.segment_id = {segment}")
    # A key of null is not looked up. The condition names the position too: by one on the table alone Spark would filter
    # the table, and make it once more.
    key = f"IF({{known}}.key IS NULL, ~XXHASH64({_STREAM}), NULL)"
    joined = _joined(known, lookup, "other", key, f"COALESCE({{other}}.segment_id, {segment}) = {segment}")
    for columns in _search(segment):
        joined = joined.withColumns({_OWN + name: _sql(text) for name, text in columns.items()})
    lower_at, upper_at = (LOCATION.sql("index", name) for name in ("{lower}", "{upper}"))
    indices = ("{lower}", "{upper} + 1", f"({lower_at}) + 2", f"({upper_at}) + 2")
    bounds = (_sql(f"GET({{numbers}}, {at})").alias(name) for at, name in zip(indices, BOUND_COLUMNS, strict=True))
    return joined.select(_OWN + "asked.*", *bounds)


def _joined(rows: DataFrame, lookup: DataFrame, name: str, key: str, is_row: str) -> DataFrame:
    """`rows` with the row of the lookup table that has this key, the same stream and a segment as wanted."""
    # The trick of the join key: a table with one long key is looked up in an array; with several keys it would be a
    # hash of rows, at thrice the price. So one long is the key, and what it leaves open, the stream and the segment, is
    # compared in a form that Spark does not take for further keys: OR with a condition that never holds, since
    # `numbers` is never null.
    is_same = f"({{{name}}}.stream = {_STREAM} AND {is_row} OR {{{name}}}.numbers IS NULL)"
    return rows.join(F.broadcast(lookup.alias(_OWN + name)), _sql(f"{{{name}}}.key = {key} AND {is_same}"), "left")


def _search(segment: str) -> Iterator[dict[str, str]]:
    """SQL of columns, group by group. The last are the locations of the lower and of the upper watermark.

    They are null where nothing is known. The search has a fixed number of steps: a function over an array would be
    interpreted, at up to twice the time of the whole.
    """
    # Both joins read the same columns, for the same reason as above.
    value = f"IF({{asked}}.offset >= 0, IF({{known}}.key IS NULL, {segment}, BIGINT({{asked}}.offset)), NULL)"
    yield {"numbers": "COALESCE({known}.numbers, {other}.numbers)", "value": value}
    yield {"value": "IF({value} > GET({numbers}, 0), GET({numbers}, 0), {value})", "grid": "GET({numbers}, 1)"}
    yield {"cell": _cell("{grid}", "IF({value} < 0, 0, {value})")}
    in_cell = f"{{value}} & ~SHIFTLEFT(-1L, {_int(GRID, 'shift', '{grid}')})"
    finer = _cell("{cell}", in_cell)
    yield {"cell": f"IF(({CELL.sql('kind', '{cell}')}) = {GRID_KIND}, {finer}, {{cell}})"}
    yield {"at": _int(CELL, "at", "{cell}"), "kind": _int(CELL, "kind", "{cell}")}
    yield {"bound": f"GET({{numbers}}, 1 + IF({{kind}} = {LIST_KIND}, {_record_by_list()}, {{at}} + {_steps(1)}))"}
    yield {name: _int(BOUND, name, "{bound}") for name in ("lower", "upper")}


def _int(packed: PackedNumber, field: str, number: str) -> str:
    """SQL of a field as an INT, which an index of an array has to be."""
    return f"INT({packed.sql(field, number)})"


def _cell(grid: str, value: str) -> str:
    """SQL of the cell in which a value lies in a grid."""
    cell = f"SHIFTRIGHT({value}, {_int(GRID, 'shift', grid)})"
    return f"GET({{numbers}}, INT({GRID.sql('at', grid)} + {cell}))"


def _steps(count: int) -> str:
    """SQL of how far to go over at most `MOST_RECORDS` records, from the first to start behind a cell's beginning."""
    if count > MOST_RECORDS:
        return str(2 * MOST_RECORDS)
    is_last = f"{{kind}} < {count} OR GET({{numbers}}, {{at}} + {2 * count}) > {{value}}"
    return f"IF({is_last}, {2 * (count - 1)}, {_steps(count + 1)})"


def _record_by_list() -> str:
    """SQL of where the record of a value stands, by the position of the value in a list of starts that descends."""
    starts = "SLICE({numbers}, {at} + 3, INT(GET({numbers}, {at})))"
    position = f"ARRAY_POSITION(SORT_ARRAY(ARRAY_APPEND({starts}, {{value}}), FALSE), {{value}})"
    return f"INT(GET({{numbers}}, {{at}} + 1) + 2 * (GET({{numbers}}, {{at}}) + 1 - {position}))"


def _sql(text: str) -> Column:
    """SQL with own names in braces. A text is one call of the JVM, where a `Column` is one for each operator."""
    return F.expr(re.sub(r"{(\w+)}", _OWN + r"\1", text))


def _lookup_rows(rows: pa.Table) -> pa.Table:
    """The lookup table of one stream; runs on an executor."""
    watermarks, ranges = parts(rows)
    if not len(watermarks.seq):
        return _LOOKUP.empty_table()
    by_segment = {None: intervals_elsewhere(watermarks)} | dict(intervals_by_segment(watermarks, ranges))
    indexes = [_IndexOfSegment(watermarks, intervals) for intervals in by_segment.values()]
    ends = pa.array(np.cumsum([0, *(index.size for index in indexes)]), pa.int32())
    numbers = np.concatenate([part for index in indexes for part in index.parts])
    lists = pa.ListArray.from_arrays(ends, numbers, type=_NUMBERS)
    return pa.table([[rows["stream"][0].as_py()] * len(by_segment), list(by_segment), lists], schema=_LOOKUP)


class _IndexOfSegment:
    """The numbers of one row of the lookup table, which grow at the end; see `wmlab.streams.bounds.layout`."""

    def __init__(self, watermarks: WatermarkColumns, intervals: Intervals) -> None:
        """The index of the intervals of one segment, or of the ids of all others."""
        self.parts, self.size = [head := np.zeros(2, np.int64)], 2
        lower, upper = self.add_watermarks(watermarks, intervals)
        records = np.column_stack([intervals.starts, BOUND.encode(lower=lower, upper=upper)])
        cells = max(_CELLS * len(records), min(4 * _CELLS * len(records), _FEW_CELLS))
        last_start = max(0, int(intervals.starts[-1]))
        shift = (last_start // cells).bit_length()
        cells = (last_start >> shift) + 1
        head[:] = last_start, self.add_grid(intervals.starts, self.add(records.ravel()), 0, shift, cells)

    def add(self, numbers: Int64Array) -> int:
        """Where these numbers begin."""
        self.parts.append(numbers)
        self.size += len(numbers)
        return self.size - len(numbers)

    def add_watermarks(self, watermarks: WatermarkColumns, intervals: Intervals) -> tuple[Int64Array, Int64Array]:
        """Of each interval the locations of its lower and its upper watermark."""
        has_end = watermarks.has_end(intervals.lower, intervals.upper)
        intervals = replace(intervals, upper=np.where(has_end, -1, intervals.upper))
        is_bound = np.zeros(len(watermarks.seq) + 1, np.bool_)
        is_bound[intervals.lower] = is_bound[intervals.upper] = True
        is_bound &= ~np.append(watermarks.is_end, True)
        lower, upper = (bound.filter(pa.array(is_bound[:-1])) for bound in (watermarks.lower, watermarks.upper))
        triples = np.column_stack([lower.fill_null(0), upper.fill_null(0), watermarks.seq[is_bound[:-1]]])
        index = self.add(triples.ravel()) + 3 * np.arange(len(triples))

        def locations(bound: pa.Array, indices: Int64Array) -> Int64Array:
            at = np.full(len(is_bound), NO_WATERMARK)
            at[is_bound] = LOCATION.encode(lacks_bound=np.asarray(bound.is_null()).astype(np.int64), index=index)
            return at[indices]

        return locations(lower, intervals.lower), locations(upper, intervals.upper)

    def add_grid(
        self, starts: Int64Array, at: int, origin: int, shift: int, cells: int, *, is_finer: bool = False
    ) -> int:
        """The `GRID` of cells of 2**shift values from `origin` on over records, the first of which stands at `at`."""
        inside = np.bincount((np.maximum(starts, 0) - origin) >> shift, minlength=cells)
        behind = np.cumsum(inside)
        first = behind - inside
        # A record that starts where its cell does is at or before all values of the cell.
        begins = origin + (np.arange(cells) << shift)
        first += (inside > 0) & (starts[np.minimum(first, len(starts) - 1)] <= begins)
        before, count = at + 2 * (first - 1), behind - first
        numbers = CELL.encode(at=before, kind=count)
        for cell in np.flatnonzero(count > MOST_RECORDS).tolist():
            part = starts[first[cell] : behind[cell]]
            if is_finer or part[0] < 0:
                numbers[cell] = CELL.encode(at=self.add(np.append([len(part), before[cell]], part)), kind=LIST_KIND)
            else:
                finer = max(0, shift - (_CELLS * len(part)).bit_length())
                inner = int(before[cell]) + 2, int(begins[cell]), finer, 1 << shift - finer
                numbers[cell] = self.add_grid(part, *inner, is_finer=True)
        return int(GRID.encode(at=self.add(numbers), shift=shift, kind=GRID_KIND))
