"""The whole way: a scenario is recorded, Spark computes its bounds, a chart shows them."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

import wmlab as wm
from tools import readme_picture
from wmlab.core.errors import ModelError
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, Segment
from wmlab.streams.model.window import Tracker

ROOT = Path(__file__).resolve().parents[2]
HOUR = 3_600_000


def flights() -> wm.Scenario:
    return wm.Scenario(
        "a day of flights",
        stream=wm.Stream("flights", segments=2, timestamp_aggregation_timeout_ms=12 * HOUR),
        writers=[
            wm.EventWriter(name, trace="flights", note_every_ms=HOUR // 6, batch_ms=60_000) for name in ("AA", "UA")
        ],
        readers=wm.ReaderGroup(readers=2, publish_every_ms=HOUR // 2),
        controllers=wm.Controllers(period_ms=HOUR // 6),
        script=[
            wm.script.Scale(at_ms=9 * HOUR, seal=["0@0"]),
            wm.script.SilenceWriter(at_ms=14 * HOUR, writer="UA", for_ms=4 * HOUR),
        ],
        start_ms=1_373_846_400_000,
        duration_ms=24 * HOUR,
    )


def first_bounds() -> wm.Scenario:
    return wm.Scenario.load(ROOT / "data/scenarios/first_bounds.yaml")


@pytest.fixture(scope="module")
def recording() -> wm.trace.Recording:
    return first_bounds().record()


@pytest.fixture(scope="module")
def then(spark: SparkSession, recording: wm.trace.Recording) -> pd.DataFrame:
    """The time bounds of the recording as the readers can have known them."""
    return rows_of(recording.time_bounds(spark))


@pytest.fixture(scope="module")
def complete(spark: SparkSession, recording: wm.trace.Recording) -> pd.DataFrame:
    """The time bounds of the recording by its complete log."""
    return rows_of(recording.time_bounds(spark, visible="all"))


def rows_of(bounds: DataFrame) -> pd.DataFrame:
    """The rows in the order of versions, None where something is unknown."""
    rows = bounds.orderBy("version", "at_ms").toPandas().astype(object)
    return rows.where(rows.notna(), None)


def reader_model(recording: wm.trace.Recording) -> list[tuple[int | None, int | None]]:
    """The window of one tracker that is led through all versions of the group's position, and knows all marks."""
    segments = {
        row["segment_id"]: Segment(row["number"], row["epoch"], KeyRange.parse(row["keys"]))
        for row in recording.table("segments").to_pylist()
    }
    marks = [
        (row["revision"], Watermark(row["lower"], row["upper"], Position(dict(row["cut"]))))
        for row in recording.table("watermarks").to_pylist()
    ]
    tracker, reading, windows = Tracker(), {}, {}
    for row in recording.table("positions").to_pylist():
        if row["finished"]:
            del reading[row["segment_id"]]
        else:
            reading[row["segment_id"]] = row["offset"]
        windows[row["version"]] = dict(reading)
    found = []
    for position in windows.values():
        unread = [mark for mark in marks if tracker.cursor is None or mark[0] > tracker.cursor]
        tracker = tracker.advance(Position(position), unread, segments)
        found.append((tracker.window.lower, tracker.window.upper))
    return found


@pytest.mark.parametrize("name", ["a split and a dead writer", "a day of flights"])
def test_spark_and_the_reader_model_agree_on_every_version(
    spark: SparkSession, recording: wm.trace.Recording, complete: pd.DataFrame, name: str
) -> None:
    scenario, rows = first_bounds(), complete
    if name != scenario.name:
        scenario = flights()
        recording = scenario.record()
        rows = rows_of(recording.time_bounds(spark, visible="all"))
    *bounds, end = rows.itertuples()
    assert (end.change, end.version, end.at_ms) == ("end", bounds[-1].version, scenario.start_ms + scenario.duration_ms)
    assert (end.lower, end.upper) == (bounds[-1].lower, bounds[-1].upper)
    assert [(row.lower, row.upper) for row in bounds] == reader_model(recording)
    assert [row.version for row in bounds] == list(range(len(bounds)))
    assert all(
        row.lower is None or row.perfect_watermark is None or row.lower <= row.perfect_watermark for row in bounds
    )


