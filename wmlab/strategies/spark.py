"""Spark on logs that do not fit in memory: the frontier, as `wm.strategy.frontier` finds it of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.errors import ModelError, TraceError
from wmlab.core.spark.schemas import require, typed
from wmlab.core.traces import TRACE_SCHEMA
from wmlab.strategies.lateness import Frontier, of_counts


def frontier(
    log: DataFrame, by: str | None = None, *, name: str = "log", order: Sequence[str] = ("arrival_ms",), parts: int = 64
) -> Frontier:
    """The late share of every constant bound over a log with the columns of a trace, as `wm.strategy.frontier`.

    The log is in the order of the columns `order`; the first is a number, and those after it decide between equal
    values. The log is cut into `parts` stretches of the first: one pass finds the largest event time of each, a second
    the lateness of each row from what came before, in its stretch and in those before. The driver holds the different
    latenesses only. Raises `ModelError` for a column that is not there or has another type, and `TraceError` for a log
    without rows or with a row that lacks a value.
    """
    if isinstance(order, str) or not order:
        raise ModelError(f"order is {order!r}.", remedy="Give a list of columns, the first a number.")
    needed, first = dict.fromkeys(["event_time", "arrival_ms", *order, by or "event_time"]), F.col(order[0])
    require(log, "log", needed)
    log = typed(log, "log", ["event_time", "arrival_ms"], TRACE_SCHEMA)
    without = F.count_if(reduce(or_, (F.col(name).isNull() for name in needed)))
    low, high, unknown = log.agg(F.min(first), F.max(first), without).first() or (None, None, 0)
    if unknown:
        problem = f"{unknown} rows of the log lack one of {', '.join(needed)}."
        raise TraceError(problem, remedy='Leave them out: of a log of read_log, keep where("reason is null").')
    if low is None or high is None:
        raise TraceError("The log has no rows.", remedy="Give a log with at least one event.")
    part = F.width_bucket(first, F.lit(low), F.lit(high + 1), F.lit(parts))
    rows = log.withColumns({"_part": part, "_group": F.col(by) if by else F.lit("")})
    earlier = Window.partitionBy("_group").orderBy("_part").rowsBetween(Window.unboundedPreceding, -1)
    tops = rows.groupBy("_group", "_part").agg(F.max("event_time").alias("_top"))
    carried = tops.select("_group", "_part", F.max("_top").over(earlier).alias("_carried"))
    inside = Window.partitionBy("_group", "_part").orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    top = F.greatest("_carried", F.max("event_time").over(inside), "event_time")
    late = rows.join(F.broadcast(carried), ["_group", "_part"]).select(
        "_group", (top - F.col("event_time")).alias("_late"), (F.col("arrival_ms") - top).alias("_lag")
    )
    counts = late.where("_late > 0").groupBy("_group", "_late").count().toArrow()
    middle = F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY _lag)").cast("long").alias("lag")
    sizes = late.rollup("_group").agg(F.count("*").alias("rows"), middle).collect()
    found: dict[Any, Frontier] = {}
    for group, size, lag in sizes:
        mine = counts if group is None else counts.filter(pc.equal(counts["_group"], group))
        total = mine.group_by("_late").aggregate([("count", "sum")]).sort_by("_late")
        latenesses, number = total["_late"].to_numpy(), total["count_sum"].to_numpy()
        found[group] = of_counts(name if group is None else group, size, latenesses, number, lag)
    whole = found.pop(None)
    return whole if by is None else replace(whole, by=by, groups=found)
