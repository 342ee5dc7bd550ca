"""From a table, pandas or Spark or a value that becomes one, to plain lists by column, with every mistake named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wmlab.core.errors import ChartError


def plain_columns(table: Any, required: Sequence[str], *, chart: str, example: str) -> dict[str, list[Any]]:
    """The required columns of `table` as lists; unknown is None, whole numbers are `int`.

    `table` is a pandas DataFrame, a Spark one (`toPandas`), or a value with `to_pandas`. `chart` names the picture and
    `example` a table that fits, for the error. Raises `ChartError` for anything else, and for a missing column.
    """
    frame = table.to_pandas() if hasattr(table, "to_pandas") else table
    names = [str(name) for name in getattr(frame, "columns", [])]
    if not names or not hasattr(frame, "__getitem__"):
        raise ChartError(
            f"{chart} cannot be drawn from a {type(table).__name__}.", remedy=f"Pass a table, for example {example}."
        )
    if missing := [name for name in required if name not in names]:
        raise ChartError(
            f"The table has no column {missing[0]!r}; it has {', '.join(names)}.",
            remedy=f"Pass a table with the columns {', '.join(required)}, for example {example}.",
        )
    narrow = frame[list(required)]
    local = narrow.toPandas() if hasattr(narrow, "toPandas") else narrow
    return {name: _plain(local[name]) for name in required}


def _plain(column: Any) -> list[Any]:
    unknown = column.isna().tolist()
    return [None if gone else _whole(value) for value, gone in zip(column.tolist(), unknown, strict=True)]


def _whole(value: Any) -> Any:
    """A number without fraction as `int`: a column with unknown values may have become floating-point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
