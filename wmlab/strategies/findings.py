"""What is dirty in a log: each finding with whose it is, and what to do about it.

The rules are those of `clocks`; here they are put into words. A finding whose records can only be left out names them
by row or by writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np

from wmlab.core.logs import in_words
from wmlab.core.traces import Trace, refused_kinds, unit_doubts
from wmlab.core.words import counted, grouped, listed, moment, rounded, shown
from wmlab.strategies.clocks import WriterClock, copies
from wmlab.strategies.replay import Log
from wmlab.strategies.suspect_records import Suspects

FindingKind = Literal["bad rows", "unit", "wrong times", "early", "all early", "behind", "copies", "silent"]
_NAMED: Final = 3
_KINDS: Final = 3
_MOST: Final = 0.5
"""The share of all records from which on early writers are no exception, but the clock of arrivals may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is dirty in a log: a code, the same in words, and what to do.

    `writers` are those that it is about. `rows` are the numbers, in order of arrival from 1, of the records that are
    best left out, and `whole_writers` the writers of which no record can be used.
    """

    kind: FindingKind
    text: str
    remedy: str
    writers: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    whole_writers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}. {self.remedy}"

    def to_dict(self) -> dict[str, Any]:
        """The finding as lists and scalars."""
        return asdict(self)


def findings_of(trace: Trace, suspects: Suspects) -> tuple[Finding, ...]:
    """All that is dirty in a log; empty if nothing is."""
    of_times = (*_wrong_times(suspects), *_early(trace, suspects), *_behind(suspects))
    return (*_bad_rows(trace), *_unit(trace), *of_times, *_copies(trace), *_silent(trace, suspects))


def _bad_rows(trace: Trace) -> Iterator[Finding]:
    refused = trace.refused
    if not refused.num_rows:
        return
    kinds = refused_kinds(refused)
    parts = [
        f"{'' if column else 'a line '}{in_words(column, reason)} ({grouped(count)})"
        for column, reason, count in kinds[:_KINDS]
    ]
    parts += [f"and {len(kinds) - _KINDS} other kinds"] if len(kinds) > _KINDS else []
    first = refused.slice(0, 1).to_pylist()[0]
    value = f": {shown(first['value'])}" if first["value"] else ""
    yield Finding(
        kind="bad rows",
        text=f"{counted(refused.num_rows, 'bad row')} left out: {'; '.join(parts)}; the first is row "
        f"{first['row']}{value}",
        remedy="They are in profile.log.refused, each with its file, row, column, value and reason.",
    )


def _unit(trace: Trace) -> Iterator[Finding]:
    for doubt in unit_doubts(trace):
        yield Finding(kind="unit", text=doubt.text, remedy=doubt.remedy)


def _wrong_times(suspects: Suspects) -> Iterator[Finding]:
    if not suspects.suspects:
        return
    of = {suspect.writer for suspect in suspects.suspects}
    clocks = [clock for clock in suspects.writers if clock.writer in of]
    whole = tuple(sorted(c.writer for c in clocks if c.clock in ("ahead", "older than the log")))
    advice = "Leave them out: they cannot be told from real times by an engine, and move every watermark."
    if whole:
        advice = f"Leave out all of {listed(whole, most=_NAMED)}, whose clock is wrong, or correct it; and the others."
    if len(whole) == len(suspects.writers):
        whole, advice = (), "Correct the clocks: no writer has another one."
    yield Finding(
        kind="wrong times",
        text=suspects.what,
        remedy=f"{advice} {suspects.bounds}",
        writers=tuple(sorted(of)),
        rows=tuple(sorted(suspect.row for suspect in suspects.suspects if suspect.writer not in whole)),
        whole_writers=whole,
    )


def _early(trace: Trace, suspects: Suspects) -> Iterator[Finding]:
    early = [clock for clock in suspects.writers if clock.clock == "early"]
    if not early:
        return
    names = tuple(clock.writer for clock in early)
    of = [f"{clock.writer} ({clock.early_share:.1%} of its {grouped(clock.rows)}, {_beside(clock)})" for clock in early]
    text = f"records arrive before they happen: of {listed(of, most=_NAMED)}"
    if sum(clock.rows for clock in early) > _MOST * trace.rows:
        remedy = "Most records are early: lags say nothing until the clock of arrivals is that of the writers; gaps do."
        yield Finding(kind="all early", text=text, remedy=remedy, writers=names)
        return
    remedy = "Leave out that writer, or correct its clock." if len(names) == 1 else "Leave them out, or correct clocks."
    yield Finding(kind="early", text=text, remedy=remedy, writers=names, whole_writers=names)


def _beside(clock: WriterClock) -> str:
    """How the clock of a writer stands beside those of the others."""
    way = "ahead of" if clock.offset_ms > 0 else "behind"
    return f"its clock is about {rounded(abs(clock.offset_ms))} {way} the others"


def _behind(suspects: Suspects) -> Iterator[Finding]:
    behind = [clock for clock in suspects.writers if clock.clock == "behind"]
    if not behind:
        return
    of = [f"{clock.writer} ({rounded(-clock.offset_ms)} in the median)" for clock in behind]
    yield Finding(
        kind="behind",
        text=f"nearly all records come later than delays of the log explain: of {listed(of, most=_NAMED)}",
        remedy="A slow clock looks like a long way: ask whoever runs it. A watermark for each writer waits for it.",
        writers=tuple(clock.writer for clock in behind),
    )


def _copies(trace: Trace) -> Iterator[Finding]:
    repeated = copies(Log.of(trace))
    if not repeated.any():
        return
    rows = np.flatnonzero(repeated) + 1
    owners, counts = np.unique(trace.table["writer"].to_numpy()[rows - 1], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    of = [f"{owners[n]} ({grouped(int(counts[n]))})" for n in order]
    yield Finding(
        kind="copies",
        text=f"{counted(len(rows), 'record')} repeat{'s' if len(rows) == 1 else ''} an earlier one (event time, writer "
        f"and key): of {listed(of, most=_NAMED)}",
        remedy="Leave them out if the source sends again what it was not acknowledged.",
        writers=tuple(owners[order].tolist()),
        rows=tuple(rows.tolist()),
    )


def _silent(trace: Trace, suspects: Suspects) -> Iterator[Finding]:
    silent = sorted(
        (clock for clock in suspects.writers if clock.silences), key=lambda clock: (-longest_ms(clock), clock.writer)
    )
    if not silent:
        return
    end_ms = trace.span_ms[1]
    of = [f"{clock.writer} ({said_silence(clock, end_ms)})" for clock in silent]
    yield Finding(
        kind="silent",
        text=f"writers are silent: {listed(of, most=_NAMED)}" if len(of) > 1 else f"a writer is silent: {of[0]}",
        remedy="A watermark that waits for each writer stands still meanwhile, unless it has an idle timeout.",
        writers=tuple(clock.writer for clock in silent),
    )


def longest_ms(clock: WriterClock) -> int:
    """The longest silence of a writer, ms; 0 if it has none."""
    return max((end - begin for begin, end in clock.silences), default=0)


def said_silence(clock: WriterClock, end_ms: int) -> str:
    """The longest silence of a writer in words, and how many others it has."""
    begin, end = max(clock.silences, key=lambda silence: silence[1] - silence[0])
    until = "until the end" if end == end_ms else f"until {moment(end, clock_ms=end_ms)}"
    more = f", and {len(clock.silences) - 1} more" if len(clock.silences) > 1 else ""
    return f"{rounded(end - begin)} {until}{more}"


def said_of_writer(clock: WriterClock, end_ms: int) -> str:
    """What is wrong with one writer, in a few words; empty if nothing is."""
    faults: Sequence[str] = [
        f"clock: {clock.clock}" if clock.clock else "",
        f"silent for {said_silence(clock, end_ms)}" if clock.silences else "",
    ]
    return "; ".join(fault for fault in faults if fault)
