"""Spark itself against the rule, batch by batch: watermark, windows in state, windows emitted, rows dropped.

A history is a query that counts the rows of windows over one or two streams. Half-way it is stopped and started again.
Then every operator that drops late rows, against the strategy: how many rows each batch loses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, get_args

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from tests.conformance.engines_spark import Query
from tests.repetitions import Count, repetitions
from wmlab.strategies.model import spark as rule
from wmlab.strategies.model.spark import SparkBatches, after_restart as restart
from wmlab.strategies.model.strategy import Record, run
from wmlab.strategies.windows import Windows

HISTORIES: Final = range(repetitions(25, long=100))
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
            query.marks = restart(query.marks)
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


def test_every_option_and_dropped_rows_are_among_the_histories(count: Count) -> None:
    histories = [history(number) for number in HISTORIES]
    assert {(given.policy, given.mode) for given in histories} == set(product(("min", "max"), ("append", "update")))
    assert {(len(given.delays), given.idle_batches) for given in histories} == set(product((1, 2), (False, True)))
    assert {given.window for given in histories} == {5, 10, 17}
    assert {0 in given.delays.values() for given in histories} == {False, True}
    assert sum(batch.dropped for given in histories for batch in expected(given)) >= len(histories) / 2
    count(len(histories), "histories of windows in Spark and by the rule")


@pytest.mark.parametrize("number", HISTORIES)
def test_spark_and_the_rule_agree_batch_by_batch(small: SparkSession, tmp_path: Path, number: int) -> None:
    given = history(number)
    small.conf.set(POLICY, given.policy)
    small.conf.set(IDLE_BATCHES, given.idle_batches)
    assert list(answered(small, given, tmp_path)) == list(expected(given))


# Every operator that drops late rows. Rows have an id of their own, so that none is a duplicate.


class Counting(StatefulProcessor):
    """Counts rows, and keeps nothing."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(  # noqa: N802 (Spark's name)
        self, key: Any, rows: Iterator[pd.DataFrame], times: TimerValues
    ) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"n": [sum(map(len, rows))]})


