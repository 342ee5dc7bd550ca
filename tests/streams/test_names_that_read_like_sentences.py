"""A name may read like a sentence, a state or a time: no answer depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from wmlab.core.recording import Recording
from wmlab.streams import charts
from wmlab.streams.answers.moment import read_states
from wmlab.streams.api import Scenario
from wmlab.streams.charts.moment import MomentView, describe_moment
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

PLAIN = "zq7"
NAMES = [
    "nobody is w2",
    "x is not running",
    "w1 crashes",
    "w falls silent",
    "z 900 000 ms",
    "cut failed: unknown segment",
    "conflict: another leader appended first",
    "marks segment",
]
"""All after "a" in the alphabet, so that answers name the writers in one order."""


@pytest.fixture(scope="module")
def plain() -> StreamRecording:
    """A writer crashes, is asked to be idle meanwhile, comes back, and falls silent."""
    scenario = Scenario(
        "names",
        stream=Stream("orders", segments=1, timestamp_aggregation_timeout_ms=4_000),
        writers=[EventWriter("a", rate_per_s=20), EventWriter(PLAIN, rate_per_s=20)],
        readers=ReaderGroup(readers=1),
        controllers=Controllers(period_ms=1_000),
        script=[
            script.CrashWriter(at_ms=5_000, writer=PLAIN, restart_after_ms=7_000),
            script.MarkIdle(at_ms=6_000, writer=PLAIN, for_ms=500),
            script.LoseMarksSegment(at_ms=14_000, for_ms=1_500),
            script.SilenceWriter(at_ms=17_000, writer=PLAIN, for_ms=2_000),
        ],
        duration_ms=22_000,
        seed=3,
    )
    return scenario.record(progress=False)


def renamed(value: Any, name: str) -> Any:
    """A value in which the plain name is another one, in texts too; other words keep their places."""
    if isinstance(value, str):
        return value.replace(PLAIN, name)
    if isinstance(value, dict):
        return {renamed(key, name): renamed(entry, name) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [renamed(entry, name) for entry in value]
    return value


def with_name(recording: Recording, name: str) -> StreamRecording:
    """The recording as it would be if the writer had that name; chance is drawn by name, so it is not run again."""
    tables = {
        table: renamed(recording.table(table).to_pylist(maps_as_pydicts="strict"), name) for table in recording.schemas
    }
    return StreamRecording.from_tables(
        tables, name=recording.name, scenario=renamed(recording.scenario, name), seed=recording.seed
    )


def answers(recording: StreamRecording) -> Iterator[Any]:
    for at_ms in range(500, 22_000, 700):
        yield recording.explain(at_ms=at_ms).sentence
    yield recording.explain().to_dict()
    yield recording.timeline().to_dict()
    for chart in (charts.lag, charts.writer_marks, charts.watermark_cycles):
        yield chart(recording).sentence
    scrubber = recording.scrub()
    yield sorted((event.at_ms, event.who, event.what) for event in scrubber.events)
    view = MomentView.of(read_states(recording, "orders"))
    yield [sorted(describe_moment(view, at_ms)) for at_ms in range(500, 22_000, 700)]


@pytest.fixture(scope="module")
def plain_answers(plain: StreamRecording) -> list[Any]:
    return list(answers(plain))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_changes_no_answer(plain: StreamRecording, plain_answers: list[Any], name: str) -> None:
    other = with_name(plain, name)
    # Names next to lanes are cut where they have no room.
    short = [renamed(answer, name) for answer in plain_answers]
    cut = name if len(name) <= 21 else f"{name[:20]}…"
    for mine, theirs in zip(short, answers(other), strict=True):
        assert str(renamed(theirs, name)).replace(cut, name) == str(mine).replace(cut, name)


def test_a_writer_whose_name_reads_like_nobody_has_crashed(plain: StreamRecording) -> None:
    other = with_name(plain, "nobody is w2")
    assert "waits for nobody is w2, down since" in other.explain(at_ms=9_000).sentence


def test_the_chart_and_the_verdicts_do_not_read_names(plain: StreamRecording, spark: SparkSession) -> None:
    other = with_name(plain, "nobody is w 900 000 ms")
    sentences, verdicts = [], []
    for recording in (plain, other):
        sentences.append(charts.time_bounds(recording.time_bounds(spark), recording=recording).sentence)
        verdicts.append(repr(recording.check("I6", "I9", "I10")))
    assert f"held by {PLAIN}." in sentences[0]
    assert renamed(sentences[0], "nobody is w 900 000 ms") == sentences[1]
    assert renamed(verdicts[0], "nobody is w 900 000 ms") == verdicts[1]


def test_a_time_in_the_sentence_of_a_verdict_is_told_from_a_name(plain: StreamRecording) -> None:
    name = "w 900 000 ms"
    other = with_name(plain, name)
    tables = {table: other.table(table).to_pylist(maps_as_pydicts="strict") for table in other.schemas}
    tables["writer_marks"] = [row for row in tables["writer_marks"] if row["writer"] == name]
    tables["watermarks"] = [row | {"lower": 10_000_000} for row in tables["watermarks"]]
    verdict = StreamRecording.from_tables(tables, name="altered").check("I12")["I12"]
    assert str(verdict.what).startswith("watermark 0 has lower 2 h 46 min 40 s, but w 900 000 ms had noted ")
