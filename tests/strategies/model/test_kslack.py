"""The largest event time less a constant, K-slack and its relatives."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import late, latenesses, logs, rising, xs
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.kslack import AQKSlack, MPKSlack, coverage
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, earlier, run


@given(logs(), st.one_of(st.none(), st.integers(1, 5_000)))
def test_k_is_the_largest_delay_as_seen_when_the_maximum_grew(records: list[Record], max_k: int | None) -> None:
    expected, x, k, since = [], UNKNOWN, 0, 0
    for index, record in enumerate(records):
        if record.event_time > max((r.event_time for r in records[:index]), default=-1):
            k = max([k, *(record.event_time - r.event_time for r in records[since : index + 1] if index)])
            k = k if max_k is None else min(k, max_k)
            x, since = max(x, record.event_time - k), index + 1
        expected.append(x)
    for strategy in (MPKSlack(max_k), AQKSlack(window=1, batch=10**6, max_k=max_k)):
        # With no error to spare on a batch that never ends, AQ-K-slack is MP-K-slack.
        assert xs(strategy, [*records, Tick(10**6), EndOfInput()]) == [*expected, x, END]


@given(
    st.one_of(logs(times=40), logs(times=20, gap_ms=9, live=True)),
    st.integers(1, 30),
    st.integers(1, 3),
    st.sampled_from([0.2, 0.9]),
)
def test_alpha_follows_the_coverage_of_the_last_ten_batches(
    records: list[Record], window: int, batch: int, error: float
) -> None:
    strategy, mp, slack = AQKSlack(window, error, batch=batch), MPKSlack(), MPKSlack().start()
    alpha, before, x, expected = 1.0, 0.0, UNKNOWN, []
    seen: list[tuple[int, bool]] = []
    for record in records:
        seen.append((record.event_time, record.event_time >= x))
        grows = record.event_time > slack.top
        slack, _, _ = mp.step(slack, record)
        x = max(x, slack.top - round(alpha * slack.k)) if grows else x
        if len(seen) % batch == 0:
            end = slack.top - round(alpha * slack.k)
            counted = [fine for time, fine in seen[-10 * batch :] if end - window <= time <= end]
            off = strategy.needed() - (sum(counted) / len(counted) if counted else 1)
            alpha, before = min(1.0, max(0.0, alpha + 0.5 * off + 0.8 * (off - before))), off
        expected.append(x)
    assert xs(strategy, [*records, EndOfInput()]) == [*expected, END]


def test_a_record_at_the_beginning_of_the_window_counts_for_its_coverage() -> None:
    # After the second record the window is [-2, 0], and that record, which was late, is just in it.
    records = [Record(0, 1), Record(-2, 9), Record(7, 18)]
    assert xs(AQKSlack(window=2, error=0.9, batch=1), records) == [0, 0, 0]


@given(st.integers(1, 99), st.integers(1, 40), st.integers(1, 500), st.integers(1, 9), st.integers(0, 9))
def test_the_coverage_is_so_many_deviations_above_one_less_the_error_and_that_of_siddhi_the_smallest_root(
    percent: int, tenths: int, count: int, mean: int, variance: int
) -> None:
    error, z = percent / 100, tenths / 10

    def off(theta: float, center: float, variance: float) -> float:
        """The squared distance to a center, less that of z deviations."""
        return (theta - center) ** 2 - z * z * (1 + variance / mean**2) / count * theta * (1 - theta)

    theta = coverage(error, z, count, mean=mean, variance=variance)
    assert 1 - error <= theta + 1e-12
    assert theta <= 1 + 1e-12
    assert off(theta, 1 - error, variance) == pytest.approx(0, abs=1e-9)
    assert coverage(error, z, count, variance=variance) == coverage(error, z, count, mean=1, variance=variance)
    # Siddhi squares the variance again. All four roots lie at or above its own: left of it both parabolas are positive.
    theta = coverage(error, z, count, mean=mean, variance=variance, rule="siddhi")
    assert theta <= 1 - error + 1e-12
    assert min(abs(off(theta, center, variance**2)) for center in (1 - error, 1 + error)) == pytest.approx(0, abs=1e-9)
    lefts = [theta * part / 20 - 1e-6 for part in range(20)]
    assert all(off(left, center, variance**2) > -1e-9 for left in lefts for center in (1 - error, 1 + error))


def test_what_is_needed_is_the_coverage_of_a_batch_at_the_quantile_of_the_confidence() -> None:
    strategy = AQKSlack(window=1_000, error=0.2, batch=4, confidence=0.95)
    assert strategy.needed() == pytest.approx(coverage(0.2, 1.959964, 4))


@given(logs(), st.integers(0, 1000))
def test_both_are_the_largest_time_less_the_bound(records: list[Record], bound: int) -> None:
    expected = rising(records, lambda seen: seen[-1].event_time - bound)
    inputs = [Tick(0), *records, Tick(10**6), EndOfInput()]
    marks = [UNKNOWN, *expected, *([UNKNOWN, *expected][-1:]), END]
    found = run(BoundedOutOfOrderness(bound), inputs)
    assert [(step.x, step.native) for step in found] == [(x, x if x in (UNKNOWN, END) else x - 1) for x in marks]
    # The end of the input does not move stream time.
    marks[-1:] = marks[-2:-1]
    found = run(StreamTime(bound), inputs)
    assert [(step.x, step.native) for step in found] == [(x, x if x == UNKNOWN else x + bound) for x in marks]


@given(logs().filter(bool))
def test_a_bound_of_the_largest_lateness_loses_nothing_and_one_less_loses_a_record(records: list[Record]) -> None:
    worst = max(latenesses(records))
    assert late(BoundedOutOfOrderness(worst), records) == 0
    assert worst == 0 or late(BoundedOutOfOrderness(worst - 1), records) > 0


def test_what_is_unknown_and_the_end_stay_what_they_are_whatever_is_taken_from_them() -> None:
    assert [earlier(time, amount) for time in (UNKNOWN, END) for amount in (-1, 0, 1)] == [UNKNOWN] * 3 + [END] * 3
    assert [earlier(END - 1, -1), earlier(END - 1, -2)] == [END, END]
    assert [earlier(UNKNOWN + 1, 1), earlier(UNKNOWN + 1, 2)] == [UNKNOWN, UNKNOWN]
