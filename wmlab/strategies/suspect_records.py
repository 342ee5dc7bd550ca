"""The records of a log that are suspects (see `clocks`), what each did to the others, and the bounds without them.

The largest event time m never falls. So one record that is stamped a day ahead is behind the lateness of all records
of a day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from wmlab.core.answers import Cell, TableAnswer, text_table
from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace
from wmlab.core.words import grouped, is_instant, listed, moment, rounded
from wmlab.strategies.clocks import WriterClocks, WrongTimes, writer_clocks, wrong_times
from wmlab.strategies.lateness import curve_of
from wmlab.strategies.model.strategy import UNKNOWN, ShareBetween, require_argument
from wmlab.strategies.replay import Log, as_trace, before
from wmlab.strategies.windows import Windows

_COUNTED: Final = 1_000
"""Suspects of which is counted how many records they made late."""
_LISTED: Final = 20
_NAMED: Final = 3

SuspectKind = Literal["ahead", "older than the log"]


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
        if is_instant([oldest], clock=[self.clock_ms]):
            since = since.split(" ")[0]
        return f"{what} not of this log, but from {since} on ({owners})"

    @property
    def clock_ms(self) -> int:
        """An arrival of the log, which says whether its times are instants."""
        return Log.of(self.log).clock_ms

    def _moment(self, time_ms: int) -> str:
        return moment(time_ms, clock_ms=self.clock_ms)

    def _owners(self, records: list[Suspect]) -> str:
        """Whose the records are: all of a writer, so many of it, or their rows and moments if they are few."""
        by_writer = pd.Series([suspect.writer for suspect in records]).value_counts(sort=False)
        parts = []
        for writer, count in sorted(by_writer.items(), key=lambda pair: (-pair[1], str(pair[0]))):
            rows = self.writers[str(writer)].rows
            first = next(suspect for suspect in records if suspect.writer == writer)
            if count == rows:
                parts.append(f"the only one of {writer}" if rows == 1 else f"all {grouped(rows)} of {writer}")
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


def suspects(trace: Trace | Any, late_share: float = 0.01, windows: Windows | None = None) -> Suspects:
    """The records and writers of a log whose clocks are wrong, and the bound for `late_share` with and without them.

    The bounds are those of late records, or of those that windows lose.
    Raises `ModelError` for a target that is not between 0 and 1, or what is no trace.
    """
    require_argument("late_share", late_share, ShareBetween)
    trace = as_trace(trace)
    log, wrong = Log.of(trace), wrong_times(trace)
    either = wrong.either
    curve = curve_of(trace, windows)
    rest = curve if either.all() or not either.any() else curve_of(_filtered(trace, ~either), windows)
    without_ms = rest.bound_ms(late_share)
    return Suspects(
        log=trace,
        target=late_share,
        ahead_ms=wrong.limit_ms,
        bound_ms=curve.bound_ms(late_share),
        without_ms=without_ms,
        lossless_ms=curve.bound_ms(0),
        lossless_without_ms=rest.bound_ms(0),
        suspects=tuple(_suspects(trace, log, wrong, without_ms)),
        writers=writer_clocks(trace, wrong),
    )


def _filtered(trace: Trace, chosen: Any) -> Trace:
    return Trace(trace.name, trace.table.filter(pa.array(chosen)))


def _suspects(trace: Trace, log: Log, of: WrongTimes, bound_ms: int) -> list[Suspect]:
    wrong = of.either
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
            after = log.event[others], clean[others], event
            counts = _made_late(*after, bound_ms), _made_late(*after, 0)
        records.append(
            Suspect(
                kind="ahead" if of.ahead[row] else "older than the log",
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
