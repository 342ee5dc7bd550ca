"""Charts of dataflows: what they draw is what the tables say, and their sentences state the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import wmlab as wm
from tests.core.charts.layers import check_chart, layers_of, points
from tests.dataflow.flows import ROWS, WINDOW, joined, line, merged, source
from wmlab import dataflow as flow
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.clicked import AnsweringChart
from wmlab.core.charts.scene import Path
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.dataflow.charts.levels import level_of
from wmlab.streams.recording import StreamRecording

charts = wm.dataflow.chart


def late(**fields: Any) -> flow.Dataflow:
    """Two sources merged; partition 1 of `a` brings its rows half a second late, and they are dropped."""
    other = source("b", ROWS[:15], idle_timeout_ms=200, ends=True)
    settings: dict[str, Any] = {
        "faults": [flow.LatePartition("a", partition=1, at_ms=80, by_ms=500)],
        "duration_ms": 1_000,
    }
    return merged(other, flow.LateDrop("count", "t"), **(settings | fields))


def silent() -> flow.Dataflow:
    """Two sources without rows, which become idle."""
    return merged(*(source(name, [], idle_timeout_ms=100) for name in ("a", "b")))


@pytest.fixture(scope="module")
def run() -> Recording:
    return late().record()


def rows_of(chart: Any) -> list[tuple[Any, ...]]:
    return list(zip(*chart.data.values(), strict=True))


@pytest.mark.parametrize(
    "draw",
    [
        lambda run: charts.coalescing(run, vertex="a"),
        lambda run: charts.queue_diagram(run, from_ms=0, to_ms=50),
        lambda _: charts.state_size(joined(5, limit=60, duration_ms=400).record()),
        lambda _: charts.interleavings(wm.dataflow.permutations([[10, "idle"], [20, "idle"]])),
    ],
)
def test_a_chart_is_drawn_in_both_pictures(run: Recording, draw: Callable[[Recording], Chart]) -> None:
    check_chart(draw(run))


def test_merging_at_a_source_shows_its_partitions(run: Recording) -> None:
    chart = charts.coalescing(run, vertex="a")
    assert set(chart.data["input"]) == {"partition 0", "partition 1", "coalesced"}
    merged_ = [(at, mark) for name, at, mark in rows_of(chart) if name == "coalesced" and mark is not None]
    sent: dict[int, int] = {}
    for row in run.table("coalescing").to_pylist():
        if row["vertex"] == "a" and row["emitted"]:
            sent[row["at_ms"]] = dict(row["emitted"])[0]
    assert merged_ == [*sent.items(), (1_000, list(sent.values())[-1])]
    assert chart.facts == {"vertex": "a", "watermark": merged_[-1][1]}
    assert charts.coalescing(run).data == chart.data, "it is the first that merges"
    assert set(charts.coalescing(run, vertex="both").data["input"]) == {"a", "b", "coalesced"}


def test_dropped_rows_are_in_the_chart(run: Recording) -> None:
    dropped = run.table("drops").num_rows
    assert dropped > 2
    chart = charts.coalescing(run, vertex="count")
    assert chart.sentence.endswith(f"Rows that were dropped: {dropped}.")
    assert len(layers_of(chart)["dropped row"].xs) == dropped


def test_a_dropped_row_of_another_time_is_beyond_the_axis() -> None:
    rows = [(n, -(10**12) if n == 25 else 10 * n) for n in range(40)]
    chart = charts.coalescing(merged(source("a", rows), flow.LateDrop("count", "t")).record(), vertex="count")
    assert chart.scene.beyond == "Beyond the axis: dropped row (1 value), down to −11 574 d 1 h 47 min."
    watermark = chart.scene.panels[0].up
    assert watermark.low > -10_000


def test_activity_tells_idle_and_ended_inputs(run: Recording) -> None:
    both = level_of(run, "both", 0)
    assert (140, 1_000, "done") in both.stretches(1)
    assert {state for *_, state in both.stretches(0)} == {"active"}
    stretches = level_of(run, "a", 0).stretches(1)
    assert [state for *_, state in stretches][:3] == ["active", "idle", "active"]
    assert stretches[1][0] == 370


def test_a_click_on_coalescing_asks_about_the_curve_that_is_drawn(run: Recording) -> None:
    chart = charts.coalescing(run, vertex="both")
    assert isinstance(chart, AnsweringChart)
    assert chart.answer(200) == run.explain(200, vertex="both", key=0, instance=0)


def test_the_size_of_state_is_said_as_the_table_has_it_and_nothing_is_forecast() -> None:
    stops, lives = (joined(number, limit=60, duration_ms=400).record() for number in (5, 50))
    chart = charts.state_size(stops, lives, labels=["stops", "lives"])
    sizes = [
        [row["size"] for row in run.table("state").to_pylist() if row["buffer"] == "all"] for run in (stops, lives)
    ]
    assert chart.facts["held at most"] == tuple(map(max, sizes))
    assert chart.facts["held"] == tuple(of_run[-1] for of_run in sizes)
    assert {"stops", "lives", "limit 60"} == layers_of(chart).keys()
    assert max(size for run, _, size in rows_of(chart) if run == "lives") <= 6
    full = charts.state_size(joined(5, limit=60).record())
    assert "the job fails" in [rule.label for rule in full.scene.rules]
    assert full.sentence.startswith("The job failed at 670 ms: ")
    assert full.facts["held at most"] == 60
    assert "limit 60" in layers_of(full)


def test_interleavings_are_bars_by_their_ends() -> None:
    answer = wm.dataflow.permutations([[10, "idle"], [20, "idle"]], rules=wm.dataflow.Rules(highest_held_back=True))
    chart = charts.interleavings(answer)
    assert chart.sentence == answer.sentence
    assert chart.data["count"] == [3, 2, 1]
    assert layers_of(chart).keys() == {"ends with 10, idle", "ends with 20, idle"}
    many = wm.dataflow.permutations([[n * 3 + number for n in range(1, 5)] for number in range(3)])
    assert "Drawn are 16 of" in charts.interleavings(many).scene.note


def test_queues_show_every_item_in_the_stretch(run: Recording) -> None:
    chart = charts.queue_diagram(run, from_ms=0, to_ms=50)
    wanted = [row for row in run.table("items").to_pylist() if row["put_ms"] <= 50]
    assert len(chart.data["kind"]) == len(wanted)
    few = charts.queue_diagram(run, from_ms=0, to_ms=50, vertices=["a", "both"])
    assert 0 < len(few.data["kind"]) < len(wanted)


def test_items_that_nobody_takes_are_crosses() -> None:
    stalled = late(faults=[flow.Stall("both", at_ms=30)]).record()
    chart = charts.queue_diagram(stalled, from_ms=0, to_ms=100)
    left = sum(row["taken_ms"] is None for row in stalled.table("items").to_pylist())
    assert 0 < int(chart.sentence.removesuffix(".").rsplit(" ", 1)[1]) <= left
    assert "not taken" in layers_of(chart)


def test_of_many_items_the_first_are_drawn() -> None:
    long = merged(source("a", [(n, 10 * n) for n in range(90)])).record()
    assert "Drawn are 400 of" in charts.queue_diagram(long).scene.note


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda run: charts.coalescing(run, vertex="x"), "no vertex"),
        (lambda run: charts.coalescing(run, vertex="both", key=9), "No watermark of key 9"),
        (lambda run: charts.coalescing(run, vertex="both", instance=2), "no instance 2"),
        (lambda run: charts.coalescing(run, vertex="both", instance="0"), "no instance '0'"),
        (lambda _: charts.coalescing(silent().record(), vertex="count"), "No watermark came to 'count'"),
        (lambda run: charts.state_size(run), "held anything"),
        (lambda run: charts.state_size(run, run, run, run, run), "too many"),
        (lambda run: charts.state_size(run, vertex="both", labels=["a", "b"]), "2 labels for 1 runs"),
        (lambda run: charts.interleavings(run), r"drawn of permutations \(got DataflowRecording"),
        (lambda _: charts.interleavings(pd.DataFrame({"outcomes": [1]})), r"drawn of permutations \(got DataFrame"),
        (lambda _: charts.interleavings(None), r"drawn of permutations \(got NoneType"),
        (lambda run: charts.state_size(run, vertex=["count"]), r"no vertex of .* is called \['count'\]"),
        (lambda run: charts.coalescing(run, vertex=["count"]), r"no vertex of .* is called \['count'\]"),
        (lambda run: charts.coalescing(run, key="0"), "No watermark of key '0'"),
        (lambda run: charts.coalescing(run, instance=True), "no instance True"),
        (lambda run: charts.queue_diagram(run, vertices=[["count"]]), r"no vertex of .* is called \"\['count'\]\""),
        (lambda run: charts.queue_diagram(run, from_ms=5_000, to_ms=6_000), "No item"),
        (lambda run: charts.queue_diagram(run, vertices=["nobody"]), "no vertex"),
        (lambda run: charts.queue_diagram(run, vertices="both"), "vertices is 'both'"),
        (lambda run: charts.queue_diagram(run, from_ms="5"), "from_ms is '5'"),
        (lambda run: charts.state_size(run, run, labels="ab"), "labels is 'ab'"),
        (lambda run: charts.state_size(run, None), r"None is not a recording"),
        (lambda _: charts.coalescing(StreamRecording.from_tables({}, name="empty")), "'empty'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(run: Recording, draw: Any, words: str) -> None:
    with pytest.raises(ChartError, match=rf"{words}(?s:.*)\nTo repair it: "):
        draw(run)


RECORDED = " is not a recording.\nTo repair it: Draw what scenario.record() gives."
OTHERS: dict[str, tuple[Any, str]] = {
    "None": (None, f"None{RECORDED}"),
    "a table": (pd.DataFrame({"a": [1]}), f"A DataFrame{RECORDED}"),
    "a name": ("run", f"'run'{RECORDED}"),
    "permutations": (wm.dataflow.permutations([[1]]), RECORDED),
    "a dataflow": (late(), RECORDED),
    "another kind": (StreamRecording.from_tables({}, name="r"), "which has no table 'vertices'"),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("chart", [charts.coalescing, charts.queue_diagram, charts.state_size])
def test_what_is_no_recording_of_a_dataflow_is_refused_with_what_to_pass(chart: Any, name: str) -> None:
    offered, expected = OTHERS[name]
    with pytest.raises(ChartError) as caught:
        chart(offered)
    assert expected in str(caught.value)
    assert "To repair it: " in str(caught.value)


def test_of_a_long_curve_the_chart_says_how_much_is_drawn_and_loses_no_peak() -> None:
    rows = [(n, 10 * n) for n in range(450)]
    long = merged(source("a", rows, every_ms=1), source("b", rows, every_ms=1), duration_ms=500, jitter_ms=0.0).record()
    chart = charts.coalescing(long, vertex="both")
    assert "steps." in chart.scene.subtitle
    for name in ("a", "b"):
        marks = [mark for which, _, mark in rows_of(chart) if which == name and mark is not None]
        shown = [mark for mark in layers_of(chart)[name].ys if mark is not None]
        assert len(shown) <= 400 < len(marks)
        assert (min(shown), max(shown)) == (min(marks), max(marks))
    assert "Drawn are" not in charts.coalescing(merged().record()).scene.subtitle


def test_partitions_by_the_clock_are_drawn_and_only_idleness_is_said_to_let_a_watermark_through() -> None:
    clock = {"times": [flow.EventTime("t", policy="real_time")], "partitions": 2, "idle_timeout_ms": 300}
    run = line(source("s", [(0, 0), (1, 5), (2, 400)], arrival="t", **clock), WINDOW, duration_ms=900).record()
    chart = charts.coalescing(run, vertex="s")
    steps = [row for row in run.table("coalescing").to_pylist() if row["vertex"] == "s" and row["value"] is not None]
    for number in (0, 1):
        mine = {row["at_ms"]: row["value"] for row in steps if row["input"] == number}
        shown = {at: mark for name, at, mark in rows_of(chart) if name == f"partition {number}" and mark is not None}
        assert mine.items() <= shown.items()
        assert len(mine) > 3
    level = level_of(run, "s", 0)
    stretches = {(number, begin, state) for number in (0, 1) for begin, _, state in level.stretches(number)}
    assert {(0, 300, "idle"), (1, 305, "idle"), (0, 400, "active")} <= stretches
    said = layers_of(chart).get("let a watermark through")
    assert said is None or len(said.xs) <= 2, "the clock moves it at every turn"


def test_a_chart_of_one_instance_of_several_names_it_and_the_size_of_all_has_no_limit_line() -> None:
    window = flow.Window("w", 400, column="t", by="id", aggregates={"n": "count()"}, parallelism=2, limit=1_000)
    run = line(source("s", [(n, 10 * n) for n in range(60)], partitions=2), window, duration_ms=600).record()
    assert "at w[1]" in charts.coalescing(run, vertex="w", instance=1).scene.title
    chart = charts.state_size(run, vertex="w")
    assert "limit 1 000" not in layers_of(chart)
    total: dict[int, int] = {}
    for row in run.table("state").to_pylist():
        if row["vertex"] == "w" and row["buffer"] == "all":
            total[row["instance"]] = row["size"]
    assert rows_of(chart)[-1][2] == sum(total.values())
    assert chart.facts["held"] == sum(total.values())


def test_items_that_go_together_lie_side_by_side() -> None:
    run = line(
        source("s", [(n, 0) for n in range(3)], every_ms=0), flow.Map("m", select={"t": "t"}), jitter_ms=0.0
    ).record()
    (path,) = (
        layer
        for panel in charts.queue_diagram(run, vertices=["s", "m"]).scene.panels
        for layer in panel.layers
        if isinstance(layer, Path) and layer.name == "row"
    )
    begins = path.ys[::3]
    assert len(set(begins)) == len(begins) == 3
    assert all(abs(y) < 0.5 for y in begins)


def test_the_activity_of_inputs_is_drawn_only_where_one_was_excluded() -> None:
    always = charts.coalescing(merged(duration_ms=100).record(), vertex="both")
    assert [panel.up.title for panel in always.scene.panels] == ["watermark (ms)", "behind the furthest (ms)"]
    assert len(charts.coalescing(late().record(), vertex="both").scene.panels) == 3


def test_an_input_is_behind_the_furthest_while_it_counts() -> None:
    """Five items on two inputs (Hazelcast, Description of current behavior): input 0 is behind but for the last."""
    arrivals = [(0, 10), (1, 12), (0, 11), (1, 13), (0, 14)]
    rows = {of: [(t, 1_000 * at) for at, (number, t) in enumerate(arrivals, start=1) if number == of] for of in (0, 1)}
    inputs = [
        flow.Source(f"i{of}", columns=["t", "at"], rows=rows[of], arrival="at", times=[flow.EventTime("t")])
        for of in rows
    ]
    run = flow.Dataflow(
        "five",
        vertices=[*inputs, flow.Merge("m"), flow.Sink("k")],
        edges=["i0 -> m -> k", "i1 -> m"],
        duration_ms=6_000,
    ).record()
    first, second = charts.coalescing(run, vertex="m").scene.panels[1].layers
    assert [y for _, y in points(first)][1:6] == [0, 2, 1, 2, 0]
    assert [y for _, y in points(second)][1:6] == [None, 0, 0, 0, 1]
