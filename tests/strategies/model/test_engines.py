"""Spark, Kafka Streams, Quix, Beam, bytewax, Feldera and RisingWave against plain statements of their rules."""

from __future__ import annotations

from itertools import accumulate, groupby
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import by_writer, logs, meeting, mets_and_xs, top, trace, xs
from tests.strategies.oracles import spark_rules
from tests.strategies.oracles.kafka_rules import PartitionGroup
from wmlab.core.errors import ModelError
from wmlab.strategies.comparison import compare
from wmlab.strategies.model import spark
from wmlab.strategies.model.engines import Bytewax, Feldera, LimitedDelay, Quix, RisingWave, WallClock
from wmlab.strategies.model.spark import SparkBatches
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Strategy, Tick, run


def mets(strategy: Strategy[Any], log: list[Record]) -> list[int]:
    return [step.met for step in run(strategy, log)]


@given(logs(), st.integers(0, 50), st.integers(1, 4), st.sampled_from(["min", "max"]), st.booleans())
def test_spark_takes_the_largest_times_between_batches(
    log: list[Record], delay: int, rows: int, policy: Any, each: bool
) -> None:
    streams = ("a", "b") if each else ()  # A writer that is not a stream moves nothing.
    used = [0, 0]
    mine: dict[str, int] = dict.fromkeys(streams or ("",), 0)
    expected = []
    for first in range(0, len(log), rows):
        for record in log[first : first + rows]:
            expected.append((used[-2], used[-1]))
            name = record.writer if each else ""
            mine |= {name: max(mine[name], record.event_time - delay)} if name in mine else {}
        used.append(max(used[-1], {"min": min, "max": max}[policy](mine.values())))
    strategy = SparkBatches(delay, rows=rows, streams=streams, policy=policy)
    assert mets_and_xs(strategy, log) == [(late, current or UNKNOWN) for late, current in expected]
    assert mets(SparkBatches(delay, rows=rows, streams=streams, policy=policy, late="current"), log) == [
        current for _, current in expected
    ]


