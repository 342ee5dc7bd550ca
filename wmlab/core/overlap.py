"""Inputs that come at the same time and have no event time in common: what a watermark says of one, it says of none.

Source: PDP-33, Applications reading from multiple streams ("With Streams with data corresponding to time epochs that
might not even overlap, such a contract is meaningless").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from wmlab.core.words import listed, moment

MEANINGLESS = "a watermark of one says nothing about the other"


class TimesApartWarning(UserWarning):
    """Inputs that are joined or read together have no event time in common."""


class TimeRange(NamedTuple):
    """The event times of an input, from `first` to `last`, and when they arrived (clock, ms)."""

    name: str
    first: int
    last: int
    from_ms: int
    to_ms: int

    def __str__(self) -> str:
        return f"{self.name} from {moment(self.first)} to {moment(self.last)}"


def without_common_times(ranges: Iterable[TimeRange]) -> Sequence[TimeRange]:
    """All ranges by time, if two of them came at the same time and have no time in common; otherwise none.

    One that begins to come when another has ended is later, not apart.
    """
    ordered = sorted(ranges, key=lambda one: (one.first, one.last, one.name))
    apart = (low.last < high.first for low, high in combinations(ordered, 2) if _came_together(low, high))
    return ordered if any(apart) else []


def _came_together(one: TimeRange, other: TimeRange) -> bool:
    return max(one.from_ms, other.from_ms) < min(one.to_ms, other.to_ms)


def apart_text(inputs: str, ranges: Sequence[TimeRange]) -> str:
    """What is wrong, with the values, as a sentence; `inputs` says of what."""
    return f"The event times of {inputs} do not overlap: {listed(list(map(str, ranges)))}; {MEANINGLESS}."
