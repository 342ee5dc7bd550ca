"""The same scenario gives the same rows; other workers give another order and the same windows."""

from __future__ import annotations

import pytest

from tests.progress.sim.plans import fired, growing, identifiers, query, rows, run, source
from wmlab.progress.rules import Rules
from wmlab.progress.scenario import Aggregate, Emit, Join, StallWorker, Workers


def test_workers_overtake_each_other_and_one_keeps_the_order() -> None:
    many, one = (
        [row["sequence"] for row in rows(run(workers=workers), "buffers", operator="build", origin=1)]
        for workers in (Workers(4, service_mean_ms=20), Workers(1))
    )
    assert many != sorted(many)
    assert sorted(many) == list(range(1, len(many) + 1))
    assert one == sorted(one)


@pytest.mark.parametrize("service", ["exponential", "lognormal", "constant"])
def test_any_pool_fires_the_same_fired(service) -> None:
    wanted = fired(run())
    assert len(wanted) == 10
    assert fired(run(workers=Workers(7, service_mean_ms=60, service=service))) == wanted


@pytest.mark.parametrize("window", [Aggregate(1_000, slide_ms=300), Aggregate(300, slide_ms=1_000), Join(1_000)])
def test_chunks_and_slides_change_nothing_about_that(window) -> None:
    one = run(queries=[query(window=window)])
    two = run(queries=[query(growing("a", 3), growing("b", 2), window=window)], workers=Workers(9))
    assert fired(one) == fired(two)
    assert fired(one)


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
    assert fired(stalled) == fired(run())
    assert [row["kind"] for row in rows(stalled, "incidents")] == ["stall", "held"]


def test_outputs_are_numbered_under_an_origin_of_their_own() -> None:
    world = run(queries=[query(window=Join(1_000, slide_ms=500))], rules=Rules(chunk_base=1))
    windows = rows(world, "windows_fired")
    assert [window["sequence"] for window in windows] == list(range(1, len(windows) + 1))
    assert identifiers(world, operator="sink") == [
        (3, row["sequence"], chunk, chunk == row["chunks"]) for row in windows for chunk in range(1, row["chunks"] + 1)
    ]
    starts = {row["sequence"]: row["start"] for row in windows}
    assert all(row["watermark"] == starts[row["sequence"]] for row in rows(world, "buffers", operator="sink"))


def test_the_results_of_windows_come_out_of_order_with_many_workers_and_in_order_with_one() -> None:
    def numbers(workers: Workers) -> list[int]:
        joined = query(source("a", keys=20), source("b", keys=20), window=Join(1_000, slide_ms=250), output=[Emit()])
        world = run(queries=[joined], workers=workers)
        return [row["sequence"] for row in sorted(rows(world, "buffers", operator="sink"), key=lambda r: r["arrival"])]

    many, one = numbers(Workers(8, service_mean_ms=60)), numbers(Workers(1))
    assert many != sorted(many)
    assert one == sorted(one)
    assert sorted(set(many)) == sorted(set(one))


def test_a_run_begins_at_its_start() -> None:
    assert min(start for start, _, _ in fired(run(start_ms=1_000_000))) == 1_000_000
