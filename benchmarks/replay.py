"""Case `replay`: the watermarks of many streams under eight timeouts, against the pure rule in one process.

30 million marks: 1,000 streams of 50 writers that note every second for ten minutes, now and then silent for a while.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from benchmarks.measure import Answer, Contender, measured, table
from wmlab.core.spark.session import spark_session
from wmlab.streams.bounds.replay import replay
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.replay import Configuration, received_of, replayed_watermarks

ROWS = 30_000_000
WRITERS, SECONDS = 50, 600
THREADS = 2
PART = 20
"""The rule in one process is measured over one in so many streams."""
CONFIGS = {f"{seconds} s": Configuration(timeout_ms=1_000 * seconds) for seconds in (5, 10, 20, 30, 60, 90, 120, 300)}


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    streams = max(1, (ROWS if rows is None else rows) // (WRITERS * SECONDS))
    with tempfile.TemporaryDirectory() as folder:
        marks = Path(folder) / "marks"
        count = write_marks(marks, streams, seed=1)
        yield f"{count:,} marks of {streams:,} streams, {len(CONFIGS)} configurations"
        part = Path(folder) / "part"
        part.mkdir()
        for path in sorted(marks.glob("*.parquet"))[:: min(PART, streams)]:
            (part / path.name).symlink_to(path)
        few = len(list(part.iterdir()))
        contenders = [
            Contender("wmlab", lambda: by_spark(marks), answers=False),
            Contender(f"wmlab, {few} streams", lambda: by_spark(part)),
            Contender(f"the rule, one process, {few} streams", lambda: by_the_rule(part)),
        ]
        timings = measured(contenders, runs)
        yield table(timings, "wmlab")
        whole_s = timings[2].median * streams / few
        yield f"The rule would need {whole_s:,.0f} s for all, {whole_s / timings[0].median:.1f} times as long."


def write_marks(folder: Path, streams: int, *, seed: int) -> int:
    """A file for every stream; returns how many marks there are."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    writers = np.array([f"w{number}" for number in range(WRITERS)])
    count = 0
    for stream in range(streams):
        at_ms = np.arange(1, SECONDS + 1)[:, None] * 1_000 + random.integers(0, 1_000, WRITERS)
        begins = random.integers(0, SECONDS, WRITERS)
        silent_s = random.choice([0, 0, 0, 15, 45, 100], WRITERS)
        second = np.arange(SECONDS)[:, None]
        noted = (second < begins) | (second >= begins + silent_s)
        received_ms, place = at_ms[noted], np.broadcast_to(np.arange(WRITERS), noted.shape)[noted]
        offsets = np.arange(0, 2 * len(received_ms) + 1, 2, dtype=np.int32)
        ids = np.tile(np.array([0, 1], np.int64), len(received_ms))
        position = pa.MapArray.from_arrays(offsets, ids, np.repeat(received_ms * 10, 2))
        columns = {
            "stream": pa.array([f"s{stream}"] * len(received_ms)),
            "writer": pa.array(writers[place]),
            "time": received_ms - random.integers(0, 500, len(received_ms)),
            "position": position,
            "received_ms": received_ms,
        }
        made = pa.table(columns)
        pq.write_table(made.take(pc.sort_indices(made["received_ms"])), folder / f"{stream}.parquet")
        count += made.num_rows
    return count


def by_spark(marks: Path) -> Answer:
    """Counts and sums over all watermarks, by Spark."""
    spark = spark_session("local[2]")
    read = spark.read.parquet(str(marks))
    halves = F.explode(
        F.expr("array(named_struct('id', 0L, 'keys', '0..1/2'), named_struct('id', 1L, 'keys', '1/2..1'))")
    )
    segments = read.select("stream").distinct().select("stream", halves.alias("half"))
    columns = (F.col("half.id").alias("segment_id"), F.col("half.keys"), F.lit(0).cast("long").alias("created_ms"))
    found = replay(read, segments.select("stream", *columns), CONFIGS)
    (row,) = found.agg(F.count("*").alias("watermarks"), F.sum("lower").alias("lower")).collect()
    return {"watermarks": row.watermarks, "lower": row.lower}


def by_the_rule(marks: Path) -> Answer:
    """The same, stream by stream and configuration by configuration, note by note."""
    found = lower = 0
    history = StreamHistory.create(2)
    for path in sorted(marks.glob("*.parquet")):
        read = pq.read_table(path)
        columns = (read[name].to_pylist() for name in ("received_ms", "writer", "time", "position"))
        received = received_of(zip(*columns, strict=True))
        for config in CONFIGS.values():
            until_ms = received[-1].received_ms + 1
            for _, watermark in replayed_watermarks(received, history, config, created_ms=0, until_ms=until_ms):
                found, lower = found + 1, lower + watermark.lower
    return {"watermarks": found, "lower": lower}
