"""The candidates of `advise`: kinds of watermarks over one log, each with its parameters from the first half.

Of a watermark with a bound, X is that of the bound 0 less the bound. So one run with the bound 0 gives the late share
of every bound, as `lateness_curve` does for the largest event time: a record is late for the bound B if it is more than
B behind the X that it meets. The bound is the least that keeps the target on the first half, with a margin: of k
records that may be late there, two standard errors fewer are, k - 2 sqrt(k), since another k may differ by as much. The
watermarks that find their bound themselves aim at the same share, or at half of the target if that is more.

An idle timeout has no such curve. The timeouts that are tried lie between the median and the longest silence of the
writers at the end of the first half. Each is a multiple of the one before, or a little longer than a quantile of the
silences; around the best one the steps become smaller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, Final

import numpy as np

from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace
from wmlab.strategies.clocks import ahead_limit_ms, in_two_digits
from wmlab.strategies.lateness import LatenessCurve, of_counts
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.percentiles import DelayPercentile, WindowedPercentile, within
from wmlab.strategies.model.strategy import UNKNOWN, Strategy
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import Log, before, median, x_of_records
from wmlab.strategies.windows import Windows

_COARSE: Final = 4
"""By which factor one idle timeout that is tried is longer than the one before."""
_FINER: Final = (2.0, 2**0.5)
"""By which factors those that are tried next are longer and shorter than the best one."""
_TIMEOUTS: Final = 8
"""How many timeouts are tried at most before finer ones."""
_USUAL: Final = (0.9, 0.99, 0.999, 0.9999, 1.0)
_LONGER: Final = 1.25
"""How many times these quantiles of the silences of writers are timeouts that are tried, too."""
_ERRORS: Final = 2
"""How many standard errors fewer records are late on the first half than the target admits."""
_STILL: Final = 3
"""Of how many parts of a half a bound is less than one."""
_SEARCHED: Final = 50_000
"""Records of the first half, its last ones, over which timeouts are tried."""
_SEARCHED_OF_ALL: Final = 20_000_000
"""The same times the number of writers: with more of them, the least over them takes longer."""


@dataclass(frozen=True, eq=False)
class OpenBound:
    """A watermark whose bound is not chosen yet: how it is made, and the X of the bound 0 that each record meets, and
    that after it."""

    make: Callable[[int], Strategy[Any]]
    log: Log
    met: Int64Array
    x: Int64Array
    windows: Windows | None = None

    def curve(self, rows: slice) -> LatenessCurve:
        """The late share of every bound over some rows of the log, or the share that windows lose.

        Of sessions it is never below that.
        """
        event, met, x = self.log.event[rows], self.met[rows], self.x[rows]
        deadline = event if self.windows is None else self.windows.deadlines(event)
        late_by = np.maximum(met, deadline) - deadline
        values, counts = np.unique(late_by, return_counts=True)
        late = values > 0
        return of_counts("", len(event), values[late], counts[late], median((self.log.arrival[rows] - x)[x != UNKNOWN]))

    def least_bound_ms(self, rows: slice, share: float) -> int:
        """The least bound at which at most that share of the rows is late, or lost by windows."""
        bound_ms = self.curve(rows).bound_ms(share)
        if self.windows is None or self.windows.gap_ms is None:
            return bound_ms
        part, most = self.log.of_rows(rows), within(share, len(self.met[rows]))

        def enough(bound_ms: int) -> bool:
            assert self.windows is not None
            return int(self.windows.lost(part, _less(self.met[rows], bound_ms)).sum()) <= most

        # The larger the bound, the more sessions still take records: what is lost becomes less.
        return bisect_left(range(bound_ms), True, key=enough)

    def with_bound(self, bound_ms: int) -> Candidate:
        """The strategy with a bound, and its X."""
        met, x = (_less(times, bound_ms) for times in (self.met, self.x))
        return Candidate(self.make(bound_ms), met, x, self, bound_ms)


def _less(x: Int64Array, bound_ms: int) -> Int64Array:
    return np.where(x < UNKNOWN + bound_ms, UNKNOWN, x - bound_ms)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A strategy with the X that each record of the log meets, and X after it.

    `open_bound` is what one with a bound was made of, and `bound_ms` that bound.
    """

    strategy: Strategy[Any]
    met: Int64Array
    x: Int64Array
    open_bound: OpenBound | None = None
    bound_ms: int = 0

    def bound_of(self, rows: slice, share: float) -> int:
        """The least bound with which at most that share of some rows is missed."""
        assert self.open_bound is not None
        return self.open_bound.least_bound_ms(rows, share)

    def with_bound(self, bound_ms: int) -> Candidate:
        """The same kind of strategy with another bound."""
        assert self.open_bound is not None
        return self.open_bound.with_bound(bound_ms)


