"""A processor of your own may generate, drop and delay watermarks; an old one that ignores their keys may not."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pytest

from tests.dataflow.sim.flows import count, failure, line, marks, results, rows, source
from wmlab import dataflow as flow
from wmlab.core.errors import FunctionError, ModelError, ScenarioError
from wmlab.core.values import Problems

Made = tuple[Any, list[Any]]
MOMENTS = range(0, 400, 20)


def forwarding(state: Any, item: Any) -> Made:
    return state, [item]


def generating(highest: Any, item: Any) -> Made:
    """A lag of 30 behind the highest time, every second time only."""
    if isinstance(item, flow.Watermark):
        return highest, []
    mark = item["t"] - 30
    return (mark, [flow.Watermark(0, mark), item]) if mark > highest + 20 else (highest, [item])


def run(function: Any, times: Any = "t", **fields: Any) -> Any:
    return line(source("s", MOMENTS, times=times), flow.Custom("own", function=function, **fields), count())


def test_one_that_forwards_is_as_if_it_were_not_there() -> None:
    assert results(run(forwarding)) == results(line(source("s", MOMENTS), count())) != []


def test_it_generates_watermarks_where_the_source_has_none() -> None:
    with pytest.raises(Problems, match="carries no watermark here"):
        run(generating, times=())
    generated = run(generating, times=(), keys={0: "t"}, initial=-1_000)
    assert marks(generated, "own", "count") == list(range(-30, 351, 40))
    assert [row["end"] for row in results(generated)] == [100, 200, 300]


def test_it_drops_watermarks_and_then_no_window_has_a_result() -> None:
    dropped = run(lambda state, item: (state, [] if isinstance(item, flow.Watermark) else [item]))
    assert marks(dropped, "own", "count") == results(dropped) == []
    assert len(rows(dropped, "items", kind="event")) == 2 * len(MOMENTS)


def refusing(times: int) -> Any:
    """Every watermark is refused so many times; what is refused leaves when it is taken."""

    def function(refused: int, item: Any) -> Any:
        if not isinstance(item, flow.Watermark):
            return refused, [item]
        return (refused + 1, [], flow.AGAIN) if refused < times else (0, [item])

    return function


@pytest.mark.parametrize("jitter_ms", [0.0, 2.0])
def test_what_it_refuses_is_offered_again_a_millisecond_later_before_anything_else(jitter_ms: float) -> None:
    def both(function: Any) -> Any:
        steps = [source("s", MOMENTS), flow.Custom("own", function=function, initial=0), count()]
        return line(*steps, jitter_ms=jitter_ms, duration_ms=4_000)

    at_once, later = both(forwarding), both(refusing(5))
    assert results(later) == results(at_once) != []
    assert marks(later, "own", "count") == marks(at_once, "own", "count")
    puts = [[row["put_ms"] for row in rows(run, "items", queue=1, kind="watermark")] for run in (at_once, later)]
    assert all(after >= before + 5 for before, after in zip(*puts, strict=True))
    if not jitter_ms:
        assert puts[1][0] == puts[0][0] + 5


def test_what_it_refuses_for_good_fills_its_queue_and_its_source_stands_still() -> None:
    """As a Jet processor applies back pressure: `tryProcessWatermark` returns false."""
    step = flow.Custom("own", function=lambda state, item: (state, [], flow.AGAIN))
    stuck = line(source("s", MOMENTS), step, count(), queue_size=8)
    waiting = rows(stuck, "items", queue=0, taken_ms=None)
    assert len(waiting) == 8
    assert rows(stuck, "items", queue=1) == results(stuck) == []
    assert [row["target"] for row in rows(stuck, "incidents", kind="not read")] == ["s"]


def test_what_leaves_beside_a_refusal_leaves_once_each_time() -> None:
    """A row in three parts, one for each time that it is offered."""

    def in_parts(part: int, item: Any) -> Any:
        if isinstance(item, flow.Watermark):
            return part, [item]
        return (part + 1, [item], flow.AGAIN) if part < 2 else (0, [item])

    parts = line(source("s", [10, 20]), flow.Custom("own", function=in_parts, initial=0))
    times = [json.loads(row["row"])["t"] for row in rows(parts, "sunk")]
    assert times == [10, 10, 10, 20, 20, 20]


def test_it_delays_each_watermark_until_the_next_one_and_results_come_later() -> None:
    def delaying(before: Any, item: Any) -> Made:
        if not isinstance(item, flow.Watermark):
            return before, [item]
        return item.value, [] if before is None else [flow.Watermark(0, before)]

    at_once, delayed = run(forwarding), run(delaying)
    assert marks(delayed, "own", "count") == marks(at_once, "own", "count")[:-1]
    sunk = [{row["row"]: row["at_ms"] for row in rows(made, "sunk")} for made in (at_once, delayed)]
    assert len(sunk[1]) >= 2
    assert all(sunk[0][row] < at_ms for row, at_ms in sunk[1].items())


def test_it_may_count_rows_in_its_state_and_give_other_columns() -> None:
    def numbered(state: Any, item: Any) -> Made:
        return (state, [item]) if isinstance(item, flow.Watermark) else (state + 1, [{"t": item["t"], "n": state}])

    own = flow.Custom("own", function=numbered, initial=1, columns=["t", "n"])
    assert results(line(source("s", (0, 10, 20)), own)) == [{"t": 10 * n, "n": n + 1} for n in range(3)]


def test_a_watermark_that_is_not_above_the_one_before_fails_the_job() -> None:
    """Rule 1: monotonicity."""

    def twice(state: Any, item: Any) -> Made:
        return state, [item, item] if isinstance(item, flow.Watermark) else [item]

    assert failure(run(twice)) == "own: watermark 0 of key 0 is emitted behind 0"


@pytest.mark.parametrize(
    ("answer", "message"),
    [([], "not a state with a list of items"), ((None, [{"x": 1}]), "not a row of the columns t")],
)
def test_what_is_no_answer_is_refused(answer: Any, message: str) -> None:
    assert message in failure(run(lambda state, item: answer))


def test_a_key_needs_a_column_and_no_file_holds_the_function() -> None:
    with pytest.raises(Problems, match="no column is called 'x'"):
        run(forwarding, keys={0: "x"})
    vertices = [source("s", MOMENTS), flow.Custom("own", function=forwarding), flow.Sink("out")]
    with pytest.raises(ScenarioError, match="'own' has a Python function as function"):
        flow.Dataflow("d", vertices=vertices, edges=["s -> own -> out"]).to_yaml()


LONG_MAX_VALUE = 2**63 - 1


def test_the_idle_message_of_the_document_is_a_watermark_of_long_max_value_with_key_0() -> None:
    """Source: "Keyed watermark support", Idle message."""

    def silent_after_200(state: Any, item: Any) -> Made:
        is_row = not isinstance(item, flow.Watermark)
        if is_row and item["t"] == 200:
            return state, [item, flow.Watermark(0, LONG_MAX_VALUE)]
        return state, [] if is_row and item["t"] > 200 else [item]

    items = rows(run(silent_after_200, times=(), keys={0: "t"}), "items", kind="idle")
    # It leaves the processor and, as all inputs of the window are idle, the window.
    assert [(item["key"], item["value"]) for item in items] == [(None, None)] * 2
    assert (
        flow.permutations({"a": [5, LONG_MAX_VALUE], "b": [7]}).finals
        == flow.permutations({"a": [5, "idle"], "b": [7]}).finals
    )


def test_only_an_idle_message_with_key_0_is_allowed() -> None:
    """Source: "Keyed watermark support", Handling of keyed idle messages."""
    refused = failure(run(lambda state, item: (state, [flow.Watermark(1, LONG_MAX_VALUE)])))
    assert "of key 1 is an idle message, and no idle message has a key but 0" in refused
    with pytest.raises(ModelError, match="no idle message has a key but 0"):
        flow.permutations({"a": [(1, LONG_MAX_VALUE)], "b": [7]})
    beyond = failure(run(lambda state, item: (state, [flow.Watermark(0, LONG_MAX_VALUE + 1)])))
    assert "outside the times a watermark can carry" in beyond


def two_times(vertex: Any, **fields: Any) -> Any:
    """Rows of a time t with key 0 and another one, u = t + 50, with key 1, into a vertex."""
    keys = flow.EventTime("t", **fields), flow.EventTime("u", key=1)
    return line(source("s", (), rows=[(t, t + 50) for t in MOMENTS], columns=["t", "u"], times=keys), vertex)


@pytest.mark.parametrize("vertex", [flow.LateDrop("old", "t", ignores_key=True), count("old", ignores_key=True)])
def test_one_that_ignores_the_key_sees_values_go_back_and_fails(vertex: Any) -> None:
    assert failure(two_times(vertex)) == "old: watermark 20 of key 0 is emitted behind 50"


@pytest.mark.parametrize(("ignores_key", "dropped"), [(False, []), (True, list(MOMENTS))])
def test_where_only_the_other_key_comes_it_drops_rows_that_are_on_time(ignores_key: bool, dropped: list[int]) -> None:
    drop = flow.LateDrop("old", "t", ignores_key=ignores_key)
    assert [
        row["time"] for row in rows(two_times(drop, policy=lambda memory, time: (memory, None)), "drops")
    ] == dropped


def test_a_watermark_of_a_key_that_was_not_declared_is_refused() -> None:
    refused = failure(run(lambda state, item: (state, [flow.Watermark(5, 10)])))
    assert refused == "own: <lambda> returned a watermark of key 5; the keys that leave own are 0."


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: flow.Custom("v", function=forwarding, by_input=True), r"function: .*3 arguments, \(state, item, ord"),
        (lambda: flow.Custom("v", function=lambda state: state), r"function: must take 2 arguments, \(state, item\)"),
        (lambda: flow.Map("v", function=forwarding, columns=["t"]), r"function: must take 1 argument, \(row\)"),
        (lambda: flow.AsyncMap("v", function=forwarding, columns=["t"]), r"function: must take 1 argument, \(row\)"),
        (lambda: flow.Filter("v", where=forwarding), r"where: must take 1 argument, \(row\) \(got forwarding\(state"),
        (lambda: source("v", (), where=forwarding), r"where: must take 1 argument, \(row\)"),
        (lambda: flow.EventTime("t", policy=len), r"policy: must take 2 arguments, \(memory, time\)"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_when_its_vertex_is_made(made: Any, words: str) -> None:
    with pytest.raises(Problems, match=words):
        made()


def wrong(*given: Any) -> Any:
    return {}["missing"] if given else None


@pytest.mark.parametrize(
    ("vertex", "words"),
    [
        (flow.Map("v", function=wrong, columns=["t"]), r"v: wrong raised KeyError: 'missing' for the row {'t': 0}"),
        (flow.FlatMap("v", function=wrong, columns=["t"]), r"v: wrong raised .* for the row {'t': 0}"),
        (flow.AsyncMap("v", function=wrong, columns=["t"]), r"v: wrong raised .* for the row {'t': 0}"),
        (flow.Filter("v", where=wrong), r"v: wrong raised .* for the row {'t': 0}"),
        (flow.Custom("v", function=wrong), r"v: wrong raised .* for the watermark 0 of key 0 in the state None"),
        (source("v", MOMENTS, where=wrong), r"v: wrong raised .* for the row {'t': 0}"),
        (source("v", MOMENTS, times=flow.EventTime("t", policy=wrong)), r"v: wrong raised .* for the time 0 with the"),
    ],
)
def test_an_error_in_a_function_names_the_vertex_and_the_item_and_keeps_its_traceback(vertex: Any, words: str) -> None:
    chain = [vertex] if isinstance(vertex, flow.Source) else [source("s", MOMENTS, ends=True), vertex]
    with pytest.raises(FunctionError, match=words) as raised:
        line(*chain)
    assert "To repair it: correct the function" in str(raised.value)
    causes = []
    error: BaseException | None = raised.value
    while error is not None:
        causes.append(error)
        error = error.__cause__
    (own,) = [cause for cause in causes if isinstance(cause, KeyError)]
    names = [frame.name for frame in traceback.extract_tb(own.__traceback__)]
    assert names[-1] == "wrong"
