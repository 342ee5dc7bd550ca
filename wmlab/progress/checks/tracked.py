"""Promises about trackers: N1 to N7 (what an operator believes after each buffer), N10 (chunks), N12 (ranges).

`progress` is the recording's table `buffers` with what `wmlab.progress.checks.progress` adds, by the set rule. Every
function returns `FINDINGS`, one per buffer or sequence.

Source: "Watermarking and Progress"; upstream classes `MultiOriginWatermarkProcessor` and `ChunkCollector`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.findings import findings, ms, row_of, say, unjudged
from wmlab.progress.checks.progress import falling_minimum

_PLACE: Final = ("stream", "operator", "arrival")
_LANE: Final = ("stream", "operator", "origin")
_BLOCK_BITS: Final = 14
_IDENTIFIERS: Final = (*_PLACE, "origin", "sequence", "chunk", "last", "watermark")


def prefix_decides(progress: DataFrame) -> DataFrame:
    """N1: prefix and local watermark are those of the longest complete prefix."""
    same = F.col("reached_prefix").eqNullSafe(F.col("prefix"))
    alike = F.col("reached_local").eqNullSafe(F.col("local_watermark"))
    what = say(
        _after(), "the prefix of ", F.col("emitter"), " was taken for ", F.col("reached_prefix"), " at ",
        ms(F.col("reached_local")), "; it is ", F.col("prefix"), " at ", ms(F.col("local_watermark")),
    )  # fmt: skip
    return _judged(progress, same & alike, what, "reached_prefix", "reached_local")


def gap_blocks(progress: DataFrame) -> DataFrame:
    """N2: the prefix grows when the sequence right behind it is complete, and then only."""
    order = Window.partitionBy(*_LANE).orderBy("arrival")
    seen = progress.withColumn("stood_at", F.coalesce(F.lag("reached_prefix").over(order), F.lit(0)))
    next_one = F.col("completed") & (F.col("sequence") == F.col("stood_at") + 1)
    grown = F.col("reached_prefix") > F.col("stood_at")
    what = say(
        _after(), "the prefix of ", F.col("emitter"), " went from ", F.col("stood_at"), " to ", F.col("reached_prefix"),
        " with sequence ", F.col("sequence"),
    )  # fmt: skip
    return _judged(seen, (next_one == grown) & (F.col("reached_prefix") >= F.col("stood_at")), what, "reached_prefix")


def complete_by_the_set(progress: DataFrame) -> DataFrame:
    """N3: an arrival completes its sequence exactly when it is the last of all chunks to come."""
    told = F.when(F.col("completed"), "was taken for complete too early").otherwise("was complete and not seen to be")
    what = say(_after(), "sequence ", F.col("sequence"), " of ", F.col("emitter"), " ", told)
    return _judged(progress, F.col("completed") == F.col("completes"), what, "completed")


def count_is_set(progress: DataFrame, counted: DataFrame) -> DataFrame:
    """N4: the count of chunks is complete with the same arrival as their set, in sequences without a repeat."""
    sequence = [*_LANE, "sequence"]
    repeats = progress.groupBy(*sequence).agg((F.count("*") > F.count_distinct("chunk")).alias("repeats"))
    other = counted.select(*_PLACE, F.col("completes").alias("by_count"))
    both = progress.join(other, list(_PLACE)).join(repeats.where(~F.col("repeats")).drop("repeats"), sequence)
    what = say(_after(), "set and count disagree about sequence ", F.col("sequence"), " of ", F.col("emitter"))
    return _judged(both, F.col("completes") == F.col("by_count"), what)


def largest_of_its_chunks(progress: DataFrame) -> DataFrame:
    """N5: where the prefix grows by one sequence, the local watermark is the largest of its chunks or stays above."""
    order = Window.partitionBy(*_LANE).orderBy("arrival")
    mine = Window.partitionBy(*_LANE, "sequence").orderBy("arrival")
    seen = progress.withColumns(
        {
            "stood_at": F.coalesce(F.lag("reached_prefix").over(order), F.lit(0)),
            "stood": F.lag("reached_local").over(order),
            "largest": F.max("watermark").over(mine),
        }
    )
    alone = seen.where("completed and reached_prefix = sequence and stood_at = sequence - 1")
    either = F.col("reached_local").isin(F.col("largest"), F.greatest("largest", "stood"))
    what = say(
        _after(), "the local watermark of ", F.col("emitter"), " is ", ms(F.col("reached_local")),
        "; the largest of the chunks is ", ms(F.col("largest")),
    )  # fmt: skip
    return _judged(alone, F.coalesce(either, F.lit(False)), what, "reached_local")


def smallest_of_the_origins(progress: DataFrame) -> DataFrame:
    """N6: the global watermark is the smallest of the recorded local ones, unknown while a declared origin has none."""
    order = Window.partitionBy(*_LANE).orderBy("arrival")
    told = progress.drop("local_watermark", "global_watermark").withColumns(
        {"local_watermark": F.col("reached_local"), "next": F.lead("arrival").over(order)}
    )
    operators = progress.groupBy("stream", "operator").agg(F.max("arrival").alias("end"))
    found = falling_minimum(told, operators, bits=_BLOCK_BITS)
    what = say(
        _after(), "the global watermark is ", ms(F.col("reached")), "; the smallest local one is ",
        ms(F.col("global_watermark")),
    )  # fmt: skip
    return _judged(found, F.col("reached").eqNullSafe(F.col("global_watermark")), what, "reached_local", "reached")


def head_below_maximum(head: DataFrame, running_max: DataFrame) -> DataFrame:
    """N7: the value at the head of the prefix <= the recorded local watermark <= the running maximum of the prefix."""
    highest = running_max.select(*_PLACE, F.col("local_watermark").alias("highest"))
    both = head.join(highest, list(_PLACE)).where("reached_local is not null")
    between = F.col("reached_local").between(F.col("local_watermark"), F.col("highest"))
    what = say(
        _after(), "the local watermark of ", F.col("emitter"), " is ", ms(F.col("reached_local")), ", not from ",
        ms(F.col("local_watermark")), " to ", ms(F.col("highest")),
    )  # fmt: skip
    return _judged(both, F.coalesce(between, F.lit(False)), what, "reached_local")


def chunks_in_order(buffers: DataFrame) -> DataFrame:
    """N10: no chunk of a sequence comes twice, one at most is the last, and none has a higher number."""
    sequences = buffers.groupBy(*_LANE, "emitter", "sequence").agg(
        F.count("*").alias("came"),
        F.count_distinct("chunk").alias("distinct"),
        F.count_if("last").alias("lasts"),
        F.max(F.when(F.col("last"), F.col("chunk"))).alias("last_chunk"),
        F.max("chunk").alias("highest"),
        F.max("arrived_ms").alias("at_ms"),
        F.sort_array(F.collect_list("chunk")).alias("chunks"),
    )
    ended = (F.col("lasts") == 0) | ((F.col("lasts") == 1) & (F.col("last_chunk") == F.col("highest")))
    chunks = F.array_join(F.col("chunks").cast("array<string>"), ", ")
    what = say(
        "sequence ", F.col("sequence"), " of ", F.col("emitter"), " at ", F.col("operator"), " has the chunks ",
        chunks, " and ", F.col("lasts"), " last flags",
    )  # fmt: skip
    shown = row_of("buffers", *_LANE, "sequence", "chunks", "last_chunk")
    return findings(
        sequences,
        ok=(F.col("came") == F.col("distinct")) & ended,
        at_ms=F.col("at_ms"),
        what=what,
        evidence=[shown],
    )


def fractured_ranges(buffers: DataFrame) -> DataFrame:
    """N12 cannot be judged: no recording has ranges of fractured numbers."""
    return unjudged(buffers.limit(0), F.lit(None).cast("string"))


def _after() -> Column:
    return say("after arrival ", F.col("arrival"), " at ", F.col("operator"), " of ", F.col("stream"), " ")


def _judged(frame: DataFrame, ok: Column, what: Column, *columns: str) -> DataFrame:
    return findings(
        frame, ok=ok, at_ms=F.col("arrived_ms"), what=what, evidence=[row_of("buffers", *_IDENTIFIERS, *columns)]
    )
