"""The files of a recording: a directory with `recording.json` and one Parquet dataset per table.

    <recording>/recording.json              what was run, and the row count of every table
    <recording>/<table>/part-0.parquet      one for every table of its kind, empty ones included

`write` fills a hidden directory next to the final name and renames it into place, so that a recording exists
whole or not at all. Opening one checks version, schemas and counts by the files' footers; rows are read when a
table is first asked for. Equal recordings give equal bytes: nothing written depends on the clock, on the
machine, or on how the tables were chunked in memory. So two runs of one scenario with one seed have equal manifests.

A table that grows beyond one row group during a run lies in a scratch directory, and is linked from there.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, TypeAdapter, ValidationError

from wmlab.core import files, schemas
from wmlab.core.errors import RecordingError
from wmlab.core.mistakes import problems_of

PART_FILE: Final = "part-0.parquet"
"""The one file of a table's dataset."""
MANIFEST_FILE: Final = "recording.json"
"""The file that makes a directory a recording."""

MOST_BYTES: Final = 64 * 2**20
"""How large that file may be."""

SCHEMA_VERSION: Final = 6
"""Raised whenever a table has other columns, or a column changes meaning, type or name."""

_FORMAT: Final = "wmlab recording"
_FIELDS: Final = ("wmlab_version", "kind", "name", "seed")
"""The fields that the file has as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was run and what came of it.

    `kind` is the model that it is a recording of, for example "streams"; `scenario_json` is the scenario as JSON text,
    None if there was none; `rows` is the row count of every table of that kind; `wmlab_version` is None when an
    uninstalled wmlab recorded it.
    """

    name: Annotated[str, Field(min_length=1)]
    kind: Annotated[str, Field(min_length=1)]
    scenario_json: str | None
    seed: Annotated[int, Field(strict=True)] | None
    rows: tuple[tuple[str, Annotated[int, Field(ge=0, strict=True)]], ...]
    wmlab_version: str | None

    @property
    def scenario(self) -> dict[str, Any] | None:
        """The scenario as plain data, a fresh copy at each call; None if there was none."""
        return None if self.scenario_json is None else json.loads(self.scenario_json)

    def to_json(self) -> str:
        """The text of `recording.json`."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        known = {"format": _FORMAT, "schema_version": SCHEMA_VERSION, **fields}
        content = known | {"rows": dict(self.rows), "scenario": self.scenario}
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Manifest:
        """Parse `recording.json`; `where` names the file in errors.

        Raises `RecordingError`: broken JSON, foreign file, other schema version, or fields that are wrong.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as broken:
            raise damaged(f"{where} is broken JSON: {broken}.") from broken
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise RecordingError(
                f"{where} was not written by wmlab.", remedy="give a directory that Recording.save wrote."
            )
        if content.get("schema_version") != SCHEMA_VERSION:
            raise _other_version(content.get("schema_version"), where)
        missing = [key for key in (*_FIELDS, "rows", "scenario") if key not in content]
        if missing or not isinstance(content["rows"], dict) or not isinstance(content["scenario"], dict | None):
            wrong = f"it lacks {', '.join(missing)}" if missing else "its rows or its scenario are not an object"
            raise damaged(f"{where} is damaged: {wrong}.")
        fields = {name: content[name] for name in _FIELDS} | {"rows": tuple(content["rows"].items())}
        fields["scenario_json"] = scenario_text(content["scenario"])
        try:
            return TypeAdapter(cls).validate_python(fields)
        except ValidationError as wrong:
            raise damaged(f"{where} is damaged: {'; '.join(map(str, problems_of(wrong, fields, cls)))}.") from wrong


def damaged(problem: str) -> RecordingError:
    """The error of a recording that is not as it was written."""
    return RecordingError(problem, remedy="record or copy the whole directory again.")


