"""Whatever chains a plan has and however many workers run it: nothing is late, doubled or lost, and windows agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings, strategies as st

from tests.progress.sim.plans import fired, query, rows, scenario, source
from wmlab.progress.rules import Rules
from wmlab.progress.scenario import (
    Aggregate,
    Emit,
    Filter,
    InOrder,
    Join,
    LogicalStream,
    Projection,
    Query,
    Renumber,
    Scan,
    Source,
    Workers,
    probe_of,
    windows_of,
)
from wmlab.progress.sim.query import QueryRun, run_queries
from wmlab.progress.sim.world import PlanWorld

INSIDE = st.sampled_from([Scan(), Filter(0.7), Projection(2.5), Emit(), Emit(buffer_records=3)])
SIZES = st.fixed_dictionaries({"size_ms": st.sampled_from([300, 500]), "slide_ms": st.sampled_from([None, 200])})
NAMED = st.sampled_from([Renumber("x"), InOrder("x")])


@st.composite
def chains(draw, name: str, *, blocking: bool = True, filters: bool = True) -> list[object]:
    operators: Sequence[object] = draw(st.lists(INSIDE | NAMED, max_size=4))
    kept = [one for one in operators if filters or not isinstance(one, Filter)]
    kept = [one for one in kept if blocking or not isinstance(one, Renumber)]
    return [replace(one, name=f"{name}-{place}") if hasattr(one, "name") else one for place, one in enumerate(kept)]


@st.composite
def plans(draw) -> Query:
    join = draw(st.booleans())
    window, behind = Join(**draw(SIZES)) if join else Aggregate(**draw(SIZES)), Aggregate(**draw(SIZES))
    sources: list[Source | LogicalStream] = [
        source(name, rate_per_s=draw(st.sampled_from([20, 100])), keys=3, operators=draw(chains(name)))
        for name in ("a", "b")
    ]
    chain = draw(chains("both", blocking=not join))
    match draw(st.sampled_from(["one", "in a row", "side", "deep"])):
        case "in a row":
            return query(*sources, operators=[*chain, window], window=behind, output=draw(chains("out")))
        case "side":
            sources[0] = replace(sources[0], operators=[*sources[0].operators, behind])
        case "deep":
            third = source("c", rate_per_s=20, keys=3, operators=draw(chains("c")))
            below = LogicalStream("below", sources=sources, operators=[*chain, window])
            return query(below, third, window=Join(**draw(SIZES)), output=draw(chains("out")))
    return query(*sources, operators=chain, window=window, output=draw(chains("out", filters=False)))


def played(plan: Query, workers: Workers, base: int) -> tuple[PlanWorld, QueryRun]:
    world = PlanWorld(scenario(queries=[plan], workers=workers, duration_ms=1_500, rules=Rules(chunk_base=base)))
    (running,) = run_queries(world)
    return world, running


@settings(max_examples=60, deadline=None)
@given(plans(), st.sampled_from([0, 1]))
def test_windows_do_not_depend_on_the_workers_and_nothing_is_late(plan: Query, base: int) -> None:
    one, many = (played(plan, Workers(count, service_mean_ms=30), base)[0] for count in (1, 7))
    for name in windows_of(plan):
        assert fired(one, operator=name) == fired(many, operator=name)
    assert rows(many, "incidents") == rows(one, "incidents") == []


@settings(max_examples=60, deadline=None)
@given(plans(), st.sampled_from([0, 1]))
def test_windows_fire_once_in_order_with_the_records_of_their_slices(plan: Query, base: int) -> None:
    """N8, N9 and N11: what the tables say of windows follows from the buffers that had come."""
    world, _ = played(plan, Workers(7, service_mean_ms=30), base)
    for name in windows_of(plan):
        in_order_with_their_records(world, name)


def in_order_with_their_records(world: PlanWorld, name: str) -> None:
    built = [
        (row["arrival"], start, records)
        for row in rows(world, "buffers", operator=name)
        for start, records in zip(row["slices"], row["slice_records"], strict=True)
    ]
    windows = sorted(rows(world, "windows_fired", operator=name), key=lambda row: row["sequence"])
    assert [row["sequence"] for row in windows] == list(range(1, len(windows) + 1))
    assert [row["start"] for row in windows] == sorted({row["start"] for row in windows})
    for window in windows:
        by_watermark = window["cause"] == "watermark"
        assert not by_watermark or window["end"] <= window["reached"]
        assert window["records"] == sum(
            records
            for arrival, start, records in built
            if window["start"] <= start < window["end"] and not (by_watermark and arrival > window["arrival"])
        )
        probed = rows(world, "buffers", operator=probe_of(name), sequence=window["sequence"])
        assert {row["watermark"] for row in probed} == {window["start"]}


@settings(max_examples=60, deadline=None)
@given(plans(), st.sampled_from([0, 1]))
def test_every_operator_is_given_whole_sequences_and_follows_them_to_the_end(plan: Query, base: int) -> None:
    world, running = played(plan, Workers(7, service_mean_ms=30), base)
    sequences: dict[tuple[str, int, int], list[tuple[int, bool]]] = {}
    for row in rows(world, "buffers"):
        sequences.setdefault((row["operator"], row["origin"], row["sequence"]), []).append((row["chunk"], row["last"]))
    for chunks in sequences.values():
        assert sorted(chunks) == [(base + place, place == len(chunks) - 1) for place in range(len(chunks))]
    for state in running.progress.values():
        assert not any(origin.waiting for origin in state.origins.values())
