"""How a recording lies on disk: a directory with `recording.json` and one Parquet dataset per table.

    <recording>/recording.json              what was run, and the row count of every table
    <recording>/<table>/part-0.parquet      one for every table of its kind, empty ones included

`write` fills a hidden directory beside the final name and renames it into place, so that a recording exists
whole or not at all. `read` checks version, schemas and counts from the files' footers; rows are read when a
table is first asked for. Equal recordings give equal bytes: nothing written depends on the clock, on the
machine, or on how the tables were chunked in memory.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from wmlab.core import files
from wmlab.core.columns import without_added
from wmlab.core.errors import RecordingError
from wmlab.core.manifest import MANIFEST_FILE, MOST_BYTES, VERSION_1, Manifest

PART_FILE: Final = "part-0.parquet"
"""The one file of a table's dataset."""

_DAMAGE: Final = (OSError, pa.ArrowException, ValueError, LookupError, OverflowError, MemoryError)
"""What pyarrow raises for files that are damaged."""
_RECORD_AGAIN: Final = "record or copy the whole directory again."


@dataclass(frozen=True, slots=True)
class StoredTable:
    """One table on disk, as it was when the recording was read."""

    name: str
    file: Path
    schema: pa.Schema
    stamp: tuple[int, int, int]

    @classmethod
    def at(cls, name: str, file: Path, schema: pa.Schema) -> StoredTable:
        """The table `name` in `file`, which must exist (`OSError`)."""
        return cls(name, file, schema, _stamp(file))

    def load(self) -> pa.Table:
        """All rows, in the schema; raises `RecordingError` if the file changed or is damaged."""
        try:
            if _stamp(self.file) != self.stamp:
                raise RecordingError(
                    f"table {self.name!r} was replaced on disk after this recording was read: {self.file}.",
                    remedy="read the recording again with Recording.read.",
                )
            with pq.ParquetFile(self.file, page_checksum_verification=True) as parquet:
                written = parquet.read()
                present = without_added(self.schema, written.column_names)
                rows = written.rename_columns(present.names).cast(present)
                # Columns that were added later are null.
                return pa.concat_tables([self.schema.empty_table(), rows], promote_options="default").combine_chunks()
        except _DAMAGE as damage:
            raise RecordingError(
                f"table {self.name!r} cannot be read from {self.file}: {damage}.", remedy=_RECORD_AGAIN
            ) from damage


class Tables(Mapping[str, pa.Table]):
    """The tables of one recording by name; those on disk are read when first used."""

    __slots__ = ("_loaded", "_stored")

    def __init__(self, loaded: Mapping[str, pa.Table], stored: Mapping[str, StoredTable] | None = None) -> None:
        self._loaded = dict(loaded)
        self._stored = dict(stored or {})

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._loaded and name in self._stored:
            self._loaded[name] = self._stored[name].load()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._stored, *self._loaded]))

    def __len__(self) -> int:
        return len(self._loaded.keys() | self._stored.keys())

    def __repr__(self) -> str:
        return f"Tables({', '.join(self)})"


