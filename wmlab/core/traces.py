"""Real logs: when each event happened and arrived, its writer and its key; and how they are read.

`load` reads a trace that comes with wmlab (`names`), or a file, a folder or a data frame of your own. The traces that
come with wmlab are the Parquet files of `data/traces`, where each is from stands in its `<name>.provenance.json`, and
the raw exports of `data/exports`.

Rows are numbered from 1, in messages, in tables and in what is passed: those of a file as they stand there, without its
header; those of a trace in order of arrival.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wmlab.core import times
from wmlab.core.answers import html_table
from wmlab.core.arguments import require_order, the_moment
from wmlab.core.errors import TraceError, unknown_attribute
from wmlab.core.files import DATA, as_path, write
from wmlab.core.log_columns import (
    BEFORE_1970,
    LogColumns,
    TimeColumn,
    TimeFormats,
    in_words,
    kinds_in,
    trace_columns,
)
from wmlab.core.log_files import (
    SHIFT,
    FileForm,
    Frame,
    LogRows,
    Refused,
    files_of,
    is_frame,
    located,
    log_name,
    read_files,
    refused_rows,
    require_form,
    require_good,
)
from wmlab.core.storage import MANIFEST_FILE
from wmlab.core.times import TextKind, TimeUnit
from wmlab.core.values import Problem, Problems
from wmlab.core.words import DAY_MS, grouped, shown, utc

TRACE_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.int64(), nullable=False) for name in ("event_time", "arrival_ms")]
    + [pa.field(name, pa.string(), nullable=False) for name in ("writer", "key")]
)
"""The columns of a trace: event_time and arrival_ms in milliseconds since 1970 (UTC), writer and key as text."""

REFUSED_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("column", pa.string()),
        pa.field("value", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""The rows of a log that a trace leaves out: the file and the row in it, from 1 and without the header; the column, or
null for the row as a whole; its text; and the reason."""

LOG_SCHEMA: Final = pa.schema(
    [pa.field(field.name, field.type) for field in TRACE_SCHEMA]
    + [pa.field(name, pa.string()) for name in ("reason", "text")]
)
"""What `wm.spark.of_log` returns: the columns of a trace, and of a bad row why it is refused and its values."""
BadRows = Literal["refuse", "drop"]
"""What becomes of a log with bad rows: it is refused, or they are left out and listed."""


DIRECTORY: Final = DATA / "traces"
_EXPORTS: Final = DATA / "exports"
"""Where the traces that come with wmlab live."""


class TraceEvent(NamedTuple):
    """One event of a trace; times in milliseconds since 1970 (UTC)."""

    event_time: int
    arrival_ms: int
    writer: str
    key: str


def _refuse(bad: pa.ChunkedArray | pa.Array, name: str, what: str, remedy: str = "drop or repair those rows.") -> None:
    """Raise `TraceError` with the number of bad rows and the first of them; nulls in the mask are no."""
    count = pc.sum(bad, min_count=0).as_py()
    if count:
        first = pc.index(bad, True).as_py() + 1
        raise TraceError(f"column {name!r} {what} in {count} of its rows, first in row {first}.", remedy=remedy)


