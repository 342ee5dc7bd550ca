"""What engines write, or that they cannot have a strategy and what they have instead."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.engines import Bytewax, Quix
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.percentiles import DelayPercentile, WindowedPercentile
from wmlab.strategies.model.spark import StatefulOperator, first_on_time
from wmlab.strategies.model.strategy import Strategy
from wmlab.strategies.model.targets import ConformalWatermark
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.recipes import Instead, settings

CONSTANT = {
    "Flink SQL": "WATERMARK FOR event_time AS event_time - INTERVAL '1 01:01:01.501' DAY TO SECOND(3)",
    "Spark": '.withWatermark("event_time", "90061500 milliseconds")'
    "  # for windows; 90061501 milliseconds for dropDuplicates, joins by times, state and groupBy of the time itself",
    "Kafka Streams": "TimeWindows.ofSizeAndGrace(size, Duration.ofMillis(90061500L))",
    "Beam": "new CustomTimestampPolicyWithLimitedDelay<>(timestamp, Duration.millis(90061500L), previous)",
}


def test_engines_write_a_constant_bound_in_their_words() -> None:
    assert settings(90_061_500) == settings(BoundedOutOfOrderness(90_061_500)) == CONSTANT
    assert settings(StreamTime(90_061_500)) == CONSTANT
    # As Flink documents it, rows in order, also with equal times, ask for INTERVAL '0.001' SECOND.
    assert "INTERVAL '0 00:00:00.001' DAY" in settings(0)["Flink SQL"]
    assert "INTERVAL '175 00:00:00.001' DAY(3) TO SECOND(3)" in settings(175 * 86_400_000)["Flink SQL"]


@pytest.mark.parametrize(
    ("strategy", "without"),
    [
        (PerWriterMinimum(500), {"Kafka Streams", "Beam"}),
        (PerWriterMinimum(500, idle_ms=60_000), {"Spark", "Kafka Streams", "Beam"}),
        (ConformalWatermark(0.01), {"Flink SQL", "Spark", "Kafka Streams"}),
        (WindowedPercentile(0.99), {"Flink SQL", "Spark", "Kafka Streams"}),
        (DelayPercentile(), {"Flink SQL", "Spark", "Kafka Streams"}),
        (Guarded(BoundedOutOfOrderness(500), 7_000), {"Flink SQL", "Spark", "Kafka Streams"}),
        (Guarded(PerWriterMinimum(500), 7_000, "writers"), {"Flink SQL", "Spark", "Kafka Streams"}),
        (Quix(500), {"Flink SQL", "Spark", "Kafka Streams", "Beam"}),
        (Bytewax(500), {"Flink SQL", "Spark", "Kafka Streams", "Beam"}),
    ],
)
def test_an_engine_has_the_strategy_or_says_that_it_cannot_and_what_instead(
    strategy: Strategy[Any], without: set[str]
) -> None:
    """The line of the constant bound stands only where the engine cannot have the strategy, with what is expected."""
    lines = settings(strategy, Instead(90_061_500, "with 1.000% late"))
    assert {engine for engine, line in lines.items() if line.startswith("cannot have it")} == without
    for engine, line in lines.items():
        code, comment, note = CONSTANT.get(engine, "").partition("  # ")
        alternative = f"the alternative is a constant bound, {code}{f' ({note})' if comment else ''}, with 1.000% late"
        assert (alternative in line) == (engine in without and engine in CONSTANT)
        assert ("90061500" in line or "1 01:01:01.501" in line) == (engine in without and engine in CONSTANT)
    assert not any("alternative" in line for line in settings(strategy).values())


def test_the_two_delays_of_spark_keep_what_the_bound_keeps_and_no_more() -> None:
    """By the rule of each operator: at the largest time 10 000, the first time that it keeps is 500 before that."""
    line = settings(500)["Spark"]
    delays = [int(number) for number in re.findall(r"(\d+) milliseconds", line)]
    assert delays == [500, 501]
    for operator in get_args(StatefulOperator):
        first = [first_on_time(10_000 - delay_ms, operator) for delay_ms in delays]
        assert first.index(9_500) == (operator != "window"), operator
    assert eval(f"frame{line}", {"frame": Frame()}) == ("event_time", "500 milliseconds")
    assert "501 milliseconds for dropDuplicates" in settings(PerWriterMinimum(500))["Spark"]


class Frame:
    """A DataFrame that tells its watermark."""

    def withWatermark(self, *given: str) -> tuple[str, ...]:  # noqa: N802
        return given


def test_the_parameters_of_a_strategy_stand_in_its_lines() -> None:
    flink = "WatermarkStrategy.<Row>forBoundedOutOfOrderness(Duration.ofMillis(500L))"
    waiting = settings(PerWriterMinimum(500, idle_ms=60_000))
    assert waiting["Flink"].startswith(f"{flink}.withIdleness(Duration.ofMillis(60000L)), where each writer")
    assert "'table.exec.source.idle-timeout' = '60000 ms'" in waiting["Flink SQL"]
    assert "INTERVAL '0 00:00:00.501'" in waiting["Flink SQL"]
    assert "multipleWatermarkPolicy = min" in settings(PerWriterMinimum(500))["Spark"]
    guarded = settings(Guarded(PerWriterMinimum(500), 7_000))["Flink"]
    assert "System.currentTimeMillis() + 7000L" in guarded
    assert flink in guarded
    assert "all other writers" in settings(Guarded(StreamTime(1), 7_000, "writers"))["Flink"]
    assert "grace_ms=500" in settings(Quix(500))["Quix Streams"]
