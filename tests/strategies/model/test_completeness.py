"""Completeness of windows, corrected for delays that cannot be seen yet."""

from __future__ import annotations

import random
from math import exp, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick
from wmlab.strategies.model.targets import CompletenessWatermark, arrived

AGES = st.integers(0, 4).flatmap(
    lambda h: st.tuples(*(st.lists(st.integers(0, 5), min_size=a + 1, max_size=a + 1) for a in range(h + 1)))
)


@given(AGES, st.sampled_from([0.0, 1.0, 1.645]))
def test_shares_are_the_product_over_longer_delays(ages: tuple[list[int], ...], z: float) -> None:
    padded = [[*counts, *[0] * (len(ages) - len(counts))] for counts in ages]
    assert arrived(padded) == arrived(padded, 0)
    assert arrived(padded, z) == pytest.approx([_share(ages, d, z) for d in range(len(ages))])


def _share(ages: tuple[list[int], ...], delay: int, z: float) -> float:
    records = [(age, d) for age, counts in enumerate(ages) for d, count in enumerate(counts) for _ in range(count)]
    share, variance = 1.0, 0.0
    for k in range(delay + 1, len(ages)):
        n = sum(age >= k and d <= k for age, d in records)
        c = sum(d == k for _, d in records)
        if c == n and c:
            return 0.0
        if c:
            share *= 1 - c / n
            variance += c / (n * (n - c))
    return share * exp(-z * sqrt(variance))


@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.5, 0.9, 0.99]), st.sampled_from([0.0, 1.645]))
def test_a_window_is_passed_when_it_and_all_before_it_are_complete(seed: int, share: float, z: float) -> None:
    draw, gap, records, now = random.Random(seed), (60, 300, 1_000, 4_000)[seed % 4], [], 0
    for _ in range(80):
        now += draw.choice((0, 1, draw.randrange(gap)))
        records.append(Record(now - draw.choice((0, 500, draw.randrange(2_900))), now))
    strategy = CompletenessWatermark(window=1_000, bucket=500, horizon=2_000, share=share, z=z)
    expected, x, now = [], UNKNOWN, None
    for index, record in enumerate(records):
        if now != record.arrival_ms // 500:
            now = record.arrival_ms // 500
            seen = [(r.event_time // 500, r.arrival_ms // 500) for r in records[:index]]
            if records[0].arrival_ms // 500 <= now - 5:
                x = max(x, _passed(seen, now - 1, share, z, x))
        expected.append(x)
    assert xs(strategy, [*records, EndOfInput()]) == [*expected, END]


def _passed(seen: list[tuple[int, int]], now: int, share: float, z: float, x: int) -> int:
    kept = [(e, max(0, a - e)) for e, a in seen if now - 4 <= e]
    kept = [(e, d) for e, d in kept if d <= 4]
    ages = tuple([sum(e == now - age and d == k for e, d in kept) for k in range(age + 1)] for age in range(5))
    window = (now - 4) // 2 if x == UNKNOWN else x // 1_000
    while True:
        wanted = 0.0
        counts = []
        for event in (2 * window, 2 * window + 1):
            arrived_share = 1.0 if now - event > 4 else 0.0 if event > now else _share(ages, now - event, z)
            counts.append(sum(e == event for e, _ in kept) or 1e-9)
            if not arrived_share:
                return window * 1_000
            wanted += counts[-1] / arrived_share
        if sum(counts) < share * wanted:
            return window * 1_000
        window += 1


def test_a_tick_moves_it_and_nothing_does_before_a_horizon() -> None:
    strategy = CompletenessWatermark(window=10, bucket=10, horizon=30)
    records = [Record(t, t) for t in range(0, 50, 5)]
    assert xs(strategy, [*records, Tick(59), Tick(60), Tick(70)]) == [UNKNOWN] * 8 + [40, 40, 50, 60, 70]


def test_a_window_waits_for_a_bucket_to_come_and_for_none_beyond_the_horizon() -> None:
    # When the clock comes to 150, the window of 100 began more than a horizon ago and that of 140 is half over.
    on_time = [Record(time, time) for time in range(110, 180, 10)]
    strategy = CompletenessWatermark(window=20, bucket=10, horizon=30)
    assert xs(strategy, on_time) == [UNKNOWN] * 4 + [140, 160, 160]


def test_windows_that_the_clock_passed_in_one_step_are_complete() -> None:
    log = [Record(time, time) for time in [*range(0, 60, 10), 10**15, 10**15 + 10]]
    assert xs(CompletenessWatermark(window=10, bucket=10, horizon=30), log)[-2:] == [10**15, 10**15 + 10]


def test_a_delay_of_the_whole_horizon_counts() -> None:
    log = [Record(time - delay, time) for time in range(30, 110, 10) for delay in (0, 30)]
    assert [xs(CompletenessWatermark(10, 10, 30, share, z=0), log)[-1] for share in (0.5, 0.51)] == [100, 70]


def test_a_window_without_records_has_the_share_of_its_age() -> None:
    # At 30 three of the four records of 0 had come at the age of the window of 10; at 40 they are forgotten.
    log = [(0, 0), (0, 0), (0, 10), (0, 20), (20, 20), (30, 30), (20, 40), (40, 40)]
    found = xs(CompletenessWatermark(10, 10, 20, share=0.9, z=0), [Record(*times) for times in log])
    assert found[-3:] == [10, 40, 40]


def test_a_window_that_is_not_of_whole_buckets_is_refused() -> None:
    with pytest.raises(ModelError, match="window of 15 is no multiple of the bucket of 10"):
        CompletenessWatermark(window=15, bucket=10, horizon=30)
    with pytest.raises(ModelError, match="horizon of 35"):
        CompletenessWatermark(window=10, bucket=10, horizon=35)
