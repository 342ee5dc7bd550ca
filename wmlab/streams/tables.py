"""The tables of a recording: their columns, with unit and meaning.

One table, one `pyarrow.Schema`; the field metadata carries `unit` and `about`. Everything that writes or
reads a recording takes the columns from here, so that a table has one definition.

Times: `*_ms` is simulated clock time in milliseconds; `time`, `event_time`, `lower`, `upper` and `previous_lower` are
application time, a 64-bit integer whose unit the writers choose (milliseconds in all scenarios of wmlab).
Offsets are bytes; an event's offset is its end. Unknown is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.schemas import FLAG, INCIDENTS, LONG, NEVER_HAPPENED, OFFSETS, REAL, TEXT, column, table

if TYPE_CHECKING:
    from wmlab.core.recording import Recording

Subject = Literal[
    "writer",
    "reader",
    "group",
    "controller",
    "commit handler",
    "stream",
    "segments",
    "epoch",
    "bucket",
    "marks segment",
    "store",
    "network",
]
"""What an incident happened to."""
IncidentOutcome = Literal["done", "nobody there", "no effect", "never happened"]
"""What came of what a script asked for: done; the party was not running; it was there, but nothing could be done; or it
waited until the end of the run for a moment that never came."""
Sides = tuple[tuple[str, ...], tuple[str, ...]]
"""The nodes on either side of a partition of the network."""
TOOK_PLACE: Final[IncidentOutcome] = "done"
NOBODY_THERE: Final[IncidentOutcome] = "nobody there"
NO_EFFECT: Final[IncidentOutcome] = "no effect"

# A column that several tables have means the same in each; what happened is what the table is of.
_STREAM: Final = INCIDENTS.field("stream")
_AT: Final = INCIDENTS.field("at_ms")
_GROUP: Final = column("group", TEXT, "the reader group")
_CONTROLLER: Final = column("controller", TEXT, "the controller that did it")
_PROCESS: Final = column("process", TEXT, "the process of the writer that called")
_WRITER_ID: Final = column("writer", TEXT, "the writer id")
_KEY_SPACE: Final = "key space [0, 1]"
_OF_MAP: Final = "of the group's map of times from then on; null: unknown, or the group has no map"
_ENTRIES: Final = "an entry of that map, null: none yet; null: the group has no map, or not known"
_BOUNDS: Final = pa.map_(TEXT, LONG)


def _segment_id(about: str) -> pa.Field:
    return column("segment_id", LONG, about, unit="epoch * 2^32 + number, see wm.trace.segment_name")


def _seen(bound: str) -> pa.Field:
    return column(bound, LONG, "bound that the reader saw then; null: unknown", unit="ms", nullable=True)


def _seq_of(bound: str) -> pa.Field:
    return column(
        f"{bound}_seq", LONG, "seq of the watermark that gave the bound; null: none, or not known", nullable=True
    )


TABLES: Final[dict[str, pa.Schema]] = {
    "segments": table(
        _STREAM,
        _segment_id("the segment"),
        column("number", LONG, "its number; duplicates of a rolling transaction repeat it"),
        column("epoch", LONG, "the epoch that created it"),
        column("low", REAL, "start of its key range, inclusive, rounded for reading", unit=_KEY_SPACE),
        column("high", REAL, "end of its key range, exclusive, rounded for reading", unit=_KEY_SPACE),
        column("keys", TEXT, "its key range, exact, as 'low..high' in rationals, for example '1/3..2/3'"),
        column("created_ms", LONG, "when it was created", unit="ms"),
        column("sealed_ms", LONG, "when it was sealed; null while open", unit="ms", nullable=True),
    ),
    "epochs": table(
        _STREAM,
        column("epoch", LONG, "the epoch"),
        column("kind", TEXT, "create, scale or rolling"),
        _AT,
        column("segment_ids", pa.list_(LONG), "all segments active in it, ascending"),
    ),
    "events": table(
        _STREAM,
        _segment_id("the segment that holds the event"),
        column("offset", LONG, "its end in the segment", unit="bytes"),
        column("event_time", LONG, "when it happened, in the writer's words", unit="ms"),
        column("append_ms", LONG, "when the segment store took it", unit="ms"),
        column("writer", TEXT, "who wrote it"),
    ),
    "writer_marks": table(
        _STREAM,
        _WRITER_ID,
        column("process", TEXT, "the process that noted it; null for the commit of a transaction", nullable=True),
        column("time", LONG, "the noted time", unit="ms"),
        column("position", OFFSETS, "acknowledged offset of each segment the writer held; null: nothing yet"),
        column("noted_ms", LONG, "when the writer noted it", unit="ms"),
        column("received_ms", LONG, "when the controller judged it", unit="ms"),
        _CONTROLLER,
        column("txn", TEXT, "the transaction it belongs to; null for a noted time", nullable=True),
        column("outcome", TEXT, "success, or why it was refused"),
    ),
    "writer_shutdowns": table(
        _STREAM,
        _WRITER_ID,
        _PROCESS,
        column("call", TEXT, "shut down, or mark idle"),
        column("sent_ms", LONG, "when the writer said so", unit="ms"),
        column("received_ms", LONG, "when the controller heard it", unit="ms"),
        _CONTROLLER,
        column("outcome", TEXT, "ok, unknown writer, or write conflict"),
    ),
    "transactions": table(
        _STREAM,
        column("txn", TEXT, "the transaction: its writer's name and a number from 1"),
        column("writer", TEXT, "the name of the writer that began it"),
        column("epoch", LONG, "the epoch in which it began"),
        column("state", TEXT, "open, committing, committed, aborting or aborted, at the end of the run"),
        column("begun_ms", LONG, "when the controller began it", unit="ms"),
        column("commit_requested_ms", LONG, "when the controller heard the commit", unit="ms", nullable=True),
        column("committed_ms", LONG, "when it was recorded as committed", unit="ms", nullable=True),
        column("aborted_ms", LONG, "when it was recorded as aborted", unit="ms", nullable=True),
        column("time", LONG, "the time given at commit; null: none", unit="ms", nullable=True),
        column("batch", LONG, "the batch of commits it was in, from 0", nullable=True),
        column("position", OFFSETS, "end of every segment of its target epoch", unit="bytes", nullable=True),
        column("events", LONG, "how many events were written in it"),
    ),
    "errors": table(
        _STREAM,
        _AT,
        _PROCESS,
        column("call", TEXT, "what was called, for example note time, commit or write in"),
        column("problem", TEXT, "why it was refused; it had no effect"),
    ),
    "cycles": table(
        _STREAM,
        _CONTROLLER,
        _AT,
        column("previous_lower", LONG, "lower bound of the previous watermark; null: none, or not read", nullable=True),
        column("participating", pa.list_(TEXT), "writers beyond the previous lower bound"),
        column("lagging", pa.list_(TEXT), "writers that are waited for"),
        column("removed", pa.list_(TEXT), "writers dropped by this cycle"),
        column("outcome", TEXT, "emitted or held"),
        column("reason", TEXT, "why nothing was emitted; empty when it was"),
        column(
            "cause", TEXT, "the reason as a code, without names and numbers; null: emitted, or not known", nullable=True
        ),
        column("timeout_ms", LONG, "how long it waits for a writer behind; null: not known", unit="ms", nullable=True),
        column(
            "behind_since_ms",
            pa.map_(TEXT, LONG),
            "for each lagging writer, from when its timeout counts; null: not known",
            unit="ms",
            nullable=True,
        ),
        column("due_ms", LONG, "when its controller runs the next one; null: none planned", unit="ms", nullable=True),
    ),
    "watermarks": table(
        _STREAM,
        column("seq", LONG, "place in the marks log, from 0"),
        column("lower", LONG, "minimum of the counted writers' times", unit="ms"),
        column("upper", LONG, "maximum of the counted writers' times", unit="ms"),
        column("cut", OFFSETS, "stream cut: offset of each segment; null: end of segment (bug 6510 only)"),
        column(
            "writers",
            pa.map_(TEXT, LONG),
            "the counted writers and the time each had noted; none: an end of known time",
        ),
        column(
            "counted",
            pa.map_(TEXT, LONG),
            "for each counted writer the received_ms of the mark that was counted; null: not known",
            unit="ms",
            nullable=True,
        ),
        _CONTROLLER,
        column(
            "cycle_ms",
            LONG,
            "when the cycle that appended it began, to read the marks first of all; null: not known",
            unit="ms",
            nullable=True,
        ),
        column("emitted_ms", LONG, "when it was appended", unit="ms"),
        column("revision", LONG, "end of the entry in the marks segment", unit="bytes"),
    ),
    "watermark_index": table(
        _STREAM,
        column("place", LONG, "place of the record in the index segment, from 0; a record has 16 bytes"),
        column("time", LONG, "lower bound of the watermark", unit="ms"),
        column("offset", LONG, "where its entry begins in the marks segment", unit="bytes"),
        _CONTROLLER,
        column("appended_ms", LONG, "when the record was appended", unit="ms"),
        column("recovered", FLAG, "written later, from the tail of the marks segment, and not with its watermark"),
    ),
    "positions": table(
        _STREAM,
        _GROUP,
        column("version", LONG, "revision of the group's shared state; rows of one update share it"),
        column("reader", TEXT, "who published; null where nobody has, or the segment is released since", nullable=True),
        _segment_id("the segment"),
        column("offset", LONG, "the group has read up to here", unit="bytes"),
        column("finished", FLAG, "the segment left the group's position: read to its end, or the group was reset"),
        column(
            "waits",
            FLAG,
            "read to its end, it counts there until its successors can be read; null: not known",
            nullable=True,
        ),
        column("reset", FLAG, "by a reset of the group, whose readers start again; null: not known", nullable=True),
        _AT,
    ),
    "windows": table(
        _STREAM,
        _GROUP,
        column("reader", TEXT, "the reader"),
        *(_seen(bound) for bound in ("lower", "upper")),
        *(_seq_of(bound) for bound in ("lower", "upper")),
        _AT,
    ),
    "reads": table(
        _STREAM,
        _GROUP,
        column("reader", TEXT, "who read"),
        _segment_id("the segment"),
        column("from_offset", LONG, "the events read end after this offset", unit="bytes"),
        column("to_offset", LONG, "the last of them ends here", unit="bytes"),
        column("again", FLAG, "the group had read them before"),
        _seen("lower"),
        _AT,
    ),
    "group_updates": table(
        _STREAM,
        _GROUP,
        column("reader", TEXT, "who asked for the update; null: the application", nullable=True),
        column("operation", TEXT, "what it was, for example publish, acquire, complete or checkpoint"),
        column("outcome", TEXT, "applied, or conflict: the state had changed since it was read"),
        column("revision", LONG, "revision of the shared state that the update was made for"),
        _AT,
        column("lower", LONG, f"lower bound {_OF_MAP}", unit="ms", nullable=True),
        column("upper", LONG, f"upper bound {_OF_MAP}", unit="ms", nullable=True),
        column("lowers", _BOUNDS, f"by reader, the time it has passed, {_ENTRIES}", unit="ms", nullable=True),
        column("uppers", _BOUNDS, f"by reader, the upper bound there, {_ENTRIES}", unit="ms", nullable=True),
    ),
    "checkpoints": table(
        _STREAM,
        _GROUP,
        column("checkpoint", TEXT, "its name"),
        column("requested_ms", LONG, "when it was asked for", unit="ms"),
        column("completed_ms", LONG, "when the last reader reported; null: never", unit="ms", nullable=True),
        column("cut", OFFSETS, "where each open segment was; null: never completed", nullable=True),
        column(
            "marks_offset",
            LONG,
            "where to go on in the marks segment; null: at its start, or never completed",
            unit="bytes",
            nullable=True,
        ),
    ),
    "incidents": table(
        *INCIDENTS,
        column("subject", TEXT, "what the target is: writer, reader, controller and so on"),
        column("outcome", TEXT, f"done; nobody there, no effect, or {NEVER_HAPPENED}: nothing was changed"),
        column("until_ms", LONG, "when the script ends it; null: never, or at once", unit="ms", nullable=True),
        column("sides", pa.list_(pa.list_(TEXT)), "the nodes on either side of a partition; null: none", nullable=True),
    ),
    "ownership": table(
        column("bucket", LONG, "the bucket"),
        column("controller", TEXT, "whose session had the bucket's node"),
        column("streams", pa.list_(TEXT), "the scenario's streams that hash into the bucket"),
        column("from_ms", LONG, "when it took the bucket", unit="ms"),
        column("to_ms", LONG, "when the node went; null while it is there", unit="ms", nullable=True),
    ),
    "messages": table(
        column("stream", TEXT, "the stream it is about; null: about none", nullable=True),
        column("sender", TEXT, "the party that sent it"),
        column("receiver", TEXT, "the party it was sent to"),
        column("kind", TEXT, "what it says: append, acknowledge, note time, answer and so on"),
        column("content", TEXT, "its content in short, for example event numbers and offsets"),
        column("sent_ms", LONG, "when it was sent", unit="ms"),
        column("received_ms", LONG, "when it arrived; null: lost, or still under way", unit="ms", nullable=True),
        column("bytes", LONG, "its length; null: not known for its kind", unit="bytes", nullable=True),
    ),
}


def marks_read_ms(watermark: Mapping[str, Any]) -> int:
    """When the cycle that appended a row of `watermarks` began, to read the marks first of all (ms).

    A log that does not know it is taken to have read them when it appended.
    """
    return int(watermark["emitted_ms"] if watermark["cycle_ms"] is None else watermark["cycle_ms"])


_CLOCKS: Final = {
    "events": "append_ms",
    "watermarks": "emitted_ms",
    "cycles": "at_ms",
    "positions": "at_ms",
    "windows": "at_ms",
    "incidents": "at_ms",
}
"""When a row of these tables was written (ms)."""


def end_ms(recording: Recording) -> int | None:
    """When a run ended (clock, ms): as its scenario says, or else with the last thing recorded; None: nothing was."""
    scenario = recording.scenario or {}
    if "duration_ms" in scenario:
        return int(scenario.get("start_ms", 0)) + int(scenario["duration_ms"])
    last = (pc.max(chunk[name]).as_py() for table, name in _CLOCKS.items() for chunk in recording.chunks(table, name))
    return max((at_ms for at_ms in last if at_ms is not None), default=None)
