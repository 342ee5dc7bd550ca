"""Case `bounds`: the time bounds of many positions, against as-of joins and against reading the positions at all.

Peers get the watermarks as prepared intervals and one stream; wmlab starts from the log, through its public function.
Every answer is an aggregate, so that nobody pays for handing over rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from benchmarks.bounds_data import Data, with_log, write_positions
from benchmarks.measure import Answer, Contender, measured, table
from wmlab.streams.bounds.bounds import BOUND_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 40_000_000
SEGMENTS = 16
WATERMARKS = 5_000
THREADS = 2
MORE = 100
FEW = 1_000


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    positions = ROWS if rows is None else rows
    marks = min(WATERMARKS, max(1, positions // 8))
    with tempfile.TemporaryDirectory(prefix="wmlab-bench-") as home:
        root = Path(home)
        write_positions(root / "positions", rows=positions, segments=SEGMENTS, seed=1)
        data, dense = (_log(root, positions, count) for count in (marks, MORE * marks))
        yield f"{positions:,} positions in {SEGMENTS} segments, {marks:,} watermarks, {THREADS} threads"
        yield table(measured([_scan(data), _wmlab(data), *_peers(data)], runs), "wmlab")
        yield f"the same positions with {MORE} times the watermarks"
        yield table(measured([_wmlab(data, "wmlab"), _wmlab(dense, f"wmlab, {MORE * marks:,}", False)], runs), "wmlab")
        yield "the same positions, written to Parquet with their bounds"
        yield table(measured([_wmlab_writes(data, root / "written"), _duckdb_copies(data, root)], runs), "wmlab")
        write_positions(root / "unordered", rows=positions, segments=1, seed=3, ordered=False)
        yield f"{positions:,} positions of one segment in no order, with lower_seq and upper_seq"
        one = _log(root, positions, marks, "unordered", 1, BOUND_COLUMNS)
        yield table(measured([_scan(one), _wmlab(one), *_peers(one)], runs), "wmlab")
        write_positions(root / "few", rows=FEW, segments=SEGMENTS, seed=4)
        few = _log(root, FEW, marks, "few")
        yield f"{FEW:,} positions, {marks:,} watermarks"
        yield table(measured([_scan(few), _wmlab(few), *_peers(few)], runs), "wmlab")


def _log(
    root: Path,
    rows: int,
    watermarks: int,
    positions: str = "positions",
    segments: int = SEGMENTS,
    asked: tuple[str, ...] = BOUND_COLUMNS[:2],
) -> Data:
    home = root / f"{positions}-{watermarks}"
    return with_log(root / positions, home, rows=rows, segments=segments, watermarks=watermarks, seed=2, asked=asked)


def _wmlab(data: Data, name: str = "wmlab", answers: bool = True) -> Contender:
    from pyspark.sql import functions as F

    def run() -> Answer:
        totals = [F.count("*").alias("rows")]
        totals += [F.sum(name).alias(f"sum_{name}") for name in data.asked]
        totals += [F.count(name).alias(f"known_{name}") for name in data.asked]
        return _bounds(data).agg(*totals).collect()[0].asDict()

    return Contender(name, run, answers)


def _bounds(data: Data) -> DataFrame:
    from wmlab.core.spark.session import spark_session
    from wmlab.streams.bounds.bounds import time_bounds

    read = spark_session(f"local[{THREADS}]").read
    return time_bounds(*(read.parquet(str(path)) for path in (data.positions, data.watermarks, data.segments)))


def _wmlab_writes(data: Data, path: Path) -> Contender:
    def run() -> Answer:
        _bounds(data).select("segment_id", "offset", *data.asked).write.mode("overwrite").parquet(str(path))
        return {"rows": pq.ParquetDataset(path).read(columns=["offset"]).num_rows}

    return Contender("wmlab", run)


def _duckdb_copies(data: Data, root: Path) -> Contender:
    import duckdb

    def run() -> Answer:
        with duckdb.connect(config={"threads": THREADS}) as database:
            database.execute(
                f'COPY (SELECT p.segment_id, p."offset", {_named(data, "{}")} {_ASOF}) TO $file',
                _paths(data) | {"file": f"{root}/copied.parquet"},
            )
        return {"rows": pq.read_metadata(f"{root}/copied.parquet").num_rows}

    return Contender("DuckDB, COPY", run)


def _scan(data: Data) -> Contender:
    from pyspark.sql import functions as F

    from wmlab.core.spark.session import spark_session

    spark = spark_session(f"local[{THREADS}]")

    def run() -> Answer:
        positions = spark.read.parquet(str(data.positions))
        return positions.agg(F.count("*").alias("rows"), F.sum("segment_id"), F.sum("offset")).collect()[0].asDict()

    return Contender("Spark, reading only", run, answers=False)


_ASOF: Final = (
    "FROM read_parquet($positions) AS p ASOF LEFT JOIN read_parquet($intervals) AS i "
    'ON p.segment_id = i.segment_id AND p."offset" >= i.start'
)


def _named(data: Data, *forms: str) -> str:
    """SQL: each form with each name that is asked for."""
    return ", ".join(form.format(name) for form in forms for name in data.asked)


def _paths(data: Data) -> dict[str, str]:
    return {"positions": f"{data.positions}/*.parquet", "intervals": f"{data.intervals}/*.parquet"}


def _duckdb(data: Data) -> Answer:
    import duckdb

    totals = _named(data, "sum({0}) AS sum_{0}", "count({0}) AS known_{0}")
    with duckdb.connect(config={"threads": THREADS}) as database:
        found = database.execute(f"SELECT count(*) AS rows, {totals} {_ASOF}", _paths(data))
        names = [column[0] for column in found.description]
        return dict(zip(names, map(int, found.fetchall()[0]), strict=True))


def _polars(data: Data) -> Answer:
    import polars as pl

    positions = pl.scan_parquet(data.positions / "*.parquet").select("segment_id", "offset").sort("offset")
    intervals = pl.scan_parquet(data.intervals / "*.parquet").sort("start")
    # Both are sorted; Polars cannot see that within groups, and says so unless told not to look.
    bounds = positions.join_asof(intervals, left_on="offset", right_on="start", by="segment_id", check_sortedness=False)
    found = bounds.select(
        pl.len().alias("rows"),
        *(pl.col(name).sum().alias(f"sum_{name}") for name in data.asked),
        *(pl.col(name).count().alias(f"known_{name}") for name in data.asked),
    ).collect()
    return {name: int(value) for name, value in found.row(0, named=True).items()}


def _pandas(data: Data) -> Answer:
    import pandas as pd

    positions = pd.read_parquet(data.positions, columns=["segment_id", "offset"]).sort_values("offset")
    intervals = pd.read_parquet(data.intervals, dtype_backend="numpy_nullable").sort_values("start")
    intervals = intervals.astype({"segment_id": "int64", "start": "int64"})
    bounds = pd.merge_asof(positions, intervals, left_on="offset", right_on="start", by="segment_id")
    sums = {f"sum_{name}": int(bounds[name].sum()) for name in data.asked}
    return {"rows": len(bounds)} | sums | {f"known_{name}": int(bounds[name].count()) for name in data.asked}


PEERS = {"duckdb": _duckdb, "polars": _polars, "pandas": _pandas}
_WAYS = {"duckdb": "DuckDB, ASOF JOIN", "polars": "Polars, join_asof", "pandas": "pandas, merge_asof"}


def _peers(data: Data) -> list[Contender]:
    return [Contender(_WAYS[name], partial(ask, data)) for name, ask in PEERS.items()]
