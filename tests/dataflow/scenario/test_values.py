"""Dataflows as values: checked as a whole, printed, drawn, and written to YAML and back."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import wmlab as wm
from wmlab import dataflow as flow
from wmlab.core.errors import ScenarioError
from wmlab.core.values import Problems
from wmlab.dataflow.model.processor import Deviations
from wmlab.dataflow.scenario.faults import AnyFault
from wmlab.dataflow.scenario.plan import Output
from wmlab.open import load_scenario

BOUNDED = "left.id == right.id and left.t - 5 <= right.u and right.u <= left.t + 9"


def orders(**fields: Any) -> flow.Source:
    return flow.Source("orders", **({"columns": ["t", "id"], "rows": [[1, 7], [2, 8]], "times": "t"} | fields))


def deliveries(key: int = 1, **fields: Any) -> flow.Source:
    times = [flow.EventTime("u", key=key, lag_ms=3)]
    return flow.Source("deliveries", **({"columns": ["u", "id"], "rows": [[3, 7]], "times": times} | fields))


def joined(condition: str = BOUNDED, key: int = 1, **fields: Any) -> flow.Dataflow:
    join = flow.Join("join", condition)
    count = flow.Window("count", 10, column="t", by="id", aggregates={"n": "count()", "last": "max(u)"})
    given: dict[str, Any] = {"edges": ["orders -> join -> count -> out", "deliveries -> join"]}
    vertices = [orders(), deliveries(key), join, count, flow.Sink("out")]
    return flow.Dataflow("shop", **({"vertices": vertices} | given | fields))


def behind_orders(*more: Any, **fields: Any) -> flow.Dataflow:
    """Orders, one more vertex behind them if there is one, and a sink."""
    vertices = [orders(), *more, flow.Sink("out")]
    edges = " -> ".join(vertex.name for vertex in vertices)
    return flow.Dataflow("d", **({"vertices": vertices, "edges": edges} | fields))


def test_columns_and_keys_travel_over_the_edges() -> None:
    plan = joined().plan
    assert plan.outputs["join"] == Output(("t", "id", "u", "right_id"), ((0, "t"), (1, "u")))
    assert plan.outputs["count"] == Output(("start", "end", "id", "n", "last"), ((0, "end"),))
    assert plan.stuck == ()


def test_a_key_goes_with_a_column_that_is_only_renamed() -> None:
    selects = ({"when": "t", "later": "t + 1", "id": "id"}, {"later": "t + 1"})
    outputs = [behind_orders(flow.Map("m", select=select)).plan.outputs["m"] for select in selects]
    assert [output.keys for output in outputs] == [((0, "when"),), ((0, None),)]


def test_a_key_that_one_input_of_a_merge_has_not_is_noted_as_stuck() -> None:
    other = deliveries(columns=["t", "id"], times=[flow.EventTime("t", key=1)])
    dataflow = behind_orders(other, flow.Merge("both"), edges=["orders -> both -> out", "deliveries -> both"])
    assert dataflow.plan.stuck == (("both", 0, ("deliveries",)), ("both", 1, ("orders",)))
    assert "note: key 0 is stuck at both while deliveries, which does not carry it, is neither idle nor done" in repr(
        dataflow
    )
    assert "<br/>key 1 is not on orders" in dataflow.mermaid()


def test_yaml_goes_both_ways(tmp_path: Path) -> None:
    routed = flow.Edge("orders", "join", by="id")
    dataflow = joined(
        edges=[routed, "join -> count -> out", flow.Edge("deliveries", "join", routing="broadcast")],
        rules="implementation",
        guarantee="exactly_once",
        snapshot_every_ms=50,
        faults=[flow.Restart(at_ms=70), flow.Stall("join", for_ms=5), flow.SilentPartition("orders", 0)],
    )
    path = dataflow.save(tmp_path / "shop.yaml")
    assert flow.Dataflow.load(path) == flow.Dataflow.from_yaml(dataflow.to_yaml()) == dataflow == load_scenario(path)
    assert "- join -> count\n" in dataflow.to_yaml()
    assert repr(dataflow.edges[0]) == "Edge('orders', 'join', by=['id'])"


def test_a_python_function_runs_but_cannot_be_written() -> None:
    dataflow = behind_orders(flow.Filter("odd", where=lambda row: row["t"] % 2))
    with pytest.raises(ScenarioError, match="'odd' has a Python function as where, which no file can hold"):
        dataflow.to_yaml()
    assert dataflow.to_dict()["vertices"][1]["where"] == "function <lambda>"


def test_numpy_scalars_are_values() -> None:
    source = orders(rows=[*np.array([[1, 7], [2, 8]]).tolist(), (np.int64(3), np.float64(0.5))])
    assert source.rows == ((1, 7), (2, 8), (3, 0.5))
    assert [type(field) for field in (source.rows or ())[2]] == [int, float]


DEVIATIONS = {field.name for field in dataclasses.fields(Deviations)}
IN_NO_CODE = {"highest_held_back", "keyed_idle", "event_leaves_idle", "end_counts_as_active"}
"""What the code that ships does not do: a rule of the text, one that it rejects, and two defects that were repaired."""


def test_the_options_that_are_true_or_false_are_the_deviations_of_the_model() -> None:
    flags = {name for name, value in flow.Rules().options.items() if isinstance(value, bool)}
    assert flags - {"bounds_only"} == DEVIATIONS
    for name in flags - {"bounds_only"}:
        assert flow.Rules(**{name: True}).deviations == Deviations(**{name: True})
    with pytest.raises(Problems, match=r"idle_repeats: no such field, did you mean idle_repeated\?"):
        flow.Rules(idle_repeats=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        (
            {"mode": "hz"},
            'mode: no such field; give the scenario rules="design", rules="implementation" (formerly "hz")',
        ),
        (
            {"deviations": ["keyed_idle"]},
            "deviations: no such field; give the scenario rules=wm.dataflow.Rules(NAME=True)",
        ),
        (
            {"keyed_idle": True},
            "keyed_idle: is an option of the rules; give the scenario rules=wm.dataflow.Rules(keyed_i",
        ),
    ],
)
def test_a_field_of_a_former_form_is_answered_with_what_to_write(fields: dict[str, Any], answer: str) -> None:
    with pytest.raises(Problems) as refused:
        joined(**fields)
    assert answer in str(refused.value)


def test_a_dataflow_prints_as_a_list_of_its_vertices() -> None:
    lines = repr(joined(faults=[flow.Restart(70)])).splitlines()
    assert lines[0] == "Dataflow 'shop' (sound, none, 2 min)"
    assert lines[1] == "  orders: source (2 rows); key 0: t"
    assert lines[4] == "  count: window of join (count(), max(u) over 10 ms of t); key 0: end"
    assert lines[5:] == ["  out: sink of count (results)", "  fault: Restart(at_ms=70)"]


def test_it_draws_itself_with_its_keys() -> None:
    chart = joined().mermaid()
    assert chart.startswith("flowchart TB\n"), "four vertices one behind the other are too many for a narrow column"
    assert 'v0 -->|"left<br/>key 0: t"| v2' in chart
    assert 'v1 -->|"right<br/>key 1: u"| v2' in chart
    assert 'v3 -->|"key 0: end"| v4' in chart
    bundle = joined()._repr_mimebundle_()
    assert bundle == {"text/plain": repr(joined()), "text/vnd.mermaid": chart}


def test_text_in_a_drawing_cannot_break_it() -> None:
    chart = behind_orders(flow.Filter("odd", where='t != 1 and str(id) != "a]b"')).mermaid()
    (line,) = [line for line in chart.splitlines() if "<b>odd</b>" in line]
    assert line.count('"') == 2
    assert "]b" not in line


CONDITIONS = {
    "left.t <= right.u and right.u <= left.t + 9": None,
    "left.t == right.u": None,
    "left.t <= right.u": "nothing bounds a time of the left side from below by one of the right side",
    "right.u <= left.t + 9": "nothing bounds a time of the right side from below by one of the left side",
    "left.t <= right.u or right.u <= left.t": "add a part like `right.u >= left.t - N`",
    "left.id == right.id": "so its rows would be kept for ever",
    "left.t - 5 <= left.t and right.u <= right.u": "nothing bounds",
    "left.t <= right.u * 2 and right.u <= left.t": "nothing bounds a time of the right side",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_join_needs_a_bound_in_both_directions_and_different_keys(condition: str) -> None:
    expected = CONDITIONS[condition]
    if expected is None:
        assert joined(condition).plan.outputs["join"].columns
        return
    with pytest.raises(Problems, match=r"vertices\[2\].condition: ") as caught:
        joined(condition)
    assert expected in str(caught.value)
    with pytest.raises(Problems, match=r"both sides have watermark key 0 \(left.t and right.u\); give the times"):
        joined(condition, key=0)


WHOLE: list[tuple[dict[str, Any], str]] = [
    ({"edges": ["orders -> nowhere"]}, "no vertex is called 'nowhere'; there are: orders, out"),
    ({"edges": ["orders -> out -> orders"]}, "'orders' is a source; nothing flows into it"),
    ({"edges": ["orders -> out -> orders"]}, "'out' is a sink; nothing flows out of it"),
    ({"edges": ["orders"]}, "write an edge as 'source -> target' (got 'orders')"),
    ({"edges": [flow.Edge("orders", "out", by="x")]}, "no column is called 'x'; there are: t, id"),
    ({"edges": []}, "nothing flows out of 'orders'; add an edge, at last to a Sink"),
    ({"edges": []}, "nothing flows into 'out'; add an edge to it"),
    ({"snapshot_every_ms": 10}, "without a guarantee there are no snapshots; choose a guarantee"),
    ({"faults": [flow.SlowCalls("orders", by_ms=5)]}, "no asynchronous map is called 'orders'; there are: none"),
]


TRACED: dict[str, Any] = {"columns": (), "rows": None, "trace": "flights", "times": "event_time", "partitions": 2}
GUARDED = [flow.Filter("some", where="id > 1"), flow.AsyncMap("call", latency=flow.Fixed(1), select={"t": "t"})]
FAULTS = get_args(get_args(AnyFault)[0])
VERTICES_HIT = {
    flow.SlowCalls: "asynchronous map is called 'x'; there are: call",
    flow.FailCall: "asynchronous map is called 'x'; there are: call",
    flow.Stall: "vertex is called 'x'; there are: orders, log, some, call, out, far",
    flow.SwallowAll: "filter is called 'x'; there are: orders, log, some",
}
"""The vertices that a fault can happen to, as the message for another name has them."""


def problems_of_fault(fault: Any) -> list[str]:
    """What is wrong with a dataflow of a list and a trace with this fault alone."""
    with pytest.raises(Problems) as caught:
        flow.Dataflow(
            "d",
            vertices=[orders(), flow.Source("log", **TRACED), *GUARDED, flow.Sink("out"), flow.Sink("far")],
            edges=["orders -> some -> call -> out", "log -> far"],
            faults=[fault],
        )
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_fault_needs_a_target_that_is_there_and_a_time_before_the_end(kind: Any) -> None:
    vertex = "some" if kind is flow.SwallowAll else "call"
    possible = {"source": "log", "partition": 1, "vertex": vertex, "at_ms": 5, "by_ms": 5}
    fields = {field.name: possible[field.name] for field in dataclasses.fields(kind) if field.name in possible}
    wrong: dict[str, tuple[Any, str]] = {
        "at_ms": (120_000, "lies at or after the end of the run, 2 min (got 2 min)"),
        "partition": (2, "'log' has partitions 0 to 1 (got 2)"),
        "source": ("x", "no source is called 'x'; there are: orders, log"),
        "vertex": ("x", f"no {VERTICES_HIT.get(kind)}"),
    }
    for name in wrong.keys() & fields.keys():
        value, message = wrong[name]
        assert problems_of_fault(kind(**fields | {name: value})) == [f"faults[0].{name}: {message}"]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (flow.SilentPartition("orders", 1), "partition: 'orders' has partitions 0 to 0 (got 1)"),
        (flow.Stall("orders", instance=1), "instance: 'orders' has instances 0 to 0 (got 1)"),
        (flow.Stall("log", instance=5), "instance: 'log' has instances 0 to 0 (got 5)"),
        (flow.Stall("some", instance=1), "instance: 'some' has instances 0 to 0 (got 1)"),
        (flow.SwallowAll("orders"), "vertex: source 'orders' has no filter; give it where="),
        (
            flow.Restart(5, after_snapshot=True),
            "after_snapshot: without a guarantee there are no snapshots; choose a guarantee, or leave it out",
        ),
    ],
)
def test_a_fault_that_cannot_happen_is_refused(fault: Any, expected: str) -> None:
    assert problems_of_fault(fault) == [f"faults[0].{expected}"]


WRITTEN: dict[str, Any] = {"writers": [wm.EventWriter("w", rate_per_s=5.0)], "duration_ms": 5_000}


def test_a_stream_has_as_many_partitions_as_readers() -> None:
    def reads(stream: Any, *faults: Any) -> flow.Dataflow:
        source = flow.Source("log", stream=stream, times="event_time")
        return flow.Dataflow("d", vertices=[source, flow.Sink("out")], edges=["log -> out"], faults=faults)

    stream = wm.Scenario("s", stream=wm.Stream(segments=2), readers=wm.ReaderGroup(readers=2), **WRITTEN)
    with pytest.raises(Problems, match="'log' has partitions 0 to 1"):
        reads(stream, flow.SilentPartition("log", 2))
    assert reads(stream, flow.SilentPartition("log", 1)).record()


def test_of_a_kept_stream_the_partitions_are_known_when_it_is_read(tmp_path: Path) -> None:
    stream = wm.Scenario(
        "s", writers=[wm.EventWriter("w", rate_per_s=5.0)], readers=wm.ReaderGroup(), duration_ms=5_000
    )
    kept = stream.record().save(tmp_path / "kept")
    source = flow.Source("log", stream=str(kept.path), times="event_time")
    late = flow.Dataflow(
        "d", vertices=[source, flow.Sink("out")], edges=["log -> out"], faults=[flow.SilentPartition("log", 3)]
    )
    with pytest.raises(ScenarioError, match=r"'log' has partitions 0 to 0 \(got 3\)"):
        late.record()


VERTICES: list[tuple[Any, str]] = [
    (flow.Filter("x", where="nope > 1"), "vertices[1].where: no column is called 'nope'; there are: t, id"),
    (flow.Map("x", select={"y": "nope + 1"}), "vertices[1].select.y: no column is called 'nope'"),
    (
        flow.LateDrop("x", "id"),
        "vertices[1].column: column 'id' carries no watermark here, so 'x' would wait for ever; "
        "columns that do: t (key 0)",
    ),
    (flow.Window("x", 5, column="when", aggregates={"n": "count()"}), "[1].column: no column is called 'when'"),
    (flow.Window("x", 5, column="t", by="y", aggregates={"n": "sum(z)"}), "[1].by[0]: no column is called 'y'"),
    (flow.Window("x", 5, column="t", aggregates={"n": "sum(z)"}), "[1].aggregates.n: no column is called 'z'"),
    (flow.StatefulMap("x", "t", aggregates={"id": "count()"}), "[1].aggregates.id: a column of the input is called"),
    (flow.Join("x", BOUNDED), "vertices[1]: a join has two inputs, left and right, in this order (got 'orders')"),
    (orders(), "vertices[1].name: another vertex is called 'orders' too"),
]


TOGETHER = [
    (
        [flow.Map("m", select={"t": "t"}, parallelism=2)],
        [flow.Edge("orders", "m", routing="isolated"), "m -> out"],
        "edges[0].routing: isolated needs equal parallelism, 'orders' has 1, 'm' 2",
    ),
    (
        [deliveries(), flow.Merge("m")],
        ["orders -> m -> out", "deliveries -> m"],
        "'deliveries' brings u, id, but 'orders' brings t, id",
    ),
    (
        [deliveries(columns=["t", "id"], times=[flow.EventTime("id", key=0)]), flow.Merge("m")],
        ["orders -> m -> out", "deliveries -> m"],
        "key 0 is of 't' and, from 'deliveries', of 'id'; the same field needs the same key",
    ),
    (
        [deliveries(columns=["u", "id", "right_id"], rows=[[3, 7, 7]]), flow.Join("x", BOUNDED)],
        ["orders -> x -> out", "deliveries -> x"],
        "vertices[2]: two columns of its rows would be called 'right_id'",
    ),
    ([flow.Merge("a"), flow.Merge("b")], ["orders -> a -> b -> a", "b -> out"], "edges: go in a circle: "),
]


SOURCES: list[tuple[dict[str, Any], str]] = [
    ({"trace": "flights", "columns": []}, "give one of rows, trace and stream (got rows and trace)"),
    ({"rows": None}, "give one of rows, trace and stream (got none)"),
    ({"rows": [[1]]}, "rows[0]: has 1 values for 2 columns (got (1,))"),
    ({"rows": [["soon", 1]]}, "rows[0]: has no whole number as 't' (got 'soon')"),
    ({"rows": [[1, object]]}, "which is not a number, text, truth value or None"),
    ({"rows": [[1, float("nan")]]}, "row 0 holds nan"),
    ({"times": "u"}, "times[0].column: no column is called 'u'; there are: t, id"),
    ({"times": [flow.EventTime("t"), flow.EventTime("id")]}, "another column has watermark key 0 too"),
    ({"times": [flow.EventTime("t", policy="lower_bound")]}, "only a stream has a lower bound"),
    ({"partition_by": "p"}, "partition_by: no column is called 'p'"),
    ({"writers": ["UA"]}, "only a trace has writers to choose from"),
    ({"where": "t +"}, "has 1 mistake:\n  where: is not an expression"),
    ({"where": "u > 1"}, "has 1 mistake:\n  where: no column is called 'u'; there are: t, id"),
    ({"where": 5}, "has 1 mistake:\n  where: give an expression, or a function of a row as a dict (got 5)"),
    ({"frame_ms": "x"}, "has 1 mistake:\n  frame_ms: give whole milliseconds or a text such as"),
    ({"stream": 5, "rows": None}, "has 1 mistake:\n  stream: give a Scenario, a Recording, or the directory"),
    ({"stream_name": "a"}, "stream_name: only a stream is chosen from several; give stream="),
    ({"group": "g"}, "group: only a stream is chosen from several; give stream="),
    ({"stream": {"name": "x"}, "rows": None}, "stream.writers: field required"),
]


PARTS = [
    (lambda: flow.Map("m"), "give one of select and function (got none)"),
    (lambda: flow.Map("m", select={"a": "t"}, columns=["a"]), "select has the columns already"),
    (lambda: flow.AsyncMap("m", columns=["a"]), "give one of select and function (got none)"),
    (lambda: flow.FlatMap("m", select=[{"a": "t"}, {"b": "t"}]), "its entries must have the same columns"),
    (lambda: flow.Window("w", 10, column="t", slide_ms=3, aggregates={"n": "count()"}), "must divide size_ms, 10 ms"),
    (lambda: flow.Window("w", 10, column="t", aggregates={"end": "count()"}), "another result column is called 'end'"),
    (lambda: flow.Window("w", 10, column="t", aggregates={"n": "median(t)"}), "there are count(), sum(column)"),
    (lambda: flow.Window("w", 10, column="t", aggregates={"n": "count(t)"}), "is not an aggregate"),
    (lambda: flow.Edge("a", "b", routing="broadcast", by="t"), "only a partitioned edge has columns"),
    (lambda: flow.Edge("a", "b", routing="partitioned"), "needs the columns that choose the instance"),
]  # fmt: skip


MISTAKES = [
    *((partial(behind_orders, **fields), expected) for fields, expected in WHOLE),
    *((partial(behind_orders, vertex), expected) for vertex, expected in VERTICES),
    *((partial(behind_orders, *more, edges=edges), expected) for more, edges, expected in TOGETHER),
    *((partial(orders, **fields), expected) for fields, expected in SOURCES),
    *PARTS,
]


@pytest.mark.parametrize(("make", "expected"), MISTAKES, ids=[expected[:40] for _, expected in MISTAKES])
def test_a_mistake_is_named_with_its_place(make: Any, expected: str) -> None:
    with pytest.raises(Problems) as caught:
        make()
    assert expected in str(caught.value)


def test_a_mistake_in_a_file_has_its_line() -> None:
    text = joined().to_yaml().replace("\n  column: t\n", "\n  column: moment\n")
    number = text.splitlines().index("  column: moment") + 1
    with pytest.raises(Problems, match=rf"vertices\[3\].column \(line {number}\): no column is called 'moment'"):
        flow.Dataflow.from_yaml(text)


def test_values_are_frozen_and_vertices_are_found_by_name() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        joined().rules = "implementation"  # type: ignore[misc]
    assert joined().vertex("join") == flow.Join("join", BOUNDED)
    with pytest.raises(ScenarioError, match="no vertex is called 'none'"):
        joined().vertex("none")


@pytest.mark.parametrize(
    ("rules", "emit", "bounds_only", "on"),
    [
        ("design", "buffer", True, {"highest_held_back"}),
        ("implementation", "state", False, DEVIATIONS - IN_NO_CODE),
        ("sound", "state", False, set()),
    ],
)
def test_rules_choose_the_deviations_and_the_output_of_joins_and_windows(rules, emit, bounds_only, on) -> None:
    written = joined(rules=rules)
    options = written.options
    assert (options.pop("emit"), options.pop("bounds_only")) == (emit, bounds_only)
    assert {name for name, is_on in options.items() if is_on} == on
    assert written.rules.deviations == Deviations(**dict.fromkeys(on, True))
    assert flow.Dataflow.from_yaml(written.resolved.to_yaml()) == written.resolved


@pytest.mark.parametrize("key", [-129, 128])
def test_the_key_of_a_watermark_is_a_byte(key: int) -> None:
    assert [flow.EventTime("t", key=known).key for known in (-128, 127)] == [-128, 127]
    with pytest.raises(Problems, match="key"):
        flow.EventTime("t", key=key)


def test_the_pipeline_api_does_not_let_the_idle_timeout_be_set_and_the_core_api_does() -> None:
    """ "The timeout is configurable in Core API, but in Pipeline API it's hard-coded to 60 seconds"."""
    defaults = [orders(api=api).idle_timeout_ms for api in ("core", "pipeline")]
    assert defaults == [60_000, 60_000]
    assert orders(api="core", idle_timeout_ms=2_000).idle_timeout_ms == 2_000
    with pytest.raises(Problems, match=r"idle_timeout_ms: is 60 s in the Pipeline API; .* \(got 2 s\)"):
        orders(api="pipeline", idle_timeout_ms=2_000)


def test_a_column_alone_has_key_0_in_a_list_as_well() -> None:
    rows = {"columns": ["t", "u"], "rows": [[1, 2]]}
    assert flow.Source("s", times=["t"], **rows) == flow.Source("s", times="t", **rows)
    mixed = flow.Source("s", times=["t", flow.EventTime("u", key=1)], **rows)
    assert [(time.column, time.key) for time in mixed.times] == [("t", 0), ("u", 1)]
    with pytest.raises(Problems, match="another column has watermark key 0 too"):
        flow.Source("s", times=["t", "u"], **rows)


def test_keys_the_wrong_way_round_are_refused_with_the_right_one() -> None:
    with pytest.raises(Problems, match="the column of each key by its number, as in 0: 't'"):
        flow.Custom("c", function=lambda state, item: (state, [item]), keys={"t": 0})  # type: ignore[dict-item]
