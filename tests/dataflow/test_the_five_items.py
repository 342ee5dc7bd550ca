"""The example of coalescing in the document, as a run: two inputs, five watermarks, and what a merge makes of them."""

from __future__ import annotations

from wmlab import dataflow as flow
from wmlab.core.charts.scene import Dots, Steps
from wmlab.core.recording import Recording

ARRIVALS = [(0, 10), (1, 12), (0, 11), (1, 13), (0, 14)]


def five_items() -> Recording:
    """The five items, one a second."""
    rows: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    for second, (number, time) in enumerate(ARRIVALS, start=1):
        rows[number].append((time, 1_000 * second))
    inputs = [
        flow.Source(f"input-{number}", columns=["t", "at"], rows=listed, arrival="at", times=[flow.EventTime("t")])
        for number, listed in rows.items()
    ]
    edges = ["input-0 -> merged -> out", "input-1 -> merged"]
    vertices = [*inputs, flow.Merge("merged"), flow.Sink("out")]
    return flow.Dataflow("five items", vertices=vertices, edges=edges, duration_ms=6_000).record()


def test_a_merge_that_is_run_puts_out_what_the_text_says() -> None:
    """Hazelcast, "Example": 10 after the second item, then 11, then nothing, "as the minimum is still 11", then 13."""
    run = five_items()
    steps = run.to_pandas("coalescing").query("vertex == 'merged' and level == 'global' and stimulus == 'watermark'")
    assert [*zip(steps.input, steps.value, strict=True)] == ARRIVALS
    assert [dict(emitted).get(0) for emitted in steps.emitted] == [None, 10, 11, None, 13]


def test_the_picture_shows_all_three_curves_and_the_items_without_new_output() -> None:
    chart = flow.chart.coalescing(five_items(), vertex="merged")
    panel, behind = chart.scene.panels
    assert behind.up.title == "behind the furthest (ms)"
    assert [layer.name for layer in panel.layers if isinstance(layer, Steps)] == ["coalesced", "input-0", "input-1"]
    silent = next(layer for layer in panel.layers if isinstance(layer, Dots) and layer.name == "no new output")
    assert silent.ys == [10, 13]
    assert [round(at_ms, -3) for at_ms in silent.xs] == [1_000, 4_000]
