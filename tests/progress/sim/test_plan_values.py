"""A scenario of query plans that cannot be run is refused; one that can goes through YAML unchanged."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, get_args

import pytest

from tests.progress.sim.plans import query, scenario, source
from wmlab.core.values import Problems
from wmlab.progress.model.tracker import ProgressRules
from wmlab.progress.recording import PlanScenario
from wmlab.progress.rules import Rules
from wmlab.progress.scenario import (
    Aggregate,
    DelayBuffer,
    DuplicateBuffer,
    Emit,
    EmptyBuffer,
    Filter,
    InOrder,
    Join,
    LogicalStream,
    LoseBuffer,
    PlanAction,
    Projection,
    Query,
    Renumber,
    Scan,
    SilenceSource,
    Source,
    StallWorker,
    origins_of,
)

FULL = scenario(
    queries=[
        query(
            source("a", keys=7, operators=[Scan(), Filter(0.5), Projection(1.5), Emit(buffer_records=4)]),
            source("b"),
            window=Join(2_000, slide_ms=500, left=["b"]),
            operators=[InOrder("in-order")],
            output=[Emit(), Renumber("renumbered")],
        ),
        Query("p", sources=[LogicalStream("cs", sources=[Source("c", times_ms=[1, 5], lag_ms=3)])]),
        Query("r", sources=[Source("d", rows=[(1, 2)], columns=["t", "at"], event_time="t", arrival="at")]),
    ],
    script=[
        LoseBuffer("a", 2),
        DelayBuffer("b", 3, 500),
        EmptyBuffer("b", 4),
        DuplicateBuffer("a", 3, chunk=1, after_ms=7),
        SilenceSource("c", at_ms=50),
        StallWorker(1, at_ms=100, for_ms=200),
    ],
    rules=Rules(stamped="filter", chunk_base=1, local="head"),
)


def test_it_goes_through_yaml_unchanged(tmp_path) -> None:
    assert PlanScenario.from_yaml(FULL.to_yaml()) == FULL
    assert PlanScenario.load(FULL.save(tmp_path / "plan.yaml")) == FULL


def test_it_prints_as_the_code_that_makes_it() -> None:
    assert repr(FULL.queries[1]) == (
        "Query('p', sources=[LogicalStream('cs', sources=[Source('c', times_ms=[1, 5], lag_ms=3)])])"
    )
    assert "<p style='text-align:left'>Scenario “test”</p>" in FULL._repr_html_()
    assert FULL.replace(seed=6).seed == 6


EMITTING = Query(
    "q",
    sources=[Source("a", rate_per_s=5, operators=[Emit()]), Source("b", times_ms=[1, 5]), Source("c", trace="quakes")],
)
NO_SOURCE = "script[0].source: no source is called 'x'; there are: a, b, c"
IMPOSSIBLE = [
    *((fault("x", 1, **more), NO_SOURCE) for fault, more in (
        (LoseBuffer, {}), (DelayBuffer, {"by_ms": 5}), (DuplicateBuffer, {}), (EmptyBuffer, {})
    )),
    (SilenceSource("x"), NO_SOURCE),
    (StallWorker(5, at_ms=1, for_ms=1), "script[0].worker: there are workers 1 to 4 (got 5)"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "message"), IMPOSSIBLE)
def test_a_fault_that_cannot_happen_is_refused(fault: Any, message: str) -> None:
    with pytest.raises(Problems) as caught:
        PlanScenario("s", queries=[EMITTING], script=[fault], duration_ms=1_000, rules=Rules(chunk_base=1))
    assert [str(problem) for problem in caught.value.problems] == [message]


def test_every_kind_of_fault_is_in_the_table() -> None:
    kinds, _ = get_args(PlanAction)
    assert {type(fault) for fault, _ in IMPOSSIBLE} == set(get_args(kinds))


MANY_LOADS = "give one of rate_per_s, trace, times_ms and rows"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, MANY_LOADS),
        ({"rate_per_s": 1, "trace": "flights"}, MANY_LOADS),
        ({"times_ms": [1], "rate_per_s": 2}, MANY_LOADS),
        ({"trace": "flights", "disorder_ms": 5}, "a trace has its own times"),
        ({"trace": "flights", "keys": 5}, "a trace has its own keys"),
    ],
)
def test_a_source_has_exactly_one_load(fields, message) -> None:
    with pytest.raises(Problems, match=message):
        Source("s", **fields)


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"window": Join(5, left=["a", "b"])}, "operators[0].left", "no source is left for the right side"),
        ({"window": Join(5, left=["x"])}, "operators[0].left[0]", "no source is called 'x'; there are: a, b"),
        ({"window": Join(5), "operators": [Renumber("r")]}, "operators[0]", "one origin of both sides"),
        ({"window": Join(5), "sources": [source("a")]}, "sources", "at least two sources"),
        ({"sources": [source("build")]}, "sources[0].name", "'build' is what wmlab calls an operator"),
        ({"operators": [Renumber("a")]}, "operators[0].name", "another part of the query is called 'a' too"),
        ({"output": [Renumber("probe")]}, "operators[1].name", "another part of the query is called 'probe' too"),
        ({"operators": [Aggregate(5)], "window": Join(5)}, "operators[0]", "one origin of both sides"),
        ({"sources": [source("a", operators=[Join(5)])]}, "sources[0].operators[0]", "needs at least two sources"),
        ({"sources": [source("build-2")], "output": [Aggregate(5)]}, "sources[0].name", "calls an operator"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(fields, path, message) -> None:
    with pytest.raises(Problems, match=re.escape(message)) as raised:
        query(*fields.pop("sources", [source("a"), source("b")]), **fields)
    assert [problem.path for problem in raised.value.problems] == [path]


def test_blocking_operators_are_origins_behind_all_sources() -> None:
    sources = source("a", operators=[Renumber("r")]), source("b")
    origins = origins_of(query(*sources, operators=[InOrder("o")], output=[Renumber("s")]))
    assert origins.ids == {"a": 1, "b": 2, "r": 3, "build": 4, "s": 5}
    assert origins.inputs == {
        "scan": (1, 2),
        "r": (1,),
        "o": (3, 2),
        "build": (3, 2),
        "probe": (4,),
        "s": (4,),
        "sink": (5,),
    }
    assert origins.last == "build"


def test_each_windows_are_an_origin_that_those_behind_them_read() -> None:
    """ "Watermarking and Progress", OriginId: "unique for each source or stateful operator in a query plan"."""
    both = LogicalStream("both", sources=[source("a"), source("b")], operators=[Join(1_000), Emit()])
    third = source("c", operators=[Aggregate(500)])
    origins = origins_of(query(both, third, window=Join(2_000, left=["c"]), output=[Renumber("r"), Aggregate(5_000)]))
    assert origins.ids == {"a": 1, "b": 2, "c": 3, "build": 4, "build-2": 5, "build-3": 6, "r": 7, "build-4": 8}
    assert {name: origins.inputs[name] for name in ("build", "build-2", "build-3", "r", "build-4", "sink")} == {
        "build": (1, 2),
        "build-2": (3,),
        "build-3": (4, 5),
        "r": (6,),
        "build-4": (7,),
        "sink": (8,),
    }
    assert origins.left == {"build": {1}, "build-3": {5}}
    assert origins.last == "build-4"
    assert origins_of(query(both, third, window=None)).last == "sink"
    with pytest.raises(Problems, match="no source is called 'a'; there are: c, both"):
        query(both, third, window=Join(2_000, left=["a"]))


TWO_KINDS = LogicalStream("vehicles", sources=[source("trucks"), source("cars")])


def test_the_sources_of_a_logical_stream_are_origins_in_each_plan_and_one_side_of_a_join() -> None:
    """ "Watermarking and Progress", OriginId: `trucks` and `cars` "in a stream called `vehicles`"."""
    join = Join(1_000)
    plans = [Query("q", sources=[source("lights"), TWO_KINDS], operators=[join]), Query("p", sources=[TWO_KINDS])]
    assert origins_of(plans[0]).ids == {"lights": 1, "trucks": 2, "cars": 3, "build": 4}
    assert origins_of(plans[1]).ids == {"trucks": 1, "cars": 2}

    def left(*names: str) -> frozenset[int]:
        return origins_of(replace(plans[0], operators=[replace(join, left=names)])).left["build"]

    assert left() == {1}
    assert left("vehicles") == {2, 3}
    assert left("cars") == {3}
    with pytest.raises(Problems, match="no source is called 'bikes'; there are: lights, trucks, cars, vehicles"):
        left("bikes")
    with pytest.raises(Problems, match="no source is left for the right side"):
        left("vehicles", "lights")
    with pytest.raises(Problems, match="a join needs at least two sources"):
        replace(plans[1], operators=[join])


@pytest.mark.parametrize(
    "inputs",
    [
        [[TWO_KINDS], [replace(TWO_KINDS, sources=[source("trucks")])]],
        [[TWO_KINDS], [source("trucks")]],
        [[TWO_KINDS], [source("vehicles")]],
        [[TWO_KINDS, TWO_KINDS]],
        [[replace(TWO_KINDS, sources=[source("cars"), source("cars")])]],
        [[replace(TWO_KINDS, name="cars")]],
    ],
)
def test_a_name_stands_for_one_source_or_logical_stream(inputs) -> None:
    queries = [Query(f"q{number}", sources=sources) for number, sources in enumerate(inputs)]
    with pytest.raises(Problems, match=r"another source is called '(trucks|cars|vehicles)' too"):
        scenario(queries=queries)


def test_two_queries_that_read_a_logical_stream_have_its_records_and_its_faults() -> None:
    queries = [Query(name, sources=[TWO_KINDS], operators=[Aggregate(1_000)]) for name in ("q", "p")]
    recording = scenario(queries=queries, script=[LoseBuffer("cars", 2)], duration_ms=4_000).record()
    incidents = recording.table("incidents").to_pylist()
    assert [(row["stream"], row["kind"], row["target"]) for row in incidents] == [
        ("q", "loss", "cars 2"),
        ("p", "loss", "cars 2"),
    ]
    buffers = recording.table("buffers").to_pylist()
    read = {
        name: {
            (row["emitter"], row["sequence"], row["watermark"])
            for row in buffers
            if row["stream"] == name and row["operator"] == "build"
        }
        for name in ("q", "p")
    }
    assert read["q"] == read["p"]
    assert {emitter for emitter, *_ in read["q"]} == {"trucks", "cars"}
    assert 2 not in {sequence for emitter, sequence, _ in read["q"] if emitter == "cars"}


def test_mistakes_across_parts_are_gathered() -> None:
    with pytest.raises(Problems) as raised:
        scenario(
            queries=[query(source("a"), source("a")), query(source("b"), window=Aggregate(5))],
            script=[LoseBuffer("x", 1), StallWorker(9, at_ms=0, for_ms=1)],
            duration_ms=10_000,
        )
    assert [problem.path for problem in raised.value.problems] == [
        "queries[0].name",
        "queries[0].sources[0].name",
        "queries[0].sources[1].name",
        "queries[1].name",
        "script[0].source",
        "script[1].worker",
    ]


def test_an_interval_of_the_former_form_is_answered_with_what_to_write() -> None:
    with pytest.raises(Problems) as raised:
        Source("s", rate_per_s=1, flush_every_ms="when full")
    assert 'leave it out, and give the scenario rules=wm.progress.Rules(sends="when full")' in str(raised.value)


@pytest.mark.parametrize("rules", ["design", "implementation", "sound"])
def test_rules_set_what_nobody_has_set(rules) -> None:
    written = FULL.with_rules(rules)
    assert (written.options["local"], written.options["chunk_base"]) == ("head", 1)
    assert written.options["complete"] == {"design": "literal", "implementation": "balance", "sound": "set"}[rules]
    assert written.options["carries"] == ("largest" if rules == "design" else "start")
    assert written.options["stamped"] == "filter"
    assert PlanScenario.from_yaml(written.resolved.to_yaml()) == written.resolved


def test_a_run_follows_the_rules_and_checks_and_answers_know_them() -> None:
    plan = scenario(rules="implementation", duration_ms=3_000)
    named = plan.replace(rules=Rules("sound", chunk_base=1, complete="balance", local="head", stamped="filter"))
    runs = [plan.record(), named.record()]
    assert runs[0].table("buffers") == runs[1].table("buffers")
    trackers = ProgressRules(chunk_base=1, complete="balance", local="head")
    assert [run.scenario_as(PlanScenario).rules.trackers for run in runs] == [trackers] * 2
    assert (runs[0].scenario or {})["rules"] == "implementation"
