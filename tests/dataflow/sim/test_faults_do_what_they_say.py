"""Queues that fill up, vertices that stand still, calls that are slow or fail, filters that swallow, broken rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.dataflow.sim.flows import count, marks, outcome, queue_between, recorded, results, rows, source
from wmlab import dataflow as flow
from wmlab.core.recording import Recording


def longest(run: Recording) -> dict[int, int]:
    """The most items that each queue held at once."""
    found = {}
    for queue in rows(run, "queues"):
        items = rows(run, "items", queue=queue["queue"])
        # What is taken in the same millisecond may have been taken before the next item was put.
        times = {item["put_ms"] for item in items}
        found[queue["queue"]] = max(
            sum(i["put_ms"] <= at and (i["taken_ms"] is None or i["taken_ms"] > at) for i in items) for at in times
        )
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_vertex_fills_its_queue_and_makes_the_source_wait(seed: int) -> None:
    vertices = [source("s", range(0, 500, 5), ends=True), flow.Map("slow", select={"t": "t"}, turn_ms=15)]
    run = recorded(vertices, ["s -> slow -> out"], queue_size=8, seed=seed)
    assert max(longest(run).values()) == 8
    assert [row["t"] for row in results(run)] == list(range(0, 500, 5))
    assert outcome(run) == "completed"
    read = [row["at_ms"] for row in rows(run, "source_rows")]
    assert read[-1] > 1_000


def test_a_vertex_that_stands_still_catches_up() -> None:
    vertices = [source("s", range(0, 1_000, 10)), flow.Map("m", select={"t": "t"})]
    run = recorded(vertices, ["s -> m -> out"], faults=[flow.Stall("m", at_ms=200, for_ms=500)], queue_size=16)
    assert not [row for row in rows(run, "sunk") if 205 < row["at_ms"] < 700]
    assert [row["t"] for row in results(run)] == list(range(0, 1_000, 10))
    stood = [row for row in rows(run, "incidents") if row["kind"] == "stall"]
    assert [(row["at_ms"], row["target"], row["detail"]) for row in stood] == [(200, "m", "for 500 ms")]


def test_one_instance_that_stands_still_holds_the_watermark() -> None:
    vertices = [source("s", range(0, 1_000, 10)), flow.Map("m", select={"t": "t"}, parallelism=2), count()]
    run = recorded(vertices, ["s -> m -> count -> out"], faults=[flow.Stall("m", instance=1, at_ms=200)])
    assert len(results(run)) <= 2
    assert marks(run, "count", "out")[-1] <= 200


def test_a_stalled_join_side_lets_the_other_side_grow_until_the_limit_fails_the_job() -> None:
    join = flow.Join("join", "left.t - 50 <= right.t <= left.t + 50", limit=40)
    sides = [source("a", range(0, 1_000, 10)), source("b", range(5, 1_000, 10), times=[flow.EventTime("t", key=1)])]
    fault = flow.SilentPartition("b", 0, at_ms=200)
    run = recorded([*sides, join], ["a -> join -> out", "b -> join"], faults=[fault])
    (failed,) = rows(run, "executions")
    assert failed["outcome"] == "failed"
    assert failed["reason"].startswith("join: ")
    assert "limit of 40" in failed["reason"]
    sizes = [row["size"] for row in rows(run, "state", buffer="left")]
    assert sizes[-1] > 30
    sound = recorded([*sides, join], ["a -> join -> out", "b -> join"])
    assert outcome(sound) == "running"


def test_a_filter_that_swallows_everything_lets_watermarks_pass() -> None:
    vertices = [source("s", range(0, 1_000, 100)), flow.Filter("f", "t >= 0")]
    run = recorded(vertices, ["s -> f -> out"], faults=[flow.SwallowAll("f", at_ms=350)], jitter_ms=0.0)
    assert [row["t"] for row in results(run)] == [0, 100, 200, 300]
    assert marks(run, "f", "out") == list(range(0, 1_000, 100))


def calling(**fields: Any) -> list[Any]:
    return [source("s", range(0, 300, 10)), flow.AsyncMap("call", latency=flow.Fixed(15), capacity=8, **fields)]


def test_slow_calls_hold_everything_behind_them_only_when_ordered() -> None:
    fault = flow.SlowCalls("call", by_ms=500, first=1, at_ms=100)
    ordered = recorded(calling(), ["s -> call -> out"], faults=[fault])
    assert [row["t"] for row in results(ordered)] == list(range(0, 300, 10))
    assert not [row for row in rows(ordered, "sunk") if 120 < row["at_ms"] < 600]
    unordered = recorded(calling(ordered=False), ["s -> call -> out"], faults=[fault])
    (last,) = [row["t"] for row in results(unordered)][-1:]
    assert last == 100
    early = [item for item in queue_between(unordered, "call", "out") if item["put_ms"] < 600]
    assert max(item["value"] for item in early if item["kind"] == "watermark") == 100
    assert marks(unordered, "call", "out")[-1] == 290


def test_a_call_that_fails_ends_the_job() -> None:
    run = recorded(calling(), ["s -> call -> out"], faults=[flow.FailCall("call", at_ms=100)])
    assert outcome(run) == "failed"
    assert [row["outcome"] for row in rows(run, "calls")].count("failed") == 1
    assert "call" in rows(run, "executions")[0]["reason"]
    assert [row["kind"] for row in rows(run, "incidents")] == ["fail call", "call fails", "failure"]


def test_an_expression_without_a_value_ends_the_job() -> None:
    run = recorded([source("s", [1, 0], arrival=None), flow.Map("m", select={"x": "10 / t"})], ["s -> m -> out"])
    assert outcome(run) == "failed"
    assert "'10 / t' has no value for the row (0,)" in rows(run, "executions")[0]["reason"]
    assert results(run) == [{"x": 10.0}]


def test_a_function_that_returns_other_columns_ends_the_job() -> None:
    def halved(row: dict[str, Any]) -> dict[str, Any]:
        return {"half": row["t"] / 2}

    wrong = recorded([source("s", [1]), flow.Map("m", function=halved)], ["s -> m -> out"])
    assert rows(wrong, "executions")[0]["reason"] == "halved returned {'half': 0.5}, which is no row of the columns t."
    right = recorded([source("s", [1]), flow.Map("m", function=halved, columns=["half"])], ["s -> m -> out"])
    assert results(right) == [{"half": 0.5}]


def test_what_a_function_returns_is_a_row_as_a_source_has_them() -> None:
    def mapped(value: Any) -> Any:
        step = flow.Map("m", function=lambda row: {"t": row["t"], "x": value}, columns=["t", "x"])
        return recorded([source("s", [1]), step], ["s -> m -> out"])

    assert results(mapped(np.int64(3))) == [{"t": 1, "x": 3}]
    assert results(mapped([1, np.float64(0.5)])) == [{"t": 1, "x": [1, 0.5]}]
    for value in (math.nan, object()):
        assert "no number, text, truth value or None" in rows(mapped(value), "executions")[0]["reason"]


@pytest.mark.parametrize("answer", [None, (1, "soon"), (1, 2, 3)])
def test_a_policy_that_gives_no_watermark_ends_the_job(answer: Any) -> None:
    times = flow.EventTime("t", policy=lambda memory, time: answer)
    (row,) = rows(recorded([source("s", [1], times=times)], ["s -> out"]), "executions")
    assert (row["outcome"], "no memory with a watermark" in row["reason"]) == ("failed", True)


@pytest.mark.parametrize(("mode", "expected"), [("design", "running"), ("hz", "failed")])
def test_a_stateful_map_refuses_other_keys_than_0_only_as_shipped(mode: str, expected: str) -> None:
    vertices = [
        source("s", [1, 2], times=[flow.EventTime("t", key=5)]),
        flow.StatefulMap("runs", "t", aggregates={"n": "count()"}),
    ]
    assert outcome(recorded(vertices, ["s -> runs -> out"], mode=mode)) == expected


def test_an_edge_of_a_lower_priority_is_drained_first() -> None:
    vertices = [source("a", range(0, 100, 10), ends=True), source("b", range(0, 300, 10), ends=True), flow.Merge("m")]
    edges = [flow.Edge("a", "m", priority=1), flow.Edge("b", "m", priority=0), "m -> out"]
    run = recorded(vertices, edges)
    assert [row["t"] for row in results(run)][-10:] == list(range(0, 100, 10))
    assert [row["t"] for row in results(run)][:30] == list(range(0, 300, 10))


@pytest.mark.parametrize("mode", ["design", "hz"])
def test_the_last_watermark_is_delivered_only_as_designed(mode: str) -> None:
    slow = source("s", [10, 20], arrival=None, every_ms=100, ends=True)
    run = recorded([slow, source("r", [5, 70], ends=True), flow.Merge("m")], ["s -> m -> out", "r -> m"], mode=mode)
    assert (70 in marks(run, "m", "out")) is (mode == "design")
    assert outcome(run) == "completed"
