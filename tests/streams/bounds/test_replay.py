"""Spark reduces the notes and runs the cycles: the watermarks are those of the rule, and those that were recorded."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import wmlab as wm
from tests.streams.bounds import notes
from wmlab.core.errors import ModelError
from wmlab.core.spark.schemas import dataframe
from wmlab.spark import Configuration, replay
from wmlab.streams.bounds import replay as replaying
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script

CONFIGS = {
    "1 s": Configuration(timeout_ms=1_000, period_ms=3_000),
    "4 s": Configuration(timeout_ms=4_000, period_ms=3_000),
    "60 s": Configuration(period_ms=3_000),
    "at once": Configuration(timeout_ms=0, period_ms=4_000, start_delay_ms=0),
    "always": Configuration(period_ms=2_500, leaves_bucket=False, null_without_writers=True, first_barrier=0),
    "as designed": Configuration(period_ms=3_000, timeout_ms=2_000, note_rule="design", timeout_from="last_note"),
    "as shipped": Configuration(period_ms=3_000, algorithm="pravega", bug_6510=True),
    "document": Configuration(period_ms=3_000, algorithm="document"),
    "without": Configuration(period_ms=3_000, without=("w0", "w1", "w2")),
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


@pytest.mark.parametrize("at_once", [500_000, 50])
def test_every_stream_and_configuration_has_the_watermarks_of_the_rule(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(replaying, "_AT_ONCE", at_once)
    streams = [f"s{seed}" for seed in range(40)]
    made = {stream: notes.notes_of(stream, seed, writers=1 + seed % 5) for seed, stream in enumerate(streams)}
    segments = {stream: notes.segments_of(stream) for stream in streams}

    def frame(name: str, rows: list[Any]) -> DataFrame:
        return dataframe(spark, notes.table(name, rows))

    frames = (frame("writer_marks", [row for marks, _ in made.values() for row in marks]),)
    frames += (frame("segments", [row for rows in segments.values() for row in rows]),)
    shutdowns = frame("writer_shutdowns", [row for _, gone in made.values() for row in gone])
    found = rows_of(replay(*frames, CONFIGS, shutdowns=shutdowns))
    expected = {
        (stream, label): notes.replayed(*made[stream], segments[stream], config)
        for stream in streams
        for label, config in CONFIGS.items()
    }
    assert found == {key: rows for key, rows in expected.items() if rows}
    assert len(found) > 300


def test_most_notes_are_dropped_where_a_writer_notes_often() -> None:
    marks = [
        {"stream": "s", "writer": w, "time": at_ms, "position": {0: at_ms}, "received_ms": at_ms}
        for at_ms in range(0, 100_000, 100)
        for w in ("a", "b")
    ]
    rows = [row | {"process": "", "noted_ms": 0, "controller": "", "txn": None, "outcome": "success"} for row in marks]
    table, lot = notes.table("writer_marks", rows), (("", Configuration()),)
    begins = replaying.pa.array([10_000] * len(rows), replaying.pa.int64())
    assert replaying.visible(table, begins, lot).sum() == 2 * 11
    assert replaying.visible(table, replaying.pa.nulls(len(rows), replaying.pa.int64()), lot).all()


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
    with pytest.raises(ModelError, match="no field 'timeout'"):
        recording.replay(spark, {"x": {"timeout": 5}})
    with pytest.raises(ModelError, match="no configuration"):
        replay(recording.spark(spark, "writer_marks"), recording.spark(spark, "segments"), {})
    with pytest.raises(ModelError, match="period of 0 ms"):
        Configuration(period_ms=0)
