"""Spark itself against the rule, batch by batch: watermark, windows in state, windows emitted, rows dropped.

A history is a query that counts the rows of windows over one or two streams. Half-way it is stopped and started again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.conformance.engines_spark import Query
from wmlab.strategies.model import spark as rule

HISTORIES: Final = range(200)
CONF: Final = "spark.sql.streaming."
STATE: Final = "org.apache.spark.sql.execution.streaming"
# For queries of a few rows RocksDB, checksums of files and a process for each file renamed cost more than the query.
SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    f"{CONF}stateStore.providerClass": f"{STATE}.state.HDFSBackedStateStoreProvider",
    f"{CONF}checkpointFileManagerClass": f"{STATE}.checkpointing.FileSystemBasedCheckpointFileManager",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
POLICY: Final = f"{CONF}multipleWatermarkPolicy"
IDLE_BATCHES: Final = f"{CONF}noDataMicroBatches.enabled"


class Batch(NamedTuple):
    """What is compared of a batch; times are in seconds."""

    watermark: float
    in_state: int
    emitted: int
    dropped: int


class History(NamedTuple):
    """The delays of the streams by name, the rows of each batch, and the batch before which the query starts again.

    With `idle_batches` one without data follows each that has moved the watermark.
    """

    delays: dict[str, int]
    policy: Any
    mode: str
    window: int
    idle_batches: bool
    batches: list[dict[str, list[int]]]
    restart: int


def history(number: int) -> History:
    random = Random(f"spark-{number}")
    names, now, batches = ("ab" if number % 2 else "a"), 100, []
    for _ in range(random.randrange(3, 6)):
        now += random.randrange(60)
        batches.append({n: [max(0, now - random.randrange(90)) for _ in range(random.randrange(5))] for n in names})
    return History(
        {name: random.choice((0, 5, random.randrange(40))) for name in names},
        random.choice(("min", "max")),
        "update" if number % 4 > 1 else "append",
        random.choice((5, 10, 17)),
        number % 5 == 0,
        batches,
        random.randrange(1, len(batches)),
    )


def expected(given: History) -> Iterator[Batch]:
    """The batches by the rule."""
    query = Query(given.delays, given.policy, given.window, given.mode)
    for number, rows in enumerate(given.batches):
        if number == given.restart:
            query.marks = rule.restart(query.marks)
        yield of_batch(query, rows)
        if given.idle_batches and query.marks.watermark > query.marks.late:
            yield of_batch(query, {})


def of_batch(query: Query, rows: dict[str, list[int]]) -> Batch:
    before, window = query.marks, query.window or 1
    starts = {time - time % window for times in rows.values() for time in times}
    emitted = query.batch(rows)
    dropped = sum(start + window <= before.late for start in starts)
    return Batch(float(before.watermark), len(query.counts), len(emitted), dropped)


def answered(spark: SparkSession, given: History, checkpoint: Path) -> Iterator[Batch]:
    """The batches as Spark reports them."""
    java: Any = spark._jvm
    source = java.org.apache.spark.sql.execution.streaming.runtime.MemoryStream(
        0, spark._jsparkSession, java.scala.Option.empty(), java.org.apache.spark.sql.Encoders.INT()
    )
    # Rows of one source, so that those of both streams come at once: twice the time, plus one for the second stream.
    rows = DataFrame(source.toDF(), spark)
    streams = [
        rows.where(f"value % 2 = {number}")
        .selectExpr("timestamp_seconds(value div 2) AS time")
        .withWatermark("time", f"{delay} seconds")
        for number, delay in enumerate(given.delays.values())
    ]
    both = streams[0] if len(streams) == 1 else streams[0].union(streams[1])
    counts = both.groupBy(F.window("time", f"{given.window} seconds")).count()
    begun = counts.writeStream.format("noop").outputMode(given.mode).option("checkpointLocation", str(checkpoint))
    for batches in (given.batches[: given.restart], given.batches[given.restart :]):
        query = begun.start()
        for batch in batches:
            values = [2 * time + number for number, times in enumerate(batch.values()) for time in times]
            source.addData(java.PythonUtils.toSeq(values))
            query.processAllAvailable()
        query.stop()
        # Spark also reports now and then that nothing happens.
        yield from (of_progress(report) for report in query.recentProgress if "addBatch" in report["durationMs"])


def of_progress(progress: Any) -> Batch:
    state = progress["stateOperators"][0]
    return Batch(
        datetime.fromisoformat(progress["eventTime"]["watermark"]).timestamp(),
        state["numRowsTotal"],
        progress["sink"]["numOutputRows"],
        state["numRowsDroppedByWatermark"],
    )


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark with settings for queries of a few rows, and with those that a history changes put back at the end."""
    before = {name: spark.conf.get(name, None) for name in (POLICY, IDLE_BATCHES, *SMALL)}
    for name, value in SMALL.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def test_rows_are_dropped_in_the_histories() -> None:
    assert sum(batch.dropped for number in HISTORIES for batch in expected(history(number))) > 100


@pytest.mark.parametrize("number", HISTORIES)
def test_spark_and_the_rule_agree_batch_by_batch(small: SparkSession, tmp_path: Path, number: int) -> None:
    given = history(number)
    small.conf.set(POLICY, given.policy)
    small.conf.set(IDLE_BATCHES, given.idle_batches)
    assert list(answered(small, given, tmp_path)) == list(expected(given))
