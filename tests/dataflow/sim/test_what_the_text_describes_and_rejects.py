"""A time per input of a window, watermarks of grouped times, calls that ignore keys, and a lag policy of your own."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.dataflow.sim.flows import count, kinds, line, marks, queue_between, recorded, results, rows, source
from wmlab import dataflow as flow
from wmlab.core.errors import ScenarioError
from wmlab.core.values import Problems
from wmlab.dataflow.answers.explain import explain
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import Idle, Watermark
from wmlab.dataflow.model.processor import Deviations
from wmlab.dataflow.model.source import EventTimeMapper, OwnLag

T_AND_U = {"columns": ["t", "u"], "idle_timeout_ms": 50}
ORDERED = source("a", (), rows=[(t, -1) for t in range(0, 300, 30)], **T_AND_U)
DELIVERED = source("b", (), rows=[(t, t + 5) for t in range(0, 300, 60)], **(T_AND_U | {"times": "u"}))


def both(**fields: Any) -> Any:
    return recorded([ORDERED, DELIVERED, count(**fields)], ["a -> count -> out", "b -> count"])


def test_a_window_reads_the_time_of_each_input_from_its_own_column() -> None:
    run = both(columns=["t", "u"])
    inputs = [t for t, _ in ORDERED.rows] + [u for _, u in DELIVERED.rows]
    assert results(run) == [
        {"start": start, "end": start + 100, "n": sum(start <= time < start + 100 for time in inputs)}
        for start in (0, 100)
    ]
    assert rows(run, "drops") == []
    waiting = explain(run, window=300, at_ms=9_000)
    assert "The window from 200 ms to 300 ms of count (rows: " in waiting.sentence


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "key 0 is of 't' and, from 'b', of 'u'"),
        (["t"], "needs one column for each of 2 inputs"),
        (["t", "x"], "no column is called 'x'"),
        (["u", "t"], "must begin with column, 't'"),
    ],
)
def test_the_columns_of_a_window_fit_its_inputs(columns: list[str], message: str) -> None:
    with pytest.raises(Problems, match=message):
        both(columns=columns)


PAIRS = [(t, t - 30 * (n % 4)) for n, t in enumerate(range(0, 900, 20))]


def grouped(**fields: Any) -> Any:
    """Rows of two times, u being up to 90 before t; the window counts by u."""
    times = [flow.EventTime("t"), flow.EventTime("u", key=1, lag_ms=90)]
    return line(source("s", (), rows=PAIRS, columns=["t", "u"], times=times), count(by="u", **fields))


def test_the_query_of_the_document_is_a_window_over_one_time_that_groups_by_another() -> None:
    times = [flow.EventTime("time1"), flow.EventTime("time2", key=1)]
    read = [(700 * n, 1_000 * (n // 4)) for n in range(20)]
    my_stream = flow.Source("my_stream", columns=["time1", "time2"], rows=read, times=times, ends=True)
    window = flow.Window("window", "5 s", column="time1", by=["time2"], aggregates={"count": "count()"})
    names = {"window_start_inner": "start", "window_end_inner": "end", "time2": "time2", "count": "count"}
    run = line(my_stream, window, flow.Map("select", select=names))
    assert rows(run, "vertices", vertex="select")[0]["keys"] == [(0, "window_end_inner")]
    counted = Counter((time1 // 5_000 * 5_000, time1 // 5_000 * 5_000 + 5_000, time2) for time1, time2 in read)
    found = [tuple(row[name] for name in names) for row in results(run)]
    assert sorted(found) == sorted((*group, number) for group, number in counted.items())


def test_grouped_times_go_on_at_the_lowest_of_all_groups_that_are_held() -> None:
    run = grouped(grouped_times=True)
    assert rows(run, "vertices", vertex="count")[0]["keys"] == [(0, "end"), (1, "u")]
    promised, seen = -1_000, 0
    for item in queue_between(run, "count", "out"):
        if item["kind"] == "event":
            assert json.loads(item["row"])["u"] >= promised
            seen += promised > -1_000
        elif item["key"] == 1:
            promised = item["value"]
    assert seen > 20
    # Nothing waits longer than for the groups of the last window, which is still open.
    assert marks(run, "count", "out", key=1)[-1] == min(u for t, u in PAIRS if t >= 800)


def test_grouped_times_cost_a_look_at_every_group() -> None:
    visited = [row["size"] for row in rows(grouped(grouped_times=True), "state", buffer="visited")]
    assert visited == sorted(visited)
    assert visited[-1] > 100
    without = grouped()
    assert rows(without, "state", buffer="visited") == []
    assert marks(without, "count", "out", key=1) == []
    assert rows(without, "vertices", vertex="count")[0]["keys"] == [(0, "end")]


@pytest.mark.parametrize("column", ["t", "u"])
def test_the_time_in_the_column_of_a_window_drives_it_and_the_other_time_is_dropped(column: str) -> None:
    times = [flow.EventTime("t"), flow.EventTime("u", key=1, lag_ms=90)]
    run = line(source("s", (), rows=PAIRS, columns=["t", "u"], times=times), count(column=column))
    driving = [row[("t", "u").index(column)] for row in PAIRS]
    counted = {row["end"]: row["n"] for row in results(run)}
    assert counted == {end: sum(end - 100 <= time < end for time in driving) for end in counted}
    assert len(counted) > 5
    keys = {row["key"] for row in queue_between(run, "count", "out") if row["kind"] == "watermark"}
    assert keys == {("t", "u").index(column)}


def test_a_window_emits_what_a_watermark_completes_before_that_watermark() -> None:
    window = flow.Window("count", 100, column="t", aggregates={"n": "count()"})
    run = line(source("s", range(0, 500, 20)), window)
    ends, promised = [], -1
    for item in queue_between(run, "count", "out"):
        if item["kind"] == "watermark":
            assert all(end <= item["value"] for end in ends)
            ends, promised = [], item["value"]
        else:
            ends.append(json.loads(item["row"])["end"])
            assert promised < ends[-1]
    assert promised == 480
    assert len(results(run)) == 4


STEPS = {
    "a filter": lambda: flow.Filter("step", "t < 0"),
    "a flat map": lambda: flow.FlatMap("step", select=[{"t": "t"}, {"t": "t + 1"}]),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_forwards_every_watermark_whatever_it_makes_of_the_rows(name: str) -> None:
    run = line(source("s", range(0, 100, 10)), STEPS[name]())
    assert marks(run, "step", "out") == marks(run, "s", "step") == list(range(0, 100, 10))
    assert len(results(run)) == {"a filter": 0, "a flat map": 20}[name]


def test_a_merge_forwards_a_key_of_all_its_inputs_and_never_one_of_a_single_input() -> None:
    """Source: "Keyed watermark support", Changes to union/merge processor."""

    def merged(key: int) -> dict[int, list[int]]:
        times = [flow.EventTime("t", key=key)]
        inputs = [source("a", range(0, 100, 20)), source("b", range(10, 110, 20), times=times)]
        run = recorded([*inputs, flow.Merge("both")], ["a -> both -> out", "b -> both"], jitter_ms=0.0)
        return {each: marks(run, "both", "out", key=each) for each in (0, 1)}

    assert merged(key=0) == {0: [*range(0, 90, 10)], 1: []}
    assert merged(key=1) == {0: [], 1: []}


BOTH = [flow.EventTime("t"), flow.EventTime("u", key=1)]


def called(**fields: Any) -> Any:
    """Two rows with two times, whose calls take long, so that watermarks of both keys wait behind them."""
    reads = source("s", (), rows=[(0, 500), (10, 510), (900, 1_400)], columns=["t", "u"], times=BOTH)
    run = line(reads, flow.AsyncMap("call", latency=flow.Fixed(300), **fields))
    return {key: marks(run, "call", "out", key=key) for key in (0, 1)}


def test_ordered_calls_that_ignore_keys_lose_the_watermark_of_the_other_key() -> None:
    assert called() == {0: [0, 10, 900], 1: [500, 510, 1_400]}
    assert called(ignores_key=True) == {0: [0, 900], 1: [500, 510, 1_400]}


def test_unordered_calls_that_ignore_keys_promise_the_one_time_for_the_other() -> None:
    assert called(ordered=False) == {0: [0, 10, 900], 1: [500, 510, 1_400]}
    assert called(ordered=False, ignores_key=True) == {0: [0, 500, 510, 900, 1_400], 1: []}


IDLE_SOON = {"idle_timeout_ms": 100}


def merged_with_a_join(**fields: Any) -> Any:
    """The first example of the text: a join of scan1 (key 0) and scan2 (key 1), merged with scan3 (both keys)."""
    vertices = [
        source("scan1", (0, 20), **IDLE_SOON),
        source("scan2", (0, 20), columns=["u"], arrival="u", times=BOTH[1:], **IDLE_SOON),
        source("scan3", (), columns=["t", "u"], rows=[(t, t) for t in range(0, 600, 20)], times=BOTH, **IDLE_SOON),
        flow.Join("join", "left.t - 50 <= right.u and right.u <= left.t + 50"),
        flow.Merge("merge"),
        count("aggr"),
    ]
    edges = ["scan1 -> join -> merge -> aggr -> out", "scan2 -> join", "scan3 -> merge"]
    return recorded(vertices, edges, jitter_ms=0.0, **fields)


def test_the_dag_of_two_scans_goes_on_without_the_one_that_sees_no_data() -> None:
    """scan1 -> map1 -> aggr <- map2 <- scan2. Source: "Keyed watermark support", Handling of keyed idle messages."""
    vertices = [
        source("scan1", (), **IDLE_SOON),
        source("scan2", range(0, 600, 20)),
        *(flow.Map(name, select={"t": "t"}) for name in ("map1", "map2")),
        count("aggr"),
    ]
    run = recorded(vertices, ["scan1 -> map1 -> aggr -> out", "scan2 -> map2 -> aggr"], jitter_ms=0.0)
    assert kinds(run, "scan1", "map1") == kinds(run, "map1", "aggr") == ["idle"]
    first = rows(run, "sunk")[0]
    assert (first["at_ms"], json.loads(first["row"])["end"]) == (100, 100)
    assert [row["end"] for row in results(run)] == [100, 200, 300, 400, 500]


KEYED_IDLE = {"rules": flow.Rules(keyed_idle=True)}


def test_keyed_idle_messages_of_two_keys_never_make_a_join_idle() -> None:
    """Both scans are idle, each for its own key, and the join for none; what scan3 has is held for ever."""
    assert [row["end"] for row in results(merged_with_a_join())][:4] == [100, 200, 300, 400]
    stuck = merged_with_a_join(**KEYED_IDLE)
    assert [row["key"] for row in queue_between(stuck, "scan1", "join") if row["kind"] == "idle"] == [0]
    assert "idle" not in kinds(stuck, "join", "merge")
    assert results(stuck) == []


def test_an_input_can_be_idle_for_one_key_and_is_active_again_for_all_with_a_row() -> None:
    coalescer = KeyedCoalescer(2, Deviations(keyed_idle=True))
    updates = [
        (0, Watermark(0, 10), ()),
        (0, Watermark(1, 10), ()),
        (1, Watermark(0, 50), (Watermark(0, 10),)),
        (1, Watermark(1, 60), (Watermark(1, 10),)),
        (0, Idle(0), (Watermark(0, 50),)),
        (1, Watermark(0, 70), (Watermark(0, 70),)),
        (1, Watermark(1, 80), ()),
        (1, Idle(0), (Idle(0),)),
        (0, (), ()),
        (1, Watermark(0, 90), ()),
        (0, Watermark(0, 80), (Watermark(0, 80),)),
    ]
    for number, (index, item, wanted) in enumerate(updates):
        assert coalescer.step(index, item) == wanted, number


@pytest.mark.parametrize("ordered", [True, False])
def test_keyed_idle_messages_wait_for_the_calls_before_them(ordered: bool) -> None:
    calls = flow.AsyncMap("call", latency=flow.Fixed(300), ordered=ordered)
    run = line(source("s", (0, 10), **IDLE_SOON), calls, **KEYED_IDLE)
    (idle,) = [row for row in queue_between(run, "call", "out") if row["kind"] == "idle"]
    assert (idle["key"], idle["put_ms"]) >= (0, 310)


def slowest_so_far(memory: Any, time: int) -> tuple[Any, int | None]:
    """Behind the highest time by the largest step back so far; nothing before the third row."""
    highest, back, number = memory or (time, 0, 0)
    highest, back = max(highest, time), max(back, highest - time)
    return (highest, back, number + 1), highest - back if number >= 2 else None


def with_own_policy(**fields: Any) -> flow.Source:
    times = flow.EventTime("t", policy=slowest_so_far, **fields)
    return source("s", [0, 100, 70, 200, 150, 300, 400], arrival=None, times=times)


def test_a_lag_policy_of_ones_own_is_asked_for_every_row() -> None:
    assert marks(line(with_own_policy()), "s", "out") == [70, 170, 250, 350]
    assert marks(line(with_own_policy(lag_ms=20)), "s", "out") == [50, 150, 230, 330]


def test_each_partition_has_a_memory_of_its_own() -> None:
    mapper = EventTimeMapper(policy=OwnLag(function=lambda memory, time: ((memory or 0) + 1, time - (memory or 0))))
    state = mapper.start(2)
    for partition, time in [(0, 10), (0, 20), (1, 30), (1, 40)]:
        items = mapper.report(state, partition=partition, time=time, now_ms=0)
    assert (state.marks(), items) == ([19, 39], ())
    assert mapper.report(mapper.start(1), partition=0, time=5, now_ms=0) == (Watermark(0, 5),)


def test_no_file_holds_a_policy_of_ones_own_but_a_recording_of_it_can_be_asked() -> None:
    run = line(with_own_policy(), count())
    with pytest.raises(ScenarioError, match="'s' has a Python function as policy"):
        flow.Dataflow("d", vertices=[with_own_policy(), flow.Sink("out")], edges=["s -> out"]).to_yaml()
    assert "slowest_so_far" in str(run.scenario)
    assert explain(run, window=(300, 400), at_ms=9_000).cause == "waiting"
