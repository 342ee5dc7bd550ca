"""Tables that grow while a job runs: one list per column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from json import JSONEncoder
from typing import Any

import pyarrow as pa

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import RowValues

_encode = JSONEncoder(ensure_ascii=False, check_circular=False).encode


class Columns:
    """The table `name`, one list per column; `stream` is the same in all of its rows, and is no list."""

    def __init__(self, name: str, schema: pa.Schema, stream: str) -> None:
        self.name = name
        self.schema = schema
        self.stream = stream
        self.lists: dict[str, list[Any]] = {column: [] for column in schema.names if column != "stream"}
        self._first = next(iter(self.lists.values()))
        self._appends = [values.append for values in self.lists.values()]

    def __len__(self) -> int:
        return len(self._first)

    def add(self, *values: Any) -> int:
        """Add a row, its values in the order of the columns; returns its number."""
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        return len(self._first) - 1

    def set(self, row: int, **values: Any) -> None:
        """Change some values of a row."""
        for column, value in values.items():
            self.lists[column][row] = value

    def table(self, texts: Iterable[str | None] | None = None) -> pa.Table:
        """As an Arrow table; `texts` stand for the values of the column `row`.

        Raises `ModelError` for a number that does not fit into its column.
        """
        lists = self.lists if texts is None else self.lists | {"row": list(texts)}
        lists = {"stream": [self.stream] * len(self), **lists}
        try:
            columns = [pa.array(lists[field.name], field.type) for field in self.schema]
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

    def of(self, columns_of: Callable[[int], Sequence[str]], rows: Sequence[RowValues | None]) -> list[str | None]:
        """The texts of rows of which the one numbered n has the columns `columns_of(n)`; None stays None."""
        texts: list[str | None] = []
        for number, values in enumerate(rows):
            if values is None:
                texts.append(None)
                continue
            columns = columns_of(number)
            known = self._known.setdefault(columns, {})
            text = known.get(id(values))
            if text is None:
                text = known[id(values)] = _encode(dict(zip(columns, values, strict=True)))
            texts.append(text)
        return texts
