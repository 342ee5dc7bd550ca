"""Step curves over time, against plain loops over every millisecond."""

from __future__ import annotations

from random import Random

import pytest

from wmlab.core.charts.scene import Value, behind_clock, thinned
from wmlab.streams.answers.step_curves import Spread, lengths_ms

CAP = 60


def curve(random: Random, rows: int) -> tuple[list[int], list[Value]]:
    """Times that ascend, some of them equal, and a bound that rises, stands still, falls or is unknown."""
    at_ms, bound, times, bounds = random.randint(0, 99), 0, list[int](), list[Value]()
    for _ in range(rows):
        bound += random.choice([0, 0, 3, 40, -9])
        times.append(at_ms)
        bounds.append(None if random.random() < 0.1 else bound)
        at_ms += random.choice([0, 1, 7, 90])
    return times, bounds


@pytest.mark.parametrize("seed", range(20))
def test_every_drawn_point_of_a_lag_lies_on_the_curve_and_its_extremes_are_drawn(seed: int) -> None:
    random = Random(seed)
    at_ms, bounds = curve(random, random.choice([1, 5, 2_000]))
    xs, ys = thinned(*behind_clock(at_ms, bounds), CAP)
    exact: dict[int, set[Value]] = {}
    for at, until, bound in zip(at_ms, [*at_ms[1:], at_ms[-1]], bounds, strict=True):
        for moment in range(at, until + 1):
            exact.setdefault(moment, set()).add(None if bound is None else moment - bound)
    assert all(y in exact[x] for x, y in zip(xs, ys, strict=True))
    known = [y for values in exact.values() for y in values if y is not None]
    drawn = [y for y in ys if y is not None]
    assert (min(drawn, default=0), max(drawn, default=0)) == (min(known, default=0), max(known, default=0))
    assert len(xs) <= 2 * CAP


@pytest.mark.parametrize("seed", range(20))
def test_a_spread_says_for_how_long_a_value_was_less(seed: int) -> None:
    random = Random(seed)
    at_ms, bounds = curve(random, 50)
    pieces = [
        (at - bound, at - bound + length, length)
        for at, bound, length in zip(at_ms, bounds, lengths_ms(at_ms), strict=True)
        if bound is not None
    ]
    spread = Spread.of(*zip(*pieces, strict=True))
    lags = sorted(first + passed for first, _, length in pieces for passed in range(length))
    assert spread.total_ms == len(lags)
    for value in random.sample(range(min(lags) - 5, max(lags) + 5), 20):
        assert spread.time_below(value) == pytest.approx(sum(lag < value for lag in lags))
    assert abs(spread.median - lags[(len(lags) - 1) // 2]) <= 1
    assert spread.largest == max(last for _, last, _ in pieces)


def test_constant_values_have_a_median_by_time() -> None:
    spread = Spread.of([5, 9, 7], [5, 9, 7], [10, 100, 60])
    assert (spread.median, spread.largest, spread.time_below(9)) == (9, 9, 70)
    assert Spread.of([5, 9, 7], [5, 9, 7], [0, 0, 0]).median == 7


def test_a_row_holds_until_the_next_one() -> None:
    assert lengths_ms([3, 3, 10]) == [0, 7, 0]
    assert lengths_ms([]) == []
