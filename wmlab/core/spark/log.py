"""Logs of one's own that do not fit into memory: read by Spark, bad rows kept apart, the writer that holds time.

`read_log` reads what `wm.trace.load` reads, for any size. Which form a file has, what its columns hold and what a text
means as a time is decided by the same functions (`core/log_files.py`, `core/times.py`, `core/nested.py`), which run on
the executors; numbers and timestamps, which need no such decision, stay in Spark. Where `load` refuses a file for its
bad rows, here every bad row stays, with the reason.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, DateType, FractionalType, IntegralType, TimestampNTZType, TimestampType

from wmlab.core import nested, times
from wmlab.core.columns import BEFORE_1970, LOST, LOST_LETTER, Columns
from wmlab.core.errors import TraceError
from wmlab.core.files import as_path
from wmlab.core.log_files import (
    COMPRESSIONS,
    NO_ROW,
    Form,
    Head,
    compression_of,
    files_of,
    form_of,
    form_of_text,
    head_of,
    log_name,
)
from wmlab.core.spark.schemas import require, typed
from wmlab.core.spark.session import the_session
from wmlab.core.times import MS_PER_TICK, NO_VALUE, NOT_FINITE, SAMPLE_ROWS, TOO_LARGE, Kind, Unit
from wmlab.core.traces import TRACE_SCHEMA
from wmlab.core.words import shown

_CORRUPT: Final = "_corrupt_record"
_FILE: Final = "_wmlab_file"
_START: Final = "_wmlab_start"
_TIMES: Final = "_wmlab_times"
_VALUE: Final = "value"
Batch = tuple[pa.Array, ...]
Parser = Callable[[Iterator[Batch]], Iterator[pa.Array]]
"""What executors run: an array for each batch."""


def read_log(
    spark: SparkSession,
    path: str | Path,
    *,
    event_time: str = "event_time",
    arrival: str = "arrival_ms",
    writer: str | EllipsisType | None = ...,
    key: str | EllipsisType | None = ...,
    unit: Unit = "ms",
    format: str | None = None,
    encoding: str = "utf-8",
    form: Form | None = None,
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
    a file that is damaged or gone by then. Texts need wmlab on the executors. Raises `TraceError` for a file or an
    encoding that Spark does not read, and for a column that is not there, or has a type that is no time.
    """
    spark = the_session(spark)
    columns = Columns(
        event_time=event_time,
        arrival=arrival,
        writer=writer,
        key=key,
        unit=unit,
        encoding=encoding,
        format=format,
        form=form,
    )
    if not isinstance(line_breaks, bool | None):
        raise TraceError(f"line_breaks is {shown(line_breaks)}.", remedy="give True, False or None.")
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
    """Who held the least of all writers' newest event times, at every multiple of `every_ms` of arrival.

    `log` has the columns `event_time`, `arrival_ms` and `writer`, as `read_log` gives them. A writer counts from its
    first record on. One row a moment: `at_ms`, `writers` (known by then), `lower` (the least newest event time of
    them), `straggler` (the writer that holds it, the first in the alphabet of several) and `ahead_ms` (by how much
    the newest event of all is newer). What arrives at a multiple counts for it. `stragglers_over` sums it up.

    This asks whose events are oldest. `explain` of a recording that replays the log asks whose noted time holds the
    bound: a writer that is silent there goes on noting times and holds nothing. So it may name another, and says so.
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
    held = so_far.select("writer", "newest", each_moment)
    least = F.min(F.struct("newest", "writer"))
    return held.groupBy("at_ms").agg(
        F.count("*").alias("writers"),
        least["newest"].alias("lower"),
        least["writer"].alias("straggler"),
        (F.max("newest") - least["newest"]).alias("ahead_ms"),
    )


def _head(spark: SparkSession, local: Path, path: str, columns: Columns) -> Head:
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
    found = few.agg(F.collect_list(_decoded(_VALUE, encoding))).first()
    lines = tuple(found[0]) if found else ()
    return Head(lines, form or form_of(Path(first_file)) or form_of_text(path, lines))


def _decoded(column: str, encoding: str) -> Column:
    """The letters of a text that Spark has read as bytes."""
    return F.make_valid_utf8(column) if encoding == "utf-8" else F.decode(F.col(column).cast("binary"), encoding)


@dataclass(frozen=True)
class _Log:
    """A log that is to be read."""

    spark: SparkSession
    path: str
    wanted: Columns
    first_lines: Head
    line_breaks: bool | None

    def rows(self) -> DataFrame:
        """The rows of the log, as `read_log` gives them."""
        if self.first_lines.form == "parquet":
            raw = self.spark.read.parquet(self.path)
            columns = self._found(raw.columns, lambda name: raw.columns.count(_top(name, raw.columns)))
            if any(name not in raw.columns for name in columns.named):
                return self._of_nested_parquet(raw, columns)
            place = (F.col("_metadata.file_path"), F.col("_metadata.row_index"))
            return self._of_columns(raw.select("*", place[0].alias(_FILE), place[1].alias(_START)), columns, cut=False)
        columns = self._found(self.first_lines.names, self.first_lines.has)
        if self.first_lines.form == "json":
            return self._of_json(columns)
        place = (F.col("_metadata.file_path"), F.col("_metadata.file_block_start"))
        return self._of_columns(
            self._csv().select("*", place[0].alias(_FILE), place[1].alias(_START)), columns, cut=True
        )

    def _found(self, names: Sequence[str], has: Callable[[str], int]) -> Columns:
        return self.wanted.found_in(self.path, names, has)

    def _csv(self) -> DataFrame:
        """All columns as texts; `_corrupt_record` holds what is not a row."""
        sep = self.first_lines.delimiter
        names = next(csv.reader(self.first_lines.lines[:1], delimiter=sep), [])
        # By default Spark takes columns by their place, whatever the other files of a folder call them. It does not
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
        found = reader.csv(self.path).schema.add(_CORRUPT, "string")
        return reader.schema(found).csv(self.path)

    @property
    def _breaks_lines(self) -> bool:
        return self.first_lines.breaks_lines if self.line_breaks is None else self.line_breaks

    def _of_columns(self, raw: DataFrame, columns: Columns, *, cut: bool) -> DataFrame:
        """Rows of columns; `cut` says whether Spark numbers the blocks of a file and not its rows."""
        types = {field.name: field.dataType for field in raw.schema}
        texts = [name for name in dict.fromkeys((columns.event_time, columns.arrival)) if _is_text(types[name])]
        kinds = [times.kind_of(self._sample(raw, name), columns.format) for name in texts]
        if texts or cut:
            parse = _parser(kinds, columns.unit, columns.format)
            made = arrow_udf(parse, _struct_of(len(texts))).asNondeterministic()  # type: ignore[call-overload]
            given = (*map(_quoted_column, texts), F.col(_START), F.xxhash64(_FILE))
            raw = raw.withColumn(_TIMES, made(*given))
        found = {name: (F.col(f"{_TIMES}.ms{at}"), F.col(f"{_TIMES}.fault{at}")) for at, name in enumerate(texts)}
        for name in (columns.event_time, columns.arrival):
            if name not in found:
                kind, unit = types[name], columns.unit
                found[name] = (_time_ms(name, kind, unit), _fault_of(name, kind, unit))
        writer, key = _names(columns, log_name(Path(self.path)))
        bad_line = self._line_reason() if _CORRUPT in types else F.lit(None).cast("string")
        event, arrival = (found[name][0] for name in (columns.event_time, columns.arrival))
        reason = F.coalesce(
            bad_line,
            *(_of_column(name, found[name][1]) for name in dict.fromkeys((columns.event_time, columns.arrival))),
            *_other_reasons(columns, arrival, writer, key),
        )
        every = F.to_json(F.struct(*(_quoted(name) for name in types if name not in (_FILE, _START))))
        row = F.col(_START) + (F.col(f"{_TIMES}.index") if cut else 0) + 1
        return _made(raw, event, arrival, writer, key, reason, every, F.col(_FILE), row)

    def _line_reason(self) -> Column:
        """The reason of a line of CSV that is no row."""
        quotes = F.length(_CORRUPT) - F.length(F.replace(_CORRUPT, F.lit('"')))
        broken = F.lit(not self._breaks_lines) & (quotes % 2 == 1)
        reason = F.when(broken, F.lit(NO_ROW + _HINT)).otherwise(F.lit(NO_ROW))
        return F.when(F.col(_CORRUPT).isNotNull(), reason)

    def _of_json(self, columns: Columns) -> DataFrame:
        """Rows of documents, each of which may be several."""
        # Spark leaves the bytes of a text as they are; they are decoded where the documents are read.
        reader = self.spark.read.option("recursiveFileLookup", True)
        whole = self.first_lines.is_one_document
        raw = reader.text(self.path, wholetext=whole) if whole else reader.text(self.path, lineSep="\n")
        place = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.file_block_start").alias(_START))
        return self._of_documents(raw.select(F.col(_VALUE), *place), columns, self.first_lines.sample, cut=True)

    def _of_nested_parquet(self, raw: DataFrame, columns: Columns) -> DataFrame:
        tops = dict.fromkeys(_top(name, raw.columns) for name in columns.named)
        document = F.to_json(F.struct(*map(_quoted, tops)))
        place = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.row_index").alias(_START))
        documents = raw.select(document.alias(_VALUE), *place)
        first = documents.coalesce(1).limit(SAMPLE_ROWS).agg(F.collect_list(_VALUE)).first()
        head = Head(tuple(first[0]) if first else (), "json")
        return self._of_documents(documents, columns, head.sample, cut=False)

    def _of_documents(
        self, raw: DataFrame, columns: Columns, sample: Callable[[str], Sequence[str | None]], *, cut: bool
    ) -> DataFrame:
        kinds = {name: times.kind_of(sample(name), columns.format) for name in (columns.event_time, columns.arrival)}
        parse = _document_parser(columns, kinds, cut)
        made = arrow_udf(parse, _ROWS).asNondeterministic()  # type: ignore[call-overload]
        rows = raw.select(
            _VALUE, _FILE, F.explode(made(F.col(_VALUE).cast("binary"), F.col(_START), F.xxhash64(_FILE))).alias(_TIMES)
        )
        writer, key = (F.col(f"{_TIMES}.{name}") for name in ("writer", "key"))
        if columns.writer is None:
            writer = F.lit(log_name(Path(self.path)))
        if columns.key is None:
            key = writer
        event, arrival = F.col(f"{_TIMES}.event_time"), F.col(f"{_TIMES}.arrival_ms")
        reason = F.coalesce(F.col(f"{_TIMES}.reason"), *_other_reasons(columns, arrival, writer, key))
        text = _decoded(_VALUE, _encoding(columns))
        return _made(rows, event, arrival, writer, key, reason, text, F.col(_FILE), F.col(f"{_TIMES}.row"))

    def _sample(self, raw: DataFrame, name: str) -> Sequence[str | None]:
        """The first texts of a column."""
        if self.first_lines.form != "parquet":
            return self.first_lines.sample(name)
        first_file = min(raw.inputFiles(), default=self.path)
        few = self.spark.read.parquet(first_file).select(_quoted(name)).coalesce(1).limit(SAMPLE_ROWS)
        found = few.agg(F.collect_list(_quoted(name))).first()
        return list(found[0]) if found else []


_HINT: Final = "; a quoted text with a line break? line_breaks=True reads it"
_ROWS: Final = (
    "array<struct<event_time: long, arrival_ms: long, writer: string, key: string, reason: string, row: long>>"
)


def _made(rows: DataFrame, *columns: Column) -> DataFrame:
    """The answer: event time, arrival, writer, key, reason, text, file and row."""
    event, arrival, writer, key, reason, text, file, row = columns
    return rows.select(
        event.alias("event_time"),
        arrival.alias("arrival_ms"),
        writer.alias("writer"),
        key.alias("key"),
        reason.alias("reason"),
        F.when(reason.isNotNull(), text).alias("text"),
        file.alias("file"),
        row.alias("row"),
    )


def _names(columns: Columns, log: str) -> tuple[Column, Column]:
    """Writer and key of columns."""
    writer = _quoted_column(columns.writer).cast("string") if isinstance(columns.writer, str) else F.lit(log)
    return writer, _quoted_column(columns.key).cast("string") if isinstance(columns.key, str) else writer


def _of_column(name: str, fault: Column) -> Column:
    """The reason of a fault, null where there is none."""
    return F.concat(F.lit(f"column {name!r} "), fault)


def _other_reasons(columns: Columns, arrival: Column, writer: Column, key: Column) -> Iterator[Column]:
    """The reasons that are not about reading a time, in their order."""
    yield F.when(arrival < 0, F.lit(f"column {columns.arrival!r} {BEFORE_1970}"))
    for name, text in ((columns.writer, writer), (columns.key, key)):
        if isinstance(name, str):
            yield _of_column(
                name,
                F.when(text.isNull() | (text == ""), F.lit(NO_VALUE)).when(text.contains(LOST), F.lit(LOST_LETTER)),
            )


def _struct_of(count: int) -> str:
    """The type of what `_parser` gives."""
    fields = [f"ms{at}: long, fault{at}: string" for at in range(count)]
    return f"struct<{', '.join([*fields, 'index: long'])}>"


def _parser(kinds: Sequence[Kind], unit: Unit, time_format: str | None) -> Parser:
    """A function for the executors: of texts, the block and the file, the times and the row's index in the block."""
    faults = pa.array([fault or None for fault in times.FAULTS], pa.string())

    def parse(batches: Iterator[Batch]) -> Iterator[pa.Array]:
        count = _Counter()
        for *texts, starts, files in batches:
            fields, names = [], []
            for at, (column, kind) in enumerate(zip(texts, kinds, strict=True)):
                found = times.all_ms(column.cast(pa.string()), kind, unit, time_format)
                fields += [
                    pa.array(found.ms, mask=found.bad),
                    pa.DictionaryArray.from_arrays(pa.array(found.fault), faults).dictionary_decode(),
                ]
                names += [f"ms{at}", f"fault{at}"]
            index = pa.array(count.next_rows(_as_longs(files), _as_longs(starts)))
            yield pa.StructArray.from_arrays([*fields, index], [*names, "index"])

    return parse


