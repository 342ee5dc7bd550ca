"""A party's clock as a value."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated

from pydantic import Field

from wmlab.core.values import value


@value
class Clock:
    """A party's clock: `skew_ms` ahead of simulated time at the start, or behind it when negative.

    It gains `drift_ppm` microseconds a second, or loses them when negative. `script.StepClock` sets it during a run.
    """

    _: KW_ONLY
    skew_ms: Annotated[int, Field(strict=True)] = 0
    drift_ppm: Annotated[int, Field(gt=-1_000_000, le=1_000_000, strict=True)] = 0
