"""Rows of a recording for a chart: of one stream, in the order of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow.compute as pc

from wmlab.core.charts.scene import Rule, Shape
from wmlab.core.charts.ticks import format_instant, is_instant
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording

SHAPES: Final[dict[str, Shape]] = {
    "scale": "diamond",
    "crash": "cross",
    "restart": "triangle",
    "silence": "cross",
    "speak": "triangle",
}
"""Marker of a happening by its kind; any other is a circle."""

SERIES: Final = ("lower", "upper", "third", "fourth")
"""Roles of curves that differ in name only, in this order; each has its own colour and dash."""


def one_stream(recording: Recording, stream: str | None, table: str) -> str:
    """The chosen stream, or the only one that has rows in `table`; raises `ChartError` if there is no one answer."""
    if table not in recording.schemas:
        raise ChartError(
            f"Recording {recording.name!r} is one of {recording.kind}, which has no table {table!r}.",
            remedy="Draw a recording of the model that the chart belongs to.",
        )
    names = sorted(name for name in recording.table(table)["stream"].unique().to_pylist() if name is not None)
    if stream is not None and stream not in names:
        known = ", ".join(names) or "no stream"
        raise ChartError(
            f"Recording {recording.name!r} has no rows of stream {stream!r} in its table {table!r}; it has {known}.",
            remedy="Choose one of them.",
        )
    if stream is not None:
        return stream
    if len(names) != 1:
        found = f"{len(names)} streams: {', '.join(names[:6])}" if names else "no stream"
        raise ChartError(
            f"Recording {recording.name!r} has {found} in its table {table!r}.",
            remedy="Choose one with stream=..." if names else "Record a scenario whose run fills this table.",
        )
    return str(names[0])


def stream_rows(
    recording: Recording, table: str, stream: str, columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The rows of one stream as dicts; `columns` keeps only those."""
    found = recording.table(table)
    found = found.filter(pc.equal(found["stream"], stream))
    rows: list[dict[str, Any]] = (found.select(list(columns)) if columns else found).to_pylist()
    return rows


def when(at_ms: int, *, span_ms: int) -> str:
    """A clock time in words: milliseconds, or a moment in UTC if it reads as such; `span_ms` decides how exact."""
    return f"{format_instant(at_ms, span_ms=span_ms)} UTC" if is_instant([at_ms]) else f"{at_ms:,} ms"


def share_of(rows: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """At most `most` of the rows, evenly spread, the last one included."""
    if len(rows) <= most:
        return list(rows)
    return [rows[(n + 1) * len(rows) // most - 1] for n in range(most)]


def faults(recording: Recording, stream: str, *, without: Sequence[str] = ()) -> list[Rule]:
    """What happened to a stream, as rules across a chart, but for some kinds; one kind in one instant is one rule."""
    told: dict[tuple[int, str], list[str]] = {}
    for row in stream_rows(recording, "incidents", stream):
        if row["kind"] not in without:
            told.setdefault((row["at_ms"], row["kind"]), []).append(row["detail"])
    return [
        Rule(at_ms, ", ".join(dict.fromkeys(details)), SHAPES.get(kind, "circle"))
        for (at_ms, kind), details in sorted(told.items())
    ]