class _Counter:
    """Numbers rows from 0, in each block anew; the rows of a block come one after the other."""

    def __init__(self) -> None:
        self._block: tuple[int, int] | None = None
        self._next = 0

    def next_rows(self, files: times.Longs, starts: times.Longs) -> times.Longs:
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


def _as_longs(array: pa.Array) -> times.Longs:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _document_parser(columns: Columns, kinds: dict[str, Kind], cut: bool) -> Parser:
    """A function for the executors: of documents, the block (or the row) and the file, lists of rows as `_ROWS` has."""
    named = columns.named
    reader = nested.Reader(named)

    def parse(batches: Iterator[Batch]) -> Iterator[pa.Array]:
        count = _Counter()
        for documents, starts, files in batches:
            offsets: list[int] = [0]
            rows: list[nested.Row] = []
            for content in documents.to_pylist():
                text = (content or b"").decode(columns.encoding, "surrogateescape")
                rows += reader.rows(text.removeprefix("\ufeff"))
                offsets.append(len(rows))
            document = np.repeat(np.arange(len(documents)), np.diff(offsets))
            file, start = _as_longs(files)[document], _as_longs(starts)[document]
            numbers = start + 1 + (count.next_rows(file, start) if cut else 0)
            yield pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _rows_array(rows, numbers, columns, kinds))

    return parse


