"""Progress by origin, sequence and chunk, for every arrival of a recorded buffer.

What a tracker knows after an arrival is decided by what has not come yet. Of one origin, let a buffer of sequence s
stand for the prefix s - 1, where time stands until it comes. Then the longest complete prefix after an arrival is the
smallest prefix among the buffers that arrive later, and the local watermark is the one of that prefix; if nothing that
counts is still to come, it is the final one. As running maxima only grow along the prefix, the global watermark is the
smallest local watermark among the later buffers of all origins at once. So three passes of window functions answer for
all origins together: along the sequences of an origin, back along its arrivals, and back along all arrivals.

The value at the head of the prefix may fall. Then the global watermark is the smallest value among the origins'
intervals between two arrivals, which takes a join of as many rows as arrivals times origins.

Source: "Watermarking and Progress", Reasoning about progress; `wmlab.model.progress.tracker`, which gives the same.
"""

from __future__ import annotations

from typing import Final, get_args

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.errors import ModelError
from wmlab.model.progress.tracker import LocalRule
from wmlab.spark.inputs import refuse, require

BUFFER_COLUMNS: Final = (
    "stream", "operator", "arrival", "origins", "origin", "sequence", "chunk", "last", "chunk_base", "watermark",
)  # fmt: skip
PROGRESS_COLUMNS: Final = ("completes", "prefix", "local_watermark", "global_watermark")
_OPERATOR: Final = ("stream", "operator")
_LANE: Final = (*_OPERATOR, "origin")
_UNKNOWN: Final = -(2**63)
"""Stands below every watermark while a minimum is taken; it is null before and after."""
_BLOCK_BITS: Final = 8


def progress(buffers: DataFrame, *, local: LocalRule = "running_max") -> DataFrame:
    """How far time has come after every arrival, as the tracker with the set rule finds it.

    `buffers` needs the columns of `BUFFER_COLUMNS`: one row per arrival at an operator, `arrival` unique and increasing
    within (stream, operator). All its columns and rows are kept; repeated buffers change nothing. Added are

    - completes: whether this arrival completes its sequence;
    - prefix: length of the origin's longest complete prefix after it;
    - local_watermark: of the origin after it, null while there is no prefix;
    - global_watermark: the smallest of all declared origins after it, null while one of them has none.

    A sequence with two different last chunks breaks the protocol and is outside of this. Nothing is executed here.
    Raises `ModelError` for a missing column, for one that is there already under an added name, and for an unknown
    `local`. Source: "Watermarking and Progress", Reasoning about progress.
    """
    require(buffers, "buffers", BUFFER_COLUMNS)
    refuse(buffers, "buffers", PROGRESS_COLUMNS)
    if local not in get_args(LocalRule):
        raise ModelError(f"There is no local watermark {local!r}.", remedy="Ask for 'running_max' or 'head'.")
    followed = _along_arrivals(_along_sequences(buffers, local))
    found = _over_all_origins(followed) if local == "running_max" else _over_intervals(followed)
    return found.select(*buffers.columns, *PROGRESS_COLUMNS)


def _along_sequences(buffers: DataFrame, local: LocalRule) -> DataFrame:
    """Adds `completes`; `before`, what stands until this buffer comes; and `after`, what its sequence brings.

    Both are (prefix, watermark), null where a gap that never closes comes first; `before` is also null for a repeat.
    """
    ordered = Window.partitionBy(*_LANE).orderBy("sequence", "chunk", "arrival")
    whole = Window.partitionBy(*_LANE, "sequence")
    earlier = Window.partitionBy(*_LANE).orderBy("sequence").rangeBetween(Window.unboundedPreceding, -1)
    same = F.lag("sequence").over(ordered) == F.col("sequence")
    marked = buffers.withColumns(
        {
            "_first": ~F.coalesce(same, F.lit(False)),
            "_repeat": F.coalesce(same & (F.lag("chunk").over(ordered) == F.col("chunk")), F.lit(False)),
        }
    )
    once = ~F.col("_repeat")
    last_chunk = F.max(F.when(F.col("last"), F.col("chunk"))).over(whole)
    chunks = F.sum(once.cast("long")).over(whole)
    summed = marked.withColumns(
        {
            "_top": F.max(F.when(once, F.col("watermark"))).over(whole),
            "_done": F.max(F.when(once, F.col("arrival"))).over(whole),
            "_complete": F.coalesce(chunks == last_chunk - F.col("chunk_base") + 1, F.lit(False)),
        }
    )
    complete = F.sum(F.when(F.col("_first") & F.col("_complete"), 1).otherwise(0)).over(earlier)
    head = F.max(F.struct("sequence", "_top")).over(earlier)["_top"]
    highest = F.max("_top").over(earlier)
    seen = summed.withColumns(
        {
            "_gapless": F.coalesce(complete, F.lit(0)) == F.col("sequence") - 1,
            "_before": highest if local == "running_max" else head,
        }
    )
    own = F.greatest("_before", "_top") if local == "running_max" else F.col("_top")
    return seen.select(
        *buffers.columns,
        (F.col("_complete") & (F.col("arrival") == F.col("_done"))).alias("completes"),
        F.when(F.col("_gapless") & once, _state(F.col("sequence") - 1, F.col("_before"))).alias("before"),
        F.when(F.col("_gapless") & F.col("_complete"), _state(F.col("sequence"), own)).alias("after"),
    )


