"""What the tables of a recording coalesce to is what the run wrote down, step by step, over many dataflows."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.dataflow.checks.dataflows import Row, frames, generated
from wmlab import dataflow as flow
from wmlab.core.errors import ModelError, UnknownNameError
from wmlab.core.recording import Recording
from wmlab.dataflow.checks.coalesced import coalesced
from wmlab.dataflow.checks.steps import all_steps, coalesced_steps
from wmlab.dataflow.recording import DataflowRecording
from wmlab.streams.recording import StreamRecording

TABLES = ("items", "queues", "coalescing")
FLOWS = range(20)
SOUND = flow.Rules()
SHIPPED = flow.Rules("implementation")
KEYED = flow.Rules(keyed_idle=True)
PARTLY = flow.Rules(watermark_wakes_one_key=True, done_hides_idle=True)
BEFORE_22440 = flow.Rules(event_leaves_idle=True, end_counts_as_active=True)
UNFLUSHED = flow.Rules(highest_held_back=True)


@cache
def recorded(rules: flow.Rules) -> tuple[Recording, ...]:
    return tuple(generated(number, rules=rules).record() for number in FLOWS)


def known_by(row: Row, position: int) -> tuple[Any, ...]:
    return *(row[name] for name in ("execution", "vertex", "instance", "level", "edge", "stimulus")), position


def steps_of(recording: Recording, rules: flow.Rules) -> list[Row]:
    tables = (recording.table(name).to_pylist(maps_as_pydicts="strict") for name in TABLES)
    return coalesced_steps(*tables, rules.deviations)


def told_by(recording: Recording) -> list[Row]:
    """The steps of coalescing at which a watermark, an idle message or an end came."""
    tables = [recording.table(name).to_pylist(maps_as_pydicts="strict") for name in TABLES]
    rows = all_steps(*tables)
    return [row for row in rows if row["level"] != "partition" and row["stimulus"] != "event"]


@pytest.mark.parametrize(
    "rules",
    [SOUND, SHIPPED, PARTLY, KEYED, BEFORE_22440, UNFLUSHED],
    ids=["sound", "implementation", "two deviations", "keyed", "before 22440", "unflushed"],
)
def test_every_step_is_that_of_the_recording(rules: flow.Rules) -> None:
    """The coalescers of the run were fed by its queues, those here by the items of the tables."""
    count = 0
    for recording in recorded(rules):
        steps = steps_of(recording, rules)
        found = {known_by(row, row["place"] if row["level"] == "global" else row["taken"]): row for row in steps}
        told = told_by(recording)
        count += len(told)
        assert len(told) == sum(row["stimulus"] != "event" for row in steps)
        for row in told:
            step = found[known_by(row, row["step"] if row["level"] == "global" else row["taken"])]
            both = row.keys() & step.keys()
            assert {name: step[name] for name in both} == {name: row[name] for name in both}
    assert count > 1_000


@pytest.mark.parametrize("number", FLOWS)
def test_steps_of_levels_with_one_input_are_those_of_a_run_that_records_them(number: int) -> None:
    """A deviation that only a join shows changes nothing here but that all levels are recorded."""
    both = [generated(number, rules=rules).record() for rules in (SOUND, flow.Rules(unmatched_lost_at_end=True))]
    lean, full = ([run.table(name).to_pylist(maps_as_pydicts="strict") for name in TABLES] for run in both)
    assert len(lean[2]) <= len(full[2])
    assert sorted(map(str, all_steps(*full))) == sorted(map(str, full[2]))

    def known(rows: Any) -> list[str]:
        """An instance may take rows and what is behind them at once: then edge and all edges are in another order."""
        told = (row | {"step": None, "taken": None if row["stimulus"] == "event" else row["taken"]} for row in rows)
        return sorted(str(sorted(row.items())) for row in told)

    assert known(all_steps(*lean)) == known(full[2])
    assert known(all_steps(lean[0], lean[1], all_steps(*lean))) == known(full[2])


def test_spark_follows_many_dataflows_as_the_model_does_each(spark: SparkSession) -> None:
    recordings = recorded(BEFORE_22440)
    asked = coalesced(*frames(spark, recordings, TABLES), deviations=BEFORE_22440.deviations)
    rows = [row.asDict(recursive=True) for row in asked.collect()]
    expected = [{"stream": run.name} | step for run in recordings for step in steps_of(run, BEFORE_22440)]
    assert sorted(rows, key=str) == sorted(({name: row[name] for name in asked.columns} for row in expected), key=str)


def test_a_recording_is_followed_with_its_own_deviations(spark: SparkSession) -> None:
    def emitted(rows: list[Row]) -> dict[tuple[Any, ...], Any]:
        return {known_by(row, row["step" if "step" in row else "place"]): row["emitted"] for row in rows}

    def at_instances(rows: list[Row]) -> list[Row]:
        return [row | {"stream": "any"} for row in rows if row["level"] == "global" and row["stimulus"] != "event"]

    runs = ((run, emitted(at_instances(told_by(run)))) for run in recorded(SHIPPED))
    recording, told = next((r, t) for r, t in runs if emitted(at_instances(steps_of(r, SOUND))) != t)
    rows = [row.asDict(recursive=True) for row in recording.coalesced(spark).where("level = 'global'").collect()]
    assert emitted(at_instances(rows)) == told


def test_an_item_that_is_refused_changes_nothing() -> None:
    """A watermark that goes back does not end the idleness of its input, and an end is not undone by what follows."""
    queues = [{"queue": n, "target": "t", "target_instance": 0, "edge": 0, "input": n} for n in (0, 1)]
    came = [(0, "watermark", 5), (1, "watermark", 7), (0, "idle", None), (0, "watermark", 4), (1, "done", None)]
    came += [(1, "watermark", 9), (0, "watermark", 8)]
    items = [
        {"execution": 0, "queue": queue, "taken": n, "taken_ms": n, "kind": kind, "key": key, "value": value}
        for n, (queue, kind, value) in enumerate(came)
        for key in [0 if kind == "watermark" else None]
    ]
    steps = coalesced_steps(items, queues, [])
    for refused in (3, 5):
        before, after = steps[refused - 1], steps[refused]
        states = [[step[name] for name in ("active", "idle", "done", "coalesced")] for step in (before, after)]
        assert states[0] == states[1]
        assert (after["emitted"], after["emitted_idle"]) == ({}, False)
    assert (steps[3]["active"], steps[3]["idle"]) == ([1], [0])
    assert steps[6]["emitted"] == {0: 8}


def test_what_is_no_dataflow_has_no_merging(spark: SparkSession) -> None:
    assert hasattr(DataflowRecording, "coalesced")
    with pytest.raises(UnknownNameError, match="'empty' is a recording of streams, which has no coalesced"):
        StreamRecording.from_tables({}, name="empty").coalesced(spark)


def test_a_missing_column_is_refused(spark: SparkSession) -> None:
    items, queues, steps = frames(spark, [flow_of_one_row()], TABLES)
    with pytest.raises(ModelError, match="items has no column 'taken'"):
        coalesced(items.drop("taken"), queues, steps)


def flow_of_one_row() -> Recording:
    source = flow.Source("a", columns=["t"], rows=[[1]], times="t")
    return flow.Dataflow("one", vertices=[source, flow.Sink("out")], edges=["a -> out"], duration_ms=100).record()
