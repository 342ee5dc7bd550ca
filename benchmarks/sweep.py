"""Case `sweep`: runs of one scenario under several timeouts, on two cores of Spark and in two processes.

The rows are the runs. Both hand out the same runs; the answer is the sums of their figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import wmlab as wm
from benchmarks.measure import Answer, Contender, measured, table
from wmlab.core.spark.session import spark_session
from wmlab.streams.sweep import figures_of

ROWS = 48
THREADS = 2
TIMEOUTS_MS = (2_000, 5_000, 10_000, 30_000)
SCENARIO = wm.Scenario(
    "swept",
    writers=[wm.EventWriter(f"w{n}", rate_per_s=50, delay_mean_ms=200) for n in range(4)],
    controllers=wm.Controllers(period_ms=1_000),
    script=[wm.script.SilenceWriter(at_ms=20_000, writer="w3", for_ms=8_000)],
    duration_ms=300_000,
)


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    seeds = range(max(1, (ROWS if rows is None else rows) // len(TIMEOUTS_MS)))
    yield f"{len(seeds) * len(TIMEOUTS_MS):,} runs of {SCENARIO.duration_ms // 1_000} s, 200 events a second"
    # Both keep their processes from run to run.
    with ProcessPoolExecutor(THREADS, get_context("spawn")) as pool:
        both = Contender("two processes", lambda: sums(pool.map(figures, *cases(seeds))))
        yield table(measured([Contender("wmlab", lambda: by_spark(seeds)), both], runs), "wmlab")


def by_spark(seeds: range) -> Answer:
    found = SCENARIO.sweep(spark_session("local[2]"), seeds=seeds, timeout_ms=TIMEOUTS_MS, progress=False)
    return sums(row.asDict() for row in found.collect())


def cases(seeds: range) -> tuple[list[int], list[int]]:
    pairs = [(timeout_ms, seed) for timeout_ms in TIMEOUTS_MS for seed in seeds]
    return [timeout_ms for timeout_ms, _ in pairs], [seed for _, seed in pairs]


def figures(timeout_ms: int, seed: int) -> dict[str, Any]:
    stream = wm.Stream(timestamp_aggregation_timeout_ms=timeout_ms)
    return figures_of(SCENARIO.replace(stream=stream, seed=seed))


def sums(rows: Iterable[Mapping[str, Any]]) -> Answer:
    kept = list(rows)
    return {name: sum(row[name] for row in kept) for name in ("events", "watermarks", "late", "stalls", "worst_lag_ms")}
