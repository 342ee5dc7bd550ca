"""Filters, projections, emissions, renumberings and sequencers between the sources and the sink of a plan."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.progress.sim.plans import fired, growing, identifiers, query, rows, run, scenario, source, tracked
from wmlab.progress.rules import Rules
from wmlab.progress.scenario import (
    Aggregate,
    DelayBuffer,
    Emit,
    Filter,
    InOrder,
    Join,
    LoseBuffer,
    Projection,
    Renumber,
    Scan,
    Workers,
)
from wmlab.progress.sim.query import run_queries
from wmlab.progress.sim.world import PlanWorld

MANY = Workers(9, service_mean_ms=60)


def places(world: PlanWorld, operator: str, **where: object) -> list[tuple[int, int]]:
    """(sequence, chunk) at an operator in the order of arrival."""
    found = sorted(rows(world, "buffers", operator=operator, **where), key=lambda row: row["arrival"])
    return [(row["sequence"], row["chunk"]) for row in found]


def test_a_scan_changes_nothing() -> None:
    scanned = query(source("a", operators=[Scan()]), source("b", operators=[Scan()]))
    assert run(queries=[scanned]).journal.rows == run().journal.rows


def test_chance_of_a_filter_goes_with_the_record() -> None:
    def kept(workers: Workers) -> dict[tuple[str, int], int]:
        sources = source("a", operators=[Filter(0.5), Emit(), Filter(0.5)]), source("b")
        world = run(queries=[query(*sources, operators=[Filter(0.8)])], workers=workers)
        arrivals = rows(world, "buffers", operator="build")
        assert sorted(places(world, "build")) == sorted(places(run(), "build"))
        return {(row["emitter"], row["sequence"]): row["records"] for row in arrivals}

    assert kept(Workers(1)) == kept(MANY)
    shares = Counter()
    for (emitter, _), records in kept(MANY).items():
        shares[emitter] += records
    assert 0.2 * 0.7 < shares["a"] / 2_000 < 0.2 * 1.3
    assert 0.8 * 0.9 < shares["b"] / 2_000 < 0.8 * 1.1


@pytest.mark.parametrize(("growth", "capacity", "chunks"), [(2.0, None, 2), (1.1, 11, 1), (1.1, 10, 2), (0.5, 1, 5)])
def test_what_outgrows_a_buffer_becomes_chunks(growth, capacity, chunks) -> None:
    cut = source("a", operators=[Projection(growth), Emit(buffer_records=capacity)])
    world = run(queries=[query(cut, window=None)])
    first = rows(world, "buffers", operator="sink", sequence=1)
    assert len(first) == chunks
    assert sum(row["records"] for row in first) == 10
    assert max(row["records"] for row in first) * growth <= (capacity or 10)


def test_a_renumbering_numbers_only_what_is_in_a_prefix() -> None:
    renumbered = query(growing("a", 2), source("b"), operators=[Renumber("merged")])
    world = run(queries=[renumbered], workers=MANY, script=[DelayBuffer("a", 20, 3_000)])
    out = 0
    outputs = {r["sequence"]: r for r in rows(world, "buffers", operator="build")}
    for row, state in tracked(world, operator="merged"):
        out = 0 if state.watermark is None else sum(origin.prefix for origin in state.origins.values())
        assert all(outputs[n]["arrived_ms"] >= row["arrived_ms"] for n in range(out + 1, len(outputs) + 1))
    assert sorted(outputs) == list(range(1, out + 1))
    assert {(row["origin"], row["emitter"], row["chunk"], row["last"]) for row in outputs.values()} == {
        (3, "merged", 0, True)
    }
    assert {row["origin"] for row in rows(world, "windows_fired")} == {4}


def test_what_lies_beyond_a_lost_buffer_is_never_renumbered() -> None:
    world = run(queries=[query(source("a", operators=[Renumber("r")]), source("b"))], script=[LoseBuffer("a", 20)])
    assert len(rows(world, "buffers", operator="build", emitter="r")) == 19
    assert len(rows(world, "buffers", operator="r")) > 100


@pytest.mark.parametrize(("operator", "blocks"), [(Emit(), False), (Renumber("r"), True), (InOrder("r"), True)])
def test_behind_a_blocking_operator_everything_waits_for_one_late_buffer_and_behind_an_emission_nothing(
    operator, blocks
) -> None:
    """ "Watermarking and Progress", ChunkNumber: "blocking is expensive"."""
    plan = query(growing("a", 2.0), window=None, operators=[operator])
    sunk = rows(run(queries=[plan], script=[DelayBuffer("a", 3, 2_000)], duration_ms=2_000), "buffers", operator="sink")
    waited = [row for row in sunk if row["arrived_ms"] - row["created_ms"] > 500]
    assert len(sunk) > 15
    assert {row["sequence"] for row in waited if row["sequence"] < 3} == set()
    assert ({row["sequence"] for row in waited} == {3}) is not blocks
    assert (len(waited) > len(sunk) / 3) is blocks


def test_windows_do_not_change_behind_a_renumbering() -> None:
    merged = run(queries=[query(growing("a", 3), source("b"), operators=[Renumber("merged")])], workers=MANY)
    assert fired(merged) == fired(run())


def test_a_sequencer_restores_the_order_of_each_origin() -> None:
    ordered = run(queries=[query(growing("a", 3), source("b"), operators=[InOrder("o")])], workers=MANY)
    for emitter in ("a", "b"):
        before, after = (places(ordered, operator, emitter=emitter) for operator in ("o", "build"))
        assert before != sorted(before)
        assert after == sorted(before)


def test_outputs_of_windows_go_through_a_chain_of_their_own() -> None:
    chain = [Scan(), Projection(2), Emit(buffer_records=100), Renumber("r")]
    world = run(queries=[query(window=Join(1_000, slide_ms=500), output=chain)], workers=MANY)
    results = [results for _, _, results in fired(world)]
    assert identifiers(world, operator="sink") == [(4, number, 0, True) for number in range(1, len(results) + 1)]
    sizes = {row["sequence"]: row["records"] for row in rows(world, "buffers", operator="sink")}
    assert [sizes[number] for number in sorted(sizes)] == results
    assert max(row["records"] for row in rows(world, "buffers", operator="r")) <= 50


def test_a_join_matches_equal_keys_of_its_two_sides() -> None:
    sides = [source(name, keys=5, rate_per_s=30) for name in ("a", "b", "c")]
    for left, wanted in (((), {"a"}), (("b", "c"), {"b", "c"})):
        world = PlanWorld(scenario(queries=[query(*sides, window=Join(2_000, left=left))]))
        (running,) = run_queries(world)
        tables = running.windows["build"].operator.tables
        slices = {start: [side.keys.total() for side in sides] for start, sides in tables.items()}
        counts = Counter()
        for row in rows(world, "buffers", operator="build"):
            counts[row["emitter"] in wanted] += row["records"]
        assert [sum(side) for side in zip(*slices.values(), strict=True)] == [counts[True], counts[False]]
        for start, _, results in fired(world):
            left_records, right_records = slices[start]
            assert 0.6 < results / (left_records * right_records / 5) < 1.6


def test_a_join_fires_once_both_sides_allow() -> None:
    world = run(queries=[query(source("a"), source("b", lag_ms=3_000), window=Join(1_000))])
    assert min(row["fired_ms"] for row in rows(world, "windows_fired", cause="watermark")) > 4_000


def test_the_outputs_of_a_join_carry_what_the_diagram_of_the_text_shows() -> None:
    """Source 1 comes to `now`, source 2 to `now + y`; the chunks of the join to now + y, now, and then now + x."""
    sources = (
        source("1", times_ms=[100, 900, 2_500, 3_100], buffer_records=2),
        source("2", times_ms=[300, 1_900, 3_200, 3_300], buffer_records=2),
    )

    def sunk(**options: Any) -> dict[tuple[int, int, bool], int]:
        joined = query(*sources, window=Join(2_000, slide_ms=1_000), output=[Emit()])
        world = run(queries=[joined], duration_ms=5_000, flush_at_end=False, rules=Rules(**options), seed=1)
        found = rows(world, "buffers", operator="sink")
        return {(row["sequence"], row["chunk"], row["last"]): row["watermark"] for row in found}

    now, y, x = 900, 1_000, 1_600
    assert sunk(carries="largest") == {(1, 0, False): now + y, (1, 1, True): now, (2, 0, True): now + x}
    assert sunk() == {(1, 0, False): 0, (1, 1, True): 0, (2, 0, True): 1_000}


@pytest.mark.parametrize(("rules", "end"), [("design", "watermark"), ("sound", "watermark"), ("implementation", None)])
@pytest.mark.parametrize("window", [Aggregate(1_000), Join(1_000)])
def test_a_window_fires_when_time_has_come_to_its_end(window, rules, end) -> None:
    """The document promises that nothing below the watermark follows; the engine waits for a later watermark."""
    sources = [source(name, times_ms=[500, 1_000], buffer_records=1) for name in ("a", "b")]
    world = run(queries=[query(*sources, window=window)], rules=Rules(rules, complete="set"), flush_at_end=False)
    assert max(row["watermark"] for row in rows(world, "buffers", operator="build")) == 1_000
    assert [row["cause"] for row in rows(world, "windows_fired")] == ([end] if end else [])
