"""Findings about an advice: how reliable its numbers are, and problems of the watermark that it names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from wmlab.core.traces import Trace
from wmlab.core.words import counted, exactly, grouped, listed, rounded
from wmlab.strategies.candidates import OpenBound
from wmlab.strategies.clocks import each_writer
from wmlab.strategies.comparison import short_name
from wmlab.strategies.findings import Finding, row_numbers
from wmlab.strategies.judging import STEADY, JudgedCandidate
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.strategy import UNKNOWN, Strategy
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import Log
from wmlab.strategies.windows import Windows

_ENOUGH: Final = 100
"""Late records that the target has to leave in each half, so that their share can be told from `KEPT` times the target
at 95%: (1.96 / 0.2)^2, if they are independent."""
_TAIL: Final = 20
"""How many times smaller a bound has to be that loses little more, so that an advice for the larger is in doubt."""
_STILL: Final = 0.5
"""The share of time in stalls from which on a watermark counts as stalled; of the constant bound half of it at most."""
_SILENT: Final = 10
"""How many median lags a writer has to be silent at the end of the log, to block a watermark without a timeout."""
_NAMED: Final = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class AdviceCase:
    """An advice that is looked at: the log and its writers, the target, and the candidates as judged."""

    trace: Trace
    target: float
    windows: Windows | None
    clocks: pd.DataFrame
    best: JudgedCandidate
    constant: JudgedCandidate
    bound_ms: int
    """The constant bound that the complete log asks for."""
    kept_by_ms: int
    """The least constant bound that keeps the target on the unseen half."""

    @property
    def missed(self) -> str:
        """What counts against the target, in a word."""
        return "late" if self.windows is None else "lost"


def enough_for(rows: int, target: float) -> bool:
    """Whether so many records can say of a late share whether it is kept: each half has to leave enough late ones."""
    return (rows - rows // 2) * target >= _ENOUGH


def findings_of_advice(case: AdviceCase) -> tuple[Finding, ...]:
    """What is to be said of the numbers and of the watermark of an advice."""
    return (*_of_numbers(case), *_of_movement(case), *_tail(case))


def _of_numbers(case: AdviceCase) -> Iterator[Finding]:
    """What the outcome on the unseen half is worth."""
    best, target, rows = case.best, case.target, case.trace.rows
    unseen, (low, high) = best.unseen, best.missed_range
    few = not enough_for(rows, target)
    if few:
        need, left = grouped(int(2 * _ENOUGH / target)), round(unseen.rows * target)
        yield Finding(
            kind="few records",
            text=f"The log is too short: {grouped(rows)} records where {need} are needed. At the target the second "
            f"half has about {counted(left, f'{case.missed} record')} to judge by.",
            count=rows,
            doubt=True,
        )
    if unseen.missed_share > target:
        points = 100 * (unseen.missed_share - target)
        text = f"On the second half the target is missed by {points:.2g} points."
        yield Finding(
            kind="target missed",
            text=text,
            remedy=f"A constant bound of {exactly(case.kept_by_ms)} would have kept it there.",
            bound_ms=case.constant.candidate.bound_ms,
            without_ms=case.kept_by_ms,
            doubt=True,
        )
    elif not best.steady or (high > STEADY * target and unseen.rows * target >= _ENOUGH):
        text = f"The share of {case.missed} records is unsteady, {low:.3%} to {high:.3%} at 95%."
        yield Finding(kind="unsteady", text=text, doubt=True)
    elif high > target and not few:
        text = f"The target is kept on the second half, but not surely: up to {high:.3%} may be {case.missed}, at 95%."
        yield Finding(kind="not sure", text=text, remedy=f"To be surer, ask for a smaller share, {target / 2:.3g}.")
    if not best.lag_known and not best.misses_none:
        first, last = (rounded(length_ms) for length_ms in best.lag_range)
        text = f"The lag varies too much to be promised: {rounded(best.lag_ms)}, and {first} to {last} at 95%."
        yield Finding(kind="wide lag", text=text, doubt=True)


def _of_movement(case: AdviceCase) -> Iterator[Finding]:
    """A watermark that keeps its target by standing still, or that waits for who does not come back."""
    best, name = case.best, short_name(case.best.strategy)
    if not best.moves:
        text = f"No watermark moves on the second half of the log: {name} lags {rounded(best.lag_ms)} there."
        yield Finding(kind="stands still", text=text, doubt=True)
        return
    middle = case.trace.rows // 2
    arrival = Log.of(case.trace).arrival[middle:]
    patience_ms = 2 * abs(case.constant.lag_ms)
    still, usual = (_still_share(arrival, judged.candidate.x[middle:], patience_ms) for judged in (best, case.constant))
    if still > _STILL and usual < _STILL / 2:
        text = f"{name} stands still for {still:.1%} of the time, for {rounded(best.unseen.stall_ms)} at the longest."
        yield Finding(kind="stands still", text=text, doubt=True)
    inner = _inner(best.strategy)
    if isinstance(inner, PerWriterMinimum) and inner.idle_ms is None:
        clocks = case.clocks
        gone = clocks[clocks["silent_at_end"] & (clocks["silent_ms"] > _SILENT * abs(best.lag_ms))]
        if len(gone):
            of = [f"{clock.writer} (for {rounded(int(clock.silent_ms))})" for clock in each_writer(gone)]
            text = f"{name} waits for writers that are silent at the end: {listed(of, most=_NAMED)}."
            yield Finding(kind="silent writer", text=text, writers=tuple(gone["writer"]), doubt=True)


def _inner(strategy: Strategy[Any]) -> Strategy[Any]:
    """The strategy, without a guard around it."""
    return strategy.inner if isinstance(strategy, Guarded) else strategy


def _tail(case: AdviceCase) -> Iterator[Finding]:
    """The bound is for few records that come far later than all others: a smaller one loses little more."""
    best, constant = case.best.candidate, case.constant.candidate
    waiting = [] if best is constant else [(best.open_bound, best.bound_ms)]
    waiting.append((constant.open_bound, case.bound_ms))
    tails = (_tail_of(case, open_bound, bound_ms) for open_bound, bound_ms in waiting if open_bound is not None)
    yield from [tail for tail in tails if tail is not None][:1]


def _tail_of(case: AdviceCase, of: OpenBound, bound_ms: int) -> Finding | None:
    """The tail that a bound is for, if the curve of its watermark has a knee and it keeps the target."""
    curve, log = of.curve(slice(None)), of.log
    share = curve.late_share(bound_ms)
    knee = curve.knee(share)
    # Between two bounds of which none keeps the target there is nothing to choose.
    if knee is None or share > case.target:
        return None
    deadline = log.event if case.windows is None else case.windows.deadlines(log.event)
    between = (of.met != UNKNOWN) & (deadline < of.met - knee.bound_ms) & (deadline >= of.met - bound_ms)
    owners = Counter(case.trace.table["writer"].filter(pa.array(between)).to_pylist())
    names = tuple(sorted(name for name, count in owners.items() if 2 * count >= between.sum()))
    whose = f", most of them of {listed(names, most=_NAMED)}" if names and len(case.trace.writer_names) > 1 else ""
    return Finding(
        kind="one tail",
        text=f"The bound of {short_name(of.make(bound_ms))} is for one tail of {knee.late_share - share:.3%} of the "
        f"records{whose}: over the whole log {share:.3%} {case.missed} costs a median lag of "
        f"{rounded(curve.lag_ms(bound_ms))}, and {knee.late_share:.3%} {case.missed} costs "
        f"{rounded(curve.lag_ms(knee.bound_ms))}.",
        remedy=f"If they may be {case.missed}, take {short_name(of.make(knee.bound_ms))}.",
        count=int(between.sum()),
        writers=names,
        rows=row_numbers(between),
        bound_ms=bound_ms,
        without_ms=knee.bound_ms,
        doubt=bound_ms > _TAIL * max(knee.bound_ms, 1) and not isinstance(_inner(of.make(bound_ms)), PerWriterMinimum),
    )


def _still_share(arrival: Any, x: Any, patience_ms: int) -> float:
    """The share of time that X has spent in stalls longer than `patience_ms`."""
    moves = np.flatnonzero(np.append(True, np.diff(x) != 0))
    lengths = np.diff(np.append(arrival[moves], arrival[-1]))
    whole = int(arrival[-1] - arrival[0])
    return float(lengths[lengths > patience_ms].sum()) / whole if whole else 0.0
