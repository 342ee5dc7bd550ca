"""Findings about an advice: how reliable its numbers are, and problems of the watermark that it names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from wmlab.core.facts import Value
from wmlab.core.traces import Trace
from wmlab.strategies.candidates import OpenBound
from wmlab.strategies.findings import Finding, finding, owners, row_numbers
from wmlab.strategies.judging import STEADY, JudgedCandidate
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.strategy import UNKNOWN, Strategy
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.vocabulary import FindingKind
from wmlab.strategies.windows import Windows

_ENOUGH: Final = 100
"""Late records that the target has to leave in each half, so that their share can be told from `KEPT` times the target
at 95%: (1.96 / 0.2)^2, if they are independent."""
_TAIL: Final = 20
"""How many times smaller a bound has to be that loses little more, so that an advice for the larger is in doubt."""
_SILENT: Final = 10
"""How many median lags a writer has to be silent at the end of the log, to block a watermark without a timeout."""


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


def enough_for(rows: int, target: float) -> bool:
    """Whether so many records can say of a late share whether it is kept: each half has to leave enough late ones."""
    return (rows - rows // 2) * target >= _ENOUGH


def findings_of_advice(case: AdviceCase) -> tuple[Finding, ...]:
    """What is to be said of the numbers and of the watermark of an advice."""
    return (*_of_numbers(case), *_of_movement(case), *_tail(case))


def _of_numbers(case: AdviceCase) -> Iterator[Finding]:
    """What the outcome on the unseen half is worth."""
    best, target, rows = case.best, case.target, case.trace.rows
    missed, at_most, few = best.unseen.missed_share, best.missed_range[1], not enough_for(rows, target)
    if few:
        yield finding(FindingKind.FEW_RECORDS, {"records": rows, "needed": int(2 * _ENOUGH / target)}, doubt=True)
    if missed > target:
        facts = {"target": target, "missed by": missed - target, "kept by": case.kept_by_ms}
        yield finding(FindingKind.TARGET_MISSED, facts, doubt=True)
    elif at_most > target and not few:
        yield finding(FindingKind.NOT_SURE, {"target": target, "at most": at_most}, doubt=at_most > STEADY * target)
    if not best.lag_known and not best.misses_none:
        first, last = best.lag_range
        facts = {"lag": best.lag_ms, "least lag": first, "largest lag": last}
        yield finding(FindingKind.WIDE_LAG, facts, doubt=True)


def _of_movement(case: AdviceCase) -> Iterator[Finding]:
    """A watermark that stands still, or that waits for who does not come back."""
    best, inner = case.best, _inner(case.best.strategy)
    if not best.moves:
        yield finding(FindingKind.STANDS_STILL, {"lag": best.lag_ms}, doubt=True)
    elif isinstance(inner, PerWriterMinimum) and inner.idle_ms is None:
        clocks = case.clocks
        gone = clocks[clocks["silent_at_end"] & (clocks["silent_ms"] > _SILENT * abs(best.lag_ms))]
        if len(gone):
            gone = gone.sort_values("writer")
            facts: dict[str, Value] = {"writer": tuple(gone["writer"]), "silent for": tuple(gone["silent_ms"].tolist())}
            yield finding(FindingKind.SILENT_WRITER, facts, doubt=True)


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
    count = int(between.sum())
    names = tuple(sorted(name for name, mine in owners(case.trace, between).items() if 2 * mine >= count))
    facts: dict[str, Value] = {
        "records": count,
        "writer": names,
        "bound": bound_ms,
        "bound without": knee.bound_ms,
        "larger share": knee.late_share,
        "lag": curve.lag_ms(bound_ms),
        "lag without": curve.lag_ms(knee.bound_ms),
    }
    far = bound_ms > _TAIL * max(knee.bound_ms, 1) and not isinstance(_inner(of.make(bound_ms)), PerWriterMinimum)
    return finding(FindingKind.ONE_TAIL, facts, rows=row_numbers(between), doubt=far)
