"""A run of query plans as a recording: its tables, its replay, and what held time."""

from __future__ import annotations

import pytest

from tests.progress.sim.plans import growing, query, run, scenario, source
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.progress import Join, LoseBuffer, SilenceSource
from wmlab.progress.answers.progress import holds, replay
from wmlab.progress.recording import record
from wmlab.progress.simulate import plan_tables
from wmlab.progress.tables import PROGRESS_TABLES

SCENARIO = scenario(queries=[query(source("a"), growing("b", 2))], script=[LoseBuffer("a", 20)])


def test_the_same_scenario_gives_the_same_recording(tmp_path) -> None:
    first, second = SCENARIO.record(tmp_path / "r"), record(SCENARIO)
    assert first == second == Recording.read(tmp_path / "r")
    assert (first.name, first.seed, first.scenario) == ("test", 5, SCENARIO.to_dict())


def test_the_tables_have_the_columns_of_their_schemas() -> None:
    tables = plan_tables(run(queries=[query(window=Join(1_000))]).journal)
    for name, schema in PROGRESS_TABLES.items():
        assert tables[name].schema == schema
        assert tables[name].num_rows or name == "incidents"
        assert all(b"about" in field.metadata for field in schema)


def test_what_held_time_is_told_at_any_moment() -> None:
    recording = record(SCENARIO)
    (hold,) = holds(recording, query="q", at_ms=9_000)
    assert (hold.origin, hold.sequence, hold.started) == (1, 20, False)
    assert 100 < hold.waiting == replay(recording.table("buffers"), query="q", at_ms=9_000).of(1).waiting
    assert f"origin 1 lacks sequence 20; {hold.waiting} buffers wait behind it." in hold.sentence


def test_a_silent_source_is_declared_all_the_same() -> None:
    tables = plan_tables(run(script=[SilenceSource("b")]).journal)
    assert replay(tables["buffers"], query="q").origins == (1, 2)
    assert replay(tables["buffers"], query="q").watermark is None


def test_the_sink_follows_the_operators_origin() -> None:
    state = replay(plan_tables(run().journal)["buffers"], query="q", operator="sink")
    assert state.origins == (3,)
    assert state.watermark == 9_000


def test_a_moment_before_the_first_buffer_is_refused() -> None:
    with pytest.raises(RecordingError, match="no buffer of query 'q' had come to 'build' by 0 ms"):
        replay(plan_tables(run().journal)["buffers"], query="q", at_ms=0)
