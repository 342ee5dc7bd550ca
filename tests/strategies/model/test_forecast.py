"""Forecasts of a watermark: exact on a line, least squares without noise of the rate, and robust where asked."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import logs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.forecast import Forecast, Method
from wmlab.strategies.model.kafka import Quix
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, run

METHODS: tuple[Method, ...] = get_args(Method)
M = BoundedOutOfOrderness(0)


def forecasts(forecast: Forecast, xs: list[int], every: int = 1_000) -> list[Any]:
    """The forecasts of a watermark that has these values, one every so often."""
    return [step.native for step in run(forecast, [Record(x, every * n) for n, x in enumerate(xs)])]


@given(st.sampled_from(METHODS), st.integers(1, 5_000), st.integers(0, 10_000))
def test_a_watermark_on_a_line_is_forecast_where_it_will_be(method: Method, rate: int, horizon: int) -> None:
    xs = [50 + rate * n for n in range(40)]
    found = forecasts(Forecast(M, horizon, method=method), xs)
    assert found[0] == UNKNOWN
    assert abs(found[-1] - (xs[-1] + rate * horizon / 1_000)) <= 1 + rate * horizon / 1e5
    state = Forecast(M, horizon, method=method).start()
    for n, x in enumerate(xs):
        state, _, _ = Forecast(M, horizon, method=method).step(state, Record(x, 1_000 * n))
    assert state.line is not None
    assert abs((state.line.passes(xs[-1] + 10 * rate) or 0) - 49_000) <= 100


@given(st.lists(st.integers(0, 3_000), min_size=3, max_size=30))
def test_with_a_constant_rate_the_filter_is_the_line_of_least_squares(gaps: list[int]) -> None:
    xs = np.cumsum(gaps)
    slope, level = np.polyfit(1_000.0 * np.arange(len(xs)), xs, 1)
    found = forecasts(Forecast(M, 5_000, change=0.0), xs.tolist())[-1]
    assert abs(found - max(xs[-1], level + slope * (1_000 * (len(xs) - 1) + 5_000))) <= 2


def test_the_newest_rate_counts_by_its_weight() -> None:
    xs = [0, 1_000, 2_000, 5_000]
    assert forecasts(Forecast(M, 1_000, method="weighted", weight=1.0), xs)[-1] == 8_000
    assert forecasts(Forecast(M, 1_000, method="weighted", weight=0.5), xs)[-1] == 7_000


def test_an_outlier_moves_the_robust_filter_less_and_a_lasting_turn_sooner() -> None:
    line = [1_000 * n for n in range(60)]
    jump = [*line, line[-1] + 31_000]
    kept = {m: forecasts(Forecast(M, 60_000, method=m), jump)[-1] - jump[-1] for m in ("kalman", "robust")}
    assert abs(kept["robust"] - 30_000) < abs(kept["kalman"] - 30_000)
    faster = [*line, *[line[-1] + 20_000 * n for n in range(1, 7)]]
    rates = {m: (forecasts(Forecast(M, 60_000, method=m), faster)[-1] - faster[-1]) / 60_000 for m in METHODS}
    assert abs(rates["robust"] - 20) < abs(rates["kalman"] - 20)


@given(logs(), st.sampled_from(METHODS))
def test_x_is_that_of_the_strategy_and_a_forecast_is_not_below_it(log: list[Record], method: Method) -> None:
    plain = list(run(M, [*log, EndOfInput()]))
    steps = list(run(Forecast(M, 2_000, method=method), [*log, EndOfInput()]))
    assert [(step.met, step.x) for step in steps] == [(step.met, step.x) for step in plain]
    assert all(step.native >= step.x or step.native == UNKNOWN for step in steps)
    assert steps[-1].native == END


def test_a_watermark_that_stands_still_passes_nothing() -> None:
    state = Forecast(M, 0, method="weighted").start()
    for now in (0, 1_000, 2_000):
        state, _, _ = Forecast(M, 0, method="weighted").step(state, Record(5, now))
    assert state.line is not None
    assert state.line.passes(10) is None


@pytest.mark.parametrize(
    "wrong", [{"horizon_ms": -1}, {"horizon_ms": 0, "every_ms": 0}, {"horizon_ms": 0, "weight": 0}]
)
def test_parameters_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"Give a"):
        Forecast(M, **wrong)


def test_a_watermark_for_each_key_has_no_forecast() -> None:
    with pytest.raises(ModelError, match="Quix has a watermark for each key"):
        Forecast(Quix(5), 1_000)
