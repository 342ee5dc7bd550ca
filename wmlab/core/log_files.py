"""Files of logs: which form a file has, what its first lines say, and its rows as texts.

The form is that of the name (`x.csv`, `x.ndjson.gz`) or, where the name says nothing, of the first bytes. `Head` is
what `load` and `read_log` both decide from the first lines. `read` gives the named columns of a file or folder, with
the number of each row, and apart from them what is no row.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from wmlab.core import nested, times
from wmlab.core.errors import TraceError
from wmlab.core.words import shown

FileForm = Literal["csv", "tsv", "json", "parquet"]
"""How a log is written; "tsv" is CSV with tabs."""
FILE_FORMS: Final[tuple[str, ...]] = get_args(FileForm)
COMPRESSIONS: Final = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
"""The compressions by the end of a name, and how such a file begins."""
_ARROW_CALLS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_FORMS_BY_SUFFIX: Final[dict[str, FileForm]] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_SAY_NOTHING: Final = (".log", ".txt", ".data", ".dat")
"""Ends of names that are cut off for the name of a log, although they do not say how it is written."""
_PARQUET: Final = "PAR1"
_DELIMITERS: Final = ",;\t|"
_HEAD_BYTES: Final = 4_000_000
_BUFFER_BYTES: Final = 1 << 20
_BATCH_ROWS: Final = 20_000
"""So many rows are lists of Python before they become a table."""


class Refused(NamedTuple):
    """A row that is left out: its file and number there, the column, its value, and the reason."""

    file: str
    row: int
    column: str | None
    value: str | None
    reason: str


@dataclass(frozen=True, eq=False)
class LogRows:
    """The named columns of a log, of each row its file (an index into `files`) and its number there, from 1.

    `refused` are what is no row; `left_out` are rows that were refused before, which is no news.
    """

    table: pa.Table
    files: tuple[str, ...]
    file: NDArray[np.int32]
    row: NDArray[np.int64]
    refused: tuple[Refused, ...] = ()
    left_out: tuple[Refused, ...] = ()


@dataclass(frozen=True)
class Head:
    """What the first lines of a log say, decoded and without their line breaks."""

    lines: tuple[str, ...]
    form: FileForm

    @property
    def delimiter(self) -> str:
        """What stands between two values."""
        return "\t" if self.form == "tsv" else delimiter_of(self.lines[0] if self.lines else "")

    @property
    def names(self) -> list[str]:
        """The columns; of JSON the paths to the values."""
        if self.form == "json":
            return nested.paths_in(self._documents())
        return next(csv.reader(self.lines[:1], delimiter=self.delimiter), [])

    def has(self, name: str) -> int:
        """How many columns have a name, or whether a path leads somewhere."""
        if self.form != "json":
            return self.names.count(name)
        rows = (row for document in self._documents() for row in nested.Reader([name]).of_document(document))
        return int(any(row.values[0] is not None or (row.fault or (None,))[0] for row in rows))

    @property
    def breaks_lines(self) -> bool:
        """Whether a quoted text goes on in the next line."""
        return any(line.count('"') % 2 for line in self.lines)

    @property
    def is_one_document(self) -> bool:
        """Whether the file is one JSON document over several lines."""
        first = next((line for line in self.lines if line.strip()), "")
        with suppress(ValueError):
            json.loads(first)
            return False
        return first.lstrip()[:1] == "[" or first.strip() == "{"

    def sample(self, name: str) -> list[str | None]:
        """The first texts of a column."""
        if self.form == "json":
            reader = nested.Reader([name])
            return [row.values[0] for document in self._documents() for row in reader.of_document(document)]
        if name not in self.names:
            return []
        at, width = self.names.index(name), len(self.names)
        rows = csv.reader((f"{line}\n" for line in self.lines[1:]), delimiter=self.delimiter)
        return [row[at] for row in rows if len(row) == width]

    def _documents(self) -> list[Any]:
        texts = ["\n".join(self.lines)] if self.is_one_document else self.lines
        documents: list[Any] = []
        for text in texts:
            with suppress(ValueError, RecursionError):
                parsed = json.loads(text)
                documents += parsed if isinstance(parsed, list) else [parsed]
        return documents


def require_form(form: object) -> None:
    """Raise `TraceError` for what is no form."""
    if form is not None and form not in FILE_FORMS:
        raise TraceError(f"form is {shown(form)}.", remedy=f"give one of {', '.join(map(repr, FILE_FORMS))}.")


def form_of(path: Path) -> FileForm | None:
    """How a file is written by its name, which may end in that of a compression; None: the name does not say."""
    return _FORMS_BY_SUFFIX.get(_uncompressed(path).suffix.lower())


def log_name(path: Path) -> str:
    """What a log is called after its file: the name without the ends that say how it is written."""
    bare = _uncompressed(path)
    return bare.stem if bare.suffix.lower() in (*_FORMS_BY_SUFFIX, *_SAY_NOTHING) else bare.name


def _uncompressed(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def delimiter_of(header: str) -> str:
    """The delimiter of a CSV file by its first line: of comma, semicolon, tab and bar the first that is in it."""
    return next((delimiter for delimiter in _DELIMITERS if delimiter in header), ",")


def form_of_text(where: str, lines: Sequence[str]) -> FileForm:
    """How a text is written by its first lines; raises `TraceError` if they do not say."""
    first = next((line for line in lines if line.strip()), "")
    if first.startswith(_PARQUET):
        return "parquet"
    if first.lstrip()[:1] in ("{", "["):
        return "json"
    if any(delimiter in first for delimiter in _DELIMITERS):
        return "csv"
    raise TraceError(
        f"{where} begins with {shown(first[:60])}: it is no Parquet (which begins with PAR1), no JSON (with a brace or "
        "a bracket), and no table with a header (a comma, semicolon, tab or bar in its first line).",
        remedy="say how it is written, form='csv', 'tsv', 'json' or 'parquet', or give another file.",
    )


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


def head_of(path: Path, form: FileForm | None, encoding: str) -> Head:
    """The first lines of a file, which may be compressed; raises `OSError`, `LookupError` or `TraceError`."""
    with _opened(path) as stream:
        content = stream.read(_HEAD_BYTES)
    # A letter may be cut in two at the end; an incremental decoder waits for the rest.
    text = codecs.getincrementaldecoder(encoding)("replace").decode(content).removeprefix("\ufeff")
    lines = tuple(line.rstrip("\n") for line in islice(io.StringIO(text, newline=None), times.SAMPLE_ROWS + 1))
    return Head(lines, form or form_of(path) or form_of_text(path.name, lines))


def compression_of(path: Path) -> str | None:
    """The usual end of the name of a file that is compressed, as its first bytes say; None: it is not."""
    with path.open("rb") as file:
        start = file.read(4)
    return next((suffix for suffix, magic in COMPRESSIONS.items() if start.startswith(magic)), None)


def _opened(path: Path) -> Any:
    """The bytes of a file, decompressed."""
    kind = compression_of(path)
    return pa.input_stream(str(path), compression=_ARROW_CALLS[kind] if kind else None)


def read_files(files: Sequence[Path], names: Sequence[str], head: Head, encoding: str) -> LogRows:
    """The columns of all files, which are written as the first one is; raises `TraceError` for one that cannot be."""
    parts: list[LogRows] = []
    for path in files:
        try:
            parts.append(_read_file(path, names, head, encoding))
        except UnicodeError as wrong:
            raise TraceError(
                f"{path} is not in the encoding {encoding!r}: {wrong}.", remedy="give its encoding=, such as 'latin-1'."
            ) from wrong
        except (OSError, EOFError, pa.ArrowException) as failure:
            raise TraceError(
                f"{path} cannot be read: {failure}.",
                remedy=f"give a whole file; it was read as {head.form}, form= says otherwise.",
            ) from failure
    return LogRows(
        pa.concat_tables([part.table for part in parts], promote_options="permissive"),
        tuple(map(str, files)),
        np.repeat(np.arange(len(parts), dtype=np.int32), [part.table.num_rows for part in parts]),
        np.concatenate([part.row for part in parts]),
        tuple(row for part in parts for row in part.refused),
    )


def _read_file(path: Path, names: Sequence[str], head: Head, encoding: str) -> LogRows:
    if head.form == "parquet":
        return rows_of_table(pq.read_table(path), names, str(path))
    if head.form == "json":
        # A mark of the byte order is no part of the first line.
        codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        buffered = io.BufferedReader(_opened(path), _BUFFER_BYTES)
        with io.TextIOWrapper(buffered, codec, errors="surrogateescape") as text:
            return rows_of_documents([text.read()] if head.is_one_document else text, names, str(path))
    return _read_csv(path, names, head, encoding)


def rows_of_table(table: pa.Table, names: Sequence[str], where: str) -> LogRows:
    """The columns of a table; a path leads into nested ones."""
    if all(name in table.column_names for name in names):
        count = table.num_rows
        return LogRows(table.select(names), (where,), np.zeros(count, np.int32), np.arange(1, count + 1))
    tops = dict.fromkeys(name if name in table.column_names else str(nested.steps_of(name)[0]) for name in names)
    documents = (row for batch in table.select(list(tops)).to_batches() for row in batch.to_pylist())
    return rows_of_documents(documents, names, where)


def rows_of_documents(documents: Iterable[Any], names: Sequence[str], where: str) -> LogRows:
    """The rows of JSON texts, or of documents; each row of a document with an array has a number of its own."""
    reader = nested.Reader(names)
    parts = [pa.table([pa.array([], pa.string())] * len(names), list(names))]
    numbers: list[int] = []
    refused: list[Refused] = []
    good: list[tuple[str | None, ...]] = []
    count = 0
    for document in documents:
        for values, fault in reader.rows(document) if isinstance(document, str) else reader.of_document(document):
            count += 1
            if fault is None:
                good.append(values)
                numbers.append(count)
            else:
                text = document if isinstance(document, str) else json.dumps(document, default=str)
                readable = text.strip().encode("utf-8", "replace").decode("utf-8")
                refused.append(Refused(where, count, fault[0], readable, fault[1]))
        if len(good) >= _BATCH_ROWS:
            parts.append(table_of_texts(good, names))
            good = []
    parts.append(table_of_texts(good, names))
    table = pa.concat_tables(parts)
    return LogRows(table, (where,), np.zeros(len(numbers), np.int32), np.array(numbers, np.int64), tuple(refused))


def table_of_texts(rows: Sequence[tuple[str | None, ...]], names: Sequence[str]) -> pa.Table:
    """A table of rows of texts."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return pa.table([pa.array(values, pa.string()) for values in columns], list(names))


