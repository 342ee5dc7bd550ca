"""Spark brings the notes of each stream to the rule: the watermarks are its own, and those that were recorded."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession, functions as F

import wmlab as wm
from tests.streams.bounds import notes
from wmlab.core.errors import ModelError
from wmlab.core.spark.schemas import dataframe
from wmlab.core.values import Problems
from wmlab.spark import Configuration, replay
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script

CONFIGS = {
    "1 s": Configuration(timeout_ms=1_000, period_ms=3_000),
    "4 s": Configuration(timeout_ms=4_000, period_ms=3_000),
    "60 s": Configuration(period_ms=3_000),
    "at once": Configuration(timeout_ms=0, period_ms=4_000, start_delay_ms=0),
    "always": Configuration(period_ms=2_500, leaves_bucket=False, null_without_writers=True, first_barrier=0),
    "as designed": Configuration(period_ms=3_000, timeout_ms=2_000, note_rule="design", timeout_from="last_note"),
    "forgets all": Configuration(period_ms=3_000, timeout_ms=9_000, timeout_from="last_note", forgets="all"),
    "forgets, behind by cycle": Configuration(period_ms=3_000, timeout_ms=9_000, forgets="all"),
    "as shipped": Configuration(period_ms=3_000, algorithm="pravega", bug_6510=True),
    "document": Configuration(period_ms=3_000, algorithm="document"),
    "without": Configuration(period_ms=3_000, without=("w0", "w1", "w2")),
    "expects three": Configuration(period_ms=3_000, timeout_ms=9_000, expected_writers=3),
    "expects many": Configuration(period_ms=1_000, timeout_ms=60_000, expected_writers=5),
    "two minutes": Configuration(period_ms=3_000, timeout_ms=120_000),
    "five minutes": Configuration(period_ms=3_000, timeout_ms=300_000),
    "ten minutes": Configuration(period_ms=3_000, timeout_ms=600_000),
}


def rows_of(frame: DataFrame) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """The watermarks by stream and configuration; `seq` numbers them from 0."""
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in sorted(frame.collect(), key=lambda row: row.seq):
        entries = found.setdefault((row.stream, row.config), [])
        assert row.seq == len(entries)
        entries.append((row.emitted_ms, row.lower, row.upper, row.cut, row.writers))
    return found


def test_every_stream_and_configuration_has_the_watermarks_of_the_rule(spark: SparkSession) -> None:
    made = {f"s{seed}": notes.notes_of(f"s{seed}", seed, writers=1 + seed % 5) for seed in range(40)}
    tables = {
        "writer_marks": [row for marks, _ in made.values() for row in marks],
        "segments": [row for stream in made for row in notes.segments_of(stream)],
        "writer_shutdowns": [row for _, gone in made.values() for row in gone],
    }
    marks, segments, shutdowns = (dataframe(spark, notes.table(name, rows)) for name, rows in tables.items())
    found = rows_of(replay(marks, segments, CONFIGS, shutdowns=shutdowns))
    history = notes.history_of(notes.segments_of(""))
    expected = {
        (stream, label): notes.replayed(*heard, history, config)
        for stream, heard in made.items()
        for label, config in CONFIGS.items()
    }
    assert found == {key: rows for key, rows in expected.items() if rows}
    assert len(found) > 300


@pytest.fixture(scope="module")
def recording() -> StreamRecording:
    return wm.Scenario(
        "replayed",
        stream=wm.Stream(segments=2, timestamp_aggregation_timeout_ms=4_000),
        writers=[wm.EventWriter("w1", rate_per_s=20), wm.EventWriter("w2", rate_per_s=20, delay_mean_ms=300)],
        controllers=wm.Controllers(period_ms=1_000),
        script=[
            script.Scale(at_ms=6_000, seal=["0@0"]),
            script.SilenceWriter(at_ms=5_000, writer="w2", for_ms=7_000),
            script.ShutDownWriter(at_ms=17_000, writer="w1"),
        ],
        duration_ms=20_000,
    ).record(progress=False)


def test_a_recording_replays_itself_and_what_another_timeout_would_have_given(
    spark: SparkSession, recording: StreamRecording
) -> None:
    configs = {"as it was": {}, "patient": {"timeout_ms": 60_000}, "alone": {"without": ("w2",)}}
    found = rows_of(recording.replay(spark, configs))
    recorded = recording.table("watermarks").to_pylist(maps_as_pydicts="strict")
    names = ("emitted_ms", "lower", "upper", "cut", "writers")
    assert found["stream", "as it was"] == [tuple(row[name] for name in names) for row in recorded]
    assert {"w2"} not in [set(writers) for *_, writers in found["stream", "alone"]]
    waited = [emitted for emitted, *_ in found["stream", "patient"]]
    assert not any(7_000 < emitted < 12_000 for emitted in waited)
    assert any(9_000 < emitted < 12_000 for emitted, *_ in found["stream", "as it was"])


def test_a_configuration_that_is_none_is_refused(spark: SparkSession, recording: StreamRecording) -> None:
    with pytest.raises(Problems, match=r"x\.timeout: no such field"):
        recording.replay(spark, {"x": {"timeout": 5}})
    marks, segments = (recording.spark(spark, name) for name in ("writer_marks", "segments"))
    with pytest.raises(ModelError, match="no configuration"):
        replay(marks, segments, {})
    with pytest.raises(Problems, match=r"x\.timeout_ms: give whole milliseconds .* \(got '10 sec'\)"):
        replay(marks, segments, {"x": {"timeout_ms": "10 sec"}})
    with pytest.raises(Problems, match=r"x\.note_rule: .* \(got 'lax'\)"):
        replay(marks, segments, {"x": Configuration(note_rule="lax")})  # type: ignore[arg-type]
    with pytest.raises(Problems, match=r"x\.period_ms: input should be greater than 0"):
        replay(marks, segments, {"x": Configuration(period_ms=0)})


def test_streams_may_be_numbers_and_a_mark_that_lacks_something_is_refused(
    spark: SparkSession, recording: StreamRecording
) -> None:
    marks, segments = (recording.spark(spark, name) for name in ("writer_marks", "segments"))
    numbered = [frame.withColumn("stream", F.lit(7)) for frame in (marks, segments)]
    assert [found[1:] for found in replay(*numbered, {"as it was": CONFIGS["4 s"]}).collect()] == [
        found[1:] for found in replay(marks, segments, {"as it was": CONFIGS["4 s"]}).collect()
    ]
    for name in ("writer", "time", "position", "received_ms"):
        lacking = marks.withColumn(name, F.when(F.col("time") != F.lit(marks.first()["time"]), F.col(name)))
        with pytest.raises(SparkRuntimeException, match=r"lacks one of .*\. To repair it: leave out"):
            replay(lacking, segments, {"x": {}}).collect()
