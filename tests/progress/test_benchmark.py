"""The case `progress` of the benchmarks asks everybody the same, and gets the same answer."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from benchmarks.progress import LOCALS, _duckdb, _scan, _wmlab
from benchmarks.progress_data import SLOTS, write_buffers


@pytest.mark.parametrize("local", LOCALS)
def test_wmlab_duckdb_and_the_yardstick_read_the_same_buffers(spark: SparkSession, tmp_path: Path, local: str) -> None:
    buffers = tmp_path / "buffers"
    write_buffers(buffers, rows=8_000, origins=10, seed=1)
    answer = _wmlab(buffers, local).run()
    assert answer == _duckdb(buffers, local, origins=10)
    assert answer["rows"] == _scan(buffers).run()["rows"] == 8_000
    assert answer["completes"] == 8_000 * (SLOTS - 1) // SLOTS
    assert 7_000 < answer["known"] < 8_000


def test_the_buffers_overtake_each_other_and_leave_no_gap(tmp_path: Path) -> None:
    write_buffers(tmp_path / "buffers", rows=8_000, origins=10, seed=1)
    rows = pq.read_table(tmp_path / "buffers").to_pandas()
    mine = rows[rows.origin == 3]
    assert not mine.sequence.is_monotonic_increasing
    assert sorted(mine.sequence.unique()) == list(range(1, 701))
    assert (mine.groupby("sequence")["last"].sum() == 1).all()
