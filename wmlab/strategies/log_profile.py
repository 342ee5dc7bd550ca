"""An overview of a log: its contents, the writers with bad rows, and the calls to make next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Final

import pandas as pd
import pyarrow as pa

from wmlab.core.answers import Cell, TableAnswer, terminal_width, text_table
from wmlab.core.charts.chart import Chart
from wmlab.core.errors import TraceError
from wmlab.core.facts import FactAnswer, Facts, Value, folded_facts
from wmlab.core.log_columns import parts_of
from wmlab.core.log_files import Frame, files_of, is_frame, is_spark, open_file
from wmlab.core.traces import Trace, load, shipped_file
from wmlab.core.words import (
    counted,
    grouped,
    listed,
    moment,
    rounded,
    unbroken,
    wrapped,
)
from wmlab.strategies.charts.writers import writers as chart_of_writers
from wmlab.strategies.clocks import each_writer, key_is_id
from wmlab.strategies.findings import Finding, findings_html, findings_of
from wmlab.strategies.model.strategy import ShareBetween, require_argument
from wmlab.strategies.replay import Log, as_trace
from wmlab.strategies.vocabulary import PROFILE_HEADLINE, PROFILE_LABELS, PROFILE_NEXT

_LISTED: Final = 20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Profile(FactAnswer, TableAnswer[Any]):
    """An overview of a log: a table of its writers, findings about bad rows, the calls to make next, and a chart.

    `log` is the trace, without the bad rows that `log.refused` lists. `findings` say what is wrong and in which
    writers, how it changes the constant bound for the requested late share, and what to do; `writers` is a data frame
    about the records of each writer, the one with the most problems first (`wm.strategy.writer_clocks`). `bound_ms` is
    that constant bound, and `ahead_ms` how far ahead of its arrival a record may be, which `Guarded` takes. `without()`
    is the log without the rows that the findings suggest to leave out.
    """

    log: Trace
    findings: tuple[Finding, ...]
    writers: pd.DataFrame
    bound_ms: int
    ahead_ms: int
    ids: Any = field(repr=False)
    """The `id` of `profile`: the column by which copies are recognized."""
    late_share: float
    """The share that the bounds are for, and the advice that is proposed."""

    entries = "writers_listed"
    columns: ClassVar[dict[str, str]] = {
        "records": "good rows; bad ones are in profile.log.refused",
        "event times (UTC)": "the least and the largest that are not wrong",
        "arrivals (UTC)": "the first and the last",
        "wrong times": "records ahead of their arrival by more than the log explains, or older than the log is long",
        "early": "the share of records that arrive before they happen",
        "out of order": PROFILE_LABELS["out of order"].meaning,
        "copies": "records that repeat an earlier one: all columns but the arrival, or the id, are equal",
        "clock": "event time less arrival of the fastest record, beside that of the other writers; above 0 ahead",
        "longest silence": "the longest time without a record, until the end of the log",
        "what is wrong": "the clock as a whole, or a silence of more than ten usual gaps and 5% of the log",
    }
    heads = ("writer", *columns)
    left = (0, 2, 3, 10)

    @property
    def writers_listed(self) -> list[Any]:
        """The rows of `writers` as named tuples."""
        return list(each_writer(self.writers))

    def __getitem__(self, kind: str) -> Finding:
        for finding in self.findings:
            if finding.kind == kind:
                return finding
        kinds = listed([finding.kind for finding in self.findings]) or "none"
        raise TraceError(f"no finding of {self.log.name!r} is {kind!r}.", remedy=f"Ask for one of its kinds: {kinds}.")

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        """What the log has, and what is wrong with it."""
        facts: dict[str, Value] = {
            "log": self.log.name,
            "records": self.log.rows,
            "out of order": int(self.writers["out_of_order"].sum()) / self.log.rows,
            "findings": tuple(dict.fromkeys(finding.kind.value for finding in self.findings)),
            "copies are known": self.knows_copies,
        }
        return Facts(PROFILE_LABELS, facts)

    @property
    def templates(self) -> tuple[str, ...]:  # type: ignore[override]
        """How many records there are, and what is found in them."""
        return self.facts.chosen([PROFILE_HEADLINE], PROFILE_NEXT)

    @property
    def knows_copies(self) -> bool:
        """Whether copies can be recognized: by all columns of the source, by an id, or by a key that is one."""
        return self.ids is not None or key_is_id(Log.of(self.log))

    @property
    def row_numbers(self) -> tuple[int, ...]:
        """The records to leave out, by their numbers in order of arrival, from 1, ascending."""
        return tuple(sorted({row for finding in self.findings if finding.leave_out for row in finding.rows}))

    def without(self) -> Trace:
        """The log without `row_numbers`; `log.without(...)` leaves out what you name."""
        return self.log.without(rows=self.row_numbers)

    @property
    def next_calls(self) -> tuple[str, ...]:
        """The calls to make next, as lines of Python in which `profile` is this profile."""
        count = len(self.row_numbers)
        target = self.late_share
        lines = [f"log = profile.without()  # without {counted(count, 'record')}" if count else "log = profile.log"]
        lines.append(f"wm.strategy.advise(log, late_share={target})")
        return (*lines, f"wm.strategy.compare(log, [wm.strategy.advise(log, {target}).strategy]).late_rows()")

    def chart(self, *, title: str | None = None) -> Chart:
        """When each writer sends, and which writers have wrong times: `wm.strategy.chart.writers` of the log."""
        return chart_of_writers(self.log, ids=self.ids, title=title)

    def to_pandas(self) -> Any:
        """The data frame of the writers."""
        return self.writers

    def to_dict(self) -> dict[str, Any]:
        """The findings, the writers and the calls as dicts and lists."""
        return {
            "headline": self.headline,
            "facts": self.facts.to_dict(),
            "trace": self.log.name,
            "bound_ms": self.bound_ms,
            "ahead_ms": self.ahead_ms,
            "findings": [finding.to_dict() for finding in self.findings],
            "writers": [{name: _plain(value) for name, value in row._asdict().items()} for row in self.writers_listed],
            "next_calls": list(self.next_calls),
        }

    def __repr__(self) -> str:
        return self.text(["Next:", *(f"  {call}" for call in self.next_calls)])

    def text(self, more: list[str]) -> str:
        """The profile as text no wider than the terminal, with lines of your own at its end."""
        columns = list(zip(self.heads, *(map(str, row) for row in self._rows()), strict=True))
        # A column in which no writer has anything only makes the table wider.
        known = [n for n, (_, *cells) in enumerate(columns) if not {"", "0", "0.0%", "–"}.issuperset(cells)]
        rows = list(zip(*(columns[n] for n in known), strict=True))
        right = [place for place, n in enumerate(known) if n not in self.left]
        table = text_table(rows, right=right, width=terminal_width())
        findings = (f"- {finding}" for finding in self.findings)
        return "\n".join([wrapped(self.sentence), *table, *map(wrapped, findings), *more])

    def _repr_html_(self) -> str:
        calls = escape("\n".join(self.next_calls))
        # An answer of several entries writes the table; `super()` has no class to begin at in one with slots.
        table = TableAnswer._repr_html_(self)
        facts, findings = folded_facts(self.facts), findings_html(self.findings)
        return f"{table}{facts}{findings}<p>Next:</p><pre><code>{calls}</code></pre>"

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        knows_copies = self.knows_copies
        for c in self.writers_listed[:_LISTED]:
            shares = (
                f"{c.early_share:.1%}",
                f"{c.out_of_order / c.rows:.1%}",
                grouped(c.copies) if knows_copies else "–",
            )
            yield (
                *(c.writer, grouped(c.rows), self._span(c.first_event_time, c.last_event_time)),
                *(self._span(c.first_arrival_ms, c.last_arrival_ms), grouped(c.wrong), *shares),
                *(unbroken(rounded(int(ms))) for ms in (c.offset_ms, c.silent_ms)),
                "; ".join(filter(None, (c.clock, "silent" if c.silences else ""))),
            )
        if len(self.writers) > _LISTED:
            yield f"and {grouped(len(self.writers) - _LISTED)} more", *[""] * (len(self.heads) - 1)

    def _span(self, first_ms: Any, last_ms: Any) -> str:
        """From when to when, to the second; without the day where that of the whole log is one."""
        if pd.isna(first_ms) or pd.isna(last_ms):
            return "none is good"
        days = {day for day, _ in map(self._day_and_clock, (first_ms, last_ms, *self.log.span_ms))}
        (first_day, first), (last_day, last) = map(self._day_and_clock, (first_ms, last_ms))
        return f"{first} to {last}" if len(days) == 1 else f"{first_day} {first} to {last_day} {last}".strip()

    def _day_and_clock(self, time_ms: int) -> tuple[str, str]:
        """A time to the second, of an instant the day apart."""
        text = moment(int(time_ms), clock_ms=self.log.span_ms[1])
        instant = text.removesuffix(" UTC")
        if instant == text:
            return "", text
        day, _, clock = instant.partition(" ")
        return day, clock.partition(".")[0]


def _plain(value: Any) -> Any:
    """A value of a data frame as one of JSON: numbers of Python, None where there is none."""
    if value is pd.NA:
        return None
    return value.item() if hasattr(value, "item") else value


def profile(source: Any, *, late_share: float = 0.01, id: str | None = None, **columns: Any) -> Profile:
    """Report what a log contains, which writers have bad rows, and what to do; `source` is anything that `load` takes.

    That is a path, the name of a log that comes with wmlab, a data frame of pandas, PyArrow, Polars or Spark, or a
    `Trace`. `columns` are the arguments of `load`: `event_time`, `arrival`, `writer` and the others. Bad rows are left
    out and listed, unless `bad_rows="refuse"`. The bounds are those for `late_share`.

    A copy repeats an earlier record with the same `id`, a column that names each record. Without one, a copy equals the
    earlier record in all columns except the arrival. For a trace, for Spark and for paths through arrays, the key
    counts if it is an id. Raises `TraceError` as `load` does, and for arguments with a `Trace`; `ModelError` for an
    invalid share.
    """
    require_argument("late_share", late_share, ShareBetween)
    if isinstance(source, Trace) and (columns or id):
        raise TraceError(
            f"a trace has its columns already, and {listed(sorted([*columns, *(['id'] if id else [])]))} cannot name "
            "others.",
            remedy="Give the trace alone, or the file that it is from.",
        )
    arguments = {"bad_rows": "drop"} | columns
    trace = as_trace(source if isinstance(source, Trace) else load(source, **arguments))
    ids = None if isinstance(source, Trace) else _ids(source, id, arguments, trace.rows)
    found = findings_of(trace, late_share, None, ids)
    return Profile(trace, found.findings, found.writers, found.bound_ms, found.ahead_ms, ids, late_share)


_CONTENT: Final = "all other columns"


def _ids(source: Any, name: str | None, arguments: Mapping[str, Any], rows: int) -> Any:
    """The id of each record, in order of arrival; None where only the key can say."""
    if name is None:
        table = _all_columns(source, arguments)
        event, arrival = arguments.get("event_time", "event_time"), arguments.get("arrival", "arrival_ms")
        times = {*parts_of(event), *parts_of(arguments.get("delay") or arrival)}
        # A row that stands for several records makes no copies.
        if table is None or arguments.get("count") or not times < set(table.column_names):
            return None
        content = pd.util.hash_pandas_object(table.drop_columns(list(times)).to_pandas().astype(str), index=False)
        source, name = table.append_column(_CONTENT, pa.array(content.astype(str))), _CONTENT
    keys = load(source, **{**arguments, "key": name}).table["key"]
    # Rows without an id would be bad rows of their own.
    return keys.to_numpy(zero_copy_only=False) if len(keys) == rows else None


def _all_columns(source: Any, arguments: Mapping[str, Any]) -> pa.Table | None:
    """The rows of a source with all their columns; None where they may have another order, or several a document."""
    if is_spark(source):
        return None
    if is_frame(source):
        frame = Frame(source, _CONTENT)
        return frame.table(frame.names)
    form, encoding = arguments.get("form"), arguments.get("encoding", "utf-8")
    path = shipped_file(source) or Path(source)
    parts = [open_file(file, form, encoding, arguments.get("columns")) for file in files_of(path)]
    if any("[" in name for part in parts for name in part.names):
        return None
    return pa.concat_tables([part.rows(part.names).table for part in parts], promote_options="permissive")
