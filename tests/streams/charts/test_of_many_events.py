"""Charts of more events than they keep: what they say is exact, what they draw is an even share."""

from __future__ import annotations

import sys

import pytest

from tests.streams.sim.worlds import scenario
from wmlab.core import columns
from wmlab.core.recording import Recording
from wmlab.streams import charts
from wmlab.streams.compare import compare
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, Stream

WRITERS = [EventWriter("a", rate_per_s=200, delay_mean_ms=400), EventWriter("b", rate_per_s=100)]
SILENT = script.SilenceWriter(at_ms=4_000, writer="a")


@pytest.fixture(scope="module")
def spilled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Recording]:
    """A run in memory, and the same run on disk in row groups of 500 events."""
    made = scenario(writers=WRITERS, stream=Stream(segments=2, timestamp_aggregation_timeout_ms=2_000), script=[SILENT])
    whole = made.record(progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "ROW_GROUP", 500)
        return whole, made.record(tmp_path_factory.mktemp("runs") / "run", progress=False)


@pytest.mark.parametrize("chart", [charts.event_vs_arrival, charts.key_space], ids=lambda chart: chart.__name__)
def test_a_chart_of_row_groups_is_that_of_the_whole_table(chart, spilled) -> None:
    whole, stored = spilled
    assert whole.counts["events"] > 2_000
    assert chart(stored).sentence == chart(whole).sentence
    assert chart(stored).svg == chart(whole).svg


def test_of_many_events_a_share_is_kept_and_all_are_counted(spilled, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, stored = spilled
    exact = charts.event_vs_arrival(whole)
    late = next(layer for layer in exact.scene.panels[0].layers if layer.name == "event below the lower bound")
    assert len(late.xs) > 10
    monkeypatch.setattr(sys.modules[charts.event_vs_arrival.__module__], "_MOST_KEPT", 10)
    chart = charts.event_vs_arrival(stored)
    assert chart.sentence == exact.sentence
    assert f"Drawn are 10 of {whole.counts['events']:,} events".replace(",", " ") in chart.scene.subtitle
    assert [len(rows) for rows in chart.data.values()] == [10, 10]
    assert chart.data["append_ms"][-1] == exact.data["append_ms"][-1]
    assert {len(layer.xs) for layer in chart.scene.panels[0].layers if layer.name.startswith("event")} == {10}


def test_a_comparison_reads_row_groups_and_keeps_none(spilled) -> None:
    whole, stored = spilled
    found = compare(whole, stored, labels=["whole", "stored"])
    assert found.results == ()
    assert "lag equally" in found.sentence
