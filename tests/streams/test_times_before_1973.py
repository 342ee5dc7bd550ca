"""Event times before 1973 are dates where the clock of the run has dates: in sentences, charts and verdicts alike."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pytest
from pyspark.sql import SparkSession

from wmlab.streams import charts
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

START_MS = 1_388_757_600_000
JAN_1904_MS = -2_082_844_800_000
DURATIONS = re.compile(r"\d d \d|(?<![\d.-])0 m?s\b|−")


def replayed(times: dict[int, int], folder: Path) -> StreamRecording:
    """A log of one device: what arrived when (seconds since the start), and when it had happened (ms since 1970)."""
    path = folder / "log.csv"
    arrivals = [START_MS + 1_000 * second for second in times]
    count = len(arrivals)
    table = {
        "event_time": [*times.values()],
        "arrival_ms": arrivals,
        "writer": ["press"] * count,
        "key": ["press"] * count,
    }
    csv.write_csv(pa.table(table), path)
    return Scenario(
        "early",
        stream=Stream("orders", segments=1, timestamp_aggregation_timeout_ms=5_000),
        writers=[EventWriter("press", trace=str(path))],
        readers=ReaderGroup(readers=1),
        controllers=Controllers(period_ms=1_000),
        start_ms=START_MS,
        duration_ms=31_000,
    ).record(progress=False)


@pytest.mark.parametrize("early_ms", [0, -1, JAN_1904_MS])
def test_one_early_event_does_not_turn_dates_into_durations(early_ms: int, tmp_path: Path, spark: SparkSession) -> None:
    times = {second: START_MS + 1_000 * second - 300 for second in range(1, 30)} | {20: early_ms}
    run = replayed(times, tmp_path)
    year = "1904" if early_ms == JAN_1904_MS else "1969" if early_ms < 0 else "1970"
    told = [run.explain(at_ms=START_MS + at_ms).sentence for at_ms in (10_000, 19_000, 30_000)]
    told += [run.explain(at_ms=START_MS + 19_000, reader="readers-0").sentence]
    told += [f"{moment.what} {moment.effect}" for moment in run.timeline()]
    bounds = charts.time_bounds(run.time_bounds(spark))
    told.append(run.scrub(at_ms=START_MS + 19_000).sentence)
    assert [text for text in told if f"watermark has been {year}" in text or f"watermark is {year}" in text]
    assert [text for text in told if DURATIONS.search(text)] == []
    assert bounds.scene.panels[0].up.instants
    assert charts.event_vs_arrival(run).scene.panels[0].up.instants
    assert charts.watermark_cycles(run).scene.panels[1].up.instants
    assert "at 0 s" not in bounds.sentence


def test_a_log_whose_events_all_happened_in_1904_has_dates(tmp_path: Path, spark: SparkSession) -> None:
    run = replayed({second: JAN_1904_MS + 1_000 * second for second in range(1, 30)}, tmp_path)
    assert "1904-01-01 00:00:" in run.explain(at_ms=START_MS + 20_000).sentence
    assert charts.time_bounds(run.time_bounds(spark)).scene.panels[0].up.title.startswith("event time (UTC, ")
    assert any("lower bound 1904-01-01" in moment.effect for moment in run.timeline())


def test_a_run_whose_clock_begins_at_0_has_durations() -> None:
    run = Scenario("short", writers=[EventWriter("w", rate_per_s=20)], duration_ms=20_000).record(progress=False)
    assert "UTC" not in run.explain(at_ms=15_000).sentence + str(run.timeline())
    assert not charts.event_vs_arrival(run).scene.panels[0].up.instants
