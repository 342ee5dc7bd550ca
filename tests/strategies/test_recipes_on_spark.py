"""The lines that Spark gets for a column of event times that is not a timestamp run on Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F

from wmlab.strategies.recipes import EventTimeColumn, settings

NUMBERS = {"d": 19_675.9, "s": 1_700_000_000, "ms": 1_700_000_000_000, "us": 1_700_000_000_000_000, "ns": 17 * 10**17}
TEXTS = {
    "text": "2023-11-14T22:13:20.000Z",
    "offset": "2023-11-14T23:13:20+01:00",
    "%d.%m.%Y at %H:%M:%S": "14.11.2023 at 22:13:20",
    "%Y-%m-%d %H:%M:%S %z": "2023-11-14 23:13:20 +0100",
}


@pytest.mark.parametrize("form", [*NUMBERS, *TEXTS])
def test_spark_runs_the_line_of_a_column_that_is_no_timestamp(spark: SparkSession, form: str) -> None:
    value = NUMBERS.get(form, TEXTS.get(form))
    frame = spark.createDataFrame([(value,)], ["ts"])
    code = settings(60_000, event_time=EventTimeColumn("ts", form))["Spark"].code
    (row,) = eval(f"frame{code}", {"frame": frame, "F": F}).selectExpr("unix_seconds(ts_timestamp) AS s").collect()
    assert row.s == pytest.approx(1_700_000_000, abs=3_600 * (form == "d"))


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (45_244.0, EventTimeColumn("ts", "d", -2_209_161_600_000 + 80_000_000)),
        (1_700_000_000_000 - 5_000, EventTimeColumn("ts", "ms", 5_000)),
        ("14.11.2023 23:13:20", EventTimeColumn("ts", "%d.%m.%Y %H:%M:%S", zone="Europe/Berlin")),
        ("2023-11-14T23:13:20", EventTimeColumn("ts", "text", zone="Europe/Berlin")),
        (datetime(2023, 11, 14, 23, 13, 20, tzinfo=UTC), EventTimeColumn("ts", zone="Europe/Berlin")),
    ],
)
def test_spark_counts_from_the_origin_and_reads_local_times_in_their_zone(
    spark: SparkSession, value: Any, column: EventTimeColumn
) -> None:
    code = settings(60_000, event_time=column)["Spark"].code
    frame = spark.createDataFrame([(value,)], ["ts"])
    (row,) = eval(f"frame{code}", {"frame": frame, "F": F}).selectExpr("unix_seconds(ts_timestamp) AS s").collect()
    assert row.s == 1_700_000_000


def test_spark_runs_the_line_of_a_path_into_an_array(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT array(named_struct('properties', named_struct('time', 1700000000000L)), "
        "named_struct('properties', named_struct('time', 1700000060000L))) AS features"
    )
    code = settings(60_000, event_time=EventTimeColumn("features[].properties.time", "ms"))
    rows = eval(f"frame{code['Spark'].code}", {"frame": frame, "F": F}).selectExpr("unix_seconds(time_timestamp) AS s")
    assert [row.s for row in rows.collect()] == [1_700_000_000, 1_700_000_060]
    assert not code["Flink SQL"].possible
