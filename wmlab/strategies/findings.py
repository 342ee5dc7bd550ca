"""Findings: what is wrong with a log, with its rows, its writers and what it does to the constant bound.

The rules for records and writers are those of `clocks`. The largest event time never falls, so one record that is
stamped a day ahead is behind the lateness of all records of a day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from wmlab.core.facts import FactAnswer, Facts, Value, folded_facts
from wmlab.core.traces import Trace, unit_doubts
from wmlab.core.words import HOUR_MS, MINUTE_MS, SECOND_MS, joined, unbroken
from wmlab.strategies.clocks import come_and_go, common_silences, copies, early, tick_ms, writer_clocks, wrong_times
from wmlab.strategies.lateness import LatenessCurve, curve_of
from wmlab.strategies.replay import Log
from wmlab.strategies.vocabulary import EFFECT, FINDING_LABELS, HEADLINES, OF_ROWS, REMEDIES, FindingKind
from wmlab.strategies.windows import Windows

_MOST: Final = 0.5
"""The share of all records from which on early writers are not an exception, but the clock of arrivals may be."""
_EARLY: Final = 0.01
"""The share of records that arrive before they happen from which on lags, and so an advice, are in doubt."""
_QUARTER_MS: Final = 15 * MINUTE_MS
_FARTHEST_MS: Final = 14 * HOUR_MS
"""How far behind UTC, or ahead of it, local times are at most."""
_SPREAD_MOST_MS: Final = 3 * MINUTE_MS
"""How far the delays of a log may be from each other to say that they are a whole number of quarter hours."""
_MATTERS: Final = 0.1
"""By how much of itself a bound has to change for what changes it to matter."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding(FactAnswer):
    """A problem: its kind, facts, what they say, and what to do.

    It is about `count` records, of `writers` if it concerns only some of them. `rows` are their numbers in order of
    arrival, from 1, if they can be left out; `leave_out` recommends that. `doubt`: it is a doubt about an advice.
    """

    kind: FindingKind
    """The kind, such as "copies" or "wrong times"."""
    facts: Facts
    """What it knows; `wmlab.strategies.vocabulary` has the meaning of each label."""
    templates: tuple[str, ...]
    rows: tuple[int, ...] = ()
    leave_out: bool = False
    doubt: bool = False

    @property
    def count(self) -> int:
        """How many records it is about; 0 if it is not about records."""
        return self._fact("records") or 0

    @property
    def writers(self) -> tuple[str, ...]:
        """Whose they are; empty if it concerns all."""
        names = self.facts.get("writer", ())
        return tuple(map(str, names)) if isinstance(names, tuple) else (str(names),)

    @property
    def bound_ms(self) -> int | None:
        """The constant bound for the share that was asked for, ms; None where the finding says nothing of it."""
        return self._fact("bound")

    @property
    def without_ms(self) -> int | None:
        """The same without these records, ms."""
        return self._fact("bound without")

    @property
    def remedy(self) -> str:
        """What to do about it: one sentence for each kind."""
        return self.facts.fill(REMEDIES[self.kind])

    def _fact(self, label: str) -> int | None:
        value = self.facts.get(label)
        return value if isinstance(value, int) else None

    def __str__(self) -> str:
        return joined(self.sentence, self.remedy)

    __repr__ = __str__


def finding(kind: FindingKind, facts: Mapping[str, Value], *, clock_ms: int | None = None, **more: Any) -> Finding:
    """A finding of these facts; `more` are its rows, and whether to leave them out or to doubt an advice."""
    known = Facts(FINDING_LABELS, facts, clock_ms=clock_ms)
    bounds = [known.get(label) for label in ("bound", "bound without")]
    matters = kind in OF_ROWS and None not in bounds and differ(*bounds)  # type: ignore[arg-type]
    templates = (HEADLINES[kind], EFFECT) if matters else (HEADLINES[kind],)
    return Finding(kind=kind, facts=known, templates=templates, **more)


def findings_html(findings: Iterable[Finding]) -> str:
    """Findings as a list in HTML, each with its facts folded."""
    lines = ((escape(unbroken(str(each))), folded_facts(each.facts)) for each in findings)
    return f"<ul>{''.join(f'<li>{line}{facts}</li>' for line, facts in lines)}</ul>"


@dataclass(frozen=True, eq=False)
class LogFindings:
    """What is wrong with a log: its findings, and the writers as `clocks.writer_clocks` has them.

    `bound_ms` is the constant bound for the late share over the whole log. `ahead_ms` is how far ahead a record may
    be, which `Guarded` takes.
    """

    findings: tuple[Finding, ...]
    writers: pd.DataFrame
    bound_ms: int
    ahead_ms: int
    any_ahead: bool
    """Whether a record is further ahead, so that a guard against it is worth trying."""


