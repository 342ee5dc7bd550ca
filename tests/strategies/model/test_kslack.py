"""The largest event time less a constant, K-slack and its relatives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import late, logs, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.kslack import AQKSlack, MPKSlack, coverage
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, minus, run


@given(logs(), st.one_of(st.none(), st.integers(1, 5_000)))
def test_k_is_the_largest_delay_as_seen_when_the_maximum_grew(records: list[Record], max_k: int | None) -> None:
    expected, x, k, since = [], UNKNOWN, 0, 0
    for index, record in enumerate(records):
        top = max((r.event_time for r in records[:index]), default=-1)
        if record.event_time > top:
            k = max([k, *(record.event_time - r.event_time for r in records[since : index + 1] if index)])
            k = k if max_k is None else min(k, max_k)
            x, since = max(x, record.event_time - k), index + 1
        expected.append(x)
    assert xs(MPKSlack(max_k), records) == expected
    # With no error to spare on a batch that never ends, AQ-K-slack is MP-K-slack.
    assert xs(AQKSlack(window=1, batch=10**6, max_k=max_k), records) == expected


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


def test_a_record_in_order_has_no_delay() -> None:
    assert xs(MPKSlack(), [Record(10, 0), Record(20, 1), Tick(2), EndOfInput()]) == [10, 20, 20, END]


@given(st.integers(1, 99), st.integers(0, 40), st.integers(1, 500), st.integers(1, 9), st.integers(0, 9))
def test_the_coverage_is_so_many_deviations_above_one_less_the_error(
    percent: int, tenths: int, count: int, mean: int, variance: int
) -> None:
    error, z = percent / 100, tenths / 10
    theta = coverage(error, z, count, mean=mean, variance=variance)
    q = z * z * (1 + variance / mean**2) / count
    assert 1 - error <= theta + 1e-12
    assert theta <= 1 + 1e-12
    assert (theta - (1 - error)) ** 2 == pytest.approx(q * theta * (1 - theta), abs=1e-9)
    assert coverage(error, z, count, variance=variance) == coverage(error, z, count, mean=1, variance=variance)


@given(st.integers(1, 99), st.integers(1, 40), st.integers(1, 500), st.integers(1, 9), st.integers(0, 9))
def test_siddhi_takes_the_smallest_root_and_squares_the_variance_again(
    percent: int, tenths: int, count: int, mean: int, variance: int
) -> None:
    error, z = percent / 100, tenths / 10
    theta = coverage(error, z, count, mean=mean, variance=variance, rule="siddhi")
    q = z * z * (mean**2 + variance**2) / (count * mean**2)
    of = [(center, (theta - center) ** 2 - q * theta * (1 - theta)) for center in (1 - error, 1 + error)]
    assert any(rest == pytest.approx(0, abs=1e-9) for _, rest in of)
    assert theta <= 1 - error + 1e-12
    # All four roots lie at or above it: left of it both parabolas are positive.
    for center in (1 - error, 1 + error):
        for part in range(20):
            at = theta * part / 20 - 1e-6
            assert (at - center) ** 2 - q * at * (1 - at) > -1e-9


def test_what_is_needed_is_the_coverage_of_a_batch_at_the_quantile_of_the_confidence() -> None:
    strategy = AQKSlack(window=1_000, error=0.2, batch=4, confidence=0.95)
    assert strategy.needed() == pytest.approx(coverage(0.2, 1.959964, 4))


def test_siddhis_root_gives_the_slack_away() -> None:
    records = [Record(10 * n - (200 if n % 5 == 0 else 0), 10 * n) for n in range(40, 4_000)]
    derived = late(AQKSlack(window=1_000, batch=100), records)
    siddhi = late(AQKSlack(window=1_000, batch=100, rule="siddhi"), records)
    assert derived < siddhi
    assert late(BoundedOutOfOrderness(210), records) == 0


TIMES = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=30)


@given(TIMES, st.integers(0, 1000))
def test_both_are_the_largest_time_less_the_bound(times: list[int], bound: int) -> None:
    records = [Record(time, index) for index, time in enumerate(times)]
    expected = [max(times[: index + 1]) - bound for index in range(len(times))]
    assert [step.x for step in run(BoundedOutOfOrderness(bound), records)] == expected
    assert [step.x for step in run(StreamTime(bound), records)] == expected


@given(TIMES)
def test_a_bound_of_the_largest_lateness_loses_nothing_and_one_less_loses_a_record(times: list[int]) -> None:
    records = [Record(time, index) for index, time in enumerate(times)]
    worst = max(max(times[: index + 1]) - time for index, time in enumerate(times))
    assert _late(worst, records) == 0
    assert worst == 0 or _late(worst - 1, records) > 0


def test_flink_prints_one_less_and_the_end() -> None:
    steps = list(run(BoundedOutOfOrderness(10), [Tick(0), Record(12, 0), EndOfInput()]))
    assert [step.native for step in steps] == [UNKNOWN, 1, END]


def test_a_bound_is_not_negative() -> None:
    for made in (BoundedOutOfOrderness, StreamTime):
        with pytest.raises(ModelError, match="is -1"):
            made(-1)


def test_a_parameter_is_at_most_two_to_the_62() -> None:
    assert BoundedOutOfOrderness(2**62).bound == 2**62
    assert AQKSlack(window=2**62).window == 2**62
    with pytest.raises(ModelError, match=r"at most 2\*\*62"):
        BoundedOutOfOrderness(2**62 + 1)


def test_what_is_unknown_and_the_end_stay_what_they_are_whatever_is_taken_from_them() -> None:
    assert [minus(time, amount) for time in (UNKNOWN, END) for amount in (-1, 0, 1)] == [UNKNOWN] * 3 + [END] * 3
    assert [minus(END - 1, -1), minus(END - 1, -2)] == [END, END]
    assert [minus(UNKNOWN + 1, 1), minus(UNKNOWN + 1, 2)] == [UNKNOWN, UNKNOWN]


def test_the_end_of_the_input_does_not_move_stream_time() -> None:
    assert [step.native for step in run(StreamTime(10), [Record(12, 0), EndOfInput()])] == [12, 12]


def _late(bound: int, records: list[Record]) -> int:
    steps = zip(records, run(BoundedOutOfOrderness(bound), records), strict=True)
    return sum(record.event_time < step.met for record, step in steps)
