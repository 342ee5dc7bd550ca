"""Logs of one's own that do not fit into memory: read by Spark, bad rows kept apart, the writer that holds time.

`read_log` is the twin of `wmlab.core.traces.load` for any size: the same mapping of columns, the same times. Where
`load` refuses a file for its first bad row, here every bad row stays, with the reason.
"""

from __future__ import annotations

import codecs
import csv
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, FractionalType, IntegralType, TimestampNTZType, TimestampType

from wmlab.core.answers import Straggler, Stragglers
from wmlab.core.errors import TraceError
from wmlab.core.files import as_path
from wmlab.core.spark.schemas import require, typed
from wmlab.core.traces import MS_PER_TICK, TRACE_SCHEMA, Columns, Unit, delimiter_of, form_of
from wmlab.core.words import moment, shown, span

_CORRUPT: Final = "_corrupt_record"
_OLDEST: Final = "oldest newest event"


def read_log(
    spark: SparkSession,
    path: str | Path,
    *,
    event_time: str = "event_time",
    arrival: str = "arrival_ms",
    writer: str | None = "writer",
    key: str | None = "key",
    unit: Unit = "ms",
    encoding: str = "utf-8",
) -> DataFrame:
    """A log of any size, as Spark reads it: CSV, TSV, JSON lines or Parquet, a file or a folder of such files.

    The arguments are those of `wm.trace.load`. The columns are those of a trace (`event_time` and `arrival_ms` in
    milliseconds since 1970, `writer`, `key`), and `reason` and `row`: of a bad row why it is refused and its text as
    JSON, of a good row null. Events may have happened before 1970, arrivals may not. So `log.where("reason is null")`
    is the log, and grouping by `reason` counts what is left out. Rows are in no order. The path is one that the
    executors can read. Timestamps without a zone are in the time zone of the session, which is UTC in wmlab's own.
    A row of a text is one line, also within quotes. All files of a folder are of one form and have one header; Spark
    refuses others when it reads them, as it does a file that is damaged or gone by then. Raises `TraceError` for a file
    or an encoding that Spark does not read, for a column that is not there, or has a type that is no time; a column
    that no row of JSON lines has makes all rows bad.
    """
    columns = Columns(event_time=event_time, arrival=arrival, writer=writer, key=key, unit=unit, encoding=encoding)
    local = as_path(path, TraceError)
    try:
        # Spark would look for a relative path where its process was started.
        raw = _raw(spark, str(local.resolve() if local.exists() else path), columns)
    except (PySparkException, Py4JJavaError) as refused:
        condition = re.search(r"\[[A-Z_.]+\][^\n]*", str(refused))
        raise TraceError(
            f"{path} cannot be read: {condition[0] if condition else refused}",
            remedy="give the path of a whole file that Spark and its executors reach; Parquet with times in ms or us.",
        ) from None
    types = {field.name: field.dataType for field in raw.schema}
    if missing := [name for name in columns.named if name not in types]:
        has = ", ".join(repr(name) for name in types if name != _CORRUPT) or "none"
        raise TraceError(
            f"{path} has no column {missing[0]!r}; it has {has}.",
            remedy="name its columns: read_log(spark, path, event_time=..., arrival=..., writer=..., key=...).",
        )
    writers = F.lit(Path(path).stem) if writer is None else F.col(_quoted(writer)).cast("string")
    keys = writers if key is None else F.col(_quoted(key)).cast("string")
    reasons = [_time_reason(name, types[name], unit) for name in dict.fromkeys((event_time, arrival))]
    early = _time_ms(arrival, types[arrival], unit) < 0
    reasons += [F.when(early, F.lit(f"column {arrival!r} is before 1970"))]
    reasons += [F.when(writers.isNull() | (writers == ""), F.lit(f"column {writer!r} is empty"))]
    reasons += [F.when(keys.isNull(), F.lit(f"column {key!r} has no value"))]
    if _CORRUPT in types:
        reasons.insert(0, F.when(F.col(_CORRUPT).isNotNull(), F.lit("it is not a row of this file's form")))
    reason = F.coalesce(*reasons)
    row = F.to_json(F.struct(*map(_quoted, types)))
    return raw.select(
        _time_ms(event_time, types[event_time], unit).alias("event_time"),
        _time_ms(arrival, types[arrival], unit).alias("arrival_ms"),
        writers.alias("writer"),
        keys.alias("key"),
        reason.alias("reason"),
        F.when(reason.isNotNull(), row).alias("row"),
    )


