"""The tables of a dataflow: its topology, every item on every queue, the steps of coalescing, and what became of rows.

A level of coalescing with one input lets through what comes in. By sound rules and by the design its steps are
counted and not recorded: `wmlab.dataflow.checks.steps.all_steps` makes them of the items.

They belong to a recording like those of `wmlab.streams.tables`, and are written in the same way. Here `stream` is the
name of the dataflow. `execution` counts from 1; a restart begins the next one. An instance is one of the parallel
copies of a vertex, from 0. A row is JSON: an object from column to value. Watermark values and `time` have the unit of
the columns that carry the keys, milliseconds in all scenarios of wmlab.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from wmlab.core.schemas import FLAG, INCIDENTS, LONG, TEXT, column, table

_STREAM = column("stream", TEXT, "the dataflow's name")
_EXECUTION = column("execution", LONG, "the execution, from 1; a restart begins the next")
_VERTEX = column("vertex", TEXT, "the vertex")
_AN_INSTANCE: Final = "which of its parallel instances, from 0"
_A_ROW: Final = "the row as a JSON object, column to value"
_KEYS: Final = "the keys whose watermarks can be there, with the column each is of"
_POSITION: Final = "position there in this execution, from 0"
_ENDED: Final = "when it ended; null: it had not at the end"
_TIME: Final = "event time of a row, by its column of the lowest key; null: none"
_ROW = column("row", TEXT, _A_ROW)
_OF_INSTANCE = (_STREAM, _EXECUTION, _VERTEX, column("instance", LONG, _AN_INSTANCE))


DATAFLOW_TABLES: Final[dict[str, pa.Schema]] = {
    "vertices": table(
        _STREAM,
        _VERTEX,
        column("kind", TEXT, "what it is: source, map, window, join, sink and so on"),
        column("parallelism", LONG, "its instances"),
        column("columns", pa.list_(TEXT), "the columns of the rows that leave it; empty for a sink"),
        column("keys", pa.map_(LONG, TEXT), _KEYS),
        column("detail", TEXT, "what it does, in one line"),
        column("grid", LONG, "watermarks leave only at multiples of this; null: at any value", nullable=True),
    ),
    "queues": table(
        _STREAM,
        column("queue", LONG, "the queue: from one producing to one consuming instance, numbered from 0"),
        column("source", TEXT, "the vertex whose instance puts items"),
        column("source_instance", LONG, _AN_INSTANCE),
        column("target", TEXT, "the vertex whose instance takes them"),
        column("target_instance", LONG, _AN_INSTANCE),
        column("edge", LONG, "which input edge of the target it belongs to, from 0"),
        column("input", LONG, "its position among the queues of that edge, from 0"),
        column("priority", LONG, "edges of lower numbers are drained to their end first"),
        column("routing", TEXT, "where a row goes: round robin, isolated, broadcast, or partitioned by a column"),
        column("capacity", LONG, "how many items it holds", unit="items"),
        column("keys", pa.map_(LONG, TEXT), _KEYS),
    ),
    "executions": table(
        _STREAM,
        _EXECUTION,
        column("started_ms", LONG, "when it began", unit="ms"),
        column("ended_ms", LONG, _ENDED, unit="ms", nullable=True),
        column("snapshot", LONG, "the snapshot it began from; null: none", nullable=True),
        column("outcome", TEXT, "completed, failed, restarted, or running"),
        column("reason", TEXT, "why it failed; empty when it did not"),
    ),
    "source_rows": table(
        *_OF_INSTANCE,
        column("partition", LONG, "partition, from 0"),
        column("number", LONG, "position of the row among all rows of the source, from 0"),
        column("at_ms", LONG, "when read", unit="ms"),
        column("passed", FLAG, "whether the filter of the source let it pass"),
        _ROW,
    ),
    "items": table(
        _STREAM,
        _EXECUTION,
        column("queue", LONG, "the queue"),
        column("sequence", LONG, _POSITION),
        column("put_ms", LONG, "when put", unit="ms"),
        column("taken_ms", LONG, "when it was taken; null: it was not", unit="ms", nullable=True),
        column("taken", LONG, "position among all items its consumer took in this execution, from 0", nullable=True),
        column("kind", TEXT, "event, watermark, barrier, done, or idle: in Jet a watermark Long.MAX_VALUE of key 0"),
        column("key", LONG, "key of a watermark or a keyed idle message; null for all else", nullable=True),
        column("value", LONG, "value of a watermark, number of a barrier's snapshot; else null", nullable=True),
        column("time", LONG, _TIME, nullable=True),
        column("row", TEXT, _A_ROW, nullable=True),
    ),
    "coalescing": table(
        *_OF_INSTANCE,
        column("step", LONG, _POSITION),
        column("at_ms", LONG, "when", unit="ms"),
        column("taken", LONG, "items the instance had taken, with the one that caused it; null: source", nullable=True),
        column("level", TEXT, "edge: the queues of one edge; global: all edges; partition: those of a source"),
        column("edge", LONG, "the edge whose queues were coalesced; null at the other levels", nullable=True),
        column("input", LONG, "the queue, edge or partition that said something, from 0; null: all", nullable=True),
        column(
            "stimulus", TEXT, "watermark, idle, event, done; of a source: event, tick, bound, added, removed, restored"
        ),
        column("key", LONG, "key of the watermark; at a source the key that it is about; else null", nullable=True),
        column("value", LONG, "the watermark; at a source that of the partition; null: none", nullable=True),
        column("active", pa.list_(LONG), "the inputs that count afterwards, ascending"),
        column("idle", pa.list_(LONG), "the inputs excluded as idle, ascending"),
        column("done", pa.list_(LONG), "the inputs that have ended, ascending"),
        column("emitted", pa.map_(LONG, LONG), "watermarks by key"),
        column("emitted_idle", FLAG, "whether an idle message came out"),
    ),
    "drops": table(
        *_OF_INSTANCE,
        column("at_ms", LONG, "when", unit="ms"),
        column("edge", LONG, "its input edge"),
        column("rule", TEXT, "by which rule"),
        column("key", LONG, "the deciding key"),
        column("time", LONG, "the row's time in the field of that key"),
        column("limit", LONG, "the lowest time that would have been taken"),
        column("margin", LONG, "limit - time, at most 2^63 - 1: by how much the row was late"),
        _ROW,
    ),
    "calls": table(
        *_OF_INSTANCE,
        column("call", LONG, "number of the call within its instance, from 0"),
        column("began_ms", LONG, "when made", unit="ms"),
        column("ended_ms", LONG, _ENDED, unit="ms", nullable=True),
        column("outcome", TEXT, "answered, failed, or in flight"),
        _ROW,
    ),
    "state": table(
        *_OF_INSTANCE,
        column("at_ms", LONG, "since when", unit="ms"),
        column(
            "buffer", TEXT, "which part: 'all', or 'left' and 'right' of a join; 'visited': groups looked at so far"
        ),
        column("size", LONG, "rows or accumulators held from then on"),
    ),
    "snapshots": table(
        _STREAM,
        _EXECUTION,
        column("snapshot", LONG, "number, from 1"),
        _VERTEX,
        column("instance", LONG, _AN_INSTANCE),
        column("begun_ms", LONG, "when its barriers were sent", unit="ms"),
        column("saved_ms", LONG, "when this instance saved its state; null: never", unit="ms", nullable=True),
        column("completed_ms", LONG, "when all instances had; null: never", unit="ms", nullable=True),
        column("size", LONG, "rows or accumulators saved; null: nothing was", nullable=True),
        column("rows_read", LONG, "rows this source had read in this execution; null: no source", nullable=True),
    ),
    "sunk": table(
        *_OF_INSTANCE,
        column("sequence", LONG, _POSITION),
        column("at_ms", LONG, "when it came out", unit="ms"),
        column("time", LONG, _TIME, nullable=True),
        column("committed", FLAG, "false for a row that an exactly-once restart took back"),
        _ROW,
    ),
    "incidents": INCIDENTS,
}
