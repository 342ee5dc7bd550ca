"""Findings: problems of a log, or of the numbers of an advice, with the writers and what to do.

The rules for records and writers are those of `clocks`; here they are put into words, with what they do to the constant
bound. The largest event time never falls, so one record that is stamped a day ahead is behind the lateness of all
records of a day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from wmlab.core.log_columns import in_words
from wmlab.core.traces import Trace, refused_kinds, unit_doubts
from wmlab.core.words import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    clock_words,
    counted,
    grouped,
    listed,
    moment,
    rounded,
    shown,
)
from wmlab.strategies.clocks import (
    come_and_go,
    common_silences,
    copies,
    each_writer,
    in_quarters,
    writer_clocks,
    wrong_times,
)
from wmlab.strategies.lateness import LatenessCurve, curve_of
from wmlab.strategies.replay import Log
from wmlab.strategies.windows import Windows

FindingKind = Literal[
    "bad rows",
    "unit",
    "wrong times",
    "early",
    "behind",
    "copies",
    "local times",
    "all silent",
    "silent",
    "ties",
    "few records",
    "target missed",
    "unsteady",
    "not sure",
    "wide lag",
    "stands still",
    "one tail",
    "silent writer",
]
"""What is wrong with a log; from "few records" on, with the numbers of an advice or the watermark that it names."""
_NAMED: Final = 3
_REASONS: Final = 3
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
_TICKS: Final = (7 * DAY_MS, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS)
_ALIKE: Final = 0.95
"""The share of event times that a tick has to explain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem: its kind, a sentence, the writers that it concerns, and what to do.

    It affects `count` records, of `writers` if it concerns only some of them. `rows` are their numbers in order of
    arrival, from 1, if they can be left out; `leave_out` recommends that. `bound_ms` is the constant bound for the
    requested late share, `without_ms` is this bound without the rows, and `more_late` is the number of other records
    that are late because of them with that bound; None if the finding is not about rows. `doubt`: it is a doubt about
    an advice.
    """

    kind: FindingKind
    """The kind, such as "copies" or "wrong times"."""
    text: str
    """What was found, as a sentence."""
    remedy: str = ""
    """What to do about it."""
    count: int = 0
    writers: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    leave_out: bool = False
    bound_ms: int | None = None
    without_ms: int | None = None
    more_late: int | None = None
    doubt: bool = False

    @property
    def effect(self) -> str:
        """The effect of the rows on the bound, as a sentence; empty if there is no known effect."""
        if self.bound_ms is None or self.without_ms is None or self.kind in ("ties", "one tail", "target missed"):
            return ""
        if not differ(self.bound_ms, self.without_ms):
            return ""
        them = "it" if len(self.rows) == 1 else "them"
        late = f": for that bound it makes {counted(self.more_late, 'record')} late" if self.more_late else ""
        late = late if len(self.rows) == 1 else late.replace("it makes", "they make")
        return (
            f"The constant bound is {rounded(self.bound_ms)} with {them} and {rounded(self.without_ms)} without{late}."
        )

    def __str__(self) -> str:
        return " ".join(part for part in (self.text, self.effect, self.remedy) if part)

    def to_dict(self) -> dict[str, Any]:
        """The finding as lists and scalars."""
        return asdict(self)


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
        *_unit(trace),
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

    def curve_without(self, rows: NDArray[np.bool_]) -> LatenessCurve:
        """The curve of the log without some rows."""
        return curve_of(Trace(self.trace.name, self.trace.table.filter(pa.array(~rows))), self.windows)

    def of_writers(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which rows are of some writers."""
        chosen: NDArray[np.bool_] = np.isin(self.trace.table["writer"].to_numpy(zero_copy_only=False), names)
        return chosen

    def owners(self, rows: NDArray[np.bool_]) -> Counter[str]:
        """How many of some rows each writer has."""
        return Counter(self.trace.table["writer"].filter(pa.array(rows)).to_pylist())

    def finding(self, kind: FindingKind, text: str, rows: NDArray[np.bool_], **more: Any) -> Finding:
        """A finding about some rows, with their writers and what the bound is without them."""
        effect: dict[str, Any] = {}
        if not rows.all():
            rest = self.curve_without(rows)
            without_ms = rest.bound_ms(self.late_share)
            of_others = self.curve.late(without_ms) - self._late_themselves(rows, without_ms)
            effect = {"bound_ms": self.bound_ms, "without_ms": without_ms}
            effect["more_late"] = max(0, of_others - rest.late(without_ms))
            effect["doubt"] = differ(self.bound_ms, without_ms)
        facts: dict[str, Any] = {"writers": tuple(sorted(self.owners(rows))), "rows": row_numbers(rows)}
        return Finding(kind=kind, text=text, count=int(rows.sum()), **(facts | effect | more))

    def _late_themselves(self, rows: NDArray[np.bool_], bound_ms: int) -> int:
        """How many of some rows are late for a bound."""
        top = np.maximum.accumulate(self.log.event)
        event = self.log.event if self.windows is None else self.windows.deadlines(self.log.event)
        return int((rows & (event < top - bound_ms)).sum())


