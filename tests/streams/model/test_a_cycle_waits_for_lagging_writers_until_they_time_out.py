"""PDP-33, Periodic Watermark Workflow; upstream classes `PeriodicWatermarking` and `WatermarkClient`: one cycle.

What many cycles emit is compared with their twin in `tests/streams/bounds/test_replay.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.cycle import (
    Append,
    CycleRules,
    CycleState,
    Decision,
    HeldBy,
    LeaveBucket,
    Observe,
    RemovalDone,
    RemoveWriter,
    WriterStatus,
    classify,
    step,
)
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.marks import WriterMark
from wmlab.streams.model.position import Position

HISTORY = StreamHistory.create(1)
PREVIOUS = Watermark(30_000, 31_000, Position({"0@0": 5}))
RULES = CycleRules(timeout_ms=10_000)


def mark(time: int, offset: int | None = 9, *, alive: bool = True) -> WriterMark:
    return WriterMark(time, Position({"0@0": offset}), alive)


def run(marks, *, previous=PREVIOUS, now_ms: int = 0, state: CycleState | None = None, rules=RULES, noted_ms=None):
    event = Observe(now_ms=now_ms, marks=marks, previous=previous, history=HISTORY, noted_ms=noted_ms)
    state, effects = step(state or CycleState(), event, rules)
    (decision,) = (effect for effect in effects if isinstance(effect, Decision))
    return state, decision, [effect for effect in effects if effect is not decision]


@pytest.mark.parametrize(
    ("writer", "previous_lower", "age_ms", "status"),
    [
        (mark(31), 30, 99, WriterStatus.PARTICIPATING),
        (mark(31, alive=False), 30, 99, WriterStatus.PARTICIPATING),
        (mark(-5, alive=False), None, 99, WriterStatus.PARTICIPATING),
        (mark(30), 30, 9, WriterStatus.LAGGING),
        (mark(30), 30, 10, WriterStatus.TIMED_OUT),
        (mark(29), 30, 10, WriterStatus.TIMED_OUT),
        (mark(30, alive=False), 30, 0, WriterStatus.SHUT_DOWN),
        (mark(30, alive=False), 30, 10, WriterStatus.SHUT_DOWN),
    ],
)
def test_a_writer_is_in_one_of_four_states(writer, previous_lower, age_ms: int, status: WriterStatus) -> None:
    assert classify(writer, previous_lower, age_ms, 10) is status


@pytest.mark.parametrize(
    ("writer", "previous_lower", "age_ms", "status"),
    [
        (mark(31), 30, 9, WriterStatus.PARTICIPATING),
        (mark(31), 30, 10, WriterStatus.TIMED_OUT),
        (mark(31), None, 10, WriterStatus.TIMED_OUT),
        (mark(31, alive=False), 30, 0, WriterStatus.SHUT_DOWN),
        (mark(30), 30, 9, WriterStatus.LAGGING),
        (mark(30), 30, 10, WriterStatus.TIMED_OUT),
    ],
)
def test_when_all_are_forgotten_a_time_ahead_of_the_bound_does_not_matter(
    writer, previous_lower, age_ms: int, status: WriterStatus
) -> None:
    """PDP-33, Config Changes ("will be forgotten") and Internal Changes (`writerShutdown`)."""
    assert classify(writer, previous_lower, age_ms, 10, forgets="all") is status


@pytest.mark.parametrize("timeout_from", ["first_behind", "last_note", "earlier"])
def test_a_writer_ahead_is_forgotten_one_timeout_after_its_last_note(timeout_from) -> None:
    rules = replace(RULES, forgets="all", timeout_from=timeout_from)
    marks, noted_ms = {"a": mark(40_000), "b": mark(90_000)}, {"a": 9_000, "b": 1_000}
    _, decision, effects = run(marks, now_ms=10_999, rules=rules, noted_ms=noted_ms)
    assert (decision.participating, effects[0].watermark.upper) == (("a", "b"), 90_000)
    _, decision, effects = run(marks, now_ms=11_000, rules=rules, noted_ms=noted_ms)
    assert (decision.participating, decision.timed_out) == (("a",), ("b",))
    assert effects == [
        RemoveWriter("b", marks["b"]),
        Append(Watermark(40_000, 40_000, Position({"0@0": 9}), {"a": 40_000})),
    ]


def test_a_lagging_writer_holds_the_watermark_and_the_reason_names_it() -> None:
    state, decision, effects = run({"w1": mark(40_000), "w2": mark(30_000)}, now_ms=7)
    assert (decision.outcome, decision.lagging, effects) == ("held", ("w2",), [])
    assert decision.reason == "waits for w2 (last noted 30 s, previous lower bound 30 s)"
    assert state.behind_since == {"w2": 7}


def test_the_timeout_runs_from_the_first_cycle_that_saw_the_writer_behind() -> None:
    marks = {"a": mark(40_000), "b": mark(30_000), "c": mark(42_000)}
    state, decision, _ = run(marks, now_ms=1_000)
    state, decision, _ = run({**marks, "b": mark(29_000)}, now_ms=10_999, state=state)
    assert decision.lagging == ("b",)
    state, decision, effects = run(marks, now_ms=11_000, state=state)
    emitted = Append(Watermark(40_000, 42_000, Position({"0@0": 9}), {"a": 40_000, "c": 42_000}))
    assert effects == [RemoveWriter("b", marks["b"]), emitted]
    assert (decision.timed_out, decision.participating) == (("b",), ("a", "c"))
    assert (decision.outcome, decision.reason) == ("emitted", "")


def test_the_first_watermark_waits_for_the_expected_writers_and_for_no_longer_than_one_timeout() -> None:
    """PDP-33, Periodic Watermark Workflow: "to give time for all Writers to be started"."""
    rules, alone, both = replace(RULES, expected_writers=3), {"a": mark(5)}, {"a": mark(5), "b": mark(7)}
    state, decision, effects = run(alone, previous=None, now_ms=1_000, rules=rules)
    assert (decision.cause, decision.participating, effects) == (HeldBy.EXPECTED, ("a",), [])
    assert decision.reason == "waits for 2 more of 3 expected writers"
    state, decision, _ = run(both, previous=None, now_ms=10_999, state=state, rules=rules)
    assert decision.reason == "waits for 1 more of 3 expected writers"
    _, decision, _ = run({**both, "c": mark(6)}, previous=None, now_ms=10_999, state=state, rules=rules)
    assert decision.outcome == "emitted"
    _, decision, _ = run(both, previous=None, now_ms=11_000, state=state, rules=rules)
    assert decision.outcome == "emitted"
    _, decision, _ = run(both, previous=None, now_ms=11_000, rules=rules)
    assert decision.outcome == "held", "a new leader counts again"
    _, decision, _ = run({"a": mark(40_000)}, now_ms=0, rules=rules)
    assert decision.outcome == "emitted", "only the first watermark waits"


def test_who_holds_the_first_watermark_in_another_way_is_not_counted_as_expected() -> None:
    rules = replace(RULES, expected_writers=3, first_barrier=6)
    state, decision, _ = run({"a": mark(5), "b": mark(7)}, previous=None, now_ms=1_000, rules=rules)
    assert (decision.cause, state.short_since) == (HeldBy.LAGGING, None)
    state, decision, _ = run({"b": mark(7)}, previous=None, now_ms=2_000, state=state, rules=rules)
    assert (decision.cause, state.short_since) == (HeldBy.EXPECTED, 2_000)
    state, decision, _ = run({}, previous=None, now_ms=3_000, state=state, rules=rules)
    assert (decision.cause, state.short_since) == (HeldBy.NO_ACTIVE_WRITER, None)


def test_the_time_of_the_last_note_is_needed_for_a_timeout_from_there() -> None:
    with pytest.raises(ModelError, match="When b last noted"):
        run({"b": mark(30_000)}, rules=replace(RULES, timeout_from="last_note"))


def test_the_clock_is_forgotten_by_who_participates_again_or_is_removed_and_runs_on_for_the_others() -> None:
    state, _, _ = run({"a": mark(30_000), "b": mark(30_000)}, now_ms=1)
    assert run({"a": mark(31_000), "b": mark(30_000)}, now_ms=2, state=state)[0].behind_since == {"b": 1}
    assert step(state, RemovalDone("a", True), RULES) == (CycleState({"b": 1}), ())
    assert step(state, RemovalDone("a", False), RULES) == (state, ())


def test_a_timeout_is_a_minute_by_default() -> None:
    assert CycleRules().timeout_ms == 60_000


def test_with_nobody_left_an_end_of_known_time_is_appended_once_beyond_the_last_writers() -> None:
    gone = {"a": mark(29_000, 8, alive=False), "b": mark(30_000, 7, alive=False)}
    rules = replace(RULES, null_without_writers=True)
    end = Append(Watermark(30_000, 31_000, Position({"0@0": 8}), known=False))
    _, decision, effects = run(gone, rules=rules)
    assert (decision.outcome, decision.reason) == ("held", "no active writer")
    assert effects == [*(RemoveWriter(w, m) for w, m in gone.items()), end, LeaveBucket()]
    assert run({}, rules=rules)[2] == [Append(replace(PREVIOUS, known=False)), LeaveBucket()]
    assert run({}, rules=rules, previous=end.watermark)[2] == run({}, rules=rules, previous=None)[2] == [LeaveBucket()]
    assert run({})[2] == [LeaveBucket()]
    assert run({}, rules=replace(rules, leaves_bucket=False))[2] == [Append(replace(PREVIOUS, known=False))]


def test_before_the_first_watermark_the_reason_names_the_first_barrier() -> None:
    _, decision, effects = run({"a": mark(-500)}, previous=None, rules=replace(RULES, first_barrier=0))
    assert (decision.previous_lower, decision.lagging, effects) == (None, ("a",), [])
    assert decision.reason == "waits for a (last noted −500 ms, first barrier 0 ms)"
