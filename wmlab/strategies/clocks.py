"""Records and writers of a log whose clocks are wrong, and what they do to the bound.

The largest event time m never falls. So one record that is stamped a day ahead is behind the lateness of all records
of a day. A record is *ahead* if its event time is after its arrival, by more than clocks and delays of the log explain.
It is *older than the log* if its event time is before the first arrival by more than the log is long: the clock of a
device that was never set gives 1970.

How far ahead is too far follows from the log. With d = event time - arrival, and q(s) its quantile at the share s, a
record is ahead if d > `ahead_ms` = max(0, q(0.75) + 10 (q(0.75) - q(0.5))), rounded up to two digits. These are
quartiles, so up to a quarter of the records may be ahead and the limit stays that of the others. Of delays with an
exponential distribution of mean M the limit is 4 M, of a normal one 7 standard deviations after the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from html import escape
from math import ceil
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from wmlab.core.answers import Cell, TableAnswer, text_table
from wmlab.core.errors import ModelError
from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace
from wmlab.core.words import counted, grouped, is_instant, listed, moment, rounded
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.strategy import UNKNOWN, ShareBetween, require_argument
from wmlab.strategies.replay import Log, before, group, require_trace

_SPREADS: Final = 10
"""How many times the upper quartile is away from the median, a record has to be away from the quartile to be ahead."""
_MOST: Final = 0.5
"""The share of a writer's records from which on its clock, and not single records, is ahead or early."""
_COUNTED: Final = 1_000
"""Suspects of which is counted how many records they made late."""
_LISTED: Final = 20
_NAMED: Final = 3

