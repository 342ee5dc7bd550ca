"""The tables of progress by origin, sequence and chunk: buffers as they arrive, windows as they fire.

They belong to a recording like those of `wmlab.streams.tables`, and are written in the same way. Here `stream` is the
name of the query, whose plan has origin ids of its own.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from wmlab.core.schemas import FLAG, INCIDENTS, LONG, TEXT, column, table

_STREAM = column("stream", TEXT, "the query's name")
_OPERATOR = column(
    "operator",
    TEXT,
    "where: 'scan' behind the sources, 'build' or 'probe' of windows ('build-2' of the second), 'sink', or the name of "
    "an operator",
)
_RECORDS = column("records", LONG, "records in it")
_REACHED = column("reached", LONG, "global watermark then; null: unknown", unit="ms", nullable=True)

PROGRESS_TABLES: Final[dict[str, pa.Schema]] = {
    "buffers": table(
        _STREAM,
        _OPERATOR,
        column("arrival", LONG, "number in the order of arrival at the operator, from 1"),
        column("arrived_ms", LONG, "when a worker had executed it; at a scan, when it came to the workers", unit="ms"),
        column("created_ms", LONG, "when its first record was received or its window fired", unit="ms"),
        column("origins", LONG, "how many origins the operator has declared"),
        column("origin", LONG, "origin id, from 1 within the query"),
        column("emitter", TEXT, "name of the origin: a source, a renumbering operator, or the build side of windows"),
        column("sequence", LONG, "sequence number, from 1 within the origin"),
        column("chunk", LONG, "chunk number within the sequence, from chunk_base"),
        column("last", FLAG, "whether it is the last chunk of its sequence"),
        column("chunk_base", LONG, "number of a first chunk: 0 as documented, 1 as in the engine"),
        column("watermark", LONG, "its watermark timestamp", unit="ms"),
        _RECORDS,
        column(
            "slices",
            pa.list_(LONG),
            "starts of the slices of windows that its records fall in, ascending; none elsewhere",
            unit="ms",
        ),
        column("slice_records", pa.list_(LONG), "how many records fall in each of these slices"),
        column("worker", LONG, "the worker that executed it, from 1; null at a scan", nullable=True),
        column("completed", FLAG, "whether the operator took its sequence for complete with it"),
        column(
            "reached_prefix",
            LONG,
            "length of the longest consecutive sequence of its origin then, as the operator saw it",
        ),
        column("reached_local", LONG, "local watermark then; null: unknown", unit="ms", nullable=True),
        _REACHED,
    ),
    "windows_fired": table(
        _STREAM,
        column("operator", TEXT, "the operator whose window it is: 'build', 'build-2', ..."),
        column("origin", LONG, "origin id of the operator, which its output carries"),
        column("sequence", LONG, "number, from 1"),
        column("start", LONG, "first time in the window; also the watermark of the output", unit="ms"),
        column("end", LONG, "first time behind the window", unit="ms"),
        _RECORDS,
        column("results", LONG, "how many records the operator puts out for it: matches of a join, or 1"),
        column("chunks", LONG, "how many tasks the probe side was given: pairs of slices of a join, or 1"),
        column("arrival", LONG, "the arrival that fired it; null at the end of the stream", nullable=True),
        _REACHED,
        column("fired_ms", LONG, "when it fired", unit="ms"),
        column("cause", TEXT, "watermark, or end of stream"),
    ),
    "incidents": INCIDENTS,
}
