"""Case `bounds`: from three tables, positions, watermarks and segments, to the time bounds of every position.

Every contender reads the same Parquet and does all of it: it takes the cuts apart, makes intervals, and looks each
position up by stream and segment. The answer is an aggregate, sums and counts of both bounds, so that nobody pays for
handing over rows. One line asks the smaller question, the join alone with intervals that were prepared beforehand.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from benchmarks import bounds_peers
from benchmarks.bounds_data import Data, Shape, write_data, write_intervals
from benchmarks.bounds_peers import DAFT
from benchmarks.measure import MEMORY_GB, Answer, Contender, measured, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 40_000_000
THREADS: Final = bounds_peers.THREADS
MORE: Final = 100
"""So many times the watermarks of a stream."""
FEW: Final = 1_000
"""The positions of the smallest question."""
FAST: Final = ("Polars, join_asof", "DuckDB, ASOF JOIN")
"""The peers of all lines; Daft, where it is installed, is in the first one and the smallest, pandas in the smallest."""


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    eight = Shape(ROWS if rows is None else rows, streams=8, segments=4)
    single = replace(eight, streams=1, segments=16)
    for shape, peers in (
        (eight, (*FAST, DAFT)),
        (single, FAST),
        (replace(single, ordered=False), FAST),
        (replace(eight, streams=1_000, watermarks=eight.watermarks // 50), FAST),
        (replace(eight, streams=1_000), FAST),
    ):
        with made(shape) as data:
            yield str(shape)
            yield table(measured([scan(data), wmlab(data), *peers_of(data, peers)], runs), "wmlab")
            if shape is eight:
                yield f"{shape}, written to Parquet with their bounds"
                yield table(measured([_wmlab_writes(data), _duckdb_copies(data)], runs), "wmlab")
            if shape is single:
                intervals = write_intervals(data, data.positions.parent / "intervals")
                yield f"{shape}, the join alone: peers get intervals that were prepared beforehand"
                yield table(measured([wmlab(data), *_prepared(data, intervals)], runs), "wmlab")
    yield from _growth(single, runs)
    yield from _small(eight, runs)


def _growth(shape: Shape, runs: int) -> Iterator[str]:
    """The same positions with more watermarks."""
    dense = replace(shape, watermarks=MORE * shape.watermarks)
    with made(shape) as data, made(dense) as more:
        yield f"{shape}, and {MORE} times the watermarks"
        with_more = [
            replace(contender, name=f"{contender.name}, {dense.watermarks:,}", answers=False)
            for contender in (wmlab(more), *peers_of(more, FAST))
        ]
        yield table(measured([wmlab(data), *with_more], runs), "wmlab")


def _small(shape: Shape, runs: int) -> Iterator[str]:
    few = replace(shape, positions=FEW)
    with made(few) as data:
        yield str(few)
        yield table(measured([scan(data), wmlab(data), *peers_of(data, [*bounds_peers.PEERS])], runs), "wmlab")


@contextlib.contextmanager
def made(shape: Shape) -> Iterator[Data]:
    """The tables of a shape in a folder that is removed when the block ends."""
    with tempfile.TemporaryDirectory(prefix="wmlab-bench-") as home:
        yield write_data(Path(home), shape)


def peers_of(data: Data, names: Sequence[str]) -> list[Contender]:
    installed = bounds_peers.PEERS
    return [Contender(name, partial(installed[name], data)) for name in names if name in installed]


def _prepared(data: Data, intervals: Path) -> list[Contender]:
    return [
        Contender("Polars, join alone", partial(bounds_peers.polars_prepared, data, intervals)),
        Contender("DuckDB, join alone", partial(bounds_peers.duckdb_prepared, data, intervals)),
    ]


def wmlab(data: Data) -> Contender:
    return Contender("wmlab", partial(by_spark, data))


def by_spark(data: Data) -> Answer:
    """Counts and sums of the bounds of all positions, by `wmlab.spark.time_bounds`."""
    from pyspark.sql import functions as F

    bounds = _bounds(data)
    sums = (
        form(name).alias(f"{kind}_{name}") for kind, form in (("sum", F.sum), ("known", F.count)) for name in data.asked
    )
    return bounds.agg(F.count("*").alias("rows"), *sums).collect()[0].asDict()


def _session() -> SparkSession:
    """The session of this process, whose JVM may have about as much memory as a peer; wmlab gives it 4 GB by itself."""
    from wmlab.core.spark.session import spark_session

    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--driver-memory {MEMORY_GB - 4}g pyspark-shell")
    return spark_session(f"local[{THREADS}]")


def _bounds(data: Data) -> DataFrame:
    from wmlab.streams.bounds.bounds import time_bounds

    read = _session().read
    return time_bounds(*(read.parquet(str(path)) for path in (data.positions, data.watermarks, data.segments)))


def _wmlab_writes(data: Data) -> Contender:
    path = data.positions.parent / "written"

    def run() -> Answer:
        _bounds(data).select("stream", "segment_id", "offset", *data.asked).write.mode("overwrite").parquet(str(path))
        return {"rows": sum(pq.read_metadata(file).num_rows for file in path.glob("*.parquet"))}

    return Contender("wmlab", run)


def _duckdb_copies(data: Data) -> Contender:
    path = data.positions.parent / "copied.parquet"
    return Contender("DuckDB, COPY", lambda: {"rows": bounds_peers.duckdb_copies(data, path)})


def scan(data: Data) -> Contender:
    return Contender("Spark, reading only", partial(read_only, data), answers=False)


def read_only(data: Data) -> Answer:
    """The three columns of all positions, read by Spark: what no query of Spark can beat."""
    from pyspark.sql import functions as F

    positions = _session().read.parquet(str(data.positions))
    columns = (F.max("stream"), F.sum("segment_id"), F.sum("offset"))
    return positions.agg(F.count("*").alias("rows"), *columns).collect()[0].asDict()