def differ(bound_ms: int, other_ms: int) -> bool:
    """Whether two bounds differ by more than a tenth of the smaller one."""
    return abs(bound_ms - other_ms) > _MATTERS * min(bound_ms, other_ms)


def row_numbers(rows: NDArray[np.bool_]) -> tuple[int, ...]:
    """The numbers of rows in order of arrival, from 1."""
    return tuple((np.flatnonzero(rows) + 1).tolist())


def _bad_rows(trace: Trace) -> Iterator[Finding]:
    refused = trace.refused
    if not refused.num_rows:
        return
    kinds = refused_kinds(refused)
    parts = [
        f"{'' if column else 'a line '}{in_words(column, reason)} ({grouped(count)})"
        for column, reason, count in kinds[:_REASONS]
    ]
    parts += [f"and {len(kinds) - _REASONS} other kinds"] if len(kinds) > _REASONS else []
    first = refused.slice(0, 1).to_pylist()[0]
    value = f": {shown(first['value'])}" if first["value"] else ""
    yield Finding(
        kind="bad rows",
        text=f"{counted(refused.num_rows, 'bad row')} left out: {'; '.join(parts)}; the first is row "
        f"{first['row']}{value}.",
        remedy="The trace lists them as .refused, each with its file, row, column, value and reason.",
        count=refused.num_rows,
    )


def _unit(trace: Trace) -> Iterator[Finding]:
    for doubt in unit_doubts(trace):
        yield Finding(kind="unit", text=doubt.text, remedy=doubt.remedy, count=trace.rows, doubt=True)


