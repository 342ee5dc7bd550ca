"""The late share that adaptive conformal inference steers."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import late, latenesses, logs, xs
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick


@given(logs(times=30), st.integers(1, 10), st.integers(0, 10), st.sampled_from([0.05, 0.3, 0.5]))
def test_it_is_the_rule_of_the_paper(records: list[Record], hold: int, more: int, target: float) -> None:
    size, gamma = hold + more, 0.5 if target == 0.5 else 0.1
    times = [record.event_time for record in records]
    late_by = latenesses(records)
    x, alpha, expected = UNKNOWN, target, []
    for index, time in enumerate(times):
        if index >= hold:
            alpha = alpha + gamma * (target - (1 if time < x else 0))
        if index + 1 >= hold and alpha > 0:
            last = sorted(late_by[max(0, index + 1 - size) : index + 1])
            covering = [v for n, v in enumerate(last, 1) if n >= (1 - alpha) * (len(last) + 1) - 1e-9]
            x = max(x, max(times[: index + 1]) - (covering[0] if covering else last[-1]))
        expected.append(x)
    assert xs(ConformalWatermark(target, gamma, size, hold), records) == expected


@given(logs(), st.sampled_from([0.05, 0.3]))
def test_the_late_share_is_off_by_what_alpha_has_moved(records: list[Record], target: float) -> None:
    strategy = ConformalWatermark(target, gamma=0.1, size=20, hold=5)
    state = strategy.start()
    alphas = [target]
    for record in records:
        state, _, _ = strategy.step(state, record)
        alphas.append(state.alpha)
    counted = len(records) - 5
    if counted <= 0:
        assert alphas == [target] * len(alphas)
        return
    off = late(strategy, records) / counted - target
    assert off == pytest.approx((target - alphas[-1]) / (0.1 * counted))
    if all(-0.1 <= alpha <= 1.1 for alpha in alphas):
        assert abs(off) <= strategy.bound(counted) + 1e-9


def test_the_bound_counts_the_larger_of_target_and_its_rest() -> None:
    assert ConformalWatermark(0.05, gamma=0.01).bound(1_000) == pytest.approx(0.096)
    assert ConformalWatermark(0.9, gamma=0.01).bound(100) == pytest.approx(0.91)


def test_x_stays_while_alpha_is_0() -> None:
    strategy = ConformalWatermark(0.5, gamma=0.5, size=4, hold=1)
    # Three late records take alpha from 0.5 to -0.25, the next one brings it to 0.
    assert xs(strategy, [Record(time, 0) for time in (10, 5, 5, 5, 100)]) == [10] * 5


def test_nothing_but_a_record_moves_it_until_the_end() -> None:
    strategy = ConformalWatermark(0.5, hold=1)
    assert xs(strategy, [Record(10, 0), Tick(1_000), EndOfInput()]) == [10, 10, END]
