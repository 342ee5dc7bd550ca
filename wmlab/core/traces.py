"""Real logs: when each event happened, when it arrived, who wrote it, and its key; and how they are read.

`load` reads a trace that comes with wmlab (`names`) or a CSV or Parquet file of one's own. The traces that come
with wmlab are the Parquet files of `data/traces`, beside the package in a clone of the repository (wmlab installed
editable); where each is from stands in its `<name>.provenance.json`. Rows are counted from 1 in messages, as they
stand in the file without its header.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from wmlab.core.answers import html_table
from wmlab.core.errors import TraceError
from wmlab.core.files import as_path
from wmlab.core.values import Problem, Problems
from wmlab.core.words import DAY_MS, grouped, shown, since_1970_ms, utc

Unit = Literal["d", "s", "ms", "us", "ns"]
"""What one tick of a numeric time column is."""

TRACE_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.int64(), nullable=False) for name in ("event_time", "arrival_ms")]
    + [pa.field(name, pa.string(), nullable=False) for name in ("writer", "key")]
)
"""The columns of a trace: event_time and arrival_ms in milliseconds since 1970 (UTC), writer and key as text."""

MS_PER_TICK: Final = {"d": (DAY_MS, 1), "s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
"""How many milliseconds so many ticks of each unit are."""
_FORMS: Final = {".parquet": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "json", ".ndjson": "json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of a file make the trace, as the caller named them."""

    event_time: str
    arrival: str
    writer: str | None
    key: str | None
    unit: Unit
    encoding: str

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            raise TraceError(f"unit is {self.unit!r}.", remedy="give one of 'd', 's', 'ms', 'us', 'ns'.")
        for name, given in asdict(self).items():
            if not isinstance(given, str) and (given is not None or name not in ("writer", "key")):
                raise TraceError(f"{name} is {shown(given)}.", remedy="give one name as text.")

    @property
    def named(self) -> list[str]:
        """The columns that must be in the file, each once."""
        wanted = (self.event_time, self.arrival, self.writer, self.key)
        return list(dict.fromkeys(name for name in wanted if name is not None))


def read_log(path: Path, columns: Columns) -> pa.Table:
    """The file at `path` as a table of `TRACE_SCHEMA`, sorted stably by arrival; raises `TraceError`."""
    if not path.exists():
        raise TraceError(f"there is no file {path}.", remedy="check the path.")
    try:
        log = _reader(path)(path, columns)
    except (OSError, pa.ArrowException, UnicodeError, LookupError) as failure:
        raise TraceError(
            f"{path} cannot be read: {failure}.",
            remedy="give a whole file; a text that is not UTF-8 needs encoding=, for example 'latin-1'.",
        ) from failure
    _require_columns(path, log.column_names, columns)
    if not log.num_rows:
        raise TraceError(f"{path} has no rows.", remedy="give a log with at least one event.")
    if columns.writer is None:
        writer = pa.repeat(pa.scalar(path.stem, pa.string()), log.num_rows)
    else:
        writer = _texts(log[columns.writer], columns.writer)
        _refuse(pc.equal(writer, ""), columns.writer, "is empty")
    arrivals = _times_ms(log[columns.arrival], columns.arrival, columns.unit)
    _refuse(pc.less(arrivals, 0), columns.arrival, "is before 1970", _SHIFT)
    table = pa.table(
        [
            _times_ms(log[columns.event_time], columns.event_time, columns.unit),
            arrivals,
            writer,
            writer if columns.key is None else _texts(log[columns.key], columns.key),
        ],
        schema=TRACE_SCHEMA,
    )
    return table.take(pc.sort_indices(table["arrival_ms"])).combine_chunks()


def form_of(path: Path) -> str | None:
    """What a file holds by its name, which may end in that of a compression; None: nothing that is read."""
    last = (suffix.lower() for suffix in reversed(path.suffixes[-2:]))
    return next((_FORMS[suffix] for suffix in last if suffix in _FORMS), None)


def _reader(path: Path) -> Callable[[Path, Columns], pa.Table]:
    form = "parquet" if path.is_dir() else form_of(path)
    if form is None:
        raise TraceError(
            f"{path.name} is neither Parquet nor CSV nor JSON lines by its name.",
            remedy="give a file that ends in .parquet, .csv, .tsv, .jsonl or .ndjson (all but the first may be "
            "followed by .gz, .bz2, .zst).",
        )
    return {"parquet": _read_parquet, "json": _read_json_lines}.get(form, _read_csv)


def _read_parquet(path: Path, columns: Columns) -> pa.Table:
    _require_columns(path, pq.ParquetDataset(path).schema.names, columns)
    return pq.read_table(path, columns=columns.named)


