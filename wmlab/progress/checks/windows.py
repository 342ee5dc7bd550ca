"""Promises about windows and their outputs: N8 (they fire once, in order), N9 (what outputs carry), N11 (slices).

Source: "Watermarking and Progress", Triggering windows; upstream class `DefaultTimeBasedSliceStore`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.findings import findings, ms, row_of, say

_WINDOW: Final = ("stream", "operator", "sequence", "start", "end")


def fires_once(windows_fired: DataFrame) -> DataFrame:
    """N8: windows fire once, in order of end, numbered 1, 2, ..., not before the watermark has come to their end."""
    order = Window.partitionBy("stream", "operator").orderBy("sequence")
    seen = windows_fired.withColumns(
        {"number": F.row_number().over(order), "before": F.coalesce(F.lag("end").over(order), F.col("end"))}
    )
    early = (F.col("cause") == "watermark") & (F.coalesce(F.col("end") > F.col("reached"), F.lit(True)))
    told = (
        F.when(F.col("again"), F.lit("fired again"))
        .when(early, say("fired at ", ms(F.col("reached"))))
        .when(F.col("before") > F.col("end"), say("fired after the one that ends at ", ms(F.col("before"))))
        .otherwise(say("is number ", F.col("number")))
    )
    good = ~F.col("again") & (F.col("number") == F.col("sequence")) & (F.col("before") <= F.col("end")) & ~early
    return findings(
        seen,
        ok=good,
        at_ms=F.col("fired_ms"),
        what=say(*_named(), told),
        evidence=[row_of("windows_fired", *_WINDOW, "arrival", "reached", "cause", "again")],
    )


def outputs_carry_the_start(windows_fired: DataFrame, buffers: DataFrame) -> DataFrame:
    """N9: what the probe is given carries the start of its window, and no later window starts earlier."""
    order = Window.partitionBy("stream", "operator").orderBy("sequence")
    rising = windows_fired.withColumn("before", F.lag("start").over(order)).where("before is not null")
    in_order = findings(
        rising,
        ok=F.col("start") >= F.col("before"),
        at_ms=F.col("fired_ms"),
        what=say(*_named(), "starts before the one ahead of it, ", ms(F.col("before"))),
        evidence=[row_of("windows_fired", *_WINDOW)],
    )
    given = buffers.where(F.col("operator") == "probe").select(
        "stream", "origin", "sequence", "chunk", "watermark", "arrived_ms"
    )
    outputs = windows_fired.join(given, ["stream", "origin", "sequence"])
    carried = findings(
        outputs,
        ok=F.col("watermark") == F.col("start"),
        at_ms=F.col("arrived_ms"),
        what=say(*_named(), "goes out with the watermark ", ms(F.col("watermark"))),
        evidence=[row_of("windows_fired", *_WINDOW), row_of("buffers", "origin", "sequence", "chunk", "watermark")],
    )
    return in_order.unionByName(carried)


def windows_are_their_slices(windows_fired: DataFrame, buffers: DataFrame) -> DataFrame:
    """N11: a window holds the records that had come in its slices when it fired; double fires are left to N8."""
    sliced = buffers.select(
        "stream",
        "operator",
        F.col("arrival").alias("came"),
        F.explode(F.arrays_zip("slices", "slice_records")).alias("of"),
    )
    once = windows_fired.where(~F.col("again"))
    inside = (F.col("of.slices") >= F.col("start")) & (F.col("of.slices") < F.col("end"))
    in_time = F.col("arrival").isNull() | (F.col("came") <= F.col("arrival"))
    counted = (
        once.join(sliced, ["stream", "operator"])
        .where(inside & in_time)
        .groupBy("stream", "operator", "sequence")
        .agg(F.sum("of.slice_records").alias("in_slices"))
    )
    both = once.join(counted, ["stream", "operator", "sequence"], "left").fillna(0, ["in_slices"])
    return findings(
        both,
        ok=F.col("records") == F.col("in_slices"),
        at_ms=F.col("fired_ms"),
        what=say(*_named(), "held ", F.col("records"), " records; its slices have ", F.col("in_slices")),
        evidence=[row_of("windows_fired", *_WINDOW, "records", "arrival")],
    )


def _named() -> tuple[Column | str, ...]:
    return ("the window from ", ms(F.col("start")), " to ", ms(F.col("end")), " of ", F.col("stream"), " ")
