"""Tables that grow while a job runs: rows as tuples, from which columns are made at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json import JSONEncoder
from typing import Any

import pyarrow as pa

from wmlab.core.errors import ModelError

_encode = JSONEncoder(ensure_ascii=False, check_circular=False).encode
JobRow = tuple[Any, ...]


class JobTable:
    """The table `name`: a tuple per row, its values in the order of `columns`.

    `stream` is the same in all rows, and in no tuple; nor are the columns `apart`, which are given at the end.
    """

    def __init__(self, name: str, schema: pa.Schema, stream: str, *, apart: Sequence[str] = ()) -> None:
        self.name = name
        self.schema = schema
        self.stream = stream
        self.columns = [column for column in schema.names if column not in {"stream", *apart}]
        self.rows: list[JobRow] = []

    def add(self, *values: Any) -> int:
        """Add a row, its values in the order of the columns; returns its number."""
        self.rows.append(values)
        return len(self.rows) - 1

    def set(self, row: int, **values: Any) -> None:
        """Change some values of a row."""
        before = zip(self.columns, self.rows[row], strict=True)
        self.rows[row] = tuple([values.get(column, value) for column, value in before])

    def table(self, **apart: Sequence[Any]) -> pa.Table:
        """As an Arrow table; `apart` has the columns that are in no row, or replace one that is.

        Raises `ModelError` for a number that does not fit into its column.
        """
        made = dict(zip(self.columns, zip(*self.rows, strict=True), strict=True)) if self.rows else {}
        made |= {"stream": [self.stream] * len(self.rows)} | apart
        try:
            columns = [pa.array(made.get(field.name, ()), field.type) for field in self.schema]
        except OverflowError as error:
            raise ModelError(
                f"The run made a number for the table {self.name} that is beyond 64 bits.",
                remedy="Use smaller times, sizes and numbers in the scenario and in its expressions.",
            ) from error
        return pa.Table.from_arrays(columns, schema=self.schema)


class Texts:
    """Rows as JSON objects from column to value; the text of a row that is in several tables is made once.

    Rows are told apart by their identity: equal ones can differ in the types of their values. So they must live.
    """

    def __init__(self) -> None:
        self._known: dict[Sequence[str], dict[int, str]] = {}

    def of(self, columns_of: Callable[[JobRow], Sequence[str]], rows: Sequence[JobRow]) -> list[str | None]:
        """The texts of the values at the end of each row of a table; None stays None.

        `columns_of` gives their columns for a row of the table.
        """
        texts: list[str | None] = []
        for row in rows:
            values = row[-1]
            if values is None:
                texts.append(None)
                continue
            columns = columns_of(row)
            known = self._known.setdefault(columns, {})
            text = known.get(id(values))
            if text is None:
                text = known[id(values)] = _encode(dict(zip(columns, values, strict=True)))
            texts.append(text)
        return texts
