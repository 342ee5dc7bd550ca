"""The rows of a recorded dataflow, and the invariants of rows, calls and state.

The rows are those that an instance took, those it dropped and those that left it. They come from what stood on the
queues and from the table `drops`, so that they can be held against what a batch query over the same rows gives.

When an instance has handed a watermark on is not recorded to the step, only when it was merged. So a row counts as on
time on input only if no watermark that was merged before it was above its time, and as late only if one of an earlier
millisecond was.

Source: "Keyed watermark support", WM rules (No overtaking), Changes to async-transform processor; "Stream-to-stream
join", on memory; upstream classes `AsyncTransformUsingServiceOrderedP`, `StreamToStreamJoinP`, `SlidingWindowP`;
wmlab's own reading of a recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.invariants import Evidence, Finding, TableRows, invariant, name_text
from wmlab.core.spark.verdict import BEFORE, SO_FAR, batch_invariant, findings, row_of
from wmlab.dataflow.sim.layout import FRAMES
from wmlab.dataflow.sim.rules import DataflowRules, RecordedRule

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


def outcomes(executions: DataFrame) -> DataFrame:
    """The executions, to be joined: whether each is `fresh`, begun without a snapshot, and `completed`."""
    told = ("snapshot is null as fresh", "outcome = 'completed' as completed")
    return F.broadcast(executions.selectExpr("stream", "execution", *told))


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
    """How far each instance of a window or join is that began without a snapshot; by `rule.result_key`, with

    - completed: whether its execution came to its end, so that all results are out;
    - busy_ms: when it took something last; what it took then may still wait for its turn, all else is done with;
    - released: the watermark of `key` that had left before `busy_ms`; null: none.

    Of a window in two stages the instance counts that is behind the others. Source: as the module.
    """
    took = taken_items(items, queues).where(F.col("vertex") == rule.entry)
    busy = took.groupBy("stream", "execution", "instance").agg(F.max("taken_ms").alias("busy_ms"))
    left = put_items(items, queues).where((F.col("vertex") == rule.vertex) & (F.col("key") == key))
    if rule.one_stage:
        released = _released(left, busy, rule.result_key)
    else:
        busy = busy.groupBy(*rule.result_key).agg(F.min("busy_ms").alias("busy_ms"))
        each = _released(left, busy, rule.result_key, "instance")
        copies = F.count_distinct("source_instance").alias("_copies")
        all_of_them = queues.where(F.col("source") == rule.vertex).groupBy("stream").agg(copies)
        lowest = each.groupBy(*rule.result_key).agg(F.min("released").alias("released"), F.count("*").alias("_heard"))
        released = lowest.join(F.broadcast(all_of_them), "stream").where("_heard = _copies").drop("_heard", "_copies")
    known = busy.join(outcomes(executions), ["stream", "execution"]).where("fresh").drop("fresh")
    return known.join(F.broadcast(released), list(rule.result_key), "left")


def _released(left: DataFrame, busy: DataFrame, place: tuple[str, ...], *by: str) -> DataFrame:
    before = left.join(F.broadcast(busy), list(place)).where("put_ms < busy_ms")
    return before.groupBy(*place, *by).agg(F.max("value").alias("released"))


_AT_ONCE: Final = ("map", "filter", "flat map", "merge", "late drop")
_KEEPING: Final = (*_AT_ONCE, "async map", "custom", "stateful map")
"""Kinds of vertices whose rows keep the time that they came with."""


@batch_invariant("a row that is on time on input is on time on output", "no row with a time went through a vertex")
def on_time_stays_on_time(items: DataFrame, queues: DataFrame, coalescing: DataFrame, vertices: DataFrame) -> DataFrame:
    """K7: a row that is on time on input is on time on output; one finding per row that left.

    Rows are known by their time. Decided are those with a time at which every row came in on time.
    """
    bound = _merged_before(items, queues, coalescing, row=("taken", 1), step=("taken", 0))
    fits = F.coalesce(F.col("time") >= F.col("_mark"), F.lit(True))
    what = "a row at {time} left {vertex} late, though it had come on time"
    return _judged(_left(items, queues, vertices, _KEEPING, bound, fits), ~F.col("_late"), what)


@batch_invariant("a row that is late on input is late on output", "no row came in late")
def late_stays_late(items: DataFrame, queues: DataFrame, coalescing: DataFrame, vertices: DataFrame) -> DataFrame:
    """K8: a row that is late on input is late on output; one finding per row that left.

    Rows are known by their time. Decided are those with a time at which every row came in late, at vertices that hand
    rows on at once.
    """
    bound = _merged_before(items, queues, coalescing, row=("taken_ms", 0), step=("at_ms", 1))
    fits = F.coalesce(F.col("time") < F.col("_mark"), F.lit(False))
    what = "a row at {time} left {vertex} on time, though it had come late"
    return _judged(_left(items, queues, vertices, _AT_ONCE, bound, fits), F.col("_late"), what)


def _merged_before(
    items: DataFrame, queues: DataFrame, coalescing: DataFrame, *, row: tuple[str, int], step: tuple[str, int]
) -> DataFrame:
    """The rows that were taken, with `_mark`: the merged watermark of their time's key before them.

    `row` and `step` are what rows and steps are ordered by: a column, and a number that decides where both are equal.
    """
    rows = taken_items(items, queues).where("kind = 'event' and time is not null")
    at = (F.col(row[0]).alias("_at"), F.lit(row[1]).alias("_rank"))
    taken = rows.select(*INSTANCE, F.col("time_key").alias("key"), "time", "taken_ms", "row", *at)
    at = (F.col(step[0]).alias("_at"), F.lit(step[1]).alias("_rank"))
    marks = let_through(coalescing.where("level = 'global'"), *at)
    along = Window.partitionBy(*INSTANCE, "key").orderBy("_at", "_rank").rowsBetween(*SO_FAR)
    both = taken.unionByName(marks, allowMissingColumns=True)
    return both.withColumn("_mark", F.max("value").over(along)).where("time is not null")


def _left(
    items: DataFrame, queues: DataFrame, vertices: DataFrame, kinds: tuple[str, ...], bound: DataFrame, fits: Column
) -> DataFrame:
    """The rows that left with a time at which every row that came in fits, with one of these as `came`.

    `_late` says whether it was late on its queue.
    """
    place = (*INSTANCE, "key", "time")
    whole = bound.groupBy(*place).agg(
        F.min(fits).alias("_all"), F.min(F.struct("taken_ms", "_mark", "row")).alias("came")
    )
    named = vertices.where(F.col("kind").isin(*kinds)).select("stream", "vertex")
    put = put_items(items, queues).where(F.col("kind").isin("event", "watermark"))
    out = put.join(F.broadcast(named), ["stream", "vertex"])
    along = Window.partitionBy("stream", "execution", "queue").orderBy("sequence").rowsBetween(*BEFORE)
    own = (F.col("kind") == "watermark") & (F.col("key") == F.col("time_key"))
    rows = out.withColumn("_before", F.max(F.when(own, F.col("value"))).over(along)).where("kind = 'event'")
    late = F.coalesce(F.col("time") < F.col("_before"), F.lit(False))
    timed = rows.where("time is not null").withColumns({"key": F.col("time_key"), "_late": late})
    return timed.join(whole.where("_all").drop("_all"), list(place))


def _judged(left: DataFrame, ok: Column, what: str) -> DataFrame:
    """A finding for each row of `_left`."""
    evidence = [
        row_of("items", "vertex", "instance", "came.taken_ms", "time", "came._mark as merged", "came.row"),
        row_of("items", "queue", "sequence", "put_ms", "time", "_before as watermark", "row"),
    ]
    return findings(left, ok=ok, at_ms="put_ms", what=what, evidence=evidence)


@invariant("a row is dropped only when it is below the watermark", "no row was dropped")
def drops_by_rule(
    drops: TableRows,
    coalescing: TableRows,
    vertices: TableRows,
    executions: TableRows,
) -> Iterator[Finding]:
    """K9: a row is dropped only below its limit, which is not beyond the watermark its instance had; one finding each.

    A join has the watermarks of each edge, all others those coalesced over the edges. Partial results on their way
    between two stages stand for a whole frame, and are late already at the limit less one. Executions that began from a
    snapshot are left out, since it held watermarks of the one before.
    """
    fresh = {row["execution"] for row in executions if row["snapshot"] is None}
    staged = {row["vertex"].removesuffix(FRAMES) for row in vertices if row["vertex"].endswith(FRAMES)}
    watermarks: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for step in coalescing:
        edge = step["edge"] if step["level"] == "edge" else None
        for key, value in step["emitted"].items() if step["level"] != "partition" else ():
            scope = step["execution"], step["vertex"], step["instance"], edge, key
            watermarks.setdefault(scope, []).append((step["at_ms"], value))
    for drop in drops:
        if drop["execution"] not in fresh:
            continue
        edge = drop["edge"] if drop["rule"] == "join" else None
        scope = drop["execution"], drop["vertex"], drop["instance"], edge, drop["key"]
        # Those of the same millisecond count.
        known = [value for at_ms, value in watermarks.get(scope, ()) if at_ms <= drop["at_ms"]]
        watermark = max(known, default=None)
        below = drop["margin"] == drop["limit"] - drop["time"] and drop["margin"] > 0
        if below and watermark is not None and drop["limit"] <= watermark + (drop["vertex"] in staged):
            yield Finding(True, drop["at_ms"])
            continue
        what = (
            f"{name_text(drop['vertex'])} dropped a row at {drop['time']} below {drop['limit']} by the rule "
            f"'{drop['rule']}', when its watermark of key {drop['key']} was {name_text(watermark)}"
        )
        columns = ("vertex", "instance", "at_ms", "edge", "rule", "key", "time", "limit", "margin", "row")
        yield Finding(False, drop["at_ms"], what, [Evidence.of("drops", drop, *columns)])


@invariant("no window or join holds more than its limit", "nothing with a limit held rows")
def within_limits(state: TableRows, limits: Mapping[str, int]) -> Iterator[Finding]:
    """K12: a window or join never holds more than its limit; one finding per change of its size.

    `limits` are those of the vertices that have one.
    """
    for row in state:
        limit = limits.get(row["vertex"])
        if row["buffer"] != "all" or limit is None:
            continue
        if row["size"] <= limit:
            yield Finding(True, row["at_ms"])
            continue
        what = f"{name_text(row['vertex'])} held {row['size']} at a limit of {limit}"
        proof = Evidence.of("state", row, "vertex", "instance", "at_ms", "size", limit=limit)
        yield Finding(False, row["at_ms"], what, [proof])


@batch_invariant("every row makes one call, and no more calls are in flight than the capacity", "no call was made")
def calls_consistent(
    calls: DataFrame, items: DataFrame, queues: DataFrame, executions: DataFrame, rules: DataflowRules
) -> DataFrame:
    """K13: calls are numbered without a gap, one per row that was taken, all answered at the end; no more than the
    capacity at once.

    One finding per instance and execution, and one per call. How many calls there are to be is left open for an
    execution that began from a snapshot, because it makes those again that were in flight.
    """
    return _call_counts(calls, items, queues, executions).unionByName(_calls_at_once(calls, rules.capacities))


def _call_counts(calls: DataFrame, items: DataFrame, queues: DataFrame, executions: DataFrame) -> DataFrame:
    took = taken_items(items, queues).where("kind = 'event'").groupBy(*INSTANCE).agg(F.count("*").alias("taken"))
    counts = calls.groupBy(*INSTANCE).agg(
        F.count("*").alias("calls"),
        F.count_distinct("call").alias("numbers"),
        (F.max("call") - F.min("call") + 1).alias("span"),
        F.count_if(F.col("outcome") == "answered").alias("answered"),
        F.max("began_ms").alias("at_ms"),
    )
    both = counts.join(took, list(INSTANCE), "left").join(outcomes(executions), ["stream", "execution"])
    numbered = F.expr("numbers = calls and span = calls and (not completed or answered = calls)")
    one_each = F.expr("calls = taken or (not completed and calls < taken) or not fresh")
    return findings(
        both.withColumn("taken", F.coalesce("taken", F.lit(0))),
        ok=numbered & one_each,
        at_ms="at_ms",
        what="{vertex} made {calls} calls under {numbers} numbers for {taken} rows, and {answered} were answered",
        evidence=[row_of("calls", "vertex", "instance", "execution", "calls", "numbers", "taken", "answered")],
    )


def _calls_at_once(calls: DataFrame, capacities: Mapping[str, int]) -> DataFrame:
    call = ("call", "began_ms", "ended_ms", "outcome")
    known = calls.withColumn("capacity", _by_vertex(capacities)).where("capacity is not null")
    began = known.selectExpr(*INSTANCE, *call, "capacity", "began_ms as _at", "1 as _more")
    ended = known.where("ended_ms is not null").selectExpr(*INSTANCE, "ended_ms as _at", "-1 as _more")
    # Within a millisecond the ends count first, as a call may begin because another one ended.
    along = Window.partitionBy(*INSTANCE).orderBy("_at", "_more", "call").rowsBetween(*SO_FAR)
    both = began.unionByName(ended, allowMissingColumns=True).withColumn("in_flight", F.sum("_more").over(along))
    return findings(
        both.where("call is not null"),
        ok=F.col("in_flight") <= F.col("capacity"),
        at_ms="began_ms",
        what="{vertex} had {in_flight} calls in flight at a capacity of {capacity}",
        evidence=[row_of("calls", "vertex", "instance", *call, "in_flight", "capacity")],
    )


@batch_invariant("an idle message overtakes no call in flight", "no asynchronous vertex became idle")
def idle_overtakes_no_call(calls: DataFrame, items: DataFrame, queues: DataFrame, coalescing: DataFrame) -> DataFrame:
    """K14: an idle message leaves an asynchronous step behind the results of all rows that came before it.

    One finding per idle message that left. The n-th one that left is the n-th that was merged, or a later one.
    """
    asynchronous = calls.select("stream", "vertex").distinct()
    lane = Window.partitionBy(*INSTANCE)
    left = put_items(items, queues).where("first and kind = 'idle'").withColumn("_queue", F.min("queue").over(lane))
    number = F.row_number().over(lane.orderBy("sequence")).alias("n")
    put = left.where("queue = _queue").select(*INSTANCE, number, "queue", "sequence", "put_ms")
    number = F.row_number().over(lane.orderBy("step")).alias("n")
    said = coalescing.where("level = 'global' and emitted_idle")
    merged = said.select(*INSTANCE, number, F.col("at_ms").alias("merged_ms"))
    idle = put.join(merged, [*INSTANCE, "n"]).join(F.broadcast(asynchronous), ["stream", "vertex"])
    call = F.struct("call", "began_ms", "ended_ms", "outcome").alias("made")
    both = idle.join(calls.select(*INSTANCE, call), list(INSTANCE))
    open_ = F.expr("made.began_ms < merged_ms and (made.ended_ms is null or made.ended_ms > put_ms)")
    return findings(
        both.groupBy(*INSTANCE, "n", "queue", "sequence", "put_ms", "merged_ms").agg(
            F.min(F.when(open_, F.col("made"))).alias("made")
        ),
        ok=F.col("made").isNull(),
        at_ms="put_ms",
        what="an idle message left {vertex} before call {made.call}, which came before it",
        evidence=[
            row_of("items", "queue", "sequence", "put_ms", "merged_ms"),
            row_of("calls", "vertex", "instance", "made.call", "made.began_ms", "made.ended_ms", "made.outcome"),
        ],
    )


def _by_vertex(numbers: Mapping[str, int]) -> Column:
    """The number of the row's vertex; null if it has none."""
    found = F.lit(None).cast("long")
    for name, number in numbers.items():
        found = F.when(F.col("vertex") == name, F.lit(number)).otherwise(found)
    return found
