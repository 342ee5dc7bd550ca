"""Numaflow's idle source: the closed form against a walk of all steps, and what it does to a log."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import logs, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.engines import Bytewax
from wmlab.strategies.model.idle_increments import IdleIncrements
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, run

SIZES = st.integers(1, 60)


def walked(log: list[Record], strategy: IdleIncrements, bound: int) -> list[int]:
    """The X that each record meets, millisecond by millisecond."""
    x, read_ms, raised_ms, mets = UNKNOWN, None, None, []
    clock = log[0].arrival_ms if log else 0
    for record in log:
        while clock < record.arrival_ms:
            clock += 1
            is_idle = read_ms is not None and clock - read_ms >= strategy.threshold_ms
            is_due = raised_ms is None or clock - raised_ms >= strategy.step_ms
            if is_idle and is_due and x != UNKNOWN:
                x = max(x, min(x + strategy.increment_ms, clock - strategy.max_delay_ms))
                raised_ms = clock
        mets.append(x)
        x, read_ms = max(x, record.event_time - bound), clock
    return mets


@given(logs(times=400), SIZES, SIZES, SIZES, st.integers(0, 400), st.integers(0, 20))
def test_the_steps_in_one_go_are_all_steps(
    log: list[Record], threshold: int, increment: int, step: int, delay: int, bound: int
) -> None:
    idle = IdleIncrements(BoundedOutOfOrderness(bound), threshold, increment, step, delay)
    assert [step.met for step in run(idle, log)] == walked(log, idle, bound)


def test_numaflow_2774_it_rises_by_the_increment_after_the_threshold_and_then_after_each_step() -> None:
    idle = IdleIncrements(BoundedOutOfOrderness(0), threshold_ms=5_000, increment_ms=2_000, step_ms=3_000)
    log: list[Any] = [Record(1_000, 1_000), *(Tick(at) for at in range(2_000, 13_000, 1_000)), EndOfInput()]
    assert xs(idle, log) == [*[1_000] * 5, *[3_000] * 3, *[5_000] * 3, 7_000, END]


def test_it_stops_at_the_clock_less_the_delay_and_does_not_begin_without_a_watermark() -> None:
    idle = IdleIncrements(BoundedOutOfOrderness(0), 1_000, 60_000, 1_000, max_delay_ms=500)
    assert xs(idle, [Tick(90_000), Record(0, 100_000), Tick(101_000), Tick(104_999)]) == [UNKNOWN, 0, 60_000, 103_500]
    # A time far ahead is not made smaller, and the clock has to come to it first.
    assert xs(idle, [Record(500_000, 100_000), Tick(400_000), Tick(501_000)]) == [500_000, 500_000, 500_500]


def test_a_source_that_comes_back_with_older_rows_finds_them_late() -> None:
    idle = IdleIncrements(BoundedOutOfOrderness(0), 5_000, 2_000, 3_000)
    log = [Record(1_000, 1_000), Record(4_000, 12_500), Record(20_000, 20_000)]
    assert [record.event_time < step.met for record, step in zip(log, run(idle, log), strict=True)] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("inner", [5, Bytewax(1)])
def test_it_needs_a_strategy_with_one_watermark(inner: Any) -> None:
    with pytest.raises(ModelError, match=r"inner: .* \(got 5\)|inner is .* in IdleIncrements"):
        IdleIncrements(inner, 1, 1, 1)
