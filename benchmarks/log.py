"""Case `log`: a log of 30 million rows, from the file to the distribution of lags and to who held time back.

The log is Parquet in ten files with one bad row in ten thousand. Only the answer passes through the driver.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from benchmarks.measure import Answer, Contender, measured, table
from wmlab.core.spark.log import of_log, stragglers
from wmlab.core.spark.session import spark_session

ROWS = 30_000_000
THREADS = 2
FILES = 10
WRITERS = 64
STEP_MS = 10_000
"""Between two moments at which the straggler is asked for."""
MEAN_LAG_MS = 400.0


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        count = write_log(log, ROWS if rows is None else rows, seed=1)
        size = sum(file.stat().st_size for file in log.glob("*"))
        yield f"{count:,} rows in {FILES} files of Parquet, {size / 2**30:.2f} GiB"
        contenders = [
            Contender("wmlab", lambda: by_spark(log)),
            Contender("Spark, reading only", lambda: _scan(log), answers=False),
            Contender("DuckDB", lambda: by_duckdb(log)),
        ]
        yield table(measured(contenders, runs), "wmlab")


def write_log(folder: Path, rows: int, *, seed: int) -> int:
    """Records in the order of arrival, one a millisecond; returns how many."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    names = pa.array([f"w{number:02}" for number in range(WRITERS)])
    part = -(-rows // FILES)
    for number in range(FILES):
        arrival_ms = np.arange(number * part, min(rows, (number + 1) * part), dtype=np.int64) + 100_000
        lag_ms = random.exponential(MEAN_LAG_MS, len(arrival_ms)).astype(np.int64)
        writer = pa.DictionaryArray.from_arrays(pa.array(random.integers(0, WRITERS, len(arrival_ms))), names)
        bad = arrival_ms % 10_000 == 0
        columns = {
            "event_time": pa.array(np.maximum(arrival_ms - lag_ms, 0), mask=bad),
            "arrival_ms": arrival_ms,
            "writer": writer.cast(pa.string()),
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    return rows


def by_spark(log: Path) -> Answer:
    """Rows by lag, each weighted with it, and the stragglers, by Spark."""
    spark = spark_session("local[2]")
    rows = of_log(spark.read.parquet(str(log)), key=None)
    good = rows.where("reason is null")
    lags = good.groupBy((F.col("arrival_ms") - F.col("event_time")).alias("lag")).count()
    answer = lags.agg(
        F.count("*").alias("lags"), F.sum("count").alias("rows"), F.sum(F.expr("lag * count")).alias("lag")
    )
    held = stragglers(good, every_ms=STEP_MS).agg(
        F.count("*").alias("moments"), F.sum("lower").alias("lower"), F.sum("ahead_ms").alias("ahead_ms")
    )
    refused = {"refused": rows.where("reason is not null").count()}
    return answer.first().asDict() | held.first().asDict() | refused


def _scan(log: Path) -> Answer:
    found = spark_session("local[2]").read.parquet(str(log))
    return found.agg(F.sum("event_time").alias("a"), F.sum("arrival_ms").alias("b"), F.max("writer")).first().asDict()


def by_duckdb(log: Path) -> Answer:
    """The same in SQL."""
    with duckdb.connect(config={"threads": THREADS}) as base:
        base.execute(f"create view raw as from read_parquet('{log}/*.parquet')")
        base.execute("create view good as from raw where event_time is not null")
        lags = base.execute(
            "select count(*), sum(n), sum(lag * n) from "
            "(select arrival_ms - event_time as lag, count(*) as n from good group by all)"
        ).fetchone()
        held = base.execute(
            f"""
            with newest as (select writer, (arrival_ms + {STEP_MS - 1}) // {STEP_MS} * {STEP_MS} as at_ms,
                max(event_time) as newest from good group by all),
            moments as (select writer,
                unnest(range(min(at_ms), (select max(at_ms) from newest) + 1, {STEP_MS})) as at_ms
                from newest group by writer),
            grid as (select writer, at_ms, max(newest) over (partition by writer order by at_ms) as newest
                from moments left join newest using (writer, at_ms)),
            held as (select at_ms, min(newest) as lower, max(newest) - min(newest) as ahead_ms from grid group by at_ms)
            select count(*), sum(lower), sum(ahead_ms) from held
            """
        ).fetchone()
        (refused,) = base.execute("select count(*) from raw where event_time is null").fetchone()
    names = ("lags", "rows", "lag", "moments", "lower", "ahead_ms", "refused")
    return {name: int(value) for name, value in zip(names, (*lags, *held, refused), strict=True)}
