"""What holds for all strategies of a kind: shifted times, renamed writers, repeated and older records, other orders."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import logs, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.adwin import AdwinWatermark
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.engines import Bytewax, Feldera, LimitedDelay, Quix, RisingWave
from wmlab.strategies.model.flink import Flink
from wmlab.strategies.model.kslack import AQKSlack, JoinSlack, MPKSlack
from wmlab.strategies.model.models import JetWatermark, NebulaWatermark
from wmlab.strategies.model.percentiles import (
    ConfluentWatermark,
    DelayPercentile,
    SampledPercentile,
    SketchedPercentile,
    WindowedPercentile,
)
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.spark import SparkBatches
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Strategy, run
from wmlab.strategies.model.targets import BudgetedMinimum, CompletenessWatermark, ConformalWatermark
from wmlab.strategies.model.writers import PerWriterMinimum

BY_MAXIMUM: list[Strategy[Any]] = [BoundedOutOfOrderness(5), PerWriterMinimum(5), Flink(5, interval_ms=1)]
BY_LATENESS: list[Strategy[Any]] = [
    MPKSlack(),
    WindowedPercentile(0.9, size=7),
    ConformalWatermark(0.1, size=9, hold=3),
    ConfluentWatermark(margins=()),
]
DAY_MS = 86_400_000
DEFAULTS: dict[Strategy[Any], dict[str, Any]] = {
    AQKSlack(1): {"error": 0.03, "confidence": 0.95, "batch": 1_000, "mean": 1, "variance": 0, "rule": "derived"},
    AdwinWatermark(0.1): {"factor": 0.5, "delta": 1, "warm_up": 1_000},
    BudgetedMinimum(0.1): {"size": 2_000, "every": 1_000, "idle_ms": None},
    Bytewax(1): {},
    CompletenessWatermark(1, 1, 1): {"share": 0.99, "z": 1.645},
    ConformalWatermark(0.1): {"gamma": 0.005, "size": 2_000, "hold": 1_000},
    ConfluentWatermark(): {"share": 0.95, "size": 5_000, "least_ms": 50, "most_ms": 7 * DAY_MS, "idle_ms": None},
    DelayPercentile(): {"share": 0.99, "size": 10_000},
    Feldera(1): {"rows": 1, "manual": UNKNOWN},
    Flink(1): {"idle_ms": None, "interval_ms": 200, "inputs": "splits", "rule": "fixed"},
    JetWatermark(("a",)): {"lag": 0, "idle_ms": 60_000, "frame": 1},
    NebulaWatermark(("a",)): {"rows": 64, "interval_ms": None, "local": "running_max"},
    PravegaWatermark(): {"period_ms": 10_000, "timeout_ms": 60_000, "note_every_ms": None},
    SketchedPercentile(0.9): {"accuracy": 0.01, "every": 100},
    WindowedPercentile(0.9): {"size": 2_000, "hold": 1},
}
OTHERS: list[Strategy[Any]] = [
    JoinSlack(0.9, 1, 1, 1),
    LimitedDelay(1),
    MPKSlack(),
    PerWriterMinimum(),
    Quix(1),
    RisingWave(1, 1),
    SampledPercentile(0.9, 1, 1),
    SparkBatches(1, rows=1),
    StreamTime(1),
]
RENAMED = {"a": "z", "b": "y", "c": "x"}


def name(strategy: Strategy[Any]) -> str:
    return type(strategy).__name__


@pytest.mark.parametrize(("strategy", "expected"), DEFAULTS.items(), ids=map(name, DEFAULTS))
def test_parameters_that_are_left_out_are_as_documented_and_nothing_is_late_after_the_end(
    strategy: Strategy[Any], expected: dict[str, Any]
) -> None:
    assert {parameter: getattr(strategy, parameter) for parameter in expected} == expected
    *_, last = run(strategy, [Record(5, 5, "a"), EndOfInput()])
    assert last.x == END
    assert last.native == END or isinstance(strategy, NebulaWatermark | PravegaWatermark)


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


@pytest.mark.parametrize("strategy", [*DEFAULTS, *OTHERS], ids=name)
def test_every_number_has_limits(strategy: Strategy[Any]) -> None:
    """Except `manual`, which is a time."""
    parameters = [f.name for f in fields(strategy) if f.name not in ("manual", "margins", "writers", "streams")]
    for parameter in parameters:
        for wrong in (-1, float("nan"), "1", 2**63):
            with pytest.raises(ModelError, match=f"{parameter} is "):
                replace(strategy, **{parameter: wrong})


def test_a_number_of_numpy_is_one_of_python_and_a_list_a_tuple() -> None:
    strategy = PerWriterMinimum(np.int64(5), writers=["a"])  # type: ignore[arg-type]
    assert strategy == PerWriterMinimum(5, writers=("a",))
    assert type(strategy.bound) is int
    with pytest.raises(ModelError, match="writers is 'w1'"):
        PerWriterMinimum(writers="w1")  # type: ignore[arg-type]
