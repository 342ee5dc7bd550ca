"""What an idle timeout costs on a log: who is declared idle and comes back, what is late by it, who is waited for.

The watermark is the least, over the writers that are not idle, of their largest event time less a bound; the largest of
all if all are idle; and it never falls. A writer is idle when the clock has come to more than the timeout after its
last record, and active again with its next one: so `withIdleness` of Flink has it, at probes of no distance, and the
rule `RisingWave` here.

The larger the timeout, the more writers are active and the lower is the watermark, at each moment. So what is late
without a timeout is late with each, and the difference of the two counts is what a timeout makes late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wmlab.core.answers import pandas_frame
from wmlab.core.arguments import the_duration
from wmlab.core.errors import ModelError
from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace
from wmlab.core.words import counted, grouped, rounded
from wmlab.strategies.model.engines import RisingWave
from wmlab.strategies.model.strategy import NotNegative, Positive, require_argument
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import Log, as_trace, before, difference, x_of_records

IDLE_COSTS: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("timeout_ms", "false_idles", "late")),
        ("late_share", pa.float64()),
        *((name, pa.int64()) for name in ("longest_hold_ms", "held_ms")),
    ]
)
"""One row for each timeout, as `idle_costs` has them."""


def idle_costs(trace: Trace | Any, timeouts_ms: Iterable[int | str], bound: int | str = 0) -> Any:
    """What each of some idle timeouts costs on a log, for the least over the writers; a data frame, a row a timeout.

    The log is a trace, or a data frame with the columns of one. Timeouts and `bound` are in ms, or texts such as "5 s".

    - `false_idles`: how often a writer is declared idle that sends again.
    - `late`, `late_share`: the records that are late because of the timeout, and would not be without one. A record is
      late if its event time is below the watermark that it meets.
    - `longest_hold_ms`: how long the watermark stands at most behind one silent writer while another one is ahead.
      `held_ms` is how long silent writers hold it in all; the times of several at once are added.

    A writer counts from its first record on. For idle keys, load the log with the key as its writer. Each timeout is
    run. Source: `WatermarksWithIdleness` and `WatermarkOutputMultiplexer` of Flink 2.3.0, with probes of no distance.

    Raises `ModelError` for anything but a log, for a timeout below 1 ms or a negative bound, and for times whose
    distance does not fit into 64 bits.
    """
    trace = as_trace(trace)
    lengths = [timeouts_ms] if isinstance(timeouts_ms, int | str) else timeouts_ms
    timeouts = [the_duration(length, ModelError, name="timeouts_ms") for length in lengths]
    require_argument("timeouts_ms", timeouts, list[Positive])
    bound_ms = the_duration(bound, ModelError, name="bound")
    require_argument("bound", bound_ms, NotNegative)
    log = Log.of(trace)
    silences_ms, (begins_ms, lengths_ms) = log.silences_ms, _holds(log)
    strategies = [PerWriterMinimum(bound_ms), *(RisingWave(bound_ms, timeout_ms) for timeout_ms in timeouts)]
    anyway, *late = [int((log.event < met).sum()) for met, _ in x_of_records(trace, strategies, tick_ms=0)]
    rows = []
    for timeout_ms, with_timeout in zip(timeouts, late, strict=True):
        held_ms = np.maximum(np.minimum(lengths_ms, timeout_ms) - begins_ms, 0)
        because = with_timeout - anyway
        rows.append(
            {
                "timeout_ms": timeout_ms,
                "false_idles": int((silences_ms > timeout_ms).sum()),
                "late": because,
                "late_share": because / trace.rows,
                "longest_hold_ms": int(held_ms.max(initial=0)),
                "held_ms": int(held_ms.sum()),
            }
        )
    return pandas_frame(pa.Table.from_pylist(rows, IDLE_COSTS))


def _holds(log: Log) -> tuple[Int64Array, Int64Array]:
    """When each silence begins to hold the watermark, and how long it lasts, ms since its last record before.

    It holds the watermark from when another writer is ahead until the writer sends again, or the log ends.
    """
    order = np.argsort(log.writer, kind="stable")
    follows = log.writer[order][1:] == log.writer[order][:-1]
    ends = np.full(len(log.event), len(log.event) - 1)
    ends[order[:-1][follows]] = order[1:][follows]
    lengths_ms = difference(log.arrival[ends], log.arrival)
    # Another writer is ahead from the first row whose largest event time of all is above that of the silent one.
    top = np.maximum(before(log.event, log.writer), log.event)
    rows = np.arange(len(log.event))
    ahead = np.maximum(np.searchsorted(np.maximum.accumulate(log.event), top, side="right"), rows)
    begins_ms = log.arrival[np.minimum(ahead, len(rows) - 1)] - log.arrival
    holds = ahead < ends
    return begins_ms[holds], lengths_ms[holds]


def idle_costs_text(costs: Mapping[str, Any]) -> str:
    """A row of `idle_costs` as the predicate of a sentence, "makes 3 late", and two further sentences."""
    often = f"A writer that is declared idle comes back {counted(costs['false_idles'], 'time')}"
    hold = f"A silent one holds the watermark for up to {rounded(costs['longest_hold_ms'])}"
    return f"makes {grouped(costs['late']) if costs['late'] else 'none'} late. {often}. {hold}"
