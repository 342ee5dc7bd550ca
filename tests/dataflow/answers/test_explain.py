"""Who holds a watermark of a dataflow and for how long, what became of a window or a row, and what was dropped."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataflow.flows import ROWS, WINDOW, joined, line, merged, source
from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.dataflow.answers.run import Explanation


@pytest.fixture(scope="module")
def run() -> Recording:
    return merged().record()


DOUBLED = flow.Map("m", select={"t": "t", "double": "id * 2"})
SLOW = flow.AsyncMap("call", latency=flow.Fixed(100))


def kinds(answer: Explanation) -> list[tuple[str, str]]:
    return [(holder.name, holder.kind) for holder in answer.holders]


def test_the_silent_partition_holds_the_window(run: Recording) -> None:
    answer = run.explain(at_ms=200)
    assert (answer.vertex, answer.key, answer.cause, answer.watermark, answer.needed) == ("count", 0, "held", 70, 80)
    (holder,) = answer.holders
    assert (holder.name, holder.kind, holder.mark, holder.last_ms) == ("partition 1 of a", "slow", 70, 70)
    assert (holder.through, holder.needs_time, holder.behind_by) == (("both",), 80, 70)
    assert answer.sentence == (
        "count at 200 ms: the watermark of key 0 stands at 70 ms since 80 ms, and the window from 40 ms to 80 ms "
        "with 8 rows waits for 80 ms; held by partition 1 of a (through both): its watermark is 70 ms, 70 ms behind "
        "the next, its last row came at 70 ms; released by a row with t ≥ 80 ms in partition 1 of a, or at 370 ms "
        "when it is left out as idle, or by the end of a; count holds 5 since it last shrank at 50 ms, growing by 27 "
        "a second, without a limit"
    )
    for vertex in ("a", "both", "out"):
        other = run.explain(at_ms=200, vertex=vertex)
        assert (other.vertex, other.watermark, kinds(other)) == (vertex, 70, kinds(answer))


def test_what_is_predicted_comes_true(run: Recording) -> None:
    answer = run.explain(at_ms=200)
    merges = [
        row for row in run.table("coalescing").to_pylist() if (row["vertex"], row["level"]) == ("count", "global")
    ]
    moved = min(row["at_ms"] for row in merges if any(mark >= answer.needed for _, mark in row["emitted"]))
    assert answer.release_ms == 370 == moved


def test_a_row_at_the_needed_time_releases_it_and_one_below_does_not(run: Recording) -> None:
    needed = run.explain(at_ms=200).holders[0].needs_time
    for time, released in ((needed, True), (needed - 1, False)):
        rows = [*((n, 10 * n, n % 2) for n in range(8)), *((n, 300, 0) for n in range(12)), (99, time, 1)]
        columns = ["id", "t", "p"]
        late = source("a", rows, columns=columns, partition_by="p", partitions=2, idle_timeout_ms=0)
        other = source("b", [(n, 10 * n, 0) for n in range(40)], columns=columns)
        with_row = merged(late, other, duration_ms=400).record()
        results = [json.loads(row["row"])["end"] for row in with_row.table("sunk").to_pylist()]
        assert (80 in results) is released


def test_the_answer_is_that_of_a_recording_that_ended_there(run: Recording) -> None:
    """The answer for a moment uses nothing that came later."""
    for at_ms in (0, 35, 200, 390, 600, 1_200):
        faults = merged().faults if at_ms > 80 else ()
        short = merged(faults=faults, duration_ms=at_ms + 1).record()
        assert short.explain(at_ms=at_ms) == run.explain(at_ms=at_ms)


def test_before_its_first_row_a_source_holds() -> None:
    answer = merged(source("a", starts_ms=50)).record().explain(at_ms=20, vertex="both")
    assert (answer.watermark, kinds(answer)) == (None, [("partition 0 of a", "slow")])
    assert answer.holders[0].mark is None
    assert "no watermark of key 0 has come" in answer.sentence
    assert "by a row in partition 0 of a" in answer.sentence


def test_all_idle_inputs_hold_together(run: Recording) -> None:
    answer = run.explain(at_ms=1_400)
    assert (answer.cause, answer.release_ms) == ("idle", None)
    assert {holder.name for holder in answer.holders} == {"partition 0 of a", "partition 1 of a", "partition 0 of b"}
    assert "in any of partition 0 of a" in answer.sentence


def test_a_key_of_one_input_only_is_stuck_until_the_other_is_idle() -> None:
    def answer(**fields: Any) -> Explanation:
        silent = source("b", ROWS[:5], times=(), **fields)
        return merged(source("a"), silent).record().explain(at_ms=300, vertex="both")

    stuck = answer(idle_timeout_ms=100)
    assert (stuck.cause, kinds(stuck), stuck.holders[0].key) == ("stuck", [("b", "no key")], 0)
    assert "by b being idle or ending" in stuck.sentence
    assert answer(ends=True).cause == "held"


def test_a_filter_inside_a_source_that_rejects_all_makes_it_mute() -> None:
    flows = merged(source("a"), source("b", where="id < 0", idle_timeout_ms=50), mode="hz")
    answer = flows.record().explain(at_ms=200)
    assert (kinds(answer), answer.holders[0].rejected) == ([("partition 0 of b", "mute")], 21)
    assert flows.replace(mode="design").record().explain(at_ms=200).watermark >= 190


def test_a_watermark_that_waits_on_a_queue_and_one_behind_a_call() -> None:
    stalled = merged(faults=[flow.Stall("both", at_ms=100)]).record().explain(at_ms=150)
    assert {holder.kind for holder in stalled.holders} == {"on queue"}
    slow = line(source("a"), flow.AsyncMap("call", latency=flow.Fixed(500)), duration_ms=300)
    answer = slow.record().explain(at_ms=200)
    assert kinds(answer) == [("call", "inside")]
    assert 0 <= answer.holders[0].last_ms < 10


def test_a_source_without_watermarks_is_named() -> None:
    answer = merged(source("a", frame_ms=0)).record().explain(at_ms=100)
    assert "no watermark" in {holder.kind for holder in answer.holders}


@pytest.mark.parametrize(("time", "release_ms"), [(124, None), (125, 310)])
def test_an_idle_partition_releases_what_another_has_reached_in_frames(time: int, release_ms: int | None) -> None:
    """The window to 120 ms waits for a partition at 110 ms; of 124 ms the source sends 100 ms."""
    throttled = source("a", [(0, time), (1, 110)], partitions=2, frame_ms=25, idle_timeout_ms=300)
    run = line(throttled, WINDOW).record()
    assert run.explain(at_ms=50).release_ms == release_ms
    assert run.explain(window=120).cause == ("waiting" if release_ms is None else "came out")


def test_a_clock_moves_a_source_by_itself() -> None:
    clocked = source("a", ROWS[:3], times=[flow.EventTime("t", policy="real_time", lag_ms=50)], idle_timeout_ms=0)
    answer = line(clocked, WINDOW).record().explain(at_ms=80)
    assert [holder.kind for holder in answer.holders] == ["clock"]
    assert answer.release_ms == 90 == answer.needed + 50
    run = line(replace(clocked, idle_timeout_ms=50), WINDOW).record()
    assert run.explain(at_ms=60).release_ms is None, "it is left out before the clock gets there"
    assert run.explain(window=40).cause == "waiting"


def test_a_python_function_behind_a_source_does_not_hide_its_frames() -> None:
    """Which function it was is not recorded, but the rules of all other vertices are."""
    answers = []
    for fields in ({"select": {"id": "id", "t": "t"}}, {"function": lambda row: row, "columns": ["id", "t"]}):
        run = line(source("a", frame_ms="pipeline"), flow.Map("named", **fields), WINDOW).record()
        answer = run.explain(at_ms=210, vertex="named")
        answers.append((answer.needed, [holder.needs_time for holder in answer.holders]))
    assert answers == [(201, [240])] * 2


def test_a_join_waits_for_both_sides() -> None:
    run = joined().record()
    answer = run.explain(at_ms=505, key=0)
    assert [(holder.vertex, holder.key) for holder in answer.holders] == [("deliveries", 1)]
    assert answer.holders[0].needs_time == answer.needed + 20
    assert "released by a row with t ≥" in answer.sentence
    assert "left out as idle" not in answer.sentence
    assert "end of" not in answer.sentence
    assert run.explain(at_ms=600).state.bounded is True


def test_idleness_does_not_help_a_join_and_its_state_grows_to_the_limit() -> None:
    run = joined(5, limit=60).record()
    answer = run.explain(at_ms=450)
    assert (answer.cause, answer.release_ms) == ("idle", None)
    (failure,) = run.table("executions").to_pylist()
    state = answer.state
    assert (state.bounded, state.limit) == (False, 60)
    assert state.rate_per_s == pytest.approx(100, abs=5)
    assert state.limit_at_ms == pytest.approx(failure["ended_ms"], abs=20)
    assert "it reaches its limit of 60 at" in answer.sentence
    for question in ({"at_ms": 800}, {"row": {"id": 31}}):
        after = run.explain(**question)
        assert (after.cause, after.holders, after.release_ms) == ("failed", (), None)
        assert after.sentence.endswith(f"the job failed at 670 ms: {failure['reason']}")


def test_over_the_run_the_longest_holder_is_named(run: Recording) -> None:
    held = run.explain()
    assert "held longest by partition 1 of a (slow): for" in held.sentence
    slow = next(straggler for straggler in held if (straggler.who, straggler.why) == ("partition 1 of a", "slow"))
    assert 290 <= slow.held_ms <= 370


def test_an_answer_is_a_value(run: Recording) -> None:
    answer = run.explain(at_ms=200)
    assert json.loads(answer.to_json()) == json.loads(json.dumps(answer.to_dict()))
    assert (" ".join(repr(answer).splitlines()), answer._repr_html_()) == (answer.sentence, f"<p>{answer.sentence}</p>")
    assert answer == run.explain(at_ms=200)


def test_a_window_that_came_out_names_what_released_it(run: Recording) -> None:
    answer = run.explain(window=80)
    assert (answer.cause, answer.since_ms, answer.watermark) == ("came out", 370, 140)
    assert "the window from 40 ms to 80 ms of count came out at 370 ms with 1 result" in answer.sentence


def test_a_window_that_waits_names_who_it_waits_for(run: Recording) -> None:
    answer = run.explain(window=(40, 80), at_ms=200)
    assert (answer.cause, answer.needed, answer.release_ms) == ("waiting", 80, 370)
    assert [holder.name for holder in answer.holders] == ["partition 1 of a"]
    further = run.explain(window=200, at_ms=200)
    assert {holder.name for holder in further.holders} == {"partition 1 of a", "partition 0 of b"}


def test_in_a_job_that_failed_no_window_waits() -> None:
    call = flow.AsyncMap("call", latency=flow.Fixed(3))
    answer = line(ROWS, WINDOW, call, faults=[flow.FailCall("call")]).record().explain(window=80)
    assert (answer.cause, answer.holders, answer.release_ms) == ("failed", (), None)
    assert "waits for watermark 80 ms of key 0; the job failed at 43 ms: " in answer.sentence


def test_a_window_without_rows_gives_nothing_and_names_those_that_came_too_late(run: Recording) -> None:
    assert run.explain(window=1_000).cause == "empty"
    empty = line([(0, 200), (1, 10)], WINDOW).record().explain(window=40)
    assert (empty.cause, "1 row of its time came too late and were dropped" in empty.sentence) == ("empty", True)


def test_a_dropped_row_is_not_taken_for_the_same_row_on_another_edge() -> None:
    fields: dict[str, Any] = {"columns": ["t", "u"]}
    vertices = [
        source("a", [(350, 0), (380, 110)], times="t", **fields),
        source("b", [(0, 350), (0, 360), (0, 370), (380, 110)], times="u", **fields),
        flow.Window("w", 100, column="t", columns=["t", "u"], aggregates={"n": "count()"}),
        flow.Sink("out"),
    ]
    edges = ["a -> w -> out", "b -> w"]
    recording = flow.Dataflow("two columns", vertices=vertices, edges=edges, duration_ms=300).record()
    (dropped,) = recording.why_dropped()
    assert dropped.row == {"t": 380, "u": 110}
    assert "holds 5 rows" in recording.explain(window=400).sentence


def test_in_two_stages_it_is_the_same(run: Recording) -> None:
    staged = merged(replace(WINDOW, name="count", stages=2), faults=merged().faults).record()
    assert staged.explain(window=80).cause == "came out"
    waiting = staged.explain(window=80, at_ms=200)
    assert (waiting.cause, waiting.release_ms) == ("waiting", 370)
    assert waiting.holders == run.explain(window=80, at_ms=200).holders


def test_a_session_needs_a_watermark_beyond_its_end() -> None:
    session = flow.SessionWindow("session", 30, column="t", by="id", aggregates={"n": "count()"})
    recording = line([(0, 0), (0, 20), (1, 50), (1, 51)], session).record()
    waiting = recording.explain(window=(0, 50), at_ms=25)
    assert (waiting.cause, waiting.needed) == ("waiting", 51)
    assert recording.explain(window=(0, 50)).cause == "came out"
    assert recording.explain(window=81).cause == "waiting"
    with pytest.raises(RecordingError, match="there is one from 0 ms to 50 ms"):
        recording.explain(window=30)


def test_a_row_is_in_the_session_of_its_own_group() -> None:
    session = flow.SessionWindow("session", 30, column="t", by="id", aggregates={"n": "count()"})
    recording = line([(0, 0), (1, 5), (0, 20), (0, 40)], session).record()
    assert [recording.explain(row={"t": time}).cause for time in (5, 20)] == ["gone", "waiting"]


def test_a_row_is_followed_behind_a_vertex_that_renames_its_time() -> None:
    renamed = flow.Map("m", select={"id": "id", "when": "t"})
    run = line(ROWS[:8], renamed, replace(WINDOW, column="when")).record()
    assert run.explain(row={"id": 5}).needed == 80
    edges = ["orders -> m -> join -> out", "deliveries -> join"]
    orders, deliveries, join, out = joined().vertices
    join = replace(join, condition=join.condition.replace("left.t", "left.when"))
    run = joined().replace(vertices=[orders, deliveries, renamed, join, out], edges=edges).record()
    assert run.explain(row={"id": 31}, at_ms=312).needed == 311


def test_a_row_is_followed_to_where_it_is(run: Recording) -> None:
    assert run.explain(row={"id": 3}, at_ms=200).cause == "came out"
    waiting = run.explain(row={"id": 20}, at_ms=250)
    assert (waiting.asked, waiting.cause, waiting.needed) == ("row", "waiting", 240)
    assert waiting.sentence.startswith("row (id 20, t 200) went into count: the window from 200 ms to 240 ms")


def test_a_row_in_a_join_waits_for_its_partner() -> None:
    recording = joined().record()
    waiting = recording.explain(row={"id": 31}, at_ms=312)
    assert (waiting.vertex, waiting.cause, waiting.needed) == ("join", "waiting", 311)
    assert [holder.vertex for holder in waiting.holders] == ["deliveries"]
    assert waiting.holders[0].needs_time == 331
    came = recording.explain(row={"id": 31})
    assert came.cause == "came out"
    raised = [row for row in recording.table("source_rows").to_pylist() if json.loads(row["row"])["t"] >= 331]
    assert came.since_ms == min(row["at_ms"] for row in raised if row["vertex"] == "deliveries")


@pytest.mark.parametrize(
    ("vertex", "fields", "question", "cause", "words"),
    [
        (WINDOW, {"where": "id > 2"}, {"row": {"id": 1}}, "rejected", "rejected by the filter of source s"),
        (flow.Filter("f", "id > 2"), {}, {"row": {"id": 1}}, "rejected", "which rejected it"),
        (DOUBLED, {}, {"row": {"id": 1}}, "gone", "which made another row of it"),
        (DOUBLED, {}, {"row": {"t": 10}}, "came out", "came out at out at 10 ms"),
        (SLOW, {}, {"row": {"id": 1}, "at_ms": 50}, "waiting", "which has not given its result back"),
    ],
)
def test_a_row_that_goes_elsewhere(vertex: Any, fields: Any, question: Any, cause: str, words: str) -> None:
    answer = line(source("s", ROWS[:5], **fields), vertex).record().explain(**question)
    assert (answer.cause, words in answer.sentence) == (cause, True)


def test_a_row_waits_on_a_queue() -> None:
    answer = line(ROWS[:5], WINDOW, faults=[flow.Stall("w")]).record().explain(row={"id": 1}, at_ms=50)
    assert (answer.cause, "waits on the queue from s to w since 10 ms" in answer.sentence) == ("on queue", True)


@pytest.mark.parametrize(
    ("vertex", "rule", "limit", "margin"),
    [
        (WINDOW, "window", 120, 100),
        (flow.LateDrop("d", "t"), "late drop", 130, 110),
        (flow.SessionWindow("x", 30, column="t", aggregates={"n": "count()"}), "session", 130, 110),
        (flow.StatefulMap("x", column="t", aggregates={"n": "count()"}, ttl_ms=50), "stateful map", 130, 110),
    ],
)
def test_a_dropped_row_names_the_rule_and_the_margin(vertex: Any, rule: str, limit: int, margin: int) -> None:
    recording = line([(0, 0), (1, 130), (2, 20), (3, 140)], vertex).record()
    drops = recording.why_dropped()
    (drop,) = drops
    assert (drop.vertex, drop.rule, drop.time, drop.limit, drop.margin) == (vertex.name, rule, 20, limit, margin)
    assert drop.passed_ms is not None
    assert drop.passed_ms <= drop.at_ms
    assert recording.explain(row={"id": 2}).drop == drop
    assert drop.sentence in drops.sentence
    assert f"{margin} ms below {limit} ms" in drops.sentence
    assert len(recording.why_dropped({"id": 1})) == 0
    assert recording.why_dropped(vertex=vertex.name).rows == drops.rows


def test_a_row_that_is_late_for_a_join_is_dropped_by_its_side() -> None:
    run = joined().replace(faults=[flow.Disorder("orders", at_ms=300, by_ms=100, for_ms=10)])
    drops = run.record().why_dropped()
    assert {drop.rule for drop in drops} == {"join"}
    assert all(drop.margin == drop.limit - drop.time > 0 for drop in drops)


def test_drops_are_counted_by_rule() -> None:
    recording = line([(0, 0), (1, 130), (2, 20), (3, 30), (4, 150)], flow.LateDrop("d", "t"), WINDOW).record()
    drops = recording.why_dropped()
    assert drops.sentence == "2 rows of line were dropped: 2 by the late drop rule of d, late by 100 ms to 110 ms."
    assert drops.to_pandas()["margin"].tolist() == [110, 100]
    assert json.loads(drops.to_json())["sentence"] == drops.sentence
    assert "<table>" in drops._repr_html_()
    assert line([(0, 0)], WINDOW).record().why_dropped().sentence == "No row was dropped in line."


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 30).map(lambda n: 10 * n), min_size=1, max_size=25), st.integers(0, 2))
def test_every_row_came_out_in_a_window_waits_or_was_dropped(times: list[int], lag: int) -> None:
    """A batch of the rows gives the same as the answers about every row."""
    rows = list(enumerate(times))
    lagging = source("s", rows, times=[flow.EventTime("t", lag_ms=20 * lag)])
    windows = replace(WINDOW, by=("id",))
    recording = line(lagging, windows).record()
    causes = {number: recording.explain(row={"id": number}).cause for number, _ in rows}
    results = {json.loads(row["row"])["id"] for row in recording.table("sunk").to_pylist()}
    dropped = {drop.row["id"] for drop in recording.why_dropped()}
    assert {number for number, cause in causes.items() if cause == "dropped"} == dropped
    assert {number for number, cause in causes.items() if cause == "came out"} >= results
    assert Counter(causes.values()).keys() <= {"came out", "waiting", "dropped"}


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"at_ms": 1.5}, "no moment"),
        ({"at_ms": -5}, "nothing had begun"),
        ({"window": 40, "at_ms": -5}, "nothing had begun"),
        ({"at_ms": 10, "vertex": "x"}, "no vertex"),
        ({"at_ms": 10, "key": 7}, "no watermarks of key 7"),
        ({"at_ms": 10, "instance": 3}, "no instance 3"),
        ({"at_ms": 10, "reader": "r"}, "reader is named"),
        ({"window": 40, "row": {"id": 1}}, "at once"),
        ({"window": 40, "vertex": "both"}, "is no window"),
        ({"window": 43}, "no window from"),
        ({"window": (0, 7)}, "no window from 0 ms to 7 ms"),
        ({"window": (1, 2, 3)}, r"window is \(1, 2, 3\)"),
        ({"window": ()}, r"window is \(\)"),
        ({"window": "40"}, "window is '40'"),
        ({"row": {"id": 1_000}}, "no source"),
        ({"row": 5}, "row is 5"),
    ],
)
def test_questions_that_have_no_answer_are_refused(run: Recording, question: dict[str, Any], words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        run.explain(**question)
