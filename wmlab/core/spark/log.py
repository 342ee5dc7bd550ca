"""Logs that do not fit into memory: the columns of a trace in a DataFrame of Spark, and which writer lagged behind.

`of_log` takes what Spark has read, of any form and from anywhere, and makes of it what `wm.trace.load` makes of a file:
the same rule runs on the executors. Where `load` refuses a log for its bad rows, here every bad row stays, with the
reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import EllipsisType

import numpy as np
import pyarrow as pa
from pyarrow.compute import take
from pyspark.sql import DataFrame, Window, functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from wmlab.core.arguments import the_duration
from wmlab.core.errors import TraceError
from wmlab.core.log_columns import (
    LogColumns,
    TimeColumn,
    in_words,
    kinds_in,
    parts_of,
    trace_columns,
)
from wmlab.core.log_files import (
    Frame,
    is_spark,
    located,
    rows_of_table,
    top_columns,
)
from wmlab.core.spark.schemas import require, spark_schema, typed
from wmlab.core.times import SAMPLE_ROWS, TextKind, TimeUnit
from wmlab.core.traces import LOG_SCHEMA, TRACE_SCHEMA
from wmlab.core.words import shown


def of_log(
    log: DataFrame,
    *,
    event_time: TimeColumn = "event_time",
    arrival: TimeColumn = "arrival_ms",
    writer: str | EllipsisType | None = ...,
    key: str | EllipsisType | None = ...,
    count: str | None = None,
    delay: str | None = None,
    unit: TimeUnit | Mapping[str, TimeUnit] = "ms",
    format: str | Mapping[str, str] | None = None,
    timezone: str | Mapping[str, str] | None = None,
    origin: str | Mapping[str, str] | None = None,
    name: str = "log",
) -> DataFrame:
    """The records of a log of any size that Spark has read; the arguments are those of `wm.trace.load`.

        wm.spark.of_log(spark.read.csv("export.csv", header=True), event_time="observed", arrival="created")

    The columns are those of a trace (`event_time` and `arrival_ms` in milliseconds since 1970, `writer`, `key`), then
    `reason` and `text`: for a bad row, the reason for refusing it and its values as JSON; for a good row, null. So
    `where("reason is null")` is the log, and grouping by `reason` counts the bad rows.

    Rows are in no order. Where the types of the columns do not say what their times are (texts, decimals, integers with
    a format), and for paths into nested values, Spark reads 1,000 rows now; everything else happens when the result is
    used. Timestamps without a zone are of `timezone`, UTC by default; those that Spark shows in the time zone of its
    session have one. It needs wmlab on the executors. Raises `TraceError` for a column that is not there, or has a type
    that is not a time.
    """
    wanted = LogColumns(event_time, arrival, writer, key, count, delay, unit, format, timezone, origin)
    if not is_spark(log):
        raise TraceError(f"{shown(log)} is no DataFrame of Spark.", remedy="read the log with spark.read first.")
    columns = located(wanted, "the log", Frame(log, name))
    chosen = log.select(*("`" + top.replace("`", "``") + "`" for top in top_columns(columns.named, log.columns)))
    first = to_arrow_schema(chosen.schema, timezone="UTC").empty_table()
    if _values_decide(first.schema, columns):
        first = chosen.limit(SAMPLE_ROWS).toArrow()
    rows = rows_of_table(first, columns.named, name).table
    judge = _Judge(columns, kinds_in(rows, columns), name)
    # Columns that hold no times are refused here, not by the executors.
    trace_columns(rows, columns, judge.kinds, name)
    return chosen.mapInArrow(judge, spark_schema(LOG_SCHEMA))


def _values_decide(schema: pa.Schema, columns: LogColumns) -> bool:
    """Whether the values, and not only the types, say what the columns of times hold."""
    if any(pa.types.is_nested(field.type) for field in schema):
        return True
    for argument, column in columns.time_columns:
        has_format = bool(columns.form_of(argument).formats)
        kinds = [schema.field(part).type for part in parts_of(column)]
        if len(kinds) > 1 and (has_format or not all(map(pa.types.is_temporal, kinds))):
            return True
        is_number = pa.types.is_floating(kinds[0]) or (pa.types.is_integer(kinds[0]) and not has_format)
        if not (is_number or pa.types.is_temporal(kinds[0])):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Judge:
    """What the executors do: the rule of `load` for the rows of each batch."""

    columns: LogColumns
    kinds: Mapping[str, TextKind]
    name: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = rows_of_table(pa.Table.from_batches([batch]), self.columns.named, self.name)
            made = trace_columns(rows.table, self.columns, self.kinds, self.name)
            reasons = np.full(rows.table.num_rows, None, object)
            for fault in reversed(made.faults):
                reasons[fault.bad] = in_words(fault.column, fault.reason)
            texts = np.full(len(reasons), None, object)
            bad = np.flatnonzero(~made.good)
            texts[bad] = [json.dumps(row, default=str) for row in take(rows.table, pa.array(bad)).to_pylist()]
            judged = pa.table([*made.columns.values(), reasons, texts], LOG_SCHEMA)
            order = pa.array(np.sort([*made.record_rows(), *bad]), pa.int64())
            yield from take(judged, order).to_batches()
            no_rows = [{"reason": in_words(row.column, row.reason), "text": row.value} for row in rows.refused]
            yield from pa.Table.from_pylist(no_rows, LOG_SCHEMA).to_batches()


def stragglers(log: DataFrame, every_ms: int | str) -> DataFrame:
    """The blocking writer, whose newest event is the oldest, at every multiple of `every_ms` of arrival.

    `log` has the columns `event_time`, `arrival_ms` and `writer`, as `of_log` gives them. A writer counts from its
    first record on. One row a moment: `at_ms`, `writers` (known by then), `lower` (the least newest event time of
    them), `straggler` (the writer that has it, the first in the alphabet of several) and `ahead_ms` (by how much the
    newest event of all is newer). What arrives at a multiple counts for it. Grouped by `straggler` it sums up a log.

    The straggler is the writer with the oldest events. `explain` of a recording that replays the log names the writer
    whose noted time blocks the bound: there, a silent writer keeps noting times and blocks nothing. So it may name
    another writer, and says so.
    """
    require(log, "log", ("writer",))
    log = typed(log, "log", ("event_time", "arrival_ms"), TRACE_SCHEMA)
    every_ms = the_duration(every_ms, TraceError, name="every_ms", least_ms=1)
    at_ms = F.expr(f"arrival_ms + pmod(-arrival_ms, {every_ms})")
    by_moment = log.where("arrival_ms is not null").groupBy("writer", at_ms.alias("at_ms"))
    newest = by_moment.agg(F.max("event_time").alias("newest"))
    # With `newest` in it, Spark sees the same aggregate twice and reads the log once.
    last_ms = newest.agg(F.max(F.struct("at_ms", "newest"))["at_ms"]).scalar()
    of_writer = Window.partitionBy("writer").orderBy("at_ms")
    until_ms = F.coalesce(F.lead("at_ms").over(of_writer) - every_ms, last_ms)
    so_far = newest.select(
        "writer", "at_ms", F.max("newest").over(of_writer).alias("newest"), until_ms.alias("until_ms")
    )
    each_moment = F.explode(F.sequence("at_ms", "until_ms", F.lit(every_ms))).alias("at_ms")
    newest_at = so_far.select("writer", "newest", each_moment)
    least = F.min(F.struct("newest", "writer"))
    return newest_at.groupBy("at_ms").agg(
        F.count("*").alias("writers"),
        least["newest"].alias("lower"),
        least["writer"].alias("straggler"),
        (F.max("newest") - least["newest"]).alias("ahead_ms"),
    )
