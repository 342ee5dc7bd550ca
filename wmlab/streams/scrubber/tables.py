"""What a film is made from: the rows of one stream and one reader group, as plain dicts in order of the clock."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording

Row = Mapping[str, Any]

_CLOCK: Final = {
    "epochs": "at_ms",
    "writer_marks": "received_ms",
    "cycles": "at_ms",
    "watermarks": "emitted_ms",
    "positions": "at_ms",
    "windows": "at_ms",
    "incidents": "at_ms",
    "errors": "at_ms",
    "checkpoints": "requested_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The rows of one stream by table, ascending by the clock of the table; of readers only those of `group`.

    `planned` are beginning and end by the scenario, empty if there is none. `group` is None if nobody read, and
    `groups` are all there are. `segments` are the stream's segments by id, `writers` all who noted a time or wrote an
    event. `written` has, for each segment, the moments at which it grew and its length then.
    """

    stream: str
    planned: tuple[int, ...]
    group: str | None
    groups: tuple[str, ...]
    rows: Mapping[str, list[Row]]
    segments: Mapping[int, Row]
    writers: tuple[str, ...]
    written: Mapping[int, tuple[list[int], list[int]]]

    def name(self, segment_id: int) -> str:
        """The segment's name, number@epoch."""
        row = self.segments.get(segment_id)
        return f"segment {segment_id}" if row is None else f"{row['number']}@{row['epoch']}"

    def keys(self, segment_id: int) -> tuple[int, int]:
        """The segment's key range in millionths of the key space."""
        row = self.segments.get(segment_id)
        return (0, 0) if row is None else (round(row["low"] * 1_000_000), round(row["high"] * 1_000_000))

    def length(self, segment_id: int, at_ms: int) -> int:
        """How many bytes the segment held at the moment."""
        times, ends = self.written.get(segment_id, ([], []))
        place = bisect_right(times, at_ms)
        return ends[place - 1] if place else 0

    def times(self) -> list[int]:
        """Every moment that a row has, and the planned ends; the first and the last are the ends of the run."""
        grown = [times[place] for times, _ in self.written.values() for place in (0, -1)]
        return [*self.planned, *grown] + [row[clock] for table, clock in _CLOCK.items() for row in self.rows[table]]


def read_run(recording: Recording, *, stream: str, group: str | None) -> Run:
    """The run of a stream as `group` read it, by default the first group by name.

    Raises `ChartError` for a group that did not read the stream, and when nothing happened.
    """
    rows = {table: _rows(recording, table, stream) for table in _CLOCK}
    groups = tuple(sorted({row["group"] for row in (*rows["positions"], *rows["windows"])}))
    if group is not None and group not in groups:
        raise ChartError(
            f"No reader group {group!r} read the stream {stream!r}.",
            remedy=f"Name one of: {', '.join(groups)}." if groups else "Leave the group out: nobody read.",
        )
    chosen = group if group is not None else next(iter(groups), None)
    for table in ("positions", "windows", "checkpoints"):
        rows[table] = [row for row in rows[table] if row["group"] == chosen]
    events = _events(recording, stream)
    return Run(
        stream=stream,
        planned=_planned(recording),
        group=chosen,
        groups=groups,
        rows=rows,
        segments={row["segment_id"]: row for row in recording.table("segments").to_pylist() if row["stream"] == stream},
        writers=tuple(sorted({row["writer"] for row in (*rows["writer_marks"], *events)})),
        written=_written(events),
    )


def _planned(recording: Recording) -> tuple[int, ...]:
    scenario = recording.scenario or {}
    start_ms, duration_ms = scenario.get("start_ms", 0), scenario.get("duration_ms")
    return () if duration_ms is None else (start_ms, start_ms + duration_ms)


def _rows(recording: Recording, table: str, stream: str) -> list[Row]:
    found = recording.table(table).to_pylist(maps_as_pydicts="strict")
    return sorted((row for row in found if row["stream"] == stream), key=lambda row: int(row[_CLOCK[table]]))


def _events(recording: Recording, stream: str) -> list[Row]:
    """How far each writer's events in each millisecond reached, which is what a picture can show of them."""
    by = ["stream", "segment_id", "writer", "append_ms"]
    reached = recording.table("events").group_by(by).aggregate([("offset", "max")]).to_pylist()
    return [row for row in reached if row["stream"] == stream]


def _written(events: list[Row]) -> dict[int, tuple[list[int], list[int]]]:
    by_segment: dict[int, list[tuple[int, int]]] = {}
    for row in events:
        by_segment.setdefault(row["segment_id"], []).append((row["append_ms"], row["offset_max"]))
    grown = {}
    for segment_id, ends in by_segment.items():
        ends.sort()
        grown[segment_id] = ([at for at, _ in ends], list(accumulate((end for _, end in ends), max)))
    return grown
