"""Which windows fire, at which arrival: the global watermark of recorded buffers against the ends of the windows.

A window fires at the first arrival after which the watermark has passed its end. Ends and watermarks are put in one
order of time, and the earliest arrival at or above an end is a running minimum from the top.

Source: "Watermarking and Progress", Triggering windows; `wmlab.model.progress.firing`, which gives the same.
"""

from __future__ import annotations

from typing import Final, Literal

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from wmlab.spark.inputs import require

_OPERATOR: Final = ("stream", "operator")


def windows_that_fire(
    progressed: DataFrame,
    *,
    size: int,
    slide: int | None = None,
    trigger: Literal["strict", "exact"] = "strict",
    flush: bool = True,
) -> DataFrame:
    """The windows that hold a record, in the order in which they fire.

    `progressed` is what `progress` gives, with `slices`, the starts of the slices that each buffer's records fall in.
    `size` and `slide` (None: tumbling) are in the unit of the event times; strict fires when end < global watermark,
    exact when they are equal as well; with `flush` the end of the stream fires the rest. Columns: stream, operator,
    sequence (output number, from 1), start, end, arrival (null at the end of the stream), reached (global watermark at
    that arrival). Windows all of whose records came late are not there. Raises `ModelError` for a missing column.
    Source: "Watermarking and Progress", Triggering windows; `wmlab.model.progress.firing`.
    """
    require(progressed, "progressed", (*_OPERATOR, "arrival", "global_watermark", "slices"))
    step = size if slide is None else slide
    highest = F.max("global_watermark").over(Window.partitionBy(*_OPERATOR).orderBy("arrival"))
    reached = progressed.select(*_OPERATOR, "arrival", highest.alias("reached")).where("reached is not null")
    first = reached.groupBy(*_OPERATOR, "reached").agg(F.min("arrival").alias("arrival"))
    numbers = f"explode(sequence(greatest(0, floor((_slice - {size}) / {step}) + 1), floor(_slice / {step})))"
    held = (
        progressed.select(*_OPERATOR, "arrival", F.explode("slices").alias("_slice"))
        .where(F.floor((F.col("_slice") - size) / step) + 1 <= F.floor(F.col("_slice") / step))
        .select(*_OPERATOR, "arrival", F.expr(numbers).alias("_number"))
        .groupBy(*_OPERATOR, "_number")
        .agg(F.min("arrival").alias("_begun"))
        .withColumns({"start": F.col("_number") * step, "end": F.col("_number") * step + size})
    )
    fired = _fired(held, first, strict=trigger == "strict")
    kept = fired.where(F.col("arrival").isNull() | (F.col("_begun") <= F.col("arrival")))
    kept = kept if flush else kept.where("arrival is not null")
    number = F.row_number().over(Window.partitionBy(*_OPERATOR).orderBy("end"))
    return kept.select(*_OPERATOR, number.cast("long").alias("sequence"), "start", "end", "arrival", "reached")


def _fired(held: DataFrame, first: DataFrame, *, strict: bool) -> DataFrame:
    """The windows with the first arrival at which the watermark had passed their end, and its value then."""
    marks = first.select(
        *_OPERATOR,
        F.col("reached").alias("_value"),
        F.struct("arrival", "reached").alias("_at"),
        *(F.lit(None).cast("long").alias(name) for name in ("start", "end", "_begun")),
    )
    windows = held.select(*_OPERATOR, F.col("end").alias("_value"), F.lit(None).alias("_at"), "start", "end", "_begun")
    # At equal values a mark counts for the window if it is seen before it.
    tie = F.col("_at").isNull() if strict else F.col("_at").isNotNull()
    down = Window.partitionBy(*_OPERATOR).orderBy(F.desc("_value"), F.desc(tie))
    seen = marks.unionByName(windows).withColumn(
        "_fires", F.min("_at").over(down.rowsBetween(Window.unboundedPreceding, 0))
    )
    return seen.where("start is not null").select(
        *_OPERATOR,
        "start",
        "end",
        "_begun",
        F.col("_fires.arrival").alias("arrival"),
        F.col("_fires.reached").alias("reached"),
    )
