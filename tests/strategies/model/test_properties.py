"""What holds for all strategies: the defaults and the limits of their parameters, and X after the end."""

from __future__ import annotations

import contextlib
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import pytest

from wmlab.core.errors import ModelError
from wmlab.strategies.model.adwin import AdwinWatermark
from wmlab.strategies.model.alignment import Alignment
from wmlab.strategies.model.bounded import StreamTime
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.engines import Bytewax, Feldera, LimitedDelay, Quix, RisingWave, WallClock
from wmlab.strategies.model.flink import Flink
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.idle_increments import IdleIncrements
from wmlab.strategies.model.kslack import AQKSlack, MPKSlack
from wmlab.strategies.model.models import JetWatermark, NebulaWatermark
from wmlab.strategies.model.percentiles import (
    ConfluentWatermark,
    DelayPercentile,
    WindowedPercentile,
)
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.spark import SparkBatches
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Strategy, run
from wmlab.strategies.model.writers import PerWriterMinimum

DAY_MS = 86_400_000
DEFAULTS: dict[Strategy[Any], dict[str, Any]] = {
    AQKSlack(1): {"error": 0.03, "confidence": 0.95, "batch": 1_000, "mean": 1, "variance": 0, "rule": "derived"},
    AdwinWatermark(0.1): {"factor": 0.5, "delta": 1, "warm_up": 1_000},
    Bytewax(1): {},
    ConformalWatermark(0.1): {"gamma": 0.005, "size": 2_000, "hold": 1_000},
    ConfluentWatermark(): {
        "share": 0.95,
        "size": 5_000,
        "least_ms": 50,
        "most_ms": 7 * DAY_MS,
        "margins": ((250, 7 * DAY_MS), (500, 30_000), (750, 10_000), (1_000, 1_000)),
        "idle_ms": None,
    },
    DelayPercentile(): {"share": 0.99, "size": 10_000},
    Feldera(1): {"rows": 1, "manual": UNKNOWN},
    Flink(1): {"idle_ms": None, "interval_ms": 200, "inputs": "splits", "rule": "fixed"},
    JetWatermark(("a",)): {"lag": 0, "idle_ms": 60_000, "frame": 1},
    NebulaWatermark(("a",)): {"rows": 64, "interval_ms": None, "local": "running_max"},
    PravegaWatermark(): {"period_ms": 10_000, "timeout_ms": 60_000, "note_every_ms": None},
    WindowedPercentile(0.9): {"size": 2_000, "hold": 1},
}
OTHERS: list[Any] = [
    Alignment(1),
    Guarded(StreamTime(0), 1),
    IdleIncrements(StreamTime(0), 1, 1, 1),
    LimitedDelay(1),
    MPKSlack(),
    PerWriterMinimum(),
    Quix(1),
    RisingWave(1, 1),
    SparkBatches(1, rows=1),
    StreamTime(1),
    WallClock(1),
]
SHARES: Final = {"accuracy", "confidence", "error", "late_share", "recall", "share", "target"}
FROM_0: Final = {
    "ahead_ms",
    "bound",
    "buffer",
    "delay",
    "drift",
    "grace",
    "grace_ms",
    "lag",
    "lateness",
    "least_ms",
    "max_delay_ms",
    "most_ms",
    "timeout_ms",
}
FROM_0 |= {"variance", "wait", "z"}
TOO_LARGE: Final = "is too large|should be less than or equal to 4611686018427388000"
"""2**62 in a message, as an integer and as a float, which is written with as few digits as say which it is."""


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


@pytest.mark.parametrize("strategy", [*DEFAULTS, *OTHERS], ids=name)
def test_every_number_has_limits(strategy: Any) -> None:
    """Except `manual`, which is a time."""
    for parameter in (
        f.name for f in fields(strategy) if f.name not in ("inner", "manual", "margins", "writers", "streams")
    ):
        outside: list[Any] = [-1, 0, 2**63]
        if isinstance(getattr(strategy, parameter), str):
            words = "input should be "
        elif parameter in SHARES:
            words, outside = "input should be (greater than 0|less than 1)", [-1, 0, 1]
        elif parameter in FROM_0:
            words, outside = f"input ({TOO_LARGE}|should be greater than or equal to 0)", [-1, 2**63]
            assert [getattr(replace(strategy, **{parameter: end}), parameter) for end in (0, 2**62)] == [0, 2**62]
        else:
            words = f"input ({TOO_LARGE}|should be greater than 0)"
        for wrong, reason in [
            *((number, words) for number in outside),
            (float("nan"), r"\(got nan\)"),
            ("1", r"\(got '1'\)"),
        ]:
            with pytest.raises(ModelError, match=rf"{name(strategy)}\.{parameter}: (?s:.*){reason}"):
                replace(strategy, **{parameter: wrong})


ODD: Final[tuple[Any, ...]] = (
    None, True, "x", "", 1.5, -1, 10**30, float("inf"), 1j, b"x", [], {}, [1], {"a": 1}, {1}, object(), int, "\ud800",
    [None], [[]], (1, 2), [True], lambda *_: 1,
)  # fmt: skip


@pytest.mark.parametrize("strategy", [*DEFAULTS, *OTHERS], ids=name)
def test_a_parameter_of_another_type_is_refused_or_is_what_it_says(strategy: Any) -> None:
    """Any error but a ModelError fails the test."""
    for parameter in fields(strategy):
        for odd in ODD:
            with contextlib.suppress(ModelError):
                made = getattr(replace(strategy, **{parameter.name: odd}), parameter.name)
                assert not isinstance(made, bool), "Python takes True for 1"
                names = isinstance(made, tuple) and parameter.name != "margins"
                assert not names or all(isinstance(entry, str) for entry in made)


def test_a_number_may_be_two_to_the_62() -> None:
    assert MPKSlack(2**62).max_k == ConformalWatermark(0.5, gamma=2**62).gamma == 2**62


def test_a_number_of_numpy_is_one_of_python_and_a_list_a_tuple() -> None:
    strategy = PerWriterMinimum(np.int64(5), writers=["a"])  # type: ignore[arg-type]
    assert strategy == PerWriterMinimum(5, writers=("a",))
    assert type(strategy.bound) is int
    with pytest.raises(ModelError, match="writers: input should be a list"):
        PerWriterMinimum(writers="w1")  # type: ignore[arg-type]
