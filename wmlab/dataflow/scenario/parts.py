"""The plain types that the parts of a dataflow are made of: columns, keys, rows, and Python functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from wmlab.core.expression import parse
from wmlab.core.values import is_function
from wmlab.dataflow.model.aggregate import FUNCTIONS

Column = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\W\d]\w*$")]
"""A column of rows."""
Columns = Annotated[tuple[Column, ...], Field(max_length=1_000)]
Key = Annotated[int, Field(ge=-128, le=127, strict=True)]
"""The key of a watermark: a signed byte."""
Copies = Annotated[int, Field(ge=1, le=1_000, strict=True)]
"""How many parallel instances a vertex has, or partitions a source."""
Size = Annotated[int, Field(ge=1, le=10_000_000, strict=True)]
"""How many items a queue holds, or rows a state."""
Function = Callable[..., Any]
"""A Python function; a dataflow with one runs, but cannot be written to a file."""


def _expression(text: str) -> str:
    parse(text)
    return text.strip()


Expression = Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(_expression)]
"""An expression over the columns of a row."""
Select = Annotated[dict[Column, Expression], Field(min_length=1)]
"""New columns by name, each with its expression over the columns of the input."""


def _condition(offered: object) -> object:
    if is_function(offered):
        return offered
    if not isinstance(offered, str):
        raise ValueError("give an expression, or a function of a row as a dict")
    parse(offered)
    return offered.strip()


Condition = Annotated[Any, BeforeValidator(_condition)]
"""Which rows: an expression, or a function of a row as a dict."""


def _rows(offered: object) -> object:
    """Rows as tuples of plain values."""
    if not isinstance(offered, Sequence) or isinstance(offered, str):
        return offered
    rows = []
    for number, row in enumerate(offered):
        if not isinstance(row, Sequence) or isinstance(row, str):
            raise ValueError(f"row {number} is no sequence of values (got {row!r})")
        try:
            rows.append(tuple(map(plain_value, row)))
        except ValueError as error:
            raise ValueError(f"row {number} {error}") from None
    return tuple(rows)


def plain_value(field: Any) -> Any:
    """A value as a row holds it: NumPy's scalars as Python's, lists as tuples; raises `ValueError` for any other."""
    if isinstance(field, list | tuple):
        return tuple(map(plain_value, field))
    plain = getattr(field, "item", lambda: field)()
    if not _is_plain(plain):
        raise ValueError(f"holds {field!r}, which is no number, text, truth value or None")
    return plain


def _is_plain(field: object) -> bool:
    if isinstance(field, float):
        return math.isfinite(field)
    if isinstance(field, int):
        return -(2**63) <= field < 2**63
    return field is None or isinstance(field, str)


Rows = Annotated[tuple[tuple[Any, ...], ...], BeforeValidator(_rows), Field(max_length=10_000_000)]
"""Rows in the order in which they arrive, each with one value per column."""


def _one_column(offered: object) -> object:
    return (offered,) if isinstance(offered, str) else offered


Grouping = Annotated[Columns, BeforeValidator(_one_column)]
"""Columns that make a group; one may be given as a text."""


def _aggregate(text: str) -> str:
    name, call, rest = text.strip().partition("(")
    column = rest.removesuffix(")")
    if not call or not rest.endswith(")") or name not in FUNCTIONS or (name == "count") is not (column == ""):
        known = ", ".join(f"{known}({'' if known == 'count' else 'column'})" for known in FUNCTIONS)
        raise ValueError(f"is no aggregate; there are {known}")
    return f"{name}({column.strip()})"


Aggregates = Annotated[dict[Column, Annotated[str, AfterValidator(_aggregate)]], Field(min_length=1)]
"""Result columns by name, each with its aggregate: `{"n": "count()", "total": "sum(amount)"}`."""


def aggregate_of(text: str) -> tuple[str, str | None]:
    """The function and the column of an aggregate; `count()` has none."""
    name, _, rest = text.partition("(")
    return name, rest.removesuffix(")") or None
