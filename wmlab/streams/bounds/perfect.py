"""The perfect watermark: the smallest event time still to come, and how far the bounds are from it.

What is still to come after an offset of a segment is the rest of the segment and everything in its descendants.
Minima are taken per cell of a segment first, then over the cells that follow, then inside the position's own cell,
so that no task sees a whole segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from wmlab.core.spark.schemas import refuse, require
from wmlab.streams.bounds.groups import GROUP_COLUMNS

_SEGMENT: Final = ("stream", "segment_id")
_EVENTS_PER_CELL: Final = 10_000


def perfect_watermark(positions: DataFrame, events: DataFrame, segments: DataFrame) -> DataFrame:
    """Add `perfect_watermark` to every position: the smallest event time still to come, null when nothing comes.

    It is null, too, for a null or negative offset, which is no place. `positions` needs stream, segment_id and offset
    (bytes read) and keeps its rows and columns; `events` and
    `segments` are the tables of a recording. An event is still to come if it ends beyond the offset in the same
    segment, or lies in a segment that descends from it. Raises `ModelError` for a missing column and for one that is
    there already.
    """
    require(positions, "positions", (*_SEGMENT, "offset"))
    require(events, "events", (*_SEGMENT, "offset", "event_time"))
    require(segments, "segments", (*_SEGMENT, "low", "high"))
    refuse(positions, "positions", ("perfect_watermark",))
    cells = _cells(events)
    rows = positions.select(*_SEGMENT, F.col("offset").cast("long").alias("_offset"), F.struct("*").alias("_row"))
    bounded = _within_cells(rows, events, cells).join(
        F.broadcast(_after_segments(events, segments)), list(_SEGMENT), "left"
    )
    smallest = F.when(F.col("_offset") >= 0, F.least("in_cell", "after_cell", "after_segment"))
    return bounded.select("_row.*", smallest.alias("perfect_watermark"))


def group_perfect_watermark(positions: DataFrame, events: DataFrame, segments: DataFrame) -> DataFrame:
    """The perfect watermark of a reader group at every version of its state: the smallest over its open segments.

    `positions` is the table of a recording. One row per stream, group, version and at_ms, with `perfect_watermark`;
    null when nothing is still to come.
    """
    bounded = snapshots(perfect_watermark(positions, events, segments))
    smallest = bounded.groupBy(*GROUP_COLUMNS).agg(F.min("perfect_watermark").alias("perfect_watermark"))
    # A version without an open segment has a row, too.
    return positions.select(*GROUP_COLUMNS).distinct().join(smallest, list(GROUP_COLUMNS), "left")


def with_slack(bounds: DataFrame) -> DataFrame:
    """Add `uncertainty`, `slack_lower` and `slack_upper`, in ms, and `safe`: the bounds against the perfect watermark.

    `uncertainty` is upper - lower; `slack_lower` is perfect_watermark - lower, negative when the lower bound was too
    high; `slack_upper` is upper - perfect_watermark. Each is null when a side is unknown. An unknown lower bound is
    safe, and so is any when nothing is still to come. Raises `ModelError` for a missing column.
    """
    require(bounds, "bounds", ("lower", "upper", "perfect_watermark"))
    return bounds.withColumns(
        {
            "uncertainty": F.col("upper") - F.col("lower"),
            "slack_lower": F.col("perfect_watermark") - F.col("lower"),
            "slack_upper": F.col("upper") - F.col("perfect_watermark"),
            "safe": F.coalesce(F.col("lower") <= F.col("perfect_watermark"), F.lit(True)),
        }
    )


def _cells(events: DataFrame) -> DataFrame:
    """Per segment: `cells`, their number, and `top`, the largest offset; cells are equally wide."""
    count = F.ceil(F.count("*") / _EVENTS_PER_CELL).cast("long")
    return events.groupBy(*_SEGMENT).agg(count.alias("cells"), F.max("offset").alias("top"))


def _within_cells(rows: DataFrame, events: DataFrame, cells: DataFrame) -> DataFrame:
    """`rows` with the smallest event time beyond the offset in its own cell, and in the cells after it."""
    # Beyond 2^53 the largest offsets are the same number in floating point as the end of all cells.
    cell = F.expr("LEAST(FLOOR(LEAST(_offset, top) / (top + 1D) * cells), cells - 1)").alias("cell")
    timed = events.select(*_SEGMENT, F.col("offset").alias("_offset"), "event_time")
    placed = timed.join(F.broadcast(cells), list(_SEGMENT)).select(*_SEGMENT, "_offset", "event_time", cell)
    positions = rows.join(F.broadcast(cells), list(_SEGMENT), "left").select(*_SEGMENT, "_offset", cell, "_row")
    # From the cell's end downwards, a position comes before an event that ends exactly there: it is read already.
    downwards = Window.partitionBy(*_SEGMENT, "cell").orderBy(F.desc("_offset"), "is_event")
    both = positions.withColumn("is_event", F.lit(0)).unionByName(
        placed.withColumn("is_event", F.lit(1)), allowMissingColumns=True
    )
    in_cell = both.withColumn("in_cell", F.min("event_time").over(downwards)).where("is_event = 0")
    return in_cell.drop("event_time", "is_event").join(
        F.broadcast(_after_cells(placed, cells)), [*_SEGMENT, "cell"], "left"
    )


def _after_cells(placed: DataFrame, cells: DataFrame) -> DataFrame:
    """For every cell of every segment, the smallest event time in the cells after it."""
    every = cells.select(*_SEGMENT, F.explode(F.sequence(F.lit(0), F.col("cells") - 1)).alias("cell"))
    minima = placed.groupBy(*_SEGMENT, "cell").agg(F.min("event_time").alias("smallest"))
    after = Window.partitionBy(*_SEGMENT).orderBy("cell").rowsBetween(1, Window.unboundedFollowing)
    known = every.join(minima, [*_SEGMENT, "cell"], "left")
    return known.select(*_SEGMENT, "cell", F.min("smallest").over(after).alias("after_cell"))


def _after_segments(events: DataFrame, segments: DataFrame) -> DataFrame:
    """For every segment, the smallest event time in its descendants."""
    minima = events.groupBy(*_SEGMENT).agg(F.min("event_time").alias("smallest"))
    lineage = segments.select(*_SEGMENT, "low", "high").join(minima, list(_SEGMENT), "left")
    after = StructType([lineage.schema[name] for name in _SEGMENT]).add("after_segment", "long")
    return lineage.groupBy("stream").applyInArrow(_descendants, after)


def _descendants(rows: pa.Table) -> pa.Table:
    """Minima over the descendants of each segment of one stream; runs on an executor.

    Whatever overlaps a segment and has a larger id came to be, at the keys they share, out of that segment.
    """
    after: list[int | None] = []
    later: list[tuple[float, float, int | None]] = []
    ordered = rows.sort_by([("segment_id", "descending")])
    for row in ordered.to_pylist():
        after.append(_least(least for low, high, least in later if low < row["high"] and row["low"] < high))
        later.append((row["low"], row["high"], _least([after[-1], row["smallest"]])))
    return ordered.select(_SEGMENT).append_column("after_segment", pa.array(after, pa.int64()))


def _least(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)


def snapshots(changes: DataFrame) -> DataFrame:
    """The open segments of every group at every version, with what their latest change said.

    `changes` is the table `positions`, perhaps with more columns: each row holds from its version on, until the next
    row of its segment; a finished segment is gone. The result has one row per version and open segment: all columns
    of `changes`, `version` and `at_ms` now being those of the version. Its size is versions times open segments.
    Raises `ModelError` for a missing column.
    """
    require(changes, "positions", (*GROUP_COLUMNS, "segment_id", "offset", "finished"))
    group = Window.partitionBy("stream", "group")
    ranked = changes.withColumn("_place", F.dense_rank().over(group.orderBy("version")))
    segment = Window.partitionBy("stream", "group", "segment_id").orderBy("_place")
    until = F.coalesce(F.lead("_place").over(segment), F.max("_place").over(group) + 1)
    spans = ranked.withColumn("_until", until).where(~F.col("finished"))
    lasting = spans.drop("version", "at_ms", "finished").withColumn(
        "_place", F.explode(F.sequence("_place", F.col("_until") - 1))
    )
    moments = ranked.select(*GROUP_COLUMNS, "_place").distinct()
    return lasting.drop("_until").join(moments, ["stream", "group", "_place"]).drop("_place")
