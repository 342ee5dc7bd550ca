"""Which windows fire, at which arrival: the global watermark of recorded buffers against the ends of the windows.

A window fires at the first arrival after which the watermark has passed its end. Ends and watermarks are put in one
order of time, and the earliest arrival at or above an end is a running minimum from the top. An engine that forgets
fired windows fires one again at every later arrival that brings a record for it.

Source: "Watermarking and Progress", Triggering windows; `wmlab.progress.model.windows`, which gives the same.
"""

from __future__ import annotations

from typing import Final, get_args

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.schemas import choose, typed
from wmlab.core.spark.verdict import BEFORE, SO_FAR
from wmlab.progress.model.windows import Trigger, Windows
from wmlab.progress.tables import PROGRESS_TABLES

_OPERATOR: Final = ("stream", "operator")
SLICES: Final = "inline(arrays_zip(slices, slice_records))"
"""One row for each slice that records of a buffer fall in, with the number of these records."""
_NEEDED: Final = (*_OPERATOR, "arrival", "global_watermark", "slices", "slice_records")
_SCHEMA: Final = PROGRESS_TABLES["buffers"].append(pa.field("global_watermark", pa.int64()))


def fired_windows(
    progressed: DataFrame,
    *,
    size: int,
    slide: int | None = None,
    trigger: Trigger = "strict",
    flush: bool = True,
    forget_fired: bool = False,
) -> DataFrame:
    """The windows that hold a record, in the order in which they fire.

    `progressed` is what `progress` gives, with `slices`, the starts of the slices that each buffer's records fall in,
    and `slice_records`, how many fall in each. `size` and `slide` (None: tumbling) are in the unit of the event times;
    strict fires when end < global watermark, exact when they are equal as well; with `flush` the end of the stream
    fires the rest. With `forget_fired` fired windows are thrown away without a trace, and a late record fires its
    window again. Columns: stream, operator, sequence (output number, from 1), start, end, records, arrival (null at the
    end of the stream), reached (global watermark at that arrival), again (a double fire). Windows all of whose records
    came late are not there, unless fired windows are forgotten.
    Raises `ModelError` for a column that is missing or of another type, an unknown trigger, a size or slide below 1.
    Source: "Watermarking and Progress", Triggering windows; `wmlab.progress.model.windows`.
    """
    progressed = typed(progressed, "progressed", _NEEDED, _SCHEMA)
    windows = Windows(size, size if slide is None else slide)
    choose("trigger", trigger, get_args(Trigger))
    reached = _reached(progressed, windows, exact=trigger == "exact")
    held = _held(progressed, windows)
    fired = _first_fires(held, reached, windows, exact=trigger == "exact")
    in_time = fired.where(F.col("arrival").isNull() | (F.col("begun") <= F.col("arrival")))
    all_fired = in_time.unionByName(_fires_again(held, fired, reached)) if forget_fired else in_time
    counted = _counted(all_fired if flush else all_fired.where("arrival is not null"), held, windows)
    order = Window.partitionBy(*_OPERATOR).orderBy(F.col("arrival").asc_nulls_last(), "end")
    return counted.withColumn("sequence", F.row_number().over(order).cast("long")).select(
        *_OPERATOR, "sequence", "start", "end", "records", "arrival", "reached", "again"
    )


def _reached(progressed: DataFrame, windows: Windows, *, exact: bool) -> DataFrame:
    """Per arrival the watermark (`reached`), the highest so far, and how many windows were `closed` before it."""
    order = Window.partitionBy(*_OPERATOR).orderBy("arrival")
    highest = F.max("global_watermark").over(order)
    before = F.max("global_watermark").over(order.rowsBetween(*BEFORE))
    closed = F.floor((before + int(exact) - windows.size - 1) / windows.slide) + 1
    return progressed.select(
        *_OPERATOR,
        "arrival",
        F.col("global_watermark").alias("reached"),
        highest.alias("highest"),
        F.greatest(F.lit(0), F.coalesce(closed, F.lit(0))).alias("closed"),
    )


def _held(progressed: DataFrame, windows: Windows) -> DataFrame:
    """One row per arrival, slice and window that holds it: `number` of the window, `slice`, `count` of its records."""
    first = F.greatest(F.lit(0), F.floor((F.col("slice") - windows.size) / windows.slide) + 1)
    last = F.floor(F.col("slice") / windows.slide)
    sliced = progressed.selectExpr(*_OPERATOR, "arrival", f"{SLICES} as (slice, count)")
    return sliced.where(first <= last).select("*", F.explode(F.sequence(first, last)).alias("number"))


def _first_fires(held: DataFrame, reached: DataFrame, windows: Windows, *, exact: bool) -> DataFrame:
    """Each window that holds a record, with the first arrival at which the watermark had passed its end.

    Columns: number, start, end, begun (arrival of its first record), arrival, reached, closed, again.
    """
    first = reached.where("highest is not null").groupBy(*_OPERATOR, "highest")
    at = F.min(F.struct("arrival", F.col("highest").alias("reached"), "closed"))
    marks = first.agg(at.alias("at")).withColumnRenamed("highest", "value")
    begun = held.groupBy(*_OPERATOR, "number").agg(F.min("arrival").alias("begun"))
    start = F.col("number") * windows.slide
    spans = begun.withColumns({"start": start, "end": start + windows.size, "value": start + windows.size})
    both = marks.unionByName(spans, allowMissingColumns=True)
    # At equal values a mark counts for the window if it is seen before it.
    tie = F.col("at").isNotNull() if exact else F.col("at").isNull()
    down = Window.partitionBy(*_OPERATOR).orderBy(F.desc("value"), F.desc(tie))
    passed = both.withColumn("at", F.min("at").over(down.rowsBetween(*SO_FAR)))
    return passed.where("number is not null").select(
        *_OPERATOR, "number", "start", "end", "begun", "at.arrival", "at.reached", "at.closed",
        F.lit(False).alias("again"),
    )  # fmt: skip


def _fires_again(held: DataFrame, fired: DataFrame, reached: DataFrame) -> DataFrame:
    """The later arrivals that bring a record for a window whose time had passed; `again` if it had fired before."""
    bring = held.select(*_OPERATOR, "number", F.col("arrival").alias("at")).distinct()
    later = fired.drop("reached", "closed").join(bring, [*_OPERATOR, "number"]).where("at > arrival")
    marks = reached.select(*_OPERATOR, F.col("arrival").alias("at"), "reached", "closed")
    return (
        later.withColumns({"again": (F.col("begun") <= F.col("arrival")) | (F.col("at") > F.col("begun"))})
        .drop("arrival")
        .join(marks, [*_OPERATOR, "at"])
        .withColumnRenamed("at", "arrival")
    )


def _counted(fired: DataFrame, held: DataFrame, windows: Windows) -> DataFrame:
    """Adds `records`: what a window held when it fired; slices all of whose windows were closed had been dropped."""
    keys = ["stream", "operator", "number"]
    there = held.select(*keys, F.col("arrival").alias("came"), "slice", "count")
    fire = F.col("arrival")
    kept: Column = F.floor(F.col("slice") / windows.slide) >= F.coalesce("closed", F.lit(0))
    inside = fire.isNull() | ((F.col("came") <= fire) & (kept | (F.col("came") == fire)))
    return (
        fired.join(there, keys)
        .where(inside)
        .groupBy(*keys, "start", "end", "begun", "arrival", "reached", "closed", "again")
        .agg(F.sum("count").alias("records"))
    )
