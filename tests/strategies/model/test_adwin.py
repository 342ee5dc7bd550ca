"""ADWIN against a window that keeps every number, and the watermark that it drives."""

from __future__ import annotations

import random
from math import log, sqrt
from statistics import fmean, pvariance

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import xs
from wmlab.strategies.model.adwin import SMALLEST_DELTA, Adwin, AdwinWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, Record

STEPS = st.lists(st.tuples(st.integers(1, 120), st.integers(0, 20)), min_size=1, max_size=6)


@given(STEPS, st.sampled_from([0.002, 0.1, 1.0]), st.integers(0, 5), st.sampled_from([0.05, 0.2, 1]))
def test_buckets_decide_as_all_numbers_would(
    steps: list[tuple[int, int]], delta: float, seed: int, scale: float
) -> None:
    draw = random.Random(seed)
    values = [scale * (level + draw.random()) for length, level in steps for _ in range(length)]
    adwin, rows, reference = Adwin(), [], []
    cuts = []
    for index, value in enumerate(values):
        cuts.append(adwin.add(value, delta))
        rows.append([value])
        _merge(rows)
        cut = False
        while (index + 1) % 32 == 0 and _differ(rows, delta):
            del rows[0]
            cut = True
        reference.append(cut)
        assert adwin.width == sum(map(len, rows))
    assert cuts == reference


def _merge(rows: list[list[float]]) -> None:
    """Buckets from the oldest to the newest, each a list of 2^i numbers; more than five of a size: merge two."""
    size = 1
    while sum(len(row) == size for row in rows) > 5:
        first = next(index for index, row in enumerate(rows) if len(row) == size)
        rows[first : first + 2] = [rows[first] + rows[first + 1]]
        size *= 2


def _differ(rows: list[list[float]], delta: float) -> bool:
    every = [value for row in rows for value in row]
    for border in range(1, len(rows)):
        old = [value for row in rows[:border] for value in row]
        new = every[len(old) :]
        if len(old) > 6 and len(new) > 6:
            d = log(2 * log(len(every)) / delta)
            m = 1 / (len(old) - 4) + 1 / (len(new) - 4)
            if abs(fmean(old) - fmean(new)) > sqrt(2 * m * pvariance(every) * d) + 2 / 3 * d * m:
                return True
    return False


def test_delays_are_fed_as_they_are_if_none_was_above_0_in_the_warm_up() -> None:
    assert xs(AdwinWatermark(0.1, warm_up=1), [Record(1, 1), Record(2, 2)]) == [UNKNOWN, UNKNOWN]


def test_a_record_at_x_is_not_late() -> None:
    strategy = AdwinWatermark(0.1, warm_up=1)
    state, _, _ = strategy.step(strategy.start(), Record(0, 0))
    state.x = 10
    for time in (9, 10):
        strategy.step(state, Record(time, time))
    assert (state.late, state.count) == (1, 2)


@pytest.mark.parametrize(
    ("late", "x", "before", "after", "moves"),
    [
        (1, 79, 0.2, 0.4, True),  # r = 0.1 is below 0.2, 79 < 100 - 20: X moves, ADWIN may be more sensitive
        (1, 80, 0.2, 0.4, False),
        (2, 79, 0.2, 0.1, False),  # r = 0.2 is not below
        (10, UNKNOWN, 0.2, 0.1, True),  # the first watermark comes whatever r is
        (0, 80, 0.7, 1.0, False),
        (10, 80, 1.5 * SMALLEST_DELTA, 1e-23, False),
    ],
)
def test_what_a_cut_does(late: int, x: int, before: float, after: float, moves: bool) -> None:
    strategy = AdwinWatermark(late_share=0.2, factor=0.5)
    state = strategy.start()
    state.low, state.high, state.most = 100, 120, 15
    state.late, state.count, state.x, state.delta = late, 10, x, before
    strategy._cut(state)
    assert state.delta == pytest.approx(after, abs=0)
    assert state.x == (105 if moves else x)
    assert (state.late, state.count) == ((0, 0) if moves else (late, 10))
    assert (state.low, state.high) == (END, UNKNOWN)


@given(STEPS, st.integers(0, 5))
def test_a_chunk_ends_at_a_cut_of_the_delays_in_units_of_the_largest(steps: list[tuple[int, int]], seed: int) -> None:
    draw = random.Random(seed)
    delays = [10 * level + draw.randrange(10) for length, level in [(20, 1), *steps] for _ in range(length)]
    log = [Record(10 * index - delay, 10 * index) for index, delay in enumerate(delays)]
    strategy = AdwinWatermark(late_share=0.1, warm_up=20)
    adwin, delta, x, most, expected = Adwin(), 1.0, UNKNOWN, max(delays[:20]), [UNKNOWN] * 20
    chunk: list[int] = []
    late: list[bool] = []
    for record, delay in zip(log[20:], delays[20:], strict=True):
        late.append(record.event_time < x)
        chunk.append(record.event_time)
        if adwin.add(delay / most, delta):
            few = fmean(late) < 0.1
            delta = min(1.0, 2 * delta) if few else delta / 2
            if x == UNKNOWN or (few and x < 2 * min(chunk) - max(chunk)):
                x, late = max(x, max(chunk) - most), []
            chunk = []
        expected.append(x)
    assert xs(strategy, log) == expected
