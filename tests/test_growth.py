"""What is ten times as large costs at most twelve times as much, and the estimate grows as the run does.

Calls of Python functions are counted, not seconds, so a busy machine changes nothing; seconds are the benchmark's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.growth import DIMENSIONS, FACTOR, MOST, Model

LENGTH = 1
OFF = 2.5
"""The factor by which estimate and calls may grow apart; a call is not as long as another."""


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    calls = [0]

    def count(_: object, event: str, __: object) -> None:
        if event in ("call", "c_call"):
            calls[0] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def cost_of(scenario: Any) -> tuple[int, int]:
    """The calls of a run, and its estimate in microseconds."""
    with counted_calls() as calls:
        scenario.record()
    return calls[0], sum(cost.us for cost in scenario.estimate().costs)


@pytest.fixture(scope="module")
def alone() -> dict[str, tuple[int, int]]:
    """What each model costs without a factor."""
    costs = {}
    for model in DIMENSIONS:
        model(1).record()
        costs[model.__name__] = cost_of(model(LENGTH))
    return costs


@pytest.mark.parametrize(
    ("model", "name"),
    [(model, name) for model, names in DIMENSIONS.items() for name in names],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_ten_times_as_large_costs_at_most_twelve_times_as_much(
    alone: dict[str, tuple[int, int]], model: Model, name: str
) -> None:
    calls, estimated = cost_of(model(LENGTH, **{name: FACTOR}))
    calls_alone, estimated_alone = alone[model.__name__]
    growth = calls / calls_alone
    assert growth <= MOST
    assert growth / OFF <= estimated / estimated_alone <= growth * OFF


def test_a_run_makes_nearly_the_same_calls_each_time() -> None:
    model = next(iter(DIMENSIONS))
    model(1).record()
    first, second = (cost_of(model(1)) for _ in range(2))
    assert abs(first[0] - second[0]) < first[0] / 1_000
