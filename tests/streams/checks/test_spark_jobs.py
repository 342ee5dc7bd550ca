"""How many jobs of Spark a check costs: all rules are judged in one pass, and the events reduced in the same one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_jobs import adaptive_planning, jobs_so_far
from wmlab.core.recording import Recording
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording

FIRST_BOUNDS = Path(__file__).parents[3] / "data" / "scenarios" / "first_bounds.yaml"
JOBS = 2
"""The shuffle and its answer: with adaptive planning, as users have it, each is a job of its own."""


@pytest.fixture
def adaptive(spark: SparkSession) -> Iterator[SparkSession]:
    with adaptive_planning(spark):
        yield spark


@pytest.fixture(scope="module")
def run() -> Recording:
    return Scenario.load(FIRST_BOUNDS).record(progress=False)


@pytest.mark.parametrize("only", [(), ("I6",), ("I13",)], ids=str)
def test_a_check_is_one_pass(adaptive: SparkSession, run: Recording, only: tuple[str, ...]) -> None:
    before = jobs_so_far(adaptive)
    verdicts = run.check(adaptive, *only)
    assert jobs_so_far(adaptive) - before <= JOBS
    assert {verdict.verdict for verdict in verdicts} == {"ok"}


def test_a_stored_recording_is_checked_in_one_pass_too(adaptive: SparkSession, run: Recording, tmp_path: Path) -> None:
    stored = StreamRecording.read(run.save(tmp_path / "stored").path or "")
    before = jobs_so_far(adaptive)
    verdicts = stored.check(adaptive)
    assert jobs_so_far(adaptive) - before <= JOBS
    assert verdicts.to_dict()["verdicts"] == run.check(adaptive).to_dict()["verdicts"]
