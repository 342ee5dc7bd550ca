"""The kept runs of Spark are what the maker of them makes, but for clocks, ids and sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import wmlab as wm
from tests.repetitions import repetitions
from tools import spark_runs

KEPT = wm.engine.DIRECTORY / "spark"
OF_STATE = ("operatorName", "numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark")


@pytest.fixture
def streaming(spark: SparkSession) -> Iterator[SparkSession]:
    before = {name: spark.conf.get(name, None) for name in spark_runs.SETTINGS}
    for name, value in spark_runs.SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        if old is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, old)


def without_clocks(line: str) -> dict[str, Any]:
    report = json.loads(line)
    return {
        "batch": report["batchId"],
        "rows": report["numInputRows"],
        "event time": report.get("eventTime"),
        "state": [[state[name] for name in OF_STATE] for state in report["stateOperators"]],
        "sources": [
            [source["description"], source["endOffset"], source["numInputRows"]] for source in report["sources"]
        ],
        "results": report["sink"]["numOutputRows"],
    }


def test_every_kept_run_has_a_maker() -> None:
    assert {path.stem for path in KEPT.iterdir()} == spark_runs.RUNS.keys()


@pytest.mark.parametrize("name", repetitions(["one_source_silent"], long=["no_more_data", "one_source_silent"]))
def test_a_run_made_anew_is_the_kept_one(streaming: SparkSession, name: str) -> None:
    made = spark_runs.record(streaming, name)
    kept = (KEPT / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert [without_clocks(line) for line in made] == [without_clocks(line) for line in kept]
    assert str(KEPT.parent) not in "".join(made)


def test_the_files_are_those_of_the_runs() -> None:
    (first, *_, last) = spark_runs.RUNS["one_source_behind"].steps
    assert {source: len(lines) for source, lines in first.items()} == {"a": 10, "b": 10}
    assert json.loads(first["a"][0]) == {"dev": "x", "ts": "2023-11-14T22:13:20+00:00"}
    assert json.loads(last["b"][9]) == {"dev": "x", "ts": "2023-11-14T21:14:19+00:00"}
    steps = spark_runs.RUNS["future_row"].steps
    assert [len(files["a"]) for files in steps] == [10, 10, 10, 1, 10, 10, 10, 10]
    assert [list(files) for files in spark_runs.RUNS["one_source_silent"].steps] == [["a", "b"]] * 2 + [["a"]] * 5
