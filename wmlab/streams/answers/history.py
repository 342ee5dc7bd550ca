"""The rows of one stream in the tables of a recording, as answers, charts and checks ask for them.

Source: PDP-33, Watermarking in the Reader; PDP-33, Client Changes (the map of times that a group shares).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording, the_only
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.index import Known
from wmlab.streams.model.log import ALWAYS, Watermark, known_from
from wmlab.streams.model.position import Position, moved
from wmlab.streams.model.replay import Configuration
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import Followed, follow_group, position_moves
from wmlab.streams.scenario.rules import configuration
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import TOOK_PLACE

_NO_BOUND: Final = -(2**63)

CLOCKS: Final = {
    "segments": "created_ms",
    "writer_marks": "received_ms",
    "writer_shutdowns": "received_ms",
    "watermarks": "emitted_ms",
    "events": "append_ms",
    "checkpoints": "requested_ms",
} | dict.fromkeys(("epochs", "cycles", "positions", "windows", "incidents", "errors"), "at_ms")
"""The column of each table that has the clock of a row, in ms."""


def owners_of(recording: Recording, stream: str) -> list[TableRow]:
    """The rows of the table `ownership` for the bucket of a stream, by time."""
    rows = recording.table("ownership").sort_by("from_ms").to_pylist()
    return [row for row in rows if stream.partition("#")[0] in row["streams"]]


def of_stream(table: pa.Table, stream: str) -> pa.Table:
    """The rows of one stream, in their order."""
    return table.filter(pc.equal(table["stream"], stream))


def rows_of_stream(recording: Recording, table: str, stream: str) -> list[dict[str, Any]]:
    """The rows of one stream in a table, maps as dicts."""
    rows: list[dict[str, Any]] = of_stream(recording.table(table), stream).to_pylist(maps_as_pydicts="strict")
    return rows


def events_of(recording: Recording, stream: str, *columns: str) -> Iterator[pa.Table]:
    """Some columns of the events of one stream, part by part."""
    for chunk in recording.chunks("events", "stream", *columns):
        yield of_stream(chunk, stream).select(list(columns))


def furthest(recording: Recording, stream: str, *by: str) -> pa.Table:
    """The columns `by` of the events of one stream, each combination once, and the largest `offset` it reached."""
    by_chunk = pa.concat_tables(_furthest(part, by) for part in events_of(recording, stream, "offset", *by))
    return _furthest(by_chunk, by)


def _furthest(events: pa.Table, by: Sequence[str]) -> pa.Table:
    return events.group_by(by).aggregate([("offset", "max")]).rename_columns([*by, "offset"])


def deleted_ms(recording: Recording, stream: str) -> int | None:
    """When a stream was deleted (clock, ms); None: it was not."""
    rows = rows_of_stream(recording, "incidents", stream)
    return next((row["at_ms"] for row in rows if row["kind"] == "delete" and row["outcome"] == TOOK_PLACE), None)


def segments_of(recording: Recording, stream: str) -> dict[int, Segment]:
    """The segments of one stream, by id."""
    return {
        row["segment_id"]: Segment.parse(row["segment_id"], row["keys"])
        for row in rows_of_stream(recording, "segments", stream)
    }


def epochs_of(recording: Recording, stream: str) -> StreamHistory:
    """The epochs of one stream with their segments."""
    return StreamHistory.recorded(rows_of_stream(recording, "epochs", stream), segments_of(recording, stream))


def replaced(before: TableRow, epoch: TableRow) -> tuple[list[int], list[int]]:
    """The segments that an epoch takes away from the one before it, and those that it adds."""
    old, new = before["segment_ids"], epoch["segment_ids"]
    return [segment for segment in old if segment not in new], [segment for segment in new if segment not in old]


def the_stream(recording: Recording, stream: str | None, *, option: str = "stream") -> str:
    """The stream asked for, or the only one. Raises `RecordingError` when there are several, or not that one.

    `option` is the argument that chooses.
    """
    chunks = (chunk for table in ("segments", "events", "writer_marks") for chunk in recording.chunks(table, "stream"))
    names = sorted({name for chunk in chunks for name in chunk["stream"].unique().to_pylist()})
    return the_only(recording, stream, names, "stream", "streams", option=option)


def group_states(rows: Iterable[TableRow], *, waiting: bool = False) -> Iterator[tuple[int, dict[int, TableRow]]]:
    """A reader group's state after each of its updates: (clock in ms, the newest row of each open segment).

    `rows` are those of the table `positions` for one group of one stream, in any order. An update, by its version, has
    the segments that changed; a segment that is read to its end leaves the state, if it is `waiting` once it no longer
    counts.
    """
    state: dict[int, TableRow] = {}
    for _, update in groupby(sorted(rows, key=lambda row: int(row["version"])), key=lambda row: row["version"]):
        changed = list(update)
        state = moved(
            state,
            (
                (row["segment_id"], None if row["finished"] or (row.get("waits") and not waiting) else row)
                for row in changed
            ),
        )
        yield changed[-1]["at_ms"], state


def log_rows(recording: Recording, stream: str) -> list[tuple[TableRow, Watermark]]:
    """The rows of the watermarks of a stream in the order of its log, each with the watermark that it has."""
    rows = sorted(rows_of_stream(recording, "watermarks", stream), key=lambda row: int(row["seq"]))
    return [
        (row, Watermark(row["lower"], row["upper"], Position(row["cut"]), row["writers"], known=bool(row["writers"])))
        for row in rows
    ]


def known_watermarks(log: Sequence[tuple[TableRow, Watermark]]) -> Known:
    """The watermarks of a log, each with the clock time in ms from which on it is known."""
    return list(zip(known_from(row["emitted_ms"] for row, _ in log), (watermark for _, watermark in log), strict=True))


def without_ends(watermarks: Iterable[TableRow]) -> list[TableRow]:
    """The watermarks, without bounds (None) where one is an end of known time, which counts no writers.

    Without the column `writers` there is none.
    """
    return [row if row.get("writers", True) else {**row, "lower": None, "upper": None} for row in watermarks]


def late_events(events: pa.Table, watermarks: Sequence[TableRow]) -> pa.Table:
    """The events appended after a watermark whose lower bound is above their time; `watermarks` as in the log.

    Their column `below_ms` is by how much. No event is below an end of known time.
    """
    emitted = np.array(known_from(row["emitted_ms"] for row in watermarks), np.int64)
    lower_of_each = (row["lower"] for row in without_ends(watermarks))
    lowers = np.array([_NO_BOUND, *(_NO_BOUND if lower is None else lower for lower in lower_of_each)], np.int64)
    lower_then = lowers[emitted.searchsorted(events["append_ms"].to_numpy(), side="left")]
    is_late = lower_then > events["event_time"].to_numpy()
    late = events.filter(pa.array(is_late))
    below_ms = lower_then[is_late] - late["event_time"].to_numpy()
    return late.append_column("below_ms", pa.array(below_ms, pa.int64()))


def recorded_configuration(recording: Recording, stream: str) -> Configuration | None:
    """The rules of one stream's cycles by the name that the tables have for it; without a scenario none are known."""
    written = recording.scenario_as(StreamScenario)
    if written is None:
        return None
    return configuration(written.stream_titled(stream), written.controllers, written.resolved.rules)


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
    """The history of a reader group: its positions and its shared state, from the `tables` of the stream."""

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