def stragglers(log: DataFrame, every_ms: int) -> DataFrame:
    """Who held the least of all writers' newest event times, at every multiple of `every_ms` of arrival.

    `log` has the columns `event_time`, `arrival_ms` and `writer`, as `read_log` gives them. A writer counts from its
    first record on. One row a moment: `at_ms`, `writers` (known by then), `lower` (the least newest event time of
    them), `straggler` (the writer that holds it, the first in the alphabet of several) and `ahead_ms` (by how much
    the newest event of all is newer). What arrives at a multiple counts for it. `stragglers_over` sums it up.

    This asks whose events are oldest. `explain` of a recording that replays the log asks whose noted time holds the
    bound: a writer that is silent there goes on noting times and holds nothing. So it may name another, and says so.
    """
    require(log, "log", ("writer",))
    log = typed(log, "log", ("event_time", "arrival_ms"), TRACE_SCHEMA)
    if type(every_ms) is not int or every_ms < 1:
        raise TraceError(f"every_ms is {shown(every_ms)}.", remedy="give a whole number of milliseconds, 1 or more.")
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
    held = so_far.select("writer", "newest", each_moment)
    least = F.min(F.struct("newest", "writer"))
    return held.groupBy("at_ms").agg(
        F.count("*").alias("writers"),
        least["newest"].alias("lower"),
        least["writer"].alias("straggler"),
        (F.max("newest") - least["newest"]).alias("ahead_ms"),
    )


def stragglers_over(log: DataFrame, every_ms: int) -> Stragglers:
    """Who held the least newest event time over the whole log, the most expensive first; see `stragglers`.

    A writer holds from the moment at which it is found to the next one; its cost is by how much the newest event of all
    was newer, averaged over all moments. Raises `TraceError` for a log without a good row.
    """
    found = stragglers(log, every_ms)
    before = F.lag("straggler").over(Window.orderBy("at_ms"))
    by_writer = (
        found.withColumn("begins", F.coalesce(before != F.col("straggler"), F.lit(True)).cast("int"))
        .groupBy("straggler")
        .agg(
            F.count("*").alias("moments"),
            F.sum("begins").alias("stretches"),
            F.sum("ahead_ms").alias("area"),
            F.max(F.struct("ahead_ms", F.negative("at_ms").alias("before_ms"), "lower")).alias("worst"),
        )
    )
    rows = by_writer.collect()
    if not rows:
        raise TraceError("the log has no row that counts.", remedy='give a log with rows; reasons stand in "reason".')
    moments = sum(row.moments for row in rows)
    rows.sort(key=lambda row: (-row.area, -row.moments, row.straggler))
    entries = tuple(
        Straggler(
            who=row.straggler,
            why=_OLDEST,
            stretches=row.stretches,
            held_ms=row.moments * every_ms,
            worst_ms=row.worst.ahead_ms,
            cost_ms=round(row.area / moments, 1),
        )
        for row in rows
    )
    worst = max(rows, key=lambda row: (row.worst.ahead_ms, row.worst.before_ms))
    at_ms = -worst.worst.before_ms
    note = (
        f"At worst, at {moment(at_ms)}, the newest event of {worst.straggler} was from "
        f"{moment(worst.worst.lower, clock_ms=at_ms)}, {span(worst.worst.ahead_ms)} behind the newest of all."
    )
    meanings = ((_OLDEST, "silent or slow: its newest event was the oldest of all writers'"),)
    return Stragglers(
        stream="the log",
        run_ms=moments * every_ms,
        stragglers=entries,
        bound="least newest event time",
        meanings=meanings,
        notes=(note,),
    )


