"""How a source tells the watermark of a partition from the times it has seen: a fixed lag behind the highest of them,
a lag behind the clock, or a rule of one's own.

A policy is a value and its state is frozen. What it says may go back; the source that asks it never does.

Source: "Keyed watermark support", WM generation; upstream class `WatermarkPolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import MIN

T = TypeVar("T")


class LagPolicy(Protocol[T]):
    """A rule for the watermark of one partition. `T` is its frozen state. Source: as the module."""

    def start(self) -> T:
        """The state before any event. Source: as the module."""

    def report(self, state: T, time: int) -> T:
        """The state after an event of this time. Source: as the module."""

    def current(self, state: T, now_ms: int) -> int | None:
        """The watermark at clock time `now_ms`; None: none yet. Source: as the module."""


@dataclass(frozen=True, slots=True)
class FixedLag:
    """The highest time seen minus `lag`, in the unit of the times. Source: upstream `limitingLag`.

    A time so low that subtracting the lag would leave the 64 bits is not counted. Raises `ModelError` for a negative
    lag.
    """

    lag: int

    def __post_init__(self) -> None:
        _require_lag(self.lag)

    def start(self) -> int | None:
        """No time seen. Source: as the module."""
        return None

    def report(self, state: int | None, time: int) -> int | None:
        """The watermark after an event of this time. Source: as the module."""
        if time <= MIN + self.lag:
            return state
        mark = time - self.lag
        return mark if state is None or mark > state else state

    def current(self, state: int | None, now_ms: int) -> int | None:  # noqa: ARG002
        """The watermark; the clock plays no part. Source: as the module."""
        return state


@dataclass(frozen=True, slots=True)
class RealTimeLag:
    """The clock minus `lag_ms`; events do not matter, their times being clock times. Source: upstream
    `limitingRealTimeLag`.

    Raises `ModelError` for a negative lag.
    """

    lag_ms: int

    def __post_init__(self) -> None:
        _require_lag(self.lag_ms)

    def start(self) -> None:
        """There is no state. Source: as the module."""

    def report(self, state: None, time: int) -> None:
        """Nothing to remember. Source: as the module."""

    def current(self, state: None, now_ms: int) -> int | None:  # noqa: ARG002
        """The clock time minus the lag. Source: as the module."""
        return now_ms - self.lag_ms


def _require_lag(lag: int) -> None:
    if lag < 0:
        raise ModelError(f"lag {lag} is negative", remedy="Use a lag of 0 or more.")
