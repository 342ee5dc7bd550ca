"""PDP-33, Periodic Watermark Workflow; upstream classes `PeriodicWatermarking` and `WatermarkClient`: one cycle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.cycle import (
    Append,
    CycleRules,
    CycleState,
    Decision,
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


def test_the_watermark_has_the_least_and_the_greatest_time() -> None:
    _, decision, effects = run({"a": mark(32_000, 4), "b": mark(35_000, 7)})
    assert effects == [Append(Watermark(32_000, 35_000, Position({"0@0": 7}), {"a": 32_000, "b": 35_000}))]
    assert (decision.outcome, decision.reason, decision.participating) == ("emitted", "", ("a", "b"))


def test_a_lagging_writer_holds_the_watermark_and_the_reason_names_it() -> None:
    state, decision, effects = run({"w1": mark(40_000), "w2": mark(30_000)}, now_ms=7)
    assert (decision.outcome, decision.lagging, effects) == ("held", ("w2",), [])
    assert decision.reason == "waits for w2 (last noted 30 000, previous lower bound 30 000)"
    assert state.behind_since == {"w2": 7}


def test_the_timeout_runs_from_the_first_cycle_that_saw_the_writer_behind() -> None:
    marks = {"a": mark(40_000), "b": mark(30_000)}
    state, decision, _ = run(marks, now_ms=1_000)
    state, decision, _ = run({**marks, "b": mark(29_000)}, now_ms=10_999, state=state)
    assert decision.lagging == ("b",)
    state, decision, effects = run(marks, now_ms=11_000, state=state)
    assert (decision.timed_out, decision.outcome) == (("b",), "emitted")
    assert effects[0] == RemoveWriter("b", marks["b"])
    assert effects[1].watermark.writers == {"a": 40_000}


def test_as_designed_the_timeout_runs_from_the_last_note() -> None:
    rules = CycleRules(timeout_ms=10_000, timeout_from="last_note")
    marks = {"b": mark(30_000)}
    assert run(marks, now_ms=10_000, rules=rules, noted_ms={"b": 0})[1].timed_out == ("b",)
    assert run(marks, now_ms=9_999, rules=rules, noted_ms={"b": 0})[1].lagging == ("b",)
    with pytest.raises(ModelError, match="When b last noted"):
        run(marks, rules=rules)


def test_a_writer_that_participates_again_is_forgotten_by_the_clock() -> None:
    state, _, _ = run({"a": mark(30_000)}, now_ms=1)
    state, _, _ = run({"a": mark(31_000)}, now_ms=2, state=state)
    assert state.behind_since == {}


def test_the_clock_is_forgotten_when_the_removal_succeeds_and_runs_on_when_not() -> None:
    state = CycleState({"a": 1, "b": 1})
    assert step(state, RemovalDone("a", True), RULES) == (CycleState({"b": 1}), ())
    assert step(state, RemovalDone("a", False), RULES) == (state, ())


@pytest.mark.parametrize("marks", [{}, {"a": mark(30_000, alive=False)}])
def test_without_an_active_writer_the_stream_leaves_its_bucket(marks) -> None:
    _, decision, effects = run(marks)
    assert effects[-1] == LeaveBucket()
    assert (decision.outcome, decision.reason) == ("held", "no active writer")


def test_a_negative_timeout_is_refused() -> None:
    with pytest.raises(ModelError, match="-1 ms"):
        CycleRules(timeout_ms=-1)


def test_the_default_timeout_is_a_minute() -> None:
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


def test_after_an_end_of_known_time_the_bound_still_rises() -> None:
    end = replace(PREVIOUS, known=False)
    assert run({"a": mark(30_000)}, previous=end)[1].lagging == ("a",)
    assert run({"a": mark(30_001)}, previous=end)[1].outcome == "emitted"


def test_with_a_first_barrier_only_writers_beyond_it_are_counted_and_the_others_are_waited_for() -> None:
    rules = replace(RULES, first_barrier=0)
    early = {"a": mark(-500), "b": mark(0)}
    assert [effect.watermark.lower for effect in run(early, previous=None)[2]] == [-500]
    state, decision, effects = run(early, previous=None, rules=rules)
    assert (decision.previous_lower, decision.lagging, effects) == (None, ("a", "b"), [])
    assert "first barrier 0" in decision.reason
    _, decision, effects = run({**early, "b": mark(40)}, previous=None, rules=rules, state=state, now_ms=10_000)
    assert decision.timed_out == ("a",)
    assert effects[-1].watermark.lower == 40