_MOST_REASONS: Final = 5


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """A log as a value, in order of arrival; events that arrive together keep the order of their source.

    `table` has the columns of `TRACE_SCHEMA`. `refused` has those of `REFUSED_SCHEMA`: the rows of the log that are not
    in the trace, because `load` left bad rows out. `event_time_column` is the log's name of the event times, which the
    settings for engines use, and `event_time_form` is their form: "timestamp"; the unit of numbers, "s"; "text", for
    ISO 8601 without an offset; "minutes", where some of these have no seconds; "offset", with one; "other" for other
    dates; the format of texts, as for `datetime.strptime`, "several" if it has several, or "columns" of two. Numbers
    count from `event_time_origin_ms`, in ms since 1970; `event_time_zone` is the zone of local times, None for UTC and
    for times that name their own.

    Events may have happened before 1970, arrivals may not: the clock of a run begins with the first one. Raises
    `TraceError` if it has others, no rows, nulls, a negative arrival, an empty writer name, or arrivals that go back.
    """

    name: str
    table: pa.Table = field(hash=False)
    refused: pa.Table = field(default_factory=REFUSED_SCHEMA.empty_table, hash=False, compare=False, kw_only=True)
    event_time_column: str = field(default="event_time", compare=False, kw_only=True)
    event_time_form: str = field(default="timestamp", compare=False, kw_only=True)
    event_time_origin_ms: int = field(default=0, compare=False, kw_only=True)
    event_time_zone: str | None = field(default=None, compare=False, kw_only=True)

    if not TYPE_CHECKING:
        __getattr__ = unknown_attribute

    def __post_init__(self) -> None:
        table = self.table
        if not isinstance(table, pa.Table) or not table.schema.equals(TRACE_SCHEMA):
            actual = table.schema.names if isinstance(table, pa.Table) else type(table).__name__
            raise TraceError(f"trace {self.name!r} is made of {actual}.", remedy="load it with wm.trace.load.")
        if not table.num_rows:
            raise TraceError(f"trace {self.name!r} has no events.", remedy="give a log with at least one event.")
        for column in TRACE_SCHEMA.names:
            _refuse(pc.is_null(table[column]), column, "has no value")
        _refuse(pc.less(table["arrival_ms"], 0), "arrival_ms", BEFORE_1970, SHIFT)
        _refuse(pc.equal(table["writer"], ""), "writer", "is empty")
        arrivals = table["arrival_ms"].combine_chunks()
        # The first row has nothing before it, hence the null in front.
        back = pa.concat_arrays([pa.nulls(1, pa.bool_()), pc.less(arrivals[1:], arrivals[:-1])])
        _refuse(back, "arrival_ms", "goes back behind the row before it")

    @property
    def rows(self) -> int:
        """The number of events."""
        return int(self.table.num_rows)

    @property
    def writer_names(self) -> tuple[str, ...]:
        """The names of the writers, in alphabetical order."""
        return tuple(sorted(pc.unique(self.table["writer"]).to_pylist()))

    @property
    def span_ms(self) -> tuple[int, int]:
        """The first and the last arrival, in milliseconds since 1970."""
        arrivals = self.table["arrival_ms"]
        return arrivals[0].as_py(), arrivals[-1].as_py()

    @property
    def event_span_ms(self) -> tuple[int, int]:
        """The smallest and the largest event time, in milliseconds since 1970."""
        ends = pc.min_max(self.table["event_time"])
        return ends["min"].as_py(), ends["max"].as_py()

    @property
    def out_of_order(self) -> int:
        """How many events are older than some event that arrived before them."""
        times = self.table["event_time"].combine_chunks()
        return int(pc.sum(pc.less(times, pc.cumulative_max(times))).as_py())

    @property
    def early(self) -> int:
        """How many events arrived before they happened, by the clocks; this is allowed, because clocks differ."""
        return int(pc.sum(pc.less(self.table["arrival_ms"], self.table["event_time"])).as_py())

    def between(self, start: int | str, end: int | str) -> Trace:
        """The events that arrive in [start, end): milliseconds since 1970, or ISO dates and times, UTC without a zone.

        Raises `TraceError` if nothing arrives then, if `end` is before `start`, or a bound is neither.
        """
        bounds = {"start": start, "end": end}.items()
        start_ms, end_ms = (the_moment(at, TraceError, name=name, start_ms=None) for name, at in bounds)
        require_order(start_ms, end_ms, (start, end), TraceError)
        arrivals = self.table["arrival_ms"]
        inside = pc.and_(pc.greater_equal(arrivals, start_ms), pc.less(arrivals, end_ms))
        chosen = self.table.filter(inside)
        if not chosen.num_rows:
            first, last = self.span_ms
            raise TraceError(
                f"nothing of trace {self.name!r} arrives from {start!r} to {end!r}.",
                remedy=f"choose a span that meets {_date(first)} to {_date(last)} ({first} to {last} ms).",
            )
        return replace(self, table=chosen)

    def writers(self, *names: str) -> Trace:
        """The events of the named writers only; raises `TraceError` for a name that the trace does not have."""
        known = self.writer_names
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise TraceError(
                f"trace {self.name!r} has no writer {', '.join(map(repr, unknown)) or 'without a name'}.",
                remedy=f"name some of: {', '.join(known)}.",
            )
        chosen = self.table.filter(pc.is_in(self.table["writer"], pa.array(names, pa.string())))
        return replace(self, table=chosen)

    def without(self, *writers: str, rows: Iterable[int] = ()) -> Trace:
        """The events of all but the named writers, and without some rows, by their numbers in order of arrival, from 1.

        Raises `TraceError` for a name or a row that the trace does not have, or if nothing would be left.
        """
        known, numbers = self.writer_names, sorted(set(rows))
        unknown = [*(name for name in writers if name not in known), *(n for n in numbers if not 1 <= n <= self.rows)]
        if unknown:
            raise TraceError(
                f"trace {self.name!r} has no {', '.join(map(repr, unknown))}.",
                remedy=f"name writers ({', '.join(known)}), and rows from 1 to {self.rows}.",
            )
        dropped = pc.is_in(self.table["writer"], pa.array(writers, pa.string()))
        listed = pc.is_in(pa.array(range(1, self.rows + 1), pa.int64()), pa.array(numbers, pa.int64()))
        chosen = self.table.filter(pc.invert(pc.or_(dropped, pa.chunked_array([listed]))))
        if not chosen.num_rows:
            raise TraceError(f"nothing of trace {self.name!r} is left.", remedy="leave out fewer writers or rows.")
        return replace(self, table=chosen)

    def save(self, path: str | Path) -> Path:
        """Write the events as Parquet, for `EventWriter(name, trace=path)` of a scenario; returns where to.

        Raises `TraceError` for a name that does not end in ".parquet", and if the file cannot be written.
        """
        target = as_path(path, TraceError)
        if target.suffix.lower() != ".parquet":
            raise TraceError(
                f"a trace cannot be saved as {target.name!r}.", remedy="give a name that ends in .parquet."
            )
        content = pa.BufferOutputStream()
        pq.write_table(self.table, content)
        return write(target, content.getvalue(), TraceError)

    def columns(self) -> dict[str, Any]:
        """The trace as NumPy arrays of `rows` elements each, keyed as in `TRACE_SCHEMA`.

        `event_time` and `arrival_ms` are int64 in ms since 1970; `writer` is int32, an index into `writer_names`;
        `key` holds texts.
        """
        names = pa.array(self.writer_names, pa.string())
        return {
            "event_time": self.table["event_time"].to_numpy(),
            "arrival_ms": self.table["arrival_ms"].to_numpy(),
            "writer": pc.index_in(self.table["writer"], value_set=names).to_numpy(),
            "key": self.table["key"].to_numpy(),
        }

    def events(self) -> Iterator[TraceEvent]:
        """The events one by one, in order of arrival."""
        for batch in self.table.to_batches(max_chunksize=65_536):
            yield from map(TraceEvent, *(column.to_pylist() for column in batch.columns))

    def __repr__(self) -> str:
        known = self._facts().items()
        facts = (f"{value} {label.removesuffix('s') if value == '1' else label}" for label, value in known)
        return f"Trace {self.name!r}: {', '.join(facts)}"

    def _repr_html_(self) -> str:
        facts = self._facts() | ({"why they are left out": self._reasons()} if self.refused.num_rows else {})
        return html_table(f"<b>{html.escape(self.name)}</b>", (), facts.items())

    def _facts(self) -> dict[str, str]:
        first, last = self.span_ms
        facts = {
            "events": grouped(self.rows),
            "writers": grouped(len(self.writer_names)),
            "event times (UTC)": " to ".join(map(_date, self.event_span_ms)),
            "arrivals (UTC)": f"{_date(first)} to {_date(last)}",
            "out of order": f"{self.out_of_order / self.rows:.1%}",
        }
        if unit_doubts(self):
            facts["of these times: is unit= right?"] = "doubtful"
        if self.early:
            facts["arrive before they happen"] = grouped(self.early)
        if self.refused.num_rows:
            facts["left-out bad rows"] = grouped(self.refused.num_rows)
        return facts

    def _reasons(self) -> str:
        kinds = refused_kinds(self.refused)
        listed = [f"{grouped(count)}: {in_words(column, reason)}" for column, reason, count in kinds[:_MOST_REASONS]]
        return "; ".join(listed) + ("; ..." if len(kinds) > _MOST_REASONS else "")


