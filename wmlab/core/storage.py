"""The files of a recording: a directory with `recording.json` and one Parquet dataset per table.

    <recording>/recording.json              what was run, and the row count of every table
    <recording>/<table>/part-0.parquet      one for every table of its kind, empty ones included

`write` fills a hidden directory next to the final name and renames it into place, so that a recording exists
whole or not at all. Opening one checks version, schemas and counts by the files' footers; rows are read when a
table is first asked for. Equal recordings give equal bytes: nothing written depends on the clock, on the
machine, or on how the tables were chunked in memory.

A table that grows beyond one row group during a run lies in a scratch directory, and is moved from there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from wmlab.core import files, schemas
from wmlab.core.errors import RecordingError
from wmlab.core.schemas import MANIFEST_FILE, MOST_BYTES, Manifest, damaged

PART_FILE: Final = "part-0.parquet"
"""The one file of a table's dataset."""

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
    """One table on disk, as it was when the recording was read; `scratch` is where it lies until it is saved.

    Raises `OSError` without the file.
    """

    name: str
    file: Path
    schema: pa.Schema
    num_rows: int
    scratch: Scratch | None = None
    stamp: tuple[int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stamp", _stamp(self.file))

    def load(self) -> pa.Table:
        """All rows, in the schema; raises `RecordingError` if the file changed or is damaged."""
        return pa.concat_tables(self.chunks()).combine_chunks()

    def chunks(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, one row group after the other, of all columns or of these; raises as `load`."""
        try:
            if _stamp(self.file) != self.stamp:
                raise RecordingError(
                    f"table {self.name!r} was replaced on disk after this recording was read: {self.file}.",
                    remedy="read the recording again with Recording.read.",
                )
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


def write(path: str | Path, manifest: Manifest, tables: RecordedTables, *, overwrite: bool = False) -> Path:
    """Write a recording next to its name, rename it into place, and return its absolute path.

    `overwrite` replaces an older recording and nothing else; between the two renames of a replacement the name is
    empty for an instant. On any failure the name is as it was before and no partial directory remains.
    Raises `RecordingError` if something stands in the way or the files cannot be written.
    """
    target = writable_path(path, overwrite=overwrite)
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
        _rename_into(scratch.path, target)
    except OSError as failure:
        raise RecordingError(
            f"the recording cannot be written to {target}: {failure}.",
            remedy="choose a directory that you may write to, with room for the recording.",
        ) from failure
    finally:
        if scratch is not None:
            scratch.remove()
    return target


def writable_path(path: str | Path, *, overwrite: bool | None = None) -> Path:
    """The absolute path of a recording that is to be written to `path`.

    Raises `RecordingError` if nothing can be written there, or if something is there already; with `overwrite`, if that
    is not a recording or holds more than one. Where nothing may be overwritten, `overwrite` is None.
    """
    target = files.as_path(path, RecordingError).resolve()
    if target.exists():
        if not overwrite:
            remedy = "choose another path or move it away."
            if overwrite is not None:
                remedy = "choose another path, move it away, or save with overwrite=True."
            raise RecordingError(f"{target} exists already.", remedy=remedy)
        _require_nothing_else(target)
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


def tables_at(target: Path, manifest: Manifest, schemas: Mapping[str, pa.Schema]) -> tuple[Manifest, RecordedTables]:
    """The tables of the recording at `target`, and its manifest with the tables in this order.

    Raises `RecordingError` for damage to tables, gathered, one line per table.
    """
    manifest = manifest.of_tables(schemas, where=str(target / MANIFEST_FILE))
    stored: dict[str, StoredTable] = {}
    damage: list[str] = []
    for name, rows in manifest.rows:
        dataset = target / name
        problem = _table_damage(dataset, schemas[name], rows)
        if problem:
            damage.append(f"table {name!r} {problem}")
        else:
            stored[name] = StoredTable(name, dataset / PART_FILE, schemas[name], rows)
    if damage:
        raise damaged(f"the recording at {target} is damaged: {'; '.join(damage)}.")
    return manifest, RecordedTables(stored)


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


def _rename_into(partial: Path, target: Path) -> None:
    if not target.exists():
        partial.rename(target)
        return
    old = partial.with_suffix(".old")
    target.rename(old)
    try:
        partial.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _require_nothing_else(target: Path) -> None:
    """Raise `RecordingError` unless there is a recording at `target`, and nothing else."""
    try:
        content = Manifest.require_ours(_manifest_text(target), where=str(target / MANIFEST_FILE))
    except RecordingError as foreign:
        raise RecordingError(
            f"{target} exists and is not a recording; it stays untouched.", remedy="choose another path."
        ) from foreign
    ours = {target / MANIFEST_FILE, *(target / name / PART_FILE for name in content.get("rows") or ())}
    others = sorted(
        str(p.relative_to(target)) for p in target.rglob("*") if p.is_file() and p not in ours and p.name[0] != "."
    )
    if others:
        raise RecordingError(
            f"the recording at {target} also holds {', '.join(others)}; overwriting would delete that.",
            remedy="move those files away, or choose another path.",
        )


def _stamp(file: Path) -> tuple[int, int, int]:
    """Inode, size and modification time: enough to notice that another file took the name."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns
