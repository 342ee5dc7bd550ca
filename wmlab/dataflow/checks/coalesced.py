"""The coalesced watermark at every recorded step of many dataflows, by Spark.

Source: "Keyed watermark support", Coalescing of WMs with different keys; `wmlab.dataflow.model.coalescer`.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from wmlab.core.spark.grouped import TablesOfStream, by_stream
from wmlab.core.spark.schemas import typed
from wmlab.dataflow.checks.steps import COALESCER, STEP_INPUTS, coalesced_steps
from wmlab.dataflow.model.processor import SOUND, Deviations
from wmlab.dataflow.tables import DATAFLOW_TABLES

ITEM_COLUMNS: Final = ("stream", "execution", "queue", "sequence", "taken_ms", "taken", "kind", "key", "value")
QUEUE_COLUMNS: Final = ("stream", "queue", "target", "target_instance", "edge", "input")
STEP_COLUMNS: Final = (
    "stream", "execution", "vertex", "instance", "step", "at_ms", "taken", "level", "edge", "input", "stimulus", "key",
    "value",
)  # fmt: skip
_COALESCED: Final = pa.schema(
    {
        name: (pa.string() if name in {"stream", "vertex", "level", "stimulus"} else pa.int64())
        for name in ("stream", *COALESCER, *STEP_INPUTS)
    }
    | {name: pa.list_(pa.int64()) for name in ("active", "idle", "done")}
    | {name: pa.map_(pa.int64(), pa.int64()) for name in ("coalesced", "emitted")}
    | {"emitted_idle": pa.bool_()}
)


def coalesced(
    items: DataFrame, queues: DataFrame, coalescing: DataFrame, *, deviations: Deviations = SOUND
) -> DataFrame:
    """The result of coalescing after every step of every instance, at the levels "edge" and "global".

    Takes the tables of a recording. At level edge a step is an item that was taken, in the order in which the instance
    took them: every watermark, idle message and end, and the events that may end an idleness. What an edge lets through
    can wait while other edges are drained, so the steps at level global are those that `coalescing` lists, of which
    only the stimulus is looked at. With the deviation `event_after_special` that holds at level edge, too, because no
    table says which items were drained together. An item that the rule refuses changes nothing.

    Returns one row per step with stream, execution, vertex, instance, level, edge (null at level global), place (orders
    the steps of a level: `items.taken` at level edge, `coalescing.step` otherwise), at_ms, taken, input, stimulus, key
    and value as in the table `coalescing`, then active, idle and done: the inputs after the step, ascending; coalesced:
    the coalesced watermark of every key that has one, by key; emitted: those that this step let through; and
    emitted_idle: whether it let an idle message through.

    Nothing is executed here. Raises `ModelError` for a column that is missing or of another type.
    Source: "Keyed watermark support", Coalescing of WMs with different keys; upstream class `KeyedWatermarkCoalescer`.
    """
    items = typed(items, "items", ITEM_COLUMNS, DATAFLOW_TABLES["items"])
    items = items.select(*ITEM_COLUMNS)
    tables = {
        "items": items,
        "queues": typed(queues, "queues", QUEUE_COLUMNS, DATAFLOW_TABLES["queues"]).select(*QUEUE_COLUMNS),
        "coalescing": typed(coalescing, "coalescing", STEP_COLUMNS, DATAFLOW_TABLES["coalescing"]).select(
            *STEP_COLUMNS
        ),
    }
    return by_stream(items.sparkSession, tables, partial(_coalesced_of_stream, deviations), _COALESCED)


def _coalesced_of_stream(deviations: Deviations, stream: str, tables: TablesOfStream) -> pa.Table:
    """As `coalesced`, of one stream; runs on an executor."""
    rows = {name: table.to_pylist() for name, table in tables.items()}
    steps = coalesced_steps(rows["items"], rows["queues"], rows["coalescing"], deviations)
    return pa.Table.from_pylist([{"stream": stream, **step} for step in steps], schema=_COALESCED)
