"""The cause of a watermark that does not move, where answers were wrong or silent before."""

from __future__ import annotations

from typing import Any

import pytest

import wmlab as wm
from tests.dataflow.flows import ROWS, WINDOW, line, merged, source
from wmlab import dataflow as flow
from wmlab.core.recording import Recording
from wmlab.dataflow.answers.results import JobFailedWarning


def failed() -> Recording:
    """A processor that lets 200 follow 220, at which the job dies, as upstream's does."""

    def back(state: Any, item: Any) -> tuple[Any, list[Any]]:
        if not isinstance(item, flow.Watermark):
            return state, [item]
        return state, [flow.Watermark(0, 220 if item.value < 50 else 200)]

    slow = source("s", [(n, 10 * n) for n in range(20)], frame_ms=50)
    return line(slow, flow.Custom("own", function=back), WINDOW, duration_ms=1_000).record()


def test_a_job_that_failed_is_named_first_by_every_answer_with_the_reason() -> None:
    run = failed()
    (execution,) = run.table("executions").to_pylist()
    assert execution["outcome"] == "failed"
    first = f"The job failed at {execution['ended_ms']} ms: {execution['reason'].rstrip('.')}."
    assert f"; the job failed at {execution['ended_ms']} ms)" in repr(run)
    with pytest.warns(JobFailedWarning, match="Results may be missing"):
        run.results()
    texts = {
        "a moment": run.explain(1_000).sentence,
        "the run": run.explain().sentence,
        "a window": run.explain(window=(160, 200)).sentence,
        "drops": run.why_dropped().sentence,
        "measures": run.measures().sentence,
        "check": run.check().sentence,
        "coalescing": wm.dataflow.chart.coalescing(run).sentence,
        "queues": wm.dataflow.chart.queue_diagram(run).sentence,
    }
    assert {name: text for name, text in texts.items() if not text.startswith(first)} == {}


def test_a_throttled_source_names_its_frame_and_not_a_partition_that_is_beyond_what_is_awaited() -> None:
    rows = [(n, 1_000 * n) for n in range(60)]
    times = [flow.EventTime("t", lag_ms=10_000)]
    window = flow.Window("w", 1_000, column="t", aggregates={"n": "count()"})
    slow = source("s", rows, times=times, frame_ms=10_000, every_ms=1_000)
    answer = (
        line(slow, window, duration_ms=40_000, jitter_ms=0.0).record().explain(window=(12_000, 13_000), at_ms="25s")
    )
    (holder,) = answer.holders
    assert (holder.kind, holder.mark, holder.next_mark, holder.needs_time) == ("throttled", 15_000, 20_000, 30_000)
    assert answer.facts["next watermark"] == 20_000
    assert answer.sentence.endswith("A row of 30.0 s or later in partition 0 of s releases it.")


def test_what_waits_on_a_queue_is_released_by_the_instance_that_takes_it() -> None:
    answer = merged(faults=[flow.Stall("both", at_ms=100, for_ms=200)]).record().explain(at_ms=150)
    assert answer.sentence.endswith("held by both (stalled). It is not released before 300 ms.")
    assert [answer.facts[label] for label in ("fault from", "fault until", "waits since")] == [100, 300, 100]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (flow.Stall("s", at_ms=95, for_ms=300), "stalled"),
        (flow.Stall("s", at_ms=95), "stalled"),
        (flow.SilentPartition("s", 0, at_ms=95, for_ms=300), "silenced"),
        (flow.LatePartition("s", 0, at_ms=95, by_ms=4_000), "delayed"),
        (flow.Disorder("s", at_ms=95, by_ms=400), "disordered"),
        (flow.SwallowAll("s", at_ms=95, for_ms=300), "swallowed"),
    ],
)
def test_a_fault_that_stops_a_source_is_named_while_it_lasts(fault: Any, kind: str) -> None:
    rows = source("s", [(n, 10 * n) for n in range(50)], where="id >= 0")
    run = line(rows, WINDOW, duration_ms=1_000, faults=[fault]).record()
    facts = run.explain(120).facts
    until_ms = None if fault.for_ms is None else 395
    assert [facts.get(label) for label in ("fault", "fault from", "fault until")] == [kind, 95, until_ms]
    assert "fault" not in run.explain(90).facts
    (holder,) = run.explain(120).holders
    assert holder.fault is not None
    assert holder.fault.since_ms == 95
    if fault.for_ms is not None:
        assert "fault" not in run.explain(450).facts
    released = "goes on at" if holder.kind == "stalled" else "row in each of"
    assert (released in facts) == (not holder.fault.stops_rows)


def test_all_inputs_idle_wait_for_any_row_and_for_no_moment() -> None:
    answer = merged().record().explain(at_ms=1_400)
    assert (answer.cause, answer.release_ms) == ("idle", None)
    assert "partition 0 of a" in answer.facts["row in any of"]


def test_a_comparison_says_first_which_run_failed_or_never_had_a_watermark() -> None:
    def lasting(name: str, **fields: Any) -> Recording:
        return line(source("s", ROWS, **fields), WINDOW, duration_ms=900).replace(name=name).record()

    sentence = wm.compare(lasting("plain"), lasting("silent", frame_ms=0), lasting("late", starts_ms=200)).sentence
    assert sentence.startswith("silent never had a watermark. ")
    assert "lags most" in sentence
    assert "has no lag" not in sentence
    broken = failed()
    assert wm.compare(lasting("plain"), lasting("again")).sentence.find("fewer than") < 0
    answer = wm.compare(lasting("plain"), broken, labels=["plain", "broken"])
    assert answer.sentence.startswith("broken: The job failed at ")


