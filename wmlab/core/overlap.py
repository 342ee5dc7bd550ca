"""Inputs whose event times never overlap although they arrive together.

A watermark of one then says nothing about the other, so a bound over both says something about one of them only. A run
knows no later times: inputs of two epochs stay apart for ever. One that is behind the other by a constant time would
meet it in a run that lasts longer than that. The warning says by how much they are apart, and names both remedies.

Source: PDP-33, Applications reading from multiple streams ("With Streams with data corresponding to time epochs that
might not even overlap, such a contract is meaningless").
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from wmlab.core.words import exactly, listed, moment

MEANINGLESS: Final = "until they do, a watermark of one says nothing about the other"


class TimesApartWarning(UserWarning):
    """The event times of inputs that are joined or read together do not overlap in the run.

    `recording` is what the run has recorded, so that it is not lost where warnings are raised as errors.
    """

    def __init__(self, message: str, recording: Any = None) -> None:
        super().__init__(message)
        self.recording = recording


def warn_of_times_apart(recording: Any, sentences: Iterable[str], remedy: str) -> None:
    """Warn the caller of the function that has recorded the run, which is whole by now, of inputs that are apart.

    An input that is only late is named with a remedy of its own, behind `remedy`.
    """
    for sentence in sentences:
        text = f"{sentence} To repair it: {remedy}; or, if one is only behind the other, run for longer than that."
        warnings.warn(TimesApartWarning(text, recording), stacklevel=3)


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

    One that begins to come when another has ended is later, not apart. Times that come after the run count for nothing.
    """
    ordered = sorted(ranges, key=lambda times: (times.first, times.last, times.name))
    apart = (low.last < high.first for low, high in combinations(ordered, 2) if _came_together(low, high))
    return ordered if any(apart) else []


def _came_together(low: TimeRange, high: TimeRange) -> bool:
    return max(low.from_ms, high.from_ms) < min(low.to_ms, high.to_ms)


def apart_text(inputs: str, ranges: Sequence[TimeRange]) -> str:
    """What is wrong, with the values, as a sentence; `inputs` says of what."""
    gaps = [high.first - low.last for low, high in combinations(ranges, 2) if _came_together(low, high)]
    values = f"{listed(list(map(str, ranges)))}, {exactly(max(gaps))} apart"
    return f"The event times of {inputs} do not overlap in this run: {values}; {MEANINGLESS}."
