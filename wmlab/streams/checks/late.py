"""Late events: read first after a window of their group had shown a larger lower bound, and whose doing that was.

An event counts when a reader of the group first reads it; whatever is read again proves nothing. A promise counts from
the window that showed it, for what is read in a later millisecond: within one millisecond the tables do not say what
came first.

Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.streams.checks.counted import accepted, read_at

DROPPED: Final = "its writer had been dropped"
NOT_NOTED: Final = "its writer had noted no time yet"
BROKE_ITS_WORD: Final = "its writer had noted a larger time while the event was not acknowledged"

_EVENT: Final = ("stream", "group", "segment_id", "offset")


def late_events(
    reads: DataFrame,
    windows: DataFrame,
    events: DataFrame,
    watermarks: DataFrame,
    marks: DataFrame,
    cycles: DataFrame,
    segments: DataFrame,
) -> DataFrame:
    """Every event that was read behind a shown lower bound, one row per group that read it so.

    Columns: those of `events`, `group`, the `reader` that read it at `read_ms` together with all events between the
    offsets `after` and `reached`, `promised` (the largest lower bound shown before), `shown_to` and `shown_ms`, and
    `because`: why the system is not to blame, null if it is. Takes the recording's tables.
    """
    return blamed(late(delivered(reads, windows, events)), watermarks, marks, cycles, segments)


def late(read: DataFrame) -> DataFrame:
    """Those of the events `delivered` whose time lies below the lower bound shown before."""
    return read.where(F.col("event_time") < F.col("promised"))


def delivered(reads: DataFrame, windows: DataFrame, events: DataFrame) -> DataFrame:
    """The events that a group read while it had a lower bound, with that bound; columns as `late_events`."""
    first = _promised(reads, _promises(windows))
    groups = F.broadcast(reads.select("stream", "group").distinct())
    by = F.struct("reader", "read_ms", "after", "reached", "promise").alias("by")
    rows = events.join(groups, "stream").unionByName(first.select(*_EVENT, by), allowMissingColumns=True)
    # From the end of a segment to its start: an event belongs to the nearest end of what was read at or beyond it.
    downwards = Window.partitionBy("stream", "group", "segment_id").orderBy(
        F.desc("offset"), F.col("by").isNull(), "event_time"
    )
    reading = F.last("by", ignorenulls=True).over(downwards.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    covered = rows.withColumn("reading", reading).where("event_time is not null and offset > reading.after")
    promise = F.col("reading.promise")
    return covered.where(promise.isNotNull()).select(
        *_EVENT,
        "event_time",
        "append_ms",
        "writer",
        "reading.reader",
        "reading.read_ms",
        "reading.after",
        "reading.reached",
        promise["lower"].alias("promised"),
        promise["reader"].alias("shown_to"),
        promise["at_ms"].alias("shown_ms"),
    )


def _promises(windows: DataFrame) -> DataFrame:
    """The windows that raised the lower bound of their group: stream, group, at_ms, promise (at_ms, lower, reader)."""
    by_time = Window.partitionBy("stream", "group").orderBy("at_ms", F.desc("lower"), "reader")
    before = F.max("lower").over(by_time.rowsBetween(Window.unboundedPreceding, -1))
    raised = windows.where("lower is not null").withColumn("before", before)
    kept = raised.where("before is null or lower > before")
    return kept.select("stream", "group", "at_ms", F.struct("at_ms", "lower", "reader").alias("promise"))


def _promised(reads: DataFrame, promises: DataFrame) -> DataFrame:
    """What was read for the first time, with the last promise made before.

    Columns: stream, group, segment_id, offset and reached (the same), after, reader, read_ms, and `promise`.
    """
    first = reads.where("not again").select(
        "stream", "group", "reader", "segment_id", "at_ms", F.col("from_offset").alias("after"),
        F.col("to_offset").alias("offset"),
    )  # fmt: skip
    rows = first.unionByName(promises, allowMissingColumns=True)
    by_time = Window.partitionBy("stream", "group").orderBy("at_ms", F.col("promise").isNotNull())
    last = F.last("promise", ignorenulls=True).over(by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    with_promise = rows.withColumn("promise", last).where("segment_id is not null")
    return with_promise.withColumn("reached", F.col("offset")).withColumnRenamed("at_ms", "read_ms")


def blamed(
    late_ones: DataFrame, watermarks: DataFrame, marks: DataFrame, cycles: DataFrame, segments: DataFrame
) -> DataFrame:
    """The late events with `because`: why they are their writer's doing or nobody's; null if a bound was wrong.

    A bound above the event is right about a writer that it counted if the writer had noted that time without having
    the event acknowledged; and about one that it did not count if that had been removed or had noted nothing. If any
    of the bounds that were shown was wrong about it, `because` is null. Takes `late` and the recording's tables.
    """
    noted = accepted(marks).select("stream", "writer").distinct().withColumn("noted", F.lit(True))
    event = late_ones.columns
    own = late_ones.join(F.broadcast(_later_segments(segments)), ["stream", "segment_id"], "left")
    shown = own.join(F.broadcast(noted), ["stream", "writer"], "left").alias("late")
    bounds = _bounds(watermarks, marks, cycles).alias("log")
    same = (F.col("late.stream") == F.col("log.stream")) & (F.col("late.writer") == F.col("log.writer"))
    above = (F.col("log.lower") > F.col("late.event_time")) & (F.col("log.lower") <= F.col("late.promised"))
    claims = shown.join(F.broadcast(bounds), same & above, "left")
    broke = F.col("position").isNotNull() & ~_covers()
    excuse = F.when(F.col("time").isNotNull(), F.when(broke, F.lit(BROKE_ITS_WORD))).otherwise(F.col("excuse"))
    because = F.when(F.col("noted").isNull(), F.lit(NOT_NOTED)).otherwise(excuse)
    every = F.bool_and(F.col("because").isNotNull())
    told = claims.select("late.*", "seq", because.alias("because"))
    return told.groupBy(*event).agg(F.when(every, F.max_by("because", F.coalesce("seq", F.lit(0)))).alias("because"))


def _covers() -> Column:
    """Whether `position` covers the event: its segment that far, or only what came after the segment."""
    own = F.try_element_at("position", F.col("segment_id")) >= F.col("offset")
    beyond = F.coalesce(F.arrays_overlap(F.map_keys("position"), F.col("later")), F.lit(False))
    return F.coalesce(own, F.lit(False)) | (~F.map_contains_key("position", F.col("segment_id")) & beyond)


def _bounds(watermarks: DataFrame, marks: DataFrame, cycles: DataFrame) -> DataFrame:
    """Every watermark from the side of every writer that ever noted.

    Columns: stream, seq, lower, writer, `time` (that it was counted with; null if it was not), `position` (of the
    counted mark) and `excuse` (why it was not counted: NOT_NOTED, DROPPED, or null if it was on record and left out).
    """
    log = read_at(watermarks, cycles).select("stream", "seq", "lower", "writers", "emitted_ms", "read_ms")
    time = F.try_element_at("writers", F.col("writer"))
    pairs = log.join(accepted(marks).withColumnRenamed("time", "noted_time"), "stream").withColumn("time", time)
    counted = (F.col("noted_time") == F.col("time")) & (F.col("received_ms") <= F.col("emitted_ms"))
    # A mark of the very millisecond in which the cycle read the marks may have come too late for it.
    seen_ms = F.when(F.col("received_ms") < F.col("read_ms"), F.col("received_ms"))
    facts = pairs.groupBy("stream", "seq", "lower", "writer", "time", "emitted_ms").agg(
        F.max_by("position", F.when(counted, F.col("received_ms"))).alias("position"),
        F.max(seen_ms).alias("last_ms"),
    )
    removals = cycles.select("stream", F.explode("removed").alias("writer"), F.col("at_ms").alias("removed_ms"))
    listed = removals.groupBy("stream", "writer").agg(F.collect_list("removed_ms").alias("removals"))
    gone = F.exists("removals", lambda at: (at >= F.col("last_ms")) & (at <= F.col("emitted_ms")))
    excuse = F.when(F.col("last_ms").isNull(), F.lit(NOT_NOTED)).when(gone, F.lit(DROPPED))
    return facts.join(F.broadcast(listed), ["stream", "writer"], "left").select(
        "stream",
        "seq",
        "lower",
        "writer",
        "time",
        "position",
        excuse.alias("excuse"),
    )


def _later_segments(segments: DataFrame) -> DataFrame:
    """Every segment with `later`: the ids of the segments that came after it over some of its keys."""
    mine = segments.select("stream", "segment_id", "low", "high")
    theirs = segments.select(
        "stream", F.col("segment_id").alias("other"), F.col("low").alias("from"), F.col("high").alias("to")
    )
    overlap = (F.col("other") > F.col("segment_id")) & (F.col("from") < F.col("high")) & (F.col("low") < F.col("to"))
    return (
        mine.join(F.broadcast(theirs), "stream")
        .where(overlap)
        .groupBy("stream", "segment_id")
        .agg(F.collect_list("other").alias("later"))
    )