@given(logs(), st.integers(0, 50), st.sampled_from([100, 400]))
def test_spark_with_a_trigger_runs_a_batch_without_data_in_a_quiet_interval(
    log: list[Record], delay: int, every: int
) -> None:
    late = current = 0
    expected, before = [], None
    for number, batch in groupby(log, key=lambda record: record.arrival_ms // every):
        if before is not None and number > before + 1:
            late = current
        times = []
        for record in batch:
            expected.append((late, current))
            times.append(record.event_time)
        late, current, before = current, max(current, max(times) - delay), number
    assert mets_and_xs(SparkBatches(delay, trigger_ms=every), log) == [(met, x or UNKNOWN) for met, x in expected]


def test_spark_moves_at_a_tick_and_a_silent_stream_holds_the_least() -> None:
    log = [Record(50, 0, "a"), Tick(100), Tick(200)]
    assert xs(SparkBatches(10, trigger_ms=100), log) == [UNKNOWN, 40, 40]
    assert xs(SparkBatches(10, trigger_ms=100, streams=("a", "b")), log) == [UNKNOWN] * 3
    assert mets(SparkBatches(10, trigger_ms=100), [log[0], Tick(250), Record(1, 260)])[2] == 40  # type: ignore[list-item]
    assert mets(SparkBatches(10, trigger_ms=100), [log[0], Record(1, 160)]) == [0, 0]
    for quiet in (200, 300):
        inputs = [log[0], Tick(100), Tick(quiet), Record(1, quiet + 10)]
        assert mets(SparkBatches(10, trigger_ms=100), inputs)[-1] == 40  # type: ignore[arg-type]
    assert xs(SparkBatches(10, rows=1), [log[0], Tick(100), Record(60, 200)]) == [UNKNOWN, UNKNOWN, 40]


def test_spark_drops_what_is_before_1970_although_its_first_watermark_is_unknown() -> None:
    steps = list(run(SparkBatches(10, rows=1), [Record(-5, 0), Record(50, 1), Record(60, 2)]))
    assert [(step.met, step.x, step.native) for step in steps] == [(0, UNKNOWN, 0), (0, UNKNOWN, 0), (0, 40, 40)]
    log = trace([Record(-5, 0, "a"), Record(2_000, 2_500, "a"), Record(3_000, 3_500, "a")])
    (found,) = compare(log, [SparkBatches(10, rows=1)])
    assert (found.late, found.lag_max_ms) == (1, 1_510)


@given(logs(times=30), st.integers(0, 3), st.integers(1, 3), st.sampled_from(get_args(spark.StatefulOperator)))
def test_a_record_at_the_watermark_of_spark_is_on_time_for_windows_only(
    log: list[Record], delay: int, rows: int, operator: Any
) -> None:
    marks = [step.native for step in run(SparkBatches(delay, rows=rows), log)]
    own = SparkBatches(delay, rows=rows, operator=operator)
    assert [step.native for step in run(own, log)] == marks, "the operator does not move the watermark"
    used = [0, 0, *(marks[first] for first in range(rows, len(log), rows))]
    for number, (record, step) in enumerate(zip(log, run(own, log), strict=True)):
        mark = used[number // rows]
        drops = record.event_time < mark if operator == "window" else record.event_time <= mark
        assert (record.event_time < step.met) == drops


def test_spark_drops_duplicates_at_the_watermark() -> None:
    log = [Record(time, arrival) for arrival, time in enumerate([10, 20, 20, 20, 20, 20, 30, 31])]
    for operator, by_batch in (("window", [0, 0, 0, 0]), ("dropDuplicates", [0, 0, 2, 0])):
        met = mets(SparkBatches(0, rows=2, operator=operator), log)  # type: ignore[arg-type]
        late = [record.event_time < x for record, x in zip(log, met, strict=True)]
        assert [sum(late[first : first + 2]) for first in range(0, 8, 2)] == by_batch
    with pytest.raises(ModelError, match="operator: input should be 'window'"):
        SparkBatches(0, rows=2, operator="dedup")  # type: ignore[arg-type]


def test_spark_restores_the_watermark_of_the_query_only() -> None:
    state = spark.after_batch(spark.watermarks({"a": 10, "b": 0}), {"a": 30, "b": 40}, {"a": 10, "b": 0})
    assert spark.after_restart(state) == spark.QueryWatermarks({"a": 0, "b": 0}, 20, 0)
    assert spark_rules.join_output(3, 2, 5) == 2
    assert spark_rules.delay_ms(months=1, days=2, ms=3) == 33 * 86_400_000 + 3


@pytest.mark.parametrize("wrong", [{}, {"rows": 1, "trigger_ms": 1}])
def test_spark_refuses_what_it_cannot_run(wrong: dict[str, int]) -> None:
    with pytest.raises(ModelError, match="Give"):
        SparkBatches(1, **wrong)


@given(st.lists(st.lists(st.integers(0, 99), max_size=6).map(sorted), min_size=1, max_size=4))
def test_partitions_in_order_are_merged_in_order(partitions: list[list[int]]) -> None:
    group = PartitionGroup({})
    for name, times in enumerate(partitions):
        group = group.add(name, *times)
    everything = sorted(time for times in partitions for time in times)
    for expected in everything:
        group, time, late = group.poll()
        assert (time, late, group.stream_time) == (expected, 0, expected)
    with pytest.raises(ModelError, match="No record waits"):
        group.poll()


@given(logs(), st.integers(0, 50))
def test_quix_has_the_largest_time_of_a_key_less_the_grace(log: list[Record], grace: int) -> None:
    of_key = [[other.event_time for other in log[: n + 1] if other.key == log[n].key] for n in range(len(log))]
    steps = list(run(Quix(grace), log))
    assert [step.x for step in steps] == [max(times) - grace for times in of_key]
    assert [step.met for step in steps] == [max(times[:-1], default=UNKNOWN + grace) - grace for times in of_key]
    assert [step.native for step in steps] == [max(times) for times in of_key]
    ends = list(run(Quix(grace), [*log, EndOfInput()]))
    assert ends[-1].x == min(
        (max(r.event_time for r in log if r.key == k) - grace for k in {r.key for r in log}), default=UNKNOWN
    )


@given(logs(times=3000), st.integers(1, 300), st.booleans())
def test_beam_has_the_least_partition_each_with_a_limited_delay(log: list[Record], delay: int, bug: bool) -> None:
    def watermark(seen: list[Record], now: int) -> int:
        marks = []
        for most in (UNKNOWN, *map(top, by_writer(seen).values())):
            moves = most > now or (now - delay > most and (most > 0 or not bug))
            marks.append(now - delay if moves else max(UNKNOWN, most - delay))
        return min(marks)

    assert mets_and_xs(LimitedDelay(delay, ("d",), "beam_40176" if bug else "fixed"), log) == meeting(log, watermark)


def test_beam_40176_a_partition_without_records_holds_the_watermark() -> None:
    log = [Record(1_000, 1_000, "a"), Tick(5_000), EndOfInput()]
    assert xs(LimitedDelay(100, ("a", "b")), log) == [900, 4_900, END]
    assert xs(LimitedDelay(100, ("a", "b"), "beam_40176"), log) == [UNKNOWN, UNKNOWN, END]


@given(logs(times=3000), st.integers(0, 300))
def test_the_wall_clock_loses_what_arrives_later_than_its_grace(log: list[Record], grace_ms: int) -> None:
    steps = list(run(WallClock(grace_ms), log))
    clocks = list(accumulate((record.arrival_ms for record in log), max))
    assert [step.met for step in steps] == [clock - grace_ms for clock in clocks]
    assert [step.x for step in steps] == [step.met for step in steps]


def test_the_wall_clock_needs_no_record_and_does_not_go_back() -> None:
    assert xs(WallClock(100), [Tick(1_000), Tick(900), Record(5, 1_200, "a"), EndOfInput()]) == [900, 900, 1_100, END]


@given(logs(times=3000), st.integers(0, 300))
def test_bytewax_moves_with_the_wall_clock_from_the_last_record_that_set_it(log: list[Record], wait: int) -> None:
    def shown(record: Record, past: list[Record]) -> int:
        """The watermark of a key at the arrival of a record: the best of what its records gave, moved on."""
        gave = [old.event_time - wait + record.arrival_ms - old.arrival_ms for old in past if old.key == record.key]
        return max(gave, default=UNKNOWN)

    expected = [(shown(record, log[:n]), shown(record, log[: n + 1])) for n, record in enumerate(log)]
    assert mets_and_xs(Bytewax(wait), log) == expected


def test_bytewax_at_a_tick_is_the_least_key_and_time_does_not_go_back() -> None:
    log = [Record(100, 10, key="a"), Record(50, 20, key="b"), Tick(30), Tick(25), EndOfInput()]
    assert xs(Bytewax(5), log) == [95, 45, 55, 55, END]
    assert xs(Bytewax(5), [Tick(1)]) == [UNKNOWN]


@given(logs(), st.integers(0, 50), st.integers(1, 4))
def test_feldera_uses_a_waterline_one_step_later(log: list[Record], lateness: int, rows: int) -> None:
    done = [log[: n // rows * rows] for n in range(len(log))]
    expected = [max((record.event_time - lateness for record in past), default=UNKNOWN) for past in done]
    assert mets(Feldera(lateness, rows), log) == expected
    assert mets(Feldera(lateness, rows, manual=4_000), log) == [max(4_000, x) for x in expected]


@given(logs(), st.integers(0, 50), st.sampled_from([100, 600]))
def test_risingwave_gives_a_silent_writer_the_largest_time(log: list[Record], bound: int, idle_ms: int) -> None:
    def watermark(seen: list[Record], now: int) -> int:
        owns = by_writer(seen).values()
        return min((top(seen if now - own[-1].arrival_ms > idle_ms else own) - bound for own in owns), default=UNKNOWN)

    assert mets_and_xs(RisingWave(bound, idle_ms), log) == meeting(log, watermark)


def test_risingwave_comes_to_the_largest_time_when_all_are_silent() -> None:
    log = [Record(50, 0, "a"), Record(70, 0, "b"), Tick(100), Tick(101), EndOfInput()]
    assert xs(RisingWave(5, 100), log) == [45, 45, 45, 65, END]
