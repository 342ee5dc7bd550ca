"""The upper bound that became known later: Spark's column, and the windows of the complete log without Spark."""

from __future__ import annotations

import pandas as pd
from pyspark.sql import SparkSession

import wmlab as wm


def test_the_windows_of_the_complete_log_are_those_that_spark_calls_later(spark: SparkSession) -> None:
    """Also of a group that shares a map of times: they are of positions, not of what its readers were told."""
    groups = [wm.ReaderGroup("map", readers=2, read_side="document"), wm.ReaderGroup("offsets", rate_per_s=30.0)]
    writers = [wm.EventWriter("w", rate_per_s=60), wm.EventWriter("late", rate_per_s=40, delay_mean_ms=400)]
    scale = wm.script.Scale(at_ms=8_000, seal=["0@0"], into=2)
    recording = wm.Scenario(
        "two groups",
        writers=writers,
        readers=groups,
        controllers=wm.Controllers(period_ms="1 s"),
        script=[scale],
        duration_ms="20 s",
    ).record()
    windows = recording.group_windows(visible="all")
    rows = recording.time_bounds(spark).toPandas().sort_values(["version", "at_ms"])
    for group in groups:
        of_group = rows[(rows["group"] == group.name) & (rows.change == "position")]
        later = [None if pd.isna(upper) else int(upper) for upper in of_group.upper_later]
        assert [at_ms for at_ms, _ in windows[group.name]] == list(of_group.at_ms)
        assert [window.upper for _, window in windows[group.name]] == later
        assert len(set(later)) > 5
