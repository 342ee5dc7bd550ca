"""Who holds a watermark of a dataflow, since when, by how much, and whether the prediction comes true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.dataflow.answers.explanation import FlowExplanation

ROWS = [(n, 10 * n) for n in range(40)]


def merged(**fields: Any) -> flow.Dataflow:
    """Two sources into a window over a merge; partition 1 of `a` says nothing from 80 ms on."""
    given: dict[str, Any] = {
        "vertices": [
            source("a", ROWS, partitions=2, idle_timeout_ms=300),
            source("b", ROWS[:15], idle_timeout_ms=500),
            flow.Merge("both"),
            flow.Window("count", 40, column="t", aggregates={"n": "count()"}),
            flow.Sink("out"),
        ],
        "edges": ["a -> both -> count -> out", "b -> both"],
        "faults": [flow.SilentPartition("a", partition=1, at_ms=80)],
        "duration_ms": 1_500,
        "jitter_ms": 0.0,
    }
    return flow.Dataflow("two sources", **(given | fields))


def source(name: str, rows: Any, **fields: Any) -> flow.Source:
    """A source of rows (id, t), one every 10 ms."""
    return flow.Source(name, **({"columns": ["id", "t"], "rows": rows, "times": "t"} | fields))


def joined(deliveries: int = 50, **fields: Any) -> flow.Join | Any:
    """Orders and, for each second one, a delivery 5 ms later; `deliveries` of them come."""
    rows = [(n, 10 * n + 5) for n in range(0, 100, 2)][:deliveries]
    condition = "left.id == right.id and left.t <= right.t and right.t <= left.t + 20"
    return flow.Dataflow(
        "orders and deliveries",
        vertices=[
            source("orders", [(n, 10 * n) for n in range(100)], times=[flow.EventTime("t", key=0, lag_ms=10)]),
            source("deliveries", rows, every_ms=20, times=[flow.EventTime("t", key=1)], idle_timeout_ms=300),
            flow.Join("join", condition, outer="left", **fields),
            flow.Sink("out"),
        ],
        edges=["orders -> join -> out", "deliveries -> join"],
        duration_ms=900,
        jitter_ms=0.0,
    )


@pytest.fixture(scope="module")
def run() -> Recording:
    return merged().record()


def moved(recording: Recording, vertex: str, value: int) -> int:
    """When the merged watermark of a vertex first reached a value."""
    return min(
        int(row["at_ms"])
        for row in recording.table("coalescing").to_pylist()
        if row["vertex"] == vertex and row["level"] == "global" and any(mark >= value for _, mark in row["emitted"])
    )


def test_the_silent_partition_holds_the_window(run: Recording) -> None:
    found = run.explain(at_ms=200)
    assert isinstance(found, FlowExplanation)
    assert (found.vertex, found.key, found.cause, found.watermark, found.needed) == ("count", 0, "held", 70, 80)
    (holder,) = found.holders
    assert (holder.name, holder.kind, holder.mark, holder.last_ms) == ("partition 1 of a", "slow", 70, 70)
    assert holder.through == ("both",)
    assert holder.needs_time == 80
    assert holder.behind_by == 70
    assert found.sentence == (
        "count at 200 ms: the watermark of key 0 stands at 70 ms since 80 ms, and the window from 40 ms to 80 ms "
        "with 8 rows waits for 80 ms; held by partition 1 of a (through both): its watermark is 70 ms, 70 ms behind "
        "the next, its last row came at 70 ms; released by a row with t ≥ 80 ms in partition 1 of a, or at 370 ms "
        "when it is left out as idle, or by the end of a; count holds 5 since it last shrank at 50 ms, growing by 27 "
        "a second, without a limit"
    )


def test_what_is_predicted_comes_true(run: Recording) -> None:
    found = run.explain(at_ms=200)
    assert found.release_ms == 370 == moved(run, "count", found.needed)


def test_a_row_at_the_needed_time_releases_it_and_one_below_does_not() -> None:
    needed = merged().record().explain(at_ms=200).holders[0].needs_time
    for time, released in ((needed, True), (needed - 1, False)):
        rows = [*((n, 10 * n, n % 2) for n in range(8)), *((n, 300, 0) for n in range(12)), (99, time, 1)]
        columns = ["id", "t", "p"]
        late = source("a", rows, columns=columns, partition_by="p", partitions=2, idle_timeout_ms=0)
        other = source("b", [(n, 10 * n, 0) for n in range(40)], columns=columns)
        with_row = merged(
            vertices=[late, other, *merged().vertices[2:]],
            faults=[],
            duration_ms=400,
        ).record()
        results = [json.loads(row["row"])["end"] for row in with_row.table("sunk").to_pylist()]
        assert (80 in results) is released


def test_it_says_the_same_of_a_recording_that_ended_there(run: Recording) -> None:
    """What is told of a moment uses nothing that came later."""
    for at_ms in (0, 35, 200, 390, 600, 1_200):
        faults = merged().faults if at_ms > 80 else ()
        short = merged(faults=faults, duration_ms=at_ms + 1).record()
        assert short.explain(at_ms=at_ms) == run.explain(at_ms=at_ms)


def test_before_its_first_row_a_source_holds() -> None:
    first = merged(vertices=[source("a", ROWS, starts_ms=50), *merged().vertices[1:]], faults=[]).record()
    held = first.explain(at_ms=20, vertex="both")
    assert held.watermark is None
    assert [holder.name for holder in held.holders] == ["partition 0 of a"]
    assert held.holders[0].mark is None
    assert "no watermark of key 0 has come" in held.sentence
    assert "by a row in partition 0 of a" in held.sentence


def test_idle_inputs_are_told_as_such(run: Recording) -> None:
    found = run.explain(at_ms=1_400)
    assert found.cause == "idle"
    assert {holder.name for holder in found.holders} == {"partition 0 of a", "partition 1 of a", "partition 0 of b"}
    assert found.release_ms is None
    assert "in any of partition 0 of a" in found.sentence


def test_a_source_and_a_sink_can_be_asked(run: Recording) -> None:
    for vertex, mark in (("a", 70), ("both", 70), ("out", 70)):
        found = run.explain(at_ms=200, vertex=vertex)
        assert (found.vertex, found.watermark) == (vertex, mark)
        assert [holder.name for holder in found.holders] == ["partition 1 of a"]


def test_a_key_of_one_input_only_is_stuck_until_the_other_is_idle() -> None:
    flows = flow.Dataflow(
        "stuck",
        vertices=[
            source("a", ROWS),
            source("b", ROWS[:5], times=(), idle_timeout_ms=100),
            flow.Merge("both"),
            flow.Sink("out"),
        ],
        edges=["a -> both -> out", "b -> both"],
        duration_ms=350,
    )
    recording = flows.record()
    found = recording.explain(at_ms=300)
    assert found.cause == "stuck"
    assert [(holder.name, holder.kind, holder.key) for holder in found.holders] == [("b", "no key", 0)]
    assert "by b being idle or ending" in found.sentence
    done = flows.replace(vertices=[source("a", ROWS), source("b", ROWS[:5], times=(), ends=True), *flows.vertices[2:]])
    assert done.record().explain(at_ms=300).cause == "held"


def test_a_filter_inside_a_source_that_rejects_all_makes_it_mute() -> None:
    flows = merged(
        vertices=[source("a", ROWS), source("b", ROWS, where="id < 0", idle_timeout_ms=50), *merged().vertices[2:]],
        faults=[],
        mode="hz",
    )
    (holder,) = flows.record().explain(at_ms=200).holders
    assert (holder.name, holder.kind, holder.rejected) == ("partition 0 of b", "mute", 21)
    assert flows.replace(mode="design").record().explain(at_ms=200).watermark >= 190


def test_a_watermark_that_waits_on_a_queue_and_one_behind_a_call() -> None:
    stalled = merged(faults=[flow.Stall("both", at_ms=100)]).record().explain(at_ms=150)
    assert {holder.kind for holder in stalled.holders} == {"on queue"}
    slow = flow.Dataflow(
        "calls",
        vertices=[source("a", ROWS), flow.AsyncMap("call", latency=flow.Fixed(500)), flow.Sink("out")],
        edges=["a -> call -> out"],
        duration_ms=300,
    )
    (holder,) = slow.record().explain(at_ms=200).holders
    assert (holder.vertex, holder.kind) == ("call", "inside")
    assert holder.last_ms is not None
    assert holder.last_ms < 10


def test_a_source_without_watermarks_is_named() -> None:
    run = merged(vertices=[source("a", ROWS, frame_ms=0), *merged().vertices[1:]], faults=[]).record()
    assert "no watermark" in {holder.kind for holder in run.explain(at_ms=100).holders}


def test_a_clock_moves_a_source_by_itself() -> None:
    clocked = source("a", ROWS[:3], times=[flow.EventTime("t", policy="real_time", lag_ms=50)], idle_timeout_ms=0)
    run = merged(vertices=[clocked, *merged().vertices[3:]], edges=["a -> count -> out"], faults=[]).record()
    found = run.explain(at_ms=80)
    assert [holder.kind for holder in found.holders] == ["clock"]
    assert found.release_ms == 90 == found.needed + 50


def test_a_python_function_behind_a_source_does_not_hide_its_frames() -> None:
    """Which function it was is not recorded, but the rules of all other vertices are."""
    answers = []
    for named in (
        flow.Map("named", select={"id": "id", "t": "t"}),
        flow.Map("named", function=lambda row: row, columns=["id", "t"]),
    ):
        vertices = [source("a", ROWS, frame_ms="pipeline"), named, *merged().vertices[3:]]
        run = merged(vertices=vertices, edges=["a -> named -> count -> out"], faults=[]).record()
        found = run.explain(at_ms=210, vertex="named")
        answers.append((found.needed, [holder.needs_time for holder in found.holders]))
    assert answers == [(201, [240])] * 2


def test_a_join_waits_for_both_sides() -> None:
    run = joined().record()
    found = run.explain(at_ms=505, key=0)
    assert [(holder.vertex, holder.key) for holder in found.holders] == [("deliveries", 1)]
    assert found.holders[0].needs_time == found.needed + 20
    assert "released by a row with t ≥" in found.sentence
    assert "left out as idle" not in found.sentence
    assert "end of" not in found.sentence


def test_idleness_does_not_help_a_join_and_its_state_grows_to_the_limit() -> None:
    run = joined(5, limit=60).record()
    found = run.explain(at_ms=450)
    assert (found.cause, found.release_ms) == ("idle", None)
    (failure,) = run.table("executions").to_pylist()
    state = found.state
    assert (state.bounded, state.limit) == (False, 60)
    assert state.rate_per_s == pytest.approx(100, abs=5)
    assert state.limit_at_ms == pytest.approx(failure["ended_ms"], abs=20)
    assert "it reaches its limit of 60 at" in found.sentence
    after = run.explain(at_ms=800)
    assert after.cause == "failed"
    assert failure["reason"] in after.sentence


def test_a_join_that_hears_of_both_sides_stays_bounded() -> None:
    assert joined().record().explain(at_ms=600).state.bounded is True


def test_a_window_that_never_closes_grows() -> None:
    state = merged().record().explain(at_ms=360).state
    assert state.bounded is False
    assert state.limit is None


def test_over_the_run_the_longest_holder_is_named(run: Recording) -> None:
    held = run.explain()
    assert "held longest by partition 1 of a (slow): for" in held.sentence
    slow = next(one for one in held if (one.who, one.why) == ("partition 1 of a", "slow"))
    assert 290 <= slow.held_ms <= 370


def test_an_answer_is_a_value(run: Recording) -> None:
    found = run.explain(at_ms=200)
    assert json.loads(found.to_json()) == json.loads(json.dumps(found.to_dict()))
    assert repr(found) == found.sentence
    assert found._repr_html_() == f"<p>{found.sentence}</p>"
    assert found == run.explain(at_ms=200)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"at_ms": 1.5}, "no moment"),
        ({"at_ms": -5}, "nothing had begun"),
        ({"at_ms": 10, "vertex": "x"}, "no vertex"),
        ({"at_ms": 10, "key": 7}, "no watermarks of key 7"),
        ({"at_ms": 10, "instance": 3}, "no instance 3"),
        ({"at_ms": 10, "reader": "r"}, "reader is named"),
        ({"window": 40, "row": {"id": 1}}, "at once"),
        ({"window": 40, "vertex": "both"}, "is no window"),
        ({"row": {"id": 1_000}}, "no source"),
    ],
)
def test_questions_that_have_no_answer_are_refused(run: Recording, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        run.explain(**asked)
