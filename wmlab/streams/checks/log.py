"""The log of watermarks: I1 and I2 (its bounds rise), I7 (they are in order), I8 (one winner per revision), and which
marks each watermark counted.

Source: PDP-33, Internal Changes (marks segment) and Periodic Watermark Workflow; upstream classes `WatermarkClient`,
`RevisionedStreamClientImpl` and `PeriodicWatermarking`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.verdict import BEFORE, findings, phrase, previous, row_of, rows_of_pair, undecided
from wmlab.streams.bounds.log_by_segment import is_end


def lower_increases(watermarks: DataFrame) -> DataFrame:
    """I1: the lower bound strictly increases along the log; one finding per pair of neighbouring entries."""
    return findings(
        _pairs(with_writers(watermarks)).where("before is not null"),
        ok=F.col("lower") > F.col("before.lower"),
        at_ms="emitted_ms",
        what="lower goes from {before.lower:ms} to {lower:ms} between watermarks {before.seq} and {seq}",
        evidence=_both("lower"),
    )


def upper_never_decreases(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """I2: under a single leader the upper bound never decreases; one finding per pair of neighbouring entries.

    Where the cycles of two controllers overlap in time nothing is decided: one finding that says so.
    """
    rivals = _rivals(watermarks, cycles)
    pairs = _pairs(watermarks).where("before is not null").join(F.broadcast(rivals), "stream", "left_anti")
    found = findings(
        pairs,
        ok=F.col("upper") >= F.col("before.upper"),
        at_ms="emitted_ms",
        what="upper goes from {before.upper:ms} to {upper:ms} between watermarks {before.seq} and {seq}",
        evidence=_both("upper"),
    )
    why = phrase("not promised: {first} and {second} both led {stream} for a while")
    return found.unionByName(undecided(rivals, why))


def bounds_in_order(watermarks: DataFrame, windows: DataFrame) -> DataFrame:
    """I7: lower <= upper, in every watermark and in every window that has both bounds."""
    in_order = F.col("lower") <= F.col("upper")
    log = findings(
        watermarks,
        ok=in_order,
        at_ms="emitted_ms",
        what="watermark {seq} has lower {lower:ms} above upper {upper:ms}",
        evidence=[row_of("watermarks", "stream", "seq", "lower", "upper", "emitted_ms")],
    )
    shown = findings(
        windows.where("lower is not null and upper is not null"),
        ok=in_order,
        at_ms="at_ms",
        what="the window of {reader} has lower {lower:ms} above upper {upper:ms}",
        evidence=[row_of("windows", "stream", "group", "reader", "lower", "upper", "at_ms")],
    )
    return log.unionByName(shown)


def one_winner(watermarks: DataFrame) -> DataFrame:
    """I8: every revision of the log, and every place in it, has one entry; one finding per entry."""
    seq, revision, before = F.col("seq"), F.col("revision"), F.col("before")
    follows = (seq > before["seq"]) & (revision > before["revision"])
    same = phrase("watermarks {before.seq} and {seq} both end at revision {revision}")
    other = phrase("watermark {seq} ends at revision {revision}, watermark {before.seq} at {before.revision}")
    return findings(
        _pairs(watermarks),
        ok=before.isNull() | F.coalesce(follows, F.lit(False)),
        at_ms="emitted_ms",
        what=F.when(revision == before["revision"], same).otherwise(other),
        evidence=_both("revision", "controller"),
    )


def with_writers(watermarks: DataFrame) -> DataFrame:
    """The watermarks without ends of known time, which count no writers."""
    return watermarks.where(~is_end(watermarks))


def _pairs(watermarks: DataFrame) -> DataFrame:
    """Every entry of a log, with the one before it as `before`; null for the first."""
    columns = ("stream", "seq", "lower", "upper", "controller", "emitted_ms", "revision")
    before = previous(columns, by=["stream"], order=["seq", "revision", "emitted_ms"])
    return watermarks.select(*columns, before.alias("before"))


def _both(*columns: str) -> list[Column]:
    return rows_of_pair("watermarks", "stream", "seq", *columns, "emitted_ms")


def _rivals(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """Streams in which two controllers led at the same time: stream, first, second (the controllers)."""
    led = cycles.select("stream", "controller", "at_ms").unionByName(
        watermarks.select("stream", "controller", F.col("emitted_ms").alias("at_ms"))
    )
    terms = led.groupBy("stream", "controller").agg(F.min("at_ms").alias("begin"), F.max("at_ms").alias("end"))
    earlier = Window.partitionBy("stream").orderBy("begin", "end", "controller").rowsBetween(*BEFORE)
    longest = F.max(F.struct("end", "controller")).over(earlier)
    overlaps = terms.withColumn("before", longest).where("before.end >= begin")
    pair = F.min(F.struct(F.col("before.controller").alias("first"), F.col("controller").alias("second")))
    return overlaps.groupBy("stream").agg(pair.alias("pair")).select("stream", "pair.first", "pair.second")


def accepted(writer_marks: DataFrame) -> DataFrame:
    """The marks that were stored: stream, writer, time, received_ms, position."""
    return writer_marks.where("outcome = 'success'").select("stream", "writer", "time", "received_ms", "position")


def with_counted(watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame) -> DataFrame:
    """The watermarks with `counted`: the marks of every counted writer that the cycle can have read.

    A mark was counted with its time. Of several with that time the cycle read the last one before it ran, or one that
    arrived in the same millisecond or until the append. `counted` is null when there is none.
    """
    counted = read_at(watermarks, cycles).select(
        "stream", "seq", "emitted_ms", "read_ms", F.explode("writers").alias("writer", "time")
    )
    pairs = counted.join(accepted(writer_marks), ["stream", "writer", "time"]).where("received_ms <= emitted_ms")
    one_writer = Window.partitionBy("stream", "seq", "writer")
    last_before = F.max(F.when(F.col("received_ms") < F.col("read_ms"), F.col("received_ms"))).over(one_writer)
    readable = pairs.withColumn("since_ms", last_before).where("since_ms is null or received_ms >= since_ms")
    mark = F.struct("writer", "received_ms", "time", "position")
    listed = readable.groupBy("stream", "seq").agg(F.collect_list(mark).alias("counted"))
    return watermarks.join(listed, ["stream", "seq"], "left")


def read_at(watermarks: DataFrame, cycles: DataFrame) -> DataFrame:
    """The watermarks with `read_ms`: when the cycle that emitted each one began, to read the marks first of all.

    That cycle is the one of the same controller whose previous lower bound is that of the entry before. A controller
    that goes down after the append leaves no row of it; then the controller's last cycle before that counts, which is
    earlier, and without any the moment of the append.
    """
    log = Window.partitionBy("stream").orderBy("seq", "revision")
    entries = watermarks.withColumn("previous_lower", F.lag("lower").over(log)).alias("entry")
    place = ("stream", "controller", "previous_lower")
    ran = cycles.where("outcome = 'emitted'").groupBy(*place).agg(F.max("at_ms").alias("began_ms"))
    same = [F.col(f"entry.{name}").eqNullSafe(F.col(f"ran.{name}")) for name in place]
    matched = entries.join(F.broadcast(ran).alias("ran"), same, "left").select("entry.*", "began_ms")
    others = cycles.select("stream", "controller", F.col("at_ms").alias("emitted_ms"), F.col("at_ms").alias("last_ms"))
    both = matched.drop("previous_lower").unionByName(others, allowMissingColumns=True)
    by_time = Window.partitionBy("stream", "controller").orderBy("emitted_ms", F.col("seq").asc_nulls_first())
    last_ms = F.last("last_ms", ignorenulls=True).over(by_time)
    read_ms = F.coalesce("began_ms", last_ms, "emitted_ms")
    return both.withColumn("read_ms", read_ms).where("seq is not null").drop("began_ms", "last_ms")
