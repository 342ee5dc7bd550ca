"""The clock of a node: simulated time with its skew, its drift, and the steps of the script."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from wmlab.streams.scenario.parts import Clock
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.scenario.script import StepClock

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
    def of(scenario: StreamScenario, node: str, part: Clock) -> LocalClock:
        """The clock of a node under the script of its scenario."""
        mine = [action for action in scenario.script if isinstance(action, StepClock) and action.party == node]
        steps = sorted((scenario.start_ms + step.at_ms, step.by_ms) for step in mine)
        totals = accumulate(steps, lambda total, step: (step[0], total[1] + step[1]))
        return LocalClock(scenario.start_ms, part, tuple(totals))

    def read(self, now_ms: int) -> int:
        """What it shows at a simulated time."""
        clock_ms = now_ms + self.part.skew_ms + (now_ms - self.start_ms) * self.part.drift_ppm // _MILLION
        if not self.steps:
            return clock_ms
        passed = bisect_right(self.steps, now_ms, key=lambda step: step[0])
        return clock_ms + (self.steps[passed - 1][1] if passed else 0)

    def read_all(self, times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """What it shows at each of many simulated times."""
        clock_ms = times_ms + self.part.skew_ms
        if self.part.drift_ppm:
            whole, rest = np.divmod(times_ms - self.start_ms, _MILLION)  # the product of both might exceed 64 bits
            clock_ms += whole * self.part.drift_ppm + rest * self.part.drift_ppm // _MILLION
        if self.steps:
            moments, totals = np.array(self.steps, np.int64).T
            clock_ms += np.concatenate([[0], totals])[np.searchsorted(moments, times_ms, side="right")]
        return clock_ms

    def ahead_ms(self, now_ms: int) -> int:
        """By how much it is ahead of simulated time (negative: behind)."""
        return self.read(now_ms) - now_ms
