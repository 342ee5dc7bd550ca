"""A reader group's whole position at each version of its state, from the log of changes to it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.inputs import require

CHANGE_COLUMNS = ("stream", "group", "version", "at_ms", "segment_id", "offset", "finished")
VERSION_COLUMNS = ("stream", "group", "version", "at_ms")


def snapshots(changes: DataFrame) -> DataFrame:
    """The open segments of every group at every version, with what their latest change said.

    `changes` is the table `positions`, perhaps with more columns: each row holds from its version on, until the next
    row of its segment; a finished segment is gone. The result has one row per version and open segment: all columns
    of `changes`, `version` and `at_ms` now being those of the version. Its size is versions times open segments.
    Raises `ModelError` for a missing column.
    """
    require(changes, "positions", CHANGE_COLUMNS)
    group = Window.partitionBy("stream", "group")
    ranked = changes.withColumn("_place", F.dense_rank().over(group.orderBy("version")))
    segment = Window.partitionBy("stream", "group", "segment_id").orderBy("_place")
    until = F.coalesce(F.lead("_place").over(segment), F.max("_place").over(group) + 1)
    spans = ranked.withColumn("_until", until).where(~F.col("finished"))
    lasting = spans.drop("version", "at_ms", "finished").withColumn(
        "_place", F.explode(F.sequence("_place", F.col("_until") - 1))
    )
    moments = ranked.select(*VERSION_COLUMNS, "_place").distinct()
    return lasting.drop("_until").join(moments, ["stream", "group", "_place"]).drop("_place")


def versions(changes: DataFrame) -> DataFrame:
    """Every version of every group and when it came to be, those without an open segment included."""
    return changes.select(*VERSION_COLUMNS).distinct()
