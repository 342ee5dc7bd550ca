"""Recordings of schema version 1, which had the tables of all kinds, some of them under other names."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from wmlab.core.manifest import SCHEMA_VERSION
from wmlab.open import read_recording

STORED: dict[str, dict[str, int]] = {
    "streams": {"segments": 3, "incidents": 1, "writer_marks": 7, "watermarks": 3, "watermark_index": 3},
    "progress": {"buffers": 1, "incidents": 0},
}


def unpacked(kind: str, into: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name(f"version_1_{kind}.zip")) as stored:
        stored.extractall(into / kind)
    return into / kind


@pytest.mark.parametrize("kind", STORED)
def test_it_is_read_as_the_kind_that_it_is_of(kind: str, tmp_path: Path) -> None:
    run = read_recording(unpacked(kind, tmp_path))
    assert (run.kind, run.manifest.schema_version) == (kind, SCHEMA_VERSION)
    assert list(run.counts) == list(run.schemas)
    for table, schema in run.schemas.items():
        assert run.table(table).schema.equals(schema), table
        assert run.table(table).num_rows == run.counts[table]
    for table, rows in STORED[kind].items():
        assert run.counts[table] == rows
    assert run.explain() is not None


def test_it_is_saved_in_the_present_version(tmp_path: Path) -> None:
    old = read_recording(unpacked("streams", tmp_path))
    new = read_recording(old.save(tmp_path / "again").path)
    assert new == old
    assert not (tmp_path / "again" / "buffers").exists()


def test_spark_reads_it_by_the_present_names(tmp_path: Path, spark: SparkSession) -> None:
    run = read_recording(unpacked("streams", tmp_path))
    for table in run.schemas:
        rows = run.spark(spark, table).toArrow().cast(run.schemas[table])
        assert rows.to_pylist() == run.table(table).to_pylist(), table
    assert run.time_bounds(spark).count() > 0
