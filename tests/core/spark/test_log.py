"""A log that Spark has read becomes the trace that `load` makes of it, and its bad rows are kept with the reason."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F

from wmlab.core.errors import ModelError, TraceError
from wmlab.core.log_columns import in_words
from wmlab.core.spark.log import of_log, stragglers
from wmlab.core.spark.schemas import dataframe
from wmlab.core.traces import load
from wmlab.strategies.advice import advise
from wmlab.strategies.comparison import compare
from wmlab.strategies.log_profile import profile

COLUMNS: dict[str, Any] = {"event_time": "happened", "arrival": "arrived", "writer": "who", "key": "what"}
LOG = [(1_700_000_000_000 + at * 700, 1_700_000_000_000 + at * 1_000, f"w{at % 3}", str(at % 5)) for at in range(40)]
LOG.append((-1_234_567, 1_700_000_040_000, "w0", "1"))
DIRTY = [
    ("2015-07-20 03:49:24 UTC", "2015-7-20 3:49:25", "a", "k"),
    ("2015-02-30 01:00:00", "2015-07-20 03:49:25", "a", "k"),
    ("2015-07-20 03:49:24 +0200", "2015-07-20 03:49:25 -19:00", "b", "k"),
    ("2015-07-20 03:49:24", "Mon, 20 Jul 2015 03:49:24 +0200 (CEST) (x)", "b", "k"),
    ("2015", "2015-07-20 03:49:25", "b", "k"),
    ("2015-07-20 03:49:24", None, "c", "k"),
    ("2015-07-20 03:49:24", "1960-07-20", "c", "k"),
    ("2015-07-20 03:49:24 IST", "2015-07-20", "c", "k"),
    ("2015-07-20 03:49:24", "2015-07-20", "", "k"),
    ("2015-07-20 03:49:24", "2015-07-20", "c\ufffd", "k"),
    ("soon", "later", "c", None),
]


def table_of(rows: Any, times: Any = lambda ms: ms) -> pa.Table:
    happened, arrived, who, what = zip(*rows, strict=True)
    return pa.table({"happened": [*map(times, happened)], "arrived": [*map(times, arrived)], "who": who, "what": what})


def same(spark: SparkSession, table: pa.Table, **options: Any) -> bool:
    """Whether Spark takes and refuses the rows that `load` takes and refuses, for the same reasons."""
    rows = [tuple(row) for row in of_log(dataframe(spark, table), **options).collect()]
    wanted = load(table, **options, bad_rows="drop")
    reasons = [in_words(row["column"], row["reason"]) for row in wanted.refused.to_pylist()]
    good = Counter(row[:4] for row in rows if row[4] is None)
    assert {row[5] for row in rows if row[4] is None} == {None}
    return good == Counter(map(tuple, wanted.events())) and Counter(reasons) == Counter(
        row[4] for row in rows if row[4]
    )


def test_numbers_and_timestamps_are_read_as_load_reads_them(spark: SparkSession) -> None:
    assert same(spark, table_of(LOG, lambda ms: str(ms * 1_000_000 + 7)), **COLUMNS, unit="ns")
    log = table_of(LOG)
    for index, (column, kind) in enumerate((("happened", pa.timestamp("us")), ("arrived", pa.timestamp("us", "UTC")))):
        log = log.set_column(index, column, log[column].cast(pa.timestamp("ms")).cast(kind, safe=False))
    assert same(spark, log, **COLUMNS, timezone="Asia/Kolkata")


def test_bad_rows_are_kept_with_the_reasons_of_load(spark: SparkSession) -> None:
    assert same(spark, table_of(DIRTY), **COLUMNS)
    log = of_log(dataframe(spark, table_of(DIRTY)), **COLUMNS)
    assert log.where("reason is null").select("writer").count() == 3
    (bad,) = log.where("reason = \"column 'happened' is not a time of a known form\"").collect()
    assert json.loads(bad["text"]) == dict(zip(COLUMNS.values(), DIRTY[-1], strict=True))
    assert (bad.event_time, bad.writer) == (None, "c")


def test_what_load_is_told_spark_is_told(spark: SparkSession) -> None:
    days = [("20.07.2015", "03:49", "2015-07-20 04:00", 2, 1.5), ("31.02.2015", "03:49", "2015-07-20 04:00", 1, 1.5)]
    days += [("25.10.2015", "02:30", "2015-07-20 04:00", 1, 1.5), ("20.07.2015", "03:49", "2015-07-20 04:00", -1, None)]
    table = pa.table(dict(zip(("day", "clock", "arrived", "number", "late"), zip(*days, strict=True), strict=True)))
    told = {"event_time": ("day", "clock"), "format": {"event_time": "%d.%m.%Y %H:%M"}, "timezone": "Europe/Berlin"}
    assert same(spark, table, **told, arrival="arrived", count="number")
    assert same(spark, table, **told, delay="late", unit="s")
    serials = pa.table({"e": [45000.5, 45000.25], "a": ["45001,5", "soon"]})
    assert same(spark, serials, event_time="e", arrival="a", unit="d", origin="1899-12-30")


def test_nested_columns_are_read_as_load_reads_them(spark: SparkSession) -> None:
    nested = [
        {"happened": 1, "rx": [{"t": 5, "gw": "a"}, {"t": 6, "gw": "b"}], "d": {"id": "x"}},
        {"happened": 2, "rx": [], "d": {"id": "y"}},
        {"happened": 3, "rx": [{"t": 7, "gw": "a"}], "d": {"id": "z"}},
    ]
    paths = {"event_time": "happened", "arrival": "rx[].t", "writer": "rx[].gw", "key": "d.id"}
    assert same(spark, pa.Table.from_pylist(nested), **paths)
    log = of_log(dataframe(spark, pa.Table.from_pylist(nested)), **(paths | {"writer": "d"}))
    assert {row.reason for row in log.collect()} == {"column 'd' holds a nested value; name the path to a value in it"}


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (pa.decimal128(22, 3), {"unit": "ms"}),
        (pa.int64(), {"format": {"event_time": "%Y%m%d%H%M%S"}}),
    ],
    ids=str,
)
def test_numbers_whose_values_decide_are_read_as_load_reads_them(
    spark: SparkSession, kind: pa.DataType, arguments: dict[str, Any]
) -> None:
    event = pa.array([20240312061500 + n for n in range(40)])
    table = pa.table({"e": event.cast(kind), "a": pa.array([990_000_000_000 + n for n in range(40)]).cast(kind)})
    assert same(spark, table, event_time="e", arrival="a", **arguments)


@pytest.mark.parametrize("kind", ["long", "double", "timestamp", "date"])
def test_nothing_is_read_before_it_is_asked_for_where_types_say_what_times_are(spark: SparkSession, kind: str) -> None:
    fails = F.raise_error(F.concat(F.lit("row "), F.col("id").cast("string"))).cast(kind)
    log = spark.range(1).select(fails.alias("event_time"), fails.alias("arrival_ms"), F.lit("a").alias("writer"))
    rows = of_log(log)
    assert rows.columns == ["event_time", "arrival_ms", "writer", "key", "reason", "text"]
    with pytest.raises(PySparkException, match="row 0"):
        rows.collect()


def test_the_types_of_a_date_and_a_time_of_day_say_what_both_are_together(spark: SparkSession) -> None:
    columns = {"event_time": ("day", "clock"), "arrival": "arrived"}
    texts = "SELECT DATE'2015-07-20' AS day, INTERVAL '03:49:24.5' HOUR TO SECOND AS clock, 1437364170000L AS arrived"
    (row,) = of_log(spark.sql(texts), **columns).collect()
    assert (row.event_time, row.arrival_ms, row.reason) == (1_437_364_164_500, 1_437_364_170_000, None)
    fails = F.raise_error(F.concat(F.lit("row "), F.col("id").cast("string")))
    both = [fails.cast(kind).alias(name) for name, kind in (("day", "date"), ("clock", "interval hour to second"))]
    rows = of_log(spark.range(1).select(*both, F.col("id").alias("arrived")), **columns)
    with pytest.raises(PySparkException, match="row 0"):
        rows.collect()


def test_a_file_of_any_form_is_read_by_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(table_of(LOG), tmp_path / "log.parquet")
    parquet = of_log(spark.read.parquet(str(tmp_path / "log.parquet")), **COLUMNS)
    assert parquet.where("reason is null").count() == len(LOG)
    (tmp_path / "log.csv").write_text("happened;arrived\n10;20\nsoon;30\n")
    csv = spark.read.csv(str(tmp_path / "log.csv"), header=True, sep=";")
    read = of_log(csv, event_time="happened", arrival="arrived", name="sensor").orderBy("arrival_ms").collect()
    assert [(row.writer, row.reason) for row in read] == [
        ("sensor", None),
        ("sensor", "column 'happened' is not a time of a known form"),
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"event_time": "when"}, "the log has no column 'when'; it has 'happened', 'arrived', 'who', 'what'"),
        ({"event_time": None}, "event_time is None"),
        ({"writer": ["who"]}, "writer is "),
        ({"unit": "weeks"}, "unit is 'weeks'"),
        ({"event_time": "who"}, None),
    ],
)
def test_what_is_no_column_is_refused_before_anything_is_read(
    spark: SparkSession, wrong: dict[str, Any], said: str | None
) -> None:
    log = dataframe(spark, table_of(LOG).set_column(2, "who", pa.array([[True]] * len(LOG))))
    with pytest.raises(TraceError, match=said or "column 'who' is .* not times|'who' holds"):
        of_log(log, **(COLUMNS | {"writer": None} | wrong)).count()
    with pytest.raises(TraceError, match=r"'log.csv' is no DataFrame of Spark.\n.*spark.read"):
        of_log("log.csv")  # type: ignore[arg-type]


def test_what_spark_has_read_becomes_a_trace(spark: SparkSession) -> None:
    table = table_of([row for row in DIRTY if row[1]])
    log = of_log(dataframe(spark, table), **COLUMNS)
    trace, whole = load(log), load(table, **COLUMNS, bad_rows="drop")
    assert trace.table == whole.table
    assert sorted(trace.refused["reason"].to_pylist()) == sorted(
        in_words(row["column"], row["reason"]) for row in whole.refused.to_pylist()
    )
    assert f"{whole.refused.num_rows} left-out bad rows" in repr(trace)
    times = spark.sql("select timestamp '2015-07-20 03:49:24' as t, timestamp_ntz '2015-07-20 03:49:25' as u, 'w' as w")
    assert list(load(times, event_time="t", arrival="u", writer="w").events()) == [
        (1_437_364_164_000, 1_437_364_165_000, "w", "w")
    ]
    advice = advise(log, 0.5)
    assert advice.whole == advise(trace, 0.5).whole
    assert compare(log, [advice.strategy]).outcomes == (advice.whole,)
    assert profile(log).to_dict() == profile(trace).to_dict()
    with pytest.raises(TraceError, match=r"no column 'event_time'.*\n.*with wm\.trace\.load\(frame, "):
        advise(times)


def test_the_straggler_is_the_writer_with_the_least_newest_time(spark: SparkSession) -> None:
    rows = [(event_time, arrival_ms, who) for event_time, arrival_ms, who, _ in LOG] + [(5, 1_700_000_004_500, "late")]
    log = spark.createDataFrame(rows, "event_time long, arrival_ms long, writer string")
    found = {row.at_ms: row for row in stragglers(log, "1.5 s").collect()}
    assert sorted(found) == list(range(min(found), max(found) + 1, 1_500))
    assert {max(found) - 1_500 < arrival <= max(found) for _, arrival, _ in rows[-2:-1]} == {True}
    for at_ms, row in found.items():
        newest: dict[str, int] = {}
        for event_time, arrival_ms, who in rows:
            if arrival_ms <= at_ms:
                newest[who] = max(event_time, newest.get(who, event_time))
        lower, straggler = min((time, who) for who, time in newest.items())
        assert (row.writers, row.lower, row.straggler) == (len(newest), lower, straggler)
        assert row.ahead_ms == max(newest.values()) - lower
    with pytest.raises(ModelError, match="log has no column 'writer'"):
        stragglers(log.drop("writer"), 1_500)
    with pytest.raises(TraceError, match=r"every_ms is 2\.5"):
        stragglers(log, 2.5)  # type: ignore[arg-type]
