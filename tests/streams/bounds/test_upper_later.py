"""The upper bound that became known later: Spark's column, and the windows of the complete log without Spark."""

from __future__ import annotations

import pandas as pd
from pyspark.sql import SparkSession

import wmlab as wm


def test_the_windows_of_the_complete_log_are_those_that_spark_calls_later(spark: SparkSession) -> None:
    """Also of a group that shares a map of times: they are of positions, not of what its readers were told."""
    for read_side in ("document", "implementation"):
        recording = wm.Scenario(
            "a group",
            writers=[wm.EventWriter("w", rate_per_s=60), wm.EventWriter("late", rate_per_s=40, delay_mean_ms=400)],
            readers=wm.ReaderGroup("readers", readers=2, rate_per_s=30.0),
            rules=wm.Rules(read_side=read_side),
            controllers=wm.Controllers(period_ms="1 s"),
            script=[wm.script.Scale(at_ms=8_000, seal=["0@0"], into=2)],
            duration_ms="20 s",
        ).record()
        windows = recording.group_windows(visible="all")["readers"]
        rows = recording.time_bounds(spark).toPandas().sort_values("version")
        of_group = rows[rows.change == "position"]
        later = [None if pd.isna(upper) else int(upper) for upper in of_group.upper_later]
        assert [at_ms for at_ms, _ in windows] == list(of_group.at_ms)
        assert [window.upper for _, window in windows] == later
        assert len(set(later)) > 5
