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

SCHEMA_VERSION: Final = 1
"""Raised whenever a column changes meaning, type or name."""


def _field(name: str, kind: pa.DataType, about: str, *, unit: str = "", nullable: bool = False) -> pa.Field:
    metadata = {"about": about} | ({"unit": unit} if unit else {})
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


_LONG, _TEXT, _REAL, _FLAG = pa.int64(), pa.string(), pa.float64(), pa.bool_()
_OFFSETS = pa.map_(_LONG, _LONG)
_STREAM = _field("stream", _TEXT, "the stream's name")


def _segment_id(about: str) -> pa.Field:
    return _field("segment_id", _LONG, about, unit="epoch * 2^32 + number")


TABLES: Final[dict[str, pa.Schema]] = {
    "segments": pa.schema(
        [
            _STREAM,
            _segment_id("the segment"),
            _field("number", _LONG, "its number; duplicates of a rolling transaction repeat it"),
            _field("epoch", _LONG, "the epoch that created it"),
            _field("low", _REAL, "start of its key range, inclusive, rounded for reading", unit="key space [0, 1]"),
            _field("high", _REAL, "end of its key range, exclusive, rounded for reading", unit="key space [0, 1]"),
            _field("keys", _TEXT, "its key range, exact, as 'low..high' in rationals, for example '1/3..2/3'"),
            _field("created_ms", _LONG, "when it was created", unit="ms"),
            _field("sealed_ms", _LONG, "when it was sealed; null while open", unit="ms", nullable=True),
        ]
    ),
    "epochs": pa.schema(
        [
            _STREAM,
            _field("epoch", _LONG, "the epoch"),
            _field("kind", _TEXT, "create, scale or rolling"),
            _field("at_ms", _LONG, "when it became the active epoch", unit="ms"),
            _field("segment_ids", pa.list_(_LONG), "all segments active in it, ascending"),
        ]
    ),
    "events": pa.schema(
        [
            _STREAM,
            _segment_id("the segment that holds the event"),
            _field("offset", _LONG, "its end in the segment", unit="bytes"),
            _field("event_time", _LONG, "when it happened, in the writer's words", unit="ms"),
            _field("append_ms", _LONG, "when the segment store took it", unit="ms"),
            _field("writer", _TEXT, "who wrote it"),
        ]
    ),
    "marks": pa.schema(
        [
            _STREAM,
            _field("writer", _TEXT, "the writer id under which the time was noted"),
            _field("process", _TEXT, "the process that noted it; null for the commit of a transaction", nullable=True),
            _field("time", _LONG, "the noted time", unit="ms"),
            _field("position", _OFFSETS, "acknowledged offset of each segment the writer held; null: nothing yet"),
            _field("noted_ms", _LONG, "when the writer noted it", unit="ms"),
            _field("received_ms", _LONG, "when the controller judged it", unit="ms"),
            _field("controller", _TEXT, "the controller that judged it"),
            _field("txn", _TEXT, "the transaction it belongs to; null for a noted time", nullable=True),
            _field("outcome", _TEXT, "success, or why it was refused"),
        ]
    ),
    "departures": pa.schema(
        [
            _STREAM,
            _field("writer", _TEXT, "the writer id that need not be waited for any more"),
            _field("process", _TEXT, "the process that said so"),
            _field("call", _TEXT, "shut down, or mark idle"),
            _field("sent_ms", _LONG, "when the writer said so", unit="ms"),
            _field("received_ms", _LONG, "when the controller heard it", unit="ms"),
            _field("controller", _TEXT, "the controller that heard it"),
            _field("outcome", _TEXT, "ok, unknown writer, or write conflict"),
        ]
    ),
    "transactions": pa.schema(
        [
            _STREAM,
            _field("txn", _TEXT, "the transaction: its writer's name and a number from 1"),
            _field("writer", _TEXT, "the name of the writer that began it"),
            _field("epoch", _LONG, "the epoch in which it began"),
            _field("state", _TEXT, "open, committing, committed, aborting or aborted, at the end of the run"),
            _field("begun_ms", _LONG, "when the controller began it", unit="ms"),
            _field("commit_requested_ms", _LONG, "when the controller heard the commit", unit="ms", nullable=True),
            _field("committed_ms", _LONG, "when it was recorded as committed", unit="ms", nullable=True),
            _field("aborted_ms", _LONG, "when it was recorded as aborted", unit="ms", nullable=True),
            _field("time", _LONG, "the time given at commit; null: none", unit="ms", nullable=True),
            _field("batch", _LONG, "the batch of commits it was in, from 0", nullable=True),
            pa.field(
                "position",
                _OFFSETS,
                metadata={"about": "end of every segment of the epoch it was merged into", "unit": "bytes"},
            ),
            _field("events", _LONG, "how many events were written in it"),
        ]
    ),
    "errors": pa.schema(
        [
            _STREAM,
            _field("at_ms", _LONG, "when the call was refused", unit="ms"),
            _field("process", _TEXT, "the process that called"),
            _field("call", _TEXT, "note time, shut down, mark idle, commit or abort"),
            _field("problem", _TEXT, "why it was refused; it had no effect"),
        ]
    ),
    "cycles": pa.schema(
        [
            _STREAM,
            _field("controller", _TEXT, "the controller that ran the cycle"),
            _field("at_ms", _LONG, "when it ran", unit="ms"),
            _field("barrier", _LONG, "lower bound of the previous watermark; null: none, or not read", nullable=True),
            _field("participating", pa.list_(_TEXT), "writers beyond the barrier"),
            _field("lagging", pa.list_(_TEXT), "writers that are waited for"),
            _field("removed", pa.list_(_TEXT), "writers dropped by this cycle"),
            _field("outcome", _TEXT, "emitted or held"),
            _field("reason", _TEXT, "why nothing was emitted; empty when it was"),
        ]
    ),
    "watermarks": pa.schema(
        [
            _STREAM,
            _field("seq", _LONG, "place in the marks log, from 0"),
            _field("lower", _LONG, "minimum of the counted writers' times", unit="ms"),
            _field("upper", _LONG, "maximum of the counted writers' times", unit="ms"),
            _field("cut", _OFFSETS, "stream cut: offset of each segment; null: end of segment (bug 6510 only)"),
            _field("writers", pa.map_(_TEXT, _LONG), "the counted writers and the time each had noted"),
            _field("controller", _TEXT, "the controller that emitted it"),
            _field("emitted_ms", _LONG, "when it was appended", unit="ms"),
            _field("revision", _LONG, "end of the entry in the marks segment", unit="bytes"),
        ]
    ),
    "marks_index": pa.schema(
        [
            _STREAM,
            _field("place", _LONG, "place of the record in the index segment, from 0; a record has 16 bytes"),
            _field("time", _LONG, "lower bound of the watermark", unit="ms"),
            _field("offset", _LONG, "where its entry begins in the marks segment", unit="bytes"),
            _field("controller", _TEXT, "the controller that wrote the record"),
            _field("appended_ms", _LONG, "when the record was appended", unit="ms"),
            _field("recovered", _FLAG, "written later, from the tail of the marks segment, and not with its watermark"),
        ]
    ),
    "positions": pa.schema(
        [
            _STREAM,
            _field("group", _TEXT, "the reader group"),
            _field("version", _LONG, "revision of the group's shared state; rows of one update share it"),
            _field("reader", _TEXT, "who published; null while nobody owns the segment", nullable=True),
            _segment_id("the segment"),
            _field("offset", _LONG, "the group has read up to here", unit="bytes"),
            _field("finished", _FLAG, "the segment left the group's state: read to its end, or the group was reset"),
            _field("at_ms", _LONG, "when the group's state changed", unit="ms"),
        ]
    ),
    "windows": pa.schema(
        [
            _STREAM,
            _field("group", _TEXT, "the reader group"),
            _field("reader", _TEXT, "the reader"),
            _field("lower", _LONG, "lower bound the reader saw; null: unknown", unit="ms", nullable=True),
            _field("upper", _LONG, "upper bound the reader saw; null: unknown", unit="ms", nullable=True),
            _field("at_ms", _LONG, "when it saw it", unit="ms"),
        ]
    ),
    "reads": pa.schema(
        [
            _STREAM,
            _field("group", _TEXT, "the reader group"),
            _field("reader", _TEXT, "who read"),
            _segment_id("the segment"),
            _field("from_offset", _LONG, "the events read end after this offset", unit="bytes"),
            _field("to_offset", _LONG, "the last of them ends here", unit="bytes"),
            _field("again", _FLAG, "the group had read them before"),
            _field("lower", _LONG, "lower bound the reader knew then; null: unknown", unit="ms", nullable=True),
            _field("at_ms", _LONG, "when they were read", unit="ms"),
        ]
    ),
    "group_updates": pa.schema(
        [
            _STREAM,
            _field("group", _TEXT, "the reader group"),
            _field("reader", _TEXT, "who asked for the update; null: the application", nullable=True),
            _field("operation", _TEXT, "what it was, for example publish, acquire, complete or checkpoint"),
            _field("outcome", _TEXT, "applied, or conflict: the state had changed since it was read"),
            _field("revision", _LONG, "revision of the shared state that the update was made for"),
            _field("at_ms", _LONG, "when the shared state judged it", unit="ms"),
        ]
    ),
    "checkpoints": pa.schema(
        [
            _STREAM,
            _field("group", _TEXT, "the reader group"),
            _field("checkpoint", _TEXT, "its name"),
            _field("requested_ms", _LONG, "when it was asked for", unit="ms"),
            _field("completed_ms", _LONG, "when the last reader reported; null: never", unit="ms", nullable=True),
            _field("cut", _OFFSETS, "where each open segment was; null: never completed", nullable=True),
            _field(
                "marks_offset",
                _LONG,
                "where to go on in the marks segment; null: at its start, or never completed",
                unit="bytes",
                nullable=True,
            ),
        ]
    ),
    "faults": pa.schema(
        [
            _STREAM,
            _field("at_ms", _LONG, "when it happened", unit="ms"),
            _field("kind", _TEXT, "what happened, in one word: scale, crash, restart, silence, speak and so on"),
            _field("target", _TEXT, "what it happened to: a party or process, the sealed segments, a store"),
            _field("detail", _TEXT, "one short phrase for a chart, for example '0@0 → 2@1, 3@1'"),
        ]
    ),
    "ownership": pa.schema(
        [
            _field("bucket", _LONG, "the bucket"),
            _field("controller", _TEXT, "whose session had the bucket's node"),
            _field("streams", pa.list_(_TEXT), "the scenario's streams that hash into the bucket"),
            _field("from_ms", _LONG, "when it took the bucket", unit="ms"),
            _field("to_ms", _LONG, "when the node went; null while it is there", unit="ms", nullable=True),
        ]
    ),
    "messages": pa.schema(
        [
            _field("stream", _TEXT, "the stream it is about; null: about none", nullable=True),
            _field("sender", _TEXT, "the party that sent it"),
            _field("receiver", _TEXT, "the party it was sent to"),
            _field("kind", _TEXT, "what it says: append, acknowledge, note time, answer and so on"),
            _field("content", _TEXT, "its content in short"),
            _field("sent_ms", _LONG, "when it was sent", unit="ms"),
            _field("received_ms", _LONG, "when it arrived; null: lost, or still under way", unit="ms", nullable=True),
        ]
    ),
}
