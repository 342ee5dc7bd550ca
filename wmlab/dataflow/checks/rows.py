"""The rows of a recorded dataflow, and the invariants of rows, drops and state.

The rows are those that an instance took, those it dropped and those that left it. They come from what stood on the
queues and from the table `drops`, so that they can be held against what a batch query over the same rows gives.

When an instance has handed a watermark on is not recorded to the step, only when it was merged. So a row counts as on
time on input only if no watermark that was merged before it was above its time, and as late only if one of an earlier
millisecond was.

Rows that came and rows that left are very many on both sides, so Spark brings together those of one time. What
watermarks there were is known by then, to whoever reads the rows.

Source: "Keyed watermark support", WM rules (No overtaking); "Stream-to-stream join", on memory; upstream classes
`StreamToStreamJoinP`, `SlidingWindowP`; wmlab's own reading of a recording.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text
from wmlab.core.spark.schemas import spark_schema
from wmlab.core.spark.verdict import batch_invariant, findings, row_of
from wmlab.dataflow.checks.channels import Channels, time_key
from wmlab.dataflow.sim.layout import OWN_BY_INPUT

_AT_ONCE: Final = ("map", "filter", "flat map", "merge", "late drop", "hash join")
_KEEPING: Final = (*_AT_ONCE, "async map", "custom", OWN_BY_INPUT, "stateful map")
"""Kinds of vertices whose rows keep the time that they came with."""
_OF_TIME: Final = ("stream", "execution", "vertex", "instance", "key", "time")
TIMED_ROWS: Final = pa.schema(
    {name: pa.string() if name in {"stream", "vertex"} else pa.int64() for name in _OF_TIME}
    | {"at_once": pa.bool_(), "taken_ms": pa.int64(), "merged": pa.int64(), "merged_earlier": pa.int64()}
    | {"queue": pa.int64(), "sequence": pa.int64(), "put_ms": pa.int64(), "watermark": pa.int64()}
    | {"row": pa.string()}
)
"""Rows with a time that came into an instance or left it; `at_once` says whether its vertex hands rows on at once.

