"""Your own logs: files and data frames as tables, and which of their rows are refused.

A file is Parquet, CSV or JSON, compressed or not. A data frame is one of pandas, PyArrow, Polars or Spark, also of
Spark Connect. A path leads into nested values: `a.b.c`, `rxInfo[0].time`, or `rxInfo[].time` for one row of each
element. All paths with `[]` go through the same arrays; what has none is repeated. An array that is empty or missing
makes one row without those values, so that no document is lost in silence.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path, PurePath
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from wmlab.core import times
from wmlab.core.errors import TraceError
from wmlab.core.log_columns import BEFORE_1970, LOST_LETTER, ColumnFault, LogColumns
from wmlab.core.times import Bools, Int64Array
from wmlab.core.words import counted, grouped, shown

FileForm = Literal["csv", "tsv", "json", "parquet"]
"""How a log is written; "tsv" is CSV with tabs."""
_FORMS: Final[dict[str, FileForm]] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".geojson": "json",
}
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".zip")
"""Ends of names of files that are compressed."""
_COMPRESSIONS: Final = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\x28\xb5\x2f\xfd", "zstd"))
"""How such a file begins, and what Arrow calls its compression."""
_ZIP: Final = b"PK\x03\x04"
_SAY_NOTHING: Final = (".log", ".txt", ".data", ".dat")
"""Ends of names that are cut off for the name of a log, although they do not say how it is written."""
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""How a text begins whose first letter is a mark of its encoding."""
_DELIMITERS: Final = ",;\t|"
_BLOCK_BYTES: Final = 1 << 24
"""What Arrow reads of a CSV file at once; a row has to lie within two of them."""
_HEADER_LETTERS: Final = 1_000_000
"""How long the header of a CSV file may be."""
_MOST_PROBLEMS: Final = 12
_MOST_PATHS: Final = 40
NESTED: Final = "holds a nested value; name the path to a value in it"
NO_ROW: Final = "does not have one value for each column"
NO_DOCUMENT: Final = "is no JSON"
OPEN_QUOTE: Final = "opens a quote that is not closed, and holds the rest of the file"
SHIFT: Final = "drop those rows, or add one constant to all times of the log, so that no arrival is negative."
_SAY_FORM: Final = "say how it is written, such as form='json'"
_LIKELY: Final[dict[str, str]] = {
    "event_time": "event_time eventtime happened occurred event_ts created taken timestamp ts time date",
    "arrival": "arrival arrived received ingest stored inserted processed recorded updated",
    "writer": "writer device sensor source gateway station host node producer",
}
"""Parts of the names that columns of logs have, the surest first."""


class Refused(NamedTuple):
    """A row that is left out: its file and number there, the column, its value, and the reason."""

    file: str
    row: int
    column: str | None
    value: str | None
    reason: str


# The rows of files and frames.


@dataclass(frozen=True, eq=False)
class LogRows:
    """The named columns of a log, of each row its file (an index into `files`) and its number there, from 1.

    `refused` are the malformed rows.
    """

    table: pa.Table
    files: tuple[str, ...]
    file: NDArray[np.int32]
    row: Int64Array
    refused: tuple[Refused, ...] = ()


class LogSource(Protocol):
    """A file or a frame that has been opened."""

    @property
    def names(self) -> list[str]:
        """The columns, or paths to the values."""

    def has(self, name: str) -> int:
        """How many columns have a name, or whether a path leads to a value."""

    def rows(self, names: Sequence[str]) -> LogRows:
        """Some columns of all rows."""


def located(columns: LogColumns, where: str, source: LogSource) -> LogColumns:
    """The columns as a log has them, the usual writer and key decided; raises `TraceError` for one it lacks."""
    usual = {name: name if source.has(name) else None for name in ("writer", "key")}
    writer, key = (usual[name] if getattr(columns, name) is ... else getattr(columns, name) for name in usual)
    decided = replace(columns, writer=writer, key=key)
    if wrong := [name for name in decided.named if source.has(name) != 1]:
        what = "has more than one column" if source.has(wrong[0]) else "has no column"
        names = source.names
        listed = ", ".join(map(shown, names[:_MOST_PATHS])) + (", ..." if len(names) > _MOST_PATHS else "")
        if getattr(source, "begins_with_data", False):
            raise TraceError(
                f"{where} {what} {wrong[0]!r}, and its first row looks like data, not like names: {listed}.",
                remedy=f"name its {counted(len(names), 'column')} in their order, columns=[...].",
            )
        raise TraceError(
            f"{where} {what} {wrong[0]!r}; it has {listed or 'none'}.",
            remedy=f"name its columns: {_proposal(names)}{'' if len(names) > 1 else f'; or {_SAY_FORM}'}.",
        )
    return decided


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


