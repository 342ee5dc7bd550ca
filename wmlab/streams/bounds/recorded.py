"""The time bounds of a recording, how far they are from the perfect watermark, and the incidents beside them.

The perfect watermark is the smallest event time still to come. What is still to come after an offset of a segment is
the rest of the segment and everything in its descendants. Minima are taken per cell of a segment first, then over all
that follows a cell, then inside the position's own cell, so that no task sees a whole segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from wmlab.core.errors import ModelError
from wmlab.core.recording import Recording
from wmlab.core.spark.schemas import choose, refuse, require, spark_schema
from wmlab.streams.bounds.bounds import time_bounds as bounds_of
from wmlab.streams.bounds.groups import GROUP_COLUMNS, Ends, group_time_bounds
from wmlab.streams.bounds.maps import groups_with_map, map_time_bounds
from wmlab.streams.model.position import moved
from wmlab.streams.tables import end_ms

_SEGMENT: Final = ("stream", "segment_id")
_CHANGE: Final = (*GROUP_COLUMNS, "segment_id", "offset", "finished")
_EVENTS_PER_CELL: Final = 10_000
_PERFECT: Final = pa.field("perfect_watermark", pa.int64())
_AFTER: Final = pa.field("after_cell", pa.int64())


def perfect_watermark(positions: DataFrame, events: DataFrame, segments: DataFrame) -> DataFrame:
    """Add `perfect_watermark` to every position: the smallest event time still to come, null when nothing comes.

    It is null, too, for a null or negative offset, which is no place. `positions` needs stream, segment_id and offset
    (bytes read) and keeps its rows and columns; `events` and `segments` are the tables of a recording. An event is
    still to come if it ends beyond the offset in the same segment, or lies in a segment that descends from it. Raises
    `ModelError` for a missing column and for one that is there already.
    """
    require(positions, "positions", (*_SEGMENT, "offset"))
    require(events, "events", (*_SEGMENT, "offset", "event_time"))
    require(segments, "segments", (*_SEGMENT, "low", "high"))
    refuse(positions, "positions", ("perfect_watermark",))
    rows = positions.select(*_SEGMENT, F.col("offset").cast("long").alias("_offset"), F.struct("*").alias("_row"))
    smallest = F.when(F.col("_offset") >= 0, F.least("in_cell", "after_cell"))
    return _still_to_come(rows, events, segments).select("_row.*", smallest.alias("perfect_watermark"))


def group_perfect_watermark(positions: DataFrame, events: DataFrame, segments: DataFrame) -> DataFrame:
    """The perfect watermark of a reader group at every version of its state: the smallest over its open segments.

    `positions` is the table of a recording. One row per stream, group, version and at_ms, with `perfect_watermark`;
    null when nothing is still to come. Raises `ModelError` for a missing column.
    """
    require(positions, "positions", _CHANGE)
    rows = perfect_watermark(positions.select(*_CHANGE), events, segments)
    answer = StructType([*(rows.schema[name] for name in GROUP_COLUMNS), *spark_schema([_PERFECT])])
    return rows.groupBy("stream", "group").applyInArrow(_least_open, answer)


def _least_open(changes: pa.Table) -> pa.Table:
    """The smallest watermark over the open segments of one group at each version; runs on an executor.

    A row holds from its version on, until the next row of its segment.
    """
    ordered = changes.sort_by([("version", "ascending"), ("at_ms", "ascending")])
    names = (*GROUP_COLUMNS, "segment_id", "finished", "perfect_watermark")
    rows = zip(*(ordered[name].to_pylist() for name in names), strict=True)
    by_segment: dict[int, int] = {}
    found = []
    for moment, of_moment in groupby(rows, key=itemgetter(slice(len(GROUP_COLUMNS)))):
        update = ((segment, least if finished is False else None) for *_, segment, finished, least in of_moment)
        by_segment = moved(by_segment, update)
        least = min(by_segment.values(), default=None)
        found.append(dict(zip(GROUP_COLUMNS, moment, strict=True)) | {_PERFECT.name: least})
    schema = pa.schema([*(changes.schema.field(name) for name in GROUP_COLUMNS), _PERFECT])
    return pa.Table.from_pylist(found, schema)


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


def _still_to_come(rows: DataFrame, events: DataFrame, segments: DataFrame) -> DataFrame:
    """`rows` with the smallest event time beyond the offset in its own cell, and in all that follows the cell."""
    count = F.ceil(F.count("*") / _EVENTS_PER_CELL).cast("long").alias("cells")
    cells = F.broadcast(events.groupBy(*_SEGMENT).agg(count, F.max("offset").alias("top")))
    # Cells of a segment are equally wide. Beyond 2^53 the largest offsets are the same number in floating point as the
    # end of all cells. A segment without events has one cell.
    cell = F.expr("COALESCE(LEAST(FLOOR(LEAST(_offset, top) / (top + 1D) * cells), cells - 1), 0)").alias("cell")
    timed = events.select(*_SEGMENT, F.col("offset").alias("_offset"), "event_time")
    columns = (*_SEGMENT, "_offset", cell)
    placed = timed.join(cells, list(_SEGMENT)).select(*columns, "event_time", F.lit(1).alias("is_event"))
    asked = rows.join(cells, list(_SEGMENT), "left").select(*columns, "_row", F.lit(0).alias("is_event"))
    # From the cell's end downwards, a position comes before an event that ends exactly there: it is read already.
    downwards = Window.partitionBy(*_SEGMENT, "cell").orderBy(F.desc("_offset"), "is_event")
    both = asked.unionByName(placed, allowMissingColumns=True)
    in_cell = both.withColumn("in_cell", F.min("event_time").over(downwards)).where("is_event = 0")
    return in_cell.join(F.broadcast(_after_cells(placed, segments)), [*_SEGMENT, "cell"], "left")


def _after_cells(placed: DataFrame, segments: DataFrame) -> DataFrame:
    """For every cell of every segment, the smallest event time in the cells after it and in the descendants."""
    minima = placed.groupBy(*_SEGMENT, "cell").agg(F.min("event_time").alias("smallest"))
    both = segments.select(*_SEGMENT, "low", "high").unionByName(minima, allowMissingColumns=True)
    after = StructType([*(both.schema[name] for name in (*_SEGMENT, "cell")), *spark_schema([_AFTER])])
    return both.groupBy("stream").applyInArrow(_followed, after)


def _followed(rows: pa.Table) -> pa.Table:
    """What follows each cell of the segments of one stream; runs on an executor. Rows without a cell are the segments.

    Whatever overlaps a segment and has a larger id came to be, at the keys they share, out of that segment.
    """
    ranges: dict[int, tuple[float, float]] = {}
    minima: dict[int, dict[int, int]] = {}
    for row in rows.to_pylist():
        if row["cell"] is not None:
            minima.setdefault(row["segment_id"], {})[row["cell"]] = row["smallest"]
        elif None not in (row["segment_id"], row["low"], row["high"]):
            ranges[row["segment_id"]] = row["low"], row["high"]
    found, stream = [], rows["stream"][0].as_py()
    later: list[tuple[float, float, int | None]] = []
    for segment in sorted(ranges.keys() | minima.keys(), reverse=True):
        # A segment that is not known has no descendants and is none.
        start, end = ranges.get(segment, (0.0, 0.0))
        least = _least(least for low, high, least in later if low < end and start < high)
        own = minima.get(segment, {})
        for cell in range(max(own, default=0), -1, -1):
            found.append({"stream": stream, "segment_id": segment, "cell": cell, _AFTER.name: least})
            least = _least([least, own.get(cell)])
        later.append((start, end, least))
    schema = pa.schema([*(rows.schema.field(name) for name in (*_SEGMENT, "cell")), _AFTER])
    return pa.Table.from_pylist(found, schema)


def _least(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)


def time_bounds(
    recording: Recording,
    spark: SparkSession,
    *,
    of: Literal["readers", "events"] | None = None,
    visible: Literal["all", "then"] | None = None,
) -> DataFrame:
    """Lower, upper and perfect watermark of every position in a recording, computed by Spark.

    The positions are those that reader groups published; or, when nobody read, the events, one row an event. `of`
    chooses.

    At the positions of readers a watermark counts only once it was emitted (`visible="then"`), so the bounds are what a
    reader could know at that moment. They change with a position and with a watermark that becomes visible, so there is
    a row for either, and one for the end of the run; a row holds until the next one of its group, and `change` says
    what it begins with, see `group_time_bounds`. Each is what a reader of the group sees that looks at that moment, as
    the table `windows` has it and invariant I13 compares; the exceptions are named there. After a reset the group
    begins anew. A stream that is deleted ends then. Where readers share a map of times (`read_side` "document"), they
    see the window of that map, so the rows have what the table `group_updates` has, see `map_time_bounds`; with
    `time_windows` False it is unknown. `visible="all"` is hindsight: all watermarks of the run count from the
    beginning, at the positions of every group, so that there are rows of positions and of the end only. The column
    `visible` says which. These rows also have the column `incidents` of `with_incidents`. The positions of events have
    hindsight only, since no reader was there; raises `ModelError` for anything else.
    """
    choose("of", of, ("readers", "events", None))
    choose("visible", visible, ("all", "then", None))
    names = ("watermarks", "segments", "events", "incidents")
    watermarks, segments, events, incidents = (recording.spark(spark, name) for name in names)
    if of == "events" or (of is None and not recording.counts["positions"]):
        if visible == "then":
            raise ModelError(
                "What was known then is known of readers, and these are the positions of events.",
                remedy='leave out visible="then", or take the positions of readers.',
            )
        positions = events.withColumn("at_ms", events.append_ms)
        return perfect_watermark(bounds_of(positions, watermarks, segments), events, segments)
    positions, then = recording.spark(spark, "positions"), visible or "then"
    if "reset" in recording.table("incidents")["kind"].to_pylist():
        positions = with_resets(positions, recording.spark(spark, "group_updates"))
    with_map = groups_with_map(recording) if then == "then" else []
    comparing, until_ms = _apart(positions, with_map, "left_anti"), _ends(recording)
    bounds = group_time_bounds(comparing, watermarks, segments, visible=then, until_ms=until_ms)
    if with_map:
        sharing, updates = _apart(positions, with_map, "left_semi"), recording.spark(spark, "group_updates")
        bounds = bounds.unionByName(map_time_bounds(sharing, updates, until_ms=until_ms))
    perfect = group_perfect_watermark(positions, events, segments).drop("at_ms")
    return with_incidents(
        bounds.withColumn("visible", F.lit(then)).join(perfect, ["stream", "group", "version"]), incidents
    )


def _apart(positions: DataFrame, groups: list[tuple[str, str]], how: str) -> DataFrame:
    """The positions of these groups ("left_semi"), or of all others ("left_anti")."""
    if not groups:
        return positions
    chosen = positions.sparkSession.createDataFrame(groups, "stream string, group string")
    return positions.join(F.broadcast(chosen), ["stream", "group"], how)


def _ends(recording: Recording) -> Ends:
    """When the run ended, or, if some of its streams were deleted, when each stream did."""
    end = end_ms(recording)
    incidents = recording.table("incidents").select(["stream", "at_ms", "kind", "subject"]).to_pylist()
    deleted = {
        row["stream"]: row["at_ms"] for row in incidents if (row["kind"], row["subject"]) == ("delete", "stream")
    }
    if not deleted:
        return end
    streams = recording.table("segments")["stream"].unique().to_pylist()
    return ({} if end is None else dict.fromkeys(streams, end)) | deleted


def with_resets(positions: DataFrame, group_updates: DataFrame) -> DataFrame:
    """Add `anew` to every change of a position: whether it is one of a reset, with which the readers begin anew.

    Both are tables of a recording. Of the updates of one millisecond a reset is the one that no reader asked for.
    """
    reset = group_updates.where("operation = 'reset' AND outcome = 'applied'").select("stream", "group", "at_ms")
    resets = F.broadcast(reset.distinct().withColumn("_reset", F.lit(True)))
    anew = F.coalesce("_reset", F.lit(False)) & F.col("reader").isNull()
    return positions.join(resets, ["stream", "group", "at_ms"], "left").withColumn("anew", anew).drop("_reset")


def with_incidents(bounds: DataFrame, incidents: DataFrame) -> DataFrame:
    """Add `incidents` to `bounds`: an array of what happened since the row before, null when nothing did.

    Each is (at_ms, kind, what, target, subject, outcome), as in the table, where `what` is called `detail`. `bounds`
    needs stream, group, version and at_ms (ms of simulated time) and keeps all its columns and rows;
    `incidents` is the recording's table: scales, crashes, silences. The last row has those after it, too. Raises
    `ModelError` for a missing column, and for a column `incidents` that is there already.
    """
    require(bounds, "bounds", (*GROUP_COLUMNS,))
    require(incidents, "incidents", ("stream", "at_ms", "kind", "detail", "target", "subject", "outcome"))
    refuse(bounds, "bounds", ("incidents",))
    # One list a stream, cut for each row: a join with the rows themselves would work out the bounds twice.
    happened = F.struct("at_ms", "kind", F.col("detail").alias("what"), "target", "subject", "outcome")
    listed = F.sort_array(F.collect_list(happened))
    by_stream = incidents.groupBy("stream").agg(listed.alias("_listed"))
    by_time = Window.partitionBy("stream", "group").orderBy("version", "at_ms")
    until = F.when(F.lead("version").over(by_time).isNotNull(), F.col("at_ms"))
    after = F.lag("at_ms").over(by_time).alias("_after")
    rows = bounds.select("stream", F.struct("*").alias("_row"), after, until.alias("_until"))
    since = F.expr(
        "filter(_listed, one -> (_after is null or one.at_ms > _after) and (_until is null or one.at_ms <= _until))"
    )
    found = rows.join(F.broadcast(by_stream), "stream", "left").select("_row", since.alias("_since"))
    return found.select("_row.*", F.when(F.size("_since") > 0, F.col("_since")).alias("incidents"))
