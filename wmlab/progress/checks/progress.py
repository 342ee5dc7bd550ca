"""Progress by origin, sequence and chunk at every arrival of a recorded buffer, and the windows that fire there.

What a tracker knows after an arrival is decided by what has not come yet. Of one origin, let a buffer of sequence s
stand for the prefix s - 1, where time stands until it comes. Then the longest complete prefix after an arrival is the
smallest prefix among the buffers that arrive later, and the local watermark is the one of that prefix; if nothing that
counts is still to come, it is the final one. As running maxima only grow along the prefix, the global watermark is the
smallest local watermark among the later buffers of all origins at once. So three passes of window functions answer for
all origins together: along the sequences of an origin, back along its arrivals, and back along all arrivals.

The value at the head of the prefix may fall. Then the third pass is another one: `falling_minimum`. By the literal
sentence of the text the chunks of the sequence behind the prefix count too, which is a pass of its own before that.

When a sequence is complete is a matter of the rule, and of the arrivals of that sequence alone.

A window fires at the first arrival after which the watermark has come to its end. Ends and watermarks are put in one
order of time, and the earliest arrival at or above an end is a running minimum from the top. An engine that forgets
fired windows fires one again at every later arrival that brings a record for it.

Source: "Watermarking and Progress", Reasoning about progress and Triggering windows; `wmlab.progress.model.tracker` and
`wmlab.progress.model.windows`, which give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from wmlab.core.spark.schemas import choose, refuse, typed
from wmlab.core.spark.verdict import BEFORE, SO_FAR, phrase
from wmlab.progress.model.chunks import CompletenessRule
from wmlab.progress.model.tracker import LocalRule
from wmlab.progress.model.windows import Trigger, Windows
from wmlab.progress.tables import PROGRESS_TABLES

BUFFER_COLUMNS: Final = (
    "stream", "operator", "arrival", "origins", "origin", "sequence", "chunk", "last", "chunk_base", "watermark",
)  # fmt: skip
PROGRESS_COLUMNS: Final = ("completes", "prefix", "local_watermark", "global_watermark")
_OPERATOR: Final = ("stream", "operator")
_LANE: Final = (*_OPERATOR, "origin")
_UNKNOWN: Final = -(2**63)
"""Stands below every watermark while a minimum is taken; it is null before and after."""
_BLOCK_BITS: Final = 16
"""Arrivals of one operator that one task sees, as a power of two."""


def progress(buffers: DataFrame, *, local: LocalRule = "running_max", complete: CompletenessRule = "set") -> DataFrame:
    """How far time has come after every arrival, as the tracker with these rules finds it.

    `buffers` needs the columns of `BUFFER_COLUMNS`: one row per arrival at an operator, `arrival` unique and increasing
    within (stream, operator). All its columns and rows are kept. Added are

    - completes: whether this arrival completes its sequence by the rule `complete`;
    - prefix: length of the origin's longest complete prefix after it;
    - local_watermark: of the origin after it, null while there is no prefix;
    - global_watermark: the smallest of all declared origins after it, null while one of them has none.

    Under the set rule repeated buffers change nothing, and a sequence with two different last chunks breaks the
    protocol and is outside of this; the other rules count what they are given. Nothing is executed here. Raises
    `ModelError` for a column that is missing, of another type, or there already under an added name, and for an unknown
    rule; a chunk below the base and an operator with two chunk bases fail when the answer is asked for.
    Source: "Watermarking and Progress", Reasoning about progress.
    """
    buffers = typed(buffers, "buffers", BUFFER_COLUMNS, PROGRESS_TABLES["buffers"])
    refuse(buffers, "buffers", PROGRESS_COLUMNS)
    choose("local", local, get_args(LocalRule))
    choose("complete", complete, get_args(CompletenessRule))
    based = buffers.withColumn("chunk", _from_the_base())
    done = _by_set(based) if complete == "set" else _by_count(based, complete)
    followed = _along_arrivals(_along_sequences(done, buffers.columns, local))
    if local == "literal":
        followed = _with_the_next(followed)
    operators = _operators(based)
    if local == "running_max":
        found = _over_all_origins(followed, operators)
    else:
        found = falling_minimum(followed.drop("_from", "_to"), operators)
    return found.select(*buffers.columns, *PROGRESS_COLUMNS)


def _from_the_base() -> Column:
    """The chunk number, refused where it is below the base, as `wmlab.progress.model.numbers` does."""
    wrong = F.raise_error(
        phrase(
            "Sequence {sequence} of origin {origin} has a chunk {chunk} in a trace whose chunks start at {chunk_base}: "
            "give the whole trace one base."
        )
    )
    return F.when(F.col("chunk") < F.col("chunk_base"), wrong).otherwise(F.col("chunk"))


def _by_set(buffers: DataFrame) -> DataFrame:
    """Adds by the set of chunks: `completes`, `_counted`, the watermark of what counts, and `_top`, the sequence's."""
    ordered = Window.partitionBy(*_LANE).orderBy("sequence", "chunk", "arrival")
    whole = Window.partitionBy(*_LANE, "sequence")
    same = (F.lag("sequence").over(ordered) == F.col("sequence")) & (F.lag("chunk").over(ordered) == F.col("chunk"))
    marked = buffers.withColumn("_once", ~F.coalesce(same, F.lit(False)))
    marked = marked.withColumn("_counted", F.when(F.col("_once"), F.col("watermark")))
    last_chunk = F.max(F.when(F.col("last"), F.col("chunk"))).over(whole)
    chunks = F.sum(F.col("_once").cast("long")).over(whole)
    all_here = F.coalesce(chunks == last_chunk - F.col("chunk_base") + 1, F.lit(False))
    final = F.max(F.when(F.col("_once"), F.col("arrival"))).over(whole)
    top = F.max("_counted").over(whole)
    return marked.withColumns({"_top": top, "completes": all_here & (F.col("arrival") == final)})


