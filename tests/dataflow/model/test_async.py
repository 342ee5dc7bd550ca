"""Asynchronous steps: order, capacity, watermarks that wait for rows in flight, and edge cases that no vector has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.dataflow.model.driving import Driven, rows
from wmlab.dataflow.model.async_map import AsyncOrdered, AsyncUnordered, UnorderedCalls
from wmlab.dataflow.model.processor import Call, JobFailedError, Reason

A = ("a",)
BOTH = pytest.mark.parametrize("step", [AsyncOrdered, AsyncUnordered])


def flying(processor: Any, *values: str) -> Driven:
    """With a call in flight for each of these rows."""
    driven = Driven(processor)
    for value in values:
        driven.row(value)
    return driven


@BOTH
def test_edge_case_14_idle_waits_for_calls_in_flight_and_leaves_once_however_often_it_came(step: type) -> None:
    driven = flying(step(), "a")
    driven.wm(5)
    assert driven.idle() + driven.idle() == []
    assert driven.answer(0, "A") == [("A",), ("wm", 0, 5), "idle"]


@pytest.mark.parametrize(("step", "idle"), [(AsyncOrdered, ["idle"]), (AsyncUnordered, [])])
def test_an_ordered_step_keeps_idleness_and_what_ended_it_an_unordered_one_forgets_both(step: type, idle: list) -> None:
    for ends, left in ((lambda driven: driven.wm(5), [("wm", 0, 5)]), (lambda driven: driven.row("b"), [])):
        driven = flying(step(), "a")
        driven.idle()
        ends(driven)
        assert driven.answer(0, "A") == [("A",), *idle, *left]


def test_edge_case_32_ordered_one_slow_call_blocks_everything() -> None:
    driven = flying(AsyncOrdered(), "slow")
    assert driven.wm(1) + driven.wm(2) + driven.row("fast") == []
    assert driven.wm(1, key=1) + driven.wm(3) + driven.wm(2, key=1) == []
    assert driven.answer(1, "F") == []
    assert driven.answer(0, "S") == [("S",), ("wm", 0, 2), ("F",), ("wm", 1, 1), ("wm", 0, 3), ("wm", 1, 2)]


def test_edge_case_33_unordered_only_watermarks_behind_the_slow_row_wait() -> None:
    driven = Driven(AsyncUnordered())
    assert driven.wm(5) == [("wm", 0, 5)]
    assert driven.row("a") + driven.wm(10) + driven.row("b") + driven.wm(20) + driven.row("c") + driven.wm(30) == []
    assert driven.answer(2, "C") == [("C",)]
    assert driven.answer(0, "A") == [("A",), ("wm", 0, 10)]
    assert driven.answer(1, "B") == [("B",), ("wm", 0, 30)]


def test_edge_case_34_keys_may_appear_in_any_order() -> None:
    driven = Driven(AsyncUnordered())
    assert driven.wm(10, key=1) + driven.wm(1, key=0) == [("wm", 1, 10), ("wm", 0, 1)]


@BOTH
def test_a_failed_call_fails_the_job(step: type) -> None:
    driven = flying(step(), "a")
    with pytest.raises(JobFailedError, match="call 0 failed") as failure:
        driven.do("answer", 0, None)
    assert failure.value.reason == Reason.CALL_FAILED


@BOTH
def test_the_end_waits_for_what_is_in_flight(step: type) -> None:
    driven = flying(step(), "a")
    driven.complete()
    assert not driven.accepted
    driven.answer(0, "A")
    driven.complete()
    assert driven.accepted


def test_an_ordered_step_stops_for_a_snapshot_and_restarts_empty() -> None:
    driven = flying(AsyncOrdered(), "a")
    assert not driven.processor.may_snapshot
    driven.answer(0, "A")
    assert driven.processor.may_snapshot
    assert driven.restarted(AsyncOrdered()).state.queue == driven.processor.start().queue


def test_an_unordered_step_repeats_the_calls_of_its_snapshot() -> None:
    driven, other = flying(AsyncUnordered(), "d", "a"), flying(AsyncUnordered())
    other.wm(7)
    driven.answer(0, "D")
    driven.row("a")
    driven.wm(10)
    assert driven.processor.may_snapshot
    again = driven.restarted(AsyncUnordered(), others=[other.state])
    assert again.processor.outstanding == [Call(0, A), Call(1, A)]
    assert again.wm(7) + again.wm(8) == []
    assert again.answer(1, "A") == [("A",)]
    assert again.answer(0, "A") == [("A",), ("wm", 0, 8)]


STIMULI = st.lists(
    st.one_of(
        st.tuples(st.just("row"), st.integers(0, 9)),
        st.tuples(st.just("wm"), st.integers(0, 2), st.integers(1, 6)),
        st.tuples(st.just("answer"), st.integers(0, 9)),
    ),
    max_size=40,
)


def run(driven: Driven, stimuli: list) -> None:
    """Rows carry their number and a time per key at or above its last watermark; refused ones are left out."""
    marks, waiting, number = {0: 0, 1: 0, 2: 0}, [], 0
    for stimulus in stimuli:
        match stimulus:
            case ("row", ahead):
                driven.row(number, *(mark + ahead for mark in marks.values()))
                number += 1
                waiting += [driven.calls[-1]] if driven.accepted else []
            case ("wm", key, step):
                marks[key] += step
                driven.wm(marks[key], key)
            case ("answer", place) if waiting:
                call = waiting.pop(place % len(waiting))
                driven.do("answer", call.number, (call.values,))
        for progress in driven.state.keys.values() if isinstance(driven.state, UnorderedCalls) else ():
            assert sum(progress.counts.values()) == len(driven.state.in_flight)
            assert all(count > 0 for count in progress.counts.values())
    for call in waiting:
        driven.do("answer", call.number, (call.values,))


@given(STIMULI, st.sampled_from([AsyncOrdered, AsyncUnordered]), st.integers(1, 4))
def test_no_row_is_overtaken_by_a_watermark_or_lost_and_ordered_results_have_the_order_of_the_rows(
    stimuli: list, step: type, capacity: int
) -> None:
    driven = Driven(step(capacity=capacity))
    run(driven, stimuli)
    last = {}
    for item in driven.out:
        if item[0] == "wm":
            assert item[2] > last.get(item[1], 0)
            last[item[1]] = item[2]
        else:
            assert all(time >= last.get(key, 0) for key, time in enumerate(item[1:]))
    results, calls = rows(driven.out), [call.values for call in driven.calls]
    assert (results if step is AsyncOrdered else sorted(results)) == calls
    received = {key: sum(s[2] for s in stimuli if s[0] == "wm" and s[1] == key) for key in range(3)}
    assert last == {key: value for key, value in received.items() if value}
