"""The lag of a bound is averaged over the time in which it is known."""

from __future__ import annotations

from wmlab.core.run_measures import Lag


def test_lag_is_weighted_by_how_long_it_lasted() -> None:
    # 100 ms at a mean lag of 100 ms, then 200 ms at 210 ms.
    assert Lag.of([(100, 50), (200, 90), (400, 90)]) == Lag(mean_ms=173.3, worst_ms=310)


def test_the_time_in_which_a_bound_is_unknown_does_not_count() -> None:
    assert Lag.of([(0, None), (100, 50), (200, None), (1_000, 990), (1_010, 990)]) == Lag(mean_ms=92.3, worst_ms=150)
    assert Lag.of([]) == Lag.of([(0, None), (100, None)]) == Lag(mean_ms=None, worst_ms=None)


def test_of_rows_of_one_moment_the_last_counts() -> None:
    assert Lag.of([(100, 0), (100, 100), (200, 100)]) == Lag(mean_ms=50.0, worst_ms=100)


def test_a_bound_of_another_epoch_has_no_lag() -> None:
    begin = 1_704_067_200_000
    assert Lag.of([(1_000, begin), (2_000, begin)]) == Lag(mean_ms=None, worst_ms=None)
    assert Lag.of([(begin + 1_000, begin), (begin + 2_000, begin)]) == Lag(mean_ms=1_500.0, worst_ms=2_000)
