"""Makes the kept runs of real Spark queries again, which `make oracles SPARK_RUNS=all` does.

    python tools/spark_runs.py data/engine_logs/spark [NAME ...]

Each run is a query over files, which are written one after the other, the next one when Spark has nothing left to do.
So the same rows are in the same batches each time; only clocks, ids, durations and sizes in bytes differ.

Some runs are others with the setting that `wm.engine` advises there. Their answer has to be another one, and must not
advise the setting again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions as F

import wmlab as wm
from tools.remedies import require_remedies

BEGIN_S: Final = 1_700_000_000
"""The event time of the first row, in seconds since 1970."""
DAY_S: Final = 86_400
HOUR_S: Final = 3_600
ROWS: Final = 10
"""Rows of a file, one a second, of three devices in turns."""
DEVICES: Final = ("x", "y", "z")
SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # The state store that Spark has by default: RocksDB, that of wmlab's sessions, reports forty numbers more a batch.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    # Between two looks at the folders there is time to write a file into each of them.
    "spark.sql.streaming.pollingDelay": "500",
    # A query that waits reports nothing, since that would depend on the clock.
    "spark.sql.streaming.noDataProgressEventInterval": "3600000",
}
POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
NO_DATA_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
_TRIES: Final = 3


def counted(a: DataFrame, _: DataFrame) -> DataFrame:
    """The rows of each device in windows of five seconds."""
    return a.groupBy(F.window("ts", "5 seconds"), "dev").count()


def counted_twice(a: DataFrame, b: DataFrame) -> DataFrame:
    """The same, and these in windows of twenty seconds."""
    return counted(a, b).groupBy(F.window("window", "20 seconds")).count()


def joined(a: DataFrame, b: DataFrame) -> DataFrame:
    """The rows of both sources, of one device and within five seconds of each other."""
    near = "a.dev = b.dev AND b.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts + INTERVAL 5 SECONDS"
    return a.alias("a").join(b.alias("b"), F.expr(near))


def united(a: DataFrame, b: DataFrame) -> DataFrame:
    """The rows of each device in windows of five seconds, those of both sources together."""
    return counted(a.unionByName(b), b)


def in_sessions(a: DataFrame, _: DataFrame) -> DataFrame:
    """The rows of each device in sessions, which end with thirty seconds without any."""
    return a.groupBy(F.session_window("ts", "30 seconds"), "dev").count()


@dataclass(frozen=True)
class Run:
    """A query, and the files of its sources `a` and `b`: the time of the first row of each, in seconds after the first.

    The n-th files of both are written together. A file whose time is in `single` has one row. `delay` is that of the
    watermark, without any if it is empty; `delay_b` is that of the second source, if it has another. After
    `restart_after` files the query is stopped and started again. `settings` are those of the session.
    """

    query: Callable[[DataFrame, DataFrame], DataFrame]
    a: Sequence[int]
    b: Sequence[int] = ()
    single: Sequence[int] = ()
    delay: str = "10 seconds"
    delay_b: str = ""
    output: str = "append"
    restart_after: int = 0
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> list[dict[str, list[str]]]:
        """The files that are written together, step by step: by source the lines of one."""
        offered = zip_longest(self.a, self.b)
        return [
            {source: self._lines(begin_s) for source, begin_s in zip("ab", pair, strict=True) if begin_s is not None}
            for pair in offered
        ]

    def _lines(self, begin_s: int) -> list[str]:
        times = [BEGIN_S + begin_s + row for row in range(1 if begin_s in self.single else ROWS)]
        return [
            json.dumps({"dev": DEVICES[row % len(DEVICES)], "ts": datetime.fromtimestamp(time, UTC).isoformat()})
            for row, time in enumerate(times)
        ]


_EIGHT: Final = tuple(range(0, 80, 10))
_SIX: Final = _EIGHT[:6]
RUNS: Final = {
    "healthy": Run(counted, _EIGHT),
    "future_row": Run(counted, (0, 10, 20, DAY_S, 40, 50, 60, 70), single=(DAY_S,)),
    "no_more_data": Run(counted, _EIGHT[:3]),
    "late_rows": Run(counted, (0, 10, 20, 30, 0, 40, 50)),
    "delay_too_large": Run(counted, _EIGHT, delay="1 hour"),
    "no_newer_rows": Run(counted, (0, 10, 20, 20, 20, 20, 20)),
    "no_watermark": Run(counted, _EIGHT[:4], delay="", output="update"),
    "restart": Run(counted, _SIX, restart_after=3),
    "chained_windows": Run(counted_twice, _EIGHT),
    "two_delays": Run(united, _EIGHT, _EIGHT, delay_b="1 hour"),
    "fastest_decides": Run(
        united,
        _EIGHT,
        [begin_s - 300 for begin_s in _EIGHT],
        delay_b="1 hour",
        settings={POLICY: "max"},
    ),
    "no_batches_without_rows": Run(counted, _SIX, settings={NO_DATA_BATCHES: "false"}),
    "session_open": Run(in_sessions, _EIGHT),
    "one_source_silent": Run(joined, _EIGHT[:7], _EIGHT[:2]),
    "source_without_records": Run(joined, _SIX),
    "one_source_behind": Run(joined, _SIX, [begin_s - HOUR_S for begin_s in _SIX]),
    "one_source_silent_max": Run(joined, _EIGHT[:7], _EIGHT[:2], settings={POLICY: "max"}),
    "source_without_records_max": Run(joined, _SIX, settings={POLICY: "max"}),
    "slowest_decides": Run(united, _EIGHT, [begin_s - 300 for begin_s in _EIGHT], delay_b="1 hour"),
    "late_rows_longer_delay": Run(counted, (0, 10, 20, 30, 0, 40, 50), delay="40 seconds"),
}
REMEDIES: Final = (
    ("one_source_silent", POLICY, "one_source_silent_max"),
    ("source_without_records", POLICY, "source_without_records_max"),
    ("fastest_decides", POLICY, "slowest_decides"),
    ("late_rows", "withWatermark", "late_rows_longer_delay"),
    ("delay_too_large", "withWatermark", "healthy"),
    ("no_watermark", "withWatermark", "healthy"),
    ("no_batches_without_rows", NO_DATA_BATCHES, "healthy"),
)
"""A run, a setting that is advised there, and the same run with it."""


def started(spark: SparkSession, run: Run, home: Path) -> Any:
    """The query of a run, begun."""

    def source(name: str, delay: str) -> DataFrame:
        (home / name).mkdir(exist_ok=True)
        rows = spark.readStream.schema("dev string, ts timestamp").json(str(home / name))
        return rows.withWatermark("ts", delay) if delay else rows

    answer = run.query(source("a", run.delay), source("b", run.delay_b or run.delay))
    to = answer.writeStream.format("noop").outputMode(run.output).option("checkpointLocation", str(home / "checkpoint"))
    return to.start()


def reports(spark: SparkSession, run: Run, home: Path) -> Iterator[str]:
    """What the query of a run reports of its batches, in their order, as lines of JSON."""
    query = started(spark, run, home)
    try:
        for number, files in enumerate(run.steps):
            if run.restart_after and number == run.restart_after:
                query.stop()
                yield from (report.json for report in query.recentProgress)
                query = started(spark, run, home)
            for source, lines in files.items():
                written = home / f"{source}-{number}.json"
                written.write_text("\n".join(lines), encoding="utf-8")
                written.rename(home / source / written.name)
            query.processAllAvailable()
    finally:
        query.stop()
    yield from (report.json for report in query.recentProgress)


def record(spark: SparkSession, name: str) -> list[str]:
    """The reports of a run, with `/data` in place of its folder; raises `SystemExit` if its batches are not its steps.

    Where a batch has begun between the files of two sources, the run is made again.
    """
    run = RUNS[name]
    before = {setting: spark.conf.get(setting, None) for setting in run.settings}
    for setting, value in run.settings.items():
        spark.conf.set(setting, value)
    try:
        return _recorded(spark, name, run)
    finally:
        for setting, old in before.items():
            spark.conf.unset(setting) if old is None else spark.conf.set(setting, old)


def _recorded(spark: SparkSession, name: str, run: Run) -> list[str]:
    wanted = [sum(map(len, files.values())) for files in run.steps]
    for _ in range(_TRIES):
        with tempfile.TemporaryDirectory(prefix="wmlab-spark-") as folder:
            lines = [line.replace(folder, "/data") for line in reports(spark, run, Path(folder))]
        rows = [json.loads(line)["numInputRows"] for line in lines]
        if [count for count in rows if count] == wanted:
            return lines
    raise SystemExit(f"{name}: the batches have {rows} rows, and the files {wanted}.")


def main() -> None:
    """Make the runs that are named, or all."""
    parser = argparse.ArgumentParser(description="make the kept runs of Spark again")
    parser.add_argument("target", type=Path, help="where the runs are written")
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(RUNS)}; default all")
    options = parser.parse_args()
    spark = wm.spark_session("local[2]")
    for setting, value in SETTINGS.items():
        spark.conf.set(setting, value)
    for name in options.names or RUNS:
        target = options.target / f"{name}.jsonl"
        target.write_text("".join(f"{line}\n" for line in record(spark, name)), encoding="utf-8")
        print(f"{name}: {wm.engine.read(target).explain().sentence}", flush=True)
        require_remedies(REMEDIES, target)


if __name__ == "__main__":
    main()
