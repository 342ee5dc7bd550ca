"""The largest event time less a constant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, run

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


def test_the_end_of_the_input_does_not_move_stream_time() -> None:
    assert [step.native for step in run(StreamTime(10), [Record(12, 0), EndOfInput()])] == [12, 12]


def _late(bound: int, records: list[Record]) -> int:
    steps = zip(records, run(BoundedOutOfOrderness(bound), records), strict=True)
    return sum(record.event_time < step.met for record, step in steps)
