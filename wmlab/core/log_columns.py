"""The columns of a trace from those of your own log: which columns the caller names, and the values of each row.

`trace_columns` is the rule of every reader, in memory and on the executors of Spark: what it cannot read as a record is
a row with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core import times
from wmlab.core.errors import TraceError
from wmlab.core.times import Bools, Int64Array, TextKind, TimeForm, Times, TimeUnit
from wmlab.core.words import shown

TimeColumn = str | tuple[str, str]
"""A column of times, or one of dates and one of the times of day."""
TimeFormats = str | Sequence[str]
"""A format of texts, or several."""
TIMES: Final = ("event_time", "arrival", "delay")
"""The arguments that name columns of times, which `unit` and its like may tell apart."""
_MOST_RECORDS: Final = 100_000_000
"""How many records counts may stand for."""
BEFORE_1970: Final = "is before 1970"
LOST_LETTER: Final = "holds U+FFFD, which stands for bytes that were not of the encoding"
NO_COUNT: Final = "is not a count, which is a whole number from 0 on"


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Which columns of a log make the trace, as the caller named them, and how their times are written; see `load`.

    `...` for the writer or the key takes the column of the usual name, if there is one. Raises `TraceError` for an
    unknown name, unit, format, time zone or origin.
    """

    event_time: TimeColumn
    arrival: TimeColumn
    writer: str | EllipsisType | None = ...
    key: str | EllipsisType | None = ...
    count: str | None = None
    delay: str | None = None
    unit: TimeUnit | Mapping[str, TimeUnit] = "ms"
    format: TimeFormats | Mapping[str, TimeFormats] | None = None
    timezone: str | Mapping[str, str] | None = None
    origin: str | Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        optional: dict[str, tuple[Any, ...]] = {
            "writer": (None, ...),
            "key": (None, ...),
            "count": (None,),
            "delay": (None,),
        }
        for name in ("event_time", "arrival", *optional):
            value = getattr(self, name)
            pair = name in TIMES[:2] and isinstance(value, list | tuple) and len(value) == 2
            if pair and all(isinstance(part, str) for part in value):
                object.__setattr__(self, name, tuple(value))
            elif not isinstance(value, str) and not any(value is choice for choice in optional.get(name, ())):
                both = ", or two, of the dates and of the times of day" if name in TIMES[:2] else ""
                raise TraceError(f"{name} is {shown(value)}.", remedy=f"give one name as text{both}.")
        for name in ("unit", "format", "timezone", "origin"):
            value = getattr(self, name)
            if isinstance(value, Mapping) and (unknown := [each for each in value if each not in TIMES]):
                raise TraceError(
                    f"{name} is given for {shown(unknown[0])}.", remedy=f"give it for {', '.join(map(repr, TIMES))}."
                )
        for argument in TIMES:
            self.form_of(argument)

    def form_of(self, argument: str) -> TimeForm:
        """How the column of an argument in `TIMES` writes its times."""
        options = {name: getattr(self, name) for name in ("unit", "format", "timezone", "origin")}
        usual = {"unit": "ms"}
        return TimeForm(
            **{
                name: value.get(argument, usual.get(name)) if isinstance(value, Mapping) else value
                for name, value in options.items()
            }
        )

    @property
    def time_columns(self) -> tuple[tuple[str, TimeColumn], ...]:
        """The columns of event times and arrivals, each with its argument; no arrival where there is a delay."""
        return (("event_time", self.event_time), *(() if self.delay else (("arrival", self.arrival),)))

    @property
    def named(self) -> list[str]:
        """The columns that must be in the log, each once."""
        of_times = (part for _, column in self.time_columns for part in parts_of(column))
        others = (self.delay, self.writer, self.key, self.count)
        return list(dict.fromkeys([*of_times, *(name for name in others if isinstance(name, str))]))


def parts_of(column: TimeColumn) -> tuple[str, ...]:
    """The names of the columns that hold some times: one, or two."""
    return (column,) if isinstance(column, str) else column