def write(path: str | Path, manifest: Manifest, tables: Mapping[str, pa.Table], *, overwrite: bool = False) -> Path:
    """Write a recording beside its name, rename it into place, and return its absolute path.

    `overwrite` replaces an older recording and nothing else; between the two renames of a replacement the name is
    empty for an instant. On any failure the name is as it was before and no partial directory remains.
    Raises `RecordingError` if something stands in the way or the files cannot be written.
    """
    target = files.as_path(path, RecordingError).resolve()
    if target.exists():
        _require_replaceable(target, overwrite=overwrite)
    partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
    try:
        partial.mkdir(parents=True)
        for name, _ in manifest.rows:
            _write_table(partial / name, tables[name])
        _write_text(partial / MANIFEST_FILE, manifest.to_json())
        _put_in_place(partial, target)
    except OSError as failure:
        raise RecordingError(
            f"the recording cannot be written to {target}: {failure}.",
            remedy="choose a directory that you may write to, with room for the recording.",
        ) from failure
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def require_free(path: str | Path) -> None:
    """Raise `RecordingError` unless a recording can be written to `path`, where nothing may stand yet."""
    target = files.as_path(path, RecordingError).resolve()
    if target.exists():
        raise RecordingError(f"{target} exists already.", remedy="choose another path, or move it away.")
    above = next(parent for parent in target.parents if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise RecordingError(
            f"the recording cannot be written to {target}: {above} is no directory that can be written to.",
            remedy="choose a directory that you may write to.",
        )


def manifest_at(path: str | Path) -> tuple[Path, Manifest]:
    """The absolute path and the manifest of the recording at `path`.

    Raises `RecordingError` if it is missing, foreign, of another schema version, or damaged.
    """
    target = files.as_path(path, RecordingError).resolve()
    if not target.exists():
        raise RecordingError(f"there is no recording at {target}.", remedy="check the path.")
    return target, Manifest.from_json(_manifest_text(target), where=str(target / MANIFEST_FILE))


def tables_at(target: Path, manifest: Manifest, schemas: Mapping[str, pa.Schema]) -> tuple[Manifest, Tables]:
    """The tables of the recording at `target`, and its manifest with just these tables.

    A recording of schema version 1 has the tables of all kinds, those of others empty, which are left out. Raises
    `RecordingError` for damage to tables, gathered, one line per table.
    """
    former = VERSION_1 if manifest.schema_version == 1 else {}
    manifest = manifest.of_tables(schemas, where=str(target / MANIFEST_FILE))
    stored: dict[str, StoredTable] = {}
    damage: list[str] = []
    for name, rows in manifest.rows:
        dataset = target / former.get(name, name)
        written = pa.schema([column.with_name(former.get(column.name, column.name)) for column in schemas[name]])
        problem = _table_damage(dataset, written, rows)
        if problem:
            damage.append(f"table {name!r} {problem}")
        else:
            stored[name] = StoredTable.at(name, dataset / PART_FILE, schemas[name])
    if damage:
        raise RecordingError(f"the recording at {target} is damaged: " + "; ".join(damage) + ".", remedy=_RECORD_AGAIN)
    return manifest, Tables({}, stored)


def _manifest_text(directory: Path) -> str:
    try:
        return files.read_text(directory / MANIFEST_FILE, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as absent:
        raise RecordingError(
            f"{directory} is not a recording: it has no {MANIFEST_FILE}.",
            remedy="give the directory that Recording.save wrote, not one above or inside it.",
        ) from absent
    except (OSError, UnicodeDecodeError) as failure:
        raise RecordingError(
            f"{directory / MANIFEST_FILE} cannot be read: {failure}.", remedy=_RECORD_AGAIN
        ) from failure


def _table_damage(dataset: Path, schema: pa.Schema, rows: int) -> str:
    """What is wrong with a table on disk, judged by its footer; empty when nothing is."""
    file = dataset / PART_FILE
    if not file.is_file():
        return f"is missing: {dataset.name}/{PART_FILE} does not exist"
    others = sorted(p.name for p in dataset.iterdir() if p.name != PART_FILE and p.name[0] not in "._")
    if others:
        return f"holds files beside {PART_FILE}: {', '.join(others)}"
    try:
        with pq.ParquetFile(file) as parquet:
            found, found_rows = parquet.schema_arrow, parquet.metadata.num_rows
    except _DAMAGE as failure:
        return f"is truncated or not Parquet ({failure})"
    if not found.equals(without_added(schema, found.names)):
        return f"has wrong columns: {describe(found)}; expected {describe(schema)}"
    if found_rows != rows:
        return f"has {found_rows} rows where {MANIFEST_FILE} counts {rows}"
    return ""


def describe(schema: pa.Schema) -> str:
    """The columns of a schema in one line: `writer string, sealed_ms int64 or null`."""
    return ", ".join(f"{column.name} {column.type}{' or null' if column.nullable else ''}" for column in schema)


def _write_table(dataset: Path, table: pa.Table) -> None:
    """Write one dataset; page checksums let a reader notice damage inside the file as well."""
    dataset.mkdir()
    # Times and offsets rise with the row: their differences are small, which delta packing turns into half the bytes.
    longs = [c.name for c in table.schema if c.type == pa.int64() and c.name != "segment_id"]
    repeating = [c.name for c in table.schema if c.type == pa.string() or c.name == "segment_id"]
    with (dataset / PART_FILE).open("wb") as file:
        pq.write_table(
            table,
            file,
            compression="zstd",
            use_dictionary=repeating,
            column_encoding=dict.fromkeys(longs, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
        )
        _flush(file)


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        _flush(file)


def _flush(file: Any) -> None:
    """To the disk before the rename: a power cut must not leave a whole name with empty files."""
    file.flush()
    os.fsync(file.fileno())


def _put_in_place(partial: Path, target: Path) -> None:
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


def _require_replaceable(target: Path, *, overwrite: bool) -> None:
    """Only a recording may be overwritten, and only one that holds nothing else."""
    if not overwrite:
        raise RecordingError(f"{target} exists already.", remedy="choose another path, or pass overwrite=True.")
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
