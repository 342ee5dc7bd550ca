"""The lateness curve of a log: every bound in one pass, exact against a run of each; also from Spark."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import median_low

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyspark.sql import SparkSession

from tests.repetitions import repetitions
from tests.strategies.logs import ordered
from tests.strategies.model.logs import late, logs, trace
from wmlab.core.errors import ModelError, TraceError
from wmlab.core.spark.schemas import dataframe
from wmlab.core.traces import TRACE_SCHEMA, Trace
from wmlab.strategies import lateness
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import Record
from wmlab.strategies.spark import lateness_curve as spark_lateness_curve

records_of = logs(times=40).filter(bool)
FIRST_PARTITIONS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"


@given(records_of)
def test_the_late_records_of_every_bound_are_those_of_its_run(records):
    found = lateness_curve(trace(records))
    bounds = range(45)
    runs = [late(BoundedOutOfOrderness(bound), records) for bound in bounds]
    assert found.late(np.arange(45)).tolist() == runs == [found.late(bound) for bound in bounds]
    assert found.late_share(3) == runs[3] / len(records)


@given(records_of)
def test_values_spread_widely_are_sorted_and_found_the_same(records):
    dense = lateness_curve(trace(records)).to_dict()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lateness, "_DENSE", 0)
        assert lateness_curve(trace(records)).to_dict() == dense
        patch.setattr(lateness, "_DENSE", 1_000)
        assert lateness_curve(trace(records)).to_dict() == dense


@given(records_of, st.sampled_from(["writer", "key"]))
def test_with_a_watermark_for_each_group_every_group_is_a_log_of_its_own(records, by):
    found = lateness_curve(trace(records), by)
    alone = {
        name: lateness_curve(trace([record for record in records if getattr(record, by) == name]))
        for name in {getattr(record, by) for record in records}
    }
    assert {name: part.to_dict() | {"name": ""} for name, part in found.groups.items()} == {
        name: part.to_dict() | {"name": ""} for name, part in alone.items()
    }
    for bound in (0, 1, 7, 40):
        assert found.late(bound) == sum(part.late(bound) for part in alone.values())


@given(records_of, st.floats(0, 1), st.integers(0, 45))
def test_the_bound_of_a_share_is_the_least_that_keeps_it(records, share, bound):
    found = lateness_curve(trace(records))
    for wanted in (share, found.late_share(bound)):
        least = found.bound_ms(wanted)
        assert found.late_share(least) <= wanted
        assert least == 0 or found.late_share(least - 1) > wanted


def test_a_share_that_is_no_exact_double_is_kept_by_as_many_records_as_it_says():
    in_order = [Record(100 * n, 100 * n, "a") for n in range(71)]
    found = lateness_curve(trace([*in_order, *(Record(6_990, 7_000 + n, "a") for n in range(29))]))
    assert (found.late_share(0), found.bound_ms(0.29), found.bound_ms(0.28)) == (0.29, 0, 10)


@given(records_of)
def test_the_lag_is_the_median_of_arrival_less_x(records):
    lags = [record.arrival_ms - max(r.event_time for r in records[: n + 1]) for n, record in enumerate(records)]
    assert lateness_curve(trace(records)).lag_ms(9) == median_low(lags) + 9


def test_a_lateness_curve_states_itself_and_is_a_table():
    found = lateness_curve(trace([Record(10, 10, "a"), Record(4, 11, "a"), Record(7, 12, "a"), Record(4, 13, "b")]))
    assert " ".join(repr(found).split()) == (
        "A bound of 0 misses 75.000% of the records of log, one of 6 ms at most 1%, and one of 6 ms none."
    )
    assert found.to_pandas().to_dict("list") == {"bound_ms": [0, 3, 6], "late": [3, 2, 0], "late_share": [0.75, 0.5, 0]}
    in_order = lateness_curve(trace([Record(1, 1, "a"), Record(1, 2, "a")])).facts
    assert (in_order["records"], in_order["missed at 0"], in_order["bound for none"]) == (2, 0, 0)


@pytest.mark.parametrize("ask", [lambda f: f.late(-1), lambda f: f.bound_ms(1.5), lambda f: f.bound_ms(-0.1)])
def test_what_is_no_bound_or_no_share_is_refused(ask):
    with pytest.raises(ModelError):
        ask(lateness_curve(trace([Record(1, 1, "a")])))


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1])
def test_a_time_that_stands_for_something_else_is_refused_with_its_record(time):
    with pytest.raises(ModelError, match=f"Record 2 of 'log', in order of arrival, has event_time {time}"):
        lateness_curve(trace([Record(1, 1, "a"), Record(time, 2, "a")]))


def test_there_are_groups_by_writer_and_key_only():
    with pytest.raises(ModelError, match="no groups by 'arrival_ms'"):
        lateness_curve(trace([Record(1, 1, "a")]), by="arrival_ms")
    with pytest.raises(ModelError, match="'dengue' is not a trace"):
        lateness_curve("dengue")


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark whose shuffles of these few rows begin with 4 partitions instead of 64."""
    before = spark.conf.get(FIRST_PARTITIONS)
    spark.conf.set(FIRST_PARTITIONS, "4")
    yield spark
    spark.conf.set(FIRST_PARTITIONS, str(before))