def _wrong_times(case: _Case, ahead: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> Iterator[Finding]:
    if not wrong.any():
        return
    parts = [_ahead(case, ahead)] if ahead.any() else []
    parts += [_older(case, wrong & ~ahead)] if (wrong & ~ahead).any() else []
    whole = case.clocks.loc[case.clocks["clock"].isin(("ahead", "older than the log")), "writer"].tolist()
    remedy = "Leave them out: an engine cannot tell them from real times, and they move every watermark."
    if wrong.sum() == 1:
        remedy = "Leave it out: an engine cannot tell it from a real time, and it moves every watermark."
    if whole:
        remedy = f"Leave out all of {listed(sorted(whole), most=_NAMED)}, whose clock is wrong, or correct it."
    if len(whole) == len(case.clocks):
        whole, remedy = [], "Correct the clocks: no writer has another one."
    text = " and ".join(parts)
    rows = wrong | case.of_writers(whole)
    yield case.finding("wrong times", f"{text[:1].upper()}{text[1:]}.", rows, remedy=remedy, leave_out=True)


def _ahead(case: _Case, rows: NDArray[np.bool_]) -> str:
    ahead_ms = case.log.event - case.log.arrival
    farthest, owners = rounded(int(ahead_ms[rows].max())), _whose(case, rows, ahead_ms)
    if rows.sum() == 1:
        return f"1 record ({owners}) is {farthest} ahead of its arrival"
    return f"{grouped(int(rows.sum()))} records ({owners}) are up to {farthest} ahead of their arrival"


def _older(case: _Case, rows: NDArray[np.bool_]) -> str:
    what = "1 record is" if rows.sum() == 1 else f"{grouped(int(rows.sum()))} records are"
    since = moment(int(case.log.event[rows].min()), clock_ms=case.log.clock_ms)
    since = since.split(" ")[0] if since.endswith("UTC") else since
    return f"{what} not of this log, but from {since} on ({_whose(case, rows, -case.log.event)})"


def _whose(case: _Case, rows: NDArray[np.bool_], worst: Any) -> str:
    """Whose some rows are: all of a writer, so many of it, or their numbers and times if they are few."""
    sizes = dict(zip(case.clocks["writer"], case.clocks["rows"], strict=True))
    names = case.trace.table["writer"].to_numpy(zero_copy_only=False)
    parts = []
    for writer, count in sorted(case.owners(rows).items(), key=lambda pair: (-pair[1], pair[0])):
        mine = np.flatnonzero(rows & (names == writer))
        row = int(mine[np.argmax(worst[mine])])
        if count == sizes[writer]:
            parts.append(f"the only one of {writer}" if count == 1 else f"all {grouped(count)} of {writer}")
        elif count > 1:
            parts.append(f"{grouped(count)} of {writer}, the worst is row {grouped(row + 1)} by arrival")
        else:
            stamped = clock_words(int(case.log.event[row]), clock_ms=case.log.clock_ms)
            parts.append(f"row {grouped(row + 1)} by arrival, of {writer}, stamped {stamped}")
    return listed(parts, most=_NAMED)


def _early(case: _Case) -> Iterator[Finding]:
    """Writers whose records arrive before they happen, or a log in which most do."""
    early, rows = case.log.event > case.log.arrival, case.trace.rows
    share, clocks = float(early.mean()), case.clocks
    whole = clocks[clocks["clock"] == "early"]
    ahead_ms = int(np.quantile(case.log.event - case.log.arrival, 0.5, method="inverted_cdf"))
    if share > _MOST or whole["rows"].sum() > _MOST * rows:
        quarters = _near_quarters(ahead_ms)
        yield Finding(
            kind="early",
            text=f"{share:.1%} of the records arrive before they happen, by {rounded(abs(ahead_ms))} in the median"
            f"{f': a time zone of {quarters}' if quarters else ''}.",
            remedy="Lags say nothing until the clock of arrivals is that of the writers; gaps do.",
            count=int(early.sum()),
            writers=tuple(whole["writer"]),
            doubt=True,
        )
        return
    if len(whole):
        of = [
            f"{clock.writer} ({clock.early_share:.1%} of its {grouped(clock.rows)}, its clock is about "
            f"{_off(clock)} {'ahead of' if clock.offset_ms > 0 else 'behind'} the others)"
            for clock in each_writer(whole)
        ]
        text = f"Records arrive before they happen: of {listed(of, most=_NAMED)}."
        it = "that writer, or correct its clock" if len(of) == 1 else "them, or correct their clocks"
        chosen = case.of_writers(whole["writer"].tolist())
        doubt = {"doubt": True} if share > _EARLY else {}
        yield case.finding("early", text, chosen, remedy=f"Leave out {it}.", leave_out=True, **doubt)
    elif share > _EARLY:
        wrong = wrong_times(case.trace).either
        if (early & ~wrong).mean() > _EARLY:
            text = f"{share:.1%} of the records arrive before they happen: its clocks are skewed."
            yield Finding(kind="early", text=text, count=int(early.sum()), doubt=True)


def _near_quarters(offset_ms: int) -> str:
    """The whole quarters of an hour that a difference is about, if it is; else empty."""
    off_ms = abs(offset_ms - round(offset_ms / (15 * MINUTE_MS)) * 15 * MINUTE_MS)
    return in_quarters(offset_ms) if abs(offset_ms) > 10 * MINUTE_MS and off_ms < MINUTE_MS else ""


def _off(clock: Any) -> str:
    """By how much a clock is off the others: as a time zone if it looks like one."""
    return f"a time zone of {in_quarters(clock.offset_ms)}" if clock.zone else rounded(abs(int(clock.offset_ms)))


def _behind(case: _Case) -> Iterator[Finding]:
    behind = case.clocks[case.clocks["clock"] == "behind"]
    if not len(behind):
        return
    of = [
        f"{clock.writer} ({_off(clock) if clock.zone else f'{_off(clock)} in the median'})"
        for clock in each_writer(behind)
    ]
    remedy = "A slow clock looks like a long way: ask its operator. A watermark for each writer waits for it."
    if behind["zone"].all():
        remedy = f"Name the time zone of {'its' if len(of) == 1 else 'their'} times, or leave out these writers."
    yield case.finding(
        "behind",
        f"Clocks are behind the others: of {listed(of, most=_NAMED)}.",
        case.of_writers(behind["writer"].tolist()),
        remedy=remedy,
        leave_out=bool(behind["zone"].all()),
    )


def _copies(case: _Case, repeated: NDArray[np.bool_]) -> Iterator[Finding]:
    if not repeated.any():
        return
    of = [f"{name} ({grouped(count)})" for name, count in case.owners(repeated).most_common()]
    verb = "repeats" if repeated.sum() == 1 else "repeat"
    text = f"{counted(int(repeated.sum()), 'record')} {verb} an earlier one: of {listed(of, most=_NAMED)}."
    them = "it" if repeated.sum() == 1 else "them"
    remedy = f"Leave {them} out if the source sends again what it was not acknowledged."
    yield case.finding("copies", text, repeated, remedy=remedy, leave_out=True)


def _local(case: _Case) -> Iterator[Finding]:
    """All delays are about a whole number of quarter hours: perhaps the event times are local ones."""
    delay_ms = case.log.arrival - case.log.event
    least_ms, middle_ms, most_ms = np.quantile(delay_ms, (0.01, 0.5, 0.99), method="inverted_cdf").tolist()
    spread_ms = middle_ms - least_ms
    quarters = round(least_ms / _QUARTER_MS)
    off_ms = abs(least_ms - quarters * _QUARTER_MS)
    if not HOUR_MS <= quarters * _QUARTER_MS <= _FARTHEST_MS or spread_ms > _SPREAD_MOST_MS:
        return
    if off_ms > min(max(spread_ms, SECOND_MS), _SPREAD_MOST_MS):
        return
    yield Finding(
        kind="local times",
        text=f"Of 98% of the records each is {rounded(least_ms)} to {rounded(most_ms)} old when it arrives, and that "
        f"is about {in_quarters(least_ms)}: perhaps the event times are local times.",
        remedy='If they are, name their zone: timezone={"event_time": ...}.',
        count=case.trace.rows,
        doubt=True,
    )


def _silent(case: _Case) -> Iterator[Finding]:
    end_ms = case.trace.span_ms[1]
    if together := common_silences(case.log):
        yield Finding(
            kind="all silent",
            text=f"All writers are silent at once: for {silence_text(together, end_ms)}.",
            remedy="A watermark from event times stands still meanwhile.",
        )
    if come_and_go(case.clocks, end_ms):
        return
    silent = case.clocks[case.clocks["silences"].map(len) > 0]
    if not len(silent):
        return
    silent = silent.assign(longest=-silent["silences"].map(longest_ms)).sort_values(["longest", "writer"])
    of = [f"{clock.writer} ({silence_text(clock.silences, end_ms)})" for clock in each_writer(silent)]
    yield Finding(
        kind="silent",
        text=f"Writers are silent: {listed(of, most=_NAMED)}." if len(of) > 1 else f"A writer is silent: {of[0]}.",
        remedy="A watermark that waits for each writer stands still meanwhile, unless it has an idle timeout.",
        writers=tuple(silent["writer"]),
    )


def longest_ms(silences: Sequence[tuple[int, int]]) -> int:
    """The longest silence of a writer, ms; 0 if it has none."""
    return max((end - begin for begin, end in silences), default=0)


def silence_text(silences: Sequence[tuple[int, int]], end_ms: int) -> str:
    """The longest silence of a writer in words, and how many others it has."""
    begin, end = max(silences, key=lambda silence: silence[1] - silence[0])
    until = "until the end" if end == end_ms else f"until {clock_words(end, clock_ms=end_ms)}"
    more = f", and {len(silences) - 1} more" if len(silences) > 1 else ""
    return f"{rounded(end - begin)} {until}{more}"


def _ties(case: _Case) -> Iterator[Finding]:
    """Records that arrive together have no order; the bound is least if the oldest come first."""
    log = case.log
    together = np.diff(log.arrival) == 0
    if not together.any():
        return
    orders = (np.lexsort((log.event, log.arrival)), np.lexsort((-log.event, log.arrival)))
    least_ms, most_ms = (_bound_ms(case, log.event[order]) for order in orders)
    # Of a clock that ticks by the week, one tick is not a difference.
    if most_ms - least_ms <= max(_MATTERS * least_ms, _tick_ms(log.event)):
        return
    tied = np.append(together, False) | np.append(False, together)
    other_ms = most_ms if abs(most_ms - case.bound_ms) > abs(least_ms - case.bound_ms) else least_ms
    yield Finding(
        kind="ties",
        text=f"{tied.mean():.1%} of the records arrive together with another one, in no known order: the constant "
        f"bound is {rounded(least_ms)} if the oldest of them come first, and {rounded(most_ms)} if they come last.",
        count=int(tied.sum()),
        bound_ms=case.bound_ms,
        without_ms=other_ms,
        doubt=True,
    )


def _tick_ms(event: Any) -> int:
    """The largest of the usual units of clocks in which nearly all event times are whole numbers."""
    for tick_ms in _TICKS:
        _, counts = np.unique(event % tick_ms, return_counts=True)
        if counts.max() >= _ALIKE * len(event):
            return tick_ms
    return 1


def _bound_ms(case: _Case, event: Any) -> int:
    """The constant bound of the records in another order."""
    table = case.trace.table
    moved = table.set_column(0, table.schema.field(0), pa.array(event))
    return curve_of(Trace(case.trace.name, moved), case.windows).bound_ms(case.late_share)
