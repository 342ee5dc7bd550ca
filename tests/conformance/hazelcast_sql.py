"""What upstream's SQL planner chooses for a query. wmlab has no planner: a source is given its frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import gcd

from wmlab.dataflow.model.join import JoinBounds

SQL_MAX_FRAME_MS = 100


def sql_frame_ms(slides_ms: Iterable[int] = (), spreads_ms: Iterable[int] = ()) -> int:
    """The frame for a query with windows of these slides and stream-to-stream joins of these minimum spreads.

    Source: upstream class `WatermarkThrottlingFrameSizeCalculator`.
    """
    most = min([SQL_MAX_FRAME_MS, *(max(spread // 10, 1) for spread in spreads_ms)])
    return min(gcd(*slides_ms) or most, most)


def minimum_spread(bounds: JoinBounds, left: Collection[int]) -> int:
    """The width of the narrowest time range in which rows can match, at least 1, in the unit of the times.

    That is the smallest amount from the left side plus the smallest from the right; each has one. `left` are the left
    side's times. Source: upstream class `StreamToStreamJoinPhysicalRel` (minimumSpread).
    """
    sides: dict[bool, list[int]] = {True: [], False: []}
    for key, bounded in bounds.items():
        sides[key in left] += bounded.values()
    return max(1, min(sides[True]) + min(sides[False]))
