"""The frontier that Spark finds is that of the trace, to the row, however the log is cut."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from wmlab.core.errors import ModelError, TraceError
from wmlab.core.spark.schemas import dataframe
from wmlab.core.traces import TRACE_SCHEMA, Trace
from wmlab.strategies.lateness import frontier
from wmlab.strategies.spark import frontier as spark_frontier

SCHEMA = TRACE_SCHEMA.append(pa.field("row", pa.int64(), nullable=False))


def a_log(seed: int, rows: int) -> tuple[Trace, pa.Table]:
    """A log with ties, bursts and pauses, and the same with the number of each row."""
    random, now, records = Random(seed), 1_000, []
    for _ in range(rows):
        now += random.choice((0, 0, 1, 5, 400))
        records.append((max(0, now - random.choice((0, 3, 50, 900))), now, random.choice("abc"), random.choice("kl")))
    columns = [list(column) for column in zip(*records, strict=True)]
    return Trace("log", pa.table(columns, TRACE_SCHEMA)), pa.table([*columns, range(rows)], SCHEMA)


@pytest.mark.parametrize(("by", "parts", "seed"), [(None, 7, 1), ("writer", 64, 2), ("key", 1, 3)])
def test_the_frontier_of_spark_is_that_of_the_trace(spark: SparkSession, by: str | None, parts: int, seed: int) -> None:
    trace, rows = a_log(seed, 500)
    log = dataframe(spark, rows).repartition(3, "event_time")
    found = spark_frontier(log, by, order=("arrival_ms", "row"), parts=parts)
    assert found.to_dict() == frontier(trace, by).to_dict()
    assert type(found.base_lag_ms) is int


def test_a_log_without_rows_has_no_frontier(spark: SparkSession) -> None:
    with pytest.raises(TraceError, match="no rows"):
        spark_frontier(dataframe(spark, SCHEMA.empty_table()))


def test_a_log_with_bad_rows_or_without_a_column_is_refused(spark: SparkSession) -> None:
    log = spark.createDataFrame(
        [(1, 1, "a"), (None, 2, "a"), (3, None, "a"), (4, 4, None)], "event_time long, arrival_ms long, writer string"
    )
    with pytest.raises(TraceError, match="2 rows of the log lack one of event_time, arrival_ms"):
        spark_frontier(log)
    with pytest.raises(TraceError, match="3 rows of the log lack one of event_time, arrival_ms, writer"):
        spark_frontier(log, "writer")
    with pytest.raises(ModelError, match="log has no column 'key'"):
        spark_frontier(log, "key")
    with pytest.raises(ModelError, match="log has string as 'event_time', which is a bigint"):
        spark_frontier(log.withColumn("event_time", log.event_time.cast("string")))
    with pytest.raises(ModelError, match="order is 'arrival_ms'"):
        spark_frontier(log, order="arrival_ms")
