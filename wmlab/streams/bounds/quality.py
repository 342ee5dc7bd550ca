"""How good the bounds of a reader group were: how old, how far from the perfect watermark, how often too high."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from wmlab.core.spark.schemas import require
from wmlab.streams.bounds.recorded import with_slack


def quality_of_bounds(bounds: DataFrame) -> DataFrame:
    """Summarize the `time_bounds` of a recording, one row per stream and group, in counts of rows and in ms.

    `bounds` counts the rows with a lower bound, and `first_ms` (clock) is the first of them. `unsafe` counts the rows
    in which it is above the perfect watermark, and `too_early_ms` is the largest such distance, 0 if there is none.
    `age_ms` is clock minus lower bound and `slack_ms` perfect watermark minus lower bound, both on average over the
    rows, so not over time: a row is a moment at which the bounds can change. What is not known is null. Raises
    `ModelError` for a missing column.
    """
    require(bounds, "bounds", ("stream", "group", "at_ms", "lower", "upper", "perfect_watermark"))
    known = F.col("lower").isNotNull()
    too_early = F.greatest(-F.min("slack_lower"), F.lit(0))
    return (
        with_slack(bounds)
        .groupBy("stream", "group")
        .agg(
            F.count("lower").alias("bounds"),
            F.min(F.when(known, F.col("at_ms"))).alias("first_ms"),
            F.count_if(~F.col("safe")).alias("unsafe"),
            F.when(F.count("slack_lower") > 0, too_early).alias("too_early_ms"),
            F.round(F.avg(F.col("at_ms") - F.col("lower"))).cast("long").alias("age_ms"),
            F.round(F.avg("slack_lower")).cast("long").alias("slack_ms"),
        )
    )
