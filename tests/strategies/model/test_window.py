"""Quantiles over a window and from a sketch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wmlab.strategies.model.window import QuantileSketch, SlidingWindow, rank

VALUES = st.lists(st.one_of(st.integers(0, 2), st.integers(0, 10**5)), min_size=1, max_size=60)
PERCENT = st.integers(0, 100)


@given(VALUES, PERCENT, st.integers(1, 20))
def test_a_quantile_is_the_smallest_value_that_the_share_does_not_exceed(
    values: list[int], percent: int, size: int
) -> None:
    window = SlidingWindow(size)
    for value in values:
        window.add(value)
    last = values[-size:]
    assert len(window) == len(last)
    assert window.quantile(percent / 100) == _exact(last, percent)
    assert window.largest(7) == sorted(last, reverse=True)[:7]
    assert window.bound(percent / 100) == min(max(last), _exact([*last, 10**6], percent))


@given(VALUES, PERCENT, st.sampled_from([0.01, 0.1, 0.5]))
def test_a_sketch_is_at_least_the_exact_quantile_and_within_its_accuracy(
    values: list[int], percent: int, accuracy: float
) -> None:
    sketch = QuantileSketch(accuracy)
    for value in values:
        sketch.add(value)
    exact, found = _exact(values, percent), sketch.quantile(percent / 100)
    assert found in values
    assert exact <= found <= exact * (1 + accuracy)


@given(st.integers(1, 1000), PERCENT)
def test_a_rank_has_no_rounding_error(count: int, percent: int) -> None:
    assert rank(percent / 100, count) == max(1, -(-percent * count // 100))


def _exact(values: list[int], percent: int) -> int:
    return min(v for v in values if 100 * sum(w <= v for w in values) >= percent * len(values))
