"""Candidates on the test half of a log: the losses and the lag of each, with their intervals.

Intervals are at 95%, around the value on the half. They are those of sectioning (Asmussen and Glynn, Stochastic
Simulation, 2007, III.5): the half has 8 blocks of one length. The deviations of their values from that of the half show
how steady the log is. Of few late records the interval of a share is that of Wilson as well, which is not empty where
none is late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any, Final

import numpy as np

from wmlab.strategies.candidates import Candidate
from wmlab.strategies.comparison import Outcome, moves, outcome
from wmlab.strategies.model.strategy import END, UNKNOWN, Strategy
from wmlab.strategies.replay import Log, difference, median, path_of_records
from wmlab.strategies.windows import LogWindows

BLOCKS: Final = 8
_STUDENT: Final = 2.365
"""The 97.5% quantile of Student's distribution with 7 degrees of freedom, for 8 blocks."""
_NORMAL: Final = 1.96
STEADY: Final = 2.0
"""How many times the target the upper end of the interval of a late share may be, without a doubt."""
_WORSE: Final = 2.0
"""How many times the least loss the best guess may have."""
_SIMPLER: Final = 0.05
"""How much more lag a simpler watermark may have than the one with the least, as a share of that."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedCandidate:
    """A candidate with its outcome on the unseen half of the log.

    `missed_range` and `lag_range` are the intervals around the share of missed records, 0 to 1, which are late, or lost
    if windows are known; and around the median lag, ms.
    """

    candidate: Candidate
    unseen: Outcome
    missed_range: tuple[float, float]
    lag_range: tuple[int, int]
    misses_none: bool
    """Whether it misses no record of either half."""
    moves: bool
    """Whether X rises on the unseen half, and its median lag beyond the delay of the records is below a third of it."""

    @property
    def strategy(self) -> Strategy[Any]:
        """The strategy."""
        return self.candidate.strategy

    @property
    def lag_ms(self) -> int:
        """The median lag on the unseen half; 0 where X is never known there."""
        return self.unseen.lag_p50_ms or 0

    @property
    def lag_known(self) -> bool:
        """Whether the interval of the lag is no wider than the lag itself."""
        return self.lag_range[1] - self.lag_range[0] <= abs(self.lag_ms)

    def keeps(self, target: float) -> bool:
        """Whether the share on the unseen half is at most the target, with a watermark that moves."""
        return self.moves and self.unseen.missed_share <= target


def judge(candidate: Candidate, log: Log, middle: int, windows: LogWindows | None) -> JudgedCandidate:
    """What a candidate does on the rows of a log from `middle` on, of which the windows are."""
    met, x = candidate.met, candidate.x
    half = log.of_rows(slice(middle, None))
    missed = log.event < met if windows is None else windows.windows.lost(log, met)
    timed = (x[middle:] != UNKNOWN) & (x[middle:] != END)
    blocks = _around(missed[middle:], np.mean)
    lag = _around(difference(half.arrival, x[middle:], timed), median) if timed.any() else (0.0, 0.0)
    few = _wilson(int(missed[middle:].sum()), len(half.event))
    unseen = outcome(candidate.strategy, half, path_of_records(half, met[middle:], x[middle:]), windows)
    if windows is not None:
        # Sessions of the first half may still take records of the second.
        unseen = replace(unseen, lost=int(missed[middle:].sum()))
    return JudgedCandidate(
        candidate=candidate,
        unseen=unseen,
        missed_range=(max(0.0, min(blocks[0], few[0])), min(1.0, max(blocks[1], few[1]))),
        lag_range=(floor(lag[0]), ceil(lag[1])),
        misses_none=not missed.any(),
        moves=moves(half, x[middle:], unseen.lag_p50_ms),
    )


def chosen(judged: Sequence[JudgedCandidate], target: float) -> JudgedCandidate:
    """The first one whose lag is about the least of those that keep the target; if none does, the best guess.

    The best guess is among those that move, and of these among those with at most twice the least loss on the unseen
    half, where a loss below the target is as good as that; of them it has the least product of lag and squared loss.
    """
    keeping = [candidate for candidate in judged if candidate.keeps(target)]
    if not keeping:
        return _best_guess(judged, target)
    least = min(candidate.lag_ms for candidate in keeping)
    return next(candidate for candidate in keeping if candidate.lag_ms <= least + _SIMPLER * abs(least))


def _best_guess(judged: Sequence[JudgedCandidate], target: float) -> JudgedCandidate:
    """The candidate that loses and lags little, of some that do not keep the target."""

    def loss(candidate: JudgedCandidate) -> float:
        return max(candidate.unseen.missed_share, target)

    moving = [candidate for candidate in judged if candidate.moves]
    known = moving or [candidate for candidate in judged if candidate.unseen.lag_p50_ms is not None] or judged
    least = min(map(loss, known))
    near = [candidate for candidate in known if loss(candidate) <= _WORSE * least]
    return min(near, key=lambda candidate: loss(candidate) ** 2 * max(candidate.lag_ms, 1))


def _around(values: Any, estimate: Callable[[Any], Any]) -> tuple[float, float]:
    """The interval around the estimate of all values, by those of blocks of them."""
    whole = float(estimate(values))
    deviations = np.array([estimate(block) - whole for block in np.array_split(values, BLOCKS) if len(block)])
    count = len(deviations)
    off = _STUDENT * float((deviations**2).sum() / (count - 1) / count) ** 0.5 if count > 1 else 0.0
    return whole - off, whole + off


def _wilson(count: int, rows: int) -> tuple[float, float]:
    """The interval of a share if `count` of `rows` are counted and independent."""
    share, wide = count / rows, _NORMAL**2 / rows
    middle, off = share + wide / 2, (wide * (share * (1 - share) + wide / 4)) ** 0.5
    return (middle - off) / (1 + wide), (middle + off) / (1 + wide)
