"""Why a log does not support an advice: each doubt with its cause, whose records they are, and the bounds without them.

The bounds of doubts are constant bounds for the target over the whole log, with and without what is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmlab.core.traces import Trace
from wmlab.core.words import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, counted, grouped, listed, rounded
from wmlab.strategies.clocks import copies
from wmlab.strategies.comparison import named
from wmlab.strategies.judging import BLOCKS, STEADY, TOLERANCE, JudgedCandidate
from wmlab.strategies.lateness import curve_of
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.strategy import UNKNOWN, Strategy
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import Log, before
from wmlab.strategies.suspect_records import Suspects
from wmlab.strategies.windows import Windows

DoubtCause = Literal[
    "few records",
    "target missed",
    "drift",
    "unsteady",
    "wide lag",
    "stalls",
    "stands still",
    "one tail",
    "ahead",
    "older than the log",
    "early",
    "duplicates",
    "ties",
    "silent writer",
]

_ENOUGH: Final = 100
"""Late records that the target has to leave in each half, so that their share can be told from `KEPT` times the target
at 95%: (1.96 / 0.2)^2, if they are independent."""
_MATTERS: Final = 0.1
"""By how much of itself a bound has to change for what changes it to matter."""
_EARLY: Final = 0.01
"""The share of records that arrive before they happen from which on the clocks count as skewed."""
_TREND: Final = 0.8
_GROWTH: Final = 1.5
"""The bounds of 8 stretches drift if their ranks correlate with time by so much, and they change by that factor."""
_TAIL: Final = 20
"""How many times the upper quartile of the latenesses above 0 a bound has to be, to be that of a tail of its own."""
_STILL: Final = 0.5
"""The share of time in stalls from which on a watermark counts as stalled; of the constant bound half of it at most."""
_SILENT: Final = 10
"""How many median lags a writer has to be silent at the end of the log, to block a watermark without a timeout."""
_TICKS: Final = (7 * DAY_MS, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS)
_ALIKE: Final = 0.95
"""The share of event times that a tick has to explain."""
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One reason not to trust an advice: a code, and the same in words; `str` of it is `text`.

    `rows` are numbers in order of arrival, from 1, and `writers` names, of the records that are the cause, if it is
    some of them. `bound_ms` is the constant bound for the target over the whole log, `without_ms` that without these
    records (of "ties": in the other order of records that arrive together); None where the cause is not some records.
    """

    cause: DoubtCause
    text: str
    rows: tuple[int, ...] = ()
    writers: tuple[str, ...] = ()
    bound_ms: int | None = None
    without_ms: int | None = None

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The doubt as lists and scalars."""
        return asdict(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """An advice that is looked at: the log, its target, the suspects, and the candidates as judged."""

    trace: Trace
    target: float
    windows: Windows | None
    suspects: Suspects
    best: JudgedCandidate
    constant: JudgedCandidate
    lossless_lag_ms: int
    """The median lag of the constant bound that leaves no record late."""


def enough_for(rows: int, target: float) -> bool:
    """Whether so many records can say of a late share whether it is kept: each half has to leave enough late ones."""
    return (rows - rows // 2) * target >= _ENOUGH


def doubts_of(case: Case) -> tuple[Doubt, ...]:
    """All doubts about the best candidate: those of the log first, then those of the candidate."""
    of_the_log = (*_of_suspects(case), *_of_records(case), *_of_numbers(case))
    return (*of_the_log, *(() if of_the_log else _of_movement(case)))


def suspects_matter(suspects: Suspects) -> bool:
    """Whether the bound for the target is another one without the suspects."""
    return bool(suspects.suspects) and _differ(suspects.bound_ms, suspects.without_ms)


def _differ(bound_ms: int, other_ms: int) -> bool:
    return abs(bound_ms - other_ms) > _MATTERS * min(bound_ms, other_ms)


def _of_suspects(case: Case) -> Iterator[Doubt]:
    """Records with wrong clocks that change the bound; and writers whose records arrive before they happen."""
    suspects = case.suspects
    if suspects_matter(suspects):
        yield Doubt(
            cause="ahead" if suspects.of_kind("ahead") else "older than the log",
            text=f"{suspects.what}: the constant bound is {rounded(suspects.bound_ms)} with "
            f"{'it' if len(suspects.suspects) == 1 else 'them'} and "
            f"{rounded(suspects.without_ms)} without",
            rows=suspects.row_numbers,
            writers=tuple(sorted({suspect.writer for suspect in suspects.suspects})),
            bound_ms=suspects.bound_ms,
            without_ms=suspects.without_ms,
        )
    if case.trace.early > _EARLY * case.trace.rows:
        yield _early(case)


def _early(case: Case) -> Doubt:
    clocks = [clock for clock in case.suspects.writers if clock.early]
    clocks.sort(key=lambda clock: (-clock.early, clock.writer))
    # The fewest writers that have half of the early records; a log in which all clocks are early has no culprits.
    count = 1 + int(np.searchsorted(np.cumsum([clock.early for clock in clocks]), case.trace.early / 2))
    share = case.trace.early / case.trace.rows
    text = f"its clocks are skewed, {share:.1%} of the records arrive before they happen"
    whose = clocks[:count]
    log = Log.of(case.trace)
    rows = _row_numbers(np.flatnonzero(log.event > log.arrival))
    if 2 * sum(clock.rows for clock in whose) > case.trace.rows:
        return Doubt(cause="early", text=text, rows=rows)
    of = [f"{clock.writer} ({clock.early_share:.1%} of its {grouped(clock.rows)})" for clock in whose]
    names = tuple(clock.writer for clock in whose)
    rest = Trace(case.trace.name, case.trace.table.filter(_not_of(case.trace, names)))
    bound_ms, without_ms = case.suspects.bound_ms, _bound_of(case, rest.table)
    bounds = f"the constant bound is {rounded(bound_ms)} with, and {rounded(without_ms)} without"
    what = "that writer" if len(of) == 1 else "those writers"
    text = f"{text}, most of them of {listed(of, most=_NAMED)}; {bounds} {what}"
    return Doubt(cause="early", text=text, rows=rows, writers=names, bound_ms=bound_ms, without_ms=without_ms)


def _row_numbers(indices: NDArray[np.intp]) -> tuple[int, ...]:
    """The numbers of records in order of arrival, from 1, by their indices in the log."""
    return tuple((indices + 1).tolist())


def _not_of(trace: Trace, writers: tuple[str, ...]) -> pa.Array:
    return pa.array(~np.isin(trace.table["writer"].to_numpy(zero_copy_only=False), writers))


def _of_records(case: Case) -> Iterator[Doubt]:
    """What the order and the repetition of records, or a tail of them, do to the bound."""
    log = Log.of(case.trace)
    bound_ms = case.suspects.bound_ms
    repeated = copies(log)
    if repeated.any():
        rest = Trace(case.trace.name, case.trace.table.filter(pa.array(~repeated)))
        without_ms = _bound_of(case, rest.table)
        if _differ(bound_ms, without_ms):
            text = (
                f"{grouped(int(repeated.sum()))} of its records repeat an earlier one (event time, writer and key): "
                f"the constant bound is {rounded(bound_ms)} with, and {rounded(without_ms)} without the copies"
            )
            rows = _row_numbers(np.flatnonzero(repeated))
            yield Doubt(cause="duplicates", text=text, rows=rows, bound_ms=bound_ms, without_ms=without_ms)
    yield from _ties(case, log)
    # The least over writers is not behind the largest event time, but behind the slowest writer.
    if not isinstance(_inner(case.best), PerWriterMinimum) and not suspects_matter(case.suspects):
        yield from _tail(case, log)


def _ties(case: Case, log: Log) -> Iterator[Doubt]:
    """Records that arrive together have no order; the bound is least if the oldest come first."""
    together = np.diff(log.arrival) == 0
    if not together.any():
        return
    orders = (np.lexsort((log.event, log.arrival)), np.lexsort((-log.event, log.arrival)))
    least_ms, most_ms = (_bound_ms(case, log.event[order]) for order in orders)
    # Of a clock that ticks by the week, one tick is no difference.
    if most_ms - least_ms <= max(_MATTERS * least_ms, _tick_ms(log.event)):
        return
    share = float(np.mean(np.append(together, False) | np.append(False, together)))
    bound_ms = case.suspects.bound_ms
    text = (
        f"{share:.1%} of its records arrive together with another one, in no known order: the constant bound is "
        f"{rounded(least_ms)} if the oldest of them come first, and {rounded(most_ms)} if they come last"
    )
    other_ms = most_ms if abs(most_ms - bound_ms) > abs(least_ms - bound_ms) else least_ms
    yield Doubt(cause="ties", text=text, bound_ms=bound_ms, without_ms=other_ms)


def _tick_ms(event: Any) -> int:
    """The largest of the usual units of clocks in which nearly all event times are whole numbers."""
    for tick_ms in _TICKS:
        _, counts = np.unique(event % tick_ms, return_counts=True)
        if counts.max() >= _ALIKE * len(event):
            return tick_ms
    return 1


def _bound_ms(case: Case, event: Any) -> int:
    """The constant bound of records in another order."""
    columns = case.trace.table.set_column(0, case.trace.table.schema.field(0), pa.array(event))
    return _bound_of(case, columns)


def _bound_of(case: Case, table: pa.Table) -> int:
    """The constant bound of other records, for the target."""
    return curve_of(Trace(case.trace.name, table), case.windows).bound_ms(case.target)


def _tail(case: Case, log: Log) -> Iterator[Doubt]:
    """A bound that is far above the bulk of latenesses is that of few records, which are all that it is for."""
    top = before(log.event)
    deadline = log.event if case.windows is None else case.windows.deadlines(log.event)
    late_by = np.where(top == UNKNOWN, 0, np.maximum(top, deadline) - deadline)
    late = late_by[late_by > 0]
    if not len(late):
        return
    bulk_ms = int(np.quantile(late, 0.75, method="inverted_cdf"))
    bound_ms = case.suspects.bound_ms
    if bound_ms <= _TAIL * bulk_ms:
        return
    rows = np.flatnonzero(late_by > _TAIL * bulk_ms)
    owners = Counter(case.trace.table["writer"].take(pa.array(rows)).to_pylist())
    names = sorted(name for name, count in owners.items() if 2 * count >= len(rows))
    whose = f", most of them of {listed(names)}" if names and len(case.trace.writer_names) > 1 else ""
    text = (
        f"its bound of {rounded(bound_ms)} is for a tail of {len(rows) / case.trace.rows:.3%} of the records{whose}, "
        f"which are late by more than {rounded(_TAIL * bulk_ms)}, where three of four late records are late by at most "
        f"{rounded(bulk_ms)}"
    )
    others = np.ones(case.trace.rows, bool)
    others[rows] = False
    without_ms = _bound_of(case, case.trace.table.filter(pa.array(others)))
    writers = tuple(names)
    numbers = _row_numbers(rows)
    yield Doubt(cause="one tail", text=text, rows=numbers, writers=writers, bound_ms=bound_ms, without_ms=without_ms)


def _of_numbers(case: Case) -> Iterator[Doubt]:
    """What the outcome on the unseen half is worth."""
    unseen, target, trace = case.best.unseen, case.target, case.trace
    if not enough_for(trace.rows, target):
        need, left = grouped(int(2 * _ENOUGH / target)), round(unseen.rows * target)
        yield Doubt(
            cause="few records",
            text=f"it is too short, {grouped(trace.rows)} records where {need} are needed: at the "
            f"target the second half has about {counted(left, 'late record')} to judge by",
        )
    low, high = case.best.missed_range
    if unseen.missed_share > TOLERANCE * target:
        drifts = _drifts(case)
        words = " and its lateness drifts" if drifts else ""
        text = f"no strategy chosen on its first half keeps the target on its second{words}"
        yield Doubt(cause="drift" if drifts else "target missed", text=text)
    elif not case.best.steady or (high > STEADY * target and unseen.rows * target >= _ENOUGH):
        missed = "late" if case.windows is None else "lost"
        text = f"its share of {missed} records is unsteady, {low:.3%} to {high:.3%} at 95%"
        yield Doubt(cause="unsteady", text=text)
    first, last = case.best.lag_range
    if not case.best.lag_known:
        between = f"{rounded(first)} to {rounded(last)} at 95%"
        yield Doubt(cause="wide lag", text=f"its lag is not known, {rounded(case.best.lag_ms)} is {between}")


def _of_movement(case: Case) -> Iterator[Doubt]:
    """A watermark that keeps its target by standing still, or that waits for who does not come back."""
    best, name = case.best, named(case.best.strategy)
    if best.lag_ms > case.lossless_lag_ms:
        stalls = f"{name} stalls: its median lag is {rounded(best.lag_ms)}"
        text = f"{stalls}, where a constant bound that leaves no record late has {rounded(case.lossless_lag_ms)}"
        yield Doubt(cause="stalls", text=text)
        return
    middle = case.trace.rows // 2
    arrival = Log.of(case.trace).arrival[middle:]
    patience_ms = 2 * abs(case.constant.lag_ms)
    still, usual = (_still_share(arrival, judged.x[middle:], patience_ms) for judged in (best, case.constant))
    if still > _STILL and usual < _STILL / 2:
        text = f"{name} stands still for {still:.1%} of the time, for {rounded(best.unseen.stall_ms)} at the longest"
        yield Doubt(cause="stands still", text=text)
    inner = _inner(best)
    if isinstance(inner, PerWriterMinimum) and inner.idle_ms is None:
        gone = [w for w in case.suspects.writers if w.silent_at_end and w.silent_ms > _SILENT * abs(best.lag_ms)]
        if gone:
            of = listed([f"{clock.writer} (for {rounded(clock.silent_ms)})" for clock in gone], most=_NAMED)
            text = f"{name} waits for writers that are silent at its end: {of}"
            yield Doubt(cause="silent writer", text=text, writers=tuple(clock.writer for clock in gone))


def _inner(judged: JudgedCandidate) -> Strategy[Any]:
    """The strategy, without a guard around it."""
    return judged.strategy.inner if isinstance(judged.strategy, Guarded) else judged.strategy


def _still_share(arrival: Any, x: Any, patience_ms: int) -> float:
    """The share of time that X has spent in stalls longer than `patience_ms`."""
    moves = np.flatnonzero(np.append(True, np.diff(x) != 0))
    lengths = np.diff(np.append(arrival[moves], arrival[-1]))
    whole = int(arrival[-1] - arrival[0])
    return float(lengths[lengths > patience_ms].sum()) / whole if whole else 0.0


def _drifts(case: Case) -> bool:
    """Whether the bound for the target rises or falls along 8 stretches: its ranks follow time, by a lot."""
    trace = case.trace
    size = max(1, trace.rows // BLOCKS)
    parts = [trace.table.slice(n * size, size) for n in range(min(BLOCKS, trace.rows))]
    bounds = np.array([_bound_of(case, part) for part in parts])
    if len(bounds) < BLOCKS or bounds.max() <= _GROWTH * bounds.min():
        return False
    ranks = np.argsort(np.argsort(bounds, kind="stable"))
    return bool(abs(np.corrcoef(ranks, np.arange(BLOCKS))[0, 1]) >= _TREND)
