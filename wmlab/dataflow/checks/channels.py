"""What checks take of the items of a recorded dataflow, reduced where these lie, and what its queues connect.

The items are the only table that no task has in memory, with the calls of asynchronous steps and the sizes of state. To
the task of a dataflow go

- its `specials`: of the items those that are no rows, and without their text the rows that may end an idleness;
- its `queue_loads`: a row for each queue, of how much was on it;
- its calls without the rows that they were made for;
- of the sizes of state, those above a limit, and how many are not.

Rows themselves are compared by queries of Spark, see `rows` and `batch`.

Source: "Keyed watermark support", Description of current behavior; wmlab's own reading of a recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.invariants import TableRow, TableRows
from wmlab.core.spark.grouped import Reduced, rows_by
from wmlab.core.spark.verdict import SO_FAR
from wmlab.dataflow.tables import DATAFLOW_TABLES

_ROW_COLUMNS: Final = ("time", "row")
SPECIALS: Final = pa.schema([field for field in DATAFLOW_TABLES["items"] if field.name not in _ROW_COLUMNS])
"""The columns of `specials`: those of the items but for the ones of rows."""
_ENDS_IDLENESS: Final = frozenset({"idle", "watermark"})
"""A row ends an idleness only behind one of these."""
InstanceName = tuple[str, int]
"""A vertex and the number of one of its instances."""


def specials_of(items: DataFrame) -> Reduced:
    """The items that coalescing depends on, and all others that are no rows.

    Of an unbroken run of rows only the first can end an idleness, and only behind something else. Whether a row is that
    is known within a batch; the first row of a queue in a batch is kept, which changes nothing but the count.
    """
    schema = pa.schema([field for field in SPECIALS if field.name in items.columns])
    return Reduced(items.select(*schema.names), reduced_specials, schema)


def reduced_specials(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of batches of items the rows that `specials_of` takes."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        kinds, numbers = table["kind"].to_pylist(), table["sequence"].to_pylist()
        is_special = [kind != "event" for kind in kinds]
        for _, rows in rows_by(table, "stream", "execution", "queue"):
            ordered = sorted(rows.tolist(), key=numbers.__getitem__)
            for before, index in zip([None, *ordered], ordered, strict=False):
                follows = before is not None and numbers[before] == numbers[index] - 1
                if kinds[index] == "event" and (not follows or kinds[before] in _ENDS_IDLENESS):
                    is_special[index] = True
        yield batch.filter(pa.array(is_special, pa.bool_()))


QUEUE_LOADS: Final = ("stream", "execution", "queue", "most", "events", "taken_ms")


def queue_loads(items: DataFrame) -> DataFrame:
    """What was on each queue in each execution, as `QUEUE_LOADS`.

    most: the most items at one moment. events: how many rows were taken. taken_ms: when the last item was taken, of any
    kind; null: none was.
    """
    queue = QUEUE_LOADS[:3]
    put = items.select(
        *queue,
        F.col("put_ms").alias("_at_ms"),
        F.lit(1).alias("_more"),
        (F.col("taken").isNotNull() & (F.col("kind") == "event")).cast("long").alias("_event"),
        F.lit(None).cast("long").alias("_taken_ms"),
    )
    taken = items.where("taken_ms is not null").select(
        *queue,
        F.col("taken_ms").alias("_at_ms"),
        F.lit(-1).alias("_more"),
        F.lit(0).cast("long").alias("_event"),
        F.col("taken_ms").alias("_taken_ms"),
    )
    # Within a millisecond all is put before anything is taken: a queue that may have been full counts as full.
    order = Window.partitionBy(*queue).orderBy("_at_ms", F.desc("_more")).rowsBetween(*SO_FAR)
    return (
        put.unionByName(taken)
        .withColumn("_lying", F.sum("_more").over(order))
        .groupBy(*queue)
        .agg(
            F.max("_lying").alias("most"),
            F.sum("_event").alias("events"),
            F.max("_taken_ms").alias("taken_ms"),
        )
    )


def loads_in_memory(items: pa.Table) -> pa.Table:
    """What `queue_loads` says, of items in memory."""
    by_queue: dict[tuple[Any, ...], list[TableRow]] = {}
    for row in items.select([*QUEUE_LOADS[:3], "put_ms", "taken_ms", "taken", "kind"]).to_pylist():
        by_queue.setdefault(tuple(row[name] for name in QUEUE_LOADS[:3]), []).append(row)
    loads = []
    for (stream, execution, queue), rows in by_queue.items():
        taken = [row["taken_ms"] for row in rows if row["taken_ms"] is not None]
        moves = sorted([(row["put_ms"], -1) for row in rows] + [(at_ms, 1) for at_ms in taken])
        most = max(accumulate(-move for _, move in moves))
        events = sum(row["kind"] == "event" and row["taken"] is not None for row in rows)
        loads.append((stream, execution, queue, most, events, max(taken, default=None)))
    columns = zip(*loads, strict=True) if loads else [[] for _ in QUEUE_LOADS]
    types = (pa.string(), *[pa.int64()] * (len(QUEUE_LOADS) - 1))
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], list(QUEUE_LOADS))


def time_key(queue: TableRow) -> int | None:
    """The key of the column that is the time of the rows on a queue; None: they have none."""
    return min((key for key, column in dict(queue["keys"]).items() if column is not None), default=None)


@dataclass(frozen=True, slots=True)
class Channels:
    """What the queues of a dataflow connect, by their numbers.

    `source` and `target` are the instances that put and that take, `edge` is the input edge of the target. `first` are
    queues that have, taken together, each item that an instance sent once: a vertex with several edges puts the same on
    each, and of a broadcast edge one queue has all rows, while of any other a row is on one of them.
    """

    source: Mapping[int, InstanceName]
    target: Mapping[int, InstanceName]
    edge: Mapping[int, int]
    first: frozenset[int]

    @classmethod
    def of(cls, queues: TableRows) -> Channels:
        """From the rows of the table of one dataflow."""
        edges: dict[InstanceName, tuple[str, int]] = {}
        for queue in queues:
            edge, sender = (queue["target"], queue["edge"]), (queue["source"], queue["source_instance"])
            edges[sender] = min(edges.get(sender, edge), edge)
        return cls(
            source={queue["queue"]: (queue["source"], queue["source_instance"]) for queue in queues},
            target={queue["queue"]: (queue["target"], queue["target_instance"]) for queue in queues},
            edge={queue["queue"]: queue["edge"] for queue in queues},
            first=frozenset(
                queue["queue"]
                for queue in queues
                if (queue["target"], queue["edge"]) == edges[queue["source"], queue["source_instance"]]
                and (queue["routing"] != "broadcast" or queue["target_instance"] == 0)
            ),
        )

    def sent(self, specials: TableRows, kind: str) -> dict[tuple[Any, ...], list[TableRow]]:
        """The items of a kind that each instance sent, each once, by execution, vertex and instance."""
        by_instance: dict[tuple[Any, ...], list[TableRow]] = {}
        for item in specials:
            if item["kind"] == kind and item["queue"] in self.first:
                by_instance.setdefault((item["execution"], *self.source[item["queue"]]), []).append(item)
        return by_instance


SIZES: Final = pa.schema([*((field.name, field.type) for field in DATAFLOW_TABLES["state"]), ("rows", pa.int64())])
"""A size of state above its limit, as in the table `state`; or, without a vertex, how many `rows` are within theirs."""


class SizesByLimit:
    """Reduces the sizes of state to those above a limit, and to how many are not; a value, sent to the executors."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = limits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `SIZES`."""
        within: dict[str, int] = {}
        for batch in batches:
            above = []
            for row in batch.to_pylist():
                limit = self.limits.get(row["vertex"])
                if row["buffer"] == "all" and limit is not None:
                    if row["size"] > limit:
                        above.append(row | {"rows": 1})
                    else:
                        within[row["stream"]] = within.get(row["stream"], 0) + 1
            yield from pa.Table.from_pylist(above, SIZES).to_batches()
        rest = [{"stream": stream, "rows": rows} for stream, rows in within.items()]
        yield from pa.Table.from_pylist(rest, SIZES).to_batches()
