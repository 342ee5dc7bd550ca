"""Everything that happens in a run, as columns.

Rows are kept per table as they occur, and a row can be completed when more is known; events, of which there are many,
are kept as arrays per append, until somebody takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wmlab.core import columns
from wmlab.core.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class EventColumns:
    """The events of a run in the order of their appends; `writer` indexes `writer_names`."""

    segment_id: NDArray[np.int64]
    offset: NDArray[np.int64]
    event_time: NDArray[np.int64]
    append_ms: NDArray[np.int64]
    writer: NDArray[np.int32]
    writer_names: tuple[str, ...]


@dataclass(slots=True)
class Journal:
    """Rows of a run, table by table; `common` is part of every row from now on, and may change during the run.

    `take_events`, if given, is called whenever there is a row group of events, which are forgotten then.
    """

    rows: dict[str, list[Row]] = field(default_factory=dict)
    common: Row = field(default_factory=dict)
    take_events: Callable[[Journal], None] | None = None
    held: int = 0
    _event_times: list[NDArray[np.int64]] = field(default_factory=list)
    _appends: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)

    def write(self, table: str, **row: Any) -> Row:
        """Add one row to a table; returns it, to be completed when more is known."""
        row.update(self.common)
        self.rows.setdefault(table, []).append(row)
        return row

    def tables(self, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
        """The rows as tables; a column that a row lacks is null, what is no column is left out.

        Raises `ModelError` for a number that does not fit into its column.
        """
        return {name: self._table(name, schema) for name, schema in schemas.items()}

    def _table(self, name: str, schema: pa.Schema) -> pa.Table:
        rows = self.rows.get(name, [])
        try:
            columns = [pa.array(_entries(rows, field), field.type) for field in schema]
            return pa.Table.from_arrays(columns, schema=schema)
        except OverflowError as error:
            raise ModelError(
                f"The run made a number for the table {name} that is beyond 64 bits.",
                remedy="Use smaller times, sizes and numbers in the scenario and in its expressions.",
            ) from error

    def append(
        self, segment_id: int, before: int, event_size: int, times: NDArray[np.int64], at_ms: int, writer: int
    ) -> None:
        """Add the events of one append to a segment of `before` bytes; each of them has `event_size` bytes."""
        self._appends.append((segment_id, before, event_size, at_ms, writer, len(times)))
        self._event_times.append(times)
        self.held += len(times)
        if self.take_events is not None and self.held >= columns.ROW_GROUP:
            self.take_events(self)
            self._appends, self._event_times, self.held = [], [], 0

    def events(self, writer_names: tuple[str, ...]) -> EventColumns:
        """The events that nobody has taken, as whole columns."""
        segment_id, before, event_size, at_ms, writer, counts = np.array(self._appends, np.int64).reshape(-1, 6).T
        # The nth event of the run ends n - (events of earlier appends) events after the start of its append.
        starts = before - event_size * (np.cumsum(counts) - counts)
        return EventColumns(
            segment_id=np.repeat(segment_id, counts),
            offset=np.repeat(starts, counts) + np.repeat(event_size, counts) * np.arange(1, counts.sum() + 1),
            event_time=np.concatenate(self._event_times or [np.empty(0, np.int64)]),
            append_ms=np.repeat(at_ms, counts),
            writer=np.repeat(writer.astype(np.int32), counts),
            writer_names=writer_names,
        )


def _entries(rows: list[Row], field: pa.Field) -> list[Any]:
    """A column of the rows as Arrow takes it: a map is the list of its pairs."""
    entries = [row.get(field.name) for row in rows]
    if pa.types.is_map(field.type):
        return [list(entry.items()) if isinstance(entry, Mapping) else entry for entry in entries]
    return entries