def _raw(spark: SparkSession, path: str, columns: Columns) -> DataFrame:
    """The rows of the file; of a text, all columns are texts, and `_corrupt_record` holds what is not a row."""
    # A folder has the form of a file in it; what is not on this machine may be Parquet.
    form = form_of(Path(path)) or next(filter(None, map(form_of, Path(path).rglob("*"))), "parquet")
    encoding = _encoding(columns)
    reader = spark.read.options(encoding=encoding, columnNameOfCorruptRecord=_CORRUPT)
    if form in ("csv", "tsv"):
        first = spark.read.option("encoding", encoding).text(path).first()
        header = first[0] if first else ""
        sep = "\t" if form == "tsv" else delimiter_of(header)
        names = next(csv.reader([header], delimiter=sep), [])
        # By default Spark takes columns by their place, whatever the other files of a folder call them. It does not
        # find the names that it gives to columns without one, or with that of another.
        named_by_spark = len({*names} - {""}) < len(names)
        reader = reader.options(header=True, sep=sep, escape='"', enforceSchema=named_by_spark)
        found = reader.csv(path).schema.add(_CORRUPT, "string")
        return reader.schema(found).csv(path)
    if form == "json":
        texts = ", ".join(f"{_quoted(name)} string" for name in (*columns.named, _CORRUPT))
        return reader.schema(texts).json(path, lineSep="\n")
    return spark.read.parquet(path)


def _encoding(columns: Columns) -> str:
    """The encoding as Spark calls it; raises `TraceError` for one in which it does not find the ends of lines."""
    with suppress(LookupError):
        return {"utf-8": "utf-8", "iso8859-1": "iso-8859-1"}[codecs.lookup(columns.encoding).name]
    raise TraceError(
        f"Spark reads no text in {columns.encoding!r} line by line.",
        remedy="give encoding='utf-8' or 'latin-1', or write the log in one of them.",
    )


def _time_ms(name: str, kind: DataType, unit: Unit) -> Column:
    """A time column in whole milliseconds since 1970; null where it is no time, or beyond 64 bits."""
    column, (ms, ticks) = _quoted(name), MS_PER_TICK[unit]
    given = f"try_multiply(try_cast({column} as bigint), {ms}l)"
    # `div` cuts towards 0; before 1970 that is later.
    whole = given if ticks == 1 else f"try_subtract({given}, pmod({given}, {ticks}l)) div {ticks}l"
    rounded = f"try_cast(bround(try_cast({column} as double) * {ms}d / {ticks}d) as bigint)"
    instant = f"unix_millis(try_cast({column} as timestamp))"
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return F.expr(instant)
    if isinstance(kind, FractionalType):
        return F.expr(rounded)
    if isinstance(kind, IntegralType):
        return F.expr(whole)
    if kind.typeName() != "string":
        raise TraceError(
            f"column {name!r} holds {kind.simpleString()}, not times.",
            remedy="give numbers since 1970 with their unit=, or ISO dates and times.",
        )
    digits = f"{column} rlike '^[+-]?[0-9]+$'"
    number = f"{column} rlike '^[+-]?[0-9]*[.]?[0-9]+([eE][+-]?[0-9]+)?$'"
    # A time of a day without a date would be one of today.
    dated = f"{column} rlike '^[+-]?[0-9]+-'"
    return F.expr(f"case when {digits} then {whole} when {number} then {rounded} when {dated} then {instant} end")


def _time_reason(name: str, kind: DataType, unit: Unit) -> Column:
    time = _time_ms(name, kind, unit)
    return F.when(F.col(_quoted(name)).isNull(), F.lit(f"column {name!r} has no value")).when(
        time.isNull(), F.lit(f"column {name!r} is not a time within 64 bits of milliseconds")
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
