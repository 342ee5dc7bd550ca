"""What holds for all strategies of a kind: shifted times, renamed writers, repeated and older records, other orders."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import logs, xs
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.flink import Flink
from wmlab.strategies.model.kslack import MPKSlack
from wmlab.strategies.model.percentiles import ConfluentWatermark, WindowedPercentile
from wmlab.strategies.model.strategy import UNKNOWN, Record, Strategy
from wmlab.strategies.model.writers import PerWriterMinimum

BY_MAXIMUM: list[Strategy[Any]] = [BoundedOutOfOrderness(5), PerWriterMinimum(5), Flink(5, interval_ms=1)]
BY_LATENESS: list[Strategy[Any]] = [
    MPKSlack(),
    WindowedPercentile(0.9, size=7),
    ConformalWatermark(0.1, size=9, hold=3),
    ConfluentWatermark(margins=()),
]
RENAMED = {"a": "z", "b": "y", "c": "x"}


def name(strategy: Strategy[Any]) -> str:
    return type(strategy).__name__


@pytest.mark.parametrize("strategy", BY_MAXIMUM + BY_LATENESS, ids=name)
@given(log=logs(most=30), shift=st.integers(-(10**6), 10**6))
def test_shifted_times_shift_x_and_names_of_writers_do_not_matter(
    strategy: Strategy[Any], log: list[Record], shift: int
) -> None:
    other = [r._replace(event_time=r.event_time + shift, writer=RENAMED[r.writer]) for r in log]
    assert xs(strategy, other) == [x if x == UNKNOWN else x + shift for x in xs(strategy, log)]


@pytest.mark.parametrize("strategy", BY_MAXIMUM, ids=name)
@given(log=logs(most=30), data=st.data())
def test_repeated_and_older_records_of_a_writer_change_nothing(
    strategy: Strategy[Any], log: list[Record], data: st.DataObject
) -> None:
    more: list[Record] = []
    for record in log:
        more += [record, record._replace(event_time=record.event_time - data.draw(st.integers(0, 9)))]
    assert xs(strategy, more)[::2] == xs(strategy, log)


@given(logs(most=30), st.randoms(use_true_random=False))
def test_the_order_between_writers_does_not_change_the_last_minimum(log: list[Record], random: Any) -> None:
    declared = PerWriterMinimum(5, writers=("a", "b", "c"))
    queues = {writer: [r for r in log if r.writer == writer] for writer in "abc"}
    turns = [record.writer for record in log]
    random.shuffle(turns)
    other = [queues[writer].pop(0) for writer in turns]
    assert xs(declared, other)[-1:] == xs(declared, log)[-1:]