SuspectKind = Literal["ahead", "older than the log"]
ClockFault = Literal["ahead", "early", "behind", "steps", "older than the log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A record whose clock is wrong; times in ms. `row` is its number in order of arrival, from 1.

    `ahead_ms` is its event time less its arrival, `moved_ms` by how much it raised the largest event time of the log.
    `made_late` counts the records that are late for the bound `without_ms` if of all suspects only this one is in the
    log, and not late if it is not, either; `made_late_at_0` those for the bound 0. The record itself is not counted.
    Both are None beyond the 1,000 suspects that raised the largest event time most.
    """

    kind: SuspectKind
    row: int
    writer: str
    event_time: int
    arrival_ms: int
    ahead_ms: int
    moved_ms: int
    made_late: int | None
    made_late_at_0: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterClock:
    """The clock of a writer as its records show it; times in ms, shares from 0 to 1.

    `offset_ms` is the median of event time less arrival, less the median of that over all writers: above 0 the clock is
    ahead, or the delay is short; below 0 it is behind, or the delay is long. `early` counts the records that arrive
    before they happen, `suspects` those that are suspects; `steps` how often the writer changes from records that are
    suspects to records that are not, or back. `silent_ms` is the longest time without a record of it, until the end of
    the log; `silent_at_end` whether that is the last one. `clock` says what is wrong: "ahead" or "older than the log"
    if most records are, "steps" if some are, "early" if most records arrive before they happen, "behind" if nine of ten
    records are later than delays of the log explain, which may be a long delay of its own; None: nothing.
    """

    writer: str
    rows: int
    offset_ms: int
    early: int
    suspects: int
    steps: int
    silent_ms: int
    silent_at_end: bool
    clock: ClockFault | None

    @property
    def early_share(self) -> float:
        """The share of its records that arrive before they happen."""
        return self.early / self.rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WriterClocks(TableAnswer[WriterClock]):
    """The clock of each writer of a log: those with most suspects first, then those that are early most often."""

    name: str
    writers: tuple[WriterClock, ...]

    entries = "writers"
    heads = ("writer", "records", "offset", "early", "suspects", "steps", "longest silence", "clock")
    schema = pa.schema(
        [pa.field("writer", pa.string()), pa.field("rows", pa.int64(), nullable=False)]
        + [pa.field("offset_ms", pa.int64(), nullable=False), pa.field("early", pa.int64(), nullable=False)]
        + [pa.field("early_share", pa.float64(), nullable=False)]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("suspects", "steps", "silent_ms")]
        + [pa.field("silent_at_end", pa.bool_(), nullable=False), pa.field("clock", pa.string())]
    )

    def __getitem__(self, writer: str) -> WriterClock:
        for clock in self.writers:
            if clock.writer == writer:
                return clock
        raise ModelError(f"{self.name!r} has no writer {writer!r}.", remedy="Ask for a name of log.writer_names.")

    def to_dict(self) -> dict[str, Any]:
        """The clocks as dicts of numbers."""
        return {"trace": self.name, "writers": [asdict(clock) for clock in self.writers]}

    @property
    def wrong(self) -> tuple[str, ...]:
        """The writers with a wrong clock."""
        return tuple(clock.writer for clock in self.writers if clock.clock)

    @property
    def sentence(self) -> str:
        """Whose clocks are wrong, in one sentence."""
        if not self.wrong:
            return f"No clock of {counted(len(self.writers), 'writer')} of {self.name!r} is seen to be wrong."
        named = [f"{clock.writer} ({clock.clock})" for clock in self.writers if clock.clock]
        many = counted(len(self.writers), "writer")
        return f"Of {many} of {self.name!r}, these have a wrong clock: {listed(named, most=_LISTED)}."

    def __repr__(self) -> str:
        rows = [self.heads, *([str(cell) for cell in row] for row in self._rows())]
        return "\n".join([self.sentence, *text_table(rows, right=range(1, len(self.heads) - 1))])

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for w in self.writers:
            silent = rounded(w.silent_ms) + (", until the end" if w.silent_at_end else "")
            early, offset = f"{w.early_share:.1%}", rounded(w.offset_ms)
            yield w.writer, grouped(w.rows), offset, early, grouped(w.suspects), grouped(w.steps), silent, w.clock or ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Suspects(TableAnswer[Suspect]):
    """The records of a log whose clocks are wrong, those first that made most others late; see the module.

    `bound_ms` is the constant bound for the late share `target` over the whole log, `without_ms` over the log without
    the suspects, `lossless_ms` and `lossless_without_ms` are those for no late record at all. `row_numbers` are those
    of all suspects; of each the table has one entry. `ahead_ms` is the limit, which `Guarded` takes.
    `writers` are the clocks of the writers.
    """

    log: Trace = field(repr=False)
    target: float
    ahead_ms: int
    bound_ms: int
    without_ms: int
    lossless_ms: int
    lossless_without_ms: int
    suspects: tuple[Suspect, ...]
    writers: WriterClocks

    entries = "suspects"
    heads = (
        "row by arrival",
        "writer",
        "event time",
        "arrival",
        "ahead by",
        "moved the largest by",
        "made late",
        "at bound 0",
    )
    left = (1, 2, 3)
    schema = pa.schema(
        [pa.field("kind", pa.string()), pa.field("row", pa.int64(), nullable=False), pa.field("writer", pa.string())]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("event_time", "arrival_ms", "ahead_ms", "moved_ms")]
        + [pa.field(name, pa.int64()) for name in ("made_late", "made_late_at_0")]
    )

    @property
    def row_numbers(self) -> tuple[int, ...]:
        """The numbers of the suspects in order of arrival, from 1: what `log.without(rows=...)` takes, ascending."""
        return tuple(sorted(suspect.row for suspect in self.suspects))

    def without(self) -> Trace:
        """The log without the suspects."""
        return self.log.without(rows=self.row_numbers)

    def to_dict(self) -> dict[str, Any]:
        """The suspects and the writers as dicts of numbers."""
        names = ("target", "ahead_ms", "bound_ms", "without_ms", "lossless_ms", "lossless_without_ms")
        fields = {"trace": self.log.name} | {name: getattr(self, name) for name in names}
        return fields | {"suspects": [asdict(suspect) for suspect in self.suspects]} | self.writers.to_dict()

    @property
    def sentence(self) -> str:
        """What is wrong, whose it is, and what the bound is with and without it."""
        if not self.suspects:
            return (
                f"No record of {self.log.name!r} is more than {rounded(self.ahead_ms)} ahead of its arrival, or older "
                f"than the log. {self.writers.sentence}"
            )
        return f"In {self.log.name!r} {self.what}. {self.bounds}"

    @property
    def what(self) -> str:
        """Which records are suspects and whose they are; empty if none is."""
        parts = [self._ahead()] if self.of_kind("ahead") else []
        return " and ".join(parts + ([self._older()] if self.of_kind("older than the log") else []))

    @property
    def bounds(self) -> str:
        """The bounds with and without the suspects, for the target and for no late record."""
        pairs = [(f"{self.target:.3%} late", self.bound_ms, self.without_ms)]
        pairs += [("no late record", self.lossless_ms, self.lossless_without_ms)]
        them = "it" if len(self.suspects) == 1 else "them"
        texts = [f"for {what} is {rounded(all_)} with {them} and {rounded(rest)} without" for what, all_, rest in pairs]
        return f"The constant bound {', and '.join(texts)}."

    def of_kind(self, kind: str) -> list[Suspect]:
        """The suspects of a kind."""
        return [suspect for suspect in self.suspects if suspect.kind == kind]

    def _ahead(self) -> str:
        records = self.of_kind("ahead")
        owners, late = self._owners(records), grouped(max(suspect.made_late or 0 for suspect in records))
        farthest = rounded(max(suspect.ahead_ms for suspect in records))
        if len(records) == 1:
            return f"1 record ({owners}) is {farthest} ahead of its arrival, which alone makes {late} others late"
        what = f"{grouped(len(records))} records ({owners}) are up to {farthest} ahead of their arrival"
        return f"{what}, of which one alone makes up to {late} others late"

    def _older(self) -> str:
        records = self.of_kind("older than the log")
        what = "1 record is" if len(records) == 1 else f"{grouped(len(records))} records are"
        oldest, owners = min(suspect.event_time for suspect in records), self._owners(records)
        since = self._moment(oldest)
        if is_instant([oldest], clock=[self._clock_ms]):
            since = since.split(" ")[0]
        return f"{what} not of this log, but from {since} on ({owners})"

    @property
    def _clock_ms(self) -> int:
        return Log.of(self.log).clock_ms

    def _moment(self, time_ms: int) -> str:
        return moment(time_ms, clock_ms=self._clock_ms)

    def _owners(self, records: list[Suspect]) -> str:
        """Whose the records are: all of a writer, so many of it, or their rows and moments if they are few."""
        by_writer = pd.Series([suspect.writer for suspect in records]).value_counts(sort=False)
        parts = []
        for writer, count in sorted(by_writer.items(), key=lambda pair: (-pair[1], str(pair[0]))):
            rows = self.writers[str(writer)].rows
            first = next(suspect for suspect in records if suspect.writer == writer)
            if count == rows:
                parts.append(f"all {grouped(rows)} of {writer}")
            elif count > 1:
                parts.append(f"{grouped(count)} of {writer}, the worst is row {grouped(first.row)} by arrival")
            else:
                parts.append(
                    f"row {grouped(first.row)} by arrival, of {writer}, stamped {self._moment(first.event_time)}"
                )
        return listed(parts, most=_NAMED)

    def __repr__(self) -> str:
        rows = [self.heads, *([str(cell) for cell in row] for row in self._rows())]
        table = text_table(rows, right=(0, 4, 5, 6, 7)) if self.suspects else []
        return "\n".join([self.sentence, *table, repr(self.writers)])

    def _repr_html_(self) -> str:
        table = TableAnswer._repr_html_(self) if self.suspects else f"<p>{escape(self.sentence)}</p>"
        return table + self.writers._repr_html_()

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for s in self.suspects[:_LISTED]:
            times = (self._moment(s.event_time), self._moment(s.arrival_ms), rounded(s.ahead_ms), rounded(s.moved_ms))
            late = ("–" if count is None else grouped(count) for count in (s.made_late, s.made_late_at_0))
            yield grouped(s.row), s.writer, *times, *late
        if len(self.suspects) > _LISTED:
            yield f"and {grouped(len(self.suspects) - _LISTED)} more", *[""] * 7


def suspects(trace: Trace, late_share: float = 0.01) -> Suspects:
    """The records and writers of a log whose clocks are wrong, and the bound for `late_share` with and without them.

    Raises `ModelError` for a target that is not between 0 and 1, or what is no trace.
    """
    require_argument("late_share", late_share, ShareBetween)
    require_trace(trace)
    log, limit = Log.of(trace), ahead_limit_ms(trace)
    ahead = log.event - log.arrival > limit
    older = _older_than_the_log(log)
    wrong = ahead | older
    curve = lateness_curve(trace)
    rest = curve if wrong.all() or not wrong.any() else lateness_curve(_filtered(trace, ~wrong))
    without_ms = rest.bound_ms(late_share)
    return Suspects(
        log=trace,
        target=late_share,
        ahead_ms=limit,
        bound_ms=curve.bound_ms(late_share),
        without_ms=without_ms,
        lossless_ms=curve.bound_ms(0),
        lossless_without_ms=rest.bound_ms(0),
        suspects=tuple(_suspects(trace, log, ahead, older, without_ms)),
        writers=_clocks(trace, log, ahead, older),
    )


def ahead_limit_ms(trace: Trace) -> int:
    """How far a record of the log may be ahead of its arrival, ms; see the module."""
    ahead = trace.table["event_time"].to_numpy() - trace.table["arrival_ms"].to_numpy()
    middle, upper = np.quantile(ahead, (0.5, 0.75), method="inverted_cdf").tolist()
    return in_two_digits(max(0, upper + _SPREADS * (upper - middle)))


def in_two_digits(length_ms: float) -> int:
    """A length with two digits that count, the next one above.

    >>> in_two_digits(8_119_554), in_two_digits(99.5), in_two_digits(0)
    (8200000, 100, 0)
    """
    unit: int = 10 ** max(0, len(str(int(length_ms))) - 2)
    return unit * ceil(length_ms / unit)


def _older_than_the_log(log: Log) -> Any:
    """Whether the event time of a record is before the first arrival by more than the log is long, and it is rare."""
    first, last = int(log.arrival[0]), int(log.arrival[-1])
    before_it = log.event < first - max(last - first, 1)
    # Of a short log of old events many records are older than it is long: then these are the log.
    delay_ms = log.arrival - log.event
    usual_ms = np.quantile(delay_ms, 0.75, method="inverted_cdf")
    return before_it & (delay_ms > _SPREADS * max(0, usual_ms))


def _filtered(trace: Trace, chosen: Any) -> Trace:
    return Trace(trace.name, trace.table.filter(pa.array(chosen)))


def _suspects(trace: Trace, log: Log, ahead: Any, older: Any, bound_ms: int) -> list[Suspect]:
    wrong = ahead | older
    rows = np.flatnonzero(wrong)
    names = dict(zip(rows.tolist(), trace.table["writer"].take(pa.array(rows)).to_pylist(), strict=True))
    moved = np.maximum(log.event - np.maximum(before(log.event), log.event.min()), 0)
    order = np.lexsort((rows, log.arrival[rows] - log.event[rows], -moved[rows]))
    # What the largest event time before each record is without all suspects, which never falls.
    clean = before(np.where(wrong, UNKNOWN, log.event))
    records = []
    for rank, row in enumerate(rows[order].tolist()):
        event, arrival = int(log.event[row]), int(log.arrival[row])
        counts: tuple[int | None, int | None] = (None, None)
        if rank < _COUNTED:
            others = np.arange(row + 1, max(row + 1, int(np.searchsorted(clean, event))))
            others = others[~wrong[others]]
            of = log.event[others], clean[others], event
            counts = _made_late(*of, bound_ms), _made_late(*of, 0)
        records.append(
            Suspect(
                kind="ahead" if ahead[row] else "older than the log",
                row=row + 1,
                writer=names[row],
                event_time=event,
                arrival_ms=arrival,
                ahead_ms=event - arrival,
                moved_ms=int(moved[row]),
                made_late=counts[0],
                made_late_at_0=counts[1],
            )
        )
    return sorted(records, key=lambda suspect: -(suspect.made_late or 0))


def _made_late(event: Int64Array, clean: Int64Array, raised: int, bound_ms: int) -> int:
    """How many records are late behind `raised`, but not behind `clean`, the largest event time before each without."""
    on_time = (clean == UNKNOWN) | (event >= clean - bound_ms)
    return int((on_time & (event < raised - bound_ms)).sum())


def _clocks(trace: Trace, log: Log, ahead: Any, older: Any) -> WriterClocks:
    writer, names = group(trace, "writer")
    wrong, early = ahead | older, log.event > log.arrival
    frame = pd.DataFrame({"writer": writer, "ahead": log.event - log.arrival, "wrong": wrong, "older": older})
    frame["early"], frame["arrival"] = early, log.arrival
    of = frame.groupby("writer")
    # As a quantile of numpy, a median that is one of the values.
    middle = of["ahead"].quantile(0.5, interpolation="lower").astype(np.int64)
    typical = int(np.quantile(middle.to_numpy(), 0.5, method="inverted_cdf"))
    last = of["wrong"].shift(1)
    frame["changed"] = last.notna() & (last != frame["wrong"])
    frame["quiet"] = of["arrival"].diff().fillna(0).astype(np.int64)
    of = frame.groupby("writer")
    at_end = log.arrival[-1] - of["arrival"].max()
    quiet = of["quiet"].max()
    table = pd.DataFrame(
        {
            "rows": of.size(),
            "offset_ms": middle - typical,
            "early": of["early"].sum(),
            "suspects": of["wrong"].sum(),
            "older": of["older"].sum(),
            "steps": of["changed"].sum(),
            "silent_ms": np.maximum(quiet, at_end),
            "silent_at_end": at_end > quiet,
            "slow": of["ahead"].quantile(0.9, interpolation="lower") < _slow_limit_ms(log),
        }
    )
    clocks = [_clock(names[index], *row) for index, row in zip(table.index, table.itertuples(index=False), strict=True)]
    clocks.sort(key=lambda clock: (-clock.suspects, -clock.early_share, -abs(clock.offset_ms), clock.writer))
    return WriterClocks(trace.name, tuple(clocks))


def _slow_limit_ms(log: Log) -> int:
    """What event time less arrival is below if the clock is behind, or the delay longer than those of others are."""
    lower, middle = np.quantile(log.event - log.arrival, (0.25, 0.5), method="inverted_cdf").tolist()
    return int(lower - _SPREADS * (middle - lower))


def _clock(name: str, *counts: Any) -> WriterClock:
    rows, offset_ms, early, wrong, older, steps, silent_ms, silent_at_end, slow = counts
    clock: ClockFault | None = None
    if wrong > _MOST * rows:
        clock = "older than the log" if older > wrong // 2 else "ahead"
    elif wrong:
        clock = "steps"
    elif early > _MOST * rows:
        clock = "early"
    elif slow:
        clock = "behind"
    return WriterClock(
        writer=name,
        rows=int(rows),
        offset_ms=int(offset_ms),
        early=int(early),
        suspects=int(wrong),
        steps=int(steps),
        silent_ms=int(silent_ms),
        silent_at_end=bool(silent_at_end),
        clock=clock,
    )
