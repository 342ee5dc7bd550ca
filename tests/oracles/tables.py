"""The tables of a run as plain rows, cut off at a moment, and the few values that many claims share.

"By then" is until the moment, this included. Rows of one millisecond keep the order of their table, in which they
happened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from tests.oracles.states import Befallen, befallen
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording

Row = dict[str, Any]

CLOCKS: Final = {
    "writer_marks": "received_ms",
    "writer_shutdowns": "received_ms",
    "cycles": "at_ms",
    "watermarks": "emitted_ms",
    "events": "append_ms",
    "positions": "at_ms",
    "windows": "at_ms",
    "reads": "at_ms",
    "incidents": "at_ms",
    "segments": "created_ms",
    "group_updates": "at_ms",
}
"""When a row of each table was written (ms)."""
SUCCESS: Final = "success"


@dataclass(frozen=True, slots=True)
class Kept:
    """Who kept cycles from running or storing, from when until when; `moved_ms` is the cycle that was not due yet."""

    from_ms: int
    to_ms: int
    names: tuple[str, ...]
    moved_ms: int | None = None


@dataclass
class Run:
    """A recording and its scenario; rows by table and stream, in the order of their clocks."""

    scenario: Scenario
    recording: StreamRecording
    _rows: dict[tuple[str, str], tuple[list[int], list[Row]]] = field(default_factory=dict)
    kept: dict[str, list[Kept]] = field(default_factory=dict)
    """Of each stream who kept cycles from running, once that was computed."""
    _states: dict[str, list[Befallen]] = field(default_factory=dict)

    @cached_property
    def titles(self) -> list[str]:
        """The streams of the run by their titles; one that was created again has a title of its own."""
        return list(dict.fromkeys(row["stream"] for row in self.recording.table("epochs").to_pylist()))

    def _of(self, table: str, stream: str) -> tuple[list[int], list[Row]]:
        if (table, stream) not in self._rows:
            clock = CLOCKS[table]
            by_stream: dict[str, list[Row]] = defaultdict(list)
            for row in self.recording.complete(table).to_pylist(maps_as_pydicts="strict"):
                by_stream[row["stream"]].append(row)
            for title in self.titles:
                rows = sorted(by_stream[title], key=lambda row: row[clock])
                self._rows[table, title] = [row[clock] for row in rows], rows
        return self._rows[table, stream]

    def by_then(self, table: str, stream: str, at_ms: int) -> list[Row]:
        """The rows of a stream by then, in the order of their clock."""
        times, rows = self._of(table, stream)
        return rows[: bisect_right(times, at_ms)]

    def after(self, table: str, stream: str, at_ms: int) -> list[Row]:
        """The rows of a stream after a moment."""
        times, rows = self._of(table, stream)
        return rows[bisect_right(times, at_ms) :]

    def all_rows(self, table: str, stream: str) -> list[Row]:
        """All rows of a stream."""
        return self._of(table, stream)[1]

    @property
    def end_ms(self) -> int:
        """When the run ended (clock, ms)."""
        return self.scenario.start_ms + self.scenario.duration_ms

    def created_ms(self, stream: str) -> int:
        """When a stream was created: before that it is not there (clock, ms)."""
        return min(row["created_ms"] for row in self.all_rows("segments", stream))

    def ends(self, stream: str) -> int:
        """When the run of a stream ended: with its deletion, or with the run (clock, ms)."""
        return min(self.end_ms, self.incident(stream, "delete", self.end_ms) or self.end_ms)

    @cached_property
    def owners(self) -> list[Row]:
        """Who owned which bucket, without buckets that have no stream."""
        return [row for row in self.recording.table("ownership").to_pylist() if row["streams"]]

    @cached_property
    def states(self) -> list[Befallen]:
        """What has befallen all parties."""
        incidents = self.recording.table("incidents").to_pylist()
        marks = self.recording.table("writer_marks").to_pylist()
        transactions = self.recording.table("transactions").to_pylist()
        return befallen(incidents, marks, transactions, self.writers_of)

    def states_of(self, stream: str) -> list[Befallen]:
        """What has befallen all parties until a stream was deleted: from then on nobody does anything for it.

        Nor does a client of it before it was created.
        """
        if stream not in self._states:
            deleted_ms = self.incident(stream, "delete", self.end_ms)
            created_ms = self.created_ms(stream)
            self._states[stream] = [
                each if deleted_ms is None else each.until(deleted_ms)
                for each in self.states
                if each.subject not in ("writer", "reader") or each.ended_ms is None or each.ended_ms > created_ms
            ]
        return self._states[stream]

    def marks_segment(self, stream: str) -> list[Befallen]:
        """What has befallen the marks segment of a stream: its own losses, and those of its store."""
        return [each for each in self.states_of(stream) if each.state != "missing" or each.stream == stream]

    def writers_of(self, stream: str) -> list[str]:
        """The writers and readers that start again when a stream is created again."""
        first = self.scenario.all_streams[0].name
        writers = [writer.name for writer in self.scenario.writers if (writer.stream or first) == stream]
        groups = [group for group in self.scenario.groups if not group.streams and (group.stream or first) == stream]
        return writers + [name for group in groups for name in group.reader_names()]

    def keys(self, stream: str) -> dict[int, tuple[Fraction, Fraction]]:
        """The key range of each segment."""
        return {
            row["segment_id"]: (Fraction(low), Fraction(high))
            for row in self.all_rows("segments", stream)
            for low, high in [row["keys"].split("..")]
        }

    # Watermarks and marks.

    def watermarks(self, stream: str, at_ms: int) -> list[Row]:
        """The watermarks by then, in the order of the log."""
        return sorted(self.by_then("watermarks", stream, at_ms), key=lambda row: row["seq"])

    def lower(self, stream: str, at_ms: int) -> int | None:
        """The lower bound of the newest watermark; None: there is none, or it counts no writers."""
        newest = self.watermarks(stream, at_ms)[-1:]
        return newest[0]["lower"] if newest and newest[0]["writers"] else None

    def accepted(self, stream: str, at_ms: int) -> dict[str, Row]:
        """The last accepted mark of each writer."""
        rows = self.by_then("writer_marks", stream, at_ms)
        return {row["writer"]: row for row in rows if row["outcome"] == SUCCESS}

    def on_record(self, stream: str, at_ms: int) -> dict[str, Row]:
        """The last accepted mark of each writer that no cycle has removed since."""
        removed = {name: row["at_ms"] for row in self.by_then("cycles", stream, at_ms) for name in row["removed"]}
        marks = self.accepted(stream, at_ms)
        return {name: row for name, row in marks.items() if row["received_ms"] >= removed.get(name, row["received_ms"])}

    def behind(self, stream: str, at_ms: int) -> list[str]:
        """The writers on record whose last accepted time is not above the watermark, by that time.

        Without those that have shut down or marked themselves idle since: the next cycle waits for none of them.
        """
        newest = self.watermarks(stream, at_ms)[-1:]
        record = self.on_record(stream, at_ms)
        said = [row for row in self.by_then("writer_shutdowns", stream, at_ms) if row["outcome"] == "ok"]
        left_ms = {row["writer"]: row["received_ms"] for row in said}
        names = [
            name
            for name, row in record.items()
            if newest and row["time"] <= newest[0]["lower"] and left_ms.get(name, -1) < row["received_ms"]
        ]
        return sorted(names, key=lambda name: (record[name]["time"], name))

    def last_cycle(self, stream: str, at_ms: int) -> Row | None:
        """The last cycle that had begun by then."""
        cycles = self.by_then("cycles", stream, at_ms)
        return cycles[-1] if cycles else None

    def incident(self, stream: str, kind: str, at_ms: int) -> int | None:
        """When something first happened to the stream itself, by then."""
        rows = self.by_then("incidents", stream, at_ms)
        found = (row for row in rows if (row["kind"], row["subject"]) == (kind, "stream") and row["outcome"] == "done")
        return next((row["at_ms"] for row in found), None)

    def writer_named(self, writer: str) -> str:
        """The name of the writer that notes under an id."""
        return writer.removesuffix("-new")
