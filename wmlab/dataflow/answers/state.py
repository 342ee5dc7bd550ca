"""Whether what an instance holds stays bounded, told from how its size has changed, with a forecast.

State that shrinks each time its watermark moves is bounded. State that has grown for longer than it ever did between
two falls, or has never shrunk, grows on at the rate since the last fall, up to its limit if it has one. Of state that
has not changed for long nothing is said.

Source: "Stream-to-stream join", memory management; "Keyed watermark support", WM generation (what holds state back).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from wmlab.dataflow.answers.explanation import StateForecast
from wmlab.dataflow.answers.run import Run

_FEWEST: Final = 2
"""Changes of size without a fall from which on a rate is told."""
_LONGER: Final = 2
"""So many times the longest stretch without a fall has state to grow until that is called unbounded; and so many times
the longest stretch without a change has it to stay until it is said to grow no more."""


def forecast(
    run: Run, vertex: str, instance: int, *, execution: int, at_ms: int, limit: int | None
) -> StateForecast | None:
    """The forecast for one instance at a moment; None if it has held nothing by then."""
    begun = next(row["started_ms"] for row in run.executions if row["execution"] == execution)
    points = [
        (row["at_ms"], row["size"])
        for row in run.sizes.get((vertex, instance), ())
        if row["buffer"] == "all" and row["execution"] == execution and row["at_ms"] <= at_ms
    ]
    if not points:
        return None
    falls = [at for (_, before), (at, after) in pairwise([(begun, 0), *points]) if after < before]
    since_ms = falls[-1] if falls else points[0][0]
    size = points[-1][1]
    rises = [point for point in points if point[0] >= since_ms]
    changed_ms = rises[-1][0]
    grown = size - rises[0][1]
    rate = 1_000 * grown / (changed_ms - since_ms) if changed_ms > since_ms else 0.0
    still = at_ms - changed_ms > _LONGER * max([later - at for (at, _), (later, _) in pairwise(rises)], default=at_ms)
    bounded = None if still else _bounded(rises, falls, begun, at_ms, grown)
    return StateForecast(
        vertex=vertex,
        instance=instance,
        at_ms=at_ms,
        size=size,
        peak=max(after for _, after in points),
        since_ms=since_ms,
        changed_ms=changed_ms,
        rate_per_s=round(rate, 3),
        shrank=bool(falls),
        limit=limit,
        limit_at_ms=_limit_at_ms(limit, size, rate, at_ms) if bounded is False else None,
        bounded=bounded,
    )


def _bounded(rises: Sequence[tuple[int, int]], falls: Sequence[int], begun: int, at_ms: int, grown: int) -> bool | None:
    growing = grown > 0 and len(rises) > _FEWEST
    if not falls:
        return False if growing else None
    longest = max(later - earlier for earlier, later in pairwise([begun, *falls]))
    return not (growing and at_ms - falls[-1] > _LONGER * longest)


def _limit_at_ms(limit: int | None, size: int, rate: float, at_ms: int) -> int | None:
    if limit is None or rate <= 0 or size >= limit:
        return None
    return at_ms + round(1_000 * (limit - size) / rate)
