"""The Spark schemas are those of `wmlab.streams.tables`, and its tables become DataFrames without loss."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, MapType

from wmlab.core.spark.schemas import dataframe
from wmlab.spark import SCHEMAS
from wmlab.streams.tables import TABLES


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_column_has_its_name_nullability_and_metadata(name: str) -> None:
    for column, field in zip(TABLES[name], SCHEMAS[name], strict=True):
        assert (field.name, field.nullable) == (column.name, column.nullable)
        assert field.metadata == {key.decode(): text.decode() for key, text in column.metadata.items()}
        assert field.metadata["about"]


def test_offsets_are_maps_of_longs() -> None:
    assert SCHEMAS["watermarks"]["cut"].dataType == MapType(LongType(), LongType(), True)


def test_a_table_becomes_a_dataframe(spark: SparkSession) -> None:
    cycle = {
        "stream": "s",
        "controller": "c1",
        "at_ms": 5,
        "previous_lower": None,
        "outcome": "held",
        "reason": "no writer",
    }
    lists = {"participating": ["w1", "w2"], "lagging": [], "removed": []}
    schema = TABLES["cycles"]
    table = pa.Table.from_pylist([{name: (cycle | lists).get(name) for name in schema.names}], schema=schema)
    found = dataframe(spark, table)
    assert found.schema == SCHEMAS["cycles"]
    assert [row.asDict() for row in found.collect()] == table.to_pylist()


def test_a_table_of_ones_own_may_have_other_types(spark: SparkSession) -> None:
    table = pa.table({"at": pa.array([0], pa.timestamp("us", "UTC")), "count": pa.array([3], pa.int32())})
    assert dataframe(spark, table).selectExpr("unix_millis(at) AS at", "count").collect() == [(0, 3)]


def test_no_row_is_lost_behind_an_empty_chunk(spark: SparkSession) -> None:
    row = {"stream": "s", "epoch": 0, "kind": "create", "at_ms": 1, "segment_ids": [0]}
    whole = pa.Table.from_pylist([row, row], schema=TABLES["epochs"])
    table = pa.concat_tables([whole, whole.slice(0, 0), whole.slice(1, 1)])
    assert dataframe(spark, table).count() == 3
