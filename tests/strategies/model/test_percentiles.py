"""Quantiles of lateness and of delay, against their definitions; quantiles over a window and from a sketch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import latenesses, logs, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.percentiles import (
    ConfluentWatermark,
    DelayPercentile,
    QuantileSketch,
    SampledPercentile,
    SketchedPercentile,
    SlidingWindow,
    WindowedPercentile,
    rank,
)
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, run

DAY_MS = 86_400_000


@given(logs(), st.integers(2, 20), st.sampled_from([50, 90, 99]), st.integers(1, 2))
def test_the_bound_covers_the_share_of_the_last_latenesses_and_one_more(
    records: list[Record], size: int, percent: int, hold: int
) -> None:
    times = [record.event_time for record in records]
    late = latenesses(times)
    expected, x = [], UNKNOWN
    for index in range(len(times)):
        last = late[max(0, index + 1 - size) : index + 1]
        if len(last) >= hold:
            x = max(x, max(times[: index + 1]) - min(max(last), _quantile([*last, 10**6], percent)))
        expected.append(x)
    assert xs(WindowedPercentile(percent / 100, size, hold), [*records, EndOfInput()]) == [*expected, END]


@given(logs(), st.sampled_from([50, 90, 99]))
def test_a_fine_sketch_is_exact_over_all_latenesses(records: list[Record], percent: int) -> None:
    times = [record.event_time for record in records]
    late = latenesses(times)
    expected, x = [], UNKNOWN
    for index in range(len(times)):
        x = max(x, max(times[: index + 1]) - _quantile(late[: index + 1], percent))
        expected.append(x)
    strategy = SketchedPercentile(percent / 100, accuracy=1e-9, every=1)
    assert xs(strategy, [*records, EndOfInput()]) == [*expected, END]


def test_a_sketch_is_read_at_every_hundredth_record_after_the_first_hundred() -> None:
    records = [Record(1000, 0), *[Record(1000 - i % 50, 0) for i in range(1, 99)], *[Record(0, 0)] * 100]
    states = []
    strategy = SketchedPercentile(0.5, every=100)
    state = strategy.start()
    for record in records:
        state, _, _ = strategy.step(state, record)
        states.append(state.bound)
    assert states[98] == states[97] == 24
    assert len(set(states[99:198])) == 1
    assert states[198] == states[197]
    assert strategy.step(state, Record(0, 0))[0].bound == 1000


@given(logs(), st.integers(1, 20))
def test_confluent_takes_the_least_over_partitions_of_a_clamped_quantile_less_a_margin(
    records: list[Record], size: int
) -> None:
    strategy = ConfluentWatermark(0.9, size, least_ms=100, most_ms=3_000, margins=((2, 900), (4, 40)))
    expected, x = [], UNKNOWN
    for index in range(len(records)):
        marks = []
        for writer in {record.writer for record in records[: index + 1]}:
            own = [record.event_time for record in records[: index + 1] if record.writer == writer]
            marks.append(max(_confluent(own[: n + 1], size) for n in range(len(own))))
        x = max(x, min(marks))
        expected.append(x)
    assert xs(strategy, records) == expected
    assert [step.native for step in run(strategy, records)] == [x - 1 for x in expected]


def _confluent(own: list[int], size: int) -> int:
    bound = min(max(_quantile(latenesses(own)[-size:], 90), 100), 3_000)
    return max(own) - bound - (900 if len(own) <= 2 else 40 if len(own) <= 4 else 0)


def test_confluent_has_no_usable_watermark_before_250_records() -> None:
    steps = xs(ConfluentWatermark(), [Record(i, i) for i in range(1_002)])
    assert [steps[n - 1] - n + 1 for n in (250, 251, 501, 751, 1_001)] == [
        -7 * DAY_MS - 50,
        -30_050,
        -10_050,
        -1_050,
        -50,
    ]


def test_confluent_leaves_an_idle_partition_out() -> None:
    records = [Record(10, 0, "a"), Record(500, 0, "b"), Record(600, 30, "b")]
    strategy = ConfluentWatermark(margins=(), idle_ms=20)
    assert xs(strategy, [*records, EndOfInput()]) == [-40, -40, 550, END]


@given(logs(), st.integers(1, 900), st.integers(1, 900), st.sampled_from([20, 50, 90]))
def test_a_sample_gives_the_bound_until_the_next_one_ends(
    records: list[Record], sample: int, gap: int, percent: int
) -> None:
    strategy = SampledPercentile(percent / 100, sample, gap)
    times = [record.event_time for record in records]
    late, x, expected = latenesses(times), UNKNOWN, []
    first = records[0].arrival_ms if records else 0
    for index, record in enumerate(records):
        bound = None
        for cycle in range((record.arrival_ms - first) // (sample + gap) + 1):
            begin = first + cycle * (sample + gap)
            taken = [late[i] for i in range(index) if begin <= records[i].arrival_ms < begin + sample]
            if taken and record.arrival_ms >= begin + sample:
                enough = (
                    s for s in range(11) if 100 * sum(value <= 1_000 * s for value in taken) >= percent * len(taken)
                )
                bound = 1_000 * min(enough)
        x = x if bound is None else max(x, max(times[: index + 1]) - bound)
        expected.append(x)
    assert xs(strategy, records) == expected


def test_a_tick_ends_a_sample_and_flink_prints_one_less() -> None:
    strategy = SampledPercentile(0.9, sample_ms=10, gap_ms=5)
    inputs = [Record(5_000, 0), Record(4_000, 1), Tick(9), Tick(10), EndOfInput()]
    assert [(s.x, s.native) for s in run(strategy, inputs)][2:] == [(UNKNOWN, UNKNOWN), (4_000, 3_999), (END, END)]


def test_a_sample_counts_whole_seconds_and_ends_before_its_last_millisecond() -> None:
    log = [Record(5_000, 0), Record(3_999, 1), Record(1_000, 10), Record(5_500, 15), Tick(25), Record(9_000, 26)]
    assert xs(SampledPercentile(0.9, sample_ms=10, gap_ms=5), log) == [UNKNOWN] * 2 + [3_000, 3_500, 5_500, 9_000]


@given(logs(), st.integers(1, 20))
def test_the_delay_percentile_follows_the_clock(records: list[Record], size: int) -> None:
    strategy = DelayPercentile(0.9, size)
    delays = [max(0, record.arrival_ms - record.event_time) for record in records]
    x = UNKNOWN
    for index, (record, step) in enumerate(zip(records, run(strategy, records), strict=True)):
        if index:
            x = max(x, record.arrival_ms - _quantile(delays[max(0, index - size) : index], 90))
        assert step.met == x
        x = max(x, record.arrival_ms - _quantile(delays[max(0, index + 1 - size) : index + 1], 90))
        assert step.x == x
    if records:
        assert xs(strategy, [*records, Tick(10**6), EndOfInput()])[-2:] == [10**6 - _quantile(delays[-size:], 90), END]


@pytest.mark.parametrize("share", [0, 1, 1.5])
def test_a_share_outside_of_0_and_1_is_refused(share: float) -> None:
    with pytest.raises(ModelError, match=f"share is {share}"):
        WindowedPercentile(share)


def test_a_hold_longer_than_the_window_is_refused() -> None:
    with pytest.raises(ModelError, match="hold of 11 records"):
        WindowedPercentile(0.99, size=10, hold=11)


def _quantile(values: list[int], percent: int) -> int:
    return min(v for v in values if 100 * sum(w <= v for w in values) >= percent * len(values))


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
