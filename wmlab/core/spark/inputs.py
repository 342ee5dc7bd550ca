"""What the functions of this package ask of the DataFrames they are given.

Every question needs some columns and adds some. A needed column that is missing, and an added column that is there
already, are refused before a plan is built. Only column names are looked at, so nothing is executed.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from wmlab.core.errors import ModelError


def require(frame: DataFrame, name: str, columns: Iterable[str]) -> None:
    """Refuse a DataFrame that lacks a needed column or has it twice.

    `name` says which argument it was. Raises `ModelError`. Names are compared as Spark does, without regard to case.
    """
    present = [column.lower() for column in frame.columns]
    for column in columns:
        if present.count(column) == 0:
            raise ModelError(
                f"{name} has no column {column!r}; it has {', '.join(frame.columns) or 'none'}.",
                remedy=f"Give {name} with the columns of the table of that name in a recording.",
            )
        if present.count(column) > 1:
            raise ModelError(
                f"{name} has the column {column!r} {present.count(column)} times.",
                remedy="Rename or drop one of the two before asking.",
            )


def refuse(frame: DataFrame, name: str, columns: Iterable[str]) -> None:
    """Refuse a DataFrame that already has a column which the answer adds.

    `name` says which argument it was. Raises `ModelError`. Names are compared as Spark does, without regard to case.
    """
    added = set(columns)
    for column in frame.columns:
        if column.lower() in added:
            raise ModelError(
                f"{name} already has a column {column!r}, which the answer would add.",
                remedy=f"Rename it first, for example {name}.withColumnRenamed({column!r}, 'my_{column}').",
            )
