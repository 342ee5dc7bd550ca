"""The lines that Spark gets for a column of event times that is not a timestamp run on Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F

from wmlab.core.traces import load
from wmlab.strategies.advice import advise
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


GOOD_AND_BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "s": ({"unit": "s"}, ["1700000000", "1700000005.123", "n/a", "nan"]),
    "ms": ({"unit": "ms"}, ["1700000000000", "1700000005250", "soon", "-"]),
    "us": ({"unit": "us"}, ["1700000000123456", "1700000005250000", "none"]),
    "ns": ({"unit": "ns"}, ["1700000000123456789", "1700000005250000000", "none"]),
    "d": ({"unit": "d", "origin": "1899-12-30"}, ["45244.5", "45244.75", "#N/A"]),
    "text": ({}, ["2023-11-14 22:13:20.250", "2023-11-14T22:13:25Z", "UTC", "2023-02-31 10:00:00"]),
    "offset": ({}, ["2023-11-14T23:13:20+01:00", "2023-11-14T22:13:25-05:30", "later"]),
    "format": (
        {"format": "%d.%m.%Y %H:%M:%S"},
        ["14.11.2023 22:13:20", "4.1.2023 1:02:03", "14.11.2023 25:00:00", "31.02.2023 10:00:00", "soon"],
    ),
    "half days": ({"format": "%m/%d/%Y %I:%M %p"}, ["1/4/2023 1:05 PM", "11/14/2023 10:13 AM", "4/2023"]),
    "digits": ({"format": "%Y%m%d%H%M%S"}, ["20231114221320", "20231114221325", "2023"]),
    "zone": ({"timezone": "Europe/Berlin"}, ["2023-11-14 23:13:20", "2023-07-01 10:00:00", "at noon"]),
}
"""Of each form how the event times are read, two that are and some that are none."""


@pytest.mark.parametrize("form", GOOD_AND_BAD)
def test_the_line_of_an_advice_reads_a_file_with_bad_rows_as_the_log_does(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    arguments, texts = GOOD_AND_BAD[form]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["at,got", *(f"{text},{1_800_000_000_000 + n}" for n, text in enumerate(texts))]))
    of_event = {name: {"event_time": value} for name, value in arguments.items()}
    log = load(path, event_time="at", arrival="got", bad_rows="drop", **of_event)
    assert log.refused.num_rows == len(texts) - 2
    code = advise(log, 0.5).settings["Spark"]
    frame = spark.read.csv(str(path), header=True)
    line = code.code or (code.instead.code if code.instead else "")
    rows = eval(f"frame{line}", {"frame": frame, "F": F}).selectExpr("got", "unix_millis(at_timestamp) AS ms")
    read = {row.got: row.ms for row in rows.collect()}
    assert [ms is None for _, ms in sorted(read.items())] == [False, False] + [True] * (len(texts) - 2)
    assert [ms for _, ms in sorted(read.items()) if ms is not None] == log.table["event_time"].to_pylist()
