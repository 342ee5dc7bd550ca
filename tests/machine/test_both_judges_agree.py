"""The second judge and the checks agree on every run, sound or not; so do the model's tracker and Spark's bounds."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.machine import bounds
from tests.machine.batch import TABLES, differences, given_of, judged_by_checks, of_run
from tests.machine.campaign import Made
from tests.machine.judge import Findings, judge, violated
from tests.repetitions import Count
from wmlab.core.spark.schemas import dataframe
from wmlab.streams.api import Scenario
from wmlab.streams.bounds.bounds import time_bounds
from wmlab.streams.bounds.groups import group_time_bounds

BOUNDS = ("lower", "upper", "lower_seq", "upper_seq")
LOG = ("watermarks", "segments")
EVERY = 5


@pytest.fixture(scope="module")
def tables(made: list[Made]) -> dict[str, pa.Table]:
    """The tables of all runs as one recording."""
    return {name: pa.concat_tables([one.tables[name] for one in made]).combine_chunks() for name in TABLES}


def test_the_checks_and_the_second_judge_agree_on_every_run(
    made: list[Made], tables: dict[str, pa.Table], count: Count
) -> None:
    told: Findings = {}
    for one in made:
        told |= one.findings
    assert list(differences(told, judged_by_checks(tables))) == []
    assert violated(told) >= {"I3", "I4", "I5", "I6", "I7"}
    count(sum(len(one.scenarios) for one in made), "random runs judged by two judges")


@pytest.mark.parametrize("visible", ["all", "then"])
def test_spark_gives_groups_the_bounds_of_a_tracker_that_follows_them(
    spark: SparkSession, tables: dict[str, pa.Table], visible: Literal["all", "then"]
) -> None:
    expected = {row[:-1]: row[-1] for row in bounds.of_groups(tables, visible=visible)}
    positions, watermarks, segments = (dataframe(spark, tables[name]) for name in ("positions", *LOG))
    asked = group_time_bounds(positions, watermarks, segments, visible=visible)
    assert _by(asked, ("stream", "group", "version", "at_ms")) == expected
    assert sum(lower is not None for lower, *_ in expected.values()) > len(expected) / 10


def test_spark_gives_places_the_bounds_of_a_tracker_that_begins_there(
    spark: SparkSession, tables: dict[str, pa.Table]
) -> None:
    expected = {row[:-1]: row[-1] for row in bounds.of_events(tables, EVERY)}
    events, watermarks, segments = (dataframe(spark, tables[name]) for name in ("events", *LOG))
    asked = time_bounds(events.where(f"offset % {EVERY} = 0"), watermarks, segments)
    assert _by(asked, ("stream", "segment_id", "offset")) == expected
    assert sum(lower is not None for lower, *_ in expected.values()) > len(expected) / 10


def _by(frame: DataFrame, keys: tuple[str, ...]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = frame.select(*keys, *BOUNDS).collect()
    return {tuple(row)[: len(keys)]: tuple(row)[len(keys) :] for row in rows}


@pytest.mark.parametrize("machine", ["sound", "bug_6510"])
def test_a_check_of_one_recording_says_what_the_second_judge_says(made: list[Made], machine: str) -> None:
    """The same question through the public door, from a scenario to verdicts."""
    shard = next(one for one in made if one.shard.machine == machine)
    run = max(shard.scenarios, key=lambda run: (run in shard.broken, len(shard.scenarios[run])))
    recording = Scenario.from_yaml(shard.scenarios[run]).record(progress=False)
    verdicts = recording.check()
    assert set(verdicts.violated) == violated(judge(given_of(recording))) == set(shard.broken.get(run, ()))
    assert of_run(run, judge(given_of(recording))).items() <= shard.findings.items()
