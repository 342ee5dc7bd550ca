"""The rows of a recorded dataflow: those an instance took, those it dropped, those that left it, and how far it is.

Everything comes from what stood on the queues and from the table `drops`, so that it can be held against what a batch
query over the same rows gives.

Source: "Keyed watermark support", WM rules; wmlab's own reading of a recording.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.dataflow.sim.rules import RecordedRule

INSTANCE: Final = ("stream", "execution", "vertex", "instance")
_TIME_KEY: Final = "array_min(map_keys(map_filter(keys, (key, column) -> column is not null)))"
"""The key of the column that is the time of the rows on a queue."""


def field(column: str, row: str = "row") -> Column:
    """A value of a JSON row, as text; null where it is missing or null."""
    return F.get_json_object(row, f"$['{column}']")


def taken_items(items: DataFrame, queues: DataFrame) -> DataFrame:
    """The items that were taken, with the `vertex` and `instance` that took them, `edge` and `time_key`."""
    place = "stream", "queue", "target as vertex", "target_instance as instance", "edge", f"{_TIME_KEY} as time_key"
    places = queues.selectExpr(*place)
    return items.where("taken is not null").join(F.broadcast(places), ["stream", "queue"])


def put_items(items: DataFrame, queues: DataFrame) -> DataFrame:
    """The items that were put, with the `vertex` and `instance` that put them, and `time_key`.

    A vertex with several edges puts the same on each; `first` marks the items of one of them, each item once.
    """
    sender = Window.partitionBy("stream", "source", "source_instance")
    # Of a broadcast edge one queue has all rows; of any other a row is on one of them.
    first = "struct(target, edge) = _first and (routing != 'broadcast' or target_instance = 0) as first"
    places = queues.withColumn("_first", F.min(F.struct("target", "edge")).over(sender)).selectExpr(
        "stream", "queue", "source as vertex", "source_instance as instance", first, f"{_TIME_KEY} as time_key"
    )
    return items.join(F.broadcast(places), ["stream", "queue"])


def let_through(steps: DataFrame, *columns: str | Column) -> DataFrame:
    """One row per watermark that steps of merging let through: its `key` and `value`, with `columns` of the step."""
    return steps.select(*INSTANCE, *columns, F.explode("emitted").alias("key", "value"))


def on_time_rows(items: DataFrame, queues: DataFrame, drops: DataFrame, entry: str) -> DataFrame:
    """The rows that vertex `entry` took and did not drop.

    Columns: stream, execution, instance, edge, taken, taken_ms, time, row. A dropped row is known by its text. Of
    several with the same text as many are left out as were dropped.
    """
    rows = taken_items(items, queues).where((F.col("kind") == "event") & (F.col("vertex") == entry))
    same = ["stream", "execution", "instance", "edge", "row"]
    gone = drops.where(F.col("vertex") == entry).groupBy(*same).agg(F.count("*").alias("_gone"))
    place = F.row_number().over(Window.partitionBy(*same).orderBy("taken"))
    kept = rows.withColumn("_place", place).join(gone, same, "left")
    return kept.where(F.col("_gone").isNull() | (F.col("_place") > F.col("_gone"))).select(
        "stream", "execution", "instance", "edge", "taken", "taken_ms", "time", "row"
    )


def progress_of(items: DataFrame, queues: DataFrame, executions: DataFrame, rule: RecordedRule, key: int) -> DataFrame:
    """How far each instance of a window or join is that began without a snapshot; by `rule.place`, with

    - completed: whether its execution came to its end, so that all results are out;
    - busy_ms: when it took something last; what it took then may still wait for its turn, all else is done with;
    - released: the watermark of `key` that had left before `busy_ms`; null: none.

    Of a window in two stages the instance counts that is behind the others. Source: as the module.
    """
    fresh = executions.where("snapshot is null").selectExpr("stream", "execution", "outcome = 'completed' as completed")
    took = taken_items(items, queues).where(F.col("vertex") == rule.entry)
    busy = took.groupBy("stream", "execution", "instance").agg(F.max("taken_ms").alias("busy_ms"))
    left = put_items(items, queues).where((F.col("vertex") == rule.vertex) & (F.col("key") == key))
    if rule.one_stage:
        released = _released(left, busy, rule.place)
    else:
        busy = busy.groupBy(*rule.place).agg(F.min("busy_ms").alias("busy_ms"))
        each = _released(left, busy, rule.place, "instance")
        copies = F.count_distinct("source_instance").alias("_copies")
        all_of_them = queues.where(F.col("source") == rule.vertex).groupBy("stream").agg(copies)
        lowest = each.groupBy(*rule.place).agg(F.min("released").alias("released"), F.count("*").alias("_heard"))
        released = lowest.join(F.broadcast(all_of_them), "stream").where("_heard = _copies").drop("_heard", "_copies")
    known = busy.join(F.broadcast(fresh), ["stream", "execution"])
    return known.join(F.broadcast(released), list(rule.place), "left")


def _released(left: DataFrame, busy: DataFrame, place: tuple[str, ...], *by: str) -> DataFrame:
    before = left.join(F.broadcast(busy), list(place)).where("put_ms < busy_ms")
    return before.groupBy(*place, *by).agg(F.max("value").alias("released"))
