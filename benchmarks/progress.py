"""Case `progress`: how far time has come after each of many arrivals, against DuckDB and against reading them at all.

wmlab runs the tracker over the arrivals of one operator in one task. DuckDB gets passes of window functions that give
the same over the same columns. Every answer is an aggregate, so that nobody pays for handing over rows. A second table
asks for the value of the last complete sequence, which may fall: there DuckDB carries the last value of every origin
along all arrivals, in a column for each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Answer, Contender, measured, table
from benchmarks.progress_data import write_buffers

ROWS = 2_000_000
ORIGINS = 64
THREADS = 2
LOCALS = ("running_max", "head")

_STATES = """
WITH marked AS (
  SELECT *,
    lag(sequence) OVER ordered IS NOT DISTINCT FROM sequence AND lag(chunk) OVER ordered IS NOT DISTINCT FROM chunk
      AS repeat
  FROM read_parquet($buffers)
  WINDOW ordered AS (PARTITION BY stream, operator, origin ORDER BY sequence, chunk, arrival)
), summed AS (
  SELECT *,
    max(CASE WHEN NOT repeat THEN watermark END) OVER whole AS top,
    arrival = max(CASE WHEN NOT repeat THEN arrival END) OVER whole
      AND coalesce(count(CASE WHEN NOT repeat THEN 1 END) OVER whole
        = max(CASE WHEN last THEN chunk END) OVER whole - chunk_base + 1, false) AS completes
  FROM marked WINDOW whole AS (PARTITION BY stream, operator, origin, sequence)
), seen AS (
  SELECT *,
    completes AND coalesce(count(CASE WHEN completes THEN 1 END) OVER earlier, 0) = sequence - 1 AS counts,
    {value} OVER earlier AS before
  FROM summed
  WINDOW earlier AS (PARTITION BY stream, operator, origin ORDER BY sequence
    RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), states AS (
  SELECT stream, operator, arrival, origins, origin, completes,
    CASE WHEN counts THEN struct_pack(p := sequence - 1, v := coalesce(before, -1)) END AS before,
    CASE WHEN counts THEN struct_pack(p := sequence, v := {own}) END AS after
  FROM seen
), followed AS (
  SELECT stream, operator, arrival, origins, origin, completes, before,
    coalesce(min(before) OVER later, max(after) OVER whole, struct_pack(p := 0, v := -1)) AS state,
    coalesce((max(after) OVER whole).v, -1) AS final
  FROM states
  WINDOW later AS (PARTITION BY stream, operator, origin ORDER BY arrival DESC
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    whole AS (PARTITION BY stream, operator, origin)
), """
_RISING = """finals AS (
  SELECT stream, operator, min(final) AS final, count(*) AS heard
  FROM (SELECT stream, operator, origin, max(final) AS final FROM followed GROUP BY ALL) GROUP BY ALL
), answered AS (
  SELECT completes, state,
    CASE WHEN heard = origins THEN nullif(least(min(before.v) OVER later, finals.final), -1) END AS global
  FROM followed JOIN finals USING (stream, operator)
  WINDOW later AS (PARTITION BY stream, operator ORDER BY arrival DESC
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
"""
_FALLING = """carried AS (
  SELECT completes, state,
    nullif(least({lasts}), -1) AS global
  FROM followed
  WINDOW so_far AS (PARTITION BY stream, operator ORDER BY arrival)
), answered AS (SELECT completes, state, global FROM carried)
"""
_LAST = "coalesce(last_value(CASE WHEN origin = {origin} THEN state.v END IGNORE NULLS) OVER so_far, -1)"
_TOTALS = """
SELECT count(*) AS rows, count(CASE WHEN completes THEN 1 END) AS completes, sum(state.p) AS prefix,
  sum(nullif(state.v, -1)) AS local, sum(global) AS global, count(global) AS known
FROM answered
"""


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    count = ROWS if rows is None else rows
    with tempfile.TemporaryDirectory(prefix="wmlab-bench-") as home:
        buffers = Path(home) / "buffers"
        write_buffers(buffers, rows=count, origins=ORIGINS, seed=1)
        yield f"{count:,} buffers of {ORIGINS} origins, {THREADS} threads"
        for local in LOCALS:
            contenders = [
                _scan(buffers),
                _wmlab(buffers, local),
                Contender("DuckDB, windows", lambda local=local: _duckdb(buffers, local)),
            ]
            yield f"local watermark: {local}"
            yield table(measured(contenders, runs), "wmlab")


def query(local: str, origins: int = ORIGINS) -> str:
    """The question in DuckDB's SQL."""
    if local == "running_max":
        return _STATES.format(value="max(top)", own="greatest(before, top)") + _RISING + _TOTALS
    lasts = ",\n      ".join(_LAST.format(origin=origin) for origin in range(1, origins + 1))
    return _STATES.format(value="arg_max(top, sequence)", own="top") + _FALLING.format(lasts=lasts) + _TOTALS


def _wmlab(buffers: Path, local: str = LOCALS[0]) -> Contender:
    from pyspark.sql import functions as F

    from wmlab.core.spark.session import spark_session
    from wmlab.progress.spark import progress

    def run() -> Answer:
        spark = spark_session(f"local[{THREADS}]")
        answered = progress(spark.read.parquet(str(buffers)), local=local)
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

    from wmlab.core.spark.session import spark_session
    from wmlab.progress.spark import BUFFER_COLUMNS

    def run() -> Answer:
        spark = spark_session(f"local[{THREADS}]")
        read = spark.read.parquet(str(buffers))
        return read.agg(F.count("*").alias("rows"), *(F.max(name) for name in BUFFER_COLUMNS)).collect()[0].asDict()

    return Contender("Spark, reading only", run, answers=False)


def _duckdb(buffers: Path, local: str = LOCALS[0], origins: int = ORIGINS) -> Answer:
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as database:
        found = database.execute(query(local, origins), {"buffers": f"{buffers}/*.parquet"})
        names = [column[0] for column in found.description]
        return dict(zip(names, map(int, found.fetchall()[0]), strict=True))