def findings_of(trace: Trace, late_share: float, windows: Windows | None = None, ids: Any = None) -> LogFindings:
    """What is wrong with a log, and what it does to the bound for a share of late, or lost, records."""
    clocks, log = writer_clocks(trace, ids), Log.of(trace)
    case = _Case(trace, log, clocks, curve_of(trace, windows), late_share, windows)
    wrong = wrong_times(trace)
    findings = (
        *_bad_rows(trace),
        *(
            finding(FindingKind.UNIT, {"records": trace.rows, "sign": doubt.text, "repair": doubt.remedy}, doubt=True)
            for doubt in unit_doubts(trace)
        ),
        *_wrong_times(case, wrong.ahead, wrong.either),
        *_early(case),
        *_behind(case),
        *_copies(case, copies(log, ids)),
        *_local(case),
        *_silent(case),
        *_ties(case),
    )
    return LogFindings(findings, clocks, case.bound_ms, wrong.limit_ms, bool(wrong.ahead.any()))


@dataclass(frozen=True, eq=False)
class _Case:
    """A log that is looked at, with the curve of its bounds."""

    trace: Trace
    log: Log
    clocks: pd.DataFrame
    curve: LatenessCurve
    late_share: float
    windows: Windows | None

    @property
    def bound_ms(self) -> int:
        return self.curve.bound_ms(self.late_share)

    def of_writers(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which rows are of some writers."""
        chosen: NDArray[np.bool_] = np.isin(self.trace.table["writer"].to_numpy(zero_copy_only=False), names)
        return chosen

    def finding(self, kind: FindingKind, rows: NDArray[np.bool_], facts: Mapping[str, Value], **more: Any) -> Finding:
        """A finding about some rows, with their writers and what the bound is without them."""
        known: dict[str, Value] = {"records": int(rows.sum()), "writer": tuple(sorted(owners(self.trace, rows)))}
        doubt = False
        if not rows.all():
            rest = curve_of(Trace(self.trace.name, self.trace.table.filter(pa.array(~rows))), self.windows)
            without_ms = rest.bound_ms(self.late_share)
            late = self.curve.late(without_ms) - self._late_themselves(rows, without_ms) - rest.late(without_ms)
            known |= {"bound": self.bound_ms, "bound without": without_ms, "late by them": late}
            doubt = differ(self.bound_ms, without_ms)
        clock_ms = self.log.clock_ms
        return finding(
            kind, known | dict(facts), clock_ms=clock_ms, rows=row_numbers(rows), **({"doubt": doubt} | more)
        )

    def _late_themselves(self, rows: NDArray[np.bool_], bound_ms: int) -> int:
        """How many of some rows are late for a bound."""
        top = np.maximum.accumulate(self.log.event)
        event = self.log.event if self.windows is None else self.windows.deadlines(self.log.event)
        return int((rows & (event < top - bound_ms)).sum())


def owners(trace: Trace, rows: NDArray[np.bool_]) -> Counter[str]:
    """How many of some rows each writer has."""
    return Counter(trace.table["writer"].filter(pa.array(rows)).to_pylist())


def differ(bound_ms: int, other_ms: int) -> bool:
    """Whether two bounds differ by more than a tenth of the smaller one."""
    return abs(bound_ms - other_ms) > _MATTERS * min(bound_ms, other_ms)


def row_numbers(rows: NDArray[np.bool_]) -> tuple[int, ...]:
    """The numbers of rows in order of arrival, from 1."""
    return tuple((np.flatnonzero(rows) + 1).tolist())


def _bad_rows(trace: Trace) -> Iterator[Finding]:
    if trace.refused.num_rows:
        first = trace.refused["row"][0].as_py()
        yield finding(FindingKind.BAD_ROWS, {"records": trace.refused.num_rows, "first row": first})


def _wrong_times(case: _Case, ahead: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> Iterator[Finding]:
    if not wrong.any():
        return
    ahead_ms, older = case.log.event - case.log.arrival, wrong & ~ahead
    facts: dict[str, Value] = {}
    if ahead.any():
        worst = int(np.argmax(np.where(ahead, ahead_ms, np.iinfo(np.int64).min)))
        facts |= {"ahead": int(ahead.sum()), "farthest ahead": int(ahead_ms[worst]), "worst row": worst + 1}
    if older.any():
        facts |= {"older": int(older.sum()), "oldest": int(case.log.event[older].min())}
    whole = case.clocks.loc[case.clocks["clock"].isin(("ahead", "older than the log")), "writer"].tolist()
    # Where no writer has another clock, there is nothing to leave out for.
    rows = wrong | case.of_writers(whole if len(whole) < len(case.clocks) else [])
    yield case.finding(FindingKind.WRONG_TIMES, rows, facts, leave_out=True)


def _early(case: _Case) -> Iterator[Finding]:
    """Writers whose records arrive before they happen, or a log in which many do."""
    is_early = early(case.log)
    share, whole = float(is_early.mean()), case.clocks[case.clocks["clock"] == "early"]
    by_ms = int(np.quantile(case.log.event - case.log.arrival, 0.5, method="inverted_cdf"))
    facts: dict[str, Value] = {"early by": by_ms}
    if len(whole) and share <= _MOST and whole["rows"].sum() <= _MOST * case.trace.rows:
        chosen = case.of_writers(whole["writer"].tolist())
        facts |= {"early share": float((is_early & chosen).mean()), "clock off": _offs(whole)}
        yield case.finding(
            FindingKind.EARLY, chosen, facts, leave_out=True, **({"doubt": True} if share > _EARLY else {})
        )
    elif len(whole) or (is_early & ~wrong_times(case.trace).either).mean() > _EARLY:
        facts |= {"early share": share, "records": int(is_early.sum())}
        facts["writer"] = tuple(sorted(owners(case.trace, is_early)))
        yield finding(FindingKind.EARLY, facts, doubt=True)


def _offs(clocks: pd.DataFrame) -> Value:
    """By how much the clocks of some writers are off the others, in the order of their names."""
    return tuple(clocks.sort_values("writer")["offset_ms"].astype(int).tolist())


def _behind(case: _Case) -> Iterator[Finding]:
    behind = case.clocks[case.clocks["clock"] == "behind"]
    if len(behind):
        rows, in_zones = case.of_writers(behind["writer"].tolist()), bool(behind["zone"].all())
        yield case.finding(FindingKind.BEHIND, rows, {"clock off": _offs(behind)}, leave_out=in_zones)


def _copies(case: _Case, repeated: NDArray[np.bool_]) -> Iterator[Finding]:
    if repeated.any():
        yield case.finding(FindingKind.COPIES, repeated, {}, leave_out=True)


def _local(case: _Case) -> Iterator[Finding]:
    """All delays are about a whole number of quarter hours: perhaps the event times are local ones."""
    delay_ms = case.log.arrival - case.log.event
    least_ms, middle_ms = np.quantile(delay_ms, (0.01, 0.5), method="inverted_cdf").tolist()
    spread_ms, quarters_ms = middle_ms - least_ms, round(least_ms / _QUARTER_MS) * _QUARTER_MS
    near_ms = min(max(spread_ms, SECOND_MS), _SPREAD_MOST_MS)
    is_zone = HOUR_MS <= quarters_ms <= _FARTHEST_MS and spread_ms <= _SPREAD_MOST_MS
    if is_zone and abs(least_ms - quarters_ms) <= near_ms:
        facts: dict[str, Value] = {"records": case.trace.rows, "quarters": quarters_ms}
        yield finding(FindingKind.LOCAL_TIMES, facts, doubt=True)


def _silent(case: _Case) -> Iterator[Finding]:
    if together := common_silences(case.log):
        facts = _silence_facts([together])
        yield finding(FindingKind.ALL_SILENT, facts, clock_ms=case.log.clock_ms)
    silent = case.clocks[case.clocks["silences"].map(len) > 0].sort_values("writer")
    if len(silent) and not come_and_go(case.clocks, case.trace.span_ms[1]):
        facts = {"writer": tuple(silent["writer"]), **_silence_facts(list(silent["silences"]))}
        yield finding(FindingKind.SILENT, facts, clock_ms=case.log.clock_ms)


def _silence_facts(of_each: Sequence[Sequence[tuple[int, int]]]) -> dict[str, Value]:
    """The longest silence of each writer."""
    longest = [max(silences, key=lambda silence: silence[1] - silence[0]) for silences in of_each]
    return {
        "silent for": tuple(end - begin for begin, end in longest),
        "from": tuple(begin for begin, _ in longest),
        "to": tuple(end for _, end in longest),
    }


def _ties(case: _Case) -> Iterator[Finding]:
    """Records that arrive together have no order; the bound is least if the oldest come first."""
    log = case.log
    together = np.diff(log.arrival) == 0
    if not together.any():
        return
    orders = (np.lexsort((log.event, log.arrival)), np.lexsort((-log.event, log.arrival)))
    least_ms, most_ms = (_bound_ms(case, log.event[order]) for order in orders)
    # Of a clock that ticks by the week, one tick is not a difference.
    if most_ms - least_ms <= max(_MATTERS * least_ms, tick_ms(log.event)):
        return
    tied = np.append(together, False) | np.append(False, together)
    facts: dict[str, Value] = {"records": int(tied.sum()), "bound": case.bound_ms}
    yield finding(FindingKind.TIES, facts | {"least bound": least_ms, "largest bound": most_ms}, doubt=True)


def _bound_ms(case: _Case, event: Any) -> int:
    """The constant bound of the records in another order."""
    table = case.trace.table
    moved = table.set_column(0, table.schema.field(0), pa.array(event))
    return curve_of(Trace(case.trace.name, moved), case.windows).bound_ms(case.late_share)