def test_every_sentence_begins_with_a_capital_and_ends_with_a_full_stop() -> None:
    run = merged().record()
    questions: list[dict[str, Any]] = [
        {"window": end, "at_ms": at_ms} for end in (80, 200, 1_000) for at_ms in (200, 900)
    ]
    questions += [
        {"vertex": vertex, "at_ms": at_ms} for vertex in ("a", "both", "count") for at_ms in range(0, 1_400, 90)
    ]
    for question in questions:
        sentence = run.explain(**question).sentence
        assert sentence[0].isupper(), sentence
        assert sentence.endswith("."), sentence


def test_a_comparison_has_the_results_of_each_run_though_none_failed() -> None:
    def read(name: str, count: int) -> Recording:
        return line(source("s", ROWS[:count]), WINDOW, duration_ms=900).replace(name=name).record()

    runs = [read("none", 1), read("all", len(ROWS)), read("few", len(ROWS) // 2)]
    none, every, few = (run.measures().results for run in runs)
    assert (none, every) == (0, runs[1].counts["sunk"])
    assert every > few > 0
    assert dict(wm.compare(*runs).results)["results"] == (none, every, few)


def joined_by(emit: Any, *, more: tuple[tuple[str, int], ...] = ()) -> Recording:
    """Two sides of a join, of which b is behind; `more` are rows that come at 600 ms."""
    rows = {"a": [(0, 10), (100, 150), (200, 300)], "b": [(0, 10), (110, 61)]}
    for name, time in more:
        rows[name].append((600, time))
    sides = [
        flow.Source(name, columns=("at", "t"), rows=rows[name], arrival="at", times=[flow.EventTime("t", key=key)])
        for key, name in enumerate(rows)
    ]
    join = flow.Join("j", "left.t - 100 <= right.t and right.t <= left.t + 50")
    return flow.Dataflow(
        "sides",
        vertices=[*sides, join, flow.Sink("out")],
        edges=["a -> j -> out", "b -> j"],
        rules=flow.Rules(emit=emit),
        duration_ms=1_000,
        jitter_ms=0,
    ).record()


@pytest.mark.parametrize("emit", ["state", "buffer"])
def test_a_join_is_held_by_the_side_that_lets_its_rows_go(emit: Any) -> None:
    """By the state, the limit of 11 has to rise; by the buffer, it has to rise above the row of 150."""
    answer = joined_by(emit).explain(at_ms=500, vertex="j", key=0)
    let_out = {"state": 11, "buffer": 150}[emit]
    needed = {"state": 62, "buffer": 201}[emit]
    assert (answer.watermark, answer.facts["holder"], answer.facts["cause"]) == (let_out, "partition 0 of b", "slow")
    assert (answer.facts["row in each of"], answer.facts["row of"]) == ("partition 0 of b", needed)
    for time, is_released in ((needed - 1, False), (needed, True)):
        watermark = joined_by(emit, more=(("b", time),)).explain(at_ms=700, vertex="j", key=0).watermark
        assert (watermark > let_out) is is_released
    assert joined_by(emit, more=(("a", 900),)).explain(at_ms=700, vertex="j", key=0).watermark == let_out


def test_a_join_that_keeps_no_row_below_is_held_by_the_side_of_the_key() -> None:
    answer = joined_by("buffer", more=(("b", 600),)).explain(at_ms=900, vertex="j", key=0)
    assert (answer.watermark, answer.facts["holder"]) == (300, "partition 0 of a")


def test_of_a_side_of_a_join_that_is_idle_as_a_whole_a_row_in_any_partition_is_enough() -> None:
    idle: dict[str, Any] = {"idle_timeout_ms": 100, "partitions": 2}
    rows = {"a": [(t, t) for t in range(0, 900, 10)], "b": [(0, 10), (10, 10)]}
    sides = [
        flow.Source(
            name,
            columns=("at", "t"),
            rows=rows[name],
            arrival="at",
            times=[flow.EventTime("t", key=key)],
            **(idle if name == "b" else {}),
        )
        for key, name in enumerate(rows)
    ]
    join = flow.Join("j", "left.t - 100 <= right.t and right.t <= left.t + 50")
    run = flow.Dataflow(
        "sides", vertices=[*sides, join, flow.Sink("out")], edges=["a -> j -> out", "b -> j"], duration_ms=1_000
    ).record()
    facts = run.explain(at_ms=500, vertex="j", key=0).facts
    assert facts["row in any of"] == ("partition 0 of b", "partition 1 of b")


def test_a_row_has_to_pass_the_filter_of_a_source_that_says_nothing_of_the_others() -> None:
    picky = source("s", [(n, 10 * n) for n in range(20)], where="id < 5", idle_timeout_ms=50)
    for rules, name in (("implementation", "partition 0 of s past its filter"), ("sound", "partition 0 of s")):
        facts = line(picky, WINDOW, rules=rules, duration_ms=1_000).record().explain(at_ms=900).facts
        assert facts["row in each of"] == name


def test_an_input_that_has_ended_is_none_for_which_nothing_waits() -> None:
    times = {"times": "t", "columns": ["t"], "arrival": "t"}
    brief = flow.Source("brief", rows=[[100]], idle_timeout_ms=300, ends=True, **times)
    rest = flow.Source("rest", rows=[[t] for t in range(0, 900, 10)], **times)
    run = flow.Dataflow(
        "ended",
        vertices=[brief, rest, flow.Merge("both"), flow.Sink("out")],
        edges=["brief -> both -> out", "rest -> both"],
        duration_ms=1_000,
    ).record()
    assert "not waited for" not in run.explain(at_ms=800, vertex="both").facts
