"""One grouped pass: a rule sees all rows of one stream, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from wmlab.core.spark import grouped
from wmlab.core.spark.schemas import dataframe

MARKS = pa.table(
    {"stream": ["a", "b", "a"], "time": [3, 5, 1], "cut": pa.array([{}, {1: 2}, {}], pa.map_("int64", "int64"))}
)
EVENTS = pa.table({"stream": ["b"] * 3 + ["c"], "offset": [1, 2, 3, 4]})
EVERYWHERE = pa.table({"bucket": [7]})
SEEN = pa.schema({"stream": pa.string(), "times": pa.list_(pa.int64()), "events": pa.int64(), "buckets": pa.int64()})


def seen(stream: str, tables: grouped.Tables) -> pa.Table:
    assert {row["stream"] for name in ("marks", "events") for row in tables[name].to_pylist()} == {stream}
    times, events = tables["marks"]["time"].to_pylist(), tables["events"].num_rows
    assert tables["marks"].schema.names == MARKS.schema.names
    return pa.table([[stream], [times], [events], [tables["everywhere"].num_rows]], schema=SEEN)


def test_a_rule_gets_all_rows_of_one_stream_in_their_order(spark: SparkSession) -> None:
    tables = {"marks": MARKS, "events": dataframe(spark, EVENTS), "everywhere": EVERYWHERE}
    answer = grouped.by_stream(spark, tables, seen, SEEN).orderBy("stream").toArrow()
    assert answer.to_pydict() == {
        "stream": ["a", "b", "c"],
        "times": [[3, 1], [5], []],
        "events": [0, 3, 1],
        "buckets": [1, 1, 1],
    }


def test_no_rows_give_no_answer(spark: SparkSession) -> None:
    tables = {"marks": MARKS.slice(0, 0), "events": dataframe(spark, EVENTS.slice(0, 0)), "everywhere": EVERYWHERE}
    assert grouped.by_stream(spark, tables, seen, SEEN).toArrow().num_rows == 0


def last_of_each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(batch.num_rows - 1)


def test_a_large_table_is_reduced_where_it_lies(spark: SparkSession) -> None:
    events = dataframe(spark, EVENTS).coalesce(1)
    reduced = grouped.Reduced(events, last_of_each, EVENTS.schema)
    tables = {"marks": MARKS, "events": reduced, "everywhere": EVERYWHERE}
    answer = grouped.by_stream(spark, tables, seen, SEEN).orderBy("stream").toArrow()
    reduced_rows = sum(batch.num_rows for batch in last_of_each(EVENTS.to_batches()))
    assert sum(answer["events"].to_pylist()) == reduced_rows < EVENTS.num_rows


def test_many_rows_of_a_stream_travel_in_parts(spark: SparkSession) -> None:
    many = pa.table({"stream": ["a"] * 200_000, "time": range(200_000)})
    parts = grouped.parts_of("marks", many)
    assert parts["number"].to_pylist() == [0, 1, 2, 3]
    assert grouped.tables_of(parts.take([2, 0, 3, 1]), {"marks": many.schema})["marks"].equals(many)