def _rows_array(
    rows: list[nested.Row], numbers: times.Longs, columns: Columns, kinds: dict[str, Kind]
) -> pa.StructArray:
    values = zip(*(row.values for row in rows), strict=True) if rows else [[] for _ in columns.named]
    by_name = {name: pa.array(texts, pa.string()) for name, texts in zip(columns.named, values, strict=True)}
    nothing = pa.nulls(len(rows), pa.string())
    reasons = [None if row.fault is None else _line_reason(*row.fault) for row in rows]
    found = []
    for name in (columns.event_time, columns.arrival):
        column = times.all_ms(by_name[name], kinds[name], columns.unit, columns.format)
        for at in column.bad.nonzero()[0]:
            reasons[at] = reasons[at] or f"column {name!r} {times.FAULTS[column.fault[at]]}"
        found.append(pa.array(column.ms, mask=column.bad))
    names = [by_name[name] if isinstance(name, str) else nothing for name in (columns.writer, columns.key)]
    return pa.StructArray.from_arrays(
        [*found, *names, pa.array(reasons, pa.string()), pa.array(numbers, pa.int64())],
        ["event_time", "arrival_ms", "writer", "key", "reason", "row"],
    )


def _line_reason(column: str | None, fault: str) -> str:
    return fault if column is None else f"column {column!r} {fault}"