def _by_count(buffers: DataFrame, rule: CompletenessRule) -> DataFrame:
    """Adds the same as `_by_set`, by a rule that counts; what comes after that is left out."""
    whole = Window.partitionBy(*_LANE, "sequence")
    so_far = whole.orderBy("arrival").rowsBetween(*SO_FAR)
    last_chunk = F.last(F.when(F.col("last"), F.col("chunk")), ignorenulls=True).over(so_far)
    if rule == "balance":
        hit = F.sum(F.when(F.col("last"), F.col("chunk") - F.col("chunk_base")).otherwise(-1)).over(so_far) == 0
    else:
        needed = last_chunk if rule == "literal" else last_chunk - F.col("chunk_base") + 1
        hit = F.count("*").over(so_far) == needed
    first = buffers.withColumn("_hit", F.when(hit, F.col("arrival"))).withColumn("_done", F.min("_hit").over(whole))
    counted = F.when(F.coalesce(F.col("arrival") <= F.col("_done"), F.lit(True)), F.col("watermark"))
    completes = F.coalesce(F.col("arrival") == F.col("_done"), F.lit(False))
    return first.withColumns({"_counted": counted, "completes": completes}).withColumn(
        "_top", F.max("_counted").over(whole)
    )


def _along_sequences(done: DataFrame, columns: Sequence[str], local: LocalRule) -> DataFrame:
    """Adds `_from`, what stands until this buffer completes its sequence, and `_to`, what that brings.

    Both are (prefix, watermark), null where a gap that never closes comes first, and for all other buffers.
    """
    earlier = Window.partitionBy(*_LANE).orderBy("sequence").rangeBetween(Window.unboundedPreceding, -1)
    complete = F.sum(F.col("completes").cast("long")).over(earlier)
    head = F.max(F.struct("sequence", "_top")).over(earlier)["_top"]
    seen = done.withColumns(
        {
            "_counts": F.col("completes") & (F.coalesce(complete, F.lit(0)) == F.col("sequence") - 1),
            "_before": F.max("_top").over(earlier) if local == "running_max" else head,
        }
    )
    own = F.greatest("_before", "_top") if local == "running_max" else F.col("_top")
    return seen.select(
        *columns,
        "completes",
        "_counted",
        F.when(F.col("_counts"), _state(F.col("sequence") - 1, F.col("_before"))).alias("_from"),
        F.when(F.col("_counts"), _state(F.col("sequence"), own)).alias("_to"),
    )


def _state(prefix: Column, watermark: Column) -> Column:
    return F.struct(prefix.alias("prefix"), watermark.alias("watermark"))


