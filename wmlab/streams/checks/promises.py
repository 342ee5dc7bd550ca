"""Invariants of what the document promises of time: I10 (progress), I11 and I12 (the two sentences of `TimeWindow`).

A *generation* is a run of cycles of one owner of the bucket that found the same previous lower bound and some writer
beyond it. Whoever was behind in its first cycle has recovered or is removed one timeout later, so a cycle then emits.
Owners lose their clocks with the bucket, so a takeover begins a generation anew; while nobody owns the bucket there are
no cycles, and nothing is judged. What does not count is the writers' doing: one that comes with an old time meanwhile
is waited for anew, and one that notes the smallest time of all, or a position in a segment which the stream never had,
stops every cycle; so do writers of which none notes a position in any segment.

A location of the stream has a time by its events: a noted time is before it if it was accepted before the newest
event there was appended.

Source: PDP-33, Periodic Watermark Workflow ("bounded to run and produce a watermark ... within one timeout period"),
and PDP-33, Event Reader API Changes (TimeWindow).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.verdict import SO_FAR, finding_rows, findings, phrase, row_of
from wmlab.streams.checks.log import accepted, read_at, with_writers
from wmlab.streams.checks.readers import of_each_writer

_CYCLE: Final = ("stream", "controller", "at_ms", "previous_lower", "participating", "lagging", "outcome", "reason")


def lower_rises(cycles: DataFrame, ownership: DataFrame) -> DataFrame:
    """I10: a cycle that runs one timeout after its generation began emits a watermark.

    One finding per cycle that found a writer beyond the previous lower bound. The timeout runs from the second cycle
    of the generation: it began when the first had ended. Cycles without a recorded timeout are not judged.
    """
    conflict = F.col("reason").startswith("conflict")
    stands = (F.size("participating") > 0) & (F.col("outcome") == "held") & ~conflict
    titles = cycles.select("stream", F.substring_index("stream", "#", 1).alias("name")).distinct()
    taken = ownership.select(F.explode("streams").alias("name"), F.col("from_ms").alias("at_ms")).join(titles, "name")
    rows = cycles.withColumn("stands", stands).unionByName(taken.drop("name"), allowMissingColumns=True)
    by_time = Window.partitionBy("stream").orderBy("at_ms", F.asc_nulls_first("controller"), "outcome", "reason")
    same, lower = (F.lag(column).over(by_time).eqNullSafe(F.col(column)) for column in ("controller", "previous_lower"))
    goes_on = F.coalesce(F.lag("stands").over(by_time), F.lit(False)) & same & lower
    numbered = rows.withColumn("begins", (~goes_on).cast("int"))
    numbered = numbered.withColumn("generation", F.sum("begins").over(by_time)).where("size(participating) > 0")
    within = Window.partitionBy("stream", "generation").orderBy("at_ms", "outcome", "reason").rowsBetween(*SO_FAR)
    judged = numbered.where("timeout_ms is not null").withColumns(
        {
            "first": F.first(F.struct(*_CYCLE)).over(within),
            "since_ms": F.nth_value("at_ms", 2).over(within),
            "gone": F.flatten(F.collect_list("removed").over(within)),
        }
    )
    overdue = F.coalesce(F.col("stands") & (F.col("at_ms") >= F.col("since_ms") + F.col("timeout_ms")), F.lit(False))
    since_then = F.array_except(F.array_intersect("first.lagging", "lagging"), "gone")
    lost = F.col("reason").rlike("^cut failed: (unknown segment|no positions)|^time not advanced$")
    blamed = overdue & F.when(F.size("lagging") == 0, ~lost).otherwise(F.size(since_then) > 0)
    what = phrase(
        "the lower bound stands at {previous_lower:ms} at {at_ms:ms}, more than the timeout of {timeout_ms:ms} after "
        "{controller} found a writer beyond it: {reason}"
    )
    joined = phrase("{what}; these came meanwhile with old times", what=what)
    proof = F.array(row_of("cycles", *(f"first.{column}" for column in _CYCLE)), row_of("cycles", *_CYCLE))
    return finding_rows(
        judged,
        at_ms=F.col("at_ms"),
        ok=~blamed,
        judged=F.lit(1),
        what=F.when(overdue, F.when(blamed | lost, what).otherwise(joined)),
        evidence=F.when(overdue, proof),
    )


def upper_covers_noted(
    watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame, events: DataFrame
) -> DataFrame:
    """I11: the upper bound is at or above every time accepted before the newest event that the cut covers was appended.

    One finding per watermark after such a time. What is accepted while the cycle reads the marks, one after the other,
    may be missing; so may be what is accepted later, even if a writer gave a position that it had not reached. A null
    in a cut is the end of the segment, so that the event may be later (issue 6510 upstream).
    """
    entry = F.struct("seq", "upper", "read_ms", "emitted_ms").alias("entry")
    cuts = read_at(with_writers(watermarks), cycles).select(
        "stream", entry, F.explode("cut").alias("segment_id", "offset")
    )
    reach = cuts.withColumns({"ends": F.col("offset").isNull(), "offset": F.coalesce("offset", F.lit(2**63 - 1))})
    places = events.select("stream", "segment_id", "offset", "append_ms").unionByName(reach, allowMissingColumns=True)
    upwards = Window.partitionBy("stream", "segment_id").orderBy("offset", F.asc_nulls_first("entry.seq"))
    covered = places.withColumn("covered_ms", F.max("append_ms").over(upwards.rowsBetween(*SO_FAR)))
    later = F.col("ends") & (F.col("covered_ms") > F.col("entry.emitted_ms"))
    until_ms = F.when(later, F.col("covered_ms")).otherwise(F.least("covered_ms", "entry.read_ms"))
    known = covered.where("entry is not null and covered_ms is not null").withColumn("until_ms", until_ms)
    limited = known.groupBy("stream", "entry").agg(F.max(F.struct("until_ms", "covered_ms")).alias("newest"))
    mark = F.struct("time", "writer", "received_ms").alias("noted")
    marks = accepted(writer_marks).select("stream", F.col("received_ms").alias("until_ms"), mark)
    before = Window.partitionBy("stream").orderBy("until_ms").rangeBetween(Window.unboundedPreceding, -1)
    both = (
        limited.select("stream", "entry", "newest.*")
        .unionByName(marks, allowMissingColumns=True)
        .withColumn("noted", F.max("noted").over(before))
    )
    pairs = both.where("entry is not null and noted is not null")
    return findings(
        pairs.select("stream", "covered_ms", "entry.*", "noted.*"),
        ok=F.col("upper") >= F.col("time"),
        at_ms="emitted_ms",
        what="watermark {seq} has upper {upper:ms}, but {writer} had noted {time:ms} at {received_ms:ms}, before an "
        "event was appended at {covered_ms:ms} that its cut covers",
        evidence=[
            row_of("watermarks", "stream", "seq", "upper", "emitted_ms"),
            row_of("writer_marks", "stream", "writer", "time", "received_ms"),
            row_of("events", "stream", "covered_ms as append_ms"),
        ],
    )


def lower_below_latest(watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame) -> DataFrame:
    """I12: the lower bound is at or below the latest time of every writer on record when its watermark was appended.

    On record is a writer that had noted a time before the cycle began, and that no cycle had removed since. One
    finding per watermark and such a writer.
    """
    latest = F.greatest("time", "latest")
    known = of_each_writer(watermarks, writer_marks, cycles).where("time is not null or excuse is null")
    return findings(
        known.withColumn("latest", latest),
        ok=F.col("lower") <= F.col("latest"),
        at_ms="emitted_ms",
        what="watermark {seq} has lower {lower:ms}, but {writer} had noted {latest:ms} at the latest",
        evidence=[
            row_of("watermarks", "stream", "seq", "lower", "emitted_ms"),
            row_of("writer_marks", "stream", "writer", "latest as time"),
        ],
    )
