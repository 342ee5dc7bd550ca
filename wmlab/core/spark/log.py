"""Logs of one's own that do not fit into memory: read by Spark, bad rows kept apart, and their blocking writers.

`read_log` reads what `wm.trace.load` reads, for any size. Which form a file has, what its columns hold and what a text
means as a time is decided by the same functions (`core/log_files.py`, `core/times.py`, `core/nested.py`), which run on
the executors. Where `load` refuses a file for its bad rows, here every bad row stays, with the reason.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

from wmlab.core import nested, times
from wmlab.core.arguments import the_flag
from wmlab.core.columns import ColumnFault, LogColumns, in_words, trace_columns
from wmlab.core.errors import TraceError
from wmlab.core.files import as_path
from wmlab.core.log_files import (
    COMPRESSIONS,
    NO_ROW,
    FileForm,
    Head,
    compression_of,
    files_of,
    form_of,
    form_of_text,
    head_of,
    log_name,
    table_of_texts,
)
from wmlab.core.spark.schemas import require, typed
from wmlab.core.spark.session import the_session
from wmlab.core.times import SAMPLE_ROWS, TextKind, TimeUnit
from wmlab.core.traces import TRACE_SCHEMA
from wmlab.core.words import shown

_CORRUPT: Final = "_corrupt_record"
_FILE: Final = "_wmlab_file"
_START: Final = "_wmlab_start"
_ROW_OF_LOG: Final = "_wmlab_row"
_VALUE: Final = "value"
Batch = tuple[pa.Array, ...]
"""What executors are given at once: a part of each column."""


def read_log(
    spark: SparkSession,
    path: str | Path,
    *,
    event_time: str = "event_time",
    arrival: str = "arrival_ms",
    writer: str | EllipsisType | None = ...,
    key: str | EllipsisType | None = ...,
    unit: TimeUnit = "ms",
    format: str | None = None,
    encoding: str = "utf-8",
    form: FileForm | None = None,
    line_breaks: bool | None = None,
) -> DataFrame:
    """A log of any size, as Spark reads it: CSV, TSV, JSON or Parquet, a file or a folder of such files.

    The arguments are those of `wm.trace.load`, and so is what a text means. The columns are those of a trace
    (`event_time` and `arrival_ms` in milliseconds since 1970, `writer`, `key`), then `reason` and `text`: of a bad row
    why it is refused and its text (of CSV and Parquet as JSON), of a good row null; then `file`, the path as Spark has
    it, and `row`. So `log.where("reason is null")` is the log, and grouping by `reason` counts what is left out.

    Rows are in no order; `file` and `row` give them that of the files, however Spark has cut these into tasks. `row` is
    the number of the row in its file, from 1 and without the header, as `load` counts. Of a text that Spark has cut
    into blocks (of 128 MB by default), a row of a later block has the first byte of its block more than its number
    there: still in the order of the file, but with gaps. Elements of an array in one row of Parquet have one number.

    Quoted line breaks in CSV are read where the first 1,000 lines have one, or where `line_breaks` says so: then one
    task reads a whole file. Otherwise a row is one line, and the pieces of a broken one are bad rows. The path is one
    that the executors can read. Timestamps without a zone are in the time zone of the session, which is UTC in wmlab's
    own. All files of a folder are of one form and have one header; Spark refuses others when it reads them, as it does
    a file that is damaged or gone by then. It needs wmlab on the executors. Raises `TraceError` for a file or an
    encoding that Spark does not read, and for a column that is not there, or has a type that is no time.
    """
    if line_breaks is not None:
        line_breaks = the_flag(line_breaks, "line_breaks", TraceError)
    spark = the_session(spark)
    columns = LogColumns(event_time, arrival, writer, key, unit, format, encoding, form)
    local = as_path(path, TraceError)
    try:
        # Spark would look for a relative path where its process was started.
        file = str(local.resolve() if local.exists() else path)
        return _Log(spark, file, columns, _head(spark, local, file, columns), line_breaks).rows()
    except (PySparkException, Py4JJavaError) as refused:
        condition = re.search(r"\[[A-Z_.]+\][^\n]*", str(refused))
        raise TraceError(
            f"{path} cannot be read: {condition[0] if condition else refused}",
            remedy="give the path of a whole file that Spark and its executors reach, and form= if its name does not "
            "say how it is written; Parquet with times in ms or us.",
        ) from None


def stragglers(log: DataFrame, every_ms: int) -> DataFrame:
    """The blocking writer, whose newest event is the oldest, at every multiple of `every_ms` of arrival.

    `log` has the columns `event_time`, `arrival_ms` and `writer`, as `read_log` gives them. A writer counts from its
    first record on. One row a moment: `at_ms`, `writers` (known by then), `lower` (the least newest event time of
    them), `straggler` (the writer that has it, the first in the alphabet of several) and `ahead_ms` (by how much the
    newest event of all is newer). What arrives at a multiple counts for it. `stragglers_over` sums it up.

    This asks whose events are oldest. `explain` of a recording that replays the log asks whose noted time blocks
    the bound: a writer that is silent there goes on noting times and blocks nothing. So it may name another, and says
    so.
    """
    require(log, "log", ("writer",))
    log = typed(log, "log", ("event_time", "arrival_ms"), TRACE_SCHEMA)
    if type(every_ms) is not int or every_ms < 1:
        raise TraceError(f"every_ms is {shown(every_ms)}.", remedy="give a whole number of milliseconds, 1 or more.")
    at_ms = F.expr(f"arrival_ms + pmod(-arrival_ms, {every_ms})")
    by_moment = log.where("arrival_ms is not null").groupBy("writer", at_ms.alias("at_ms"))
    newest = by_moment.agg(F.max("event_time").alias("newest"))
    # With `newest` in it, Spark sees the same aggregate twice and reads the log once.
    last_ms = newest.agg(F.max(F.struct("at_ms", "newest"))["at_ms"]).scalar()
    of_writer = Window.partitionBy("writer").orderBy("at_ms")
    until_ms = F.coalesce(F.lead("at_ms").over(of_writer) - every_ms, last_ms)
    so_far = newest.select(
        "writer", "at_ms", F.max("newest").over(of_writer).alias("newest"), until_ms.alias("until_ms")
    )
    each_moment = F.explode(F.sequence("at_ms", "until_ms", F.lit(every_ms))).alias("at_ms")
    newest_at = so_far.select("writer", "newest", each_moment)
    least = F.min(F.struct("newest", "writer"))
    return newest_at.groupBy("at_ms").agg(
        F.count("*").alias("writers"),
        least["newest"].alias("lower"),
        least["writer"].alias("straggler"),
        (F.max("newest") - least["newest"]).alias("ahead_ms"),
    )


def _head(spark: SparkSession, local: Path, path: str, columns: LogColumns) -> Head:
    """What the first lines of the first file say: read here, or by Spark where the file is not on this machine."""
    encoding = _encoding(columns)
    if local.exists():
        first = files_of(local)[0]
        kind = compression_of(first)
        if kind is not None and first.suffix.lower() not in COMPRESSIONS:
            raise TraceError(
                f"{first} is compressed, which Spark sees by the end of a name only.", remedy=f"let it end in {kind}."
            )
        try:
            return head_of(first, columns.form, columns.encoding)
        except (OSError, EOFError, pa.ArrowException) as failure:
            raise TraceError(f"{first} cannot be read: {failure}.", remedy="give a whole file.") from failure
    form = columns.form or form_of(Path(path))
    if form == "parquet":
        return Head((), form)
    text = spark.read.option("recursiveFileLookup", True).text(path)
    first_file = min(text.inputFiles(), default=path)
    # In one task, so that it is the first lines and the task stops after them.
    few = spark.read.text(first_file).coalesce(1).limit(SAMPLE_ROWS + 1)
    first_texts = few.agg(F.collect_list(_decoded(_VALUE, encoding))).first()
    lines = tuple(first_texts[0]) if first_texts else ()
    return Head(lines, form or form_of(Path(first_file)) or form_of_text(path, lines))


def _decoded(column: str, encoding: str) -> Column:
    """The letters of a text that Spark has read as bytes."""
    return F.make_valid_utf8(column) if encoding == "utf-8" else F.decode(F.col(column).cast("binary"), encoding)


@dataclass(frozen=True)
class _Log:
    """A log that is to be read."""

    spark: SparkSession
    path: str
    wanted: LogColumns
    first_lines: Head
    line_breaks: bool | None

    def rows(self) -> DataFrame:
        """The rows of the log, as `read_log` gives them."""
        if self.first_lines.form == "parquet":
            raw = self.spark.read.parquet(self.path)
            columns = self._columns_in(raw.columns, lambda name: raw.columns.count(_top(name, raw.columns)))
            if any(name not in raw.columns for name in columns.named):
                return self._of_nested_parquet(raw, columns)
            return self._of_columns(_with_origin(raw, "*", "row_index"), columns, cut=False)
        columns = self._columns_in(self.first_lines.names, self.first_lines.has)
        if self.first_lines.form == "json":
            return self._of_json(columns)
        return self._of_columns(_with_origin(self._csv(), "*", "file_block_start"), columns, cut=True)

    def _columns_in(self, names: Sequence[str], has: Callable[[str], int]) -> LogColumns:
        return self.wanted.located_in(self.path, names, has)

    def _csv(self) -> DataFrame:
        """All columns as texts; `_corrupt_record` holds what is not a row."""
        sep = self.first_lines.delimiter
        names = next(csv.reader(self.first_lines.lines[:1], delimiter=sep), [])
        # By default Spark takes columns by their position, whatever the other files of a folder call them. It does not
        # find the names that it gives to columns without one, or with that of another.
        named_by_spark = len({*names} - {""}) < len(names)
        reader = self.spark.read.options(
            encoding=_encoding(self.wanted),
            columnNameOfCorruptRecord=_CORRUPT,
            header=True,
            sep=sep,
            escape='"',
            enforceSchema=named_by_spark,
            multiLine=self._breaks_lines,
            recursiveFileLookup=True,
            # A row is bad or not, whichever of its columns are asked for.
            columnPruning=False,
        )
        schema = reader.csv(self.path).schema.add(_CORRUPT, "string")
        return reader.schema(schema).csv(self.path)

    @property
    def _breaks_lines(self) -> bool:
        return self.first_lines.breaks_lines if self.line_breaks is None else self.line_breaks

    def _of_columns(self, raw: DataFrame, columns: LogColumns, *, cut: bool) -> DataFrame:
        """Rows of columns; `cut` says whether Spark numbers the blocks of a file and not its rows."""
        types = {field.name: field.dataType for field in raw.schema}
        named = StructType([raw.schema[name] for name in columns.named])
        kinds = {
            name: times.kind_of(self._sample(raw, name), columns.format)
            for name in (columns.event_time, columns.arrival)
            if isinstance(types[name], StringType)
        }
        worker = _Worker(columns, kinds, log_name(Path(self.path)), cut)
        # Columns that hold no times are refused here, not by the executors.
        worker.judged(to_arrow_schema(named, timezone="UTC").empty_table())
        of_columns = arrow_udf(worker.of_columns, _ROW).asNondeterministic()  # type: ignore[call-overload]
        row = of_columns(*map(_quoted_column, columns.named), F.col(_START), F.xxhash64(_FILE))
        bad_line = self._line_reason() if _CORRUPT in types else None
        every = F.to_json(F.struct(*(_quoted(name) for name in types if name not in (_FILE, _START))))
        return _made(raw.withColumn(_ROW_OF_LOG, row), every, bad_line)

    def _line_reason(self) -> Column:
        """The reason of a line of CSV that is no row."""
        quotes = F.length(_CORRUPT) - F.length(F.replace(_CORRUPT, F.lit('"')))
        broken = F.lit(not self._breaks_lines) & (quotes % 2 == 1)
        reason = F.when(broken, F.lit(NO_ROW + _HINT)).otherwise(F.lit(NO_ROW))
        return F.when(F.col(_CORRUPT).isNotNull(), reason)

    def _of_json(self, columns: LogColumns) -> DataFrame:
        """Rows of documents, each of which may be several."""
        # Spark leaves the bytes of a text as they are; they are decoded where the documents are read.
        reader = self.spark.read.option("recursiveFileLookup", True)
        whole = self.first_lines.is_one_document
        raw = reader.text(self.path, wholetext=whole) if whole else reader.text(self.path, lineSep="\n")
        documents = _with_origin(raw, _VALUE, "file_block_start")
        return self._of_documents(documents, columns, self.first_lines.sample, cut=True)

    def _of_nested_parquet(self, raw: DataFrame, columns: LogColumns) -> DataFrame:
        tops = dict.fromkeys(_top(name, raw.columns) for name in columns.named)
        document = F.to_json(F.struct(*map(_quoted, tops)))
        documents = _with_origin(raw, document.alias(_VALUE), "row_index")
        first = documents.coalesce(1).limit(SAMPLE_ROWS).agg(F.collect_list(_VALUE)).first()
        head = Head(tuple(first[0]) if first else (), "json")
        return self._of_documents(documents, columns, head.sample, cut=False)

    def _of_documents(
        self, raw: DataFrame, columns: LogColumns, sample: Callable[[str], Sequence[str | None]], *, cut: bool
    ) -> DataFrame:
        kinds = {name: times.kind_of(sample(name), columns.format) for name in (columns.event_time, columns.arrival)}
        worker = _Worker(columns, kinds, log_name(Path(self.path)), cut)
        of_documents = arrow_udf(worker.of_documents, f"array<{_ROW}>").asNondeterministic()  # type: ignore[call-overload]
        rows = of_documents(F.col(_VALUE).cast("binary"), F.col(_START), F.xxhash64(_FILE))
        every = _decoded(_VALUE, _encoding(columns))
        return _made(raw.select(_VALUE, _FILE, F.explode(rows).alias(_ROW_OF_LOG)), every)

    def _sample(self, raw: DataFrame, name: str) -> Sequence[str | None]:
        """The first texts of a column."""
        if self.first_lines.form != "parquet":
            return self.first_lines.sample(name)
        first_file = min(raw.inputFiles(), default=self.path)
        few = self.spark.read.parquet(first_file).select(_quoted(name)).coalesce(1).limit(SAMPLE_ROWS)
        texts = few.agg(F.collect_list(_quoted(name))).first()
        return list(texts[0]) if texts else []


_HINT: Final = "; a quoted text with a line break? line_breaks=True reads it"
_ROW: Final = "struct<event_time: long, arrival_ms: long, writer: string, key: string, reason: string, row: long>"
"""What executors make of a row: the columns of a trace, the reason why it is refused, and its number in its file."""


def _with_origin(raw: DataFrame, content: str | Column, start: str) -> DataFrame:
    """What Spark has read, with the file of each row, and its index there or the first byte of its block."""
    origin = (F.col("_metadata.file_path").alias(_FILE), F.col(f"_metadata.{start}").alias(_START))
    return raw.select(content, *origin)


def _made(rows: DataFrame, every: Column, bad_line: Column | None = None) -> DataFrame:
    """The answer; `every` is the text of a row, `bad_line` the reason of what is no row."""
    of_row = F.col(f"{_ROW_OF_LOG}.reason")
    reason = of_row if bad_line is None else F.coalesce(bad_line, of_row)
    return rows.select(
        *(f"{_ROW_OF_LOG}.{name}" for name in TRACE_SCHEMA.names),
        reason.alias("reason"),
        F.when(reason.isNotNull(), every).alias("text"),
        F.col(_FILE).alias("file"),
        f"{_ROW_OF_LOG}.row",
    )


@dataclass(frozen=True)
class _Worker:
    """What the executors do: the rule of `load` for the rows of a batch, and their numbers."""

    columns: LogColumns
    kinds: Mapping[str, TextKind]
    log: str
    cut: bool
    """Whether a start is that of a block of a file, in which rows are numbered, and not the index of a row."""

    def of_columns(self, batches: Iterator[Batch]) -> Iterator[pa.Array]:
        """Rows of the named columns, the start and the file."""
        counter = _Counter()
        for *values, starts, files in batches:
            numbers = self._numbers(counter, _as_longs(files), _as_longs(starts))
            yield self._rows(pa.table(values, self.columns.named), numbers)

    def of_documents(self, batches: Iterator[Batch]) -> Iterator[pa.Array]:
        """Lists of rows of documents, the start and the file."""
        counter, reader = _Counter(), nested.Reader(self.columns.named)
        for documents, starts, files in batches:
            offsets: list[int] = [0]
            rows: list[nested.DocumentRow] = []
            for content in documents.to_pylist():
                text = (content or b"").decode(self.columns.encoding, "surrogateescape")
                rows += reader.rows(text.removeprefix("\ufeff"))
                offsets.append(len(rows))
            document = np.repeat(np.arange(len(documents)), np.diff(offsets))
            numbers = self._numbers(counter, _as_longs(files)[document], _as_longs(starts)[document])
            table = table_of_texts([row.values for row in rows], self.columns.named)
            faults = [None if row.fault is None else in_words(*row.fault) for row in rows]
            yield pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), self._rows(table, numbers, faults))

    def _numbers(self, counter: _Counter, files: times.Int64Array, starts: times.Int64Array) -> times.Int64Array:
        return starts + 1 + (counter.next_rows(files, starts) if self.cut else 0)

    def judged(self, table: pa.Table) -> tuple[dict[str, pa.Array], list[ColumnFault]]:
        """The columns of a trace in rows, and their faults."""
        return trace_columns(table, self.columns, self.kinds.__getitem__, self.log)

    def _rows(
        self, table: pa.Table, numbers: times.Int64Array, faults_of_rows: list[str | None] | None = None
    ) -> pa.StructArray:
        """Rows as `_ROW` has them; those with a fault as a whole are refused for that."""
        trace, faults = self.judged(table)
        reasons = [None, *(in_words(fault.column, fault.reason) for fault in faults)]
        first_fault: NDArray[np.int32] = np.zeros(len(numbers), np.int32)
        for number, fault in reversed([*enumerate(faults, start=1)]):
            first_fault[fault.bad] = number
        reason = pa.DictionaryArray.from_arrays(first_fault, pa.array(reasons, pa.string())).dictionary_decode()
        if faults_of_rows is not None:
            reason = pc.coalesce(pa.array(faults_of_rows, pa.string()), reason)
        return pa.StructArray.from_arrays(
            [*trace.values(), reason, pa.array(numbers, pa.int64())], [*trace, "reason", "row"]
        )


class _Counter:
    """Numbers rows from 0, in each block anew; the rows of a block come one after the other."""

    def __init__(self) -> None:
        self._block: tuple[int, int] | None = None
        self._next = 0

    def next_rows(self, files: times.Int64Array, starts: times.Int64Array) -> times.Int64Array:
        """The numbers of the next rows, by the file and the first byte of the block of each."""
        numbers = np.arange(len(files))
        if not len(files):
            return numbers
        begins = np.concatenate([[False], (np.diff(files) != 0) | (np.diff(starts) != 0)])
        numbers -= np.maximum.accumulate(np.where(begins, numbers, 0))
        if self._block == (files[0], starts[0]):
            numbers[: np.argmax(begins) if begins.any() else len(files)] += self._next
        self._block, self._next = (int(files[-1]), int(starts[-1])), int(numbers[-1]) + 1
        return numbers


def _as_longs(array: pa.Array) -> times.Int64Array:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _top(name: str, names: Sequence[str]) -> str:
    """The column that a name or a path begins with."""
    return name if name in names else str(nested.steps_of(name)[0])


def _encoding(columns: LogColumns) -> str:
    """The encoding as Spark calls it; raises `TraceError` for one in which it does not find the ends of lines."""
    with suppress(LookupError):
        return {"utf-8": "utf-8", "iso8859-1": "iso-8859-1"}[codecs.lookup(columns.encoding).name]
    raise TraceError(
        f"Spark reads no text in {columns.encoding!r} line by line.",
        remedy="give encoding='utf-8' or 'latin-1', or write the log in one of them.",
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quoted_column(name: Any) -> Column:
    return F.col(_quoted(name))
