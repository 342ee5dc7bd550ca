"""Quantiles of lateness and of delay, against their definitions; quantiles over a window and from a sketch."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import by_writer, latenesses, logs, meeting, mets_and_xs, rising, top, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.percentiles import (
    ConfluentWatermark,
    DelayPercentile,
    SlidingWindow,
    WindowedPercentile,
    rank,
)
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, run


def quantile(values: list[int], percent: int) -> int:
    return min(v for v in values if 100 * sum(w <= v for w in values) >= percent * len(values))


@given(logs(), st.integers(2, 20), st.sampled_from([50, 90, 99]), st.integers(1, 2))
def test_the_bound_covers_the_share_of_the_last_latenesses_and_one_more(
    records: list[Record], size: int, percent: int, hold: int
) -> None:
    def watermark(seen: list[Record]) -> int:
        last = latenesses(seen)[-size:]
        return top(seen) - min(max(last), quantile([*last, 10**6], percent)) if len(last) >= hold else UNKNOWN

    strategy = WindowedPercentile(percent / 100, size, hold)
    assert xs(strategy, [*records, EndOfInput()]) == [*rising(records, watermark), END]


@given(logs(), st.integers(1, 20))
def test_confluent_takes_the_least_over_partitions_of_a_clamped_quantile_less_a_margin(
    records: list[Record], size: int
) -> None:
    def of_partition(own: list[Record]) -> int:
        bound = min(max(quantile(latenesses(own)[-size:], 90), 100), 3_000)
        return top(own) - bound - (900 if len(own) <= 2 else 40 if len(own) <= 4 else 0)

    strategy = ConfluentWatermark(0.9, size, least_ms=100, most_ms=3_000, margins=((2, 900), (4, 40)))
    expected = rising(records, lambda seen: min(rising(own, of_partition)[-1] for own in by_writer(seen).values()))
    assert [(step.x, step.native) for step in run(strategy, records)] == [(x, x - 1) for x in expected]


def test_confluent_leaves_an_idle_partition_out() -> None:
    records = [Record(10, 0, "a"), Record(500, 0, "b"), Record(600, 30, "b")]
    strategy = ConfluentWatermark(margins=(), idle_ms=20)
    assert xs(strategy, [*records, EndOfInput()]) == [-40, -40, 550, END]


@given(logs(), st.integers(1, 20))
def test_the_delay_percentile_follows_the_clock(records: list[Record], size: int) -> None:
    def watermark(seen: list[Record], now: int) -> int:
        delays = [max(0, record.arrival_ms - record.event_time) for record in seen[-size:]]
        return now - quantile(delays, 90) if seen else UNKNOWN

    strategy = DelayPercentile(0.9, size)
    assert mets_and_xs(strategy, records) == meeting(records, watermark)
    assert xs(strategy, [*records, Tick(10**6), EndOfInput()])[-2:] == [watermark(records, 10**6), END]


@pytest.mark.parametrize("strategy", [WindowedPercentile, ConformalWatermark])
def test_a_hold_longer_than_the_window_is_refused(strategy: type[WindowedPercentile | ConformalWatermark]) -> None:
    with pytest.raises(ModelError, match="hold of 11 records"):
        strategy(0.99, size=10, hold=11)


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
    assert window.quantile(percent / 100) == quantile(last, percent)
    assert window.largest(7) == sorted(last, reverse=True)[:7]
    assert window.bound(percent / 100) == min(max(last), quantile([*last, 10**6], percent))


@given(st.integers(1, 1000), PERCENT)
def test_a_rank_has_no_rounding_error(count: int, percent: int) -> None:
    assert rank(percent / 100, count) == max(1, -(-percent * count // 100))