def scenario_text(scenario: Mapping[str, Any] | None) -> str | None:
    """A scenario as canonical JSON text; raises `RecordingError` if it is not plain JSON data."""
    try:
        return None if scenario is None else json.dumps(scenario, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as wrong:
        raise RecordingError(
            f"the scenario is not plain data: {wrong}.",
            remedy="give a dict of texts, numbers, booleans, None, lists and dicts.",
        ) from wrong


def installed_version() -> str | None:
    """The version of wmlab that is running; None when it runs from a directory without being installed."""
    try:
        return importlib.metadata.version("wmlab")
    except importlib.metadata.PackageNotFoundError:
        return None


def _other_version(version: object, where: str) -> RecordingError:
    if type(version) is not int:
        return damaged(f"{where} is damaged: schema_version is {version!r}, which is not a whole number.")
    if version > SCHEMA_VERSION:
        return RecordingError(
            f"{where} has schema version {version}, newer than {SCHEMA_VERSION}, the newest this wmlab reads.",
            remedy="install a newer wmlab.",
        )
    return RecordingError(
        f"{where} was recorded by an older wmlab: it has schema version {version}, this one reads {SCHEMA_VERSION}.",
        remedy="record its scenario again.",
    )


_DAMAGE: Final = (OSError, pa.ArrowException, ValueError, LookupError, OverflowError, MemoryError)
"""What pyarrow raises for files that are damaged."""


_UNTIL_EXIT: Final[list[Scratch]] = []


class Scratch:
    """A hidden directory on the file system of `beside` (None: that of temporary files), while this exists.

    Everything is written there first: finished files are renamed, and unfinished ones are removed with it.
    """

    def __init__(self, beside: Path | None) -> None:
        above = Path(tempfile.gettempdir()) if beside is None else _nearest_directory(beside)
        self.path = above / f".wmlab.{secrets.token_hex(4)}.partial"
        self.path.mkdir()
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def keep(self) -> None:
        """Let it exist until the process ends, since Spark reads from it when it likes."""
        _UNTIL_EXIT.append(self)


@dataclass(frozen=True, slots=True)
class StoredTable:
    """One table on disk; `scratch` is where it lies until it is saved."""

    name: str
    file: Path
    schema: pa.Schema
    num_rows: int
    scratch: Scratch | None = None

    def load(self) -> pa.Table:
        """All rows, in the schema; raises `RecordingError` if the file is gone or damaged."""
        return pa.concat_tables(self.chunks()).combine_chunks()

    def chunks(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, one row group after the other, of all columns or of these; raises as `load`."""
        try:
            with pq.ParquetFile(self.file, page_checksum_verification=True) as parquet:
                wanted = pa.schema([column for column in self.schema if names is None or column.name in names])
                yield wanted.empty_table()
                for group in range(parquet.num_row_groups):
                    yield parquet.read_row_group(group, wanted.names).cast(wanted)
        except _DAMAGE as damage:
            raise damaged(f"table {self.name!r} cannot be read from {self.file}: {damage}.") from damage


class RecordedTables(Mapping[str, pa.Table]):
    """The tables of one recording by name; those on disk are read when first used."""

    __slots__ = ("_tables",)

    def __init__(self, tables: Mapping[str, pa.Table | StoredTable]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> pa.Table:
        table = self._tables[name]
        if isinstance(table, StoredTable):
            self._tables[name] = table = table.load()
        return table

    def chunks(self, name: str, names: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of a table part by part; one on disk that was not asked for as a whole stays there."""
        table = self._tables[name]
        return table.chunks(names) if isinstance(table, StoredTable) else iter([table.select(list(names))])

    def in_scratch(self, name: str) -> StoredTable | None:
        """The table `name` if it has left memory and is not saved yet."""
        table = self._tables.get(name)
        return table if isinstance(table, StoredTable) and table.scratch is not None else None

    def saved(self, target: Path) -> RecordedTables:
        """These tables once they are saved at `target`."""
        moved = {
            name: StoredTable(name, target / name / PART_FILE, stored.schema, stored.num_rows)
            for name in self
            if (stored := self.in_scratch(name)) is not None
        }
        return RecordedTables(self._tables | moved)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        return f"Tables({', '.join(self)})"


class GrowingTable:
    """A table that grows at its end; of its rows never more than a row group and one addition are in memory.

    What is more lies in a scratch directory on the file system of `beside`. Raises `RecordingError` if a disk refuses.
    """

    def __init__(self, name: str, schema: pa.Schema, beside: Path | None) -> None:
        self._name = name
        self._beside = beside
        self._waiting = schema.empty_table()
        self._num_rows = 0
        self._stored: tuple[Scratch, pq.ParquetWriter] | None = None

    def append(self, rows: pa.Table) -> None:
        """Add rows at the end."""
        self._num_rows += rows.num_rows
        self._waiting = pa.concat_tables([self._waiting, rows])
        while self._waiting.num_rows > schemas.ROW_GROUP:
            self._write(self._waiting.slice(0, schemas.ROW_GROUP))
            self._waiting = self._waiting.slice(schemas.ROW_GROUP)

    def finish(self) -> pa.Table | StoredTable:
        """The whole table: in memory if it is one row group, and otherwise on disk."""
        if self._stored is None:
            return self._waiting.combine_chunks()
        self._write(self._waiting)
        scratch, writer = self._stored
        writer.close()
        self._stored = None
        return StoredTable(self._name, scratch.path / PART_FILE, self._waiting.schema, self._num_rows, scratch)

    def discard(self) -> None:
        """Remove what is on disk."""
        if self._stored is not None:
            self._stored[0].remove()

    def _write(self, rows: pa.Table) -> None:
        try:
            if self._stored is None:
                scratch, options = Scratch(self._beside), _parquet_options(rows.schema)
                self._stored = scratch, pq.ParquetWriter(scratch.path / PART_FILE, rows.schema, **options)
            self._stored[1].write_table(rows.combine_chunks(), schemas.ROW_GROUP)
        except OSError as failure:
            raise RecordingError(
                f"the {self._name} of the run cannot be kept on disk: {failure}.",
                remedy="record to a directory that you may write to, with room for the recording.",
            ) from failure


def write(path: str | Path, manifest: Manifest, tables: RecordedTables) -> Path:
    """Write a recording next to its name, rename it into place, and return its absolute path.

    On any failure nothing of it remains. Raises `RecordingError` if something stands in the way or the files cannot be
    written.
    """
    target = writable_path(path)
    scratch: Scratch | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Scratch(target)
        for name, _ in manifest.rows:
            (scratch.path / name).mkdir()
            stored = tables.in_scratch(name)
            _put(scratch.path / name / PART_FILE, tables[name] if stored is None else stored)
        (scratch.path / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8", newline="\n")
        _to_disk(scratch.path / MANIFEST_FILE)
        scratch.path.rename(target)
    except OSError as failure:
        raise RecordingError(
            f"the recording cannot be written to {target}: {failure}.",
            remedy="choose a directory that you may write to, with room for the recording.",
        ) from failure
    finally:
        if scratch is not None:
            scratch.remove()
    return target


def writable_path(path: str | Path) -> Path:
    """The absolute path of a recording that is to be written to `path`.

    Raises `RecordingError` if nothing can be written there, or if something is there already.
    """
    target = files.as_path(path, RecordingError).resolve()
    if target.exists():
        raise RecordingError(f"{target} exists already.", remedy="choose another path or move it away.")
    above = _nearest_directory(target)
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise RecordingError(
            f"the recording cannot be written to {target}: {above} is not a directory that can be written to.",
            remedy="choose a directory that you may write to.",
        )
    return target


def _nearest_directory(path: Path) -> Path:
    """The lowest of the directories above a path that exists."""
    return next(parent for parent in path.parents if parent.exists())


def manifest_at(path: str | Path) -> tuple[Path, Manifest]:
    """The absolute path and the manifest of the recording at `path`.

    Raises `RecordingError` if it is missing, foreign, of another schema version, or damaged.
    """
    target = files.as_path(path, RecordingError).resolve()
    if not target.exists():
        raise RecordingError(f"there is no recording at {target}.", remedy="check the path.")
    return target, Manifest.from_json(_manifest_text(target), where=str(target / MANIFEST_FILE))


def tables_at(target: Path, manifest: Manifest, schemas: Mapping[str, pa.Schema]) -> RecordedTables:
    """The tables of the recording at `target`.

    Raises `RecordingError` if the manifest counts other tables, and for damage to tables, one line per table.
    """
    counts = dict(manifest.rows)
    if counts.keys() != schemas.keys():
        wrong = f"rows is {counts!r}, expected a count for each of {list(schemas)}"
        raise damaged(f"{target / MANIFEST_FILE} is damaged: {wrong}.")
    problems = {name: _table_damage(target / name, schemas[name], counts[name]) for name in schemas}
    if damage := [f"table {name!r} {problem}" for name, problem in problems.items() if problem]:
        raise damaged(f"the recording at {target} is damaged: {'; '.join(damage)}.")
    return RecordedTables(
        {name: StoredTable(name, target / name / PART_FILE, schema, counts[name]) for name, schema in schemas.items()}
    )


def _manifest_text(directory: Path) -> str:
    try:
        return files.read_text(directory / MANIFEST_FILE, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as absent:
        is_file = directory.is_file()
        raise RecordingError(
            f"{directory} is not a recording: it {'is a file' if is_file else f'has no {MANIFEST_FILE}'}.",
            remedy="give the directory that Recording.save wrote"
            + ("; a scenario is recorded first." if is_file else ", not one above or inside it."),
        ) from absent
    except (OSError, UnicodeDecodeError) as failure:
        raise damaged(f"{directory / MANIFEST_FILE} cannot be read: {failure}.") from failure


def _table_damage(dataset: Path, schema: pa.Schema, rows: int) -> str:
    """What is wrong with a table on disk, judged by its footer; empty when nothing is."""
    file = dataset / PART_FILE
    if not file.is_file():
        return f"is missing: {dataset.name}/{PART_FILE} does not exist"
    others = sorted(p.name for p in dataset.iterdir() if p.name != PART_FILE and p.name[0] not in "._")
    if others:
        return f"holds files besides {PART_FILE}: {', '.join(others)}"
    try:
        with pq.ParquetFile(file) as parquet:
            written, written_rows = parquet.schema_arrow, parquet.metadata.num_rows
    except _DAMAGE as failure:
        return f"is truncated or not Parquet ({failure})"
    if not written.equals(schema):
        return f"has wrong columns: {columns_in_words(written)}; expected {columns_in_words(schema)}"
    if written_rows != rows:
        return f"has {written_rows} rows where {MANIFEST_FILE} counts {rows}"
    return ""


def columns_in_words(schema: pa.Schema) -> str:
    """The columns of a schema in one line: `writer string, sealed_ms int64 or null`."""
    return ", ".join(f"{column.name} {column.type}{' or null' if column.nullable else ''}" for column in schema)


def _put(file: Path, table: pa.Table | StoredTable) -> None:
    """Write a table; one that is finished on disk gets a second name, or is copied where it cannot have one."""
    if isinstance(table, pa.Table):
        pq.write_table(table, file, row_group_size=schemas.ROW_GROUP, **_parquet_options(table.schema))
    else:
        try:
            os.link(table.file, file)
        except OSError:
            shutil.copyfile(table.file, file)
    _to_disk(file)


def _parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """How tables of the schema are written; page checksums let a reader notice damage inside the file as well."""
    # Times and offsets rise with the row: their differences are small, which delta packing turns into half the bytes.
    longs = [c.name for c in schema if c.type == pa.int64() and c.name != "segment_id"]
    repeating = [c.name for c in schema if c.type == pa.string() or c.name == "segment_id"]
    return {
        "compression": "zstd",
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(longs, "DELTA_BINARY_PACKED"),
        "write_page_checksum": True,
    }


def _to_disk(file: Path) -> None:
    """Before the rename: a power cut must not leave a whole name with empty files."""
    with file.open("r+b") as written:
        os.fsync(written.fileno())
