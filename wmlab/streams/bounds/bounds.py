"""Two-sided time bounds of positions: what event times can still come behind a position, and what lies before it.

A fresh tracker (`wmlab.streams.model.window.Tracker`) that is given one position and the complete log gives both. Per
segment the answer is constant on intervals of offsets, and for all segments that nobody knows on intervals of ids, so
the question is a lookup in a broadcast table, which has a row for each segment and one for all others of a stream. In
the numbers of its row a position finds the last interval to start at or before its offset. No position is sorted,
shuffled or sent to Python, and the search is compiled.

A fresh tracker stops at the first watermark that is ahead of the position. Seen from one segment, only a watermark
that reaches further than all before it can be that first one, so each such step begins a new interval of offsets.
This holds for cuts that move back too (Pravega's own algorithm can make them).

Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from wmlab.core.spark.schemas import refuse, require, spark_schema
from wmlab.streams.bounds.log_by_segment import Intervals, Longs, Marks, log_of, of_others, of_segments, parts

POSITION_COLUMNS: Final = ("stream", "segment_id", "offset")
BOUND_COLUMNS: Final = ("lower", "upper", "lower_seq", "upper_seq")
_OWN: Final = "_wmlab_"
_STREAM: Final = "STRING({asked}.stream)"
_NUMBERS: Final = pa.list_(pa.field("element", pa.int64(), nullable=False))
_LOOKUP: Final = pa.schema({"stream": pa.string(), "segment_id": pa.int64(), "numbers": _NUMBERS})
"""One row for each segment that is known or named in a cut, and for each stream one for all others: segment_id null.

`_Numbers` says what the numbers are. Where they could be null, Spark would look for it at each of them, at a fifth of
the time of a query.
"""
_NONE, _NULL = 2**28, 2**29
"""Where the numbers of no watermark are, and what is added to where those of one without this bound are. A row of Spark
has fewer numbers."""
_KIND_BITS: Final = 3
_GRID, _LIST = 6, 7
_MOST: Final = _GRID - 1
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
    require(positions, "positions", POSITION_COLUMNS)
    refuse(positions, "positions", BOUND_COLUMNS)
    lookup = log_of(watermarks, segments).groupBy("stream").applyInArrow(_lookup_rows, spark_schema(_LOOKUP))
    # Ids under a hash of the stream cost half of a hash of both. What has the same key is told apart when it is joined.
    lookup = lookup.select(_sql("IFNULL(XXHASH64(stream) ^ segment_id, ~XXHASH64(stream)) AS key"), "*")
    segment = "BIGINT({asked}.segment_id)"
    asked = positions.alias(_OWN + "asked")
    known = _joined(asked, lookup, "known", f"XXHASH64({_STREAM}) ^ {segment}", f"{{known}}.segment_id = {segment}")
    # A key of null is not looked up. The condition names the position too: by one on the table alone Spark would filter
    # the table, and make it once more.
    key = f"IF({{known}}.key IS NULL, ~XXHASH64({_STREAM}), NULL)"
    found = _joined(known, lookup, "other", key, f"COALESCE({{other}}.segment_id, {segment}) = {segment}")
    for columns in _search(segment):
        found = found.withColumns({_OWN + name: _sql(text) for name, text in columns.items()})
    places = ("{low}", "{up} + 1", f"({{low}} & ~{_NULL}) + 2", f"({{up}} & ~{_NULL}) + 2")
    bounds = (_sql(f"GET({{numbers}}, {at})").alias(name) for at, name in zip(places, BOUND_COLUMNS, strict=True))
    return found.select(_OWN + "asked.*", *bounds)


def _joined(rows: DataFrame, lookup: DataFrame, name: str, key: str, is_row: str) -> DataFrame:
    """`rows` with the row of the lookup table that has this key, the same stream and a segment as wanted."""
    # A table with one long key is looked up in an array; with several keys it would be a hash of rows, at thrice the
    # price. So what is compared has a form that Spark does not take for further keys: `numbers` is never null.
    same = f"({{{name}}}.stream = {_STREAM} AND {is_row} OR {{{name}}}.numbers IS NULL)"
    return rows.join(F.broadcast(lookup.alias(_OWN + name)), _sql(f"{{{name}}}.key = {key} AND {same}"), "left")


def _search(segment: str) -> Iterator[dict[str, str]]:
    """SQL of columns, group by group. The last are where the numbers of the lower and of the upper watermark are.

    They are null where nothing is known. The search has a fixed number of steps: a function over an array would be
    interpreted, at up to twice the time of the whole.
    """
    # Both joins read the same columns, for the same reason as above.
    value = f"IF({{asked}}.offset >= 0, IF({{known}}.key IS NULL, {segment}, BIGINT({{asked}}.offset)), NULL)"
    yield {"numbers": "COALESCE({known}.numbers, {other}.numbers)", "value": value}
    yield {"value": "IF({value} > GET({numbers}, 0), GET({numbers}, 0), {value})", "grid": "GET({numbers}, 1)"}
    yield {"cell": _cell("{grid}", "IF({value} < 0, 0, {value})")}
    rest = f"{{value}} & ~SHIFTLEFT(-1L, INT(SHIFTRIGHT({{grid}}, {_KIND_BITS}) & 63))"
    yield {"cell": f"IF(({{cell}} & {(1 << _KIND_BITS) - 1}) = {_GRID}, {_cell('{cell}', rest)}, {{cell}})"}
    yield {"at": f"INT(SHIFTRIGHT({{cell}}, {_KIND_BITS}))", "more": f"INT({{cell}} & {(1 << _KIND_BITS) - 1})"}
    yield {"found": f"GET({{numbers}}, 1 + IF({{more}} = {_LIST}, {_listed()}, {{at}} + {_steps(1)}))"}
    yield {"low": "INT(SHIFTRIGHT({found}, 32))", "up": "INT({found} & 4294967295)"}


def _cell(entry: str, value: str) -> str:
    """SQL of the entry of the cell of a value in the grid of an entry."""
    shift = f"INT(SHIFTRIGHT({entry}, {_KIND_BITS}) & 63)"
    return f"GET({{numbers}}, INT(SHIFTRIGHT({entry}, {_KIND_BITS + 6}) + SHIFTRIGHT({value}, {shift})))"


def _steps(count: int) -> str:
    """SQL of how far to go over at most `_MOST` records, from the first to start behind a cell's beginning."""
    if count > _MOST:
        return str(2 * _MOST)
    is_last = f"{{more}} < {count} OR GET({{numbers}}, {{at}} + {2 * count}) > {{value}}"
    return f"IF({is_last}, {2 * (count - 1)}, {_steps(count + 1)})"