def _read_csv(path: Path, columns: Columns) -> pa.Table:
    # Texts stay texts: a writer "007" is not the number 7, and "NA" is a name like any other.
    texts = {name: pa.string() for name in (columns.writer, columns.key) if name is not None}
    with pa.input_stream(path) as file:
        header = file.read(10_000).decode(columns.encoding, "replace").partition("\n")[0]
    delimiter = "\t" if form_of(path) == "tsv" else delimiter_of(header)
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(encoding=columns.encoding),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(column_types=texts),
    )


def delimiter_of(header: str) -> str:
    """The delimiter of a CSV file by its first line: a comma, or a semicolon where it has semicolons and no comma."""
    return ";" if ";" in header and "," not in header else ","


def _read_json_lines(path: Path, columns: Columns) -> pa.Table:
    log = pyarrow.json.read_json(pa.transcoding_input_stream(pa.input_stream(path), columns.encoding, "utf-8"))
    log.validate(full=True)  # Arrow takes bytes that are not UTF-8.
    return log


def _require_columns(path: Path, found: list[str], columns: Columns) -> None:
    if wrong := [name for name in columns.named if found.count(name) != 1]:
        what = "has no column" if wrong[0] not in found else "has more than one column"
        raise TraceError(
            f"{path.name} {what} {wrong[0]!r}; it has {', '.join(map(repr, found)) or 'none'}.",
            remedy="name its columns: load(path, event_time=..., arrival=..., writer=..., key=...).",
        )


def _times_ms(column: pa.ChunkedArray, name: str, unit: Unit) -> pa.ChunkedArray:
    """A time column in whole milliseconds since 1970, checked."""
    _refuse(pc.is_null(column), name, "has no value")
    kind = column.type
    if pa.types.is_date(kind):
        column, kind = column.cast(pa.timestamp("s")), pa.timestamp("s")
    if pa.types.is_timestamp(kind):
        return _whole_ms(column.cast(pa.int64()), name, kind.unit)
    if pa.types.is_floating(kind):
        return _rounded_ms(column.cast(pa.float64()), name, unit)
    if pa.types.is_integer(kind):
        return _whole_ms(column, name, unit)
    first = 0
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Arrow has one type for times with a zone, and another one for those without.
        zoned = pc.match_substring_regex(column, r":.*(Z|[+-]\d\d(:?\d\d)?)$")
        with suppress(pa.ArrowInvalid):
            utc = pc.if_else(zoned, column, None).cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
            plain = pc.if_else(zoned, None, column).cast(pa.timestamp("ns")).cast(pa.int64())
            return _whole_ms(pc.coalesce(utc, plain), name, "ns")
        first = max(0, pc.index(pc.match_substring_regex(column, r"^\d{4}-\d\d-\d\d|^[+-]?[\d.]+$"), False).as_py())
    raise TraceError(
        f"column {name!r} holds {kind}, not times; row {first + 1} has {column[first].as_py()!r}.",
        remedy="give numbers since 1970 with their unit=, or ISO dates and times.",
    )


def _whole_ms(ticks: pa.ChunkedArray, name: str, unit: str) -> pa.ChunkedArray:
    try:
        ticks = ticks.cast(pa.int64())
        ms, per_ms = MS_PER_TICK[unit]
        if per_ms == 1:
            return pc.multiply_checked(ticks, ms)
        # Arrow cuts towards 0; before 1970 that is later.
        down = pc.if_else(pc.less(ticks, 0), 1 - per_ms, 0)
        return pc.divide(pc.add_checked(ticks, down), per_ms)
    except pa.ArrowInvalid as overflow:
        largest = max(pc.min_max(ticks).as_py().values(), key=abs)
        raise TraceError(
            f"column {name!r} holds {largest} {unit}, beyond 64 bits of milliseconds.",
            remedy="check the unit of the times: unit='d', 's', 'ms', 'us' or 'ns'.",
        ) from overflow


def _rounded_ms(ticks: pa.ChunkedArray, name: str, unit: Unit) -> pa.ChunkedArray:
    _refuse(pc.invert(pc.is_finite(ticks)), name, "is not a finite number")
    ms, per_ms = MS_PER_TICK[unit]
    in_ms = pc.round(pc.divide(pc.multiply(ticks, float(ms)), float(per_ms)))
    _refuse(pc.greater_equal(pc.abs(in_ms), 2.0**63), name, "is beyond 64 bits of milliseconds")
    return in_ms.cast(pa.int64())


