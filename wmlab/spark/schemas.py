"""The tables of a recording as Spark schemas: one definition, that of `wmlab.tables`, seen from Spark.

Each field carries the metadata of its column: `about`, and `unit` where it has one.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from wmlab.tables import TABLES

_SIMPLE: Final[dict[pa.DataType, DataType]] = {
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.bool_(): BooleanType(),
}


def _spark_type(kind: pa.DataType) -> DataType:
    if pa.types.is_map(kind):
        return MapType(_spark_type(kind.key_type), _spark_type(kind.item_type), valueContainsNull=True)
    if pa.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type), containsNull=True)
    return _SIMPLE[kind]


def _spark_schema(schema: pa.Schema) -> StructType:
    return StructType(
        [
            StructField(
                field.name,
                _spark_type(field.type),
                field.nullable,
                {key.decode(): text.decode() for key, text in field.metadata.items()},
            )
            for field in schema
        ]
    )


SCHEMAS: Final[dict[str, StructType]] = {name: _spark_schema(schema) for name, schema in TABLES.items()}
"""The Spark schema of every table of a recording, by its name."""


def dataframe(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """The rows of a recording's table `name` as a DataFrame with the schema of that table.

    The chunks are joined first: PySpark 4.3 stops reading an Arrow table at its first empty chunk.
    """
    return spark.createDataFrame(table.combine_chunks(), SCHEMAS[name])
