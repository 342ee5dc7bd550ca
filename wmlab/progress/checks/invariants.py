"""Invariants of trackers: N1 to N7 (what an operator believes after each buffer), N10 (chunks); and of
windows and their outputs: N8 (they fire once, in order), N9 (what outputs carry), N11 (slices).

`tracked` is the recording's table `buffers` with what `wmlab.progress.checks.progress` adds, by the set rule. There is
one finding per buffer, sequence or window.

Source: "Watermarking and Progress"; upstream classes `MultiOriginWatermarkProcessor`, `ChunkCollector` and
`DefaultTimeBasedSliceStore`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from wmlab.core.spark.verdict import batch_invariant, findings, phrase, row_of
from wmlab.progress.checks.progress import SLICES, falling_minimum

_NO_WINDOW: Final = "no window fired"
_NO_BUFFER: Final = "no buffer came to an operator"
_PLACE: Final = ("stream", "operator", "arrival")
_LANE: Final = ("stream", "operator", "origin")
_WINDOW: Final = ("stream", "operator", "sequence", "start", "end")
_NAMED: Final = "the window from {start:ms} to {end:ms} of {stream} "
_IDENTIFIERS: Final = (*_PLACE, "origin", "sequence", "chunk", "last", "watermark")


@batch_invariant("prefix and local watermark are those of the longest complete prefix", _NO_BUFFER)
def prefix_decides(tracked: DataFrame) -> DataFrame:
    """N1: prefix and local watermark are those of the longest complete prefix."""
    return _found(
        tracked,
        F.expr("reached_prefix <=> prefix and reached_local <=> local_watermark"),
        "the prefix of {emitter} was taken for {reached_prefix} at {reached_local:ms}; it is {prefix} at "
        "{local_watermark:ms}",
        "reached_prefix",
        "reached_local",
    )


@batch_invariant("a missing sequence blocks the prefix until it comes", _NO_BUFFER)
def gap_blocks(tracked: DataFrame) -> DataFrame:
    """N2: the prefix grows when the sequence right behind it is complete, and then only."""
    what = "the prefix of {emitter} went from {stood_at} to {reached_prefix} with sequence {sequence}"
    grows = "(completed and sequence = stood_at + 1) = (reached_prefix > stood_at) and reached_prefix >= stood_at"
    return _found(tracked.withColumn("stood_at", _stood_at()), F.expr(grows), what, "reached_prefix")


@batch_invariant("a sequence is complete exactly when all its chunks have come", _NO_BUFFER)
def complete_by_the_set(tracked: DataFrame) -> DataFrame:
    """N3: an arrival completes its sequence exactly when it is the last of all chunks to come."""
    wrong = F.when(F.col("completed"), "was taken for complete too early").otherwise("was complete and not seen to be")
    what = "sequence {sequence} of {emitter} {wrong}"
    return _found(tracked.withColumn("wrong", wrong), F.expr("completed = completes"), what, "completed")


@batch_invariant(
    "counting chunks finds the same as their set where none is repeated", "every sequence has a repeated chunk"
)
def count_is_set(tracked: DataFrame, counted: DataFrame) -> DataFrame:
    """N4: the count of chunks is complete with the same arrival as their set, in sequences without a repeat."""
    sequence = [*_LANE, "sequence"]
    chunks = tracked.groupBy(*sequence).agg((F.count("*") > F.count_distinct("chunk")).alias("repeats"))
    other = counted.select(*_PLACE, F.col("completes").alias("by_count"))
    both = tracked.join(other, list(_PLACE)).join(chunks.where("not repeats").drop("repeats"), sequence)
    what = "set and count disagree about sequence {sequence} of {emitter}"
    return _found(both, F.expr("completes = by_count"), what)


@batch_invariant("the watermark of a sequence is the largest of its chunks'", "no prefix grew by one sequence")
def largest_of_its_chunks(tracked: DataFrame) -> DataFrame:
    """N5: where the prefix grows by one sequence, the local watermark is the largest of its chunks or stays above."""
    mine = Window.partitionBy(*_LANE, "sequence").orderBy("arrival")
    before = {"stood_at": _stood_at(), "stood": F.lag("reached_local").over(_arrivals())}
    seen = tracked.withColumns(before | {"largest": F.max("watermark").over(mine)})
    alone = seen.where("completed and reached_prefix = sequence and stood_at = sequence - 1")
    either = F.expr("coalesce(reached_local in (largest, greatest(largest, stood)), false)")
    what = "the local watermark of {emitter} is {reached_local:ms}; the largest of the chunks is {largest:ms}"
    return _found(alone, either, what, "reached_local")


def _arrivals() -> WindowSpec:
    return Window.partitionBy(*_LANE).orderBy("arrival")


def _stood_at() -> Column:
    """The prefix of the origin before the arrival."""
    return F.coalesce(F.lag("reached_prefix").over(_arrivals()), F.lit(0))


@batch_invariant("the global watermark is the smallest local one, unknown while an origin has none", _NO_BUFFER)
def smallest_of_the_origins(tracked: DataFrame) -> DataFrame:
    """N6: the global watermark is the smallest of the recorded local ones, unknown while a declared origin has none."""
    recorded = tracked.drop("local_watermark", "global_watermark").withColumns(
        {"local_watermark": F.col("reached_local"), "_next": F.lead("arrival").over(_arrivals())}
    )
    operators = tracked.groupBy("stream", "operator").agg(F.max("arrival").alias("_end"))
    found = falling_minimum(recorded, operators)
    what = "the global watermark is {reached:ms}; the smallest local one is {global_watermark:ms}"
    return _found(found, F.expr("reached <=> global_watermark"), what, "reached_local", "reached")


@batch_invariant(
    "the local watermark is between that at the head of the prefix and its running maximum",
    "no origin has a local watermark",
)
def head_below_maximum(head: DataFrame, running_max: DataFrame) -> DataFrame:
    """N7: the value at the head of the prefix <= the recorded local watermark <= the running maximum of the prefix."""
    highest = running_max.select(*_PLACE, F.col("local_watermark").alias("highest"))
    both = head.join(highest, list(_PLACE)).where("reached_local is not null")
    between = F.expr("coalesce(reached_local between local_watermark and highest, false)")
    what = "the local watermark of {emitter} is {reached_local:ms}, not from {local_watermark:ms} to {highest:ms}"
    return _found(both, between, what, "reached_local")


@batch_invariant("no chunk comes twice, and only the one with the highest number is the last", _NO_BUFFER)
def chunks_in_order(buffers: DataFrame) -> DataFrame:
    """N10: no chunk of a sequence comes twice, one at most is the last, and none has a higher number."""
    sequences = buffers.groupBy(*_LANE, "emitter", "sequence").agg(
        F.count("*").alias("came"),
        F.count_distinct("chunk").alias("distinct_chunks"),
        F.count_if("last").alias("lasts"),
        F.max(F.when(F.col("last"), F.col("chunk"))).alias("last_chunk"),
        F.max("chunk").alias("highest"),
        F.max("arrived_ms").alias("at_ms"),
        F.sort_array(F.collect_list("chunk")).alias("chunks"),
    )
    listed = F.array_join(F.col("chunks").cast("array<string>"), ", ")
    what = "sequence {sequence} of {emitter} at {operator} has the chunks {listed} and {lasts} last flags"
    return findings(
        sequences,
        ok=F.expr("came = distinct_chunks and (lasts = 0 or (lasts = 1 and last_chunk = highest))"),
        at_ms="at_ms",
        what=phrase(what, listed=listed),
        evidence=[row_of("buffers", *_LANE, "sequence", "chunks", "last_chunk")],
    )


def _found(frame: DataFrame, ok: Column, what: str, *columns: str) -> DataFrame:
    """A finding per arrival, with some columns beside those that identify it."""
    return findings(
        frame,
        ok=ok,
        at_ms="arrived_ms",
        what="after arrival {arrival} at {operator} of {stream} " + what,
        evidence=[row_of("buffers", *_IDENTIFIERS, *columns)],
    )


@batch_invariant(
    "windows fire once, in order of end, numbered without a gap, not before time has come to their end", _NO_WINDOW
)
def fires_once(windows_fired: DataFrame) -> DataFrame:
    """N8: windows fire once, in order of end, numbered 1, 2, ..., not before the watermark has come to their end."""
    outputs = Window.partitionBy("stream", "operator").orderBy("sequence")
    seen = windows_fired.withColumns(
        {
            "number": F.row_number().over(outputs),
            "before": F.coalesce(F.lag("end").over(outputs), F.col("end")),
            "early": (F.col("cause") == "watermark") & F.coalesce(F.col("end") > F.col("reached"), F.lit(True)),
        }
    )
    in_order = F.col("before") <= F.col("end")
    wrong = (
        F.when(F.col("again"), F.lit("fired again"))
        .when(F.col("early"), phrase("fired at {reached:ms}"))
        .when(~in_order, phrase("fired after the one that ends at {before:ms}"))
        .otherwise(phrase("is number {number}"))
    )
    return findings(
        seen,
        ok=~F.col("again") & (F.col("number") == F.col("sequence")) & in_order & ~F.col("early"),
        at_ms="fired_ms",
        what=phrase(_NAMED + "{wrong}", wrong=wrong),
        evidence=[row_of("windows_fired", *_WINDOW, "arrival", "reached", "cause", "again")],
    )


@batch_invariant("outputs carry the start of their window, which never goes back", _NO_WINDOW)
def outputs_carry_the_start(windows_fired: DataFrame, buffers: DataFrame) -> DataFrame:
    """N9: what the probe is given carries the start of its window, and no later window starts earlier."""
    outputs = Window.partitionBy("stream", "operator").orderBy("sequence")
    in_order = findings(
        windows_fired.withColumn("before", F.lag("start").over(outputs)).where("before is not null"),
        ok=F.col("start") >= F.col("before"),
        at_ms="fired_ms",
        what=_NAMED + "starts before the one ahead of it, {before:ms}",
        evidence=[row_of("windows_fired", *_WINDOW)],
    )
    given = buffers.where("operator = 'probe'").select(
        "stream", "origin", "sequence", "chunk", "watermark", "arrived_ms"
    )
    carried = findings(
        windows_fired.join(given, ["stream", "origin", "sequence"]),
        ok=F.col("watermark") == F.col("start"),
        at_ms="arrived_ms",
        what=_NAMED + "goes out with the watermark {watermark:ms}",
        evidence=[row_of("windows_fired", *_WINDOW), row_of("buffers", "origin", "sequence", "chunk", "watermark")],
    )
    return in_order.unionByName(carried)


@batch_invariant("a window holds the records of its slices", _NO_WINDOW)
def windows_are_their_slices(windows_fired: DataFrame, buffers: DataFrame) -> DataFrame:
    """N11: a window holds the records that had come in its slices when it fired; double fires are left to N8."""
    place = ["stream", "operator", "sequence"]
    sliced = buffers.selectExpr("stream", "operator", "arrival as came", f"{SLICES} as (slice, held)")
    once = windows_fired.where("not again")
    inside = "slice >= start and slice < end and (arrival is null or came <= arrival)"
    held = once.join(sliced, ["stream", "operator"]).where(inside)
    counted = held.groupBy(*place).agg(F.sum("held").alias("in_slices"))
    return findings(
        once.join(counted, place, "left").fillna(0, ["in_slices"]),
        ok=F.col("records") == F.col("in_slices"),
        at_ms="fired_ms",
        what=_NAMED + "held {records} records; its slices have {in_slices}",
        evidence=[row_of("windows_fired", *_WINDOW, "records", "arrival")],
    )