def is_frame(offered: object) -> bool:
    """Whether a value is a table of some library.

    Nothing is asked of the value but its class: a frame of Spark Connect answers every question for an attribute with a
    column. No library is imported for a frame that nobody has.
    """
    kind = type(offered)
    return is_spark(offered) or hasattr(kind, "__arrow_c_stream__") or _has_class(offered, "polars", "LazyFrame")


def is_spark(offered: object) -> bool:
    """Whether a value is a DataFrame of Spark or of Spark Connect."""
    return _has_class(offered, "pyspark.sql", "DataFrame")


def _has_class(offered: object, package: str, name: str) -> bool:
    classes = type(offered).__mro__
    return any(kind.__name__ == name and f"{kind.__module__}.".startswith(f"{package}.") for kind in classes)


class Frame:
    """A data frame, or a file of Parquet."""

    def __init__(self, frame: Any, where: str) -> None:
        if _has_class(frame, "polars", "LazyFrame"):
            frame = frame.collect()
        # Others can be read once only.
        is_opened = is_spark(frame) or isinstance(frame, pd.DataFrame | pa.Table)
        self._frame, self._where = frame if is_opened else pa.table(frame), where

    @property
    def names(self) -> list[str]:
        """The columns."""
        frame = self._frame
        return [str(name) for name in (frame.column_names if isinstance(frame, pa.Table) else frame.columns)]

    def has(self, name: str) -> int:
        """How many columns have a name, or begin a path."""
        return self.names.count(name) or self.names.count(_top(name, self.names))

    def rows(self, names: Sequence[str]) -> LogRows:
        """Some columns of all rows."""
        return rows_of_table(self.table(top_columns(names, self.names)), names, self._where)

    def table(self, names: Iterable[str]) -> pa.Table:
        """Some columns; of pandas, one with values of several kinds becomes texts, as a file would have them."""
        if is_spark(self._frame):
            return self._frame.select(*("`" + name.replace("`", "``") + "`" for name in names)).toArrow()
        if isinstance(self._frame, pa.Table):
            return self._frame.select(list(names))
        series = {name: self._frame.iloc[:, self.names.index(name)] for name in names}
        return pa.table({name: _of_series(values, name) for name, values in series.items()})


def _of_series(series: Any, name: str) -> pa.Array:
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(
            [None if missing else str(value) for value, missing in zip(series, series.isna(), strict=True)], pa.string()
        )
    except pa.ArrowException as wrong:
        raise TraceError(
            f"column {name!r} is none that Arrow holds: {wrong}.", remedy="convert it to texts."
        ) from wrong


def rows_of_table(table: pa.Table, names: Sequence[str], where: str) -> LogRows:
    """The columns of a table; a path leads into nested ones."""
    if all(name in table.column_names for name in names):
        count = table.num_rows
        return LogRows(table.select(list(names)), (where,), np.zeros(count, np.int32), np.arange(1, count + 1))
    return rows_of_documents(table.to_pylist(), names, where)


def _decoded(content: bytes, encoding: str) -> str:
    """A text, in the encoding that a mark at its beginning says; invalid bytes become U+FFFD."""
    marked = next((codec for mark, codec in _MARKS if content.startswith(mark)), encoding)
    return content.decode(marked, "replace").removeprefix("\ufeff")


_COMMENTS: Final = re.compile(r"\A(#[^\n]*\n){2,}")
"""Lines before the header that are about the file; a single one may be the header."""


