"""What happened to the stream, beside the rows it happened at: scales, crashes, silences.

A chart of bounds marks them, so they travel with the bounds as a column of their own.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def with_happenings(bounds: DataFrame, faults: DataFrame) -> DataFrame:
    """Add `happened` to `bounds`: an array of (at_ms, kind, what) since the row before, null when nothing did.

    `bounds` needs stream, group, version and at_ms (ms of simulated time) and keeps all its columns and rows;
    `incidents` is the recording's table. What happens after the last row is told with the last row.
    """
    by_time = Window.partitionBy("stream", "group").orderBy("version")
    spans = bounds.select("stream", "group", "version", "at_ms").select(
        "stream",
        "group",
        "version",
        F.lag("at_ms").over(by_time).alias("after_ms"),
        F.when(F.lead("version").over(by_time).isNotNull(), F.col("at_ms")).alias("until_ms"),
    )
    told = (
        faults.join(spans, "stream")
        .where(F.col("after_ms").isNull() | (faults.at_ms > F.col("after_ms")))
        .where(F.col("until_ms").isNull() | (faults.at_ms <= F.col("until_ms")))
        .groupBy("stream", "group", "version")
        .agg(
            F.sort_array(F.collect_list(F.struct(faults.at_ms, faults.kind, faults.detail.alias("what")))).alias(
                "happened"
            )
        )
    )
    return bounds.join(F.broadcast(told), ["stream", "group", "version"], "left")
