"""A party's clock: what it shows at a moment of simulated time, skewed, drifting, and set by the script."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wmlab.streams.scenario.clock import Clock
from wmlab.streams.scenario.script import StepClock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.streams.scenario.scenario import StreamScenario

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class LocalClock:
    """Shows simulated time plus a skew, plus the drift since `start_ms`, plus every step made so far.

    `steps` are (simulated time in ms, total of the steps up to and including this one in ms), ascending.
    """

    start_ms: int
    part: Clock
    steps: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(scenario: StreamScenario, party: str, part: Clock) -> LocalClock:
        """The clock of a party under the script of its scenario."""
        mine = (action for action in scenario.script if isinstance(action, StepClock) and action.party == party)
        return LocalClock(scenario.start_ms, part, _totals(sorted((s.at_ms, s.by_ms) for s in mine), scenario.start_ms))

    def read(self, now_ms: int) -> int:
        """What it shows at a simulated time."""
        shown = now_ms + self.part.skew_ms + (now_ms - self.start_ms) * self.part.drift_ppm // _MILLION
        if not self.steps:
            return shown
        place = bisect_right(self.steps, now_ms, key=lambda step: step[0])
        return shown + (self.steps[place - 1][1] if place else 0)

    def read_all(self, times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """What it shows at each of many simulated times."""
        shown = times_ms + self.part.skew_ms
        if self.part.drift_ppm:
            shown += (times_ms - self.start_ms) * self.part.drift_ppm // _MILLION
        if self.steps:
            moments, totals = np.array(self.steps, np.int64).T
            shown += np.concatenate([[0], totals])[np.searchsorted(moments, times_ms, side="right")]
        return shown


def _totals(steps: Iterable[tuple[int, int]], start_ms: int) -> tuple[tuple[int, int], ...]:
    total, found = 0, []
    for at_ms, by_ms in steps:
        total += by_ms
        found.append((start_ms + at_ms, total))
    return tuple(found)
