"""Which columns of a log make a trace, and which of their values are none."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from types import EllipsisType
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wmlab.core import nested, times
from wmlab.core.errors import TraceError
from wmlab.core.log_files import FileForm, LogRows, Refused, require_form
from wmlab.core.words import counted, grouped, shown

BEFORE_1970: Final = "is before 1970"
LOST_LETTER: Final = "holds U+FFFD, which stands for bytes that were not of the encoding"
_LOST: Final = "\ufffd"
USUAL_WRITER: Final = "writer"
USUAL_KEY: Final = "key"
SHIFT: Final = "drop those rows, or add one constant to all times of the log, so that no arrival is negative."
_MOST_PROBLEMS: Final = 12
_LIKELY: Final[dict[str, str]] = {
    "event_time": "event_time eventtime happened occurred event_ts created taken timestamp ts time date",
    "arrival": "arrival arrived received ingest stored inserted processed recorded updated",
    "writer": "writer device sensor source gateway station host node producer",
}
"""Parts of the names that columns of logs have, the surest first."""


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Which columns of a log make the trace, as the caller named them, and how their texts are to be read.

    The fields have the order of the arguments of `load` and of `read_log`.

    `...` for the writer or the key takes the column of the usual name, if there is one.
    """

    event_time: str
    arrival: str
    writer: str | EllipsisType | None = ...
    key: str | EllipsisType | None = ...
    unit: times.TimeUnit = "ms"
    format: str | None = None
    encoding: str = "utf-8"
    form: FileForm | None = None

    def __post_init__(self) -> None:
        if self.unit not in get_args(times.TimeUnit):
            raise TraceError(f"unit is {shown(self.unit)}.", remedy="give one of 'd', 's', 'ms', 'us', 'ns'.")
        require_form(self.form)
        optional = {"writer": (None, ...), "key": (None, ...), "format": (None,)}
        for name, argument in asdict(self).items():
            if name != "form" and not isinstance(argument, str) and argument not in optional.get(name, ()):
                raise TraceError(f"{name} is {shown(argument)}.", remedy="give one name as text.")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise TraceError(
                f"encoding is {self.encoding!r}, which nobody knows.", remedy="give 'utf-8', 'latin-1' or the like."
            ) from None
        if self.format is not None and not times.is_format(self.format):
            raise TraceError(
                f"format is {self.format!r}, which does not give a day.",
                remedy="give directives of Python's strptime, with year, month and day: '%d/%m/%Y %H:%M:%S'.",
            )

    def located_in(self, where: str, names: Sequence[str], has: Callable[[str], int]) -> LogColumns:
        """These columns as a log has them, the usual writer and key decided; raises `TraceError` for one it lacks.

        `has` says how many columns have a name, or whether a path leads to a value.
        """
        writer, key = self.writer, self.key
        if writer is ...:
            writer = USUAL_WRITER if has(USUAL_WRITER) else None
        if key is ...:
            key = USUAL_KEY if has(USUAL_KEY) else None
        decided = replace(self, writer=writer, key=key)
        if wrong := [name for name in decided.named if has(name) != 1]:
            what = "has more than one column" if has(wrong[0]) else "has no column"
            raise TraceError(
                f"{where} {what} {wrong[0]!r}; it has {', '.join(map(repr, names)) or 'none'}.",
                remedy=f"name its columns: {_proposal(names)}.",
            )
        return decided

    @property
    def named(self) -> list[str]:
        """The columns that must be in the log, each once."""
        wanted = (self.event_time, self.arrival, self.writer, self.key)
        return list(dict.fromkeys(name for name in wanted if isinstance(name, str)))


