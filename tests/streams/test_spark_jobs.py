"""What an answer costs Spark: jobs, each about as much as a whole small query, and what its workers import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from pyspark.sql import SparkSession

from tests.scenario_files import FOLDER
from tests.spark_jobs import adaptive_planning, jobs_so_far
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording


@pytest.fixture
def adaptive(spark: SparkSession) -> Iterator[SparkSession]:
    with adaptive_planning(spark):
        yield spark


@cache
def recorded(scenario: str) -> StreamRecording:
    return Scenario.load(FOLDER / scenario).record(progress=False)


@pytest.mark.parametrize("visible", ["then", "all"])
@pytest.mark.parametrize("scenario", ["first_bounds.yaml", "days/many_streams.yaml"])
def test_the_bounds_of_readers_are_one_pass(adaptive: SparkSession, scenario: str, visible: str) -> None:
    recording, before = recorded(scenario), jobs_so_far(adaptive)
    bounds = recording.time_bounds(adaptive, visible=visible)  # type: ignore[arg-type]
    assert jobs_so_far(adaptive) == before
    assert bounds.toArrow().num_rows > 100
    assert 1 <= jobs_so_far(adaptive) - before <= 4


RUN_BY_WORKERS = (
    "bounds.bounds",
    "bounds.groups",
    "bounds.live",
    "bounds.maps",
    "bounds.recorded",
    "bounds.replay",
)


def test_a_worker_imports_the_rule_and_not_the_simulator() -> None:
    """Each worker imports the modules of the functions that it runs, for the first task of a query."""
    code = f"""
import importlib, sys
for name in {RUN_BY_WORKERS}:
    importlib.import_module("wmlab.streams." + name)
print(*sorted(sys.modules))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "wmlab.streams.model.window" in loaded
    for name in ("wmlab.streams.scenario", "wmlab.streams.sim", "wmlab.core.recording", "pydantic", "simpy", "yaml"):
        assert [module for module in loaded if f"{module}.".startswith(f"{name}.")] == []