def _label(column: TimeColumn) -> str:
    """A column of times in messages; of two, both names."""
    return " ".join(parts_of(column))


@dataclass(frozen=True, eq=False)
class ColumnFault:
    """What is wrong with a column in some rows."""

    column: str
    reason: str
    bad: Bools
    parts: tuple[str, ...] = ()
    """The columns that hold its values, if these are two."""


@dataclass(frozen=True, eq=False)
class TraceColumns:
    """The columns of a trace in the rows of a log, null where a time is none; their faults, a row being refused for the
    first that it has; how many records each row stands for, None for one; and whether the event times are local."""

    columns: dict[str, pa.Array]
    faults: tuple[ColumnFault, ...]
    counts: Int64Array | None
    is_local: bool

    @property
    def good(self) -> Bools:
        """Which rows are not refused."""
        good: Bools = np.ones(len(self.columns["event_time"]), np.bool_)
        for fault in self.faults:
            good &= ~fault.bad
        return good

    def record_rows(self) -> Int64Array:
        """The row of each record; raises `TraceError` if counts make too many of them."""
        rows: Int64Array = np.flatnonzero(self.good)
        if self.counts is None:
            return rows
        total = float(self.counts[rows].sum(dtype=np.float64))
        if total > _MOST_RECORDS:
            raise TraceError(
                f"The counts stand for {total:,.0f} records, more than {_MOST_RECORDS:,}.",
                remedy="divide all counts by one number, which keeps the shares.",
            )
        return np.repeat(rows, self.counts[rows])


def kinds_in(rows: pa.Table, columns: LogColumns) -> dict[str, TextKind]:
    """What the columns of times hold that are texts, by the first rows of a log; see `times.kind_of`."""
    kinds: dict[str, TextKind] = {}
    for argument, column in columns.time_columns:
        texts = _time_column(rows.slice(0, times.SAMPLE_ROWS), column)
        is_time = pa.types.is_temporal(texts.type) or pa.types.is_floating(texts.type) or pa.types.is_nested(texts.type)
        sample = [] if is_time else texts.cast(pa.string()).to_pylist()
        kinds[argument] = times.kind_of(sample, columns.form_of(argument).formats)
    return kinds


def trace_columns(table: pa.Table, columns: LogColumns, kinds: Mapping[str, TextKind], log: str) -> TraceColumns:
    """The columns of a trace in the columns of a log. This is the rule of every reader of logs.

    `table` has the columns that `columns` names; `kinds` says what those of texts hold; `log` is the name of the log,
    which is that of its writer where no column has writers. Raises `TraceError` for a column that can hold no times, or
    no names.
    """
    times_by_argument = {}
    faults: list[ColumnFault] = []
    for argument, column in columns.time_columns:
        label = _label(column)
        times_by_argument[argument] = times.of_column(
            _time_column(table, column), label, columns.form_of(argument), kinds[argument]
        )
        if argument == "event_time" or column != columns.event_time:
            faults += _faults_of(column, times_by_argument[argument])
    last = columns.time_columns[-1][1]
    if columns.delay is not None:
        last = columns.delay
        delays = times.of_durations(table[last], last, columns.form_of("delay").unit)
        times_by_argument["arrival"], too_far = _sum(times_by_argument["event_time"], delays)
        faults += [*_faults_of(last, delays), ColumnFault(last, times.TOO_LARGE, too_far)]
    event, arrival = times_by_argument["event_time"], times_by_argument["arrival"]
    faults.append(ColumnFault(_label(last), BEFORE_1970, ~arrival.bad & (arrival.ms < 0), parts_of(last)))
    made = {"event_time": pa.array(event.ms, mask=event.bad), "arrival_ms": pa.array(arrival.ms, mask=arrival.bad)}
    made["writer"] = pa.repeat(pa.scalar(log, pa.string()), table.num_rows)
    if isinstance(columns.writer, str):
        made["writer"] = _names(table[columns.writer], columns.writer)
        faults += _faults_of_names(columns.writer, made["writer"])
    made["key"] = made["writer"]
    if isinstance(columns.key, str) and columns.key != columns.writer:
        made["key"] = _names(table[columns.key], columns.key)
        faults += _faults_of_names(columns.key, made["key"])
    counts = None
    if columns.count is not None:
        counts, no_count = _counts(table[columns.count], columns.count)
        faults += [ColumnFault(columns.count, reason, bad) for reason, bad in no_count.items()]
    is_local = bool(event.local[~event.bad].all())
    return TraceColumns(made, tuple(fault for fault in faults if fault.bad.any()), counts, is_local)


