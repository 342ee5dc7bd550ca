"""The same scenario gives the same rows; other workers give another order and the same windows."""

from __future__ import annotations

import pytest

from tests.progress.sim.plans import growing, identifiers, query, rows, run, scenario, source
from wmlab.progress.model.identifiers import TupleBuffer
from wmlab.progress.model.tracker import Progress, ProgressRules, step
from wmlab.progress.scenario.parts import Aggregate, DelayBuffer, Join, StallWorker, Workers
from wmlab.progress.sim.world import PlanWorld


def windows(world: PlanWorld) -> list[tuple[int, int, int]]:
    return [(row["sequence"], row["start"], row["records"]) for row in rows(world, "windows_fired")]


def test_the_same_scenario_gives_the_same_rows() -> None:
    assert run().journal.rows == run().journal.rows
    assert run(seed=6).journal.rows != run(seed=5).journal.rows


def test_workers_overtake_each_other() -> None:
    order = [row["sequence"] for row in rows(run(), "buffers", operator="build", origin=1)]
    assert order != sorted(order)
    assert sorted(order) == list(range(1, len(order) + 1))


def test_one_worker_keeps_the_order() -> None:
    order = [row["sequence"] for row in rows(run(workers=Workers(1)), "buffers", operator="build", origin=1)]
    assert order == sorted(order)


@pytest.mark.parametrize("service", ["exponential", "lognormal", "constant"])
def test_any_pool_fires_the_same_windows(service) -> None:
    wanted = windows(run())
    assert len(wanted) == 10
    assert windows(run(workers=Workers(7, service_mean_ms=60, service=service))) == wanted


@pytest.mark.parametrize("window", [Aggregate(1_000, slide_ms=300), Aggregate(300, slide_ms=1_000), Join(1_000)])
def test_chunks_and_slides_change_nothing_about_that(window) -> None:
    one = run(queries=[query(window=window)])
    two = run(queries=[query(growing("a", 3), growing("b", 2), window=window)], workers=Workers(9))
    assert windows(one) == windows(two)
    assert windows(one)


def test_another_source_leaves_the_draws_of_the_others_as_they_were() -> None:
    few = run(queries=[query(source("a"))])
    more = run(queries=[query(source("a"), source("b"))])
    stamps = [
        sorted((row["sequence"], row["watermark"]) for row in rows(world, "buffers", operator="build", emitter="a"))
        for world in (few, more)
    ]
    assert stamps[0] == stamps[1]


def test_a_stalled_worker_holds_the_buffer_in_its_hand() -> None:
    stalled = run(script=[StallWorker(2, at_ms=2_000, for_ms=3_000)])
    inside = [r for r in rows(stalled, "buffers", worker=2) if 2_000 < r["arrived_ms"] < 5_000]
    assert inside == []
    assert windows(stalled) == windows(run())
    assert [row["kind"] for row in rows(stalled, "incidents")] == ["stall"]


def test_every_window_fires_at_the_arrival_that_lets_it() -> None:
    world = run(script=[DelayBuffer("a", 20, 2_500)])
    state = Progress.start([1, 2], ProgressRules())
    reached = {0: None}
    for row in rows(world, "buffers", operator="build"):
        stamp = TupleBuffer(row["origin"], row["sequence"], row["chunk"], row["last"], row["watermark"])
        state, _ = step(state, stamp)
        reached[row["arrival"]] = state.watermark
    for fired in rows(world, "windows_fired", cause="watermark"):
        assert fired["reached"] == reached[fired["arrival"]] > fired["end"]
        before = reached[fired["arrival"] - 1]
        assert before is None or before <= fired["end"]


def test_outputs_are_numbered_under_an_origin_of_their_own() -> None:
    world = run(queries=[query(window=Join(1_000, slide_ms=500))], chunk_base=1)
    fired = rows(world, "windows_fired")
    assert identifiers(world, operator="sink") == [
        (3, row["sequence"], chunk, chunk == row["chunks"]) for row in fired for chunk in range(1, row["chunks"] + 1)
    ]
    starts = {row["sequence"]: row["start"] for row in fired}
    assert all(row["watermark"] == starts[row["sequence"]] for row in rows(world, "buffers", operator="sink"))


def test_a_run_begins_at_its_start() -> None:
    late = scenario(start_ms=1_000_000)
    world = PlanWorld(late)
    world.run()
    assert min(row["start"] for row in rows(world, "windows_fired")) == 1_000_000
