"""Flink's timer of idleness, probe by probe; the strategy passes over the probes in which nothing can change.

Source: `WatermarksWithIdleness` of Flink 2.3.0.
"""

from __future__ import annotations

from typing import NamedTuple


class IdlenessTimer(NamedTuple):
    """Whether a split was active since the last probe, and when its quiet time began."""

    active: bool = False
    since: int | None = None


def probe(timer: IdlenessTimer, now: int, timeout: int) -> tuple[IdlenessTimer, bool]:
    """The timer after a probe, and whether the split is idle: for more than `timeout` since the first quiet probe."""
    if timer.active:
        return IdlenessTimer(), False
    if timer.since is None:
        return IdlenessTimer(since=now), False
    return timer, now - timer.since > timeout
