"""Everything that happens in a run, as columns.

Rows are kept per table as they occur; events, of which there are many, as arrays per append.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = Mapping[str, object]


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
    """Rows of a run, table by table; the column `stream` is added by whoever stores them."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    _event_times: list[NDArray[np.int64]] = field(default_factory=list)
    _offsets: list[NDArray[np.int64]] = field(default_factory=list)
    _appends: list[tuple[int, int, int, int]] = field(default_factory=list)

    def write(self, table: str, **row: object) -> None:
        """Add one row to a table."""
        self.rows.setdefault(table, []).append(row)

    def keep(self, table: str, **row: object) -> dict[str, object]:
        """Add one row to a table and return it, to be completed when more is known."""
        self.rows.setdefault(table, []).append(row)
        return row

    def append(
        self, segment_id: int, offsets: NDArray[np.int64], times: NDArray[np.int64], at_ms: int, writer: int
    ) -> None:
        """Add the events of one append."""
        self._appends.append((segment_id, at_ms, writer, len(times)))
        self._offsets.append(offsets)
        self._event_times.append(times)

    def events(self, writer_names: tuple[str, ...]) -> EventColumns:
        """The events as whole columns."""
        appends = np.array(self._appends, np.int64).reshape(-1, 4)
        counts = appends[:, 3]
        nothing = [np.empty(0, np.int64)]
        return EventColumns(
            segment_id=np.repeat(appends[:, 0], counts),
            offset=np.concatenate(self._offsets or nothing),
            event_time=np.concatenate(self._event_times or nothing),
            append_ms=np.repeat(appends[:, 1], counts),
            writer=np.repeat(appends[:, 2].astype(np.int32), counts),
            writer_names=writer_names,
        )
