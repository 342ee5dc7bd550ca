"""The clocks of a log: which records have a wrong time, and of each writer what its records show.

A record is *ahead* if its event time is after its arrival, by more than clocks and delays of the log explain. It is
*older than the log* if its event time is before the first arrival by more than the log is long: the clock of a device
that was never set gives 1970. Both are suspects.

How far ahead is too far follows from the log. With d = event time - arrival, and q(s) its quantile at the share s, a
record is ahead if d > `ahead_ms` = max(0, q(0.75) + 10 (q(0.75) - q(0.5))), rounded up to two digits. These are
quartiles, so up to a quarter of the records may be ahead and the limit stays that of the others. Of delays with an
exponential distribution of mean M the limit is 4 M, of a normal one 7 standard deviations after the mean.

A writer is *silent* where it sends nothing for more than ten times its usual gap, the 90% quantile of the times between
its arrivals, and for more than a twentieth of the log. Its silence ends with its next record, or with the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from wmlab.core.answers import Cell, TableAnswer, text_table
from wmlab.core.errors import ModelError
from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace
from wmlab.core.words import counted, grouped, listed, rounded
from wmlab.strategies.model.strategy import UNKNOWN
from wmlab.strategies.replay import Log, before, group

_SPREADS: Final = 10
"""How many times the upper quartile is away from the median, a record has to be away from the quartile to be ahead."""
_MOST: Final = 0.5
"""The share of a writer's records from which on its clock, and not single records, is ahead or early."""
_USUAL: Final = 0.9
_LONGER: Final = 10
_OF_LOG: Final = 20
"""A silence is so many times longer than this quantile of the writer's gaps, and than the log divided by that."""
_COPIES: Final = 0.1
"""The share of records that repeat another one up to which they are copies, and not a coarse clock."""
_LISTED: Final = 20

Flags = NDArray[np.bool_]
Silence = tuple[int, int]
"""From which arrival to which one a writer sends nothing, ms."""
ClockFault = Literal["ahead", "early", "behind", "steps", "older than the log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterClock:
    """What the records of a writer show; times in ms, shares from 0 to 1.

    `first_event_time` and `last_event_time` are the least and the largest event time of the records that are no
    suspects, None if all are; `first_arrival_ms` and `last_arrival_ms` those of all arrivals. `offset_ms` is the median
    of event time less arrival, less the median of that over all writers: above 0 the clock is ahead, or the delay is
    short; below 0 it is behind, or the delay is long. `early` counts the records that arrive before they happen,
    `out_of_order` those older than a record of the log that came before and is no suspect, `copies` those that repeat
    an earlier one (event time, writer and key), `suspects` those that are suspects; `steps` how often the writer
    changes from records that are suspects to records that are not, or back. `silent_ms` is the longest time without a
    record of it, until the end of the log; `silent_at_end` whether that is the last one. `silences` are the times in
    which it is silent, see the module. `clock` says what is wrong: "ahead" or "older than the log" if most records are,
    "steps" if some are, "early" if most records arrive before they happen, "behind" if nine of ten records are later
    than delays of the log explain, which may be a long delay of its own; None: nothing.
    """

    writer: str
    rows: int
    first_event_time: int | None
    last_event_time: int | None
    first_arrival_ms: int
    last_arrival_ms: int
    offset_ms: int
    early: int
    out_of_order: int
    copies: int
    suspects: int
    steps: int
    silent_ms: int
    silent_at_end: bool
    silences: tuple[Silence, ...]
    clock: ClockFault | None

    @property
    def early_share(self) -> float:
        """The share of its records that arrive before they happen."""
        return self.early / self.rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WriterClocks(TableAnswer[WriterClock]):
    """The clock of each writer of a log: first those with most suspects, those early most often, and those silent."""

    name: str
    writers: tuple[WriterClock, ...]

    entries = "writers"
    heads = ("writer", "records", "offset", "early", "suspects", "steps", "longest silence", "clock")
    left = (0, 7)
    schema = pa.schema(
        [pa.field("writer", pa.string()), pa.field("rows", pa.int64(), nullable=False)]
        + [pa.field(name, pa.int64()) for name in ("first_event_time", "last_event_time")]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("first_arrival_ms", "last_arrival_ms")]
        + [pa.field("offset_ms", pa.int64(), nullable=False), pa.field("early", pa.int64(), nullable=False)]
        + [pa.field("early_share", pa.float64(), nullable=False)]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("out_of_order", "copies")]
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
        for w in self.writers[:_LISTED]:
            silent = rounded(w.silent_ms) + (", until the end" if w.silent_at_end else "")
            early, offset = f"{w.early_share:.1%}", rounded(w.offset_ms)
            yield w.writer, grouped(w.rows), offset, early, grouped(w.suspects), grouped(w.steps), silent, w.clock or ""
        if len(self.writers) > _LISTED:
            yield f"and {grouped(len(self.writers) - _LISTED)} more", *[""] * 7


class WrongTimes(NamedTuple):
    """Which records of a log are ahead of their arrival, which are older than the log, and the limit for the first."""

    ahead: Flags
    older: Flags
    limit_ms: int

    @property
    def either(self) -> Flags:
        """The suspects."""
        return self.ahead | self.older


