"""Who holds a watermark of a dataflow and for how long, what became of a window or a row, and what was dropped."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.dataflow.flows import ROWS, WINDOW, joined, line, merged, source
from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError
from wmlab.core.facts import Facts
from wmlab.core.recording import Recording
from wmlab.core.words import unbroken
from wmlab.dataflow.answers.run import DataflowRun
from wmlab.dataflow.answers.values import Explanation
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag, RealTimeLag


@pytest.fixture(scope="module")
def run() -> Recording:
    return merged().record()


DOUBLED = flow.Map("m", select={"t": "t", "double": "id * 2"})


def kinds(answer: Explanation) -> list[tuple[str, str]]:
    return [(holder.name, holder.kind) for holder in answer.holders]


def test_the_silent_partition_holds_the_window(run: Recording) -> None:
    answer = run.explain(at_ms=200)
    assert (answer.vertex, answer.key, answer.cause, answer.watermark, answer.needed) == ("count", 0, "held", 70, 80)
    (holder,) = answer.holders
    assert (holder.name, holder.kind, holder.mark, holder.last_ms) == ("partition 1 of a", "slow", 70, 70)
    assert (holder.through, holder.needs_time) == (("both",), 80)
    assert answer.sentence == (
        "The watermark of key 0 at count is 70 ms since 80 ms, held by partition 1 of a (slow). "
        "Without a row it is released at 370 ms."
    )
    assert answer.facts == {
        "vertex": "count",
        "key": 0,
        "watermark": 70,
        "since": 80,
        "window from": 40,
        "window to": 80,
        "rows": 8,
        "needed": 80,
        "holder": "partition 1 of a",
        "cause": "slow",
        "watermark of holder": 70,
        "through": "both",
        "fault": "silenced",
        "fault from": 80,
        "released at": 370,
        "end of": "a",
    }
    for vertex in ("a", "both", "out"):
        other = run.explain(at_ms=200, vertex=vertex)
        assert (other.vertex, other.watermark, kinds(other)) == (vertex, 70, kinds(answer))


def test_what_is_predicted_comes_true(run: Recording) -> None:
    answer = run.explain(at_ms=200)
    rows = DataflowRun(run).rows("coalescing")
    merges = [row for row in rows if (row["vertex"], row["level"]) == ("count", "global")]
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
    """The answer for a moment uses nothing that came later; only where the script ends is said behind a forecast."""
    for at_ms in (0, 35, 200, 390, 600, 1_200):
        faults = merged().faults if at_ms > 80 else ()
        short = merged(faults=faults, duration_ms=at_ms + 1).record()
        told, expected = short.explain(at_ms=at_ms).to_dict(), run.explain(at_ms=at_ms).to_dict()
        ends_ms = told["facts"].pop("run ends", None)
        assert ends_ms == (at_ms + 1 if "released at" in told["facts"] else None)
        told["sentence"] = told["sentence"].replace(f"; the run ends at {ends_ms} ms.", ".")
        assert told == expected


def test_before_its_first_row_a_source_holds() -> None:
    answer = merged(source("a", starts_ms=50)).record().explain(at_ms=20, vertex="both")
    assert (answer.watermark, kinds(answer)) == (None, [("partition 0 of a", "slow")])
    assert answer.holders[0].mark is None
    assert answer.headline == "No watermark of key 0 has come at both; it is held by partition 0 of a (slow)."
    assert answer.facts["row in each of"] == "partition 0 of a"


def test_all_idle_inputs_hold_together(run: Recording) -> None:
    answer = run.explain(at_ms=1_400)
    assert (answer.cause, answer.release_ms) == ("idle", None)
    assert {holder.name for holder in answer.holders} == {"partition 0 of a", "partition 1 of a", "partition 0 of b"}
    assert (answer.facts["row in any of"], answer.facts["row of"]) == (("partition 0 of a", "partition 0 of b"), 400)


def test_a_key_of_one_input_only_is_stuck_until_the_other_is_idle() -> None:
    def answer(**fields: Any) -> Explanation:
        silent = source("b", ROWS[:5], times=(), **fields)
        return merged(source("a"), silent).record().explain(at_ms=300, vertex="both")

    stuck = answer(idle_timeout_ms=100)
    assert (stuck.cause, kinds(stuck), stuck.holders[0].key) == ("stuck", [("b", "no key")], 0)
    assert stuck.facts["end of"] == "b"
    assert answer(ends=True).cause == "held"


def test_a_filter_inside_a_source_that_rejects_all_makes_it_silent() -> None:
    flows = merged(source("a"), source("b", where="id < 0", idle_timeout_ms=50), rules="implementation")
    answer = flows.record().explain(at_ms=200)
    assert (kinds(answer), answer.holders[0].rejected) == ([("partition 0 of b", "silent")], 21)
    assert flows.replace(rules="sound").record().explain(at_ms=200).watermark >= 190


def test_a_watermark_that_waits_on_a_queue_and_one_behind_a_call() -> None:
    stalled = merged(faults=[flow.Stall("both", at_ms=100)]).record().explain(at_ms=150)
    assert kinds(stalled) == [("both", "stalled")]
    assert [stalled.facts[label] for label in ("holder", "cause", "fault from")] == ["both", "stalled", 100]
    assert {"fault until", "goes on at", "row of", "end of", "released at"}.isdisjoint(stalled.facts)
    slow = line(source("a"), flow.AsyncMap("call", latency=flow.Fixed(500)), duration_ms=300)
    answer = slow.record().explain(at_ms=200)
    assert kinds(answer) == [("call", "inside")]
    assert 0 <= answer.holders[0].last_ms < 10


SLOW = flow.AsyncMap("m", select={"t": "t", "double": "id * 2"}, capacity=1, latency=flow.Fixed(40))


def slow_map(**fields: Any) -> Recording:
    """A step that takes 40 ms for each row, of which one comes every 10 ms."""
    return line(ROWS, SLOW, WINDOW, **({"duration_ms": 700} | fields)).record()


def test_a_watermark_waits_behind_items_on_its_queue_and_then_behind_rows() -> None:
    slow = slow_map()
    waits = slow.explain(at_ms=20, vertex="m")
    (holder,) = waits.holders
    assert (waits.cause, holder.name, holder.kind) == ("held", "s", "on queue")
    assert (holder.last_ms, holder.queue_to, holder.items_before) == (20, "m", 0)
    (lying,) = (q for q in slow.table("queues").to_pylist() if q["target"] == "m")
    items = [item for item in slow.table("items").to_pylist() if item["queue"] == lying["queue"]]
    first = next(item for item in items if item["kind"] == "watermark" and item["put_ms"] == 20)
    before = [i for i in items if i["sequence"] < first["sequence"] and (i["taken_ms"] is None or i["taken_ms"] > 20)]
    assert len(before) == holder.items_before
    assert [waits.facts[label] for label in ("waits since", "taken by")] == [20, "m"]
    behind = slow.explain(at_ms=57, vertex="m")
    assert (behind.cause, kinds(behind)) == ("held", [("m", "behind rows")])
    assert behind.facts["holder"] == "m"
    assert kinds(slow.explain(at_ms=57, vertex="out")) == [("m", "inside")]


def test_a_watermark_with_no_room_on_a_queue_names_the_queue() -> None:
    passing = flow.Map("pass", select={"id": "id", "t": "t"})
    full = line(source("s", frame_ms=100), passing, SLOW, queue_size=2, duration_ms=700).record()
    holders = [h for at_ms in range(60, 700, 10) for h in full.explain(at_ms=at_ms, vertex="out").holders]
    filled = [holder for holder in holders if holder.kind == "no room"]
    assert {(holder.name, holder.queue_to, holder.items_before) for holder in filled} <= {
        ("s", "pass", 2),
        ("pass", "m", 2),
    }
    assert filled


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


BY_CLOCK: dict[str, Any] = {"times": [flow.EventTime("t", policy="real_time", lag_ms=1_000)], "arrival": "t"}
FIVE_SECONDS = flow.Window("w", 5_000, column="t", aggregates={"n": "count()"})


def clocked(*times: int, **fields: Any) -> Recording:
    """Rows at these times, of which each is read when the clock is there, into a window of 5 s."""
    rows = [(number, time) for number, time in enumerate(times)]
    given = {**BY_CLOCK, "idle_timeout_ms": 2_000, **fields}
    return line(source("s", rows, **given), FIVE_SECONDS, duration_ms=20_000).record()


@pytest.mark.parametrize("asked", [{"window": (0, 5_000)}, {}])
def test_a_source_by_the_clock_that_is_idle_stands_where_it_was_left_out(asked: dict[str, Any]) -> None:
    answer = clocked(0).explain(at_ms=15_000, **asked)
    (holder,) = answer.holders
    assert (holder.kind, holder.mark, holder.idle_since_ms, answer.watermark) == ("idle", 900, 2_000, 900)
    assert [answer.facts[label] for label in ("watermark of holder", "idle since", "end of")] == [900, 2_000, "s"]
    assert answer.sentence.endswith("It needs a row in partition 0 of s.")


@pytest.mark.parametrize("asked", [{"window": (0, 5_000)}, {}])
def test_a_source_by_the_clock_is_released_by_it_only_if_it_gets_there_before_it_is_idle(asked: dict[str, Any]) -> None:
    short = clocked(0).explain(at_ms=1_000, **asked)
    assert (short.holders[0].kind, short.holders[0].mark, short.release_ms) == ("slow", 0, None)
    assert short.sentence.endswith("It needs a row in partition 0 of s.")
    for more, came_out in ((4_000, False), (4_001, True)):
        assert (clocked(0, more).explain(window=(0, 5_000)).cause == "came out") is came_out
    never_idle = clocked(0, idle_timeout_ms=0).explain(at_ms=1_000, **asked)
    assert (never_idle.holders[0].kind, never_idle.release_ms) == ("clock", 6_000)
    again = clocked(0, 4_500).explain(at_ms=4_600, **asked)
    assert (again.holders[0].kind, again.holders[0].mark, again.release_ms) == ("clock", 3_600, 6_000)


def test_partitions_by_the_clock_stand_where_each_was_left_out() -> None:
    run = clocked(0, 10, 1_500, partitions=2)
    held = run.explain(at_ms=3_000).holders
    assert [(h.partition, h.kind, h.mark) for h in held] == [(0, "slow", 1_910)], "the other one is left out"
    held = run.explain(at_ms=4_000).holders
    assert [(h.partition, h.kind, h.mark, h.idle_since_ms) for h in held] == [
        (0, "idle", 2_410, 3_500),
        (1, "idle", 1_000, 2_010),
    ]


@pytest.mark.parametrize("lag_ms", [0, 1_000])
def test_a_source_can_be_idle_before_any_row(lag_ms: int) -> None:
    by_clock = clocked(30_000).explain(at_ms=9_000)
    assert [(h.kind, h.mark, h.idle_since_ms) for h in by_clock.holders] == [("idle", 900, 2_000)]
    assert by_clock.holders[0].last_ms is None
    by_rows = clocked(30_000, times=[flow.EventTime("t", lag_ms=lag_ms)]).explain(at_ms=9_000)
    assert [(h.kind, h.mark, h.idle_since_ms) for h in by_rows.holders] == [("idle", None, 2_000)]
    assert by_rows.facts["idle since"] == 2_000
    assert "watermark of holder" not in by_rows.facts
    assert by_rows.holders[0].last_ms is None


@settings(max_examples=15, deadline=None)
@given(
    times=st.lists(st.integers(0, 9_000), min_size=1, max_size=8).map(sorted),
    partitions=st.integers(1, 3),
    idle_ms=st.sampled_from([0, 700, 2_000]),
    by_clock=st.booleans(),
)
def test_what_a_partition_is_said_to_stand_at_is_what_its_rule_gives(
    times: list[int], partitions: int, idle_ms: int, by_clock: bool
) -> None:
    """The mapper itself, asked turn by turn as the source was: at every row, deadline and poll."""
    kind: dict[str, Any] = {} if by_clock else {"times": [flow.EventTime("t", lag_ms=300)]}
    run = clocked(*times, partitions=partitions, idle_timeout_ms=idle_ms, **kind)
    mapper = clocked_mapper(by_clock, idle_ms)
    state, idle_turn_ms = mapper.start(partitions, now_ms=0), 0
    for now in range(10_001):
        arrived = [number for number, time in enumerate(times) if time == now]
        for number in arrived:
            mapper.report(state, partition=number % partitions, time=now, now_ms=now)
        due = by_clock and idle_turn_ms <= now
        if due or (not arrived and any(p.deadline_ms == now for p in state.partitions)):
            mapper.tick(state, now_ms=now)
            idle_turn_ms = now + 100
        if now and now % 1_250 == 0:
            for holder in run.explain(at_ms=now, vertex="s").holders:
                partition = state.partitions[holder.partition]
                assert holder.mark == state.marks()[holder.partition], now
                assert (holder.kind == "idle") == partition.idle(now), now


def clocked_mapper(by_clock: bool, idle_ms: int) -> EventTimeMapper:
    policy = RealTimeLag(1_000) if by_clock else FixedLag(300)
    return EventTimeMapper(policy=policy, idle_timeout_ms=idle_ms or None)


def parallel(**fields: Any) -> Recording:
    """Two instances of a window by id, of which the second stands still from 250 ms to 600 ms."""
    given = {"partitions": 4, "parallelism": 2, "idle_timeout_ms": 300}
    window = flow.Window("w", 50, column="t", by="id", aggregates={"n": "count()"}, parallelism=2)
    faults = [flow.Stall("w", instance=1, at_ms=250, for_ms=350)]
    rows = [(n, 10 * n) for n in range(60)]
    return line(source("s", rows, **given), window, **{"faults": faults, "jitter_ms": 3.0, **fields}).record()


def test_a_window_waits_where_its_rows_are() -> None:
    run = parallel()
    answer = run.explain(window=250, at_ms=320)
    assert (answer.cause, answer.instance, answer.watermark, answer.needed) == ("waiting", 1, 210, 250)
    labels = ("results", "part at", "rows of part", "watermark", "needed", "holder", "cause", "goes on at")
    assert [answer.facts[label] for label in labels] == [3, "w[1]", 2, 210, 250, "w[1]", "stalled", 600]
    other = run.explain(at_ms=320, instance=0)
    assert (other.watermark, other.needed) == (280, 300)
    assert [other.facts[label] for label in ("vertex", "window to", "rows")] == ["w[0]", 300, 2]
    late = run.explain(window=250)
    assert (late.cause, late.instance) == ("came out", 1)
    assert (late.facts["vertex"], late.facts["results"], late.facts["came out at"] // 10) == ("w[1]", 5, 60)
    longest = run.explain()
    assert longest.facts["bound"] == "lowest watermark at w"
    (stalled,) = (holder for holder in longest if holder.why == "stalled")
    assert (stalled.who, stalled.held_ms // 10) == ("w[1]", 35)


def parts_of(facts: Facts) -> set[tuple[int, int]]:
    """The instances that hold parts of a window, each with its number of rows."""
    names, rows = facts.get("part at", ()), facts.get("rows of part", ())
    if not isinstance(names, tuple):
        names, rows = (names,), (rows,)
    return {(int(str(name)[2:-1]), number) for name, number in zip(names, rows, strict=True)}


@pytest.mark.parametrize("seed", range(3))
def test_no_instance_that_has_let_a_window_out_is_said_to_wait_for_it(seed: int) -> None:
    run = parallel(seed=seed)
    queues = {queue["queue"]: queue for queue in run.table("queues").to_pylist()}
    items = [item for item in run.table("items").to_pylist() if item["kind"] == "event"]
    came = [(item, queues[item["queue"]]) for item in items]
    for at_ms in range(120, 700, 90):
        for end in range(100, 400, 50):
            parts = parts_of(run.explain(window=end, at_ms=at_ms).facts)
            left = {
                queue["source_instance"]
                for item, queue in came
                if queue["source"] == "w" and item["put_ms"] <= at_ms and json.loads(item["row"])["end"] == end
            }
            assert left.isdisjoint(number for number, _ in parts)
            read_in = [
                (item, queue)
                for item, queue in came
                if queue["source"] == "s" and item["taken_ms"] is not None and item["taken_ms"] <= at_ms
            ]
            mine = [queue for item, queue in read_in if end - 50 <= item["time"] < end]
            counts = Counter(queue["target_instance"] for queue in mine)
            assert parts == {(n, count) for n, count in counts.items() if n not in left}


def test_a_window_is_not_empty_while_its_result_cannot_leave_or_its_rows_are_on_a_queue() -> None:
    """The sink stands still, and its queue has room for two: both results of the first window."""
    grouped = replace(WINDOW, by=("id",))
    rows = [(0, 0), (1, 1), (2, 45), (3, 200), (4, 210), (5, 220), (6, 300)]
    slow = source("s", rows, times=[flow.EventTime("t", lag_ms=100)], frame_ms=100)
    run = line(slow, grouped, queue_size=2, faults=[flow.Stall("out", at_ms=0, for_ms=1_500)]).record()
    closed = run.explain(window=80, at_ms=1_000)
    assert (closed.cause, closed.holders, closed.watermark) == ("waiting", (), 100)
    assert closed.sentence == "The window from 40 ms to 80 ms of w (rows: 1) waits for 80 ms."
    outside = run.explain(window=240, at_ms=1_000)
    assert (outside.cause, outside.facts["on a queue"]) == ("empty", 2)
    assert run.explain(window=80).cause == "came out"


def test_a_python_function_behind_a_source_does_not_hide_its_frames() -> None:
    """Which function it was is not recorded, but the rules of all other vertices are."""
    answers = []
    for fields in ({"select": {"id": "id", "t": "t"}}, {"function": lambda row: row, "columns": ["id", "t"]}):
        run = line(source("a", frame_ms=40), flow.Map("named", **fields), WINDOW).record()
        answer = run.explain(at_ms=210, vertex="named")
        answers.append((answer.needed, [holder.needs_time for holder in answer.holders]))
    assert answers == [(201, [240])] * 2


def test_a_join_waits_for_both_sides() -> None:
    run = joined().record()
    answer = run.explain(at_ms=505, key=0)
    assert [(holder.vertex, holder.key) for holder in answer.holders] == [("deliveries", 1)]
    assert answer.holders[0].needs_time == answer.needed + 20
    assert answer.facts["row of"] == answer.needed + 20
    assert {"released at", "end of"}.isdisjoint(answer.facts)


def test_idleness_does_not_help_a_join_which_fails_at_its_limit() -> None:
    run = joined(5, limit=60).record()
    answer = run.explain(at_ms=450)
    assert (answer.cause, answer.release_ms) == ("idle", None)
    (failure,) = run.table("executions").to_pylist()
    after = run.explain(at_ms=800)
    assert (after.cause, after.holders, after.release_ms) == ("failed", (), None)
    assert after.sentence.startswith(f"The job failed at 670 ms: {failure['reason']}")


def test_over_the_run_the_one_that_held_longest_is_named(run: Recording) -> None:
    """Partition 1 of a held up to the 140 ms of b, and then b up to the 390 ms of partition 0."""
    held = run.explain()
    assert re.search(r"held longest by partition 0 of a \(idle\), for 8[12]\d ms\.", held.sentence)
    slow = next(holder for holder in held if (holder.who, holder.why) == ("partition 1 of a", "slow"))
    assert 290 <= slow.held_ms <= 370


def test_an_answer_is_a_value(run: Recording) -> None:
    answer = run.explain(at_ms=200)
    assert json.loads(answer.to_json()) == json.loads(json.dumps(answer.to_dict()))
    assert " ".join(repr(answer).splitlines()) == answer.sentence
    assert answer._repr_html_().startswith(f"<p>{unbroken(answer.sentence)}</p><details>")
    assert answer == run.explain(at_ms=200)


def test_a_window_that_came_out_names_what_released_it(run: Recording) -> None:
    answer = run.explain(window=80)
    assert (answer.cause, answer.since_ms, answer.watermark) == ("came out", 370, 140)
    assert answer.headline == "The window from 40 ms to 80 ms of count came out at 370 ms; results: 1."
    assert [answer.facts[label] for label in ("since", "let out by", "message")] == [370, "both", "watermark"]


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
    assert answer.sentence.startswith("The job failed at 43 ms: ")
    assert (answer.facts["rows"], answer.facts["needed"]) == (1, 80)


def test_a_window_without_rows_gives_nothing_and_names_those_that_came_too_late(run: Recording) -> None:
    assert run.explain(window=1_000).cause == "empty"
    empty = line([(0, 200), (1, 10)], WINDOW).record().explain(window=40)
    assert (empty.cause, empty.facts["lost rows"]) == ("empty", 1)


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
    assert recording.explain(window=400).facts["rows"] == 5


def test_a_session_needs_a_watermark_beyond_its_end() -> None:
    session = flow.SessionWindow("session", 30, column="t", by="id", aggregates={"n": "count()"})
    recording = line([(0, 0), (0, 20), (1, 50), (1, 51)], session).record()
    waiting = recording.explain(window=(0, 50), at_ms=25)
    assert (waiting.cause, waiting.needed) == ("waiting", 51)
    assert recording.explain(window=(0, 50)).cause == "came out"
    assert recording.explain(window=81).cause == "waiting"
    with pytest.raises(RecordingError, match="there is one from 0 ms to 50 ms"):
        recording.explain(window=30)


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
    said = [drop.facts[label] for label in ("dropped by", "rule", "time", "lowest taken", "late by", "lost because")]
    assert said == [vertex.name, rule, 20, limit, margin, "own rows"]
    assert drop.number("passed at") <= drop.number("dropped at")
    assert drop.sentence == drops.sentence
    assert f"{margin} ms below {limit} ms" in drops.sentence
    assert drops.sentence.endswith("The watermark of partition 0 of s itself was 130 ms, with a lag of 0 s.")
    assert len(recording.why_dropped({"id": 1})) == 0
    assert recording.why_dropped(vertex=vertex.name).rows == drops.rows


def test_a_row_that_is_late_for_a_join_is_dropped_by_its_side() -> None:
    run = joined().replace(faults=[flow.Disorder("orders", at_ms=300, by_ms=100, for_ms=10)])
    drops = run.record().why_dropped()
    assert {drop.facts["rule"] for drop in drops} == {"join"}
    assert {drop.facts["lost because"] for drop in drops} == {"own rows"}
    assert all(drop.number("late by") == drop.number("lowest taken") - drop.number("time") > 0 for drop in drops)


def test_drops_are_counted_by_rule() -> None:
    recording = line([(0, 0), (1, 130), (2, 20), (3, 30), (4, 150)], flow.LateDrop("d", "t"), WINDOW).record()
    drops = recording.why_dropped()
    assert drops.sentence == "Rows of line that were dropped: 2, late by at most 110 ms."
    assert drops.to_pandas()["late by"].tolist() == [110, 100]
    assert json.loads(drops.to_json())["sentence"] == drops.sentence
    assert "<table>" in drops._repr_html_()
    assert recording.why_dropped({"t": 130}).sentence == "No row (t 130) of line was dropped."
    with pytest.raises(RecordingError, match="no dropped row of 'line' has a column 'tt'"):
        recording.why_dropped({"tt": 9})
    assert line([(0, 0)], WINDOW).record().why_dropped().sentence == "No row of line was dropped."


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"at_ms": 1.5}, "not a moment"),
        ({"at_ms": -5}, "−5 ms is outside the run"),
        ({"window": 40, "at_ms": -5}, "outside the run"),
        ({"at_ms": 10, "vertex": "x"}, "no vertex"),
        ({"at_ms": 10, "key": 7}, "no watermarks of key 7"),
        ({"at_ms": 10, "instance": 3}, "no instance 3"),
        ({"at_ms": 10, "reader": "r"}, "reader is named"),
        ({"window": 40, "vertex": "both"}, "is not a window"),
        ({"window": 43}, "no window from"),
        ({"window": (0, 7)}, "no window from 0 ms to 7 ms"),
        ({"window": (1, 2, 3)}, r"window is \(1, 2, 3\)"),
        ({"window": ()}, r"window is \(\)"),
        ({"window": "40"}, "window is '40'"),
    ],
)
def test_questions_that_have_no_answer_are_refused(run: Recording, question: dict[str, Any], words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        run.explain(**question)


SAVED = {"guarantee": "exactly_once", "snapshot_every_ms": 50, "duration_ms": 900}


def restarted(vertex: Any, *others: flow.Source, **fields: Any) -> Recording:
    """Rows up to 260 ms, and a restart at 280 ms from the snapshot before it."""
    rows = [[t, t, t // 10 % 2] for t in range(0, 261, 20)]
    first = flow.Source("s", columns=["arrival", "t", "k"], rows=rows, arrival="arrival", times="t")
    edges = [f"{name.name} -> {vertex.name}" for name in (first, *others)]
    return flow.Dataflow(
        "restarted",
        vertices=[first, *others, vertex, flow.Sink("out")],
        edges=[*edges, f"{vertex.name} -> out"],
        **(SAVED | {"faults": (flow.Restart(280),)} | fields),
    ).record()


COUNTED = {"column": "t", "aggregates": {"n": "count()"}}
TWICE = {"faults": (flow.Restart(180), flow.Restart(280))}


@pytest.mark.parametrize(
    "window",
    [
        flow.Window("w", 200, **COUNTED),
        flow.SessionWindow("w", 60, **COUNTED),
    ],
    ids=["window", "session"],
)
def test_after_a_restart_a_window_holds_the_rows_of_its_snapshot(window: Any) -> None:
    again, never = restarted(window), restarted(window, faults=())
    assert [row["snapshot"] is None for row in again.table("executions").to_pylist()] == [True, False]
    end = 320 if isinstance(window, flow.SessionWindow) else 400
    told = [run.explain(vertex="w", window=end, at_ms=600) for run in (never, again)]
    assert [answer.cause for answer in told] == ["waiting", "waiting"]
    assert told[0].sentence.split(" and waits")[0] == told[1].sentence.split(" and waits")[0]


def test_after_a_restart_a_window_that_came_out_before_is_known() -> None:
    window = flow.Window("w", 100, **COUNTED)
    told = [run.explain(vertex="w", window=100, at_ms=600) for run in (restarted(window), restarted(window, faults=()))]
    assert [answer.cause for answer in told] == ["came out", "came out"]
    assert told[0].sentence == told[1].sentence


def test_after_a_restart_a_partition_knows_the_rows_of_its_snapshot_and_no_later_ones() -> None:
    """Rows at 0, 20, ..., 260 ms; a snapshot at 250 ms has those up to 240 ms; the row at 260 ms is read again."""
    again = restarted(flow.Window("w", 200, **COUNTED), jitter_ms=30.0)
    began = again.table("executions").to_pylist()[1]["started_ms"]
    (saved,) = (
        row["rows_read"]
        for row in again.table("snapshots").to_pylist()
        if (row["snapshot"], row["vertex"]) == (again.table("executions").to_pylist()[1]["snapshot"], "s")
    )
    read_rows = [row for row in again.table("source_rows").to_pylist() if row["execution"] == 1]
    (holder,) = again.explain(at_ms=began).holders
    assert holder.last_ms == read_rows[saved - 1]["at_ms"]
    assert "no row has come" not in again.explain(at_ms=began).sentence
    assert again.explain(at_ms=600).holders[0].last_ms > began
    scratch = restarted(flow.Window("w", 200, **COUNTED), snapshot_every_ms=None)
    assert scratch.explain(at_ms=280).holders[0].last_ms is None, "without a snapshot it begins from the start"


def test_after_restarts_a_source_goes_on_counting_the_rows_that_its_filter_rejected() -> None:
    def rejected(at_ms: int) -> list[tuple[int | None, int]]:
        rows = [[t, t, 0 if t < 100 else 1] for t in range(0, 261, 20)]
        picky = flow.Source("s", columns=["arrival", "t", "k"], rows=rows, arrival="arrival", times="t", where="k == 0")
        run = line(picky, WINDOW, **(SAVED | TWICE)).record()
        return [(holder.last_ms, holder.rejected) for holder in run.explain(at_ms=at_ms).holders]

    assert rejected(170) == [(80, 4)], "100, 120, 140 and 160 ms"
    assert rejected(181) == [(80, 5)], "a snapshot at 150 ms has 3, and two are read again"
    assert rejected(600) == [(80, 9)]
