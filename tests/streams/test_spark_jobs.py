"""How many jobs Spark runs for an answer: each of them costs about as much as a whole small query."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from pyspark.sql import SparkSession

from tests.scenario_files import FOLDER
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording

ADAPTIVE = "spark.sql.adaptive.enabled"


@pytest.fixture
def adaptive(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with adaptive planning, as users have it, where every shuffle and broadcast is a job of its own."""
    before = spark.conf.get(ADAPTIVE)
    spark.conf.set(ADAPTIVE, "true")
    yield spark
    spark.conf.set(ADAPTIVE, str(before))


@cache
def recorded(scenario: str) -> StreamRecording:
    return Scenario.load(FOLDER / scenario).record(progress=False)


def jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())  # type: ignore[union-attr]


@pytest.mark.parametrize("visible", ["then", "all"])
@pytest.mark.parametrize("scenario", ["first_bounds.yaml", "days/many_streams.yaml"])
def test_the_bounds_of_readers_are_one_pass(adaptive: SparkSession, scenario: str, visible: str) -> None:
    recording, before = recorded(scenario), jobs(adaptive)
    bounds = recording.time_bounds(adaptive, visible=visible)  # type: ignore[arg-type]
    assert jobs(adaptive) == before
    assert bounds.toArrow().num_rows > 100
    assert 1 <= jobs(adaptive) - before <= 4
