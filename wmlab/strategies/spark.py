"""Spark on logs that do not fit in memory: the lateness curve, as in `wm.strategy.lateness_curve` for a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window, functions as F
from pyspark.sql.types import NumericType

from wmlab.core import namespace
from wmlab.core.errors import ModelError, TraceError
from wmlab.core.spark.schemas import require, typed
from wmlab.core.traces import TRACE_SCHEMA
from wmlab.strategies.lateness import LatenessCurve, of_counts
from wmlab.strategies.model.strategy import Positive, require_argument

__all__ = ["lateness_curve"]
namespace(__name__)


def lateness_curve(
    log: DataFrame,
    by: str | None = None,
    *,
    name: str = "log",
    order: Sequence[str] | None = None,
    parts: int = 64,
) -> LatenessCurve:
    """The lateness curve of a log with the columns of a trace, as `wm.strategy.lateness_curve`.

    The log is in the order of the columns `order`; the first is a number, and those after it decide between equal
    values. By default that is arrival_ms. Rows that are equal in all of them are taken in the order of their event
    time, in which the fewest are late; so the answer depends on the rows only, never on how Spark has partitioned them.

    The log is divided into `parts` ranges of the first column: one pass finds the largest event time of each range, a
    second one computes the lateness of each row from the earlier rows, in its range and in those before. The driver
    receives only the distinct latenesses. Raises `ModelError` for a column that is not there or has another type, and
    `TraceError` for a log without rows, with a row that lacks a value, or with times whose distance does not fit into
    64 bits.
    """
    if order is None:
        order = ["arrival_ms"]
    if isinstance(order, str) or not order:
        raise ModelError(f"order is {order!r}.", remedy="Give a list of columns, the first a number.")
    require_argument("parts", parts, Positive)
    needed, first = dict.fromkeys(["event_time", "arrival_ms", *order, by or "event_time"]), F.col(order[0])
    require(log, "log", needed)
    if not isinstance(log.schema[order[0]].dataType, NumericType):
        kind = log.schema[order[0]].dataType.simpleString()
        raise ModelError(f"order begins with {order[0]!r}, a {kind}.", remedy="Begin with a column of numbers.")
    log = typed(log, "log", ["event_time", "arrival_ms"], TRACE_SCHEMA)
    without = F.count_if(reduce(or_, (F.col(name).isNull() for name in needed)))
    low, high, unknown = log.agg(F.min(first), F.max(first), without).first() or (None, None, 0)
    if unknown:
        problem = f"{unknown} rows of the log lack one of {', '.join(needed)}."
        raise TraceError(problem, remedy='Leave them out: of a log of of_log, keep where("reason is null").')
    if low is None or high is None:
        raise TraceError("The log has no rows.", remedy="Give a log with at least one event.")
    # As doubles, since two columns of 64 bits may be farther apart than 64 bits; equal values are in one stretch.
    width = (float(high) - float(low)) / parts or 1.0
    part = F.floor((first.cast("double") - F.lit(float(low))) / F.lit(width))
    rows = log.withColumns({"_part": part, "_group": F.col(by) if by else F.lit("")})
    earlier = Window.partitionBy("_group").orderBy("_part").rowsBetween(Window.unboundedPreceding, -1)
    tops = rows.groupBy("_group", "_part").agg(F.max("event_time").alias("_top"))
    carried = tops.select("_group", "_part", F.max("_top").over(earlier).alias("_carried"))
    inside = Window.partitionBy("_group", "_part").orderBy(*order, "event_time")
    inside = inside.rowsBetween(Window.unboundedPreceding, -1)
    top = F.greatest("_carried", F.max("event_time").over(inside), "event_time")
    late = rows.join(F.broadcast(carried), ["_group", "_part"]).select(
        "_group",
        F.try_subtract(top, F.col("event_time")).alias("_late"),
        F.try_subtract(F.col("arrival_ms"), top).alias("_lag"),
        *("event_time", "arrival_ms"),
    )
    beyond = F.col("_late").isNull() | F.col("_lag").isNull()
    counts = late.where("_late > 0").groupBy("_group", "_late").count().toArrow()
    middle = F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY _lag)").cast("long").alias("lag")
    count, apart = F.count("*").alias("rows"), F.count_if(beyond).alias("apart")
    sizes = late.rollup("_group").agg(count, middle, apart).collect()
    if wrong := max((apart for *_, apart in sizes), default=0):
        event, arrival = min((row.event_time, row.arrival_ms) for row in late.where(beyond).limit(1_000).collect())
        raise TraceError(
            f"{wrong} rows of the log have times whose distance is beyond 64 bits, one with event_time {event} and "
            f"arrival_ms {arrival}.",
            remedy="Leave these rows out, or correct their times.",
        )
    curves: dict[Any, LatenessCurve] = {}
    for group, size, lag, _ in sizes:
        mine = counts if group is None else counts.filter(pc.equal(counts["_group"], group))
        total = mine.group_by("_late").aggregate([("count", "sum")]).sort_by("_late")
        latenesses, number = total["_late"].to_numpy(), total["count_sum"].to_numpy()
        curves[group] = of_counts(name if group is None else group, size, latenesses, number, lag)
    whole = curves.pop(None)
    return whole if by is None else replace(whole, by=by, groups=curves)
