"""Event times before 1970 are times like any other."""

from __future__ import annotations

from pyspark.sql import SparkSession

from wmlab.core.recording import Recording
from wmlab.streams.api import Scenario
from wmlab.streams.bounds.recorded import bounds_of_recording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

SHIFT_MS = 1_000_000_000_000


def recorded(event_time: str) -> Recording:
    return Scenario(
        "long ago",
        stream=Stream("orders", segments=2),
        writers=[
            EventWriter(name, rate_per_s=30, delay_mean_ms=delay_ms, event_time=event_time)
            for name, delay_ms in (("w1", 0), ("w2", 400))
        ],
        readers=ReaderGroup(publish_every_ms=400, rate_per_s=50),
        controllers=Controllers(period_ms=500),
        script=[script.Scale(at_ms=3_000, seal=["0@0"])],
        duration_ms=8_000,
    ).record(progress=False)


def test_shifted_event_times_give_shifted_bounds(spark: SparkSession) -> None:
    now, then = recorded("clock"), recorded(f"clock - {SHIFT_MS}")
    for of, keys in (("readers", ("group", "version")), ("events", ("segment_id", "offset"))):
        bounds = [
            {tuple(r[key] for key in keys): (r.lower, r.upper, r.perfect_watermark) for r in found.collect()}
            for found in (bounds_of_recording(run, spark, of=of) for run in (now, then))
        ]
        assert {key: tuple(time and time - SHIFT_MS for time in times) for key, times in bounds[0].items()} == bounds[1]
        assert sum(lower is not None and lower < 0 for lower, _, _ in bounds[1].values()) > 5
    assert [v.verdict for v in then.check() if v.verdict != "ok"] == []
    assert "the watermark is −11 574 d 1 h 46 min 35 s" in then.explain(at_ms=7_000).sentence
