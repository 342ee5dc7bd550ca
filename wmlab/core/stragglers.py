"""Sums up `stragglers` of a log: which writer lagged behind, for how long, and at what cost."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.answers import Straggler, Stragglers
from wmlab.core.errors import TraceError
from wmlab.core.spark.log import stragglers
from wmlab.core.words import moment, rounded

_OLDEST: Final = "oldest newest event"


def stragglers_over(log: DataFrame, every_ms: int) -> Stragglers:
    """The blocking writers of a whole log, whose newest event was the oldest, by their cost; see `stragglers`.

    A writer blocks from the moment at which that is so to the next one; its cost is by how much the newest event of all
    was newer, averaged over all moments. Raises `TraceError` for a log without a good row.
    """
    by_moment = stragglers(log, every_ms)
    before = F.lag("straggler").over(Window.orderBy("at_ms"))
    by_writer = (
        by_moment.withColumn("begins", F.coalesce(before != F.col("straggler"), F.lit(True)).cast("int"))
        .groupBy("straggler")
        .agg(
            F.count("*").alias("moments"),
            F.sum("begins").alias("stretches"),
            F.sum("ahead_ms").alias("area"),
            F.max(F.struct("ahead_ms", F.negative("at_ms").alias("before_ms"), "lower")).alias("worst"),
        )
    )
    rows = by_writer.collect()
    if not rows:
        raise TraceError("the log has no row that counts.", remedy='give a log with rows; reasons stand in "reason".')
    moments = sum(row.moments for row in rows)
    rows.sort(key=lambda row: (-row.area, -row.moments, row.straggler))
    entries = tuple(
        Straggler(
            who=row.straggler,
            why=_OLDEST,
            stretches=row.stretches,
            held_ms=row.moments * every_ms,
            worst_ms=row.worst.ahead_ms,
            cost_ms=round(row.area / moments, 1),
        )
        for row in rows
    )
    worst = max(rows, key=lambda row: (row.worst.ahead_ms, row.worst.before_ms))
    at_ms = -worst.worst.before_ms
    note = (
        f"At worst, at {moment(at_ms)}, the newest event of {worst.straggler} was from "
        f"{moment(worst.worst.lower, clock_ms=at_ms)}, {rounded(worst.worst.ahead_ms)} behind the newest of all."
    )
    meanings = ((_OLDEST, "silent or slow: its newest event was the oldest of all writers'"),)
    return Stragglers(
        stream="the log",
        run_ms=moments * every_ms,
        stragglers=entries,
        bound="least newest event time",
        meanings=meanings,
        notes=(note,),
    )
