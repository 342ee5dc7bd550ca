"""A live query over a feed gives, however the feed is cut into batches, the rows of the answer of the whole log."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from wmlab.core.errors import ModelError
from wmlab.streams.api import Scenario
from wmlab.streams.bounds.groups import group_time_bounds
from wmlab.streams.bounds.live import FEED, StreamState, feed, live
from wmlab.streams.feed import write_feed
from wmlab.streams.model.replay import Configuration
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

CONFIG = Configuration(timeout_ms=3_000, period_ms=1_000)
BOUNDS = ("version", "at_ms", "change", "lower", "upper", "lower_seq", "upper_seq")


@pytest.fixture(scope="module")
def recording() -> StreamRecording:
    """A split, a writer that times out, two groups, a reset; the controllers have the rules of `CONFIG`."""
    return Scenario(
        "a split and a dead writer",
        stream=Stream(segments=2, timestamp_aggregation_timeout_ms=CONFIG.timeout_ms),
        writers=[
            EventWriter("w1", rate_per_s=20, note_every_ms=500),
            EventWriter("w2", rate_per_s=10, note_every_ms=700),
        ],
        readers=[ReaderGroup("first", readers=2), ReaderGroup("second", readers=1)],
        controllers=Controllers(period_ms=CONFIG.period_ms),
        script=[
            script.Checkpoint(at_ms=5_500, group="first", name="early"),
            script.Scale(at_ms=8_000, seal=["0@0"], into=2),
            script.CrashWriter(at_ms=12_000, writer="w2"),
            script.ResetToCheckpoint(at_ms=15_500, group="first", checkpoint="early"),
        ],
        duration_ms=20_000,
        seed=3,
    ).record()


@pytest.fixture(scope="module")
def rows(spark: SparkSession, recording: StreamRecording) -> list[Row]:
    """The feed of the recording, in the order of time."""
    return sorted(fed(spark, recording).collect(), key=lambda row: row.at_ms)


def fed(spark: SparkSession, recording: StreamRecording) -> DataFrame:
    return feed(*tables(spark, recording, "writer_marks", "segments", "writer_shutdowns", "positions"))


def tables(spark: SparkSession, recording: StreamRecording, *names: str) -> list[DataFrame]:
    return [recording.spark(spark, name) for name in names]


def answer(rows: list[Row], ends_ms: list[int]) -> list[dict[str, Any]]:
    """The answer of batches that end before each of `ends_ms` and of what is left; the state is stored between."""
    state, found, start, log = StreamState(), [], 0, []
    for end_ms in [*sorted(ends_ms), 2**63 - 1]:
        batch = [row for row in rows[start:] if row.at_ms < end_ms]
        start += len(batch)
        if batch:
            state, more = pickle.loads(pickle.dumps(state)).step(batch, CONFIG, log)
            found += more
    return found


@settings(max_examples=20)
@given(ends_ms=st.lists(st.integers(1, 20_000), max_size=8), random=st.randoms())
def test_neither_the_cut_into_batches_nor_the_order_of_the_rows_in_one_changes_anything(
    rows: list[Row], ends_ms: list[int], random: Random
) -> None:
    shuffled = sorted(random.sample(rows, len(rows)), key=lambda row: row.at_ms // 1_000)
    ends_ms = [end_ms // 1_000 * 1_000 for end_ms in ends_ms]
    assert _sorted(answer(shuffled, ends_ms)) == _sorted(answer(rows, []))


def test_a_row_behind_the_batch_before_is_refused(rows: list[Row]) -> None:
    state, _ = StreamState().step([row for row in rows if row.at_ms < 5_000], CONFIG, log := [])
    with pytest.raises(ModelError, match="comes after the batch up to"):
        state.step(rows[:1], CONFIG, log)


def test_a_feed_begins_with_segments(rows: list[Row]) -> None:
    with pytest.raises(ModelError, match="comes before any segment"):
        StreamState().step([row for row in rows if row.kind == "note"], CONFIG, [])


def test_a_query_that_is_started_again_goes_on_to_the_answers_of_the_whole_log(
    spark: SparkSession, recording: StreamRecording, tmp_path: Path
) -> None:
    first, *rest = write_feed(fed(spark, recording), tmp_path / "later", every_ms=7_000)
    assert len(rest) > 1
    (tmp_path / "feed").mkdir()
    for part in ([first], rest):
        for file in part:
            file.rename(tmp_path / "feed" / file.name)
        _run(spark, tmp_path)
    found = spark.read.parquet(str(tmp_path / "answer")).collect()
    marks = sorted((row for row in found if row.group is None), key=lambda row: row.lower_seq)
    names = ("emitted_ms", "lower", "upper", "seq", "cut", "writers")
    assert [(row.at_ms, row.lower, row.upper, row.lower_seq, row.cut, row.writers) for row in marks] == [
        tuple(row[name] for name in names) for row in recording.table("watermarks").to_pylist(maps_as_pydicts="strict")
    ]
    wanted = group_time_bounds(*tables(spark, recording, "positions", "watermarks", "segments"), visible="then")
    rows = wanted.collect()
    assert sorted((row.group, *(row[name] for name in BOUNDS)) for row in found if row.group) == sorted(
        (row.group, *(row[name] for name in BOUNDS)) for row in rows
    )
    assert sum(row.change == "watermark" for row in rows) > 20


def test_a_query_fails_at_a_row_behind(spark: SparkSession, recording: StreamRecording, tmp_path: Path) -> None:
    first, *_, last = write_feed(fed(spark, recording), tmp_path / "feed", every_ms=10_000)
    last.rename(tmp_path / "feed" / "000000.parquet")
    assert first.exists()
    with pytest.raises(StreamingQueryException, match="comes before any segment"):
        _run(spark, tmp_path)


def _run(spark: SparkSession, folder: Path) -> None:
    read = spark.readStream.schema(FEED).option("maxFilesPerTrigger", 1).parquet(str(folder / "feed"))
    written = live(read, CONFIG).writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    written.trigger(availableNow=True).start(str(folder / "answer")).awaitTermination()


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def test_a_feed_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "000007.parquet").touch()
    with pytest.raises(ModelError, match="is not empty"):
        write_feed(None, tmp_path, every_ms=5_000)


@pytest.mark.parametrize("every_ms", [0, -5_000, 2.5, True])
def test_a_feed_is_cut_at_whole_milliseconds(every_ms: object, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"every_ms is {every_ms!r}"):
        write_feed(None, tmp_path / "feed", every_ms=every_ms)
    assert not (tmp_path / "feed").exists()