def _time_column(table: pa.Table, column: TimeColumn) -> Any:
    """A column of times; of two columns the dates and the times of day as one text."""
    if isinstance(column, str):
        return table[column].combine_chunks()
    dates, clocks = (table[name].combine_chunks() for name in column)
    if pa.types.is_timestamp(dates.type):
        dates = dates.cast(pa.date32(), safe=False)
    if pa.types.is_duration(clocks.type):
        clocks = clocks.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.time64("us"))
    texts = (pc.utf8_trim_whitespace(part.cast(pa.string())) for part in (dates, clocks))
    # Of a row that lacks one of the two, nothing is known.
    return pc.binary_join_element_wise(*(pc.if_else(pc.equal(text, ""), None, text) for text in texts), " ")


def _sum(event: Times, delays: Times) -> tuple[Times, Bools]:
    """Arrivals by event times and delays, and which of them are beyond 64 bits."""
    missing = event.bad | delays.bad
    too_far = ~missing & (np.abs(event.ms.astype(np.float64) + delays.ms) >= 2.0**63)
    bad = missing | too_far
    return Times(np.where(bad, 0, event.ms) + np.where(bad, 0, delays.ms), bad.astype(np.int8), event.local), too_far


def _faults_of(column: TimeColumn, of: Times) -> list[ColumnFault]:
    codes = [int(code) for code in np.unique(of.fault[of.bad])]
    return [ColumnFault(_label(column), times.FAULTS[code], of.fault == code, parts_of(column)) for code in codes]


def _names(column: Any, name: str) -> Any:
    """A column of names as texts; integers are names too, floating-point numbers and times are not."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (texts or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise TraceError(f"column {name!r} holds {kind}, not names.", remedy="name a column of texts or integers.")
    return column.cast(kind).cast(pa.string()).combine_chunks()


def _faults_of_names(name: str, texts: pa.Array) -> list[ColumnFault]:
    nothing = pc.fill_null(pc.equal(texts, ""), True)
    lost = pc.fill_null(pc.match_substring(texts, "\ufffd"), False)
    return [
        ColumnFault(name, reason, np.asarray(bad.to_numpy(zero_copy_only=False)))
        for reason, bad in ((times.NO_VALUE, nothing), (LOST_LETTER, lost))
    ]


def _counts(column: Any, name: str) -> tuple[Int64Array, dict[str, Bools]]:
    """How many records each row stands for, and which rows do not say it."""
    counts = times.of_durations(column, name, "ms")
    kind = column.type
    broken: Bools = np.zeros(len(counts.ms), np.bool_)
    if not pa.types.is_integer(kind):
        numbers = pd.to_numeric(column.cast(pa.string()).to_pandas().str.strip(), errors="coerce").to_numpy(np.float64)
        broken = np.isnan(numbers) | (numbers != np.floor(numbers))
    missing = counts.fault == times.FAULTS.index(times.NO_VALUE)
    bad = ~missing & (counts.bad | (counts.ms < 0) | broken)
    return np.where(bad | missing, 0, counts.ms), {times.NO_VALUE: missing, NO_COUNT: bad}


def in_words(column: str | None, reason: str) -> str:
    """Why a row is refused: for what is wrong with a column, or with the row as a whole."""
    return reason if column is None else f"column {column!r} {reason}"