class _Csv:
    """A file of CSV, with commas, semicolons, tabs or bars."""

    def __init__(self, path: Path, text: str, delimiter: str | None, columns: Sequence[str] | None = None) -> None:
        self._path, self._text = path, _COMMENTS.sub("", text.lstrip("\r\n"))
        if excel := re.match(r"sep=(.)\r?\n", self._text):
            self._text, delimiter = self._text[excel.end() :], excel[1]
        start = self._text[:_HEADER_LETTERS]
        first = next(iter(start.splitlines()), "")
        self._delimiter = delimiter or next((each for each in _DELIMITERS if each in first), ",")
        self._header = next(csv.reader(io.StringIO(start, newline=None), delimiter=self._delimiter), [])
        self._has_header = columns is None
        if columns is not None:
            if len(columns) != len(self._header):
                raise TraceError(
                    f"columns has {counted(len(columns), 'name')}, and the first row of {path} has "
                    f"{counted(len(self._header), 'value')}.",
                    remedy="name each column once, in their order.",
                )
            self._header = list(columns)

    @property
    def names(self) -> list[str]:
        return [name.strip() for name in self._header]

    @property
    def begins_with_data(self) -> bool:
        """Whether the first row, which is taken for names, has numbers or times."""
        return self._has_header and any(map(times.is_time, self.names))

    def has(self, name: str) -> int:
        return self.names.count(name)

    def rows(self, names: Sequence[str]) -> LogRows:
        """Arrow leaves rows of another width to us, and takes quoted line breaks."""
        where, refused = str(self._path), []

        def skip(row: Any) -> str:
            # A header has the number 1.
            refused.append(Refused(where, row.number - self._has_header, None, row.text, NO_ROW))
            return "skip"

        columns = [self._header[self.names.index(name)] for name in names]
        content = self._text.encode()
        table = pyarrow.csv.read_csv(
            io.BytesIO(content),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, column_names=None if self._has_header else self._header
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            # Texts stay texts: a writer "007" is not the number 7, and "NA" is a name like any other.
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
            ),
        ).rename_columns(list(names))
        if self._header != self.names:
            # A blank behind each comma is not part of a value either.
            table = pa.table([pc.utf8_trim_whitespace(column) for column in table.columns], list(names))
        count = table.num_rows + len(refused)
        is_row: Bools = np.ones(count, np.bool_)
        is_row[[row.row - 1 for row in refused]] = False
        numbers: Int64Array = np.flatnonzero(is_row) + 1
        if len(numbers) and numbers[-1] == count and self._has_open_quote():
            refused.append(Refused(where, count, None, None, OPEN_QUOTE))
            table, numbers = table.slice(0, table.num_rows - 1), numbers[:-1]
        return LogRows(table, (where,), np.zeros(len(numbers), np.int32), numbers, tuple(refused))

    def _has_open_quote(self) -> bool:
        """Whether the last row has taken in the rest of the file behind a quote."""
        if self._text.count('"') % 2 == 0:
            return False
        try:
            for _ in csv.reader(io.StringIO(self._text, newline=""), delimiter=self._delimiter, strict=True):
                pass
        except csv.Error as wrong:
            return "unexpected end" in str(wrong)
        return False


class _Json:
    """A file of JSON: one document, an array of them, or one in each line."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._documents = path, list(_documents(text))

    @property
    def names(self) -> list[str]:
        return paths_in(self._documents[: times.SAMPLE_ROWS])

    def has(self, name: str) -> int:
        steps = _steps(name)
        return int(any(_leads(document, steps) for document in self._documents))

    def rows(self, names: Sequence[str]) -> LogRows:
        return rows_of_documents(self._documents, names, str(self._path))


class NoDocument(NamedTuple):
    """A text in the place of a document."""

    text: str


def _documents(text: str) -> Iterator[Any]:
    """The documents in a text, one after the other, each in a line or in several; of an array, its elements.

    A line where none begins, or with something else behind it, is not a document.
    """
    decode, at = json.JSONDecoder().raw_decode, 0
    while (start := _NOT_BLANK.search(text, at)) is not None:
        at = start.start()
        line_end = text.find("\n", at) % (len(text) + 1)
        try:
            document, end = decode(text, at)
            behind = text[end : text.find("\n", end) % (len(text) + 1)].lstrip()
        except (ValueError, RecursionError):
            document, end, behind = None, at, ""
        if not isinstance(document, dict | list) or behind[:1] not in ("", "{", "["):
            yield NoDocument(text[at:line_end].strip())
            at = line_end
            continue
        at = end
        if isinstance(document, list):
            yield from document
        else:
            yield document


_NOT_BLANK: Final = re.compile(r"\S")


def rows_of_documents(documents: Sequence[Any], names: Sequence[str], where: str) -> LogRows:
    """The rows of documents, as texts; each row of a document with an array has a number of its own."""
    records, columns = flattened(documents, names)
    refused: dict[int, Refused] = {}
    for row, document in enumerate(records, start=1):
        if not isinstance(document, dict):
            text = document.text if isinstance(document, NoDocument) else str(document)
            refused[row] = Refused(where, row, None, text, NO_DOCUMENT)
    for name, values in columns.items():
        for row, value in enumerate(values, start=1):
            if isinstance(value, dict | list) and row not in refused:
                refused[row] = Refused(where, row, name, _text(value), NESTED)
    good: Bools = np.ones(len(records), np.bool_)
    good[[row - 1 for row in refused]] = False
    table = pa.table([pa.array(map(_text, columns[name]), pa.string()) for name in names], list(names))
    numbers = np.flatnonzero(good) + 1
    ordered = tuple(refused[row] for row in sorted(refused))
    return LogRows(table.filter(pa.array(good)), (where,), np.zeros(len(numbers), np.int32), numbers, ordered)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str) if isinstance(value, dict | list | bool) else str(value)


_EACH: Final = "[]"
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(-?\d*)\]")
PathSteps = tuple[str | int, ...]


def _steps(path: str) -> PathSteps:
    """A path as its steps: a key, the index of an element, or `_EACH`; the whole text as a key if it is not a path."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return (path,)
        steps.append(match[1] or (int(match[2]) if match[2].strip("-") else _EACH))
        at = match.end()
    return tuple(steps)