def counted(key: Any, parts: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Counts rows as `Counting` does, by the older interface."""
    yield pd.DataFrame({"n": [sum(map(len, parts))]})


def joined(rows: DataFrame, delay: str) -> DataFrame:
    """The rows of even ids with those of odd ids, by a range of time. Rows count on one side only."""
    left, right = (rows.where(f"id % 2 = {odd}").selectExpr(f"1 AS k{odd}", f"time AS time{odd}") for odd in (0, 1))
    within = "k0 = k1 AND time0 BETWEEN time1 - INTERVAL 1 SECOND AND time1"
    return left.withWatermark("time0", delay).join(right.withWatermark("time1", delay), F.expr(within))


def joined_on_windows(rows: DataFrame, delay: str) -> DataFrame:
    left, right = (
        rows.where(f"id % 2 = {odd}").withWatermark("time", delay).select(F.window("time", "1 millisecond").alias("w"))
        for odd in (0, 1)
    )
    return left.join(right, "w")


def marked(rows: DataFrame, delay: str) -> DataFrame:
    return rows.withWatermark("time", delay)


QUERIES: Final[Mapping[str, Callable[[DataFrame, str], DataFrame]]] = {
    "window": lambda rows, delay: marked(rows, delay).groupBy(F.window("time", "1 millisecond"), "id").count(),
    "session_window": lambda rows, delay: (
        marked(rows, delay).groupBy(F.session_window("time", "1 millisecond"), "id").count()
    ),
    "window of 5": lambda rows, delay: marked(rows, delay).groupBy(F.window("time", "5 milliseconds"), "id").count(),
    "session of 5": lambda rows, delay: (
        marked(rows, delay).groupBy(F.session_window("time", "5 milliseconds"), "id").count()
    ),
    "join on windows": joined_on_windows,
    "groupBy": lambda rows, delay: marked(rows, delay).groupBy("time", "id").count(),
    "dropDuplicates": lambda rows, delay: marked(rows, delay).dropDuplicates(["id", "time"]),
    "dropDuplicatesWithinWatermark": lambda rows, delay: marked(rows, delay).dropDuplicatesWithinWatermark(["id"]),
    "join": joined,
    "transformWithState": lambda rows, delay: (
        marked(rows, delay).groupBy("id").transformWithStateInPandas(Counting(), "n long", "append", "eventTime")
    ),
    "applyInPandasWithState": lambda rows, delay: (
        marked(rows, delay)
        .groupBy("id")
        .applyInPandasWithState(counted, "n long", "n long", "append", GroupStateTimeout.EventTimeTimeout)
    ),
}
LONGER: Final = {"window of 5": Windows(size_ms=5, slide_ms=5), "session of 5": Windows(gap_ms=5)}
"""Queries whose windows take rows below the watermark until their end."""
BY_END_OF_WINDOW: Final = ("window", "session_window", "join on windows", *LONGER)
IN_PYTHON: Final = ("transformWithState", "applyInPandasWithState")
OPERATORS: Final = [
    (query, number)
    for index, query in enumerate(QUERIES)
    # Fewer of operators in Python, which start a process of their own.
    for number in ([0] if query in IN_PYTHON else repetitions([index % 2], long=list(range(4))))
]
"""Each query with the numbers of its histories; those with odd numbers have batches without data."""


class Dropping(NamedTuple):
    """A query by its name: the delay, and the times of the rows of each batch."""

    query: str
    delay_ms: int
    idle_batches: bool
    batches: list[list[int]]


def operator_of(query: str) -> Any:
    """What the strategy calls it."""
    return "window" if query in BY_END_OF_WINDOW else query


def dropping(query: str, number: int) -> Dropping:
    """Each batch moves the watermark and has rows at the two watermarks that it can meet; other times are random."""
    random = Random(f"spark-{query}-{number}")
    delay_ms, largest, batches = random.randrange(3), [20, 20], []
    for _ in range(4):
        largest.append(largest[-1] + random.randrange(1, 3))
        at_watermarks = [time - delay_ms for time in largest[-3:-1]]
        at_watermarks += [time - 5 for time in at_watermarks]
        others = [largest[-1] - random.randrange(15) for _ in range(6)]
        batches.append([largest[-1], *at_watermarks, *others])
    return Dropping(query, delay_ms, number % 2 == 1, batches)


def dropped_by_rule(given: Dropping) -> list[int]:
    """How many rows each batch loses: a batch is an interval of 1 ms; a batch without data takes one, too."""
    every = 2 if given.idle_batches else 1
    log = [Record(time, every * number) for number, times in enumerate(given.batches) for time in times]
    strategy = SparkBatches(given.delay_ms, trigger_ms=1, operator=operator_of(given.query))
    lost = [0] * len(given.batches)
    for record, step in zip(log, run(strategy, log), strict=True):
        last = record.event_time
        if given.query in LONGER:
            last = int(LONGER[given.query].deadlines(np.array([last]))[0])
        lost[record.arrival_ms // every] += last < step.met
    return lost


def dropped_by_spark(spark: SparkSession, given: Dropping, checkpoint: Path) -> list[int]:
    """The same as Spark counts it in its operators, for the batches with data."""
    java: Any = spark._jvm
    source = java.org.apache.spark.sql.execution.streaming.runtime.MemoryStream(
        0, spark._jsparkSession, java.scala.Option.empty(), java.org.apache.spark.sql.Encoders.INT()
    )
    rows = DataFrame(source.toDF(), spark).selectExpr("value div 1000 AS id", "timestamp_millis(value % 1000) AS time")
    # A join has each row on both sides, so that both watermarks move alike.
    asked = QUERIES[given.query](rows, f"{given.delay_ms} milliseconds")
    query = asked.writeStream.format("noop").outputMode("append").option("checkpointLocation", str(checkpoint)).start()
    sides = (0, 1) if given.query.startswith("join") else (0,)
    for number, times in enumerate(given.batches):
        ids = ((2 * (100 * number + place) + side, time) for place, time in enumerate(times) for side in sides)
        source.addData(java.PythonUtils.toSeq([1000 * id_ + time for id_, time in ids]))
        query.processAllAvailable()
    query.stop()
    reports = [report for report in query.recentProgress if report["numInputRows"]]
    return [report["stateOperators"][0]["numRowsDroppedByWatermark"] // len(sides) for report in reports]


def test_every_operator_is_asked_and_loses_rows_at_the_watermark(count: Count) -> None:
    assert {operator_of(query) for query, _ in OPERATORS} == set(get_args(rule.StatefulOperator))
    histories = [dropping(query, number) for query, number in OPERATORS]
    for given in histories:
        assert sum(dropped_by_rule(given)) > 0
        if given.query not in BY_END_OF_WINDOW:
            assert dropped_by_rule(given) != dropped_by_rule(given._replace(query="window"))
    kinds = {(given.query in BY_END_OF_WINDOW, given.idle_batches) for given in histories}
    assert kinds == set(product((False, True), (False, True)))
    count(len(histories), "histories of dropped rows in Spark and by the rule")


@pytest.mark.parametrize(("query", "number"), OPERATORS)
def test_an_operator_drops_the_rows_that_the_strategy_says(
    small: SparkSession, tmp_path: Path, query: str, number: int
) -> None:
    given = dropping(query, number)
    small.conf.set(IDLE_BATCHES, given.idle_batches)
    if query == "transformWithState":  # It needs column families, which only RocksDB has.
        small.conf.set(f"{CONF}stateStore.providerClass", f"{STATE}.state.RocksDBStateStoreProvider")
    try:
        assert dropped_by_spark(small, given, tmp_path) == dropped_by_rule(given)
    finally:
        small.conf.set(f"{CONF}stateStore.providerClass", SMALL[f"{CONF}stateStore.providerClass"])