def test_a_recording_on_disk_gives_the_same_bounds(
    spark: SparkSession, recording: wm.trace.Recording, then: pd.DataFrame, tmp_path: Path
) -> None:
    kept = first_bounds().record(tmp_path / "kept")
    assert wm.trace.Recording.read(tmp_path / "kept") == recording
    on_disk = rows_of(kept.time_bounds(spark))
    assert on_disk.drop(columns="incidents").equals(then.drop(columns="incidents"))


def test_then_only_what_was_emitted_counts(recording: wm.trace.Recording, then: pd.DataFrame) -> None:
    emitted = {row["seq"]: row["emitted_ms"] for row in recording.table("watermarks").to_pylist()}
    rows = list(then.itertuples())
    assert {row.visible for row in rows} == {"then"}
    assert any(row.lower is not None for row in rows)
    for row in rows:
        for seq in (row.lower_seq, row.upper_seq):
            assert seq is None or emitted[seq] <= row.at_ms


def test_without_readers_the_events_are_the_positions(spark: SparkSession) -> None:
    scenario = dataclasses.replace(first_bounds(), readers=None, script=(), duration_ms=6_000)
    recording = scenario.record()
    bounds = recording.time_bounds(spark)
    assert bounds.count() == recording.counts["events"]
    assert {"event_time", "writer", "lower", "upper", "perfect_watermark"} <= set(bounds.columns)
    with pytest.raises(ModelError, match="What was known then is known of readers"):
        recording.time_bounds(spark, visible="then")
    with pytest.raises(ModelError, match="of is 'reader'"):
        recording.time_bounds(spark, of="reader")
    with pytest.raises(ModelError, match="visible is 'now'"):
        recording.time_bounds(spark, visible="now")


def test_incidents_are_added_once(spark: SparkSession, recording: wm.trace.Recording) -> None:
    versions = recording.time_bounds(spark).orderBy("version", "at_ms").collect()
    listed = [(version.at_ms, incident) for version in versions for incident in version.incidents or ()]
    happened = [(row["at_ms"], row["kind"], row["detail"]) for row in recording.table("incidents").to_pylist()]
    assert [(incident.at_ms, incident.kind, incident.what) for _, incident in listed] == sorted(happened) != []
    assert all(at_ms >= incident.at_ms or at_ms == versions[-1].at_ms for at_ms, incident in listed)


def test_the_bounds_are_those_that_the_readers_saw(
    recording: wm.trace.Recording, then: pd.DataFrame, complete: pd.DataFrame
) -> None:
    """A reader sees a window after it has published, so each window is the bounds of some version up to then."""
    known, hindsight = ({(row.lower, row.upper) for row in rows.itertuples()} for rows in (then, complete))
    seen = {(row["lower"], row["upper"]) for row in recording.table("windows").to_pylist()}
    assert seen <= known
    assert not seen <= hindsight


def test_title_and_sentence_of_a_chart_state_hindsight(spark: SparkSession, recording: wm.trace.Recording) -> None:
    told, hindsight = (wm.chart.time_bounds(recording.time_bounds(spark, visible=which)) for which in ("then", "all"))
    assert hindsight.facts["bound"] == "The lower bound at the position of readers in hindsight"
    assert hindsight.facts["bound"] in hindsight.sentence
    assert hindsight.scene.title.endswith("in hindsight?")
    assert "hindsight" not in told.sentence
    assert "indsight" not in told.scene.title


def test_what_became_known_later_is_the_upper_bound_of_the_complete_log(
    then: pd.DataFrame, complete: pd.DataFrame
) -> None:
    upper = dict(zip(complete["version"], complete["upper"], strict=True))
    assert list(complete["upper_later"]) == list(complete["upper"])
    assert list(then["upper_later"]) == [upper[version] for version in then["version"]]
    assert any(row.upper is None and row.upper_later is not None for row in then.itertuples())


def test_the_picture_of_the_readme_is_made_by_the_code_beside_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert readme_picture.chart().svg == readme_picture.PICTURE.read_text(encoding="utf-8")


def test_the_readme_says_what_the_recording_says(recording: wm.trace.Recording) -> None:
    told = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert str(recording.explain(at_ms=36_000)).replace("\n", " ") in told
