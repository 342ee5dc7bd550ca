"""Event times before 1973 are dates where the run has dates, of its clock or of its rows: in sentences and charts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dataflow.flows import source
from wmlab import dataflow as flow
from wmlab.core.charts.scene import Dots
from wmlab.core.errors import RecordingError

START_MS = 1_388_757_600_000
JAN_1904_MS = -2_082_844_800_000
DURATIONS = re.compile(r"\d d \d|−|(?<![\d.-])0 ms\b")


def windows(times: list[int], *, start_ms: int) -> Any:
    """Windows of an hour over rows with these times, 10 ms apart."""
    return flow.Dataflow(
        "early",
        vertices=[
            source("rows", list(enumerate(times)), starts_ms=100),
            flow.Window("count", 3_600_000, column="t", aggregates={"n": "count()"}),
            flow.Sink("out"),
        ],
        edges=["rows -> count -> out"],
        duration_ms=1_000,
        start_ms=start_ms,
        jitter_ms=0.0,
    ).record()


@pytest.mark.parametrize("start_ms", [0, START_MS], ids=["clock from 0", "clock with dates"])
@pytest.mark.parametrize("early_ms", [0, -1, JAN_1904_MS])
def test_an_early_row_does_not_turn_dates_into_durations(early_ms: int, start_ms: int) -> None:
    run = windows([START_MS + 1_000 * n for n in range(20)] + [early_ms] + [START_MS + 60_000], start_ms=start_ms)
    year = "1904-01-01" if early_ms == JAN_1904_MS else "1969-12-31" if early_ms < 0 else "1970-01-01"
    hour_end = early_ms // 3_600_000 * 3_600_000 + 3_600_000
    texts = [run.explain(window=hour_end).sentence, str(run.why_dropped())]
    assert all(f"{year} " in text for text in texts)
    texts.append(run.explain(at_ms=start_ms + 900).sentence)
    assert [found for text in texts for found in DURATIONS.findall(re.sub(r"\d+ d \d+ h (?=below)", "", text))] == []
    chart = flow.chart.coalescing(run, vertex="count")
    assert chart.scene.panels[0].up.instants
    (dropped,) = (layer for layer in chart.scene.panels[0].layers if isinstance(layer, Dots) and layer.xs)
    assert re.search(r", \d[\d ]* d \d+ h below 2014-01-03 ", dropped.hover[0])
    with pytest.raises(RecordingError, match=f"no window from {year} .* UTC to {year}"):
        run.explain(window=(early_ms // 3_600_000 * 3_600_000, hour_end - 1))


@pytest.mark.parametrize("start_ms", [0, START_MS], ids=["clock from 0", "clock with dates"])
def test_rows_that_all_happened_in_1904_have_dates_where_the_clock_has(start_ms: int) -> None:
    run = windows([JAN_1904_MS + 1_000 * n for n in range(20)], start_ms=start_ms)
    said = run.explain(at_ms=start_ms + 900).sentence
    assert ("The watermark of key 0 at count is 1904-01-01 00:00:19 UTC since" in said) == (start_ms > 0)
    assert flow.chart.coalescing(run, vertex="count").scene.panels[0].up.instants == (start_ms > 0)
    assert (
        "The last watermark at count was 1904-01-01 00:00:19" in flow.chart.coalescing(run, vertex="count").sentence
    ) == (start_ms > 0)


def test_a_run_whose_clock_and_rows_begin_at_0_has_durations() -> None:
    run = windows([1_000 * n for n in range(20)], start_ms=0)
    assert "UTC" not in run.explain(at_ms=900).sentence + run.explain(window=3_600_000).sentence
    assert not flow.chart.coalescing(run, vertex="count").scene.panels[0].up.instants