def wrong_times(trace: Trace) -> WrongTimes:
    """The suspects of a log; see the module."""
    log, limit_ms = Log.of(trace), ahead_limit_ms(trace)
    return WrongTimes(log.event - log.arrival > limit_ms, _older_than_the_log(log), limit_ms)


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


def copies(log: Log) -> Flags:
    """Which records repeat an earlier one (event time, writer and key); none where the clock is too coarse to tell.

    That is so where more than a tenth of the records would be copies.
    """
    frame = pd.DataFrame({"event": log.event, "writer": log.writer, "key": log.key})
    repeated: Flags = frame.duplicated().to_numpy()
    return repeated if repeated.mean() <= _COPIES else np.zeros_like(repeated)


def writer_clocks(trace: Trace, wrong: WrongTimes) -> WriterClocks:
    """What the records of each writer show."""
    log = Log.of(trace)
    writer, names = group(trace, "writer")
    frame = pd.DataFrame({"writer": writer, "ahead": log.event - log.arrival, "wrong": wrong.either})
    frame["older"], frame["early"], frame["arrival"] = wrong.older, log.event > log.arrival, log.arrival
    frame["out_of_order"] = log.event < before(np.where(wrong.either, UNKNOWN, log.event))
    frame["copies"] = copies(log)
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
    good = pd.DataFrame({"event": log.event, "writer": writer})[~wrong.either].groupby("writer")["event"]
    least, largest = good.min().to_dict(), good.max().to_dict()
    silences = _silences(log)
    table: Any = pd.DataFrame(
        {
            "rows": of.size(),
            "first_arrival_ms": of["arrival"].min(),
            "last_arrival_ms": of["arrival"].max(),
            "offset_ms": middle - typical,
            "early": of["early"].sum(),
            "out_of_order": of["out_of_order"].sum(),
            "copies": of["copies"].sum(),
            "suspects": of["wrong"].sum(),
            "steps": of["changed"].sum(),
            "silent_ms": np.maximum(quiet, at_end),
            "silent_at_end": at_end > quiet,
            "older": of["older"].sum(),
            "slow": of["ahead"].quantile(0.9, interpolation="lower") < _slow_limit_ms(log),
        }
    )
    clocks = []
    for index, row in zip(table.index.tolist(), table.itertuples(index=False), strict=True):
        clocks.append(
            WriterClock(
                writer=names[index],
                rows=int(row.rows),
                first_event_time=least.get(index),
                last_event_time=largest.get(index),
                first_arrival_ms=int(row.first_arrival_ms),
                last_arrival_ms=int(row.last_arrival_ms),
                offset_ms=int(row.offset_ms),
                early=int(row.early),
                out_of_order=int(row.out_of_order),
                copies=int(row.copies),
                suspects=int(row.suspects),
                steps=int(row.steps),
                silent_ms=int(row.silent_ms),
                silent_at_end=bool(row.silent_at_end),
                silences=tuple(silences.get(index, ())),
                clock=_fault(row.rows, row.suspects, row.older, row.early, is_slow=bool(row.slow)),
            )
        )
    clocks.sort(
        key=lambda clock: (
            -clock.suspects,
            -clock.early_share,
            -len(clock.silences),
            -abs(clock.offset_ms),
            clock.writer,
        )
    )
    return WriterClocks(trace.name, tuple(clocks))


def _fault(rows: int, suspects: int, older: int, early: int, *, is_slow: bool) -> ClockFault | None:
    """What is wrong with a clock, by how many of its records are suspects, of these older than the log, and early."""
    if suspects > _MOST * rows:
        return "older than the log" if older > suspects // 2 else "ahead"
    if suspects:
        return "steps"
    if early > _MOST * rows:
        return "early"
    return "behind" if is_slow else None


def _silences(log: Log) -> dict[int, list[Silence]]:
    """The silences of each writer that has any; a writer of one arrival is held against the gaps of all writers."""
    first, last = int(log.arrival[0]), int(log.arrival[-1])
    order = np.argsort(log.writer, kind="stable")
    cuts = np.cumsum(np.bincount(log.writer))[:-1]
    arrivals = [np.unique(times) for times in np.split(log.arrival[order], cuts)]
    gaps = [np.diff(times) for times in arrivals]
    usual_ms = _usual_ms(np.concatenate(gaps))
    silences: dict[int, list[Silence]] = {}
    for writer, (times, of_writer) in enumerate(zip(arrivals, gaps, strict=True)):
        limit_ms = max(_LONGER * (_usual_ms(of_writer) if len(of_writer) else usual_ms), (last - first) // _OF_LOG)
        spans = [(begin, end) for begin, end in pairwise([*times.tolist(), last]) if end - begin > limit_ms]
        if spans:
            silences[writer] = spans
    return silences


def _usual_ms(gaps: Int64Array) -> int:
    return int(np.quantile(gaps, _USUAL, method="inverted_cdf")) if len(gaps) else 0


def _slow_limit_ms(log: Log) -> int:
    """What event time less arrival is below if the clock is behind, or the delay longer than those of others are."""
    lower, middle = np.quantile(log.event - log.arrival, (0.25, 0.5), method="inverted_cdf").tolist()
    return int(lower - _SPREADS * (middle - lower))
