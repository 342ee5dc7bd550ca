"""The tables of a recording as Spark schemas: one definition, seen from Spark.

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


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of a table of a recording."""
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


def dataframe(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of a table of a recording as a DataFrame with its schema.

    The chunks are joined first: PySpark 4.3 stops reading an Arrow table at its first empty chunk.
    """
    return spark.createDataFrame(table.combine_chunks(), spark_schema(table.schema))
