"""Case `strategies`: the late share of 200 bounds over one log, in one pass and in one run for each bound.

All answer the same 200 late counts. The pure rule takes a step for each record in Python, so it is measured over a
hundredth of the records; what it needs for all of them is a hundred times as much. Then all strategies are compared
over a tenth of the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Answer, Contender, measured, table
from wmlab import strategy
from wmlab.core.traces import TRACE_SCHEMA, Trace
from wmlab.strategies.comparison import compare
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import Strategy
from wmlab.strategies.replay import before, x_of_records

ROWS = 10_000_000
BOUNDS = range(0, 200_000, 1_000)
WRITERS = 64
THREADS = 1
PART = 100
SOME = 10


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    log = made(ROWS if rows is None else rows, seed=1)
    yield f"{log.rows:,} records, {len(BOUNDS)} bounds"
    contenders = [
        Contender("wmlab, one pass", lambda: _one_pass(log)),
        Contender("NumPy, 200 runs", lambda: _numpy(log)),
        Contender("wmlab, one pass by writer", lambda: _one_pass(log, "writer"), answers=False),
    ]
    yield table(measured(contenders, runs), "wmlab, one pass")
    part = Trace("part", log.table.slice(0, max(1, log.rows // PART)))
    yield f"{part.rows:,} records, one bound"
    stepped = [Contender("the pure rule, 1 run", lambda: _stepped(part)), Contender("one pass", lambda: _first(part))]
    timings = measured(stepped, runs)
    yield table(timings, "one pass")
    yield f"200 runs of the pure rule over all records: {timings[0].median * len(BOUNDS) * PART:,.0f} s by proportion"
    some = Trace("some", log.table.slice(0, max(1, log.rows // SOME)))
    chosen = every_strategy(some)
    yield f"{some.rows:,} records, {len(chosen)} strategies compared, with windows, in two processes"
    yield table(measured([Contender("compare", lambda: _compared(some, chosen))], 1), "compare")


def made(rows: int, seed: int) -> Trace:
    """Records of many writers that arrive with an exponential delay of 10 s in the mean."""
    random = np.random.default_rng(seed)
    arrival = np.sort(random.integers(0, rows * 10, rows)) + 10**12
    event = arrival - random.exponential(10_000, rows).astype(np.int64)
    writer = pa.array([f"w{n}" for n in range(WRITERS)]).take(pa.array(random.integers(0, WRITERS, rows)))
    return Trace("made", pa.table([event, arrival, writer, writer], TRACE_SCHEMA))


def every_strategy(trace: Trace) -> list[Strategy[Any]]:
    """Every strategy once, made for the delays of `made`."""
    writers, minute_ms = trace.writer_names, 60_000
    return [
        strategy.PerfectWatermark.of(trace.table["event_time"].to_pylist()),
        strategy.BoundedOutOfOrderness(minute_ms),
        strategy.StreamTime(minute_ms),
        strategy.PerWriterMinimum(minute_ms, idle_ms=minute_ms, writers=writers),
        strategy.MPKSlack(),
        strategy.AQKSlack(minute_ms),
        strategy.AdwinWatermark(0.01),
        strategy.WindowedPercentile(0.99),
        strategy.DelayPercentile(),
        strategy.ConfluentWatermark(),
        strategy.ConformalWatermark(0.01),
        strategy.Bytewax(minute_ms),
        strategy.Quix(minute_ms),
        strategy.Feldera(minute_ms),
        strategy.RisingWave(minute_ms, minute_ms),
        strategy.LimitedDelay(minute_ms),
        strategy.Flink(minute_ms, idle_ms=minute_ms),
        strategy.SparkBatches(minute_ms, trigger_ms=10_000),
        strategy.PravegaWatermark(),
        strategy.JetWatermark(writers, minute_ms),
        strategy.NebulaWatermark(writers),
    ]


def _compared(trace: Trace, strategies: list[Strategy[Any]]) -> Answer:
    return {outcome.name: outcome.late for outcome in compare(trace, strategies, window_ms=60_000)}


def _one_pass(log: Trace, by: str | None = None) -> Answer:
    late = lateness_curve(log, by).late(np.array(BOUNDS))
    return {str(bound): int(count) for bound, count in zip(BOUNDS, late, strict=True)}


def _numpy(log: Trace) -> Answer:
    event = log.table["event_time"].to_numpy()
    return {str(bound): int((event < np.maximum(before(event), bound) - bound).sum()) for bound in BOUNDS}


def _stepped(log: Trace) -> Answer:
    ((met, _),) = x_of_records(log, [BoundedOutOfOrderness(BOUNDS[1])], tick_ms=0)
    return {"late": int((log.table["event_time"].to_numpy() < met).sum())}


def _first(log: Trace) -> Answer:
    return {"late": lateness_curve(log).late(BOUNDS[1])}