def log_with_ties(seed: int, rows: int) -> Trace:
    """A log with bursts, pauses and rows of one arrival."""
    random, now, records = Random(seed), 1_000, []
    for _ in range(rows):
        now += random.choice((0, 0, 1, 5, 400))
        delay_ms = random.choice((0, 3, 50, 900))
        records.append((max(0, now - delay_ms), now, random.choice("abc"), random.choice(("k", ""))))
    return ordered(*zip(*records, strict=True))


@pytest.mark.parametrize(
    ("by", "parts", "seed"), repetitions([("key", 7, 3)], long=[(None, 7, 1), ("writer", 64, 2), ("key", 1, 3)])
)
def test_the_lateness_curve_of_spark_is_that_of_the_trace(
    spark: SparkSession, by: str | None, parts: int, seed: int
) -> None:
    trace = log_with_ties(seed, 500)
    log = dataframe(spark, trace.table.append_column("row", [range(500)])).repartition(3, "event_time")
    found = spark_lateness_curve(log, by, order=("arrival_ms", "row"), parts=parts)
    assert found.to_dict() == lateness_curve(trace, by).to_dict()
    assert type(found.base_lag_ms) is int


@pytest.mark.parametrize("by", repetitions(["writer"], long=[None, "writer"]))
def test_the_lateness_curve_of_spark_does_not_depend_on_partitions_where_arrivals_tie(
    spark: SparkSession, by: str | None
) -> None:
    """Six days, of each of which a first file has twenty rows and a second one twenty more."""
    number = np.arange(240)
    arrival = 86_400 * (number // 40)
    event = arrival - 7 * np.random.default_rng(5).integers(0, 9, 240)
    in_files = ordered(event, arrival, [f"w{n}" for n in number % 2])
    by_time = Trace("log", in_files.table.sort_by([("arrival_ms", "ascending"), ("event_time", "ascending")]))
    curve, curve_by_time = (lateness_curve(trace, by).to_dict() for trace in (in_files, by_time))
    assert curve != curve_by_time
    files = [f"f{n}" for n in number % 40 // 20]
    rows = in_files.table.append_column("file", [files]).append_column("row", [number // 40 * 20 + number % 20 + 1])
    for partitions in repetitions((4,), long=(1, 2, 4, 8)):
        log = dataframe(spark, rows.sort_by("event_time")).repartition(partitions, "event_time")
        assert spark_lateness_curve(log, by, order=["arrival_ms", "file", "row"]).to_dict() == curve
        assert spark_lateness_curve(log, by).to_dict() == curve_by_time


def test_arrivals_in_one_instant_of_nanoseconds_are_one_stretch(spark: SparkSession) -> None:
    now = 1_700_000_000_000_000_000
    rows = pa.table([[now - 5, now - 9, now], [now] * 3, ["a"] * 3, [""] * 3], TRACE_SCHEMA)
    found = spark_lateness_curve(dataframe(spark, rows))
    assert (found.rows, found.late(0), found.base_lag_ms) == (3, 0, 5)


def test_times_too_far_apart_for_64_bits_are_refused_in_spark_as_in_memory(spark: SparkSession) -> None:
    far = trace([Record(5, 10, "a"), Record(6 * 10**18, 11, "a"), Record(-4 * 10**18, 12, "a")])
    with pytest.raises(ModelError, match=r"6000000000000000000 and -4000000000000000000, of record 3 in order of arr"):
        lateness_curve(far)
    with pytest.raises(TraceError, match=r"1 rows of the log(?s:.*) event_time -4000000000000000000 and arrival_ms 12"):
        spark_lateness_curve(dataframe(spark, far.table))


def test_a_log_without_rows_has_no_lateness_curve(spark: SparkSession) -> None:
    with pytest.raises(TraceError, match="no rows"):
        spark_lateness_curve(dataframe(spark, TRACE_SCHEMA.empty_table()))


def test_a_log_with_bad_rows_or_without_a_column_is_refused(spark: SparkSession) -> None:
    log = spark.createDataFrame(
        [(1, 1, "a"), (None, 2, "a"), (3, None, "a"), (4, 4, None)], "event_time long, arrival_ms long, writer string"
    )
    with pytest.raises(TraceError, match="2 rows of the log lack one of event_time, arrival_ms"):
        spark_lateness_curve(log)
    with pytest.raises(TraceError, match="3 rows of the log lack one of event_time, arrival_ms, writer"):
        spark_lateness_curve(log, "writer")
    with pytest.raises(ModelError, match="log has no column 'key'"):
        spark_lateness_curve(log, "key")
    with pytest.raises(ModelError, match="log has string as 'event_time', which is a bigint"):
        spark_lateness_curve(log.withColumn("event_time", log.event_time.cast("string")))
    with pytest.raises(ModelError, match="order is 'arrival_ms'"):
        spark_lateness_curve(log, order="arrival_ms")
    with pytest.raises(ModelError, match="order begins with 'writer', a string"):
        spark_lateness_curve(log, order=["writer"])
    with pytest.raises(ModelError, match="parts: input should be greater than 0"):
        spark_lateness_curve(log, parts=0)
