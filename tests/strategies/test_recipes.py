"""What engines write, or that they cannot have a strategy and what they have instead."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pyarrow as pa
import pytest

from wmlab.core.traces import load
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.engines import Bytewax, Quix
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.percentiles import DelayPercentile, WindowedPercentile
from wmlab.strategies.model.spark import StatefulOperator, first_on_time
from wmlab.strategies.model.strategy import Strategy
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.recipes import ConstantBound, EventTimeColumn, settings

ACCEPTED = Path(__file__).parent / "oracles" / "flink_lines_2_3_0.json"
CONSTANT = {
    "Flink SQL": "WATERMARK FOR event_time AS event_time - INTERVAL '1 01:01:01.501' DAY TO SECOND(3)",
    "Spark": '.withWatermark("event_time", "90061500 milliseconds")'
    "  # for windows; 90061501 milliseconds for dropDuplicates, joins by times, state and groupBy of the time itself",
    "Kafka Streams": "TimeWindows.ofSizeAndGrace(size, Duration.ofMillis(90061500L))",
    "Beam": "new CustomTimestampPolicyWithLimitedDelay<>(timestamp, Duration.millis(90061500L), previous)",
}


def lines(strategy: Strategy[Any] | int) -> dict[str, str]:
    return {engine: str(setting) for engine, setting in settings(strategy).items()}


def test_engines_write_a_constant_bound_in_their_words() -> None:
    assert lines(90_061_500) == lines(BoundedOutOfOrderness(90_061_500)) == CONSTANT
    assert lines(StreamTime(90_061_500)) == CONSTANT
    # As Flink documents it, rows in order, also with equal times, ask for INTERVAL '0.001' SECOND.
    assert "INTERVAL '0 00:00:00.001' DAY" in settings(0)["Flink SQL"].code
    assert "INTERVAL '175 00:00:00.001' DAY(3) TO SECOND(3)" in settings(175 * 86_400_000)["Flink SQL"].code


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
    of_engines = settings(strategy, ConstantBound(90_061_500, "with 1.000% late"))
    assert {engine for engine, setting in of_engines.items() if not setting.possible} == without
    for engine, setting in of_engines.items():
        line = str(setting)
        assert line.startswith("cannot have it") == (engine in without)
        constant = CONSTANT.get(engine, "")
        alternative = f"the alternative is a constant bound, {constant}{'; ' if '  # ' in constant else '  # '}with"
        assert (alternative in line) == (engine in without and engine in CONSTANT)
        assert ("90061500" in line or "1 01:01:01.501" in line) == (engine in without and engine in CONSTANT)
    assert not any("alternative" in line for line in lines(strategy).values())


def test_the_two_delays_of_spark_keep_what_the_bound_keeps_and_no_more() -> None:
    """By the rule of each operator: at the largest time 10 000, the first time that it keeps is 500 before that."""
    line = str(settings(500)["Spark"])
    delays = [int(number) for number in re.findall(r"(\d+) milliseconds", line)]
    assert delays == [500, 501]
    for operator in get_args(StatefulOperator):
        first = [first_on_time(10_000 - delay_ms, operator) for delay_ms in delays]
        assert first.index(9_500) == (operator != "window"), operator
    assert eval(f"frame{line}", {"frame": Frame()}) == ("event_time", "500 milliseconds")
    assert "501 milliseconds for dropDuplicates" in lines(PerWriterMinimum(500))["Spark"]


class Frame:
    """A DataFrame that tells its watermark."""

    def withWatermark(self, *given: str) -> tuple[str, ...]:  # noqa: N802
        return given


def test_the_parameters_of_a_strategy_stand_in_its_lines() -> None:
    flink = "WatermarkStrategy.<Row>forBoundedOutOfOrderness(Duration.ofMillis(500L))"
    waiting = lines(PerWriterMinimum(500, idle_ms=60_000))
    assert waiting["Flink"].startswith(f"{flink}.withIdleness(Duration.ofMillis(60000L))  # where each writer")
    assert "'table.exec.source.idle-timeout' = '60000 ms'" in waiting["Flink SQL"]
    assert "INTERVAL '0 00:00:00.501'" in waiting["Flink SQL"]
    assert "multipleWatermarkPolicy = min" in lines(PerWriterMinimum(500))["Spark"]
    guarded = lines(Guarded(PerWriterMinimum(500), 7_000))["Flink"]
    assert "System.currentTimeMillis() + 7000L" in guarded
    assert flink in guarded
    assert "all other writers" in lines(Guarded(StreamTime(1), 7_000, "writers"))["Flink"]
    assert "grace_ms=500" in lines(Quix(500))["Quix Streams"]


@pytest.mark.parametrize(
    ("column", "sql", "python"),
    [
        ("taken_at", "taken_at", '"taken_at"'),
        ("timestamp", "`timestamp`", '"timestamp"'),
        ("current_time", "`current_time`", '"current_time"'),
        ("rx.time", "`rx.time`", '"`rx.time`"'),
        ('a`b "c', '`a``b "c`', '"`a``b \\"c`"'),
    ],
)
def test_the_lines_have_the_column_of_the_log(column: str, sql: str, python: str) -> None:
    for strategy in (500, PerWriterMinimum(500)):
        of_engines = settings(strategy, event_time=column)
        assert of_engines["Flink SQL"].code.startswith(f"WATERMARK FOR {sql} AS {sql} - INTERVAL")
        assert of_engines["Spark"].code == f'.withWatermark({python}, "500 milliseconds")'
    instead = settings(ConformalWatermark(0.01), ConstantBound(500, "x"), event_time=column)["Flink SQL"].instead
    assert instead is not None
    assert sql in instead.code
    sql_of_idle = settings(PerWriterMinimum(500, idle_ms=7), event_time=column)["Flink SQL"]
    assert sql_of_idle.code.splitlines()[0] == "SET 'table.exec.source.idle-timeout' = '7 ms';"
    assert "\n" not in str(sql_of_idle)


@pytest.mark.parametrize(
    ("column", "form", "computed"),
    [
        ("ts", "s", "ts_timestamp AS TO_TIMESTAMP_LTZ(CAST(ROUND(CAST(`ts` AS DOUBLE) * 1000) AS BIGINT), 3)"),
        ("taken_at", "text", "taken_at_timestamp AS TO_TIMESTAMP(REPLACE(REPLACE(taken_at, 'T', ' '), 'Z', ''))"),
        ("taken_at", "%Y/%m/%d", "taken_at_timestamp AS TO_TIMESTAMP(taken_at, 'yyyy/MM/dd')"),
        ("rx.time", "ms", "time_timestamp AS TO_TIMESTAMP_LTZ(CAST(`rx`.`time` AS BIGINT), 3)"),
    ],
)
def test_flink_gets_a_computed_column_first(column: str, form: str, computed: str) -> None:
    code = settings(500, event_time=EventTimeColumn(column, form))["Flink SQL"].code
    name = computed.split(" ")[0]
    assert code == f"{computed},\nWATERMARK FOR {name} AS {name} - INTERVAL '0 00:00:00.501' DAY TO SECOND(3)"


LOCAL = "yyyy-MM-dd HH:mm:ss.SSS"


@pytest.mark.parametrize(
    ("column", "in_flink", "in_spark"),
    [
        (
            EventTimeColumn("a_day", "d", -2_209_161_600_000),
            "TO_TIMESTAMP_LTZ(CAST(ROUND(CAST(a_day AS DOUBLE) * 86400000) - 2209161600000 AS BIGINT), 3)",
            "timestamp_micros(TRY_CAST(ROUND(TRY_CAST(a_day AS DOUBLE) * 86400000000 - 2209161600000000) AS BIGINT))",
        ),
        (
            EventTimeColumn("a_us", "us", 5_000),
            "TO_TIMESTAMP_LTZ(CAST(CAST(a_us AS BIGINT) / 1000 + 5000 AS BIGINT), 3)",
            "timestamp_micros(TRY_CAST(ROUND(TRY_CAST(a_us AS DOUBLE) + 5000000) AS BIGINT))",
        ),
        (
            EventTimeColumn("taken_at", "%Y/%m/%d", zone="Europe/Berlin"),
            f"TO_TIMESTAMP_LTZ(DATE_FORMAT(TO_TIMESTAMP(taken_at, 'yyyy/MM/dd'), '{LOCAL}'), '{LOCAL}', "
            "'Europe/Berlin')",
            "to_utc_timestamp(try_to_timestamp(taken_at, 'yyyy/M/d'), 'Europe/Berlin')",
        ),
        (
            EventTimeColumn("taken_at", zone="Europe/Berlin"),
            f"TO_TIMESTAMP_LTZ(DATE_FORMAT(taken_at, '{LOCAL}'), '{LOCAL}', 'Europe/Berlin')",
            "to_utc_timestamp(taken_at, 'Europe/Berlin')",
        ),
    ],
)
def test_the_computed_column_counts_from_the_origin_and_is_in_utc(
    column: EventTimeColumn, in_flink: str, in_spark: str
) -> None:
    of_engines = settings(500, event_time=column)
    assert f" AS {in_flink},\n" in of_engines["Flink SQL"].code
    assert f'F.expr("{in_spark}")' in of_engines["Spark"].code


def test_flink_cannot_have_numbers_that_count_local_time() -> None:
    local = settings(500, event_time=EventTimeColumn("a_day", "d", -2_209_161_600_000, "Europe/Berlin"))
    assert not local["Flink SQL"].possible
    assert "to_utc_timestamp(timestamp_micros" in local["Spark"].code


@pytest.mark.parametrize(
    ("at", "form", "zone"),
    [
        ("14.11.2023 23:13", {"format": {"event_time": "%d.%m.%Y %H:%M"}}, "Europe/Berlin"),
        ("2023-11-14T23:13:20", {}, "Europe/Berlin"),
        ("2023-11-14T23:13:20+01:00", {}, None),
        ("2023-11-14T22:13:20Z", {}, None),
        (pd.Timestamp("2023-11-14T23:13:20"), {}, "Europe/Berlin"),
        (pd.Timestamp("2023-11-14T22:13:20", tz="UTC"), {}, None),
        (1_700_000_000, {"unit": {"event_time": "s"}}, None),
        (45_244.9, {"unit": {"event_time": "d"}, "origin": {"event_time": "1899-12-30"}}, "Europe/Berlin"),
    ],
)
def test_a_log_knows_the_zone_of_local_event_times(at: Any, form: dict[str, Any], zone: str | None) -> None:
    frame = pd.DataFrame({"at": [at], "arrived": [1_700_000_003_000]})
    log = load(frame, event_time="at", arrival="arrived", timezone={"event_time": "Europe/Berlin"}, **form)
    assert log.event_time_zone == zone
    assert log.event_time_origin_ms == (-2_209_161_600_000 if "origin" in form else 0)


def test_a_log_knows_what_stands_in_its_column_of_event_times(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,ingested,at\n1700000000,1700000003,2023-11-14T22:13:20Z\n")
    assert load(path, event_time="ts", arrival="ingested", unit="s").event_time_form == "s"
    assert load(path, event_time="at", arrival="ingested", unit="s").event_time_form == "text"
    frame = pd.DataFrame({"t": pd.to_datetime([1], unit="s"), "a": pd.to_datetime([2], unit="s")})
    assert load(frame, event_time="t", arrival="a").event_time_form == "timestamp"
    coded = pa.table({"t": pa.array(["2015-07-20 03:49:24"]).dictionary_encode(), "a": [1]})
    assert load(coded, event_time="t", arrival="a").event_time_form == "text"
    for first, form in ((1, "ms"), (1.5, "ms"), ("1970-01-01 00:00:01", "text"), ("2.1.1970", "%d.%m.%Y")):
        of_one = pd.DataFrame({"t": [first], "a": ["3.1.1970"]})
        assert load(of_one, event_time="t", arrival="a", format="%d.%m.%Y").event_time_form == form


@pytest.mark.parametrize(
    "line", json.loads(ACCEPTED.read_text()), ids=lambda line: f"{line['form']} {line['bound_ms']}"
)
def test_a_line_for_flink_is_one_that_a_real_flink_has_accepted(line: dict[str, Any]) -> None:
    """`tools/flink_lines.py` has written the lines, and compared their times and watermarks."""
    bound_ms, idle_ms, code = (line.pop(name) for name in ("bound_ms", "idle_ms", "code"))
    strategy = BoundedOutOfOrderness(bound_ms) if idle_ms is None else PerWriterMinimum(bound_ms, idle_ms)
    assert settings(strategy, event_time=EventTimeColumn(**line))["Flink SQL"].code == code
