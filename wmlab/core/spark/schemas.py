"""The tables of a recording as DataFrames: their schemas, and the columns that functions of this package need and add.

Each field of a schema carries the metadata of its column: `about`, and `unit` where it has one. A needed column that is
missing, and an added one that is there already, are refused before a plan is built; nothing is executed for that.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import IntegralType, LongType, StructType

from wmlab.core.errors import ModelError
from wmlab.core.spark.session import the_session


def spark_schema(schema: Iterable[pa.Field]) -> StructType:
    """The Spark schema of a table of a recording, or of other fields."""
    made = StructType()
    for field in schema:
        metadata = {key.decode(): text.decode() for key, text in (field.metadata or {}).items()}
        made.add(field.name, from_arrow_type(field.type), field.nullable, metadata)
    return made


def dataframe(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of a table of a recording as a DataFrame with its schema.

    The chunks are joined first, because PySpark 4.3 stops reading an Arrow table at its first empty chunk. Raises
    `SessionError` if `spark` is not a session.
    """
    return the_session(spark).createDataFrame(table.combine_chunks(), spark_schema(table.schema))


def require(frame: DataFrame, name: str, columns: Iterable[str]) -> None:
    """Refuse a DataFrame that lacks a needed column or has it twice.

    `name` says which argument it was. Raises `ModelError`. Names are compared as Spark does, without regard to case.
    """
    present = [column.lower() for column in frame.columns]
    for column in columns:
        if present.count(column.lower()) == 0:
            raise ModelError(
                f"{name} has no column {column!r}; it has {', '.join(frame.columns) or 'none'}.",
                remedy="Give a table with it, or rename the column that it is.",
            )
        if present.count(column.lower()) > 1:
            raise ModelError(
                f"{name} has the column {column!r} {present.count(column.lower())} times.",
                remedy="Rename or drop one of the two before asking.",
            )


def typed(frame: DataFrame, name: str, columns: Iterable[str], schema: pa.Schema) -> DataFrame:
    """A DataFrame with these columns in the types of a table of a recording; short whole numbers become long.

    Raises `ModelError` as `require`, and for a column of any other type: Spark would compare texts letter by letter.
    """
    require(frame, name, columns)
    present = {field.name.lower(): field.dataType for field in frame.schema}
    wanted = {column: from_arrow_type(schema.field(column).type) for column in columns}
    # The names of types leave out whether there may be nulls in arrays.
    differ = [column for column, kind in wanted.items() if present[column].simpleString() != kind.simpleString()]
    for column in differ:
        kind = wanted[column].simpleString()
        if not (isinstance(present[column], IntegralType) and isinstance(wanted[column], LongType)):
            raise ModelError(
                f"{name} has {present[column].simpleString()} as {column!r}, which is a {kind}.",
                remedy=f"Convert it to {kind} first; times are whole milliseconds.",
            )
    # Spark Connect takes no empty dict.
    return frame.withColumns({column: F.col(column).cast("long") for column in differ}) if differ else frame


def refuse(frame: DataFrame, name: str, columns: Container[str]) -> None:
    """Refuse a DataFrame that already has a column which the function adds; as `require`."""
    for column in frame.columns:
        if column.lower() in columns:
            raise ModelError(
                f"{name} already has a column {column!r}, which the answer would add.",
                remedy=f"Rename it first, for example {name}.withColumnRenamed({column!r}, 'my_{column}').",
            )
