"""A run of query plans as a recording: its tables, its replay, what held time; plans of the scenario files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.progress.sim.plans import growing, identifiers, query, rows, run, scenario, source
from wmlab.core.recording import Recording
from wmlab.core.values import Problems
from wmlab.progress import Aggregate, Emit, Join, LoseBuffer, Query, SilenceSource, Source
from wmlab.progress.recording import PlanScenario, ProgressRecording, record
from wmlab.progress.sim.query import run_queries
from wmlab.progress.sim.records import trace_records
from wmlab.progress.sim.world import PlanWorld
from wmlab.progress.tables import PROGRESS_TABLES

SCENARIOS = Path(__file__).parents[3] / "data" / "scenarios"
SCENARIO = scenario(queries=[query(source("a"), growing("b", 2))], script=[LoseBuffer("a", 20)])


def test_the_same_scenario_gives_the_same_recording(tmp_path) -> None:
    first, second = SCENARIO.record(tmp_path / "r"), record(SCENARIO)
    assert first == second == Recording.read(tmp_path / "r")
    assert first.table("buffers") != record(SCENARIO.replace(seed=6)).table("buffers")
    assert (first.name, first.seed, first.scenario) == ("test", 5, SCENARIO.to_dict())


def test_the_tables_have_the_columns_of_their_schemas() -> None:
    tables = run(queries=[query(window=Join(1_000))]).journal.tables(PROGRESS_TABLES)
    for name, schema in PROGRESS_TABLES.items():
        assert tables[name].schema == schema
        assert tables[name].num_rows or name == "incidents"
        assert all(b"about" in field.metadata for field in schema)


def test_sequence_numbers_of_each_origin_begin_at_1_and_have_no_gaps() -> None:
    world = run(queries=[query(source("a"), growing("b", 2), window=Join(1_000), output=[Emit()])])
    numbers: dict[tuple[str, int], list[int]] = {}
    for row in sorted(rows(world, "buffers"), key=lambda row: (row["sequence"], row["chunk"])):
        if row["chunk"] == 0:
            numbers.setdefault((row["operator"], row["origin"]), []).append(row["sequence"])
    assert {("build", 1), ("build", 2), ("sink", 3)} <= numbers.keys()
    for origin, found in numbers.items():
        assert found == list(range(1, len(found) + 1)), origin


def test_the_global_watermark_of_a_run_is_the_least_of_the_local_ones() -> None:
    arrivals = sorted(rows(run(), "buffers", operator="build"), key=lambda row: row["arrival"])
    local: dict[int, int | None] = {1: None, 2: None}
    for row in arrivals:
        local[row["origin"]] = row["reached_local"]
        assert row["reached"] == (None if None in local.values() else min(local.values()))
    assert arrivals[-1]["reached"] > 9_000


def test_in_the_stored_plan_a_window_reads_the_progress_of_a_join() -> None:
    recording = PlanScenario.load(SCENARIOS / "progress_meetings.yaml").record()
    read = [row for row in recording.table("buffers").to_pylist() if row["operator"] == "build-2"]
    assert {(row["emitter"], row["origin"]) for row in read} == {("build", 3)}
    fired = {(row["operator"], row["origin"]) for row in recording.table("windows_fired").to_pylist()}
    assert fired == {("build", 3), ("build-2", 4)}


def test_a_silent_source_is_declared_all_the_same() -> None:
    buffers = record(scenario(script=[SilenceSource("b")])).table("buffers")
    alone = ProgressRecording.from_tables({"buffers": buffers}, name="alone")
    facts = alone.explain(at_ms=9_000).facts
    assert (facts["holder"], facts["holder state"], facts.get("watermark")) == ("unheard of", "missing", None)


@pytest.mark.parametrize(("name", "late"), [("flights", False), ("quakes", True)])
def test_a_trace_runs_through_a_plan(name: str, late: bool) -> None:
    """The sparse carrier among the flights holds time back so far that nothing can come late."""
    scenario = PlanScenario.load(SCENARIOS / f"progress_{name}.yaml")
    world = PlanWorld(scenario, trace_records(scenario))
    run_queries(world)
    arrivals = rows(world, "buffers", operator="build")
    assert {row["emitter"] for row in arrivals} == {source.name for source in scenario.queries[0].sources}
    missed = sum(row["records"] for row in arrivals) - sum(row["records"] for row in rows(world, "windows_fired"))
    assert (missed > 0) == bool(rows(world, "incidents", kind="late")) == late


def test_a_source_that_is_no_writer_of_its_trace_is_refused() -> None:
    scenario = PlanScenario(
        "s", queries=[Query("q", sources=[Source("ZZ", trace="flights")], operators=[Aggregate(1)])], duration_ms=1
    )
    with pytest.raises(Problems, match="has no writer 'ZZ'; it has: 9E") as raised:
        trace_records(scenario)
    assert [problem.path for problem in raised.value.problems] == ["queries[0].sources[0].name"]


def test_a_trace_of_another_time_is_refused_with_its_first_arrival() -> None:
    scenario = PlanScenario("s", queries=[Query("q", sources=[Source("UA", trace="flights")])], duration_ms=1_000)
    with pytest.raises(Problems, match="start_ms: nothing of its traces arrives from 0 ms to 1 s; the first row does"):
        scenario.record()


def test_the_buffers_carry_the_identifiers_of_the_diagram() -> None:
    world = PlanWorld(PlanScenario.load(SCENARIOS / "progress_diagram.yaml"))
    run_queries(world)
    assert identifiers(world, stream="query-1", operator="build", sequence=1) == [(1, 1, 0, True), (2, 1, 0, True)]
    assert identifiers(world, stream="query-1", operator="sink") == [(3, 1, 0, False), (3, 1, 1, True), (3, 2, 0, True)]
    assert identifiers(world, stream="query-2", operator="sink", sequence=1) == [(1, 1, 0, True)]
    now, y, x = 900, 1_000, 1_600
    first = {
        row["emitter"]: row["watermark"] for row in rows(world, "buffers", sequence=1) if row["operator"] != "probe"
    }
    assert (first["source-1"], first["source-2"], first["source-3"]) == (now, now + y, now)
    out = [(row["sequence"], row["chunk"], row["watermark"]) for row in rows(world, "buffers", operator="sink")]
    assert sorted(out)[1:] == [(1, 0, now + y), (1, 1, now), (2, 0, now + x)]
    names = {(row["stream"], row["origin"]): row["emitter"] for row in rows(world, "buffers")}
    assert names == {
        ("query-1", 1): "source-1",
        ("query-1", 2): "source-2",
        ("query-1", 3): "build",
        ("query-2", 1): "source-3",
    }
