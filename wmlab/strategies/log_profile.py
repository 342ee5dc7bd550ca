"""A log in one look: what is in it, which writers are dirty and how, and the calls to make next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar, Final

from wmlab.core.answers import COLUMNS_HINT, Cell, TableAnswer, text_table
from wmlab.core.charts.chart import Chart
from wmlab.core.errors import TraceError
from wmlab.core.traces import Trace, load
from wmlab.core.words import counted, grouped, listed, moment, rounded, unbroken, wrapped
from wmlab.strategies.charts.writers import writers as chart_of_writers
from wmlab.strategies.clocks import WriterClock, WriterClocks
from wmlab.strategies.doubts import enough_for
from wmlab.strategies.findings import Finding, findings_of, said_of_writer
from wmlab.strategies.replay import as_trace
from wmlab.strategies.suspect_records import Suspects, suspects

_LISTED: Final = 20
_NAMED: Final = 5
_TARGETS: Final = (0.001, 0.01, 0.05, 0.1)
"""Late shares that are proposed: the least for which there are enough records."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Profile(TableAnswer[WriterClock]):
    """A log in one look: a table of its writers, what is dirty in words, the calls to make, and a chart.

    `log` is the trace, without the bad rows that `log.refused` lists. `suspects` are the records with wrong times, and
    `writers` what the records of each writer show, the dirtiest first; the rules are those of these two. `findings` say
    what is dirty, whose it is and what to do. `without()` is the log without what is best left out.
    """

    log: Trace
    suspects: Suspects
    findings: tuple[Finding, ...]
    writers: WriterClocks = field(repr=False)

    entries = "writers"
    columns: ClassVar[dict[str, str]] = {
        "records": "good rows; bad ones are in profile.log.refused",
        "event times (UTC)": "the least and the largest that are not wrong",
        "arrivals (UTC)": "the first and the last",
        "wrong times": "records ahead of their arrival by more than the log explains, or older than the log is long",
        "early": "the share of records that arrive before they happen",
        "out of order": "the share of records older than a good one of any writer that arrived before: late at bound 0",
        "copies": "records that repeat an earlier one (event time, writer and key)",
        "clock": "event time less arrival in the median, beside that of the other writers; above 0 ahead, or faster",
        "longest silence": "the longest time without a record, until the end of the log",
        "what is wrong": "the clock as a whole, or a silence of more than ten usual gaps and 5% of the log",
    }
    heads = ("writer", *columns)
    left = (0, 2, 3, 10)
    schema = WriterClocks.schema

    @property
    def sentence(self) -> str:
        """What is in the log, and which writers are dirty."""
        log = self.log
        first, last = (self._moment(end) for end in log.span_ms)
        out_of_order = sum(clock.out_of_order for clock in self.writers) / log.rows
        text = (
            f"{log.name!r} has {counted(log.rows, 'record')} of {counted(len(self.writers), 'writer')}, which arrive "
            f"from {first} to {last}; {out_of_order:.1%} of them are older than a record before them."
        )
        if not self.findings:
            return f"{text} Nothing in it is seen to be dirty."
        dirty = sorted({name for finding in self.findings for name in finding.writers})
        of = f", of {listed(dirty, most=_NAMED)}" if dirty and len(self.writers) > 1 else ""
        kinds = "1 kind of dirt is" if len(self.findings) == 1 else f"{len(self.findings)} kinds of dirt are"
        return f"{text} {kinds} in it{of}."

    @property
    def row_numbers(self) -> tuple[int, ...]:
        """The records that are best left out, by their numbers in order of arrival, from 1, ascending."""
        return tuple(sorted({row for finding in self.findings for row in finding.rows}))

    @property
    def whole_writers(self) -> tuple[str, ...]:
        """The writers that are best left out as a whole, because their clock is wrong."""
        return tuple(sorted({name for finding in self.findings for name in finding.whole_writers}))

    def without(self) -> Trace:
        """The log without `row_numbers` and `whole_writers`; `log.without(...)` leaves out what you name."""
        return self.log.without(*self.whole_writers, rows=self.row_numbers)

    @property
    def next_calls(self) -> tuple[str, ...]:
        """The calls to make next, as lines of Python in which `profile` is this profile."""
        left_out = [*self.whole_writers, *([counted(len(self.row_numbers), "record")] if self.row_numbers else [])]
        rest = self.without() if left_out else self.log
        target = next((share for share in _TARGETS if enough_for(rest.rows, share)), _TARGETS[-1])
        lines = [f"log = profile.without()  # without {listed(left_out)}" if left_out else "log = profile.log"]
        lines.append(f"wm.strategy.advise(log, late_share={target})")
        return (*lines, f"wm.strategy.compare(log, [wm.strategy.advise(log, {target}).strategy]).late_rows()")

    def chart(self, *, title: str | None = None) -> Chart:
        """Who sends when, and whose times are wrong: `wm.strategy.chart.writers` of the log."""
        return chart_of_writers(self.log, title=title)

    def to_dict(self) -> dict[str, Any]:
        """The findings, the writers and the calls as dicts and lists."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "next_calls": list(self.next_calls),
            **self.suspects.to_dict(),
        }

    def _moment(self, time_ms: int) -> str:
        return moment(time_ms, clock_ms=self.suspects.clock_ms)

    def __repr__(self) -> str:
        rows = [self.heads, *([str(cell) for cell in row] for row in self._rows())]
        table = text_table(rows, right=[n for n in range(len(self.heads)) if n not in self.left])
        findings = [wrapped(f"- {finding}") for finding in self.findings]
        calls = (f"  {call}" for call in self.next_calls)
        return "\n".join([wrapped(self.sentence), *table, COLUMNS_HINT, *findings, "Next:", *calls])

    def _repr_html_(self) -> str:
        findings = "".join(
            f"<li>{escape(unbroken(finding.text))}. <i>{escape(unbroken(finding.remedy))}</i></li>"
            for finding in self.findings
        )
        calls = escape("\n".join(self.next_calls))
        # An answer of several entries writes the table; `super()` has no class to begin at in one with slots.
        table = TableAnswer._repr_html_(self)
        return f"{table}<ul>{findings}</ul><p>Next:</p><pre><code>{calls}</code></pre>"

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        end_ms = self.log.span_ms[1]
        for c in self.writers.writers[:_LISTED]:
            shares = (f"{c.early_share:.1%}", f"{c.out_of_order / c.rows:.1%}", grouped(c.copies))
            yield (
                *(c.writer, grouped(c.rows), self._span(c.first_event_time, c.last_event_time)),
                *(self._span(c.first_arrival_ms, c.last_arrival_ms), grouped(c.suspects), *shares),
                *(unbroken(rounded(ms)) for ms in (c.offset_ms, c.silent_ms)),
                said_of_writer(c, end_ms),
            )
        if len(self.writers) > _LISTED:
            yield f"and {grouped(len(self.writers) - _LISTED)} more", *[""] * (len(self.heads) - 1)

    def _span(self, first_ms: int | None, last_ms: int | None) -> str:
        """From when to when, to the second; without the day where that of the whole log is one."""
        if first_ms is None or last_ms is None:
            return "none is good"
        days = {day for day, _ in map(self._day_and_clock, (first_ms, last_ms, *self.log.span_ms))}
        (first_day, first), (last_day, last) = map(self._day_and_clock, (first_ms, last_ms))
        return f"{first} to {last}" if len(days) == 1 else f"{first_day} {first} to {last_day} {last}".strip()

    def _day_and_clock(self, time_ms: int) -> tuple[str, str]:
        """A time to the second, of an instant the day apart."""
        text = self._moment(time_ms)
        instant = text.removesuffix(" UTC")
        if instant == text:
            return "", text
        day, _, clock = instant.partition(" ")
        return day, clock.partition(".")[0]


def profile(source: Any, **columns: Any) -> Profile:
    """What is in a log, which writers are dirty and how, and what to do next; `source` is anything that `load` takes.

    That is a path, the name of a log that comes with wmlab, a data frame of pandas, PyArrow, Polars or Spark, or a
    `Trace`. `columns` are the arguments of `load`: `event_time`, `arrival`, `writer` and the others. Bad rows are left
    out and listed, unless `bad_rows="refuse"`. Raises `TraceError` as `load` does, and for arguments with a `Trace`.
    """
    if isinstance(source, Trace) and columns:
        raise TraceError(
            f"a trace has its columns already, and {listed(sorted(columns))} cannot name others.",
            remedy="Give the trace alone, or the file that it is from.",
        )
    trace = as_trace(source if isinstance(source, Trace) else load(source, **({"bad_rows": "drop"} | columns)))
    suspicious = suspects(trace)
    return Profile(trace, suspicious, findings_of(trace, suspicious), suspicious.writers)
