"""Invariants of rows, calls and state: on time stays on time, late stays late, only late rows are dropped; no instance
holds more than its limit, every call is counted once, and no idle message overtakes a call.

When an instance has handed a watermark on is not recorded to the step, only when it was merged. So a row counts as on
time on input only if no watermark that was merged before it was above its time, and as late only if one of an earlier
millisecond was.

Source: "Keyed watermark support", WM rules (No overtaking), Changes to async-transform processor; "Stream-to-stream
join", on memory; upstream classes `AsyncTransformUsingServiceOrderedP`, `StreamToStreamJoinP`, `SlidingWindowP`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.findings import findings, row_of, say
from wmlab.dataflow.checks.items import INSTANCE, put_items, taken_items
from wmlab.dataflow.sim.rules import RecordedRule

_AT_ONCE: Final = ("map", "filter", "flat map", "merge", "late drop")
_KEEPING: Final = (*_AT_ONCE, "async map", "stateful map")
"""Kinds of vertices whose rows keep the time that they came with."""
_TIME: Final = (*INSTANCE, "key", "time")


def on_time_stays_on_time(items: DataFrame, queues: DataFrame, coalescing: DataFrame, vertices: DataFrame) -> DataFrame:
    """K7: a row that is on time on input is on time on output; one finding per row that left.

    Rows are told by their time. Judged are those with a time at which every row came in on time.
    """
    bound = _merged_before(items, queues, coalescing, row=("taken", 1), step=("taken", 0))
    came = _times(bound, F.coalesce(F.col("time") >= F.col("_mark"), F.lit(True)))
    what = say("a row at ", F.col("time"), " left ", F.col("vertex"), " late, though it had come on time")
    return _left(items, queues, vertices, _KEEPING, came, late_is_ok=False, what=what)


def late_stays_late(items: DataFrame, queues: DataFrame, coalescing: DataFrame, vertices: DataFrame) -> DataFrame:
    """K8: a row that is late on input is late on output; one finding per row that left.

    Rows are told by their time. Judged are those with a time at which every row came in late, at vertices that hand
    rows on at once.
    """
    bound = _merged_before(items, queues, coalescing, row=("taken_ms", 0), step=("at_ms", 1))
    came = _times(bound, F.coalesce(F.col("time") < F.col("_mark"), F.lit(False)))
    what = say("a row at ", F.col("time"), " left ", F.col("vertex"), " on time, though it had come late")
    return _left(items, queues, vertices, _AT_ONCE, came, late_is_ok=True, what=what)


def _merged_before(
    items: DataFrame, queues: DataFrame, coalescing: DataFrame, *, row: tuple[str, int], step: tuple[str, int]
) -> DataFrame:
    """The rows that were taken, with `_mark`: the merged watermark of their time's key before them.

    `row` and `step` are what rows and steps are ordered by: a column, and a number that decides where both are equal.
    """
    rows = taken_items(items, queues).where((F.col("kind") == "event") & F.col("time").isNotNull())
    told = rows.select(
        *INSTANCE, F.col("time_key").alias("key"), "time", "taken_ms", F.col("row"), F.col(row[0]).alias("_at"),
        F.lit(row[1]).alias("_rank"), F.lit(None).cast("long").alias("_value"),
    )  # fmt: skip
    marks = coalescing.where(F.col("level") == "global").select(
        *INSTANCE,
        F.col(step[0]).alias("_at"),
        F.lit(step[1]).alias("_rank"),
        F.explode("emitted").alias("key", "_value"),
    )
    along = Window.partitionBy(*INSTANCE, "key").orderBy("_at", "_rank")
    so_far = F.max("_value").over(along.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    both = told.unionByName(marks, allowMissingColumns=True)
    return both.withColumn("_mark", so_far).where("time is not null")


def _times(rows: DataFrame, fits: Column) -> DataFrame:
    """The times at which every row that came in fits, with one of them: `came`."""
    whole = rows.groupBy(*_TIME).agg(
        F.min(fits).alias("_all"), F.min(F.struct("taken_ms", "_mark", "row")).alias("came")
    )
    return whole.where("_all").drop("_all")


def _left(
    items: DataFrame,
    queues: DataFrame,
    vertices: DataFrame,
    kinds: tuple[str, ...],
    came: DataFrame,
    *,
    late_is_ok: bool,
    what: Column,
) -> DataFrame:
    """A finding for every row that left with a time of `came`: whether it was late on its queue is as it has to be."""
    judged = vertices.where(F.col("kind").isin(*kinds)).select("stream", "vertex")
    put = put_items(items, queues).where(F.col("kind").isin("event", "watermark"))
    out = put.join(F.broadcast(judged), ["stream", "vertex"])
    along = Window.partitionBy("stream", "execution", "queue").orderBy("sequence")
    own = (F.col("kind") == "watermark") & (F.col("key") == F.col("time_key"))
    mark = F.max(F.when(own, F.col("value"))).over(along.rowsBetween(Window.unboundedPreceding, -1))
    rows = out.withColumn("_before", mark).where((F.col("kind") == "event") & F.col("time").isNotNull())
    late = F.coalesce(F.col("time") < F.col("_before"), F.lit(False))
    found = rows.withColumn("key", F.col("time_key")).withColumn("_late", late).join(came, list(_TIME))
    ok = F.col("_late") if late_is_ok else ~F.col("_late")
    place = (F.col("vertex"), F.col("instance"))
    took = (F.col("came.taken_ms").alias("taken_ms"), "time", F.col("came._mark").alias("merged"))
    rows_told = [
        row_of("items", *place, *took, F.col("came.row").alias("row")),
        row_of("items", "queue", "sequence", "put_ms", "time", F.col("_before").alias("watermark"), "row"),
    ]
    return findings(found, ok=ok, at_ms=F.col("put_ms"), what=what, evidence=rows_told)


def drops_by_rule(drops: DataFrame, coalescing: DataFrame, vertices: DataFrame, executions: DataFrame) -> DataFrame:
    """K9: a row is dropped only below its limit, which is not beyond the watermark its instance had; one finding each.

    A join has the watermarks of each edge, all others those merged over the edges. Partial results on their way between
    two stages stand for a whole frame, and are late already at the limit less one. Executions that began from a
    snapshot are not judged, since it held watermarks of the one before.
    """
    fresh = executions.where("snapshot is null").select("stream", "execution")
    joins = F.col("rule") == "join"
    staged = vertices.where(F.col("vertex").endswith(".frames")).select(
        "stream", F.regexp_replace("vertex", r"\.frames$", "").alias("vertex"), F.lit(1).alias("_ahead")
    )
    scope = F.when(joins, F.col("edge")).otherwise(F.lit(-1)).alias("_scope")
    rows = drops.join(F.broadcast(fresh), ["stream", "execution"]).join(
        F.broadcast(staged), ["stream", "vertex"], "left"
    )
    told = rows.select(*INSTANCE, scope, "at_ms", "edge", "rule", "key", "time", "limit", "margin", "row", "_ahead")
    came = F.when(F.col("level") == "edge", F.col("edge")).otherwise(F.lit(-1)).alias("_scope")
    marks = coalescing.where(F.col("level").isin("edge", "global")).select(
        *INSTANCE, came, "at_ms", F.explode("emitted").alias("key", "_value")
    )
    along = Window.partitionBy(*INSTANCE, "_scope", "key").orderBy("at_ms")
    # By default a window reaches to the end of its millisecond, so that marks of the same one count.
    both = told.unionByName(marks, allowMissingColumns=True).withColumn("_mark", F.max("_value").over(along))
    judged = both.where("rule is not null")
    below = (F.col("margin") == F.col("limit") - F.col("time")) & (F.col("margin") > 0)
    reached = F.coalesce(F.col("limit") <= F.col("_mark") + F.coalesce("_ahead", F.lit(0)), F.lit(False))
    what = say(
        F.col("vertex"), " dropped a row at ", F.col("time"), " below ", F.col("limit"), " by the rule '",
        F.col("rule"), "', when its watermark of key ", F.col("key"), " was ", F.col("_mark"),
    )  # fmt: skip
    proof = row_of("drops", "vertex", "instance", "at_ms", "edge", "rule", "key", "time", "limit", "margin", "row")
    return findings(judged, ok=below & reached, at_ms=F.col("at_ms"), what=what, evidence=[proof])


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
