"""Invariants of the marks log: I1 and I2 (its bounds rise), I7 (they are in order), I8 (one winner per revision).

Source: PDP-33, Internal Changes (marks segment); upstream classes `WatermarkClient` and `RevisionedStreamClientImpl`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.findings import findings, ms, row_of, say, unjudged


def lower_increases(watermarks: DataFrame) -> DataFrame:
    """I1: the lower bound strictly increases along the log; one finding per pair of neighbouring entries.

    `watermarks` is the recording's table. Returns `FINDINGS`.
    """
    pairs = _pairs(watermarks).where("before is not null")
    return findings(
        pairs,
        ok=F.col("entry.lower") > F.col("before.lower"),
        at_ms=F.col("entry.emitted_ms"),
        what=say("lower goes from ", ms(F.col("before.lower")), " to ", ms(F.col("entry.lower")), _place()),
        evidence=_both("lower"),
    )


def upper_never_decreases(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """I2: under a single leader the upper bound never decreases; one finding per pair of neighbouring entries.

    Where the cycles of two controllers overlap in time the bound is not promised: one finding without judgement.
    `watermarks` and `cycles` are the recording's tables. Returns `FINDINGS`.
    """
    rivals = _rivals(watermarks, cycles)
    pairs = _pairs(watermarks).where("before is not null").join(F.broadcast(rivals), "stream", "left_anti")
    judged = findings(
        pairs,
        ok=F.col("entry.upper") >= F.col("before.upper"),
        at_ms=F.col("entry.emitted_ms"),
        what=say("upper goes from ", ms(F.col("before.upper")), " to ", ms(F.col("entry.upper")), _place()),
        evidence=_both("upper"),
    )
    why = say("not promised: ", F.col("first"), " and ", F.col("second"), " both led ", F.col("stream"), " for a while")
    return judged.unionByName(unjudged(rivals, why))


def bounds_in_order(watermarks: DataFrame, windows: DataFrame) -> DataFrame:
    """I7: lower <= upper, in every watermark and in every window that has both bounds.

    `watermarks` and `windows` are the recording's tables. Returns `FINDINGS`.
    """
    in_order = F.col("lower") <= F.col("upper")
    above = (" has lower ", ms(F.col("lower")), " above upper ", ms(F.col("upper")))
    log = findings(
        watermarks,
        ok=in_order,
        at_ms=F.col("emitted_ms"),
        what=say("watermark ", F.col("seq"), *above),
        evidence=[row_of("watermarks", "stream", "seq", "lower", "upper", "emitted_ms")],
    )
    seen = findings(
        windows.where("lower is not null and upper is not null"),
        ok=in_order,
        at_ms=F.col("at_ms"),
        what=say("the window of ", F.col("reader"), *above),
        evidence=[row_of("windows", "stream", "group", "reader", "lower", "upper", "at_ms")],
    )
    return log.unionByName(seen)


def one_winner(watermarks: DataFrame) -> DataFrame:
    """I8: every revision of the log, and every place in it, has one entry; one finding per entry.

    `watermarks` is the recording's table. Returns `FINDINGS`.
    """
    entry, before = F.col("entry"), F.col("before")
    follows = (entry["seq"] > before["seq"]) & (entry["revision"] > before["revision"])
    shared = say("watermarks ", before["seq"], " and ", entry["seq"], " both end at revision ", entry["revision"])
    astray = say("watermark ", entry["seq"], " ends at revision ", entry["revision"], ", watermark ", before["seq"],
                 " at ", before["revision"])  # fmt: skip
    return findings(
        _pairs(watermarks),
        ok=before.isNull() | F.coalesce(follows, F.lit(False)),
        at_ms=entry["emitted_ms"],
        what=F.when(entry["revision"] == before["revision"], shared).otherwise(astray),
        evidence=_both("revision", "controller"),
    )


def _pairs(watermarks: DataFrame) -> DataFrame:
    """Every entry of a log as `entry`, with the one before it as `before`; null for the first."""
    log = Window.partitionBy("stream").orderBy("seq", "revision", "emitted_ms")
    entry = F.struct("stream", "seq", "lower", "upper", "controller", "emitted_ms", "revision")
    return watermarks.select("stream", entry.alias("entry"), F.lag(entry).over(log).alias("before"))


def _place() -> Column:
    return say(" between watermarks ", F.col("before.seq"), " and ", F.col("entry.seq"))


def _both(*columns: str) -> list[Column]:
    """The two rows of a pair as evidence."""
    return [
        row_of(
            "watermarks", *(F.col(f"{side}.{name}").alias(name) for name in ("stream", "seq", *columns, "emitted_ms"))
        )
        for side in ("before", "entry")
    ]


def _rivals(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """Streams in which two controllers led at the same time: stream, first, second (the controllers)."""
    led = cycles.select("stream", "controller", "at_ms").unionByName(
        watermarks.select("stream", "controller", F.col("emitted_ms").alias("at_ms"))
    )
    terms = led.groupBy("stream", "controller").agg(F.min("at_ms").alias("begin"), F.max("at_ms").alias("end"))
    earlier = (
        Window.partitionBy("stream").orderBy("begin", "end", "controller").rowsBetween(Window.unboundedPreceding, -1)
    )
    longest = F.max(F.struct("end", "controller")).over(earlier)
    overlaps = terms.withColumn("before", longest).where(F.col("before.end") >= F.col("begin"))
    pair = F.min(F.struct(F.col("before.controller").alias("first"), F.col("controller").alias("second")))
    return overlaps.groupBy("stream").agg(pair.alias("pair")).select("stream", "pair.first", "pair.second")