def _listed() -> str:
    """SQL of the place of a record by the place of the value in a list of starts that descends."""
    starts = "SLICE({numbers}, {at} + 3, INT(GET({numbers}, {at})))"
    place = f"ARRAY_POSITION(SORT_ARRAY(ARRAY_APPEND({starts}, {{value}}), FALSE), {{value}})"
    return f"INT(GET({{numbers}}, {{at}} + 1) + 2 * (GET({{numbers}}, {{at}}) + 1 - {place}))"


def _sql(text: str) -> Column:
    """SQL with own names in braces. A text is one call of the JVM, where a `Column` is one for each operator."""
    return F.expr(re.sub(r"{(\w+)}", _OWN + r"\1", text))


def _lookup_rows(rows: pa.Table) -> pa.Table:
    """The lookup table of one stream; runs on an executor."""
    marks, ranges = parts(rows)
    if not len(marks.seq):
        return _LOOKUP.empty_table()
    found = {None: of_others(marks)} | dict(of_segments(marks, ranges))
    tables = [_Numbers(marks, intervals) for intervals in found.values()]
    ends = pa.array(np.cumsum([0, *(table.size for table in tables)]), pa.int32())
    numbers = np.concatenate([part for table in tables for part in table.parts])
    lists = pa.ListArray.from_arrays(ends, numbers, type=_NUMBERS)
    return pa.table([[rows["stream"][0].as_py()] * len(found), list(found), lists], schema=_LOOKUP)


class _Numbers:
    """The numbers of one row of the lookup table, which grow at the end.

    First come the last start of an interval and the entry of a grid. A watermark is its lower bound, upper bound and
    seq. A record, of an interval, is its start, and where its lower watermark is, with where the upper one is in the
    lower half of the number. A grid is an entry for each cell of 2**shift values. The lowest bits of an entry are its
    kind: up to `_MOST` how many records start inside the cell, behind where the record before them is. `_GRID` is
    behind a shift and where a grid over the rest of the value is, `_LIST` behind where a list is, of what a second grid
    does not part: how many records start inside the cell, where the record before them is, and their starts.
    """

    def __init__(self, marks: Marks, found: Intervals) -> None:
        """The numbers of the intervals of one segment, or of the ids of all others."""
        self.parts, self.size = [head := np.zeros(2, np.int64)], 2
        gives = np.zeros(len(marks.seq) + 1, np.bool_)
        gives[found.lower] = gives[found.upper] = True
        gives &= ~np.append(marks.is_end, True)
        bounds = [bound.filter(pa.array(gives[:-1])) for bound in (marks.lower, marks.upper)]
        places = np.full((2, len(marks.seq) + 1), _NONE)
        at = self.add(np.column_stack([*(bound.fill_null(0) for bound in bounds), marks.seq[gives[:-1]]]).ravel())
        for place, bound in zip(places, bounds, strict=True):
            place[gives] = at + 3 * np.arange(len(bound)) | np.where(bound.is_null(), _NULL, 0)
        records = np.column_stack([found.starts, places[0][found.lower] << 32 | places[1][found.upper]])
        cells = max(_CELLS * len(records), min(4 * _CELLS * len(records), _FEW_CELLS))
        top = max(0, int(found.starts[-1]))
        shift = (top // cells).bit_length()
        head[:] = top, self.grid(found.starts, self.add(records.ravel()), 0, shift, (top >> shift) + 1)

    def add(self, numbers: Longs) -> int:
        """Where these numbers begin."""
        self.parts.append(numbers)
        self.size += len(numbers)
        return self.size - len(numbers)

    def grid(self, starts: Longs, at: int, origin: int, shift: int, cells: int, *, deep: bool = False) -> int:
        """The entry of a grid of cells of 2**shift values over records, the first of which is at `at`."""
        inside = np.bincount((np.maximum(starts, 0) - origin) >> shift, minlength=cells)
        behind = np.cumsum(inside)
        first = behind - inside
        # A record that starts where its cell does is at or before all values of the cell.
        begins = origin + (np.arange(cells) << shift)
        first += (inside > 0) & (starts[np.minimum(first, len(starts) - 1)] <= begins)
        before, more = at + 2 * (first - 1), behind - first
        entries = before << _KIND_BITS | more
        for cell in np.flatnonzero(more > _MOST).tolist():
            part = starts[first[cell] : behind[cell]]
            if deep or part[0] < 0:
                entries[cell] = self.add(np.append([len(part), before[cell]], part)) << _KIND_BITS | _LIST
            else:
                finer = max(0, shift - (_CELLS * len(part)).bit_length())
                inner = int(before[cell]) + 2, int(begins[cell]), finer, 1 << shift - finer
                entries[cell] = self.grid(part, *inner, deep=True)
        return self.add(entries) << _KIND_BITS + 6 | shift << _KIND_BITS | _GRID
