"""Who takes the next turn is drawn, and seeds find every order of turns."""

from __future__ import annotations

from tests.dataflow.sim.flows import marks, source
from wmlab import dataflow as flow


def test_chance_finds_every_order_of_turns() -> None:
    small = flow.Dataflow(
        "small",
        vertices=[
            source("a", [10, 120], arrival=None, every_ms=0, ends=True),
            source("b", [60, 130], arrival=None, every_ms=0, ends=True),
            flow.Merge("merge"),
            flow.Sink("out"),
        ],
        edges=["a -> merge -> out", "b -> merge"],
        jitter_ms=0.0,
    )
    found = {tuple(marks(small.replace(seed=seed).record(), "merge", "out")) for seed in range(60)}
    assert {(60, 130), (10, 120, 130), (10, 60, 120, 130)} <= found
    assert all(order[-1] == 130 for order in found)
