"""What Spark does with watermarks besides moving them from batch to batch: refusals and the length of a delay.

Source: `EventTimeWatermarkExec`, `WatermarkTracker` and `WatermarkPropagator` of Spark 4.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from wmlab.core.errors import ModelError


def redefine(defined: Collection[Hashable], stream: Hashable) -> None:
    """Raises ModelError if a stream has a watermark already, as Spark 4 does."""
    if stream in defined:
        raise ModelError(f"{stream!r} has a watermark already.", remedy="Define one watermark for each stream.")


def delay_ms(*, months: int = 0, days: int = 0, ms: int = 0) -> int:
    """The length of a delay in milliseconds; Spark takes a month for 31 days."""
    return (months * 31 + days) * 86_400_000 + ms


def join_output(left: int, right: int, arriving: int) -> int:
    """The watermark after a join of streams: the least of what it gets and of both states (since 3.5)."""
    return min(left, right, arriving)
