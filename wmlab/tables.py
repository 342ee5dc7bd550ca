"""The tables of a recording: their columns, with unit and meaning.

One table, one `pyarrow.Schema`; the field metadata carries `unit` and `about`. Everything that writes or
reads a recording takes the columns from here, so that a table has one definition.

Times: `*_ms` is simulated clock time in milliseconds; `time`, `event_time`, `lower`, `upper` and `barrier` are
application time, a 64-bit integer whose unit the writers choose (milliseconds in all scenarios of wmlab).
Offsets are bytes; an event's offset is its end. Unknown is null.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from wmlab.columns import FLAG, LONG, OFFSETS, REAL, TEXT, column
from wmlab.tables_progress import PROGRESS_TABLES

SCHEMA_VERSION: Final = 1
"""Raised whenever a column changes meaning, type or name."""


_STREAM = column("stream", TEXT, "the stream's name")


def _segment_id(about: str) -> pa.Field:
    return column("segment_id", LONG, about, unit="epoch * 2^32 + number")


TABLES: Final[dict[str, pa.Schema]] = {
    "segments": pa.schema(
        [
            _STREAM,
            _segment_id("the segment"),
            column("number", LONG, "its number; duplicates of a rolling transaction repeat it"),
            column("epoch", LONG, "the epoch that created it"),
            column("low", REAL, "start of its key range, inclusive, rounded for reading", unit="key space [0, 1]"),
            column("high", REAL, "end of its key range, exclusive, rounded for reading", unit="key space [0, 1]"),
            column("keys", TEXT, "its key range, exact, as 'low..high' in rationals, for example '1/3..2/3'"),
            column("created_ms", LONG, "when it was created", unit="ms"),
            column("sealed_ms", LONG, "when it was sealed; null while open", unit="ms", nullable=True),
        ]
    ),
    "epochs": pa.schema(
        [
            _STREAM,
            column("epoch", LONG, "the epoch"),
            column("kind", TEXT, "create, scale or rolling"),
            column("at_ms", LONG, "when it became the active epoch", unit="ms"),
            column("segment_ids", pa.list_(LONG), "all segments active in it, ascending"),
        ]
    ),
    "events": pa.schema(
        [
            _STREAM,
            _segment_id("the segment that holds the event"),
            column("offset", LONG, "its end in the segment", unit="bytes"),
            column("event_time", LONG, "when it happened, in the writer's words", unit="ms"),
            column("append_ms", LONG, "when the segment store took it", unit="ms"),
            column("writer", TEXT, "who wrote it"),
        ]
    ),
    "marks": pa.schema(
        [
            _STREAM,
            column("writer", TEXT, "who noted the time"),
            column("time", LONG, "the noted time", unit="ms"),
            column("position", OFFSETS, "acknowledged offset of each segment the writer held; null: nothing yet"),
            column("noted_ms", LONG, "when the writer noted it", unit="ms"),
            column("received_ms", LONG, "when the controller judged it", unit="ms"),
            column("controller", TEXT, "the controller that judged it"),
            column("txn", TEXT, "the transaction it belongs to; null for a noted time", nullable=True),
            column("outcome", TEXT, "success, or why it was refused"),
        ]
    ),
    "cycles": pa.schema(
        [
            _STREAM,
            column("controller", TEXT, "the controller that ran the cycle"),
            column("at_ms", LONG, "when it ran", unit="ms"),
            column("barrier", LONG, "lower bound of the previous watermark; null before the first", nullable=True),
            column("participating", pa.list_(TEXT), "writers beyond the barrier"),
            column("lagging", pa.list_(TEXT), "writers that are waited for"),
            column("removed", pa.list_(TEXT), "writers dropped by this cycle"),
            column("outcome", TEXT, "emitted or held"),
            column("reason", TEXT, "why nothing was emitted; empty when it was"),
        ]
    ),
    "watermarks": pa.schema(
        [
            _STREAM,
            column("seq", LONG, "place in the marks log, from 0"),
            column("lower", LONG, "minimum of the counted writers' times", unit="ms"),
            column("upper", LONG, "maximum of the counted writers' times", unit="ms"),
            column("cut", OFFSETS, "stream cut: offset of each segment; null: end of segment (bug 6510 only)"),
            column("writers", pa.map_(TEXT, LONG), "the counted writers and the time each had noted"),
            column("controller", TEXT, "the controller that emitted it"),
            column("emitted_ms", LONG, "when it was appended", unit="ms"),
            column("revision", LONG, "end of the entry in the marks segment", unit="bytes"),
        ]
    ),
    "positions": pa.schema(
        [
            _STREAM,
            column("group", TEXT, "the reader group"),
            column("version", LONG, "revision of the group's shared state; rows of one update share it"),
            column("reader", TEXT, "who published; null while nobody owns the segment", nullable=True),
            _segment_id("the segment"),
            column("offset", LONG, "the group has read up to here", unit="bytes"),
            column("finished", FLAG, "the segment was read to its end and left the group's state"),
            column("at_ms", LONG, "when the group's state changed", unit="ms"),
        ]
    ),
    "windows": pa.schema(
        [
            _STREAM,
            column("group", TEXT, "the reader group"),
            column("reader", TEXT, "the reader"),
            column("lower", LONG, "lower bound the reader saw; null: unknown", unit="ms", nullable=True),
            column("upper", LONG, "upper bound the reader saw; null: unknown", unit="ms", nullable=True),
            column("at_ms", LONG, "when it saw it", unit="ms"),
        ]
    ),
    "faults": pa.schema(
        [
            _STREAM,
            column("at_ms", LONG, "when it happened", unit="ms"),
            column("kind", TEXT, "scale, crash, restart, silence, speak"),
            column("target", TEXT, "what it happened to: a writer or the sealed segments"),
            column("detail", TEXT, "one short phrase for a chart, for example '0@0 → 2@1, 3@1'"),
        ]
    ),
} | PROGRESS_TABLES
