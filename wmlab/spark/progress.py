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
_BLOCK_BITS: Final = 16
"""Arrivals of one operator that one sort sees, as a power of two."""
_CELL_BITS: Final = 8
"""Width of the grid over arrivals in the join of intervals, as a power of two."""


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
    operators = _operators(buffers)
    found = _over_all_origins(followed, operators) if local == "running_max" else _over_intervals(followed, operators)
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
    """Adds `prefix` and `local_watermark`, and `next`, the origin's next arrival (null after its last one)."""
    back = Window.partitionBy(*_LANE).orderBy(F.desc("arrival"))
    later = back.rowsBetween(Window.unboundedPreceding, -1)
    whole = back.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    seen = rows.withColumns(
        {
            "_ahead": F.min("before").over(later),
            "_final": F.max("after").over(whole),
            "next": F.lag("arrival").over(back),
            "begins": F.lead("arrival").over(back).isNull(),
        }
    )
    state = F.coalesce("_ahead", "_final")
    return seen.select(
        *rows.columns,
        "next",
        "begins",
        F.coalesce(state["prefix"], F.lit(0)).alias("prefix"),
        state["watermark"].alias("local_watermark"),
    )


def _over_all_origins(rows: DataFrame, operators: DataFrame) -> DataFrame:
    """Adds `global_watermark` where local watermarks never fall.

    The arrivals are cut into blocks, so that no task sees a whole operator. What later blocks hold against a block is
    each origin's local watermark at the end of it, which one more row per origin and block carries; it goes with the
    origin's last row up to there, and an origin that has not sent yet carries the unknown.
    """
    size = F.lit(1 << _BLOCK_BITS)
    block, until = _block("arrival"), F.coalesce(_block("next") - 1, _block("end"))
    after = F.when(until >= block, F.sequence(block, until))
    before = F.when(F.col("begins") & (block > 0), F.sequence(F.lit(0), block - 1))
    itself = F.array(F.struct(F.lit(None).cast("long").alias("block"), F.lit(None).cast("long").alias("low")))
    placed = rows.join(F.broadcast(operators), list(_OPERATOR)).withColumn(
        "_for", F.explode(F.concat(itself, _carried(after, _low("local_watermark")), _carried(before, F.lit(_UNKNOWN))))
    )
    is_row = F.col("_for.block").isNull()
    own = F.when(F.col("before").isNotNull(), _low("before.watermark"))
    blocked = placed.withColumns(
        {
            "_block": F.coalesce("_for.block", block),
            "_low": F.when(is_row, own).otherwise(F.col("_for.low")),
            "_place": F.when(is_row, F.col("arrival")).otherwise((F.col("_for.block") + 1) * size),
        }
    )
    back = Window.partitionBy("_block", *_OPERATOR).orderBy(F.desc("_place"))
    smallest = F.min("_low").over(back.rowsBetween(Window.unboundedPreceding, -1))
    known = (F.col("heard") == F.col("origins")) & (F.col("_smallest") > _UNKNOWN)
    seen = blocked.withColumn("_smallest", smallest).where(F.col("_for.block").isNull())
    return seen.withColumn("global_watermark", F.when(known, F.col("_smallest")))


def _operators(buffers: DataFrame) -> DataFrame:
    """Per operator the last arrival (`end`) and how many origins have sent anything (`heard`)."""
    lanes = buffers.groupBy(*_LANE).agg(F.max("arrival").alias("end"))
    return lanes.groupBy(*_OPERATOR).agg(F.max("end").alias("end"), F.count("*").alias("heard"))


def _carried(blocks: Column, low: Column) -> Column:
    """One entry per block, none if `blocks` is null."""
    entries = F.transform(blocks, lambda number: F.struct(number.alias("block"), low.alias("low")))
    return F.coalesce(entries, F.expr("cast(array() as array<struct<block: bigint, low: bigint>>)"))


def _low(watermark: str) -> Column:
    return F.coalesce(watermark, F.lit(_UNKNOWN))


def _block(arrival: str) -> Column:
    return F.shiftright(arrival, _BLOCK_BITS)


def _over_intervals(rows: DataFrame, operators: DataFrame) -> DataFrame:
    """Adds `global_watermark` where local watermarks may fall: each origin's value holds until its next arrival.

    Intervals are cut at a grid of arrivals, so that the join is one on equal cells with a range test.
    """
    until = F.coalesce(F.col("next") - 1, F.col("end"))
    cell = [F.shiftright(bound, _CELL_BITS) for bound in (F.col("arrival"), until)]
    spans = rows.join(F.broadcast(operators), list(_OPERATOR)).select(
        *(F.col(name).alias(f"_{name}") for name in _OPERATOR),
        F.col("arrival").alias("_from"),
        until.alias("_until"),
        F.col("local_watermark").alias("_local"),
        F.explode(F.sequence(*cell)).alias("_cell"),
    )
    at = (
        (F.col("stream") == F.col("_stream"))
        & (F.col("operator") == F.col("_operator"))
        & (F.shiftright("arrival", _CELL_BITS) == F.col("_cell"))
        & F.col("arrival").between(F.col("_from"), F.col("_until"))
    )
    lowest = (
        rows.select(*_OPERATOR, "arrival", "origins")
        .join(spans, at)
        .groupBy(*_OPERATOR, "arrival", "origins")
        .agg(F.count("_local").alias("_known"), F.min("_local").alias("_lowest"))
        .select(
            *_OPERATOR,
            "arrival",
            F.when(F.col("_known") == F.col("origins"), F.col("_lowest")).alias("global_watermark"),
        )
    )
    return rows.join(lowest, [*_OPERATOR, "arrival"])