def _proposal(names: Sequence[str]) -> str:
    """The arguments that name the columns whose names look like it."""
    taken: list[str] = []
    for role in ("arrival", "event_time", "writer"):
        ranked = [
            name for word in _LIKELY[role].split() for name in names if word in name.lower() and name not in taken
        ]
        taken += ranked[:1] or ["..."]
    arrival, event_time, writer = (f"{name!r}" if name != "..." else "..." for name in taken)
    likely = "" if arrival == event_time == "..." else " if these are the columns that you mean"
    return f"event_time={event_time}, arrival={arrival}, writer={writer}{likely}"


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The columns of a trace in the order of the log, the rows that are left out, and each kind of fault in words."""

    columns: dict[str, pa.Array]
    refused: tuple[Refused, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ColumnFault:
    """What is wrong with a column in some rows."""

    column: str
    reason: str
    bad: NDArray[np.bool_]


def trace_columns(
    table: pa.Table, columns: LogColumns, kind_of: Callable[[str], times.TextKind], log: str
) -> tuple[dict[str, pa.Array], list[ColumnFault]]:
    """The columns of a trace in the columns of a log, and their faults: a row is refused for the first one that it has.

    This is the rule of every reader of logs. `table` has the columns that `columns` names; `kind_of` says what one of
    texts holds; `log` is the name of the log, which is that of its writer where no column has writers. A time is null
    where it is none. Raises `TraceError` for a column that can hold no times, or no names.
    """
    event = _times(table, columns.event_time, columns, kind_of)
    arrival = _times(table, columns.arrival, columns, kind_of)
    made = {"event_time": pa.array(event.ms, mask=event.bad), "arrival_ms": pa.array(arrival.ms, mask=arrival.bad)}
    faults = _faults(columns.event_time, event)
    if columns.arrival != columns.event_time:
        faults += _faults(columns.arrival, arrival)
    faults.append(ColumnFault(columns.arrival, BEFORE_1970, ~arrival.bad & (arrival.ms < 0)))
    made["writer"] = pa.repeat(pa.scalar(log, pa.string()), table.num_rows)
    if isinstance(columns.writer, str):
        made["writer"] = _names(table[columns.writer], columns.writer)
        faults += _faults_of_names(columns.writer, made["writer"])
    made["key"] = made["writer"]
    if isinstance(columns.key, str) and columns.key != columns.writer:
        made["key"] = _names(table[columns.key], columns.key)
        faults += _faults_of_names(columns.key, made["key"])
    return made, [fault for fault in faults if fault.bad.any()]


def judged(rows: LogRows, columns: LogColumns, sample: Callable[[str], Sequence[str | None]], name: str) -> JudgedRows:
    """The trace in some rows, without those that are refused. `sample` gives the first texts of a column."""
    made, faults = trace_columns(
        rows.table, columns, lambda column: times.kind_of(sample(column), columns.format), name
    )
    good: NDArray[np.bool_] = np.ones(rows.table.num_rows, np.bool_)
    refused = list(rows.refused)
    for fault in faults:
        refused += [_refused(rows, fault, int(index)) for index in np.flatnonzero(fault.bad & good)]
        good &= ~fault.bad
    order = {file: number for number, file in enumerate(rows.files)}
    refused.sort(key=lambda row: (order[row.file], row.row))
    return JudgedRows(
        {name: column.filter(pa.array(good)) for name, column in made.items()},
        tuple(refused),
        (*_problems_of_lines(rows), *(_problem_of(rows, fault) for fault in faults)),
    )


def _refused(rows: LogRows, fault: ColumnFault, index: int) -> Refused:
    value = rows.table[fault.column][index].as_py()
    text = None if value is None else str(value)
    return Refused(rows.files[rows.file[index]], int(rows.row[index]), fault.column, text, fault.reason)


def in_words(column: str | None, reason: str) -> str:
    """Why a row is refused: for what is wrong with a column, or with the row as a whole."""
    return reason if column is None else f"column {column!r} {reason}"


def _problem_of(rows: LogRows, fault: ColumnFault) -> str:
    first = _refused(rows, fault, int(np.flatnonzero(fault.bad)[0]))
    return _problem(fault.column, fault.reason, int(fault.bad.sum()), first, rows.files)


def _problems_of_lines(rows: LogRows) -> list[str]:
    """The problems of what is no row at all."""
    kinds: dict[tuple[str | None, str], list[Refused]] = {}
    for row in rows.refused:
        kinds.setdefault((row.column, row.reason), []).append(row)
    return [
        _problem(column, reason, len(refused), refused[0], rows.files) for (column, reason), refused in kinds.items()
    ]


def _problem(column: str | None, reason: str, count: int, first: Refused, files: Sequence[str]) -> str:
    file = f" of {PurePath(first.file).name}" if len(files) > 1 else ""
    value = f": {shown(first.value)}" if first.value else ""
    if column is None:
        each = "each " if count > 1 else ""
        return f"{counted(count, 'line')}, first in row {first.row}{file}, {each}{reason}{value}"
    return f"column {column!r} {reason} in {grouped(count)} of its rows, first in row {first.row}{file}{value}"


def require_good(checked: JudgedRows, where: str, total: int) -> None:
    """Raise `TraceError` with all that is wrong, if anything is."""
    if not checked.refused:
        return
    listed = "; ".join(checked.problems[:_MOST_PROBLEMS])
    more = (
        f"; and {len(checked.problems) - _MOST_PROBLEMS} other kinds" if len(checked.problems) > _MOST_PROBLEMS else ""
    )
    raise TraceError(
        f"{where} has {counted(len(checked.refused), 'bad row')} of {grouped(total)}: {listed}{more}.",
        remedy=_remedy({row.reason for row in checked.refused}),
    )


def _remedy(reasons: set[str]) -> str:
    """What to do about some faults."""
    if reasons == {BEFORE_1970}:
        return SHIFT
    hints = {
        times.UNKNOWN_FORM: "name another form of time, format='%d/%m/%Y %H:%M:%S'",
        times.TOO_LARGE: "check the unit of the times, unit='d', 's', 'ms', 'us' or 'ns'",
        times.OTHER_FORMAT: "correct the format=",
        nested.NOT_UTF8: "name the encoding of the text, encoding='latin-1'",
        LOST_LETTER: "name the encoding of the text, encoding='latin-1'",
    }
    hint = "".join(f"{text}; or " for text in dict.fromkeys(text for fault, text in hints.items() if fault in reasons))
    return f"{hint}repair those rows, or leave them out: load(..., bad_rows='drop') lists them in the trace's refused."


def _times(table: pa.Table, name: str, columns: LogColumns, kind_of: Callable[[str], times.TextKind]) -> times.Times:
    """A column of times."""
    column = table[name].combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return times.all_ms(column.cast(pa.string()), kind_of(name), columns.unit, columns.format)
    if pa.types.is_date(kind):
        column, kind = column.cast(pa.timestamp("s")), pa.timestamp("s")
    if pa.types.is_timestamp(kind):
        return times.of_ticks(column.cast(pa.int64()), kind.unit)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return times.of_ticks(column, columns.unit)
    if pa.types.is_decimal(kind):
        return times.of_ticks(column.cast(pa.float64()), columns.unit)
    if pa.types.is_null(kind):
        return times.all_ms(column.cast(pa.string()), "dates")
    raise TraceError(
        f"column {name!r} holds {kind}, not times.",
        remedy="give numbers since 1970 with their unit=, or dates and times, as texts or timestamps.",
    )


def _faults(name: str, column: times.Times) -> list[ColumnFault]:
    codes = [int(code) for code in np.unique(column.fault[column.bad])]
    return [ColumnFault(name, times.FAULTS[code], column.fault == code) for code in codes]


def _names(column: Any, name: str) -> Any:
    """A column of names as texts; integers are names too, floating-point numbers and times are not."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (texts or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise TraceError(f"column {name!r} holds {kind}, not names.", remedy="name a column of texts or integers.")
    return column.cast(kind).cast(pa.string()).combine_chunks()


def _faults_of_names(name: str, texts: pa.Array) -> list[ColumnFault]:
    nothing = pc.fill_null(pc.equal(texts, ""), True)
    lost = pc.fill_null(pc.match_substring(texts, _LOST), False)
    return [
        ColumnFault(name, reason, np.asarray(bad.to_numpy(zero_copy_only=False)))
        for reason, bad in ((times.NO_VALUE, nothing), (LOST_LETTER, lost))
    ]