One that came has taken_ms, `merged`: the watermark of the time's key that had been merged before it, over all inputs or
by the input that it came on, as its vertex gets them, and `merged_earlier`: the one merged in an earlier millisecond.
One that left has queue, sequence, put_ms, and `watermark`: the last one of the time's key before it on the queue. The
others are null.
"""


class _Rising:
    """The highest of some watermarks so far, in an order."""

    def __init__(self, watermarks: Iterable[tuple[int, int]]) -> None:
        """Of (position in the order, watermark)."""
        ordered = sorted(watermarks)
        self._order = [position for position, _ in ordered]
        self._highest = [*accumulate((value for _, value in ordered), max)]

    def before(self, position: int, *, with_equal: bool = False) -> int | None:
        """The highest one before a position in the order, or up to it; None without any."""
        count = (bisect_right if with_equal else bisect_left)(self._order, position)
        return self._highest[count - 1] if count else None


_NONE: Final = _Rising(())


class TimedRows:
    """Makes `TIMED_ROWS` of items, by the small tables of one dataflow; a value, since Spark sends it to executors."""

    def __init__(
        self, queues: TableRows, vertices: TableRows, coalescing: TableRows, specials: TableRows, channels: Channels
    ) -> None:
        self.channels = channels
        self.kinds = {row["vertex"]: row["kind"] for row in vertices}
        self.keys = {queue["queue"]: time_key(queue) for queue in queues}
        by_taken: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        by_ms: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for step in coalescing:
            kind = self.kinds.get(step["vertex"])
            if kind in _KEEPING and step["level"] == ("edge" if kind == OWN_BY_INPUT else "global"):
                for key, value in step["emitted"].items():
                    instance = step["execution"], step["vertex"], step["instance"], step["edge"], key
                    by_taken.setdefault(instance, []).append((step["taken"], value))
                    by_ms.setdefault(instance, []).append((step["at_ms"], value))
        on_queue: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for item in specials:
            if item["kind"] == "watermark" and item["key"] == self.keys[item["queue"]]:
                on_queue.setdefault((item["execution"], item["queue"]), []).append((item["sequence"], item["value"]))
        self.merged = {instance: _Rising(entries) for instance, entries in by_taken.items()}
        self.merged_ms = {instance: _Rising(entries) for instance, entries in by_ms.items()}
        self.on_queue = {queue: _Rising(entries) for queue, entries in on_queue.items()}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of some items."""
        for batch in batches:
            rows: list[dict[str, Any]] = []
            for item in batch.to_pylist():
                key = self.keys.get(item["queue"])
                if item["kind"] == "event" and item["time"] is not None and key is not None:
                    rows += self._of(item, key)
            yield from pa.Table.from_pylist(rows, schema=TIMED_ROWS).to_batches()

    def _of(self, item: TableRow, key: int) -> Iterator[dict[str, Any]]:
        known = {name: item[name] for name in ("stream", "execution", "time", "row")} | {"key": key}
        vertex, instance = self.channels.target[item["queue"]]
        if item["taken"] is not None and self.kinds.get(vertex) in _KEEPING:
            edge = self.channels.edge[item["queue"]] if self.kinds[vertex] == OWN_BY_INPUT else None
            merger = item["execution"], vertex, instance, edge, key
            yield known | {
                "vertex": vertex,
                "instance": instance,
                "at_once": self.kinds[vertex] in _AT_ONCE,
                "taken_ms": item["taken_ms"],
                "merged": self.merged.get(merger, _NONE).before(item["taken"], with_equal=True),
                "merged_earlier": self.merged_ms.get(merger, _NONE).before(item["taken_ms"]),
            }
        vertex, instance = self.channels.source[item["queue"]]
        if self.kinds.get(vertex) in _KEEPING:
            watermarks = self.on_queue.get((item["execution"], item["queue"]), _NONE)
            known |= {name: item[name] for name in ("queue", "sequence", "put_ms")}
            yield known | {
                "vertex": vertex,
                "instance": instance,
                "at_once": self.kinds[vertex] in _AT_ONCE,
                "watermark": watermarks.before(item["sequence"]),
            }


_READ: Final = ("stream", "execution", "queue", "sequence", "put_ms", "taken_ms", "taken", "kind", "time", "row")


def timed_rows(items: DataFrame, reader: TimedRows) -> DataFrame:
    """`TIMED_ROWS` of the items of one dataflow."""
    return items.select(*_READ).mapInArrow(reader, spark_schema(TIMED_ROWS))


@batch_invariant("a row that is on time on input is on time on output", "no row with a time went through a vertex")
def on_time_stays_on_time(timed_rows: DataFrame) -> DataFrame:
    """K7: a row that is on time on input is on time on output; one finding per row that left.

    Rows are known by their time. Decided are those with a time at which every row came in on time.
    """
    on_time = F.coalesce(F.col("time") >= F.col("merged"), F.lit(True))
    left = _left(timed_rows, merged="merged", fits=on_time)
    return _judged(left, ~F.col("late"), "a row at {time} left {vertex} late, though it had come on time")


@batch_invariant("a row that is late on input is late on output", "no row came in late")
def late_stays_late(timed_rows: DataFrame) -> DataFrame:
    """K8: a row that is late on input is late on output; one finding per row that left.

    Rows are known by their time. Decided are those with a time at which every row came in late, at vertices that hand
    rows on at once.
    """
    late = F.coalesce(F.col("time") < F.col("merged_earlier"), F.lit(False))
    left = _left(timed_rows.where("at_once"), merged="merged_earlier", fits=late)
    return _judged(left, F.col("late"), "a row at {time} left {vertex} on time, though it had come late")