def _along_arrivals(rows: DataFrame) -> DataFrame:
    """Adds `prefix` and `local_watermark`, and `_next`, the origin's next arrival (null after its last one)."""
    back = Window.partitionBy(*_LANE).orderBy(F.desc("arrival"))
    later = back.rowsBetween(*BEFORE)
    whole = back.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    seen = rows.withColumns(
        {
            "_ahead": F.min("_from").over(later),
            "_final": F.max("_to").over(whole),
            "_next": F.lag("arrival").over(back),
            "_begins": F.lead("arrival").over(back).isNull(),
        }
    )
    state = F.coalesce("_ahead", "_final")
    return seen.select(
        *rows.columns,
        "_next",
        "_begins",
        F.coalesce(state["prefix"], F.lit(0)).alias("prefix"),
        state["watermark"].alias("local_watermark"),
    )


def _with_the_next(rows: DataFrame) -> DataFrame:
    """The local watermark by the literal sentence: that of the sequence behind the prefix, if a chunk of it has come.

    Each arrival asks that sequence: it stands beside the chunks of it as a row of its own.
    """
    asks = F.array(
        *(
            F.struct(at.alias("sequence"), F.lit(place).alias("asks"))
            for place, at in enumerate((F.col("sequence"), F.col("prefix") + 1))
        )
    )
    both = rows.withColumn("_at", F.explode(asks))
    so_far = Window.partitionBy(*_LANE, "_at.sequence").orderBy("arrival", "_at.asks").rowsBetween(*SO_FAR)
    opened = F.max(F.when(F.col("_at.asks") == 0, F.col("_counted"))).over(so_far)
    asked = both.withColumn("_opened", opened).where("_at.asks = 1")
    return asked.withColumn("local_watermark", F.coalesce("_opened", "local_watermark")).drop("_at", "_opened")


def _over_all_origins(rows: DataFrame, operators: DataFrame) -> DataFrame:
    """Adds `global_watermark` where local watermarks never fall.

    The arrivals are cut into blocks, so that no task sees a whole operator. What later blocks hold against a block is
    each origin's local watermark at the end of it, which one more row per origin and block carries; it goes with the
    origin's last row up to there, and an origin that has not sent yet carries the unknown.
    """
    size = F.lit(1 << _BLOCK_BITS)
    block, until = _block("arrival"), F.coalesce(_block("_next") - 1, _block("_end"))
    after = F.when(until >= block, F.sequence(block, until))
    before = F.when(F.col("_begins") & (block > _block("_start")), F.sequence(_block("_start"), block - 1))
    itself = F.array(F.struct(F.lit(None).cast("long").alias("block"), F.lit(None).cast("long").alias("low")))
    placed = rows.join(F.broadcast(operators), list(_OPERATOR)).withColumn(
        "_for", F.explode(F.concat(itself, _carried(after, _low("local_watermark")), _carried(before, F.lit(_UNKNOWN))))
    )
    is_row = F.col("_for.block").isNull()
    own = F.when(F.col("_from").isNotNull(), _low("_from.watermark"))
    blocked = placed.withColumns(
        {
            "_block": F.coalesce("_for.block", block),
            "_low": F.when(is_row, own).otherwise(F.col("_for.low")),
            "_place": F.when(is_row, F.col("arrival")).otherwise((F.col("_for.block") + 1) * size),
        }
    )
    back = Window.partitionBy("_block", *_OPERATOR).orderBy(F.desc("_place"))
    smallest = F.min("_low").over(back.rowsBetween(*BEFORE))
    known = (F.col("_heard") == F.col("origins")) & (F.col("_smallest") > _UNKNOWN)
    seen = blocked.withColumn("_smallest", smallest).where(F.col("_for.block").isNull())
    return seen.withColumn("global_watermark", F.when(known, F.col("_smallest")))


def _operators(buffers: DataFrame) -> DataFrame:
    """Per operator the first and last arrival (`_start`, `_end`) and how many origins have sent anything (`_heard`).

    Two chunk bases in one operator fail here.
    """
    lanes = buffers.groupBy(*_LANE).agg(
        F.min("arrival").alias("_start"),
        F.max("arrival").alias("_end"),
        F.min("chunk_base").alias("low"),
        F.max("chunk_base").alias("high"),
    )
    text = phrase(
        "The trace has no single chunk base: operator {operator} of {stream} has {low} and {high}; "
        "give the whole trace one base.",
        low=F.min("low"),
        high=F.max("high"),
    )
    end = F.when(F.min("low") < F.max("high"), F.raise_error(text)).otherwise(F.max("_end"))
    start = F.min("_start").alias("_start")
    return lanes.groupBy(*_OPERATOR).agg(start, end.alias("_end"), F.count("*").alias("_heard"))


