"""The log of watermarks by segment: from which offset on a position in a segment has passed each of them.

The rule of readers (`wmlab.streams.model.window.compare_with_cut`) has four cases for one segment: the cut names it,
then its offset decides; or it names only older segments over those keys, then every position in this one is beyond it;
or only newer ones, then none is; or both, then the answer is "mixed" whatever the offset. A segment of unknown range
overlaps every other.

What a cut names is one number per watermark and segment. The rest depends only on which segments the cut names. So it
is worked out once per run of consecutive watermarks that name the same segments, about one run per epoch. Everything is
in columns: this runs on Spark's executors, over logs of millions of watermarks. The log and the segments of a stream
get there in one DataFrame; `seq` is null in the rows of segments.

Source: PDP-33, Client Changes; upstream class `WatermarkReaderImpl` (compare).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, functions as F

from wmlab.core.spark.schemas import require
from wmlab.core.times import Int64Array
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, Segment, split_id

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
Ranges = dict[int, tuple[float, float]]
"""Key ranges of a stream's segments; a segment that is not known has none."""

NEVER: Final = 2**63 - 1
"""A reach that no offset has: the end of the segment, or a cut that names only later ones."""
UNKNOWN_RANGE: Final = (np.nan, np.nan)
"""The key range of a segment that is not known: it overlaps every other."""
NO_NUMBERS: Final = np.zeros(0, np.int64)
_ALWAYS: Final = 0
"""A reach that every offset has: the watermark is passed by being in the segment at all."""
_BELOW: Final = -(2**63)
"""Before every segment id."""
_WATERMARKS: Final = {"stream": "string", "seq": "long", "lower": "long", "upper": "long", "cut": "map<long, long>"}
_SEGMENTS: Final = {"stream": "string", "segment_id": "long", "low": "double", "high": "double"}


def log_of(watermarks: DataFrame, segments: DataFrame, *, emitted: bool = False) -> DataFrame:
    """All watermarks and segments: stream, seq, lower, upper, cut, emitted_ms, is_end, segment_id, low, high.

    A watermark that counts no writers is an end of known time; without a column `writers` there are none. One without
    a cut is left out: nobody can know whether it was passed.
    Key ranges are compared as doubles; rounding keeps order, so ranges that do not overlap still do not. Raises
    `ModelError` for a missing column. `emitted` says whether emitted_ms is needed; otherwise it is 0.
    """
    require(watermarks, "watermarks", [*_WATERMARKS, *(["emitted_ms"] if emitted else [])])
    require(segments, "segments", _SEGMENTS)
    entries = watermarks.where("cut is not null").select(
        *(F.col(name).cast(kind).alias(name) for name, kind in _WATERMARKS.items()),
        (F.col("emitted_ms") if emitted else F.lit(0)).cast("long").alias("emitted_ms"),
        is_end(watermarks).alias("is_end"),
    )
    ranges = segments.select(*(F.col(name).cast(kind).alias(name) for name, kind in _SEGMENTS.items()))
    return entries.unionByName(ranges, allowMissingColumns=True)


def is_end(watermarks: DataFrame) -> Column:
    """Whether an entry of the log is an end of known time: it counts no writers; without that column, none is."""
    return F.size("writers") == 0 if "writers" in watermarks.columns else F.lit(False)


def parts(rows: pa.Table) -> tuple[WatermarkColumns, Ranges]:
    """The two halves of one stream's rows of `log_of`."""
    is_segment = pc.is_null(rows["seq"])
    return WatermarkColumns.from_arrow(rows.filter(pc.invert(is_segment))), ranges_of(rows.filter(is_segment))


def ranges_of(segments: pa.Table) -> Ranges:
    """The key ranges of the segments of one stream."""
    rows = segments.select(["segment_id", "low", "high"]).drop_null().to_pylist()
    return {row["segment_id"]: (row["low"], row["high"]) for row in rows}


def segments_in(ranges: Ranges) -> dict[int, Segment]:
    """The segments with these key ranges."""
    return {number: Segment(*split_id(number), KeyRange.of(low, high)) for number, (low, high) in ranges.items()}


def watermark_columns(watermarks: pa.Table) -> WatermarkColumns:
    """The watermarks of one stream, from its rows of the table of a recording; as `log_of` has them."""
    with_cut = watermarks.filter(pc.is_valid(watermarks["cut"]))
    writers: Any = pa.chunked_array(with_cut["writers"]).combine_chunks()
    is_end = pa.array(np.diff(np.asarray(writers.offsets)) == 0)
    return WatermarkColumns.from_arrow(with_cut.append_column("is_end", is_end))


