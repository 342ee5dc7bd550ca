"""Event times before 1970 are times like any other: shifted times give shifted bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from wmlab.core.recording import Recording
from wmlab.streams.api import Scenario
from wmlab.streams.bounds.recorded import time_bounds
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

SHIFT_MS = 1_000_000_000_000


def recorded(event_time: str) -> Recording:
    writers = [
        EventWriter(name, rate_per_s=30, delay_mean_ms=delay_ms, event_time=event_time)
        for name, delay_ms in (("w1", 0), ("w2", 400))
    ]
    return Scenario(
        "long ago",
        stream=Stream("orders", segments=2),
        writers=writers,
        readers=ReaderGroup(publish_every_ms=400, rate_per_s=50),
        controllers=Controllers(period_ms=500),
        script=[script.Scale(at_ms=3_000, seal=["0@0"])],
        duration_ms=8_000,
    ).record(progress=False)


@pytest.mark.parametrize("of", ["readers", "events"])
def test_shifted_event_times_give_shifted_bounds(spark: SparkSession, of: Any) -> None:
    keys = ("segment_id", "offset") if of == "events" else ("group", "version")

    def rows(event_time: str) -> dict[Any, list[int | None]]:
        bounds = time_bounds(recorded(event_time), spark, of=of)
        return {tuple(r[k] for k in keys): [r.lower, r.upper, r.perfect_watermark] for r in bounds.collect()}

    now, then = rows("clock"), rows(f"clock - {SHIFT_MS}")
    assert {key: [time and time - SHIFT_MS for time in times] for key, times in now.items()} == then
    assert sum(lower is not None and lower < 0 for lower, _, _ in then.values()) > 5


def test_a_run_of_long_ago_keeps_every_invariant_and_is_explained(spark: SparkSession) -> None:
    run = recorded(f"clock - {SHIFT_MS}")
    assert [v.verdict for v in run.check(spark) if v.verdict != "ok"] == []
    assert "lower bound is −11 574 d 1 h 46 min 35 s" in str(run.explain(at_ms=7_000))