@dataclass(frozen=True, eq=False)
class Candidates:
    """All candidates over one log, for a target; `middle` is the first row of the test half.

    The first one is a constant bound; the simpler ones come first.
    """

    trace: Trace
    target: float
    guard: bool
    """Whether to try a guard against records that are ahead of their arrival."""
    windows: Windows | None = None

    @cached_property
    def log(self) -> Log:
        """The columns of the log."""
        return Log.of(self.trace)

    @property
    def middle(self) -> int:
        """The first row of the test half, which the choice does not see; 0 if there is but one row."""
        return self.trace.rows // 2

    @cached_property
    def first(self) -> Trace:
        """The tuning half, from which parameters are chosen."""
        return Trace(self.trace.name, self.trace.table.slice(0, max(1, self.middle)))

    @cached_property
    def _ahead_ms(self) -> int:
        return ahead_limit_ms(self.first)

    def all(self) -> list[Candidate]:
        """All of them, each with its parameters."""
        waiting: list[Strategy[Any]] = [PerWriterMinimum(idle_ms=idle_ms) for idle_ms in self._timeouts()]
        guarded: list[Strategy[Any]] = [Guarded(strategy, self._ahead_ms) for strategy in waiting] if self.guard else []
        steering = self._steering()
        runs = x_of_records(self.trace, [*waiting, *guarded, *steering])
        candidates = [self._chosen(self._constant())]
        candidates += [self._chosen(self._guarded_constant())] if self.guard else []
        for strategy, (met, x) in zip([*waiting, *guarded], runs, strict=False):
            candidates.append(self._chosen(OpenBound(rebound(strategy), self.log, met, x, self.windows)))
        of_steering = zip(steering, runs[len(waiting) + len(guarded) :], strict=True)
        return candidates + [Candidate(strategy, *steps) for strategy, steps in of_steering]

    def _chosen(self, open_bound: OpenBound) -> Candidate:
        first = max(1, self.middle)
        bound_ms = open_bound.least_bound_ms(slice(0, first), self._share_of(first))
        return open_bound.with_bound(min(bound_ms, self._most_ms))

    @cached_property
    def _most_ms(self) -> int:
        """The largest bound that is tried: with a longer one X would stand still over a half."""
        arrival, first = self.log.arrival, slice(0, max(1, self.middle))
        shorter = min(arrival[self.middle] - arrival[0], arrival[-1] - arrival[self.middle])
        delay_ms = median(arrival[first] - np.maximum.accumulate(self.log.event[first]))
        of_records_ms = max(0, median(arrival[first] - self.log.event[first]))
        return max(0, int(shorter - 1) // _STILL + of_records_ms - max(0, delay_ms))

    def _share_of(self, rows: int) -> float:
        """The share of so many records that keeps the target with the margin."""
        late = self.target * rows
        return max(0.0, late - _ERRORS * sqrt(late)) / rows

    def _constant(self) -> OpenBound:
        top = before(self.log.event)
        return OpenBound(BoundedOutOfOrderness, self.log, top, np.maximum(top, self.log.event), self.windows)

    def _guarded_constant(self) -> OpenBound:
        limit = self._ahead_ms
        moving = np.where(self.log.event - self.log.arrival > limit, UNKNOWN, self.log.event)
        top = before(moving)
        make = rebound(Guarded(BoundedOutOfOrderness(0), limit))
        return OpenBound(make, self.log, top, np.maximum(top, moving), self.windows)

    def _steering(self) -> list[Strategy[Any]]:
        """Those that find their bound themselves, also in the test half."""
        warm_up = min(1_000, max(1, self.trace.rows // 10))
        target = float(f"{max(self._share_of(max(1, self.middle)), self.target / 2):.2g}")
        share = 1 - target
        return [
            ConformalWatermark(target, hold=warm_up),
            WindowedPercentile(share, hold=warm_up),
            DelayPercentile(share),
        ]

    def _timeouts(self) -> list[int | None]:
        """None, and the idle timeout with the least lag at the end of the first half; nothing if one writer is all."""
        most = min(_SEARCHED, _SEARCHED_OF_ALL // len(self.first.writer_names))
        rows = self.first.table.slice(max(0, self.first.rows - most))
        searched = Trace(self.trace.name, rows)
        log = Log.of(searched)
        if len(np.unique(log.writer)) < 2:
            return []
        since = before(log.arrival, log.writer)
        silences = (log.arrival - since)[since != UNKNOWN]
        if not len(silences) or not silences.max():
            return [None]
        longest = int(silences.max())
        shortest = max(1, median(silences), longest // _COARSE ** (_TIMEOUTS - 1))
        grid = [length for n in range(_TIMEOUTS) if (length := shortest * _COARSE**n) < longest]
        # A timeout pays from where it exceeds the silences that are usual.
        usual = np.quantile(silences, _USUAL, method="inverted_cdf").tolist()
        lags = self._lags(searched, [*grid, *(_LONGER * length_ms for length_ms in usual)])
        for factor in _FINER:
            best = min(lags, key=lambda idle_ms: (lags[idle_ms], idle_ms))
            lags |= self._lags(searched, [best / factor, best * factor])
        return [None, min(lags, key=lambda idle_ms: (lags[idle_ms], idle_ms))]

    def _lags(self, searched: Trace, lengths_ms: Sequence[float]) -> dict[int, int]:
        """For each idle timeout, of two digits, the median lag with the bound that keeps the target."""
        timeouts = sorted({max(1, in_two_digits(length_ms)) for length_ms in lengths_ms})
        strategies = [PerWriterMinimum(idle_ms=idle_ms) for idle_ms in timeouts]
        log, lags = Log.of(searched), {}
        for idle_ms, steps in zip(timeouts, x_of_records(searched, strategies), strict=True):
            curve = OpenBound(PerWriterMinimum, log, *steps, self.windows).curve(slice(None))
            lags[idle_ms] = curve.lag_ms(curve.bound_ms(self._share_of(curve.rows)))
        return lags


def rebound(strategy: Strategy[Any]) -> Callable[[int], Strategy[Any]]:
    """How to make a strategy that has a bound with another bound."""
    if isinstance(strategy, Guarded):
        inner = rebound(strategy.inner)
        return lambda bound_ms: Guarded(inner(bound_ms), strategy.ahead_ms, strategy.beyond)
    if isinstance(strategy, PerWriterMinimum):
        return lambda bound_ms: PerWriterMinimum(bound_ms, strategy.idle_ms, strategy.writers)
    return BoundedOutOfOrderness
