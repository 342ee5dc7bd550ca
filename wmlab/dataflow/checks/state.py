"""Promises of what a vertex holds: never more than its limit, every call counted once, and no call overtaken by idle.

Source: "Keyed watermark support", Changes to async-transform processor; "Stream-to-stream join", on memory; upstream
classes `AsyncTransformUsingServiceOrderedP`, `StreamToStreamJoinP`, `SlidingWindowP`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.findings import findings, row_of, say
from wmlab.dataflow.checks.recorded_rows import INSTANCE, put_items, taken_items
from wmlab.dataflow.sim.rules import RecordedRule

_CALL: Final = ("vertex", "instance", "call", "began_ms", "ended_ms", "outcome")


def within_limits(state: DataFrame, rules: tuple[RecordedRule, ...]) -> DataFrame:
    """K12: a window or join never holds more than its limit; one finding per change of its size."""
    limits = {name: rule.limit for rule in rules if rule.limit is not None for name in {rule.vertex, rule.entry}}
    limit = _by_vertex(limits)
    sized = state.where(F.col("buffer") == "all").withColumn("limit", limit).where("limit is not null")
    what = say(F.col("vertex"), " held ", F.col("size"), " at a limit of ", F.col("limit"))
    proof = row_of("state", "vertex", "instance", "at_ms", "size", "limit")
    return findings(sized, ok=F.col("size") <= F.col("limit"), at_ms=F.col("at_ms"), what=what, evidence=[proof])


def calls_consistent(
    calls: DataFrame, items: DataFrame, queues: DataFrame, executions: DataFrame, capacities: Mapping[str, int]
) -> DataFrame:
    """K13: calls are numbered without a gap, one per row that was taken, all answered at the end; no more than the
    capacity at once.

    One finding per instance and execution, and one per call. How many calls there are to be is not judged of an
    execution that began from a snapshot, because it makes those again that were in flight.
    """
    return _call_counts(calls, items, queues, executions).unionByName(_calls_at_once(calls, capacities))


def _call_counts(calls: DataFrame, items: DataFrame, queues: DataFrame, executions: DataFrame) -> DataFrame:
    took = (
        taken_items(items, queues).where(F.col("kind") == "event").groupBy(*INSTANCE).agg(F.count("*").alias("taken"))
    )
    counts = calls.groupBy(*INSTANCE).agg(
        F.count("*").alias("calls"),
        F.count_distinct("call").alias("numbers"),
        (F.max("call") - F.min("call") + 1).alias("span"),
        F.count_if(F.col("outcome") == "answered").alias("answered"),
        F.max("began_ms").alias("at_ms"),
    )
    ended = executions.select("stream", "execution", "snapshot", (F.col("outcome") == "completed").alias("_completed"))
    both = counts.join(took, list(INSTANCE), "left").join(F.broadcast(ended), ["stream", "execution"])
    told = both.withColumn("taken", F.coalesce("taken", F.lit(0)))
    one_each = (F.col("calls") == F.col("taken")) | (~F.col("_completed") & (F.col("calls") < F.col("taken")))
    all_answered = ~F.col("_completed") | (F.col("answered") == F.col("calls"))
    numbered = (F.col("numbers") == F.col("calls")) & (F.col("span") == F.col("calls"))
    what = say(
        F.col("vertex"), " made ", F.col("calls"), " calls under ", F.col("numbers"), " numbers for ", F.col("taken"),
        " rows, and ", F.col("answered"), " were answered",
    )  # fmt: skip
    proof = row_of("calls", "vertex", "instance", "execution", "calls", "numbers", "taken", "answered")
    ok = numbered & all_answered & (one_each | F.col("snapshot").isNotNull())
    return findings(told, ok=ok, at_ms=F.col("at_ms"), what=what, evidence=[proof])


def _calls_at_once(calls: DataFrame, capacities: Mapping[str, int]) -> DataFrame:
    known = calls.withColumn("capacity", _by_vertex(capacities)).where("capacity is not null")
    began = known.select(*INSTANCE, *_CALL[2:], "capacity", F.col("began_ms").alias("_at"), F.lit(1).alias("_more"))
    ended = known.where("ended_ms is not null").select(
        *INSTANCE, F.col("ended_ms").alias("_at"), F.lit(-1).alias("_more")
    )
    # Within a millisecond the ends count first, as a call may begin because another one ended.
    along = Window.partitionBy(*INSTANCE).orderBy("_at", "_more", "call")
    in_flight = F.sum("_more").over(along.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    both = began.unionByName(ended, allowMissingColumns=True).withColumn("in_flight", in_flight)
    what = say(F.col("vertex"), " had ", F.col("in_flight"), " calls in flight at a capacity of ", F.col("capacity"))
    proof = row_of("calls", *_CALL, "in_flight", "capacity")
    told = both.where("call is not null")
    ok = F.col("in_flight") <= F.col("capacity")
    return findings(told, ok=ok, at_ms=F.col("began_ms"), what=what, evidence=[proof])


def idle_overtakes_no_call(calls: DataFrame, items: DataFrame, queues: DataFrame, coalescing: DataFrame) -> DataFrame:
    """K14: an idle message leaves an asynchronous step behind the results of all rows that came before it.

    One finding per idle message that left. The n-th one that left is the n-th that was merged, or a later one.
    """
    asynchronous = calls.select("stream", "vertex").distinct()
    in_order = Window.partitionBy(*INSTANCE).orderBy("sequence")
    left = put_items(items, queues).where((F.col("kind") == "idle") & F.col("first"))
    lane = Window.partitionBy(*INSTANCE)
    one_queue = left.withColumn("_queue", F.min("queue").over(lane)).where(F.col("queue") == F.col("_queue"))
    put = one_queue.select(*INSTANCE, F.row_number().over(in_order).alias("n"), "queue", "sequence", "put_ms")
    said = coalescing.where((F.col("level") == "global") & F.col("emitted_idle"))
    merged = said.select(
        *INSTANCE, F.row_number().over(lane.orderBy("step")).alias("n"), F.col("at_ms").alias("merged_ms")
    )
    idle = put.join(merged, [*INSTANCE, "n"]).join(F.broadcast(asynchronous), ["stream", "vertex"])
    open_ = (F.col("began_ms") < F.col("merged_ms")) & (
        F.col("ended_ms").isNull() | (F.col("ended_ms") > F.col("put_ms"))
    )
    made = F.struct("call", "began_ms", "ended_ms", "outcome")
    both = idle.join(calls.select(*INSTANCE, made.alias("made")), list(INSTANCE))
    flat = both.select("*", "made.*")
    worst = flat.groupBy(*INSTANCE, "n", "queue", "sequence", "put_ms", "merged_ms").agg(
        F.min(F.when(open_, F.col("made"))).alias("made")
    )
    what = say("an idle message left ", F.col("vertex"), " before call ", F.col("made.call"), ", which came before it")
    rows = [
        row_of("items", "queue", "sequence", "put_ms", "merged_ms"),
        row_of("calls", "vertex", "instance", "made.call", "made.began_ms", "made.ended_ms", "made.outcome"),
    ]
    return findings(worst, ok=F.col("made").isNull(), at_ms=F.col("put_ms"), what=what, evidence=rows)


def _by_vertex(numbers: Mapping[str, int]) -> Column:
    """The number of the row's vertex; null if it has none."""
    found = F.lit(None).cast("long")
    for name, number in numbers.items():
        found = F.when(F.col("vertex") == name, F.lit(number)).otherwise(found)
    return found
