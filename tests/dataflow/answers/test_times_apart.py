"""Joins whose inputs have event times that do not overlap, and what explain says."""

from __future__ import annotations

import pytest

from wmlab import dataflow as jet

AROUND = "left.t - 500 <= right.u and right.u <= left.t + 500"


def joined(shift: int, condition: str = AROUND, *, starts_ms: int = 0, second_key: bool = False) -> jet.Dataflow:
    """Two sources, one with times that are so much later."""
    rows = [(100 * number, number) for number in range(20)]
    later = [(time + shift, number) for time, number in rows]
    times = [jet.EventTime("u", key=1), *([jet.EventTime("y", key=2)] if second_key else [])]
    return jet.Dataflow(
        "two epochs",
        vertices=[
            jet.Source("a", columns=["t", "x"], rows=rows, times="t", every_ms=100),
            jet.Source("b", columns=["u", "y"], rows=later, times=times, every_ms=100, starts_ms=starts_ms),
            jet.Join("both", condition),
            jet.Sink("out"),
        ],
        edges=[jet.Edge("a", "both"), jet.Edge("b", "both"), jet.Edge("both", "out")],
        duration_ms=6_000,
    )


@pytest.mark.parametrize("shift", [1_000_000_000, -1_000_000_000, 2_401])
def test_a_join_of_times_that_do_not_overlap_is_explained_so(shift: int) -> None:
    run = joined(shift).record()
    for answer in (run.explain(vertex="both"), run.explain(1_500, vertex="both")):
        assert "The event times of the inputs of both do not overlap" in answer.sentence
    assert run.explain(1_500, vertex="both").facts["inputs apart"] == "both"
    (into_sink,) = (queue["queue"] for queue in run.table("queues").to_pylist() if queue["target"] == "out")
    assert not [row for row in run.table("items").to_pylist() if (row["queue"], row["kind"]) == (into_sink, "event")]


@pytest.mark.parametrize(
    "dataflow",
    [
        joined(0),
        joined(2_400),
        joined(10_000, "left.t + 9_000 <= right.u and right.u <= left.t + 11_000"),
        joined(1_000_000, starts_ms=3_000),
        joined(1_000_000, second_key=True),
    ],
    ids=["same", "within reach", "shifted by the condition", "later", "another time may match"],
)
def test_a_join_whose_rows_may_meet_or_come_later_is_not(dataflow: jet.Dataflow) -> None:
    run = dataflow.record()
    assert "do not overlap" not in run.explain(vertex="both").sentence