def _left(timed_rows: DataFrame, *, merged: str, fits: Column) -> DataFrame:
    """The rows that left with a time at which rows came in, all of which fit, with the first of these as `came`.

    `late` says whether it was late on its queue.
    """
    of_time = Window.partitionBy(*_OF_TIME)
    came = F.col("taken_ms").isNotNull()
    row = F.struct("taken_ms", F.col(merged).alias("merged"), "row")
    both = timed_rows.withColumns(
        {"_all": F.min(F.when(came, fits)).over(of_time), "came": F.min(F.when(came, row)).over(of_time)}
    )
    left = both.where("_all and put_ms is not null")
    return left.withColumn("late", F.coalesce(F.col("time") < F.col("watermark"), F.lit(False)))


def _judged(left: DataFrame, ok: Column, what: str) -> DataFrame:
    """A finding for each row of `_left`."""
    evidence = [
        row_of("items", "vertex", "instance", "came.taken_ms", "time", "came.merged", "came.row"),
        row_of("items", "queue", "sequence", "put_ms", "time", "watermark", "row"),
    ]
    return findings(left, ok=ok, at_ms="put_ms", what=what, evidence=evidence)


@invariant("a row is dropped only when it is below the watermark", "no row was dropped")
def drops_by_rule(
    drops: TableRows,
    coalescing: TableRows,
    executions: TableRows,
) -> Iterator[Finding]:
    """K9: a row is dropped only below its limit, which is not beyond the watermark its instance had; one finding each.

    A join has the watermarks of each edge, all others those coalesced over the edges. Executions that began from a
    snapshot are left out, since it held watermarks of the one before.
    """
    fresh = {row["execution"] for row in executions if row["snapshot"] is None}
    watermarks: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for step in coalescing:
        edge = step["edge"] if step["level"] == "edge" else None
        for key, value in step["emitted"].items() if step["level"] != "partition" else ():
            scope = step["execution"], step["vertex"], step["instance"], edge, key
            watermarks.setdefault(scope, []).append((step["at_ms"], value))
    risen = {scope: _Rising(entries) for scope, entries in watermarks.items()}
    for drop in drops:
        if drop["execution"] not in fresh:
            continue
        edge = drop["edge"] if drop["rule"] == "join" else None
        scope = drop["execution"], drop["vertex"], drop["instance"], edge, drop["key"]
        # Those of the same millisecond count.
        watermark = risen.get(scope, _NONE).before(drop["at_ms"], with_equal=True)
        below = drop["margin"] == drop["limit"] - drop["time"] and drop["margin"] > 0
        if below and watermark is not None and drop["limit"] <= watermark:
            yield Finding(True, drop["at_ms"])
            continue
        what = (
            f"{name_text(drop['vertex'])} dropped a row at {drop['time']} below {drop['limit']} by the rule "
            f"'{drop['rule']}', when its watermark of key {drop['key']} was {name_text(watermark)}"
        )
        columns = ("vertex", "instance", "at_ms", "edge", "rule", "key", "time", "limit", "margin", "row")
        yield Finding(False, drop["at_ms"], what, [Evidence.of("drops", drop, *columns)])


@invariant("no window or join holds more than its limit", "nothing with a limit held rows")
def within_limits(sizes: TableRows, limits: Mapping[str, int]) -> Iterator[Finding]:
    """K12: a window or join never holds more than its limit; one finding per change of its size.

    `limits` are those of the vertices that have one; `sizes` is what `channels.SizesByLimit` makes of the state.
    """
    for row in sizes:
        if row["vertex"] is None:
            yield Finding(True, judged=row["rows"])
            continue
        limit = limits[row["vertex"]]
        what = f"{name_text(row['vertex'])} held {row['size']} at a limit of {limit}"
        proof = Evidence.of("state", row, "vertex", "instance", "at_ms", "size", limit=limit)
        yield Finding(False, row["at_ms"], what, [proof])
