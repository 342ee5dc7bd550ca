"""Case `progress`: how far time has come after each of many arrivals, against DuckDB and against reading them at all.

DuckDB gets the same three passes of window functions over the same columns. Every answer is an aggregate, so that
nobody pays for handing over rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Answer, Contender, measured, table
from benchmarks.progress_data import write_buffers

ROWS = 50_000_000
ORIGINS = 64
THREADS = 2

DUCKDB = """
WITH marked AS (
  SELECT *,
    lag(sequence) OVER ordered IS NOT DISTINCT FROM sequence AS same,
    lag(sequence) OVER ordered IS NOT DISTINCT FROM sequence AND lag(chunk) OVER ordered IS NOT DISTINCT FROM chunk
      AS repeat
  FROM read_parquet($buffers)
  WINDOW ordered AS (PARTITION BY stream, operator, origin ORDER BY sequence, chunk, arrival)
), summed AS (
  SELECT *,
    max(CASE WHEN NOT repeat THEN watermark END) OVER whole AS top,
    max(CASE WHEN NOT repeat THEN arrival END) OVER whole AS done,
    coalesce(count(CASE WHEN NOT repeat THEN 1 END) OVER whole
      = max(CASE WHEN last THEN chunk END) OVER whole - chunk_base + 1, false) AS complete
  FROM marked WINDOW whole AS (PARTITION BY stream, operator, origin, sequence)
), seen AS (
  SELECT *,
    coalesce(count(CASE WHEN NOT same AND complete THEN 1 END) OVER earlier, 0) = sequence - 1 AS gapless,
    max(top) OVER earlier AS before
  FROM summed
  WINDOW earlier AS (PARTITION BY stream, operator, origin ORDER BY sequence
    RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), states AS (
  SELECT stream, operator, arrival, origins, origin, complete AND arrival = done AS completes,
    CASE WHEN gapless AND NOT repeat THEN sequence - 1 END AS prefix_before,
    CASE WHEN gapless AND NOT repeat THEN coalesce(before, -1) END AS local_before,
    CASE WHEN gapless AND complete THEN sequence END AS prefix_after,
    CASE WHEN gapless AND complete THEN greatest(before, top) END AS local_after
  FROM seen
), followed AS (
  SELECT *,
    coalesce(min(prefix_before) OVER later, max(prefix_after) OVER whole, 0) AS prefix,
    coalesce(min(local_before) OVER later, max(local_after) OVER whole, -1) AS local,
    coalesce(max(local_after) OVER whole, -1) AS final
  FROM states
  WINDOW later AS (PARTITION BY stream, operator, origin ORDER BY arrival DESC
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    whole AS (PARTITION BY stream, operator, origin)
), finals AS (
  SELECT stream, operator, min(final) AS final, count(*) AS heard
  FROM (SELECT stream, operator, origin, max(final) AS final FROM followed GROUP BY ALL) GROUP BY ALL
), answered AS (
  SELECT completes, prefix, nullif(local, -1) AS local,
    CASE WHEN heard = origins THEN nullif(least(min(local_before) OVER later, finals.final), -1) END AS global
  FROM followed JOIN finals USING (stream, operator)
  WINDOW later AS (PARTITION BY stream, operator ORDER BY arrival DESC
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT count(*) AS rows, count(CASE WHEN completes THEN 1 END) AS completes, sum(prefix) AS prefix,
  sum(local) AS local, sum(global) AS global, count(global) AS known
FROM answered
"""


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    count = ROWS if rows is None else rows
    with tempfile.TemporaryDirectory(prefix="wmlab-bench-") as home:
        buffers = Path(home) / "buffers"
        write_buffers(buffers, rows=count, origins=ORIGINS, seed=1)
        yield f"{count:,} buffers of {ORIGINS} origins, {THREADS} threads"
        contenders = [_scan(buffers), _wmlab(buffers), Contender("DuckDB, windows", lambda: _duckdb(buffers))]
        yield table(measured(contenders, runs), "wmlab")


def _wmlab(buffers: Path) -> Contender:
    from pyspark.sql import functions as F

    from wmlab.spark import spark_session
    from wmlab.spark.progress import progress

    spark = spark_session(f"local[{THREADS}]")

    def run() -> Answer:
        answered = progress(spark.read.parquet(str(buffers)))
        totals = [
            F.count("*").alias("rows"),
            F.count_if("completes").alias("completes"),
            F.sum("prefix").alias("prefix"),
        ]
        totals += [F.sum(f"{name}_watermark").alias(name) for name in ("local", "global")]
        return answered.agg(*totals, F.count("global_watermark").alias("known")).collect()[0].asDict()

    return Contender("wmlab", run)


def _scan(buffers: Path) -> Contender:
    from pyspark.sql import functions as F

    from wmlab.spark import spark_session
    from wmlab.spark.progress import BUFFER_COLUMNS

    spark = spark_session(f"local[{THREADS}]")

    def run() -> Answer:
        read = spark.read.parquet(str(buffers))
        return read.agg(F.count("*").alias("rows"), *(F.max(name) for name in BUFFER_COLUMNS)).collect()[0].asDict()

    return Contender("Spark, reading only", run, answers=False)


def _duckdb(buffers: Path) -> Answer:
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as database:
        found = database.execute(DUCKDB, {"buffers": f"{buffers}/*.parquet"})
        names = [column[0] for column in found.description]
        return dict(zip(names, map(int, found.fetchall()[0]), strict=True))
