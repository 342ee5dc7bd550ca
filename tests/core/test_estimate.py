"""What a run will take is known before it starts, and what cannot fit is refused with the field to change."""

from pathlib import Path
from typing import Any

import pytest

import wmlab as wm
from tests.scenario_files import FOLDER
from wmlab.core.errors import ScenarioError
from wmlab.core.estimate import MOST_S, Cost, Estimate
from wmlab.dataflow.recording import Dataflow
from wmlab.open import load_scenario
from wmlab.progress.recording import PlanScenario


def log_of(folder: Path, *times: tuple[int, int]) -> str:
    """A file with an event of w for each time of an event and of its arrival."""
    lines = [f"{event_time},{arrival_ms},w,k" for event_time, arrival_ms in times]
    (folder / "log.csv").write_text("\n".join(["event_time,arrival_ms,writer,key", *lines]))
    return str(folder / "log.csv")


def stream(**fields: Any) -> wm.Scenario:
    return wm.Scenario("long", **{"writers": [wm.EventWriter("w", rate_per_s=1_000)], "duration_ms": 2**53, **fields})


def dataflow() -> Dataflow:
    source: Any = {"kind": "source", "name": "s", "columns": ["t"], "rows": [[0]], "times": "t"}
    window: Any = {"kind": "window", "name": "w", "size_ms": 2**52, "slide_ms": 1, "column": "t"}
    vertices: Any = [source, window | {"aggregates": {"n": "count()"}}, {"kind": "sink", "name": "o"}]
    return Dataflow("long", vertices=vertices, edges=["s -> w -> o"])


def plan() -> PlanScenario:
    queries: Any = [{"name": "q", "sources": [{"name": "s", "rate_per_s": 1_000}]}]
    return PlanScenario("long", queries=queries, duration_ms=2**53)


@pytest.mark.parametrize(
    ("scenario", "field"),
    [
        (stream(), r"writers\[0\]\.note_every_ms"),
        (dataflow(), r"vertices\[1\]\.slide_ms"),
        (plan(), r"queries\[0\]\.sources\[0\]\.rate_per_s"),
    ],
    ids=["stream", "dataflow", "plan"],
)
def test_what_cannot_fit_is_refused_with_figure_and_field(scenario: Any, field: str, tmp_path: Any) -> None:
    with pytest.raises(ScenarioError, match=rf"about [\d ]+ PB of memory.*{field} makes"):
        scenario.record(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_what_would_never_end_is_refused() -> None:
    endless = Estimate("x", (Cost("cycles", "controllers.period_ms", (MOST_S + 1) * 10_000, 0, 100),))
    with pytest.raises(ScenarioError, match=r"of computing: controllers\.period_ms makes 6 000 000 000 cycles"):
        endless.require_room()


def test_of_the_events_that_are_drawn_two_row_groups_are_in_memory() -> None:
    writers = [wm.EventWriter(f"w{n}", rate_per_s=1_000) for n in range(100)]
    minute, hour = (stream(writers=writers, duration_ms=ms).estimate() for ms in (60_000, 3_600_000))
    assert hour.events == 60 * minute.events == 360_000_000
    assert 300_000_000 < minute.memory_bytes < hour.memory_bytes < 2_000_000_000


def test_idle_years_are_seen_in_the_estimate() -> None:
    year = 365 * 86_400_000
    idle = stream(writers=[wm.EventWriter("w", rate_per_s=0)], duration_ms=21 * year).estimate()
    assert idle.events == 0
    assert idle.steps > 21 * year // 1_000
    assert "writers[0].note_every_ms" in idle._repr_html_()
    assert "events and 790 000 000 steps" in repr(idle)


@pytest.mark.parametrize("name", ["first_bounds", "days/split_under_load", "flows/jet_1605", "progress_diagram"])
def test_an_estimate_is_above_what_happens_and_not_far(name: str) -> None:
    scenario = load_scenario(FOLDER / f"{name}.yaml")
    counts = scenario.record().counts
    rows = sum(counts.values()) - counts.get("events", 0)
    estimate = scenario.estimate()
    assert counts.get("events", 0) * 0.8 <= estimate.events <= counts.get("events", 0) * 1.5 + 10
    assert rows / 5 <= estimate.steps <= rows * 20


def test_events_of_a_trace_that_arrive_outside_the_run_are_counted(tmp_path: Path) -> None:
    trace = log_of(tmp_path, (1, 1), (2, 2), (5_000, 500), (5_000, 1_500))
    skewed = stream(writers=[wm.EventWriter("w", trace=trace)], duration_ms=1_000)
    assert (skewed.estimate().events, skewed.estimate().left_out) == (3, 1)
    assert "; 1 event of traces outside the run" in repr(skewed.estimate())
    assert "outside" not in repr(stream(duration_ms=1_000).estimate())
    assert skewed.record(progress=False).table("events")["event_time"].to_pylist() == [1, 2, 5_000]


def test_the_periods_of_the_how_to_serve_twenty_years(tmp_path: Path) -> None:
    years_ms = 20 * 365 * 86_400_000
    trace = log_of(tmp_path, (1, 1), (years_ms, years_ms))
    step_ms = years_ms // 600
    scenario = stream(
        stream=wm.Stream(timestamp_aggregation_timeout_ms=50 * step_ms),
        writers=[wm.EventWriter("w", trace=trace, note_every_ms=step_ms)],
        readers=wm.ReaderGroup(publish_every_ms=step_ms),
        controllers=wm.Controllers(period_ms=10 * step_ms),
        duration_ms=years_ms + 1_000,
    )
    assert scenario.estimate().steps < 5_000
    recording = scenario.record(progress=False)
    assert (recording.counts["events"], recording.counts["watermarks"] > 50) == (2, True)
