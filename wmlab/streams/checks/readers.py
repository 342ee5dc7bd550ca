"""Invariants of what readers see: I6 (nothing behind the shown lower bound) and I9 (windows only move forward).

Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.findings import FINDINGS, findings, ms, row_of, say, segment_name
from wmlab.streams.checks.late import blamed, delivered, late


def nothing_late(
    reads: DataFrame,
    windows: DataFrame,
    events: DataFrame,
    watermarks: DataFrame,
    marks: DataFrame,
    cycles: DataFrame,
    segments: DataFrame,
) -> DataFrame:
    """I6: no event of a well-behaved writer is read first after a window of its group showed a larger lower bound.

    Only first deliveries count: what is read again after a reset proves nothing. An event does not count either when
    its writer had been dropped, had noted no time yet, or had noted a larger time without having the event
    acknowledged; `wmlab.streams.checks.late.late_events` lists those. Takes the recording's tables. Returns `FINDINGS`:
    one that stands for all events read, and one per late event: bad if it counts, good with its evidence if not.
    """
    read = delivered(reads, windows, events)
    judged = read.groupBy("stream").agg(F.count("*").alias("judged")).select(
        "stream",
        F.lit(None).cast("long").alias("at_ms"),
        F.lit(True).alias("ok"),
        "judged",
        F.lit(None).cast("string").alias("what"),
        F.lit(None).cast(FINDINGS["evidence"].dataType).alias("evidence"),
    )  # fmt: skip
    late_ones = blamed(late(read), watermarks, marks, cycles, segments)
    what = say(
        "an event of ", F.col("writer"), " with time ", ms(F.col("event_time")), " in ",
        segment_name(F.col("segment_id")), " is read at ", ms(F.col("read_ms")), ", after ", F.col("shown_to"),
        " saw lower ", ms(F.col("promised")),
    )  # fmt: skip
    proof = late_ones.select(
        "stream",
        F.col("read_ms").alias("at_ms"),
        F.col("because").isNotNull().alias("ok"),
        # The event is judged already, by the finding that stands for all of them.
        F.lit(0).cast("long").alias("judged"),
        F.when(F.col("because").isNull(), what).otherwise(say(what, "; ", F.col("because"))).alias("what"),
        F.array(
            row_of("windows", "stream", "group", F.col("shown_to").alias("reader"), F.col("promised").alias("lower"),
                   F.col("shown_ms").alias("at_ms")),
            row_of("events", "stream", "segment_id", "offset", "event_time", "append_ms", "writer"),
            row_of("reads", "stream", "group", "reader", "segment_id", F.col("after").alias("from_offset"),
                   F.col("reached").alias("to_offset"), F.col("read_ms").alias("at_ms")),
        ).alias("evidence"),
    )  # fmt: skip
    return judged.unionByName(proof)


def windows_monotone(windows: DataFrame, watermarks: DataFrame, faults: DataFrame) -> DataFrame:
    """I9: the lower bound of a reader's windows never goes back, nor becomes unknown; known upper bounds neither.

    One finding per pair of neighbouring windows of a reader. A fault that befell the reader or its group parts them:
    a new reader object may start earlier. Upper bounds are left out where those of the log go back themselves.
    Takes the recording's tables. Returns `FINDINGS`.
    """
    log = Window.partitionBy("stream").orderBy("seq")
    fell = F.col("upper") < F.lag("upper").over(log)
    falling = watermarks.select("stream", fell.alias("fell")).where("fell").select("stream").distinct()
    numbered = _lives(windows, faults).join(F.broadcast(falling.withColumn("falls", F.lit(True))), "stream", "left")
    life = Window.partitionBy("stream", "group", "reader", "life").orderBy("at_ms", F.asc_nulls_first("lower"), "upper")
    entry = F.struct("stream", "group", "reader", "lower", "upper", "at_ms")
    with_upper = F.when(F.col("upper").isNotNull(), entry)
    pairs = numbered.select(
        "stream",
        "falls",
        entry.alias("entry"),
        F.lag(entry).over(life).alias("before"),
        F.last(with_upper, ignorenulls=True).over(life.rowsBetween(Window.unboundedPreceding, -1)).alias("bounded"),
    ).where("before is not null")
    went_back = _lower_went_back()
    first = F.when(went_back, F.col("before")).otherwise(F.col("bounded"))
    return findings(
        pairs.withColumn("first", first),
        ok=~(went_back | _upper_went_back()),
        at_ms=F.col("entry.at_ms"),
        what=F.when(went_back, _moved("lower")).otherwise(_moved("upper")),
        evidence=[_window("first"), _window("entry")],
    )


def _lower_went_back() -> Column:
    before, now = F.col("before.lower"), F.col("entry.lower")
    return before.isNotNull() & (now.isNull() | F.coalesce(now < before, F.lit(False)))


def _upper_went_back() -> Column:
    return F.col("falls").isNull() & F.coalesce(F.col("entry.upper") < F.col("bounded.upper"), F.lit(False))


def _moved(bound: str) -> Column:
    places = ms(F.col(f"first.{bound}")), ms(F.col(f"entry.{bound}"))
    return say(f"{bound} of ", F.col("entry.reader"), " goes from ", places[0], " to ", places[1])


def _window(side: str) -> Column:
    columns = ("stream", "group", "reader", "lower", "upper", "at_ms")
    return row_of("windows", *(F.col(f"{side}.{name}").alias(name) for name in columns))


def _lives(windows: DataFrame, faults: DataFrame) -> DataFrame:
    """The windows with `life`: how many faults had befallen the reader, or its group, by then."""
    names = windows.select("stream", "group", "reader").distinct()
    befell = names.join(F.broadcast(faults.select("stream", "target", "at_ms")), "stream").where(
        (F.col("target") == F.col("reader")) | (F.col("target") == F.col("group"))
    )
    rows = windows.unionByName(
        befell.select("stream", "group", "reader", "at_ms", F.lit(1).alias("fault")), allowMissingColumns=True
    )
    before = (
        Window.partitionBy("stream", "group", "reader")
        .orderBy("at_ms")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return rows.withColumn("life", F.count("fault").over(before)).where("fault is null").drop("fault")
