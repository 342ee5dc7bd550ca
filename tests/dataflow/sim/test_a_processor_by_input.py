"""A processor of your own that gets the watermarks of each input: a join and a union, next to the built-in ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.dataflow.sim.flows import kinds, marks, multiset, queue_between, recorded, results, rows, source
from tests.scenario_files import FOLDER
from wmlab import dataflow as flow
from wmlab.core.values import Problems

Made = tuple[Any, list[Any]]
Recorded = Any


def joining(back: int, ahead: int, columns: tuple[str, str], same: str | None = None) -> Any:
    """An inner join of a left time and a right one from `back` before it to `ahead` after it, which have keys 0 and 1.

    The watermark of a key that leaves is the lower of its last one and of the lowest time that still finds a partner.
    The state: the rows that are kept of each side, the last watermark of each, and the one that left.
    """
    distances = ahead, back

    def pair(side: int, row: dict[str, int], other: dict[str, int]) -> dict[str, int] | None:
        left, right = (row, other) if side == 0 else (other, row)
        meets = -back <= right[columns[1]] - left[columns[0]] <= ahead and (same is None or left[same] == right[same])
        return left | {f"right_{c}" if c in left else c: right[c] for c in right} if meets else None

    def function(state: Any, item: Any, ordinal: int) -> Made:
        sides, received, sent = state or (((), ()), (None, None), (None, None))
        limits = [None if received[1 - side] is None else received[1 - side] - distances[side] for side in (0, 1)]
        if not isinstance(item, flow.Watermark):
            time, others = item[columns[ordinal]], sides[1 - ordinal]
            if received[ordinal] is not None and time < received[ordinal]:
                return state, []
            if limits[ordinal] is None or time >= limits[ordinal]:
                sides = tuple((*rows, item) if side == ordinal else rows for side, rows in enumerate(sides))
            pairs = [pair(ordinal, item, other) for other in others]
            return (sides, received, sent), [joined for joined in pairs if joined is not None]
        received = tuple(item.value if side == ordinal else value for side, value in enumerate(received))
        limit = item.value - distances[1 - ordinal]
        kept = tuple(row for row in sides[1 - ordinal] if row[columns[1 - ordinal]] >= limit)
        sides = (sides[0], kept) if ordinal == 0 else (kept, sides[1])
        marks = []
        for key in (0, 1):
            due = None if None in received else min(received[key], received[1 - key] - distances[key])
            if due is not None and (sent[key] is None or due > sent[key]):
                sent = tuple(due if k == key else value for k, value in enumerate(sent))
                marks.append(flow.Watermark(key, due))
        return (sides, received, sent), marks

    return function


def own_join(name: str, back: int, ahead: int, columns: tuple[str, ...], times: tuple[str, str], **fields: Any) -> Any:
    """A processor of your own with that join; `columns` are those of its rows, `times` the ones with keys 0 and 1."""
    function = joining(back, ahead, (times[0], times[1].removeprefix("right_")), **fields)
    return flow.Custom(name, function=function, by_input=True, columns=columns, keys=dict(enumerate(times)))


def union(inputs: int) -> Any:
    """The identity with several inputs: it merges watermarks by itself, by the least of all inputs for each key."""

    def function(state: Any, item: Any, ordinal: int) -> Made:
        if not isinstance(item, flow.Watermark):
            return state, [item]
        known = dict(state or ())
        known[item.key, ordinal] = item.value
        of_key = [known.get((item.key, number)) for number in range(inputs)]
        due = None if None in of_key else min(of_key)
        sent = known.get((item.key, None))
        marks = []
        if due is not None and (sent is None or due > sent):
            known[item.key, None] = due
            marks.append(flow.Watermark(item.key, due))
        return tuple(known.items()), marks

    return function


def emitted(run: Recorded, vertex: str, target: str) -> dict[int, list[int]]:
    """The watermarks between two vertices, by key."""
    return {key: marks(run, vertex, target, key) for key in (0, 1)}


ORDERS = [[t] for t in range(0, 900, 30)]
DELIVERIES = [[t + 7] for t in range(0, 700, 20)]
BUILT_IN = flow.Join("join", "left.t - 50 <= right.u and right.u <= left.t + 30")
OWN = own_join("join", 50, 30, ("t", "u"), ("t", "u"))


def joined(join: Any, **fields: Any) -> Recorded:
    late = {"partitions": 2, "times": flow.EventTime("t", lag_ms=20)}
    own = {"columns": ["u"], "arrival": "u", "times": flow.EventTime("u", key=1)}
    vertices = [
        source("orders", (), rows=ORDERS, ends=True, **late),
        source("deliveries", (), rows=DELIVERIES, ends=True, **own),
        join,
    ]
    return recorded(vertices, ["orders -> join -> out", "deliveries -> join"], **{"jitter_ms": 0.0, **fields})


@pytest.mark.parametrize("seed", range(3))
def test_a_join_of_ones_own_gives_the_rows_and_watermarks_of_the_built_in_one(seed: int) -> None:
    built_in, own = joined(BUILT_IN, seed=seed), joined(OWN, seed=seed)
    assert multiset(results(own)) == multiset(results(built_in))
    assert len(results(own)) > 80
    assert emitted(own, "join", "out") == emitted(built_in, "join", "out")
    assert all(len(values) > 10 for values in emitted(own, "join", "out").values())


def test_merged_over_all_inputs_a_processor_would_never_get_a_watermark_of_a_key_of_one_input_only() -> None:
    def seen(state: Any, item: Any, *_ordinal: int) -> Made:
        return state, [item] if isinstance(item, flow.Watermark) and item.key == 0 else []

    def passed_on(*, by_input: bool) -> dict[int, list[int]]:
        vertices = [
            source("a", (0, 10)),
            source("b", (0, 10), times=flow.EventTime("t", key=1)),
            flow.Custom("own", function=seen, keys={0: "t"}, by_input=by_input),
        ]
        return emitted(recorded(vertices, ["a -> own -> out", "b -> own"]), "own", "out")

    assert passed_on(by_input=False) == {0: [], 1: []}
    assert passed_on(by_input=True) == {0: [0, 10], 1: []}


def of_file(name: str, *replaced: Any, **sources: Any) -> tuple[Recorded, Recorded]:
    """The recording of a scenario file, and of the same with vertices `replaced`; with fields of its `sources`."""
    dataflow = flow.Dataflow.load(FOLDER / "flows" / f"{name}.yaml")
    vertices = [replace(v, **sources) if isinstance(v, flow.Source) else v for v in dataflow.vertices]
    others = {vertex.name: vertex for vertex in replaced}
    assert others.keys() <= {vertex.name for vertex in vertices}
    own = [others.get(vertex.name, vertex) for vertex in vertices]
    return dataflow.replace(vertices=vertices).record(), dataflow.replace(vertices=own).record()


ORDER = ("t", "id", "p")
DELIVERED = own_join("delivered", 0, 1_000, (*ORDER, *(f"right_{c}" for c in ORDER)), ("t", "right_t"), same="id")
JOINS: dict[str, tuple[str, str, Any]] = {
    "jet_1746": ("delivered", "count", DELIVERED),
    "merge_over_join": ("join", "merge", own_join("join", 100, 100, ("t", "u"), ("t", "u"))),
    "join_over_join": ("joinInner", "joinOuter", own_join("joinInner", 100, 100, ("t", "u"), ("t", "u"))),
}


@pytest.mark.parametrize("name", JOINS)
def test_the_join_of_a_scenario_can_be_one_of_ones_own(name: str) -> None:
    vertex, target, join = JOINS[name]
    built_in, own = of_file(name, join)
    assert results(own) == results(built_in)
    assert kinds(own, vertex, target) == kinds(built_in, vertex, target)
    assert emitted(own, vertex, target) == emitted(built_in, vertex, target)


UNION = flow.Custom("both", function=union(2), by_input=True)
MERGES = ("flink_7728", "hazelcast_20740", "hazelcast_22440", "hazelcast_22440_ended")


@pytest.mark.parametrize("name", MERGES)
def test_while_no_input_is_idle_or_ends_a_union_of_ones_own_gives_what_the_merge_does(name: str) -> None:
    """A processor is not told that one of its inputs is idle or has ended; merging in the engine is."""
    built_in, own = of_file(name, UNION, idle_timeout_ms=0, ends=False)
    (target,) = {queue["target"] for queue in rows(own, "queues", source="both")}
    assert emitted(own, "both", target) == emitted(built_in, "both", target)
    assert emitted(own, "both", target)[0]
    assert multiset(results(own)) == multiset(results(built_in))


def test_a_map_of_several_inputs_is_such_a_union() -> None:
    def merged(vertex: Any) -> Recorded:
        own = {"columns": ["t", "u"], "times": [flow.EventTime("t"), flow.EventTime("u", key=1, lag_ms=30)]}
        vertices = [
            source("a", (), rows=[(t, t + 5) for t in range(0, 300, 20)], partitions=2, parallelism=2, **own),
            source("b", (), rows=[(t, t - 5) for t in range(0, 250, 30)], **own),
            vertex,
        ]
        return recorded(vertices, ["a -> both -> out", "b -> both"], jitter_ms=0.0)

    built_in, own = merged(flow.Map("both", select={"t": "t", "u": "u"})), merged(UNION)
    assert results(own) == results(built_in)
    assert emitted(own, "both", "out") == emitted(built_in, "both", "out")
    assert all(emitted(own, "both", "out").values())


def test_an_ordinal_is_that_of_the_input_and_several_instances_on_it_are_merged() -> None:
    def tagged(state: Any, item: Any, ordinal: int) -> Made:
        if isinstance(item, flow.Watermark):
            return state, [{"input": ordinal, "t": item.value}]
        return state, []

    vertices = [
        source("a", (), rows=[[0], [5], [10], [15]], partitions=2, parallelism=2),
        source("b", (), rows=[[100], [130]], columns=["u"], arrival="u", times="u"),
        flow.Custom("own", function=tagged, by_input=True, columns=["input", "t"], keys={}),
    ]
    run = recorded(vertices, ["a -> own -> out", "b -> own"], jitter_ms=0.0, duration_ms=1_000)
    seen = [(row["input"], row["t"]) for row in results(run)]
    # Of the two instances of `a` the lower one counts, of the inputs `a` and `b` each by itself.
    assert [t for number, t in seen if number == 0] == [0, 5, 10]
    assert [t for number, t in seen if number == 1] == [100, 130]


def test_the_inputs_need_the_same_columns_unless_it_says_what_leaves() -> None:
    vertices = [source("a", (0,)), source("b", (0,), columns=["u"], arrival="u", times=flow.EventTime("u", key=1))]
    edges = ["a -> own -> out", "b -> own"]
    with pytest.raises(Problems, match="'b' brings u, but 'a' brings t"):
        recorded([*vertices, replace(UNION, name="own")], edges)
    run = recorded([*vertices, flow.Custom("own", function=union(2), by_input=True, columns=["t"])], edges)
    (own,) = rows(run, "vertices", vertex="own")
    assert (own["kind"], own["keys"]) == ("custom by input", [(0, "t"), (1, None)])
    vertices[1] = replace(vertices[1], times=[flow.EventTime("u", key=0)])
    with pytest.raises(Problems, match="key 0 is of 't' and, from 'b', of None"):
        recorded([*vertices, flow.Custom("own", function=union(2), by_input=True, columns=["t"])], edges)


def test_what_holds_it_is_the_input_that_has_the_key() -> None:
    run = joined(OWN)
    held = run.explain(at_ms=300, vertex="join", key=1)
    assert {holder.vertex for holder in held.holders} <= {"orders", "deliveries", "join"}
    assert "stuck" not in held.sentence
    vertices = [source("a", (0, 10), idle_timeout_ms=0), source("b", (0, 500), idle_timeout_ms=0), UNION]
    facts = recorded(vertices, ["a -> both -> out", "b -> both"]).explain(at_ms=900, vertex="both").facts
    assert [facts[label] for label in ("holder", "watermark of holder", "row of")] == ["partition 0 of a", 10, 11]
    assert facts["row in each of"] == "partition 0 of a"


def test_checks_judge_it_by_the_watermarks_of_each_input() -> None:
    (sound,) = joined(OWN).check("K7")
    assert sound.verdict == "ok", sound.what

    def hasty(state: Any, item: Any, ordinal: int) -> Made:
        return state, [item] if not isinstance(item, flow.Watermark) or ordinal == 1 else []

    vertices = [
        source("a", (0, 100, 200)),
        source("b", (500, 600, 700), arrival=None),
        flow.Custom("own", function=hasty, by_input=True),
    ]
    run = recorded(vertices, ["a -> own -> out", "b -> own"])
    overtaking, at_once = run.check("K7", "K15")
    assert "left own late, though it had come on time" in overtaking.what
    assert at_once.verdict == "unknown"


def test_a_snapshot_keeps_its_state_and_a_restart_goes_on_from_it() -> None:
    fields = {"guarantee": "exactly_once", "snapshot_every_ms": 100, "faults": [flow.Restart(at_ms=350)]}
    whole, again = joined(OWN), joined(OWN, **fields)
    assert len(rows(again, "executions")) == 2
    assert multiset(results(again, committed=True)) == multiset(results(whole))
    assert queue_between(again, "join", "out")
