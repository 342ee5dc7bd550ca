"""The time bounds of a recording."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from wmlab.core.recording import Recording
from wmlab.streams.bounds.bounds import time_bounds as bounds_of
from wmlab.streams.bounds.groups import group_time_bounds
from wmlab.streams.bounds.happenings import with_happenings
from wmlab.streams.bounds.perfect import group_perfect_watermark, perfect_watermark


def time_bounds(
    recording: Recording,
    spark: SparkSession,
    *,
    of: Literal["readers", "events"] | None = None,
    visible: Literal["all", "then"] = "all",
) -> DataFrame:
    """Lower, upper and perfect watermark of every position in a recording, computed by Spark.

    The positions are those that reader groups published, one row a version of a group's state; or, when nobody read,
    the events, one row an event. `of` chooses. `visible="then"` lets a mark count only once it was emitted, as a
    reader saw it at that moment; it needs readers. `happened` tells what the script did since the row before.
    """
    tables = {name: recording.spark(spark, name) for name in ("watermarks", "segments", "events", "incidents")}
    marks, segments, events = tables["watermarks"], tables["segments"], tables["events"]
    if of == "events" or (of is None and not recording.counts["positions"]):
        positions = events.withColumn("at_ms", events.append_ms)
        return perfect_watermark(bounds_of(positions, marks, segments), events, segments)
    positions = recording.spark(spark, "positions")
    bounds = group_time_bounds(positions, marks, segments, visible=visible)
    truth = group_perfect_watermark(positions, events, segments)
    joined = bounds.join(truth, ["stream", "group", "version", "at_ms"])
    return with_happenings(joined, tables["incidents"])