def refused_kinds(refused: pa.Table) -> list[tuple[str | None, str, int]]:
    """The kinds of faults of rows that are left out: column, reason and how many rows, the most frequent first."""
    counts = refused.group_by(["column", "reason"], use_threads=False).aggregate([("row", "count")]).to_pylist()
    counts.sort(key=lambda kind: -kind["row_count"])
    return [(kind["column"], kind["reason"], kind["row_count"]) for kind in counts]


@dataclass(frozen=True, slots=True)
class UnitDoubt:
    """That the times of a log are read in a wrong unit: what shows it, and what to do, as sentences."""

    text: str
    remedy: str


_UNIT_REMEDY: Final = "Name the unit of each column, such as unit={'event_time': 's', 'arrival': 'ms'}."
_RATIOS: Final = (1e3, 1e6, 1e9, DAY_MS, DAY_MS / 1e3)
"""By how much times of one moment differ that are read in two units."""
_INSTANT_MS: Final = 100_000_000_000
"""From which year on, 1973, a time is not a small number of a clock that begins at 0."""
_LAST_YEAR_MS: Final = 110 * 365 * DAY_MS
"""The year, 2079, after which nothing has happened yet."""
_DATE_FORMATS: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S", 17: "%Y%m%d%H%M%S%f"}
"""Dates that look like numbers, by how many digits they have."""


