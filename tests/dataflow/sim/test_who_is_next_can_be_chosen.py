"""Who takes the next turn is drawn or given, so that an interleaving can be run on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.dataflow.sim.flows import marks, outcome, results, source
from wmlab import dataflow as flow
from wmlab.dataflow.recording import record

SMALL = flow.Dataflow(
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


def preferring(*order: str) -> Callable[[Sequence[str]], int]:
    """Of those that are due, the one that comes first in `order`."""
    return lambda names: min(range(len(names)), key=lambda place: order.index(names[place]))


@pytest.mark.parametrize(
    ("order", "rows", "watermarks"),
    [
        (("a", "merge", "out", "b"), [10, 120, 60, 130], [60, 130]),
        (("b", "merge", "out", "a"), [60, 130, 10, 120], [10, 120, 130]),
        (("a", "b", "merge", "out"), [10, 60, 120, 130], [10, 60, 120, 130]),
    ],
)
def test_the_order_is_the_one_that_was_chosen(order: tuple[str, ...], rows: list[int], watermarks: list[int]) -> None:
    run = record(SMALL, choose=preferring(*order))
    assert [row["t"] for row in results(run)] == rows
    assert marks(run, "merge", "out") == watermarks
    assert outcome(run) == "completed"
    assert record(SMALL, choose=preferring(*order)) == run


def test_chance_finds_all_of_these_orders() -> None:
    found = {tuple(marks(SMALL.replace(seed=seed).record(), "merge", "out")) for seed in range(60)}
    assert {(60, 130), (10, 120, 130), (10, 60, 120, 130)} <= found
    assert all(order[-1] == 130 for order in found)


def test_nobody_is_asked_when_only_one_is_due() -> None:
    asked: list[Sequence[str]] = []

    def choose(names: Sequence[str]) -> int:
        asked.append(names)
        return 0

    record(SMALL, choose=choose)
    assert asked
    assert all(len(names) > 1 for names in asked)
