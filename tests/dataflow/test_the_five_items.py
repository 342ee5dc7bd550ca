"""The example of coalescing in the document, as a run: two inputs, five watermarks, and what a merge makes of them."""

from __future__ import annotations

from wmlab import dataflow as flow

ARRIVALS = [(0, 10), (1, 12), (0, 11), (1, 13), (0, 14)]


def test_a_merge_that_is_run_puts_out_what_the_text_says() -> None:
    """Hazelcast, "Example": 10 after the second item, then 11, then nothing, "as the minimum is still 11", then 13."""
    rows: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    for second, (number, time) in enumerate(ARRIVALS, start=1):
        rows[number].append((time, 1_000 * second))
    inputs = [
        flow.Source(f"input-{number}", columns=["t", "at"], rows=given, arrival="at", times=[flow.EventTime("t")])
        for number, given in rows.items()
    ]
    edges = ["input-0 -> merged -> out", "input-1 -> merged"]
    vertices = [*inputs, flow.Merge("merged"), flow.Sink("out")]
    run = flow.Dataflow("five items", vertices=vertices, edges=edges, duration_ms=6_000).record()
    steps = run.to_pandas("coalescing").query("vertex == 'merged' and level == 'global' and stimulus == 'watermark'")
    given = [*zip(steps.input, steps.value, strict=True)]
    assert given == ARRIVALS
    assert [dict(emitted).get(0) for emitted in steps.emitted] == [None, 10, 11, None, 13]
