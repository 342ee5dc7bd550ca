"""What one run came to, in numbers: how far the bounds were behind the clock, from each other and from the perfect one.

All are averages over time: between two rows a bound stands still and the clock goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

Bounds = Sequence[tuple[int, int | None, int | None]]
"""Clock, lower and upper bound by row, None from an end of known time on; the last row is the end of the run."""
Measures = dict[str, int | float | None]


def bounds_of(log: Sequence[Mapping[str, Any]], end_ms: int) -> Bounds:
    """The bounds that a log of watermarks gave until the end of the run; none if it is empty."""
    rows = [(row["emitted_ms"], row["lower"], row["upper"]) for row in log]
    return [*rows, *((max(end_ms, at_ms), lower, upper) for at_ms, lower, upper in rows[-1:])]


def lags(bounds: Bounds) -> Measures:
    """The mean and the worst lag of the lower bound behind the clock, and the mean of upper minus lower, in ms.

    They are about the time in which the bounds are known, and None if they never are.
    """
    steps = [
        (until_ms - at_ms, at_ms, until_ms, lower, upper)
        for (at_ms, lower, upper), (until_ms, _, _) in pairwise(bounds)
        if lower is not None and upper is not None
    ]
    known_ms = sum(length for length, *_ in steps)
    if not known_ms:
        return {"lag_ms": None, "worst_lag_ms": None, "uncertainty_ms": None}
    area = sum(length * ((at_ms + until_ms) / 2 - lower) for length, at_ms, until_ms, lower, _ in steps)
    width = sum(length * (upper - lower) for length, _, _, lower, upper in steps)
    return {
        "lag_ms": round(area / known_ms, 1),
        "worst_lag_ms": max(until_ms - lower for _, _, until_ms, lower, _ in steps),
        "uncertainty_ms": round(width / known_ms, 1),
    }


def slack_ms(bounds: Bounds, events: pa.Table) -> float | None:
    """By how much the lower bound was below the perfect watermark on average, while it was known, up to the last event.

    The perfect watermark of a stream is the smallest time of the events that are still to be appended. Negative where
    events came below the bound. `events` has append_ms (ascending) and event_time; None without rows of both.
    """
    append_ms, event_time = (np.asarray(events[name], np.int64) for name in ("append_ms", "event_time"))
    at_ms = np.array([at for at, _, _ in bounds[:-1]], np.int64)
    if not len(at_ms) or not len(append_ms) or append_ms[-1] <= at_ms[0]:
        return None
    perfect = np.minimum.accumulate(event_time[::-1])[::-1]
    moments = np.union1d(append_ms[append_ms > at_ms[0]], at_ms[at_ms < append_ms[-1]])
    lower = np.array([lower or 0 for _, lower, _ in bounds[:-1]], np.int64)
    known = np.array([lower is not None for _, lower, _ in bounds[:-1]])
    place = np.searchsorted(at_ms, moments[:-1], side="right") - 1
    ahead = perfect[np.searchsorted(append_ms, moments[:-1], side="right")] - lower[place]
    weights = np.diff(moments) * known[place]
    return round(float(np.average(ahead, weights=weights)), 1) if weights.any() else None
