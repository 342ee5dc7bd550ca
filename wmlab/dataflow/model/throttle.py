"""How coarse the watermarks of a source may be: the frame of its throttle, from what is downstream of it.

Finer watermarks than the windows need cost without effect, coarser ones delay results. A join closes at no regular
rhythm, so a tenth of its spread serves instead.

Source: "Stream-to-stream join", watermark throttling; upstream classes `WatermarkThrottlingFrameSizeCalculator` (SQL)
and `Planner` (pipelines).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final

SQL_MAX_FRAME_MS: Final = 100
SPREAD_PARTS: Final = 10
PIPELINE_FRAME_MS: Final = 1_000
SESSION_MAX_FRAME_MS: Final = 100
SESSION_PARTS: Final = 100


def sql_frame_ms(slides_ms: Iterable[int] = (), spreads_ms: Iterable[int] = ()) -> int:
    """The frame for a query with windows of these slides and stream-to-stream joins of these minimum spreads.

    Source: upstream class `WatermarkThrottlingFrameSizeCalculator`.
    """
    joins = min((min(max(spread // SPREAD_PARTS, 1), SQL_MAX_FRAME_MS) for spread in spreads_ms), default=None)
    most = SQL_MAX_FRAME_MS if joins is None else joins
    return min(gcd(*slides_ms) or most, most)


def pipeline_frame_ms(slides_ms: Iterable[int] = (), session_timeouts_ms: Iterable[int] = ()) -> int:
    """The frame for a pipeline with sliding windows of these slides and session windows of these timeouts.

    A frame above 1000 ms is brought down to a common divisor with it. Source: upstream class `Planner`.
    """
    sessions = [min(SESSION_MAX_FRAME_MS, max(1, timeout // SESSION_PARTS)) for timeout in session_timeouts_ms]
    common = gcd(*slides_ms, *sessions) or PIPELINE_FRAME_MS
    return common if common <= PIPELINE_FRAME_MS else gcd(common, PIPELINE_FRAME_MS)
