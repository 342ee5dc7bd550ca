"""The tables of one stream of a recording, and what each of its reader groups did, for all that explain or draw it.

Source: PDP-33, Watermarking in the Reader; PDP-33, Client Changes (the map of times that a group shares).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.streams.answers.history import (
    group_states,
    known_watermarks,
    log_rows,
    rows_of_stream,
    segments_of,
)
from wmlab.streams.model.index import Known
from wmlab.streams.model.log import ALWAYS, Watermark
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import Followed, follow_group, position_moves


@dataclass(frozen=True, eq=False)
class StreamTables:
    """The tables of one stream of a recording; each is read when it is first asked for, and once."""

    recording: Recording
    stream: str

    def rows(self, table: str) -> list[TableRow]:
        """The rows of a table, maps as dicts."""
        if table not in self._read:
            self._read[table] = list(rows_of_stream(self.recording, table, self.stream))
        return self._read[table]

    @cached_property
    def _read(self) -> dict[str, list[TableRow]]:
        return {}

    @cached_property
    def segments(self) -> Mapping[int, Segment]:
        """The segments, by id."""
        return segments_of(self.recording, self.stream)

    @cached_property
    def log(self) -> Sequence[tuple[TableRow, Watermark]]:
        """The watermarks in the order of the log, as rows and as values."""
        return log_rows(self.recording, self.stream)

    @cached_property
    def groups(self) -> list[str]:
        """The reader groups, by name."""
        return sorted({str(row["group"]) for table in ("positions", "windows") for row in self.rows(table)})

    @cached_property
    def windows(self) -> Mapping[str, list[TableRow]]:
        """What each reader saw, by time."""
        rows = sorted(self.rows("windows"), key=lambda row: (row["reader"], row["at_ms"]))
        return {reader: list(of_reader) for reader, of_reader in groupby(rows, key=lambda row: str(row["reader"]))}

    def of_group(self, group: str) -> GroupHistory:
        """What a reader group did."""
        return GroupHistory(self, group)


@dataclass(frozen=True, eq=False)
class GroupHistory:
    """What a reader group did: its positions and what it shared of them, from the `tables` of the stream."""

    tables: StreamTables
    name: str

    def rows(self, table: str) -> list[TableRow]:
        """The rows of the group in a table."""
        return [row for row in self.tables.rows(table) if row["group"] == self.name]

    @cached_property
    def states(self) -> Sequence[tuple[int, Mapping[int, TableRow]]]:
        """After each update the clock (ms) and the newest row of each open segment."""
        return list(group_states(self.rows("positions")))

    @cached_property
    def maps(self) -> Sequence[TableRow]:
        """The map of times that the group shares, after each update that was applied; none of a group without a map."""
        rows = [row for row in self.rows("group_updates") if row["outcome"] == "applied" and row["lowers"] is not None]
        return sorted(rows, key=lambda row: (row["at_ms"], row["revision"]))

    def followed(self, *, in_hindsight: bool = False) -> list[Followed]:
        """What a tracker knew that follows the positions of the group; `in_hindsight` with the complete log."""
        known: Known = known_watermarks(self.tables.log)
        if in_hindsight:
            known = [(ALWAYS, watermark) for _, watermark in known]
        return list(follow_group(position_moves(self.rows("positions")), known, self.tables.segments))