def unit_doubts(trace: Trace) -> tuple[UnitDoubt, ...]:
    """What shows that a column of times is in another unit than it was read in, by the median of each column.

    The digits of its numbers are those of dates, the two columns differ by the factor of two units, or most times are
    of 1970 or after 2079. Times of a clock that begins at 0 are none of that.
    """
    columns = (("event_time", "event", "event_time"), ("arrival", "arrival", "arrival_ms"))
    middle = {}
    doubts = []
    for argument, noun, name in columns:
        values = trace.table[name].to_numpy()
        middle[argument] = int(np.quantile(values, 0.5, method="inverted_cdf"))
        if time_format := _format_in_digits(values):
            text = f"The numbers of its {noun} times are dates, digit by digit."
            doubts.append(UnitDoubt(text, f"Name their form: format={{'{argument}': '{time_format}'}}."))
    event, arrival = middle["event_time"], middle["arrival"]
    if doubts or not event or not arrival:
        return tuple(doubts)
    ratio = max(arrival / event, event / arrival)
    if max(event, arrival) > _INSTANT_MS and any(0.7 < ratio / known < 1.4 for known in _RATIOS):
        apart = f"{grouped(abs(arrival - event) // (365 * DAY_MS))} years {'before' if event < arrival else 'after'}"
        text = f"Its events are {apart} their arrival, in the median: one of the two columns is in another unit."
        return (UnitDoubt(text, _UNIT_REMEDY),)
    for argument, noun, _ in columns:
        if 5 * DAY_MS < middle[argument] < 365 * DAY_MS or middle[argument] > _LAST_YEAR_MS:
            text = f"Most of its {noun} times are of the year {_year(middle[argument])}."
            remedy = "Name the unit of its times, such as unit='s', or the date that they count from, as in "
            doubts.append(UnitDoubt(text, f"{remedy}origin='1899-12-30'."))
    return tuple(doubts)


