"""Spark itself against the rule, batch by batch: watermark, windows in state, windows emitted, rows dropped.

A history is a query that counts the rows of windows over one or two streams of files, with one file of each in a batch.
Half-way it is stopped and started again. WMLAB_SPARK_HISTORIES=300 runs more of them than the few of every test run,
in which the class that moves the watermark is asked alone about hundreds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.conformance.engines_spark import Query
from wmlab.strategies.model import spark as rule

HISTORIES: Final = int(os.environ.get("WMLAB_SPARK_HISTORIES", "5"))
TRACKED: Final = 200
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
IN_MEMORY: Final = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
FILES: Final = "fs.AbstractFileSystem.file.impl"
WITHOUT_CHECKSUMS: Final = "org.apache.hadoop.fs.local.RawLocalFs"


class Batch(NamedTuple):
    """What is compared of a batch; times are in seconds."""

    watermark: float
    in_state: int
    emitted: int
    dropped: int


class History(NamedTuple):
    """The delays of the streams by name, the rows of each batch, and the batch before which the query starts again."""

    delays: dict[str, int]
    policy: Any
    mode: str
    window: int
    batches: list[dict[str, list[int]]]
    restart: int


def history(number: int) -> History:
    random = Random(f"spark-{number}")
    names, now, batches = ("ab" if number % 2 else "a"), 100, []
    for _ in range(random.randrange(4, 7)):
        now += random.randrange(60)
        batches.append({n: [max(0, now - random.randrange(90)) for _ in range(random.randrange(5))] for n in names})
    return History(
        {name: random.choice((0, 5, random.randrange(40))) for name in names},
        random.choice(("min", "max")),
        "update" if number % 4 > 1 else "append",
        random.choice((5, 10, 17)),
        batches,
        random.randrange(1, len(batches)),
    )


def expected(given: History) -> list[Batch]:
    """The batches by the rule; one without data ends each run if the watermark has moved."""
    query, found = Query(given.delays, given.policy, given.window, given.mode), []
    for number, rows in enumerate([*given.batches, None]):
        if number in (given.restart, len(given.batches)) and query.marks.watermark > query.marks.late:
            found.append(of_batch(query, {}))
        if number == given.restart:
            query.marks = rule.restart(query.marks)
        if rows is not None:
            found.append(of_batch(query, rows))
    return found


def watermarks_ms(given: History) -> Iterator[int]:
    """The watermark by the rule after each batch with data."""
    query = Query(given.delays, given.policy, given.window, given.mode)
    for number, rows in enumerate(given.batches):
        if number == given.restart:
            query.marks = rule.restart(query.marks)
        query.batch(rows)
        yield 1_000 * query.marks.watermark


def of_batch(query: Query, rows: dict[str, list[int]]) -> Batch:
    before, window = query.marks, query.window or 1
    starts = {time - time % window for times in rows.values() for time in times}
    emitted = query.batch(rows)
    dropped = sum(start + window <= before.late for start in starts)
    return Batch(float(before.watermark), len(query.counts), len(emitted), dropped)


def answered(spark: SparkSession, given: History, folder: Path) -> list[Batch]:
    """The batches as Spark reports them."""
    streams = []
    for name, delay in given.delays.items():
        (folder / name).mkdir()
        rows = spark.readStream.schema("at long").option("maxFilesPerTrigger", 1).csv(str(folder / name))
        streams.append(rows.select(F.timestamp_seconds("at").alias("time")).withWatermark("time", f"{delay} seconds"))
    both: DataFrame = streams[0] if len(streams) == 1 else streams[0].union(streams[1])
    counts = both.groupBy(F.window("time", f"{given.window} seconds")).count()
    found = []
    for first, end in ((0, given.restart), (given.restart, len(given.batches))):
        for number in range(first, end):
            for name, times in given.batches[number].items():
                file = folder / name / f"{number:03}.csv"
                file.write_text("".join(f"{time}\n" for time in times), encoding="utf-8")
                os.utime(file, (1_700_000_000 + number,) * 2)
        query = (
            counts.writeStream.format("noop")
            .outputMode(given.mode)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found += [of_progress(progress) for progress in query.recentProgress]
    return found


def of_progress(progress: Any) -> Batch:
    state = progress["stateOperators"][0]
    return Batch(
        datetime.fromisoformat(progress["eventTime"]["watermark"]).timestamp(),
        state["numRowsTotal"],
        progress["sink"]["numOutputRows"],
        state["numRowsDroppedByWatermark"],
    )


@pytest.fixture
def small(spark: SparkSession) -> Any:
    """Settings of queries of a few rows, for which RocksDB and checksums of files cost half as much again.

    The policy is that of a history.
    """
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    settings = {"spark.sql.shuffle.partitions": "1", PROVIDER: IN_MEMORY, FILES: WITHOUT_CHECKSUMS}
    before = {name: spark.conf.get(name, None) for name in (policy, *settings)}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield lambda chosen: spark.conf.set(policy, chosen)
    for name, old in before.items():
        spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def test_rows_are_dropped_in_the_histories() -> None:
    assert sum(batch.dropped for number in range(HISTORIES) for batch in expected(history(number))) > 2


@pytest.mark.parametrize("number", range(HISTORIES))
def test_spark_and_the_rule_agree_batch_by_batch(spark: SparkSession, small: Any, tmp_path: Path, number: int) -> None:
    given = history(number)
    small(given.policy)
    assert answered(spark, given, tmp_path) == expected(given)


def test_the_class_of_spark_that_moves_the_watermark_and_the_rule_agree(spark: SparkSession, small: Any) -> None:
    """The tracker of a query is given the times of a batch here, at a fraction of what running one costs.

    A query that is started again makes another tracker, which begins at the watermark of the one before.
    """
    rows = spark.readStream.format("rate").load().select(F.col("timestamp").alias("time"))
    classes = spark._jvm.org.apache.spark.sql.execution.streaming  # type: ignore[union-attr]

    @cache
    def watermarked(node: str, delay: int) -> DataFrame:
        return rows.withWatermark("time", f"{delay} seconds")

    def tracked(given: History) -> list[int]:
        small(given.policy)
        streams = [watermarked(*stream) for stream in given.delays.items()]
        plan = _plan(streams[0] if len(streams) == 1 else streams[0].union(streams[1]))
        found: list[int] = []
        for number, times in enumerate(given.batches):
            if number in (0, given.restart):
                tracker = classes.runtime.WatermarkTracker.apply(spark._jsparkSession.conf(), plan)
                tracker.setWatermark(found[-1] if found else 0)
            ran = empty
            for stream, seconds in zip(map(_plan, streams), times.values(), strict=True):
                node = (stream.nodeId(), stream.eventTime(), stream.delay())
                ran = classes.operators.stateful.EventTimeWatermarkExec(*node, ran)
                for second in seconds:
                    ran.eventTimeStats().add(1_000 * second)
            tracker.updateWatermark(ran)
            found.append(tracker.currentWatermark())
        return found

    empty = spark.range(0)._jdf.queryExecution().sparkPlan()
    for number in range(TRACKED):
        assert tracked(history(number)) == list(watermarks_ms(history(number)))


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()
