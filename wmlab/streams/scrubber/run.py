"""What frames are made from: the rows of one stream and one reader group, as plain dicts in order of the clock."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wmlab.core.charts.steps import Value
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.streams.answers.explain import scenario_span
from wmlab.streams.answers.history import CLOCKS, Row, furthest, rows_of, without_ends
from wmlab.streams.charts.bounds import read_bounds

KEYS: Final = 1_000_000
"""The key space in the unit of `Run.keys`."""

_TABLES: Final = tuple(table for table in CLOCKS if table not in ("segments", "events"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The rows of one stream by table, ascending by the clock of the table; of readers only those of `group`.

    A watermark that is an end of known time has no bounds.

    `planned` are beginning and end by the scenario, empty if there is none or the run was stopped. `group` is None if
    nobody read. `perfect` is the smallest event time still to come for the group, from each moment on; None is unknown,
    or nothing to come. `ranges` has the key range of each segment in millionths of the key space, `writers` are all who
    noted a time or wrote an event, `readers` all who looked at a window. `written` has, for each segment, the moments
    at which it grew and its length then.
    """

    stream: str
    planned: tuple[int, ...]
    group: str | None
    rows: Mapping[str, list[Row]]
    perfect: Sequence[tuple[int, Value]]
    ranges: Mapping[int, tuple[int, int]]
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    written: Mapping[int, tuple[list[int], list[int]]]

    def keys(self, segment_id: int) -> tuple[int, int]:
        """The segment's key range in millionths of the key space."""
        return self.ranges.get(segment_id, (0, 0))

    def length(self, segment_id: int, at_ms: int) -> int:
        """How many bytes the segment held at the moment."""
        times, ends = self.written.get(segment_id, ([], []))
        count = bisect_right(times, at_ms)
        return ends[count - 1] if count else 0

    def times(self) -> list[int]:
        """Every moment that a row has, and the planned ends; the first and the last are the ends of the run."""
        grown = [times[index] for times, _ in self.written.values() for index in (0, -1)]
        return [*self.planned, *grown] + [row[CLOCKS[table]] for table in _TABLES for row in self.rows[table]]


def read_run(recording: Recording, *, stream: str, group: str | None, bounds: Any) -> Run:
    """The run of a stream as `group` read it, by default the first group by name; `bounds` are None or its time bounds.

    Raises `ChartError` for a group that did not read the stream, and for bounds of another stream or group.
    """
    rows: dict[str, list[Row]] = {}
    for table in _TABLES:
        rows[table] = sorted(rows_of(recording, table, stream), key=lambda row: int(row[CLOCKS[table]]))
    rows["watermarks"] = without_ends(rows["watermarks"])
    groups = sorted({row["group"] for row in (*rows["positions"], *rows["windows"])})
    if group is not None and group not in groups:
        raise ChartError(
            f"No reader group {group!r} read the stream {stream!r}.",
            remedy=f"Name one of: {', '.join(groups)}." if groups else "Leave the group out: nobody read.",
        )
    chosen = group if group is not None else next(iter(groups), None)
    for table in ("positions", "windows", "checkpoints"):
        rows[table] = [row for row in rows[table] if row["group"] == chosen]
    # How far each writer's events in each millisecond reached is what a picture can show of them.
    reached = furthest(recording, stream, "segment_id", "writer", "append_ms")
    events = sorted(reached.to_pylist(), key=lambda row: (row["append_ms"], row["offset"]))
    segments = rows_of(recording, "segments", stream)
    return Run(
        stream=stream,
        planned=scenario_span(recording) or (),
        group=chosen,
        rows=rows,
        perfect=() if bounds is None else _perfect(bounds, stream, chosen),
        ranges={row["segment_id"]: (round(row["low"] * KEYS), round(row["high"] * KEYS)) for row in segments},
        writers=tuple(sorted({row["writer"] for row in (*rows["writer_marks"], *events)})),
        readers=tuple(sorted({row["reader"] for row in rows["windows"]})),
        written=_written(events),
    )


def _perfect(bounds: Any, stream: str, group: str | None) -> list[tuple[int, Value]]:
    table = read_bounds(bounds)
    if (table.stream, table.group) != (stream, group):
        raise ChartError(
            f"The bounds are of stream {table.stream!r}, group {table.group!r}; "
            f"the scrubber shows {stream!r}, {group!r}.",
            remedy="Pass recording.time_bounds(spark) with the rows of that stream and group.",
        )
    return list(zip(table.at_ms, table.perfect_watermark or (), strict=False))


def _written(events: Iterable[Row]) -> dict[int, tuple[list[int], list[int]]]:
    grown: dict[int, tuple[list[int], list[int]]] = {}
    for row in events:
        times, ends = grown.setdefault(row["segment_id"], ([], []))
        times.append(row["append_ms"])
        ends.append(max([row["offset"], *ends[-1:]]))
    return grown