def _read_csv(path: Path, names: Sequence[str], head: Head, encoding: str) -> LogRows:
    """The columns of a CSV file; Arrow leaves rows of another width to us, and takes quoted line breaks."""
    ragged: list[Refused] = []

    def skip(row: Any) -> str:
        # The header has the number 1.
        ragged.append(Refused(str(path), row.number - 1, None, row.text, NO_ROW))
        return "skip"

    with _opened(path) as stream:
        table = pyarrow.csv.read_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(encoding=encoding, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=head.delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            # Texts stay texts: a writer "007" is not the number 7, and "NA" is a name like any other. As bytes, because
            # Arrow would refuse a whole file for one that is not UTF-8.
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(names), column_types=dict.fromkeys(names, pa.binary())
            ),
        )
    count = table.num_rows + len(ragged)
    is_read = np.ones(count + 1, np.bool_)
    is_read[[0, *(row.row for row in ragged)]] = False
    numbers: NDArray[np.int64] = np.flatnonzero(is_read)
    return _decoded(table, str(path), numbers, _without_open_quote(path, numbers, ragged, encoding))


def _decoded(table: pa.Table, where: str, numbers: NDArray[np.int64], refused: list[Refused]) -> LogRows:
    """The bytes as texts; rows that are not UTF-8 are refused."""
    good: NDArray[np.bool_] = np.isin(numbers, [row.row for row in refused], invert=True)
    columns: list[pa.ChunkedArray] = []
    for name in table.column_names:
        try:
            columns.append(table[name].cast(pa.string()))
        except pa.ArrowInvalid:
            texts = [value.decode("utf-8", "surrogateescape") for value in table[name].to_pylist()]
            for at, text in enumerate(texts):
                if nested.has_undecoded(text):
                    texts[at] = text.encode("utf-8", "replace").decode()
                    if good[at]:
                        refused.append(Refused(where, int(numbers[at]), name, texts[at], nested.NOT_UTF8))
                    good[at] = False
            columns.append(pa.chunked_array([pa.array(texts, pa.string())]))
    readable = pa.table(columns, table.column_names).filter(pa.array(good))
    refused.sort(key=lambda row: row.row)
    return LogRows(readable, (where,), np.zeros(readable.num_rows, np.int32), numbers[good], tuple(refused))


NO_ROW: Final = "does not have one value for each column"
OPEN_QUOTE: Final = "opens a quote that is not closed, and holds the rest of the file"


def _without_open_quote(path: Path, numbers: NDArray[np.int64], ragged: list[Refused], encoding: str) -> list[Refused]:
    """The refused rows, and the last row if it has taken in the rest of the file behind a quote."""
    with _opened(path) as stream:
        quotes = sum(chunk.count(b'"') for chunk in iter(lambda: stream.read(1 << 20), b""))
    if quotes % 2 == 0 or not len(numbers):
        return ragged
    with io.TextIOWrapper(_opened(path), encoding, errors="replace", newline="") as text:
        try:
            for _ in csv.reader(text, strict=True):
                pass
        except csv.Error as wrong:
            if "unexpected end" in str(wrong) and not (ragged and ragged[-1].row > numbers[-1]):
                return [*ragged, Refused(str(path), int(numbers[-1]), None, None, OPEN_QUOTE)]
    return ragged
