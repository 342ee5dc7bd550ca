"""Charts of dataflows: what they draw is what the tables say, and their sentences state the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

import wmlab as wm
from wmlab import dataflow as flow
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.dataflow.charts.facts import level_of
from wmlab.dataflow.charts.merging import held_ms

ROWS = [(n, 10 * n) for n in range(40)]


def merged(**fields: Any) -> flow.Dataflow:
    """Two sources merged; partition 1 of `a` brings its rows half a second late, and they are dropped."""
    given: dict[str, Any] = {
        "vertices": [
            flow.Source("a", columns=["id", "t"], rows=ROWS, times="t", partitions=2, idle_timeout_ms=300),
            flow.Source("b", columns=["id", "t"], rows=ROWS[:15], times="t", idle_timeout_ms=200, ends=True),
            flow.Merge("both"),
            flow.LateDrop("drop", "t"),
            flow.Sink("out"),
        ],
        "edges": ["a -> both -> drop -> out", "b -> both"],
        "faults": [flow.LatePartition("a", partition=1, at_ms=80, by_ms=500)],
        "duration_ms": 1_000,
        "jitter_ms": 0.0,
    }
    return flow.Dataflow("two sources", **(given | fields))


def joined(deliveries: int, duration_ms: int = 400) -> flow.Dataflow:
    """A join whose right side ends early; at most 60 rows are kept."""
    rows = [(n, 10 * n + 5) for n in range(50)][:deliveries]
    condition = "left.id == right.id and left.t <= right.t and right.t <= left.t + 20"
    return flow.Dataflow(
        "joined",
        vertices=[
            flow.Source("l", columns=["id", "t"], rows=[(n, 10 * n) for n in range(100)], times=flow.EventTime("t")),
            flow.Source("r", columns=["id", "t"], rows=rows, times=flow.EventTime("t", key=1)),
            flow.Join("join", condition, limit=60),
            flow.Sink("out"),
        ],
        edges=["l -> join -> out", "r -> join"],
        duration_ms=duration_ms,
        jitter_ms=0.0,
    )


@pytest.fixture(scope="module")
def run() -> Recording:
    return merged().record()


def check_both(chart: Any) -> None:
    """The chart is drawn twice, with its sentence in both."""
    assert chart.svg.startswith("<svg")
    json.loads(chart.figure().to_json())
    assert chart.sentence[:30].split("<")[0][:20] in chart.svg.replace("&amp;", "&")


def test_merging_at_a_source_shows_its_partitions(run: Recording) -> None:
    chart = wm.dataflow.chart.coalescing(run, vertex="a")
    check_both(chart)
    assert set(chart.data["input"]) == {"partition 0", "partition 1", "merged"}
    merged_ = [
        (at, mark) for name, at, mark in zip(*chart.data.values(), strict=True) if name == "merged" and mark is not None
    ]
    sent: dict[int, int] = {}
    for row in run.table("coalescing").to_pylist():
        if row["vertex"] == "a" and row["emitted"]:
            sent[row["at_ms"]] = dict(row["emitted"])[0]
    assert merged_ == [*sent.items(), (1_000, list(sent.values())[-1])]
    assert chart.sentence.startswith("partition 1 held the watermark of key 0 at a longest")


def test_without_a_vertex_it_is_the_first_that_merges(run: Recording) -> None:
    assert wm.dataflow.chart.coalescing(run) == wm.dataflow.chart.coalescing(run, vertex="a") or (
        wm.dataflow.chart.coalescing(run).data == wm.dataflow.chart.coalescing(run, vertex="a").data
    )
    assert set(wm.dataflow.chart.coalescing(run, vertex="both").data["input"]) == {"a", "b", "merged"}


def test_dropped_rows_are_in_the_chart(run: Recording) -> None:
    dropped = run.table("drops").num_rows
    assert dropped > 2
    chart = wm.dataflow.chart.coalescing(run, vertex="drop")
    assert f"{dropped} rows that came below it were dropped" in chart.sentence
    crosses = [trace for trace in chart.figure().data if trace.name == "dropped row"]
    assert [len(trace.x) for trace in crosses] == [dropped]


def test_who_holds_is_the_lowest_that_counts(run: Recording) -> None:
    held = held_ms(level_of(run, "a", 0), 0)
    assert held[1] > held[0]
    assert 290 <= held[1] <= 700


def test_activity_tells_idle_and_ended_inputs(run: Recording) -> None:
    chart = wm.dataflow.chart.input_activity(run, vertex="both")
    check_both(chart)
    rows = list(zip(*chart.data.values(), strict=True))
    assert ("b", 140, 1_000, "done") in rows
    assert {state for name, _, _, state in rows if name == "a"} == {"active"}
    quiet = wm.dataflow.chart.input_activity(merged(faults=[], duration_ms=100).record(), vertex="both")
    assert quiet.sentence == "No input of both was ever left out as idle."
    idle = wm.dataflow.chart.input_activity(run, vertex="a")
    assert idle.sentence.startswith("2 of 2 inputs of a were idle at some time")
    stretches = [row for row in zip(*idle.data.values(), strict=True) if row[0] == "partition 1"]
    assert [state for *_, state in stretches][:3] == ["active", "idle", "active"]
    assert stretches[1][1] == 370


def test_state_grows_to_its_limit_with_a_forecast() -> None:
    chart = wm.dataflow.chart.state_size(joined(5).record(), joined(50).record(), labels=["stops", "lives"])
    check_both(chart)
    assert "stops: join holds" in chart.sentence
    assert "it reaches its limit of 60 at" in chart.sentence
    names = {trace.name for trace in chart.figure().data}
    assert {"stops", "lives", "limit 60", "forecast for stops"} <= names
    sizes = [size for run, _, size in zip(*chart.data.values(), strict=True) if run == "lives"]
    assert max(sizes) <= 6


def test_a_run_that_fails_is_marked() -> None:
    chart = wm.dataflow.chart.state_size(joined(5, 900).record())
    assert "the job fails" in chart.svg
    assert "it has reached its limit of 60" in chart.sentence


def test_interleavings_are_bars_by_their_ends() -> None:
    found = wm.dataflow.permutations([[10, "idle"], [20, "idle"]], rule="no flush")
    chart = wm.dataflow.chart.interleavings(found)
    check_both(chart)
    assert chart.sentence == found.sentence
    assert chart.data["count"] == [3, 2, 1]
    assert {trace.name for trace in chart.figure().data} == {"ends with 10, idle", "ends with 20, idle"}


def test_many_outputs_are_cut_with_a_word() -> None:
    inputs = [[n * 3 + place for n in range(1, 5)] for place in range(3)]
    chart = wm.dataflow.chart.interleavings(wm.dataflow.permutations(inputs))
    assert "Drawn are the 16 most frequent of" in chart.svg


def test_queues_show_every_item_in_the_stretch(run: Recording) -> None:
    chart = wm.dataflow.chart.queue_diagram(run, from_ms=0, to_ms=50)
    check_both(chart)
    wanted = [
        row
        for row in run.table("items").to_pylist()
        if row["put_ms"] <= 50 and (row["taken_ms"] is None or row["taken_ms"] >= 0)
    ]
    assert len(chart.data["kind"]) == len(wanted)
    few = wm.dataflow.chart.queue_diagram(run, from_ms=0, to_ms=50, vertices=["a", "both"])
    assert 0 < len(few.data["kind"]) < len(wanted)


def test_items_that_nobody_takes_are_crosses() -> None:
    chart = wm.dataflow.chart.queue_diagram(
        merged(faults=[flow.Stall("both", at_ms=30)]).record(), from_ms=0, to_ms=100
    )
    assert "were not taken" in chart.sentence
    assert "not taken" in {trace.name for trace in chart.figure().data}


def test_a_watermark_overtakes_a_barrier_at_least_once_only() -> None:
    """The barrier of one queue waits on the other; what lies behind the first is taken meanwhile."""
    told = {}
    for guarantee in ("at_least_once", "exactly_once"):
        flows = merged(guarantee=guarantee, snapshot_every_ms=20, faults=[], jitter_ms=30.0, duration_ms=400)
        told[guarantee] = wm.dataflow.chart.queue_diagram(flows.record(), vertices=["a", "b", "both"]).sentence
    assert "from behind a barrier before it was complete" in told["at_least_once"]
    assert "behind a barrier" not in told["exactly_once"]


def test_of_many_items_the_first_are_drawn() -> None:
    many = flow.Source("a", columns=["id", "t"], rows=[(n, 10 * n) for n in range(90)], times="t")
    long = merged(vertices=[many, *merged().vertices[1:]], faults=[]).record()
    assert "Drawn are the first 400 of" in wm.dataflow.chart.queue_diagram(long).svg


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda run: wm.dataflow.chart.coalescing(run, vertex="x"), "no vertex"),
        (lambda run: wm.dataflow.chart.coalescing(run, vertex="both", key=9), "No watermark of key 9"),
        (lambda run: wm.dataflow.chart.coalescing(run, vertex="both", instance=2), "no instance 2"),
        (lambda run: wm.dataflow.chart.state_size(run), "held anything"),
        (lambda run: wm.dataflow.chart.state_size(run, run, run, run, run), "too many"),
        (lambda run: wm.dataflow.chart.state_size(run, vertex="both", labels=["a", "b"]), "2 labels for 1 runs"),
        (lambda run: wm.dataflow.chart.interleavings(run), "drawn of permutations"),
        (lambda run: wm.dataflow.chart.queue_diagram(run, from_ms=5_000, to_ms=6_000), "No item"),
        (lambda run: wm.dataflow.chart.queue_diagram(run, vertices=["nobody"]), "no vertex"),
    ],
)
def test_what_cannot_be_drawn_is_refused(run: Recording, draw: Any, words: str) -> None:
    with pytest.raises(ChartError, match=words):
        draw(run)


def test_a_recording_without_a_dataflow_is_refused() -> None:
    with pytest.raises(ChartError):
        wm.dataflow.chart.coalescing(Recording.from_tables({}, name="empty"))