def _top(name: str, names: Sequence[str]) -> str:
    """The column that a name or a path begins with."""
    return name if name in names else str(_steps(name)[0])


def top_columns(paths: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns that some paths begin with, each once."""
    return list(dict.fromkeys(_top(path, names) for path in paths))


def flattened(documents: Sequence[Any], paths: Sequence[str]) -> tuple[list[Any], dict[str, list[Any]]]:
    """The rows of documents: the document of each, and the values of each path.

    Raises `TraceError` for paths that go through different arrays.
    """
    steps_of = {path: _steps(path) for path in paths}
    arrays = {steps[: at + 1] for steps in steps_of.values() for at, step in enumerate(steps) if step == _EACH}
    levels = sorted(arrays, key=len)
    for outer, inner in pairwise(levels):
        if inner[: len(outer)] != outer:
            raise TraceError(
                f"{', '.join(path for path in paths if _EACH in path)} go through different arrays.",
                remedy="let all paths with [] go through one array, or name one element of the other, as in [0].",
            )
    rows: dict[PathSteps, list[Any]] = {(): list(documents)}
    for level in levels:
        elements = [value if isinstance(value, list) and value else [None] for value in _values_at(rows, level[:-1])]
        rows = {
            outer: [value for value, each in zip(values, elements, strict=True) for _ in each]
            for outer, values in rows.items()
        }
        rows[level] = [element for each in elements for element in each]
    return rows[()], {path: _values_at(rows, steps) for path, steps in steps_of.items()}


def _values_at(rows: Mapping[PathSteps, list[Any]], steps: PathSteps) -> list[Any]:
    """The values at the end of a path, from the innermost array that it goes through."""
    start = max((level for level in rows if steps[: len(level)] == level), key=len)
    rest = steps[len(start) :]
    return [value_at(value, rest) for value in rows[start]]


def value_at(value: Any, steps: PathSteps) -> Any:
    """The value at the end of a path without `[]`; None where it leads nowhere. A key with a dot in it comes first."""
    for at, step in enumerate(steps):
        if isinstance(value, dict) and isinstance(step, str):
            dotted = ".".join(map(str, steps[at:]))
            if dotted in value:
                return value[dotted]
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def _leads(value: Any, steps: PathSteps) -> bool:
    """Whether a path leads to a value in a document."""
    if _EACH not in steps:
        return value_at(value, steps) is not None
    array = value_at(value, steps[: (at := steps.index(_EACH))])
    return isinstance(array, list) and any(_leads(element, steps[at + 1 :]) for element in array)


def paths_in(documents: Iterable[Any]) -> list[str]:
    """The paths to the values in some documents, as `load` takes them, in the order of their occurrence."""
    every = (path for document in documents for path in _paths(document, ""))
    return list(islice(dict.fromkeys(every), _MOST_PATHS))


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(element, dict) for element in value):
        for element in value:
            yield from _paths(element, f"{path}{_EACH}")
    elif path:
        yield path


# Files.


def log_name(path: Path) -> str:
    """What a log is called after its file: the name without the ends that say how it is written."""
    bare = _uncompressed(path)
    return bare.stem if bare.suffix.lower() in (*_FORMS, *_SAY_NOTHING) else bare.name


def _uncompressed(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path


def files_of(path: Path) -> list[Path]:
    """The files of a log: itself, or of a folder all but those that Spark passes over, such as `_SUCCESS`."""
    if not path.is_dir():
        return [path]
    inside = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    files = [
        path / file for file in sorted(inside) if not any(part[0] in "._" and "=" not in part for part in file.parts)
    ]
    if not files:
        raise TraceError(f"the folder {path} has no files of a log.", remedy="give a folder with files, or a file.")
    return files


def require_form(form: object, encoding: object) -> None:
    """Raise `TraceError` for an unknown form of a file or an unknown encoding."""
    if form is not None and form not in get_args(FileForm):
        raise TraceError(f"form is {shown(form)}.", remedy=f"give one of {', '.join(map(repr, get_args(FileForm)))}.")
    try:
        codecs.lookup(encoding)  # type: ignore[arg-type]  # whatever the user has given
    except (LookupError, TypeError, ValueError):
        raise TraceError(
            f"encoding is {shown(encoding)}, which nobody knows.", remedy="give 'utf-8', 'latin-1' or the like."
        ) from None


def open_file(path: Path, form: FileForm | None, encoding: str, columns: Sequence[str] | None = None) -> LogSource:
    """A file, which may be compressed, of the form that its name or its beginning says; CSV if neither does.

    `columns` are the names of the columns of a CSV file without a header. Raises `TraceError` for one that is empty,
    for an archive of several files, and what `_UNREADABLE` names for one that cannot be read.
    """
    content, name = path.read_bytes(), _uncompressed(path)
    if content.startswith(_ZIP):
        content, name = _only_member(path)
    compression = next((kind for start, kind in _COMPRESSIONS if content.startswith(start)), None)
    if compression is not None:
        content = pa.CompressedInputStream(pa.BufferReader(content), compression).read()
    form = form or _FORMS.get(name.suffix.lower())
    if columns is not None and form not in (None, "csv", "tsv"):
        raise TraceError(f"{path} is {form}, which names its columns itself.", remedy="leave columns out.")
    if form == "parquet" or (form is None and content.startswith(b"PAR1")):
        return Frame(pq.read_table(pa.BufferReader(content)), str(path))
    text = _decoded(content, encoding)
    if not text or text.isspace():
        raise TraceError(f"{path} is empty.", remedy="give a log with at least one event.")
    if form == "json" or (form is None and text.lstrip()[:1] in ("{", "[")):
        return _Json(path, text)
    return _Csv(path, text, "\t" if form == "tsv" else None, columns)


def _only_member(path: Path) -> tuple[bytes, Path]:
    """The content and the name of the one file in a zip archive; raises `TraceError` if it has another number."""
    with zipfile.ZipFile(path) as archive:
        members = [each.filename for each in archive.infolist() if not each.is_dir()]
        if len(members) != 1:
            listed = ", ".join(map(repr, members[:_MOST_PATHS])) or "none"
            raise TraceError(
                f"{path} is a zip archive of {counted(len(members), 'file')}: {listed}.",
                remedy="unpack it, and give the file that is the log, or a folder of files with the same columns.",
            )
        return archive.read(members[0]), Path(members[0])


_UNREADABLE: Final = (
    *(OSError, EOFError, MemoryError, UnicodeError, csv.Error, pa.ArrowException),
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError),
)
"""What is raised for a file that cannot be read."""


def read_files(
    files: Sequence[Path],
    wanted: LogColumns,
    form: FileForm | None,
    encoding: str,
    names: Sequence[str] | None = None,
) -> tuple[LogRows, LogColumns]:
    """The rows of all files, one after the other, and the columns as the first one has them.

    Raises `TraceError` for a file that cannot be read.
    """
    columns, parts = wanted, []
    for path in files:
        try:
            source = open_file(path, form, encoding, names)
            columns = located(columns, path.name, source)
            parts.append(source.rows(columns.named))
        except _UNREADABLE as failure:
            raise TraceError(
                f"{path} cannot be read: {failure}.",
                remedy=f"give a whole file; or {_SAY_FORM}.",
            ) from failure
    rows = LogRows(
        pa.concat_tables([part.table for part in parts], promote_options="permissive"),
        tuple(map(str, files)),
        np.repeat(np.arange(len(parts), dtype=np.int32), [part.table.num_rows for part in parts]),
        np.concatenate([part.row for part in parts]),
        tuple(row for part in parts for row in part.refused),
    )
    return rows, columns


# What is refused.


def refused_rows(rows: LogRows, faults: Sequence[ColumnFault]) -> list[Refused]:
    """The rows that are left out, in the order of the log, each with the first fault that it has."""
    refused = list(rows.refused)
    good: Bools = np.ones(rows.table.num_rows, np.bool_)
    for fault in faults:
        refused += [_refused(rows, fault, int(index)) for index in np.flatnonzero(fault.bad & good)]
        good &= ~fault.bad
    order = {file: number for number, file in enumerate(rows.files)}
    return sorted(refused, key=lambda row: (order[row.file], row.row))


def _refused(rows: LogRows, fault: ColumnFault, index: int) -> Refused:
    parts = fault.parts or (fault.column,)
    values = [value for name in parts if (value := rows.table[name][index].as_py()) is not None]
    text = " ".join(map(str, values)) if values else None
    return Refused(rows.files[rows.file[index]], int(rows.row[index]), fault.column, text, fault.reason)


def require_good(rows: LogRows, faults: Sequence[ColumnFault], where: str) -> None:
    """Raise `TraceError` with all that is wrong, if anything is."""
    bad = len(refused_rows(rows, faults))
    if not bad:
        return
    problems = [*_problems_of_lines(rows), *(_problem_of(rows, fault) for fault in faults)]
    more = f"; and {len(problems) - _MOST_PROBLEMS} other kinds" if len(problems) > _MOST_PROBLEMS else ""
    raise TraceError(
        f"{where} has {counted(bad, 'bad row')} of {grouped(rows.table.num_rows + len(rows.refused))}: "
        f"{'; '.join(problems[:_MOST_PROBLEMS])}{more}.",
        remedy=_remedy(rows, faults),
    )


def _problem_of(rows: LogRows, fault: ColumnFault) -> str:
    first = _refused(rows, fault, int(np.flatnonzero(fault.bad)[0]))
    return _problem(fault.column, fault.reason, int(fault.bad.sum()), first, rows.files)


def _problems_of_lines(rows: LogRows) -> list[str]:
    """The problems of malformed rows."""
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


def _remedy(rows: LogRows, faults: Sequence[ColumnFault]) -> str:
    """What to do about some faults."""
    reasons = {fault.reason for fault in faults} | {row.reason for row in rows.refused}
    of_form = [fault for fault in faults if fault.reason in (times.UNKNOWN_FORM, times.OTHER_FORMAT)]
    if reasons == {BEFORE_1970}:
        return SHIFT
    hints = {
        times.TOO_LARGE: "name the unit of the times, such as unit='us'",
        times.CLOCK_CHANGE: "write those times with their zone",
        LOST_LETTER: "name the encoding of the text, encoding='latin-1'",
    }
    hint = _formats(rows, of_form)
    if not hint and any(fault.bad.all() for fault in of_form):
        hint = "name the form of the times, format=..., as of datetime.strptime; or "
    hint += "".join(f"{text}; or " for text in dict.fromkeys(text for fault, text in hints.items() if fault in reasons))
    return f"{hint}repair those rows, or leave them out with bad_rows='drop'."


def _formats(rows: LogRows, faults: Sequence[ColumnFault]) -> str:
    """The formats that the texts of some columns have, as an argument, with what each reads.

    Empty if no usual format reads a text that was refused.
    """
    texts, refused = {}, []
    for fault in faults:
        texts[fault.column] = of_column = _texts(rows, fault)
        refused += [text for text, bad in zip(of_column, fault.bad.tolist(), strict=True) if bad]
    if not times.formats_seen(refused):
        return ""
    values = [text for of_column in texts.values() for text in of_column if text]
    seen = times.formats_seen(values)
    formats = [each.format for each in seen]
    reads = ", ".join(f"{each.format!r} reads {grouped(each.rows)} of {grouped(len(values))} values" for each in seen)
    twins = "".join(
        f", and {each.twin!r} reads the same as {each.format!r}: only the source knows which is meant"
        for each in seen
        if each.twin
    )
    given = formats[0] if len(formats) == 1 else formats
    return f"name the form of the times, format={given!r} ({reads}{twins}); or "


def _texts(rows: LogRows, fault: ColumnFault) -> list[str | None]:
    """The times of a column as texts; of two columns both in one."""
    parts = [rows.table[name].to_pylist() for name in fault.parts or (fault.column,)]
    return [None if None in values else " ".join(map(str, values)) for values in zip(*parts, strict=True)]