def _texts(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A column of names as texts; integers are names too, floating-point numbers and times are not."""
    _refuse(pc.is_null(column), name, "has no value")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
        raise TraceError(f"column {name!r} holds {kind}, not names.", remedy="name a column of texts or integers.")
    return column.cast(kind).cast(pa.string())


_SHIFT: Final = "drop those rows, or add one constant to all times of the log, so that no arrival is negative."


def _refuse(bad: pa.ChunkedArray | pa.Array, name: str, what: str, remedy: str = "drop or repair those rows.") -> None:
    """Raise `TraceError` with the number of bad rows and the first of them; nulls in the mask are no."""
    count = pc.sum(bad, min_count=0).as_py()
    if count:
        first = pc.index(bad, True).as_py() + 1
        raise TraceError(f"column {name!r} {what} in {count} of its rows, first in row {first}.", remedy=remedy)


DIRECTORY: Final = Path(__file__).resolve().parents[2] / "data" / "traces"
"""Where the traces that come with wmlab live."""


class TraceEvent(NamedTuple):
    """One event of a trace; times in milliseconds since 1970 (UTC)."""

    event_time: int
    arrival_ms: int
    writer: str
    key: str


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """A log as a value, in order of arrival; events that arrive together keep the order of their source.

    `table` has the columns of `TRACE_SCHEMA`. Events may have happened before 1970, arrivals may not: the clock of a
    run begins with the first one. Raises `TraceError` if it has others, no rows, nulls, a negative arrival, an empty
    writer name, or arrivals that go back.
    """

    name: str
    table: pa.Table = field(hash=False)

    def __post_init__(self) -> None:
        table = self.table
        if not isinstance(table, pa.Table) or not table.schema.equals(TRACE_SCHEMA):
            found = table.schema.names if isinstance(table, pa.Table) else type(table).__name__
            raise TraceError(f"trace {self.name!r} is made of {found}.", remedy="load it with wmlab.core.traces.load.")
        if not table.num_rows:
            raise TraceError(f"trace {self.name!r} has no events.", remedy="give a log with at least one event.")
        for column in TRACE_SCHEMA.names:
            _refuse(pc.is_null(table[column]), column, "has no value")
        _refuse(pc.less(table["arrival_ms"], 0), "arrival_ms", "is before 1970", _SHIFT)
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
        """Who wrote, in alphabetical order."""
        return tuple(sorted(pc.unique(self.table["writer"]).to_pylist()))

    @property
    def span_ms(self) -> tuple[int, int]:
        """The first and the last arrival, in milliseconds since 1970."""
        arrivals = self.table["arrival_ms"]
        return arrivals[0].as_py(), arrivals[-1].as_py()

    @property
    def out_of_order(self) -> int:
        """How many events are older than some event that arrived before them."""
        times = self.table["event_time"].combine_chunks()
        return int(pc.sum(pc.less(times, pc.cumulative_max(times))).as_py())

    @property
    def early(self) -> int:
        """How many events arrived before they happened, as the clocks have it; admitted, since clocks differ."""
        return int(pc.sum(pc.less(self.table["arrival_ms"], self.table["event_time"])).as_py())

    def between(self, start: int | str, end: int | str) -> Trace:
        """The events that arrive in [start, end): milliseconds since 1970, or ISO dates and times, UTC by default.

        Raises `TraceError` if nothing arrives then, or a bound is neither.
        """
        start_ms, end_ms = _moment_ms(start), _moment_ms(end)
        arrivals = self.table["arrival_ms"]
        inside = pc.and_(pc.greater_equal(arrivals, start_ms), pc.less(arrivals, end_ms))
        kept = self.table.filter(inside)
        if not kept.num_rows:
            first, last = self.span_ms
            raise TraceError(
                f"nothing of trace {self.name!r} arrives from {start!r} to {end!r}.",
                remedy=f"choose a span that meets {_date(first)} to {_date(last)} ({first} to {last} ms).",
            )
        return Trace(self.name, kept)

    def writers(self, *names: str) -> Trace:
        """The events of the named writers only; raises `TraceError` for a name that the trace does not have."""
        known = self.writer_names
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise TraceError(
                f"trace {self.name!r} has no writer {', '.join(map(repr, unknown)) or 'without a name'}.",
                remedy=f"name some of: {', '.join(known)}.",
            )
        return Trace(self.name, self.table.filter(pc.is_in(self.table["writer"], pa.array(names, pa.string()))))

    def without(self, *writers: str, rows: Iterable[int] = ()) -> Trace:
        """The events of all but the named writers, and without some rows, counted from 0 in `table`.

        Raises `TraceError` for a name or a row that the trace does not have, or if nothing would be left.
        """
        known, places = self.writer_names, sorted(set(rows))
        unknown = [*(name for name in writers if name not in known), *(n for n in places if not 0 <= n < self.rows)]
        if unknown:
            raise TraceError(
                f"trace {self.name!r} has no {', '.join(map(repr, unknown))}.",
                remedy=f"name writers ({', '.join(known)}), and rows from 0 to {self.rows - 1}.",
            )
        dropped = pc.is_in(self.table["writer"], pa.array(writers, pa.string()))
        listed = pc.is_in(pa.array(range(self.rows), pa.int64()), pa.array(places, pa.int64()))
        kept = self.table.filter(pc.invert(pc.or_(dropped, pa.chunked_array([listed]))))
        if not kept.num_rows:
            raise TraceError(f"nothing of trace {self.name!r} is left.", remedy="leave out fewer writers or rows.")
        return Trace(self.name, kept)

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
        return html_table(f"<b>{html.escape(self.name)}</b>", (), self._facts().items())

    def _facts(self) -> dict[str, str]:
        first, last = self.span_ms
        facts = {
            "events": grouped(self.rows),
            "writers": grouped(len(self.writer_names)),
            "arrivals (UTC)": f"{_date(first)} to {_date(last)}",
            "out of order": f"{self.out_of_order / self.rows:.1%}",
        }
        if first > 5 * DAY_MS and (last < 365 * DAY_MS or last > 365_000 * DAY_MS):
            facts["of these times: is unit= right?"] = "doubtful"
        return facts | ({"arrive before they happen": grouped(self.early)} if self.early else {})


def names() -> tuple[str, ...]:
    """The traces that come with wmlab, in alphabetical order; raises `TraceError` if there are none."""
    found = tuple(sorted(file.stem for file in DIRECTORY.glob("*.parquet")))
    if not found:
        raise TraceError(
            "the traces that come with wmlab are not installed here.",
            remedy="work in a clone of the repository with wmlab installed editable, or load a file of your own.",
        )
    return found


def load(
    name_or_path: str | Path,
    *,
    event_time: str = "event_time",
    arrival: str = "arrival_ms",
    writer: str | None = "writer",
    key: str | None = "key",
    unit: Unit = "ms",
    encoding: str = "utf-8",
) -> Trace:
    """A trace that comes with wmlab, or the file of one's own at a path: Parquet, CSV, TSV or JSON lines.

    All but Parquet may be compressed, and are in `encoding`; a CSV file may have semicolons instead of commas.
    The other arguments name its columns. Times are numbers since 1970 in `unit` ("d", "s", "ms", "us" or "ns"), or
    timestamps or ISO texts, UTC if they name no zone; what is finer than a millisecond is dropped, of floating-point
    numbers rounded. `writer=None` makes the whole log one writer, named as the trace; `key=None` takes
    the writer as key, so that all events of a writer go to one segment. Rows are sorted by arrival, stably.
    Event times may be negative, before 1970; arrivals may not.
    Raises `TraceError`: no such trace, file or column, types that do not fit, nulls, infinities, negative arrivals,
    times beyond 64 bits, no rows.
    """
    path = as_path(name_or_path, TraceError)
    bundled = path.suffix == "" and path.name == str(name_or_path)
    if bundled:
        if path.name not in names():
            raise TraceError(
                f"no trace {path.name!r} comes with wmlab.",
                remedy=f"choose one of {', '.join(names())}, or give the path of a file with its suffix.",
            )
        path = DIRECTORY / f"{path.name}.parquet"
    wanted = Columns(event_time=event_time, arrival=arrival, writer=writer, key=key, unit=unit, encoding=encoding)
    return Trace(path.stem, read_log(path, wanted))


def load_each(names: Iterable[str | None]) -> dict[str, Trace]:
    """The traces that parts of a scenario name, each loaded once; None, where a part has none, is left out."""
    return {name: load(name) for name in dict.fromkeys(names) if name is not None}


def logs_of_writers(
    scenario: str, parts: Iterable[tuple[tuple[str | int, ...], str, str | None]]
) -> dict[str, dict[str, Any]]:
    """What the parts of a scenario replay that name a trace, by their name, as `Trace.columns` has it.

    A part is (location of its name, name, trace), and replays the events of the writer with its name. Raises `Problems`
    for a name that is no writer of its trace.
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


def _moment_ms(moment: int | str) -> int:
    if type(moment) is int and -(2**63) <= moment < 2**63:
        return moment
    try:
        parsed = datetime.fromisoformat(str(moment))
    except ValueError as wrong:
        raise TraceError(
            f"{moment!r} is not a moment.",
            remedy="give milliseconds since 1970 (64 bits) or an ISO date such as '2013-01-01'.",
        ) from wrong
    return since_1970_ms(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def _date(moment_ms: int) -> str:
    """A moment to the minute; as plain milliseconds where the calendar ends."""
    try:
        return f"{utc(moment_ms):%Y-%m-%d %H:%M}"
    except OverflowError:
        return f"{moment_ms} ms"