@dataclass(frozen=True, eq=False)
class WatermarkColumns:
    """A stream's watermarks in the order of the log, and the entries of all their cuts.

    `is_end` says which of them are ends of known time, and give no bounds; a bound is null where it is unknown.
    Entry i says that watermark `index[i]` (from 0) cuts segment `segment[i]` at `offset[i]` bytes, or `NEVER`.
    """

    seq: Int64Array
    lower: pa.Array
    upper: pa.Array
    is_end: BoolArray
    emitted_ms: Int64Array
    index: Int64Array
    segment: Int64Array
    offset: Int64Array

    @classmethod
    def from_arrow(cls, table: pa.Table) -> WatermarkColumns:
        """From rows of seq, lower, upper, is_end, cut and emitted_ms, in any order.

        An offset in a cut that is null, or negative as Pravega has it, is the end of the segment.
        """
        seq = int64_column(table, "seq")
        if np.any(seq[1:] < seq[:-1]):
            table = table.sort_by("seq")
            seq = int64_column(table, "seq")
        cuts: Any = pa.chunked_array(table["cut"]).combine_chunks()
        bounds = np.asarray(cuts.offsets)
        entries = slice(bounds[0], bounds[-1]) if len(bounds) else slice(0, 0)
        offset = cuts.items[entries].fill_null(NEVER).to_numpy(zero_copy_only=False)
        index = np.repeat(np.arange(len(cuts)), np.diff(bounds))
        offset = np.where(offset < 0, NEVER, offset)
        segment = cuts.keys[entries].to_numpy(zero_copy_only=False)
        unsorted = np.any((index[1:] == index[:-1]) & (segment[1:] < segment[:-1]))
        in_order = np.lexsort((segment, index)) if unsorted else slice(None)
        lower, upper = (pa.chunked_array(table[name]).combine_chunks() for name in ("lower", "upper"))
        emitted_ms = int64_column(table, "emitted_ms")
        is_end = table["is_end"].to_numpy(zero_copy_only=False).astype(np.bool_)
        return cls(seq, lower, upper, is_end, emitted_ms, index[in_order], segment[in_order], offset[in_order])

    def has_end(self, lower: Int64Array, upper: Int64Array) -> BoolArray:
        """Whether an end of known time lies from each watermark passed last to the one ahead (indices, -1: none)."""
        ends_before = np.append(0, np.cumsum(self.is_end))
        has_end: BoolArray = ends_before[upper + 1] > ends_before[np.maximum(lower, 0)]
        # Where cuts move back, the one ahead may be the earlier of the two.
        has_end |= np.append(self.is_end, False)[lower]
        return has_end

    @cached_property
    def cuts(self) -> list[Watermark]:
        """The log as trackers compare it, made once. Bounds are 0: here some are null, which none of the model is."""
        ends = np.searchsorted(self.index, np.arange(len(self.seq) + 1)).tolist()
        segments, offsets = self.segment.tolist(), [None if end == NEVER else end for end in self.offset.tolist()]
        return [
            Watermark(0, 0, Position(dict(zip(segments[start:end], offsets[start:end], strict=True))), known=not is_end)
            for (start, end), is_end in zip(pairwise(ends), self.is_end.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of consecutive watermarks whose cuts name the same segments.

    Run r is the watermarks with indices `first[r]` to `last[r]`. Entry i says that run `run[i]` names `segment[i]`, and
    that the run's first watermark does so in entry `entry[i]` of the log.
    """

    first: Int64Array
    last: Int64Array
    run: Int64Array
    entry: Int64Array
    segment: Int64Array
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, watermarks: WatermarkColumns, ranges: Ranges) -> Runs:
        """The runs of a log."""
        count = len(watermarks.seq)
        sizes = np.bincount(watermarks.index, minlength=count)
        opens = np.ones(count, np.bool_)
        opens[1:] = sizes[1:] != sizes[:-1]
        # An entry's counterpart in the watermark before it stands one cut earlier, where the cuts are of one size.
        alike = np.flatnonzero(~opens[watermarks.index])
        differs = watermarks.segment[alike] != watermarks.segment[alike - sizes[watermarks.index[alike]]]
        opens[watermarks.index[alike[differs]]] = True
        first = np.flatnonzero(opens)
        last = np.append(first[1:], count) - 1
        entry = np.flatnonzero(opens[watermarks.index])
        segment = watermarks.segment[entry]
        bounds = np.array([ranges.get(number, UNKNOWN_RANGE) for number in segment.tolist()], np.float64).reshape(-1, 2)
        return cls(first, last, np.searchsorted(first, watermarks.index[entry]), entry, segment, *bounds.T)

    def cuts_of(self, segment: int, watermarks: WatermarkColumns) -> tuple[Int64Array, Int64Array]:
        """The indices of the watermarks that name the segment, ascending, and the offsets they give it."""
        indices, offsets = [NO_NUMBERS], [NO_NUMBERS]
        sizes = np.bincount(self.run, minlength=len(self.first))
        for named in np.flatnonzero(self.segment == segment):
            run, entry = self.run[named], self.entry[named]
            count = self.last[run] - self.first[run] + 1
            indices.append(np.arange(self.first[run], self.last[run] + 1))
            offsets.append(watermarks.offset[entry : entry + (count - 1) * sizes[run] + 1 : sizes[run]])
        return np.concatenate(indices), np.concatenate(offsets)

    def sides(self, segment: int, ranges: Ranges) -> tuple[BoolArray, BoolArray]:
        """Per run that does not name the segment, whether its cut names older ones over its keys, and newer ones."""
        low, high = ranges.get(segment, UNKNOWN_RANGE)
        overlaps = ~((low >= self.high) | (self.low >= high))
        return self._any(overlaps & (self.segment < segment)), self._any(overlaps & (self.segment > segment))

    def naming(self, segment: int) -> BoolArray:
        """Per run, whether its cut names the segment."""
        return self._any(self.segment == segment)

    def _any(self, entries: BoolArray) -> BoolArray:
        return np.bincount(self.run[entries], minlength=len(self.first)) > 0


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of offsets or ids: `starts` ascend, the last one is open; bounds are indices in the log, -1: none."""

    starts: Int64Array
    lower: Int64Array
    upper: Int64Array


def intervals(index: Int64Array, reach: Int64Array, decided: BoolArray) -> Intervals:
    """The intervals of a segment that passes the watermark with `index[i]` from offset `reach[i]` on.

    Indices ascend. Where not `decided`, the watermark is undecided ("mixed") at every offset.
    """
    furthest = np.maximum.accumulate(np.append(_ALWAYS, np.where(decided, reach, _ALWAYS)))
    stops = np.flatnonzero(decided & (reach > furthest[:-1]))
    passed = np.maximum.accumulate(np.append(-1, np.where(decided, index, -1)))
    starts, lower, upper = furthest[:-1][stops], passed[:-1][stops], index[stops]
    if furthest[-1] < NEVER:
        mixed = index[~decided]
        starts, lower = np.append(starts, furthest[-1]), np.append(lower, passed[-1])
        upper = np.append(upper, mixed[-1] if len(mixed) else -1)
    return Intervals(starts, lower, upper)


def intervals_by_segment(watermarks: WatermarkColumns, ranges: Ranges) -> Iterator[tuple[int, Intervals]]:
    """The intervals of every segment that is known or named in a cut, by id."""
    runs = Runs.of(watermarks, ranges)
    for segment in sorted(ranges.keys() | set(runs.segment.tolist())):
        index, reach = runs.cuts_of(segment, watermarks)
        older, newer = runs.sides(segment, ranges)
        never, mixed = newer & ~older, newer & older
        # A run that compares alike throughout is passed up to its last watermark, or stops the tracker at its first.
        other = np.where(never, runs.first, runs.last), np.where(never, NEVER, _ALWAYS), ~mixed
        yield segment, _merged((index, reach, np.ones(len(index), np.bool_)), other, ~runs.naming(segment))


def intervals_elsewhere(watermarks: WatermarkColumns) -> Intervals:
    """The intervals of ids of the segments that are neither known nor named in a cut, at whatever offset.

    A segment of unknown range is compared with all segments of a cut, so the least and the most of them decide.
    """
    count = len(watermarks.seq)
    least, most = np.full(count, NEVER), np.full(count, _BELOW)
    np.minimum.at(least, watermarks.index, watermarks.segment)
    np.maximum.at(most, watermarks.index, watermarks.segment)
    starts = np.unique(np.concatenate([[_BELOW], least[least < NEVER], most]))
    index, by_start = np.arange(count), []
    for after in starts.tolist():
        older, newer = least <= after, most > after
        by_start.append(intervals(index, np.where(newer & ~older, NEVER, _ALWAYS), ~(newer & older)))
    return Intervals(
        starts, *(np.array([getattr(interval, name)[0] for interval in by_start]) for name in ("lower", "upper"))
    )


def _merged(
    own: tuple[Int64Array, Int64Array, BoolArray], other: tuple[Int64Array, Int64Array, BoolArray], which: BoolArray
) -> Intervals:
    if not which.any():
        return intervals(*own)
    index, reach, decided = (np.append(mine, theirs[which]) for mine, theirs in zip(own, other, strict=True))
    order = np.argsort(index, kind="stable")
    return intervals(index[order], reach[order], decided[order])


def int64_column(table: pa.Table, name: str) -> Int64Array:
    """A column of whole numbers; null is 0, so ask only for columns in which null has no meaning."""
    values: Int64Array = table[name].fill_null(0).to_numpy().astype(np.int64, copy=False)
    return values


def bounds_at(log: WatermarkColumns, lower: Int64Array, upper: Int64Array) -> dict[str, pa.Array]:
    """Bounds by column, from the indices of the watermarks that give them; null where there is none (-1) or an end.

    The upper bound is null, too, if an end lies between the two, or is the lower one.
    """
    is_none = np.append(log.is_end, True)
    upper = np.where(log.has_end(lower, upper), -1, upper)
    below, above = (pa.array(index, mask=is_none[index]) for index in (lower, upper))
    seq = pa.array(log.seq)
    return {
        "lower": pc.array_take(log.lower, below),
        "upper": pc.array_take(log.upper, above),
        "lower_seq": pc.array_take(seq, below),
        "upper_seq": pc.array_take(seq, above),
    }