def _top(name: str, names: Sequence[str]) -> str:
    """The column that a name or a path begins with."""
    return name if name in names else str(nested.steps_of(name)[0])


def _encoding(columns: Columns) -> str:
    """The encoding as Spark calls it; raises `TraceError` for one in which it does not find the ends of lines."""
    with suppress(LookupError):
        return {"utf-8": "utf-8", "iso8859-1": "iso-8859-1"}[codecs.lookup(columns.encoding).name]
    raise TraceError(
        f"Spark reads no text in {columns.encoding!r} line by line.",
        remedy="give encoding='utf-8' or 'latin-1', or write the log in one of them.",
    )


def _is_text(kind: DataType) -> bool:
    return kind.typeName() in ("string", "varchar", "char")


def _time_ms(name: str, kind: DataType, unit: Unit) -> Column:
    """A column of numbers or timestamps in whole milliseconds since 1970; null where it is beyond 64 bits."""
    column, (ms, ticks) = _quoted(name), MS_PER_TICK[unit]
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return F.expr(f"unix_millis(try_cast({column} as timestamp))")
    if isinstance(kind, FractionalType):
        return F.expr(f"try_cast(bround(try_cast({column} as double) * {ms}d / {ticks}d) as bigint)")
    if isinstance(kind, IntegralType):
        given = f"try_multiply(try_cast({column} as bigint), {ms}l)"
        # `div` cuts towards 0; before 1970 that is later.
        return F.expr(given if ticks == 1 else f"try_subtract({given}, pmod({given}, {ticks}l)) div {ticks}l")
    raise TraceError(
        f"column {name!r} holds {kind.simpleString()}, not times.",
        remedy="give numbers since 1970 with their unit=, or dates and times, as texts or timestamps.",
    )


def _fault_of(name: str, kind: DataType, unit: Unit) -> Column:
    """What is wrong with a number or a timestamp; null: nothing."""
    column = _quoted_column(name)
    fault = F.when(column.isNull(), F.lit(NO_VALUE))
    if isinstance(kind, FractionalType):
        number = column.cast("double")
        fault = fault.when(F.isnan(number) | (F.abs(number) == float("inf")), F.lit(NOT_FINITE))
    return fault.when(_time_ms(name, kind, unit).isNull(), F.lit(TOO_LARGE))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quoted_column(name: Any) -> Column:
    return F.col(_quoted(name))
