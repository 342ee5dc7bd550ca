"""The knee of a lateness curve by its definition, and the tail of an advice as `compare` has it."""

from __future__ import annotations

from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest

from tests.strategies.logs import exponential, sent
from wmlab.strategies.advice import advise
from wmlab.strategies.comparison import compare
from wmlab.strategies.lateness import LatenessCurve, of_counts
from wmlab.strategies.model.bounded import BoundedOutOfOrderness


def curve_of(late_by: list[int], rows: int, base_lag_ms: int = 0) -> LatenessCurve:
    values, counts = np.unique(late_by, return_counts=True)
    return of_counts("", rows, values, counts, base_lag_ms)


def test_where_few_records_are_far_later_than_the_others_the_bound_of_the_others_is_the_knee() -> None:
    """Of 1 000 records 16 are late by 40 s and 40 by about 3 s; 1% late costs 40 s, and 1.6% costs 3.5 s."""
    curve = curve_of([40_000 + n for n in range(16)] + [2_500 + 25 * n for n in range(40)], 1_000)
    assert curve.bound_ms(0.01) == 40_005
    knee = curve.knee(0.01)
    assert knee == (3_475, 0.016)
    assert curve.late_share(knee.bound_ms) == knee.late_share


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
def test_a_curve_that_falls_evenly_has_no_knee(share: float) -> None:
    rows = 20_000
    exponential = [round(-2_000 * log((n + 0.5) / rows)) for n in range(rows)]
    assert curve_of(exponential, rows).knee(share) is None
    assert curve_of(list(range(1, 2_001)), rows).knee(share) is None
    assert curve_of([1], 1_000_000).knee(share) is None


def test_a_lag_that_the_bound_is_little_of_makes_no_knee() -> None:
    """A bound of 3.5 s instead of 40 s is not a bargain if records take ten minutes anyway."""
    late_by = [40_000 + n for n in range(16)] + [2_500 + 25 * n for n in range(40)]
    assert curve_of(late_by, 1_000, base_lag_ms=600_000).knee(0.01) is None


def farthest_below(late_by: list[int], rows: int, share: float, base_lag_ms: int) -> tuple[list[int], Fraction, int]:
    """The bounds that are farthest below the line, by how much, and the difference of the lags at its ends."""
    late = {bound: sum(each > bound for each in late_by) for bound in sorted({0, *late_by})}
    least, largest = (
        next(bound for bound in late if late[bound] / rows <= most) for most in (min(1, 4 * share), share)
    )
    lag = {bound: max(1, base_lag_ms + bound) for bound in late if least <= bound <= largest}
    rise = lag[largest] - lag[least]
    fall = max(1, late[least] - late[largest])
    below = {bound: lag[least] + Fraction(rise * (late[least] - late[bound]), fall) - lag[bound] for bound in lag}
    most = max(below.values())
    small = [bound for bound in lag if below[bound] == most and 4 * lag[bound] <= lag[largest]]
    return small, most, rise


def test_a_knee_is_the_bound_farthest_below_the_line_if_it_is_far_enough_and_its_lag_a_quarter() -> None:
    found = 0
    for seed in range(400):
        random = np.random.default_rng(seed)
        share, base_lag_ms = float(random.choice([0.05, 0.1, 0.2])), int(random.integers(-500, 1_500))
        usual = random.integers(1, 2_000, int(random.integers(1, 150)))
        slow = usual.max() * random.uniform(2, 12, int(random.integers(1, 600 * share)))
        late_by = [*usual.tolist(), *slow.astype(int).tolist()]
        curve = curve_of(late_by, 200, base_lag_ms)
        knee = curve.knee(share)
        bounds, below, rise = farthest_below(late_by, 200, share, base_lag_ms)
        is_deep = 0 < rise <= 4 * below
        assert (knee.bound_ms if knee else None) == (bounds[0] if bounds and is_deep else None), seed
        assert knee is None or knee.late_share == sum(each > knee.bound_ms for each in late_by) / 200
        found += knee is not None
    assert 40 < found < 360


def tail(random: np.random.Generator, number: Any) -> Any:
    """Records take 0.7 s in the mean, and one of three writers' records in 20 takes up to a minute."""
    rows = len(number)
    slow = (number % 3 == 1) & (random.random(rows) < 0.05)
    return np.where(slow, random.uniform(20_000, 60_000, rows), random.exponential(700, rows))


def test_a_tail_is_what_compare_says_of_both_bounds_and_names_whose_it_is() -> None:
    trace = sent(24_000, tail, writers=3, every_ms=50, seed=3)
    advice = advise(trace, 0.01)
    (finding,) = [finding for finding in advice.findings if finding.kind == "one tail"]
    assert finding.bound_ms is not None
    assert finding.without_ms is not None
    larger, smaller = compare(
        trace, [BoundedOutOfOrderness(finding.bound_ms), BoundedOutOfOrderness(finding.without_ms)]
    )
    assert finding.count == smaller.late - larger.late == len(finding.rows)
    assert finding.writers == ("w1",)
    assert finding.facts["larger share"] == smaller.late_share
    assert (finding.facts["lag"], finding.facts["lag without"]) == (larger.lag_p50_ms, smaller.lag_p50_ms)
    assert str(finding) in repr(advice)


def test_without_a_knee_an_advice_has_no_tail() -> None:
    advice = advise(sent(24_000, exponential(5_000), every_ms=50), 0.01)
    assert "one tail" not in [finding.kind for finding in advice.findings]


def test_a_bound_that_misses_the_target_has_no_tail() -> None:
    """The first half is in order, so that the advice misses; of the second a half is late, in two clusters."""
    number = np.arange(24_000)
    late = np.where((number >= 12_000) & (number % 2 == 1), np.where(number % 22 == 1, 200_000, 1_000), 0)
    trace = sent(24_000, lambda random, _: late, every_ms=50)
    advice = advise(trace, 0.01)
    assert advice.missed_share > 0.012
    for finding in advice.findings:
        if finding.kind == "one tail":
            assert finding.bound_ms is not None
            (kept,) = compare(trace, [BoundedOutOfOrderness(finding.bound_ms)])
            assert kept.late_share <= 0.012
