"""Queues that fill up, vertices that stand still, calls that are slow or fail, filters that swallow, broken rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.dataflow.sim.flows import (
    count,
    failure,
    line,
    marks,
    outcome,
    queue_between,
    recorded,
    results,
    rows,
    source,
    times,
)
from wmlab import dataflow as flow
from wmlab.core.recording import Recording


def longest(run: Recording) -> int:
    """The most items that a queue held at once."""
    found = 0
    for queue in rows(run, "queues"):
        items = rows(run, "items", queue=queue["queue"])
        # What is taken in the same millisecond may have been taken before the next item was put.
        for at in {item["put_ms"] for item in items}:
            held = sum(i["put_ms"] <= at and (i["taken_ms"] is None or i["taken_ms"] > at) for i in items)
            found = max(found, held)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_vertex_fills_its_queue_and_makes_the_source_wait(seed: int) -> None:
    slow = flow.AsyncMap("slow", select={"t": "t"}, capacity=1, latency=flow.Fixed(15))
    run = line(source("s", range(0, 500, 5), ends=True), slow, queue_size=8, seed=seed)
    assert longest(run) == 8
    assert times(run) == list(range(0, 500, 5))
    assert outcome(run) == "completed"
    assert rows(run, "source_rows")[-1]["at_ms"] > 1_000


def test_a_vertex_that_stands_still_catches_up() -> None:
    stall = flow.Stall("m", at_ms=200, for_ms=500)
    run = line(source("s", range(0, 1_000, 10)), flow.Map("m", select={"t": "t"}), faults=[stall], queue_size=16)
    assert not [row for row in rows(run, "sunk") if 205 < row["at_ms"] < 700]
    assert times(run) == list(range(0, 1_000, 10))
    stood = rows(run, "incidents", kind="stall")
    assert [(row["at_ms"], row["target"], row["detail"]) for row in stood] == [(200, "m", "for 500 ms")]


def test_one_instance_that_stands_still_holds_the_watermark() -> None:
    copies = flow.Map("m", select={"t": "t"}, parallelism=2)
    run = line(source("s", range(0, 1_000, 10)), copies, count(), faults=[flow.Stall("m", instance=1, at_ms=200)])
    assert len(results(run)) <= 2
    assert marks(run, "count", "out")[-1] <= 200


def test_a_stalled_join_side_lets_the_other_side_grow_until_the_limit_fails_the_job() -> None:
    join = flow.Join("join", "left.t - 50 <= right.t <= left.t + 50", limit=40)
    sides = [source("a", range(0, 1_000, 10)), source("b", range(5, 1_000, 10), times=[flow.EventTime("t", key=1)])]
    stalled, sound = (
        recorded([*sides, join], ["a -> join -> out", "b -> join"], faults=faults)
        for faults in ([flow.SilentPartition("b", 0, at_ms=200)], [])
    )
    assert failure(stalled).startswith("join: The join keeps 40 rows at a limit of 40")
    assert rows(stalled, "state", buffer="left")[-1]["size"] > 30
    assert outcome(sound) == "running"


def test_a_filter_that_swallows_everything_lets_watermarks_pass() -> None:
    swallow = flow.SwallowAll("f", at_ms=350)
    run = line(source("s", range(0, 1_000, 100)), flow.Filter("f", "t >= 0"), faults=[swallow], jitter_ms=0.0)
    assert times(run) == [0, 100, 200, 300]
    assert marks(run, "f", "out") == list(range(0, 1_000, 100))


def calling(fault: Any, **fields: Any) -> Recording:
    calls = flow.AsyncMap("call", latency=flow.Fixed(15), capacity=8, **fields)
    return line(source("s", range(0, 300, 10)), calls, faults=[fault])


def test_slow_calls_hold_everything_behind_them_only_when_ordered() -> None:
    fault = flow.SlowCalls("call", by_ms=500, first=1, at_ms=100)
    ordered, unordered = calling(fault), calling(fault, ordered=False)
    assert times(ordered) == list(range(0, 300, 10))
    assert not [row for row in rows(ordered, "sunk") if 120 < row["at_ms"] < 600]
    assert times(unordered)[-1] == 100
    early = [item for item in queue_between(unordered, "call", "out") if item["put_ms"] < 600]
    assert max(item["value"] for item in early if item["kind"] == "watermark") == 100
    assert marks(unordered, "call", "out")[-1] == 290


def test_a_call_that_fails_ends_the_job() -> None:
    run = calling(flow.FailCall("call", at_ms=100))
    assert "call" in failure(run)
    assert [row["outcome"] for row in rows(run, "calls")].count("failed") == 1
    assert [row["kind"] for row in rows(run, "incidents")] == ["fail call", "call fails", "failure"]


def test_an_expression_without_a_value_ends_the_job() -> None:
    run = line(source("s", [1, 0], arrival=None), flow.Map("m", select={"x": "10 / t"}))
    assert "'10 / t' has no value for the row (0,)" in failure(run)
    assert results(run) == [{"x": 10.0}]


def test_a_function_that_returns_other_columns_ends_the_job() -> None:
    def halved(row: dict[str, Any]) -> dict[str, Any]:
        return {"half": row["t"] / 2}

    wrong, right = (line(source("s", [1]), flow.Map("m", function=halved, columns=c)) for c in ([], ["half"]))
    assert failure(wrong) == "halved returned {'half': 0.5}, which is not a row of the columns t."
    assert results(right) == [{"half": 0.5}]


@pytest.mark.parametrize(("watermark", "name"), [((0, 1.5), "value"), ((0, True), "value"), ((0.5, 3), "key")])
def test_a_watermark_of_ones_own_is_of_whole_numbers(watermark: Any, name: str) -> None:
    def marked(state: Any, item: Any) -> Any:
        return state, [flow.Watermark(*watermark)]

    wrong = {"key": watermark[0], "value": watermark[1]}[name]
    told = f"marked returned a watermark whose {name} is {wrong!r}, no whole number."
    assert failure(line(source("s", [1]), flow.Custom("own", function=marked))) == told


def test_what_a_function_returns_is_a_row_as_a_source_has_them() -> None:
    def mapped(value: Any) -> Recording:
        step = flow.Map("m", function=lambda row: {"t": row["t"], "x": value}, columns=["t", "x"])
        return line(source("s", [1]), step)

    assert results(mapped(np.int64(3))) == [{"t": 1, "x": 3}]
    assert results(mapped([1, np.float64(0.5)])) == [{"t": 1, "x": [1, 0.5]}]
    for value in (math.nan, object()):
        assert "not a number, text, truth value or None" in failure(mapped(value))


@pytest.mark.parametrize("answer", [None, (1, "soon"), (1, 2, 3)])
def test_a_policy_that_gives_no_watermark_ends_the_job(answer: Any) -> None:
    policy = flow.EventTime("t", policy=lambda memory, time: answer)
    assert "not a memory with a watermark" in failure(line(source("s", [1], times=policy)))


@pytest.mark.parametrize(
    ("rules", "expected"), [("design", "running"), ("sound", "running"), ("implementation", "failed")]
)
def test_a_stateful_map_refuses_other_keys_than_0_only_as_shipped(rules: str, expected: str) -> None:
    runs = flow.StatefulMap("runs", "t", aggregates={"n": "count()"})
    assert outcome(line(source("s", [1, 2], times=[flow.EventTime("t", key=5)]), runs, rules=rules)) == expected


@pytest.mark.parametrize("rules", flow.Rules.sets)
def test_the_last_watermark_is_delivered_only_by_sound_rules(rules: str) -> None:
    """The document says nothing of an end; by `design` it is like an idle input."""
    slow = source("s", [10, 20], arrival=None, every_ms=100, ends=True)
    run = recorded([slow, source("r", [5, 70], ends=True), flow.Merge("m")], ["s -> m -> out", "r -> m"], rules=rules)
    assert (70 in marks(run, "m", "out")) is (rules == "sound")
    assert outcome(run) == "completed"


NEVER = [
    (flow.AddPartition("s", 1, at_ms=30), "add partition 1 at 30 ms: it was there already from 20 ms on"),
    (flow.RemovePartition("s", 1, at_ms=20), "remove partition 1 at 20 ms: it was not there before 20 ms"),
    (flow.RemovePartition("s", 1, at_ms=70), "remove partition 1 at 70 ms: it was gone from 60 ms on"),
    (flow.SilentPartition("s", 1, at_ms=60), "silent partition 1 at 60 ms: it was gone from 60 ms on"),
    (flow.LatePartition("s", 1, at_ms=90, by_ms=5), "late partition 1 at 90 ms: it was gone from 60 ms on"),
    (
        flow.LatePartition("s", 1, at_ms=5, for_ms=5, by_ms=5),
        "late partition 1 at 5 ms: it was not there before 20 ms",
    ),
]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("fault", "detail"), NEVER)
def test_what_happens_to_a_partition_that_is_not_there_then_is_written_down_and_changes_nothing(
    fault: Any, detail: str, before: bool
) -> None:
    """It makes no difference whether the fault stands before or behind those that count."""
    own = [flow.AddPartition("s", 1, at_ms=20), flow.RemovePartition("s", 1, at_ms=60)]
    read = source("s", range(0, 100, 5), partitions=2)
    without = line(read, count(), faults=own, duration_ms=300)
    run = line(read, count(), faults=[fault, *own] if before else [*own, fault], duration_ms=300)
    never = [(row["target"], row["detail"]) for row in rows(run, "incidents", kind="never happened")]
    assert never == [("s", detail)]
    for table in ("source_rows", "items", "coalescing", "sunk"):
        assert run.table(table) == without.table(table)
    assert len(rows(run, "incidents")) == len(rows(without, "incidents")) + 1


def test_a_fault_that_waits_for_a_call_or_a_snapshot_that_never_comes_says_so_at_the_end() -> None:
    call = flow.AsyncMap("call", select={"t": "t"})
    late = flow.FailCall("call", at_ms=1_500)
    run = line(source("s", range(0, 100, 10)), call, faults=[late, flow.Restart(at_ms=900)], duration_ms=2_000)
    never = [(row["target"], row["detail"]) for row in rows(run, "incidents", kind="never happened")]
    assert never == [("call", "fail call: no call that could fail was made from 1.5 s on")]
    told = run.explain().facts["never happened"]
    assert told == "call (fail call: no call that could fail was made from 1.5 s on)"
    after_the_end = [
        flow.Stall("call", at_ms=1_500),
        flow.SlowCalls("call", at_ms=1_500, by_ms=10),
        flow.SilentPartition("s", 0, at_ms=1_500),
        flow.LatePartition("s", 0, at_ms=1_500, by_ms=10),
        flow.Disorder("s", at_ms=1_500, by_ms=10),
    ]
    ended = line(source("s", range(0, 100, 10), ends=True), call, faults=after_the_end, duration_ms=2_000)
    said = [(row["target"], row["detail"]) for row in rows(ended, "incidents", kind="never happened")]
    targets = ["call", "call", "s", "s", "s"]
    kinds = [fault.kind.replace("_", " ") for fault in after_the_end]
    ends = [f"{kind} at 1.5 s: the run had ended before" for kind in kinds]
    assert said == list(zip(targets, ends, strict=True))
    told = ended.explain().facts["never happened"]
    assert told == tuple(
        f"{target} ({kind} at 1.5 s: the run had ended before)" for kind, target in zip(kinds, targets, strict=True)
    )
    faults = [flow.FailCall("call"), flow.Restart(at_ms=500, after_snapshot=True)]
    failed = line(source("s", range(0, 40, 10)), call, faults=faults, guarantee="at_least_once")
    never = [(row["target"], row["detail"]) for row in rows(failed, "incidents", kind="never happened")]
    assert never == [(failed.name, "1 restart: the run had ended before")]
