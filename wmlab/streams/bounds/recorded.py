"""The time bounds of a recording, with the incidents of the run beside them, and its replay with other rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from wmlab.core.errors import ModelError
from wmlab.core.recording import Recording
from wmlab.core.spark.schemas import choose, refuse, require
from wmlab.streams.bounds.bounds import time_bounds as bounds_of
from wmlab.streams.bounds.groups import GROUP_COLUMNS, group_time_bounds
from wmlab.streams.bounds.perfect import group_perfect_watermark, perfect_watermark
from wmlab.streams.bounds.replay import replay as replay_of
from wmlab.streams.scenario.scenario import StreamScenario


def time_bounds(
    recording: Recording,
    spark: SparkSession,
    *,
    of: Literal["readers", "events"] | None = None,
    visible: Literal["all", "then"] | None = None,
) -> DataFrame:
    """Lower, upper and perfect watermark of every position in a recording, computed by Spark.

    The positions are those that reader groups published, one row a version of a group's state; or, when nobody read,
    the events, one row an event. `of` chooses.

    At the positions of readers a mark counts only once it was emitted (`visible="then"`), so the bounds are what a
    reader could know at that moment. `visible="all"` is hindsight: all marks of the run count from the beginning. The
    column `visible` says which. These rows also have the column `incidents` of `with_incidents`. The positions of
    events have hindsight only, since no reader was there; raises `ModelError` for anything else.
    """
    choose("of", of, ("readers", "events", None))
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
    positions = recording.spark(spark, "positions")
    bounds = group_time_bounds(positions, watermarks, segments, visible=visible or "then")
    bounds = bounds.withColumn("visible", F.lit(visible or "then"))
    perfect = group_perfect_watermark(positions, events, segments)
    return with_incidents(bounds.join(perfect, list(GROUP_COLUMNS)), incidents)


def replay(
    recording: Recording,
    spark: SparkSession,
    configs: Mapping[str, Mapping[str, Any]],
    *,
    stream: str,
    until_ms: int | None,
) -> DataFrame:
    """The watermarks of one stream under the recorded rules with these fields changed, by label."""
    recorded = recording.scenario_as(StreamScenario)
    scenario = None if recorded is None else recorded.resolved
    given = asdict(scenario.controllers.configuration(scenario.stream_titled(stream))) if scenario else {}
    names = ("writer_marks", "segments", "writer_shutdowns")
    marks, segments, shutdowns = (recording.spark(spark, name).where(F.col("stream") == stream) for name in names)
    whole = {label: given | dict(changes) for label, changes in configs.items()}
    return replay_of(marks, segments, whole, shutdowns=shutdowns, until_ms=until_ms)


def with_incidents(bounds: DataFrame, incidents: DataFrame) -> DataFrame:
    """Add `incidents` to `bounds`: an array of (at_ms, kind, what) since the row before, null when there were none.

    `bounds` needs stream, group, version and at_ms (ms of simulated time) and keeps all its columns and rows;
    `incidents` is the recording's table: scales, crashes, silences. The last row has those after it, too. Raises
    `ModelError` for a missing column, and for a column `incidents` that is there already.
    """
    require(bounds, "bounds", (*GROUP_COLUMNS,))
    require(incidents, "incidents", ("stream", "at_ms", "kind", "detail"))
    refuse(bounds, "bounds", ("incidents",))
    # One list a stream, cut for each row: a join with the rows themselves would work out the bounds twice.
    listed = F.sort_array(F.collect_list(F.struct("at_ms", "kind", F.col("detail").alias("what"))))
    by_stream = incidents.groupBy("stream").agg(listed.alias("_listed"))
    by_time = Window.partitionBy("stream", "group").orderBy("version")
    until = F.when(F.lead("version").over(by_time).isNotNull(), F.col("at_ms"))
    after = F.lag("at_ms").over(by_time).alias("_after")
    rows = bounds.select("stream", F.struct("*").alias("_row"), after, until.alias("_until"))
    since = F.expr(
        "filter(_listed, one -> (_after is null or one.at_ms > _after) and (_until is null or one.at_ms <= _until))"
    )
    found = rows.join(F.broadcast(by_stream), "stream", "left").select("_row", since.alias("_since"))
    return found.select("_row.*", F.when(F.size("_since") > 0, F.col("_since")).alias("incidents"))
