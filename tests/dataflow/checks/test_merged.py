"""The merged watermarks on Spark are those of the pure rule and of the recording, step by step, over many dataflows."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.dataflow.checks.dataflows import Row, frames, generated
from wmlab import dataflow as flow
from wmlab.core.errors import ModelError, RecordingError
from wmlab.core.recording import Recording
from wmlab.dataflow.checks.watermarks import coalesced
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import DONE, MIN, Event, Idle, Watermark
from wmlab.dataflow.model.processor import DESIGN, SHIPPED, Deviations
from wmlab.dataflow.recording import DataflowRecording
from wmlab.streams.recording import StreamRecording

TABLES = ("items", "queues", "coalescing")
FLOWS = range(20)
ITEMS = {"done": DONE, "event": Event(())}
KEYED = Deviations(keyed_idle=True)
PARTLY = Deviations(watermark_wakes_one_key=True, done_hides_idle=True)
BEFORE_22440 = Deviations(event_leaves_idle=True, end_counts_as_active=True)
UNFLUSHED = Deviations(highest_held_back=True)


@cache
def recorded(rules: Deviations) -> tuple[Recording, ...]:
    return tuple(generated(number, deviations=rules).record() for number in FLOWS)


@cache
def inputs_of(recording: Recording) -> dict[tuple[Any, ...], int]:
    found: defaultdict[tuple[Any, ...], set[int]] = defaultdict(set)
    for queue in recording.table("queues").to_pylist():
        place = (queue["target"], queue["target_instance"])
        found[*place, "edge", queue["edge"]].add(queue["input"])
        found[*place, "global", None].add(queue["edge"])
    return {lane: len(inputs) for lane, inputs in found.items()}


def folded(steps: list[Row], inputs: int, rules: Deviations) -> list[Row]:
    """What the pure rule makes of the steps of one lane."""
    coalescer, found = KeyedCoalescer(inputs, rules), []
    for step in sorted(steps, key=lambda row: int(row["place"])):
        idle = Idle(step["key"]) if step["stimulus"] == "idle" else None
        item = idle or ITEMS.get(step["stimulus"]) or Watermark(step["key"], step["value"])
        out = coalescer.step(step["input"], item)
        merged = {key: of_key.last for key, of_key in coalescer.keys.items() if of_key.last != MIN}
        marks = {mark.key: mark.value for mark in out if isinstance(mark, Watermark)}
        found.append(
            step
            | {"active": sorted({*range(inputs)} - coalescer.idle - coalescer.done)}
            | {"idle": sorted(coalescer.idle - coalescer.done), "done": sorted(coalescer.done)}
            | {"coalesced": merged, "emitted": marks, "emitted_idle": any(isinstance(one, Idle) for one in out)}
        )
    return found


def lanes(rows: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    found: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in ("stream", "execution", "vertex", "instance", "level", "edge"))].append(row)
    return found


def known_by(row: Row, place: int) -> tuple[Any, ...]:
    return *(row[name] for name in ("stream", "execution", "vertex", "instance", "level", "edge", "stimulus")), place


@pytest.mark.parametrize(
    "rules",
    [DESIGN, SHIPPED, PARTLY, KEYED, BEFORE_22440, UNFLUSHED],
    ids=["design", "hz", "two deviations", "keyed", "before 22440", "unflushed"],
)
def test_every_step_is_that_of_the_pure_rule_and_of_the_recording(spark: SparkSession, rules: Deviations) -> None:
    recordings = {recording.name: recording for recording in recorded(rules)}
    asked = coalesced(*frames(spark, recordings.values(), TABLES), deviations=rules)
    rows = [row.asDict(recursive=True) for row in asked.collect()]
    for (stream, _, *lane), steps in lanes(rows).items():
        expected = folded(steps, inputs_of(recordings[stream])[tuple(lane)], rules)
        assert sorted(steps, key=lambda row: int(row["place"])) == expected
    found = {known_by(row, row["place"] if row["level"] == "global" else row["taken"]): row for row in rows}
    told = [
        row
        for recording in recordings.values()
        for row in recording.table("coalescing").to_pylist(maps_as_pydicts="strict")
        if row["level"] != "partition" and row["stimulus"] != "event"
    ]
    assert len(told) > 1_000
    assert len(told) == sum(row["stimulus"] != "event" for row in rows)
    for row in told:
        step = found[known_by(row, row["step"] if row["level"] == "global" else row["taken"])]
        assert {name: step[name] for name in row.keys() & step.keys()} == {n: row[n] for n in row.keys() & step.keys()}


def steps_of(recording: Recording) -> list[Row]:
    rows = recording.table("coalescing").to_pylist(maps_as_pydicts="strict")
    return [row | {"place": row["step"]} for row in rows if row["level"] == "global"]


def deviates(recording: Recording) -> bool:
    """Whether some merging of edges did what is not designed."""
    return any(
        [step["emitted"] for step in folded(steps, inputs_of(recording)[tuple(lane)], DESIGN)]
        != [step["emitted"] for step in sorted(steps, key=lambda row: int(row["place"]))]
        for (_, _, *lane), steps in lanes(steps_of(recording)).items()
    )


def test_a_recording_is_followed_with_its_own_deviations(spark: SparkSession) -> None:
    recording = next(recording for recording in recorded(SHIPPED) if deviates(recording))
    told = {known_by(row, row["step"]): row["emitted"] for row in steps_of(recording)}
    rows = recording.coalesced(spark).where("level = 'global'").collect()
    assert {known_by(row, row.place): row.emitted for row in rows} == told


def test_what_is_no_dataflow_has_no_merging(spark: SparkSession) -> None:
    assert hasattr(DataflowRecording, "coalesced")
    with pytest.raises(RecordingError, match="'empty' is a recording of streams, which has no coalesced"):
        StreamRecording.from_tables({}, name="empty").coalesced(spark)


def test_a_missing_column_is_refused(spark: SparkSession) -> None:
    items, queues, steps = frames(spark, [flow_of_one_row()], TABLES)
    with pytest.raises(ModelError, match="items has no column 'taken'"):
        coalesced(items.drop("taken"), queues, steps)


def flow_of_one_row() -> Recording:
    source = flow.Source("a", columns=["t"], rows=[[1]], times="t")
    return flow.Dataflow("one", vertices=[source, flow.Sink("out")], edges=["a -> out"], duration_ms=100).record()