def _state(prefix: Column, watermark: Column) -> Column:
    return F.struct(prefix.alias("prefix"), watermark.alias("watermark"))


def _along_arrivals(rows: DataFrame) -> DataFrame:
    """Adds `prefix` and `local_watermark`, and `final`, the origin's last local watermark."""
    back = Window.partitionBy(*_LANE).orderBy(F.desc("arrival"))
    later = back.rowsBetween(Window.unboundedPreceding, -1)
    whole = back.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    seen = rows.withColumns({"_ahead": F.min("before").over(later), "_final": F.max("after").over(whole)})
    state = F.coalesce("_ahead", "_final")
    return seen.select(
        *rows.columns,
        F.coalesce(state["prefix"], F.lit(0)).alias("prefix"),
        state["watermark"].alias("local_watermark"),
        F.col("_final.watermark").alias("final"),
    )


def _over_all_origins(rows: DataFrame) -> DataFrame:
    """Adds `global_watermark` where local watermarks never fall."""
    back = Window.partitionBy(*_OPERATOR).orderBy(F.desc("arrival"))
    later = back.rowsBetween(Window.unboundedPreceding, -1)
    whole = back.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    low = F.when(F.col("before").isNotNull(), F.coalesce(F.col("before.watermark"), F.lit(_UNKNOWN)))
    seen = rows.withColumns(
        {
            "_ahead": F.min(low).over(later),
            "_final": F.min(F.coalesce("final", F.lit(_UNKNOWN))).over(whole),
            "_heard": F.size(F.collect_set("origin").over(whole)),
        }
    )
    smallest = F.least("_ahead", "_final")
    known = (F.col("_heard") == F.col("origins")) & (smallest > _UNKNOWN)
    return seen.withColumn("global_watermark", F.when(known, smallest))


def _over_intervals(rows: DataFrame) -> DataFrame:
    """Adds `global_watermark` where local watermarks may fall: each origin's value holds until its next arrival.

    Intervals are cut at a grid of arrivals, so that the join is one on equal cells with a range test.
    """
    following = F.lead("arrival").over(Window.partitionBy(*_LANE).orderBy("arrival"))
    ends = rows.groupBy(*_OPERATOR).agg(F.max("arrival").alias("_end"))
    cells = f"explode(sequence(shiftright(_from, {_BLOCK_BITS}), shiftright(_to - 1, {_BLOCK_BITS})))"
    spans = (
        rows.withColumn("_to", following)
        .join(F.broadcast(ends), list(_OPERATOR))
        .select(
            *(F.col(name).alias(f"_{name}") for name in _OPERATOR),
            F.col("arrival").alias("_from"),
            F.coalesce("_to", F.col("_end") + 1).alias("_to"),
            F.col("local_watermark").alias("_local"),
        )
        .withColumn("_cell", F.expr(cells))
    )
    at = (
        (F.col("stream") == F.col("_stream"))
        & (F.col("operator") == F.col("_operator"))
        & (F.shiftright("arrival", _BLOCK_BITS) == F.col("_cell"))
        & (F.col("_from") <= F.col("arrival"))
        & (F.col("arrival") < F.col("_to"))
    )
    keys = rows.select(*_OPERATOR, "arrival", "origins")
    lowest = (
        keys.join(spans, at)
        .groupBy(*_OPERATOR, "arrival", "origins")
        .agg(F.count("_local").alias("_known"), F.min("_local").alias("_lowest"))
        .select(
            *_OPERATOR,
            "arrival",
            F.when(F.col("_known") == F.col("origins"), F.col("_lowest")).alias("global_watermark"),
        )
    )
    return rows.join(lowest, [*_OPERATOR, "arrival"])