def _carried(blocks: Column, low: Column) -> Column:
    """One entry per block, none if `blocks` is null."""
    entries = F.transform(blocks, lambda number: F.struct(number.alias("block"), low.alias("low")))
    return F.coalesce(entries, F.expr("cast(array() as array<struct<block: bigint, low: bigint>>)"))


def _low(watermark: str) -> Column:
    return F.coalesce(watermark, F.lit(_UNKNOWN))


def _block(arrival: str | Column) -> Column:
    return F.shiftright(arrival, _BLOCK_BITS)


def falling_minimum(rows: DataFrame, operators: DataFrame) -> DataFrame:
    """Adds `global_watermark`, the smallest of the origins' `local_watermark`, where these may fall.

    It is null while one of the declared origins has none. An origin's value holds until its next arrival. The arrivals
    are cut into blocks; into each block every origin brings the value it has at its start, and the block is answered on
    its own: one pass over its arrivals per origin.

    `rows` needs stream, operator, arrival, origins, origin, local_watermark and `_next`, the origin's next arrival;
    `operators` has `_end`, the last arrival of each.
    """
    block, until = _block("arrival"), _block(F.coalesce("_next", "_end"))
    placed = rows.join(F.broadcast(operators.select(*_OPERATOR, "_end")), list(_OPERATOR))
    blocked = placed.withColumn("_block", F.explode(F.sequence(block, F.greatest(block, until)))).drop("_end")
    schema = T.StructType([*blocked.schema.fields, T.StructField("global_watermark", T.LongType())])
    answered = blocked.groupBy("_block", *_OPERATOR).applyInArrow(_answered, schema)
    # What an origin brought into the block belongs to an earlier one.
    return answered.where(block == F.col("_block")).drop("_block")


def _answered(table: pa.Table) -> pa.Table:
    """The arrivals of one block with the smallest value after each; runs on an executor."""
    table = table.sort_by("arrival")
    values = pc.fill_null(table["local_watermark"], _UNKNOWN).to_numpy()
    origins, of = np.unique(table["origin"].to_numpy(), return_inverse=True)
    smallest = np.full(len(values), _UNKNOWN)
    if len(origins) == table["origins"][0].as_py():
        smallest[:] = np.iinfo(np.int64).max
        ends = np.cumsum(np.bincount(of))
        for mine in np.split(np.argsort(of, kind="stable"), ends[:-1]):
            begun = mine[0]
            smallest[:begun] = _UNKNOWN
            held = np.repeat(values[mine], np.diff(mine, append=len(values)))
            np.minimum(smallest[begun:], held, out=smallest[begun:])
    return table.append_column("global_watermark", pa.array(smallest, mask=smallest == _UNKNOWN))


SLICES: Final = "inline(arrays_zip(slices, slice_records))"
"""One row for each slice that records of a buffer fall in, with the number of these records."""
_NEEDED: Final = (*_OPERATOR, "arrival", "global_watermark", "slices", "slice_records")
_SCHEMA: Final = PROGRESS_TABLES["buffers"].append(pa.field("global_watermark", pa.int64()))


def fired_windows(
    progressed: DataFrame,
    *,
    size: int,
    slide: int | None = None,
    trigger: Trigger = "exact",
    flush: bool = True,
    forget_fired: bool = False,
) -> DataFrame:
    """The windows that hold a record, in the order in which they fire.

    `progressed` is what `progress` gives, with `slices`, the starts of the slices that each buffer's records fall in,
    and `slice_records`, how many fall in each. `size` and `slide` (None: tumbling) are in the unit of the event times;
    exact fires when end <= global watermark, strict when end < global watermark, as the engine does; with `flush` the
    end of the stream fires the rest. With `forget_fired` fired windows are thrown away without a trace, and a late
    record fires its window again.

    Columns: stream, operator, sequence (output number, from 1), start, end, records, arrival (null at the end of the
    stream), reached (global watermark at that arrival), again (a double fire). Windows all of whose records came late
    are not there, unless fired windows are forgotten.
    Raises `ModelError` for a column that is missing or of another type, an unknown trigger, a size or slide below 1.
    Source: "Watermarking and Progress", Triggering windows.
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
    """Each window that holds a record, with the first arrival at which the watermark had come to its end.

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