def _format_in_digits(values: Any) -> str | None:
    """The format of dates that have been read as numbers of ms, s or d; None: they are numbers."""
    some = values[:: max(1, len(values) // 1_000)]
    for ms_per_tick in (1, 1_000, DAY_MS):
        digits = some // ms_per_tick
        for count, time_format in _DATE_FORMATS.items():
            days = digits // 10 ** (count - 8)
            years, months, days_of_month = days // 10_000, days // 100 % 100, days % 100
            is_date = (years >= 1900) & (years < 2100) & (months >= 1) & (months <= 12)
            is_date &= (days_of_month >= 1) & (days_of_month <= 31) & (some % ms_per_tick == 0)
            if count >= 12:
                is_date &= (digits // 10 ** (count - 10) % 100 < 24) & (digits // 10 ** (count - 12) % 100 < 60)
            if is_date.mean() > 0.98:
                return time_format
    return None


def _year(time_ms: int) -> str:
    try:
        return str(utc(time_ms).year)
    except OverflowError:
        return grouped(1970 + time_ms // (365 * DAY_MS + DAY_MS // 4))


def names() -> tuple[str, ...]:
    """The logs that come with wmlab and that `load` takes by name, in alphabetical order.

    Raises `TraceError` if there are none.
    """
    bundled = _bundled()
    if not bundled:
        raise TraceError(
            "the logs that come with wmlab are not installed here.",
            remedy="install wmlab again, from a clone or as a wheel, or load a file of your own.",
        )
    return tuple(sorted(name for name, file in bundled.items() if file.suffix == ".parquet"))


def shipped_file(source: object) -> Path | None:
    """The file of a log that comes with wmlab, if `source` is its name."""
    return _bundled().get(str(source)) if isinstance(source, str | Path) else None


def _bundled() -> dict[str, Path]:
    """The files of the logs that come with wmlab, by name."""
    return {file.stem: file for file in (*DIRECTORY.glob("*.parquet"), *_EXPORTS.glob("*.csv"))}


def load(
    source: Any,
    *,
    event_time: TimeColumn = "event_time",
    arrival: TimeColumn = "arrival_ms",
    writer: str | EllipsisType | None = ...,
    key: str | EllipsisType | None = ...,
    count: str | None = None,
    delay: str | None = None,
    unit: TimeUnit | Mapping[str, TimeUnit] = "ms",
    format: TimeFormats | Mapping[str, TimeFormats] | None = None,
    timezone: str | Mapping[str, str] | None = None,
    origin: str | Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    form: FileForm | None = None,
    columns: Sequence[str] | None = None,
    bad_rows: BadRows = "refuse",
    name: str | None = None,
) -> Trace:
    """Load a log as a trace: the name of a log that comes with wmlab, a file, a folder of files, or a data frame.

    A file is Parquet, CSV (with commas, semicolons, tabs or bars), or JSON: documents one after the other, or an array
    of them; it may be compressed (.gz, .bz2, .zst, or .zip with one file). `columns` names the columns of a CSV
    file that has no header, in their order. `form` ("csv", "tsv", "json", "parquet") is needed if neither the
    name of the file nor its beginning shows the format. The files of a folder are read in the order of their names. A
    data frame is one of pandas, PyArrow, Polars or Spark, such as `wm.spark.of_log` gives.

    The arguments name the columns. In JSON and nested columns a path names a value, `a.b.c`, and `rxInfo[].time` makes
    one row of each element of the array. A date and a time of day may be in two columns, `event_time=("day", "clock")`.
    With `delay` there is no arrival column: a record arrives that long after its event time. `count` is the column with
    the number of records that a row represents. Without `writer` and `key`, the columns "writer" and "key" are used if
    they exist; `writer=None` makes the whole log one writer, named like the trace; `key=None` uses the writer as key,
    so that all events of a writer go to one segment.

    Times are numbers of `unit` ("d", "s", "ms", "us" or "ns") since 1970, or since the date `origin` ("1899-12-30" for
    the days of spreadsheets), timestamps, or texts: ISO 8601, RFC 2822, or what `format` says, as of
    `datetime.strptime`. The first 1,000 rows decide whether a column of texts holds numbers, dates or texts of the
    format; `wmlab/core/times.py` has the forms. A time without a zone is UTC, or in `timezone`, such as
    "Europe/Berlin", with its summer time. A column with several formats needs all of them, `format=[...]`. Each of the
    four may differ by column:
    `unit={"event_time": "s", "delay": "ms"}`. Fractions of a millisecond are dropped; floating-point numbers are
    rounded. Event times may be before 1970; arrivals may not. Rows are sorted by arrival, stably.

    A log with a bad row is refused; the error lists every kind of fault, the number of its rows, and the first one.
    With `bad_rows="drop"` such rows are left out, and `Trace.refused` lists them with their reasons. Raises
    `TraceError` for an unknown trace, file or column, for types that do not fit, for bad rows, and if there is no good
    row.
    """
    wanted = LogColumns(event_time, arrival, writer, key, count, delay, unit, format, timezone, origin)
    require_form(form, encoding)
    if bad_rows not in get_args(BadRows):
        raise TraceError(f"bad_rows is {shown(bad_rows)}.", remedy="give 'refuse' or 'drop'.")
    if is_frame(source):
        return _of_frame(source, wanted, bad_rows, name or "log")
    path = as_path(source, TraceError)
    shipped = shipped_file(source)
    if shipped is None and path.suffix == "" and path.name == str(source) and not path.exists():
        raise TraceError(
            f"no trace {path.name!r} comes with wmlab, and there is no such file.",
            remedy=f"choose one of {', '.join(names())}, or give the path of a file.",
        )
    path = shipped or path
    if not path.exists():
        raise TraceError(f"there is no file {path}.", remedy="check the path.")
    if (path / MANIFEST_FILE).is_file():
        raise TraceError(f"{path} is a recording, not a log.", remedy="open it with wm.load, which has its events.")
    rows, located = read_files(files_of(path), wanted, form, encoding, columns)
    trace = _trace(rows, located, path.name, bad_rows, name or log_name(path))
    if shipped is None or not trace.refused.num_rows:
        return trace
    # Its rows are those of a name; where wmlab is installed says nothing about them.
    files = pa.array([path.stem] * trace.refused.num_rows, REFUSED_SCHEMA.field("file").type)
    return replace(trace, refused=trace.refused.set_column(0, REFUSED_SCHEMA.field("file"), files))


def _of_frame(offered: Any, wanted: LogColumns, bad_rows: BadRows, name: str) -> Trace:
    """The trace in a data frame; of what `of_log` gives, the good rows, and the others as refused."""
    frame = Frame(offered, name)
    columns = located(wanted, "the data frame", frame)
    if not set(LOG_SCHEMA.names) <= set(frame.names):
        return _trace(frame.rows(columns.named), columns, "the data frame", bad_rows, name)
    table = frame.table(LOG_SCHEMA.names)
    is_good = pc.is_null(table["reason"])
    bad = zip(np.flatnonzero(pc.invert(is_good)), table.filter(pc.invert(is_good)).to_pylist(), strict=True)
    refused = pa.Table.from_pylist(
        [Refused(name, int(row) + 1, None, values["text"], values["reason"])._asdict() for row, values in bad],
        schema=REFUSED_SCHEMA,
    )
    good = Frame(table.filter(is_good), name)
    return replace(_trace(good.rows(columns.named), columns, "the data frame", bad_rows, name), refused=refused)


def _trace(rows: LogRows, columns: LogColumns, where: str, bad_rows: BadRows, name: str) -> Trace:
    if not rows.table.num_rows and not rows.refused:
        raise TraceError(f"{where} has no rows.", remedy="give a log with at least one event.")
    kinds, form = kinds_in(rows.table, columns), columns.form_of("event_time")
    made = trace_columns(rows.table, columns, kinds, name)
    records = made.record_rows()
    if bad_rows == "refuse" or not len(records):
        require_good(rows, made.faults, where)
    if not len(records):
        raise TraceError(f"{where} has no records: all counts are 0.", remedy="name another column of counts.")
    table = pa.table([column.take(pa.array(records)) for column in made.columns.values()], TRACE_SCHEMA)
    refused = refused_rows(rows, made.faults)
    return Trace(
        name,
        table.take(pc.sort_indices(table["arrival_ms"])).combine_chunks(),
        refused=pa.Table.from_pylist([row._asdict() for row in refused], schema=REFUSED_SCHEMA),
        event_time_column=columns.event_time if isinstance(columns.event_time, str) else " ".join(columns.event_time),
        event_time_form=_form_of(rows.table, columns, kinds["event_time"], made.good),
        event_time_origin_ms=form.origin_ms,
        event_time_zone=form.timezone if made.is_local else None,
    )


def _form_of(table: pa.Table, columns: LogColumns, kind: TextKind, good: times.Bools) -> str:
    """What stands in the column of event times in the good rows, see `Trace`; `kind` is what its texts hold."""
    if not isinstance(columns.event_time, str):
        return "columns"
    column, form = table.schema.field(columns.event_time).type, columns.form_of("event_time")
    if pa.types.is_temporal(column):
        return "timestamp"
    if kind == "numbers" or pa.types.is_floating(column):
        return form.unit
    if kind == "format":
        return form.formats[0] if len(form.formats) == 1 else "several"
    return times.text_form(table[columns.event_time], good)


def load_each(names: Iterable[str | None]) -> dict[str, Trace]:
    """The traces that parts of a scenario name, each loaded once; None, where a part has none, is left out."""
    return {name: load(name) for name in dict.fromkeys(names) if name is not None}


def logs_of_writers(
    scenario: str, parts: Iterable[tuple[tuple[str | int, ...], str, str | None]]
) -> dict[str, dict[str, Any]]:
    """What the parts of a scenario replay that name a trace, by their name, as `Trace.columns` has it.

    A part is (location of its name, name, trace), and replays the events of the writer with its name. Raises `Problems`
    for a name that is not a writer of its trace.
    """
    named = [(location, name, trace) for location, name, trace in parts if trace is not None]
    loaded = load_each(trace for _, _, trace in named)
    problems = [
        Problem(location, f"trace {trace!r} has no writer {name!r}; it has: {', '.join(loaded[trace].writer_names)}")
        for location, name, trace in named
        if name not in loaded[trace].writer_names
    ]
    if problems:
        raise Problems(f"the scenario {scenario!r}", problems)
    return {name: loaded[trace].writers(name).columns() for _, name, trace in named}


def _date(moment_ms: int) -> str:
    """A moment to the minute; as plain milliseconds where the calendar ends."""
    try:
        return f"{utc(moment_ms):%Y-%m-%d %H:%M}"
    except OverflowError:
        return f"{moment_ms} ms"
