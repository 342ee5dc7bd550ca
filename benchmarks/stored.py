"""Case `stored`: a run that does not fit into memory is recorded to disk, and then asked.

100 writers write 1,000 events a second each; `--rows` says how many events there are in all. Each step is run once, in
this process: its processor time, that of the JVM included, the time that passed, and the most memory that Python and
the JVM ever held up to its end. Spark has the memory that wmlab's session gives it.
"""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import children, peak_of_mb, processor_s
from wmlab.core.spark.session import spark_session
from wmlab.streams import charts
from wmlab.streams.api import Scenario
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

ROWS = 60_000_000
THREADS = 1
WRITERS = 100
EVENTS_PER_S = 1_000


def run(rows: int | None, _runs: int) -> Iterator[str]:
    """The lines of the report; nothing is run twice."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = _scenario(ROWS if rows is None else rows)
        yield repr(scenario.estimate())
        kept = scenario.record(Path(folder) / "run", progress=False)
        yield _spent("record")
        steps: dict[str, Callable[[], object]] = {
            "explain": kept.explain,
            "scrub": kept.scrub,
            "event_vs_arrival": lambda: charts.event_vs_arrival(kept),
            "key_space": lambda: charts.key_space(kept),
            "time_bounds": lambda: kept.time_bounds(spark_session()).write.format("noop").mode("overwrite").save(),
            "check": kept.check,
        }
        for name, step in steps.items():
            step()
            yield _spent(name)


def _scenario(events: int) -> Scenario:
    return Scenario(
        "stored",
        stream=Stream(segments=8),
        writers=[
            EventWriter(f"w{n}", rate_per_s=EVENTS_PER_S, delay_mean_ms=50, batch_ms=1_000) for n in range(WRITERS)
        ],
        readers=ReaderGroup(readers=2),
        controllers=Controllers(period_ms=1_000),
        duration_ms=max(10_000, round(1_000 * events / (WRITERS * EVENTS_PER_S))),
    )


def _spent(step: str) -> str:
    """What this process and its children have used so far."""
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024
    jvm_mb = max((peak_of_mb(pid) for pid in children(os.getpid())), default=0)
    return (
        f"{step}: until here {processor_s():.0f} s of processor time, at most {peak_mb:,} MB in Python "
        f"and {jvm_mb:,} MB in a child"
    )
