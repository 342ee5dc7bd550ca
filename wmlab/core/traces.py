"""Real logs: when each event happened, when it arrived, who wrote it, and its key; and recordings that were kept.

`load` reads a trace that comes with wmlab (`names`) or a CSV or Parquet file of one's own. The traces that come
with wmlab are the Parquet files of `data/traces`, beside the package in a clone of the repository (wmlab installed
editable); where each is from stands in its `<name>.provenance.json`.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core import trace_files
from wmlab.core.errors import TraceError
from wmlab.core.trace_files import Unit

TRACE_SCHEMA: Final = trace_files.TRACE_SCHEMA
"""The columns of a trace: event_time and arrival_ms in milliseconds since 1970 (UTC), writer and key as text."""

DIRECTORY: Final = Path(__file__).resolve().parents[2] / "data" / "traces"
"""Where the traces that come with wmlab live."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TraceEvent(NamedTuple):
    """One event of a trace; times in milliseconds since 1970 (UTC)."""

    event_time: int
    arrival_ms: int
    writer: str
    key: str


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """A log as a value, in order of arrival; events that arrive together keep the order of their source.

    `table` has the columns of `TRACE_SCHEMA`. Raises `TraceError` if it has others, no rows, nulls, a negative
    time, an empty writer name, or arrivals that go back.
    """

    name: str
    table: pa.Table = field(hash=False)

    def __post_init__(self) -> None:
        trace_files.require_trace(self.name, self.table)

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
        return f"Trace {self.name!r}: " + ", ".join(f"{value} {label}" for label, value in self._facts().items())

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><td style='text-align:left'>{label}</td><td>{value}</td></tr>"
            for label, value in self._facts().items()
        )
        return f"<table><caption><b>{html.escape(self.name)}</b></caption>{facts}</table>"

    def _facts(self) -> dict[str, str]:
        first, last = self.span_ms
        facts = {
            "events": f"{self.rows:,}",
            "writers": f"{len(self.writer_names):,}",
            "arrivals (UTC)": f"{_date(first)} to {_date(last)}",
            "out of order": f"{self.out_of_order / self.rows:.1%}",
        }
        return facts | ({"arrive before they happen": f"{self.early:,}"} if self.early else {})


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
) -> Trace:
    """A trace that comes with wmlab, or the file of one's own at a path: Parquet, CSV or TSV, CSV also compressed.

    The other arguments name its columns. Times are numbers since 1970 in `unit` ("s", "ms", "us" or "ns"), or
    timestamps, UTC if they name no zone; what is finer than a millisecond is dropped (integers, timestamps) or
    rounded (floating point). `writer=None` makes the whole log one writer, named as the trace; `key=None` takes
    the writer as key. Rows are sorted by arrival, stably.
    Raises `TraceError`: no such trace, file or column, types that do not fit, nulls, infinities, negative times,
    times beyond 64 bits, no rows.
    """
    path = Path(name_or_path).expanduser()
    bundled = path.suffix == "" and path.name == str(name_or_path)
    if bundled:
        if path.name not in names():
            raise TraceError(
                f"no trace {path.name!r} comes with wmlab.",
                remedy=f"choose one of {', '.join(names())}, or give the path of a file with its suffix.",
            )
        path = DIRECTORY / f"{path.name}.parquet"
    wanted = trace_files.Columns(event_time=event_time, arrival=arrival, writer=writer, key=key, unit=unit)
    return Trace(path.stem, trace_files.read(path, wanted))


def _moment_ms(moment: int | str) -> int:
    if type(moment) is int:
        return moment
    try:
        parsed = datetime.fromisoformat(str(moment))
    except ValueError as wrong:
        raise TraceError(
            f"{moment!r} is not a moment.", remedy="give milliseconds since 1970 or an ISO date such as '2013-01-01'."
        ) from wrong
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def _date(moment_ms: int) -> str:
    """A moment to the minute; as plain milliseconds where the calendar ends."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=moment_ms):%Y-%m-%d %H:%M}"
    except OverflowError:
        return f"{moment_ms} ms"
