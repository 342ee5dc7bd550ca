"""Two runs side by side, what differs between them, and what a notebook shows."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from collections import deque
from itertools import pairwise
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.streams.charts.recordings import recording
from wmlab.core.errors import ChartError, RecordingError, ScenarioError
from wmlab.core.recording import Recording
from wmlab.core.run_comparison import compare, draw_comparison
from wmlab.core.run_measures import BoundSteps, RunMeasures
from wmlab.streams.answers.history import the_stream
from wmlab.streams.answers.measures import lags, slack_ms
from wmlab.streams.api import Scenario
from wmlab.streams.checks import LateReads
from wmlab.streams.recording import StreamRecording
from wmlab.streams.run_measures import EventsInLog, measured, measures
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream
from wmlab.streams.scenario.rules import Rules
from wmlab.streams.scenario.script import SilenceWriter

SVG = "{http://www.w3.org/2000/svg}svg"


def passed(run: Recording) -> EventsInLog:
    """The log of the only stream of a run, by which its events have passed."""
    in_log = EventsInLog(run, the_stream(run, None))
    deque(in_log.passing([run.table("events")]))
    return in_log


@pytest.fixture(scope="module")
def runs() -> tuple[Recording, Recording]:
    patient = Scenario.load("data/scenarios/first_bounds.yaml")
    fields = patient.to_dict()
    fields["stream"]["timestamp_aggregation_timeout_ms"] = 4_000
    hasty = TypeAdapter(Scenario).validate_python(fields | {"name": "hasty"})
    return patient.record(), hasty.record()


def test_what_was_changed_is_the_only_difference_and_its_effect_is_told(runs: tuple[Recording, Recording]) -> None:
    comparison = compare(*runs)
    assert comparison.labels == ("a split and a dead writer", "hasty")
    assert comparison.differs == (("Timeout", ("15 s", "4 s")),)
    results = dict(comparison.results)
    patient, hasty = results["worst lag of the lower bound (ms)"]
    assert 10_000 < patient - hasty <= 11_000, "the timeout decides how long a dead writer holds the bound"
    assert "events" not in results, "the writers wrote the same"
    assert "a split and a dead writer lags most" in comparison.sentence
    assert comparison.to_pandas()["hasty"].tolist()[0] == "4 s"


def test_a_notebook_shows_picture_and_tables(runs: tuple[Recording, Recording]) -> None:
    comparison = compare(*runs, labels=["15 s", "4 s"])
    page = ET.fromstring(f"<div>{comparison._repr_html_()}</div>")
    assert [picture.get("width") for picture in page.iter(SVG)] == ["900", "560"], "for wide and for narrow columns"
    assert len(page.findall("table")) == 2
    assert {"15 s", "4 s"} <= {node.text for node in page.iter("th")}
    lines = repr(comparison).splitlines()
    assert lines[1] == "Timeout: 15 s → 4 s."
    assert lines[2].split() == ["15", "s", "4", "s"]
    assert compare(*runs, labels=["15 s", "4 s"])._repr_html_() == comparison._repr_html_()
    assert json.loads(comparison.to_json())["differs"] == {"Timeout": ["15 s", "4 s"]}


def test_equal_names_are_numbered_and_equal_runs_differ_in_nothing(runs: tuple[Recording, Recording]) -> None:
    comparison = compare(runs[1], runs[1])
    assert comparison.labels == ("hasty", "hasty (2)")
    assert (comparison.differs, comparison.results) == ((), ())
    assert "Nothing differs in the scenario" in comparison._repr_html_()
    assert "lag equally" in comparison.sentence


@pytest.fixture(scope="module")
def hasty_and_patient() -> tuple[Recording, Recording]:
    """A timeout of zero, with which a healthy writer is dropped in every round, and one of ten seconds."""
    hasty = Scenario.load("data/scenarios/reports/pravega_7408.yaml")
    stream = dataclasses.replace(hasty.stream, timestamp_aggregation_timeout_ms=10_000)
    return hasty.record(), hasty.replace(stream=stream).record()


def test_late_events_come_before_lag(hasty_and_patient: tuple[Recording, Recording]) -> None:
    labels = ["timeout 0", "timeout 10 s"]
    sentence = compare(*hasty_and_patient, labels=labels).sentence
    assert sentence.startswith(
        "Late events: 225 in timeout 0 and 0 in timeout 10 s. "
        "Late for a reader: 154 in timeout 0 and 0 in timeout 10 s. The lower bound of timeout 10 s lags most"
    )
    hasty, patient = map(measures, hasty_and_patient)
    assert hasty.sentence.startswith(
        "Late events: 225, below the lower bound in the log by at most 8.7 s. "
        "Late for a reader: 154, of which left out: 154. The lower bound of"
    )
    assert patient.sentence.startswith("The lower bound of")


def test_measures_and_check_read_the_events_once(
    hasty_and_patient: tuple[Recording, Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, read = hasty_and_patient[0], list[str]()
    chunks = type(run).chunks

    def counted(self: Recording, name: str, *columns: str) -> Any:
        # The names of streams are asked for alone.
        read.extend([name] if columns != ("stream",) else [])
        return chunks(self, name, *columns)

    monkeypatch.setattr(type(run), "chunks", counted)
    measures(run)
    assert read.count("events") == 1
    assert isinstance(run, StreamRecording)
    run.check()
    assert read.count("events") == 2


def test_a_bound_is_late_for_as_long_as_an_event_below_it_is_to_come(
    hasty_and_patient: tuple[Recording, Recording],
) -> None:
    for run in hasty_and_patient:
        in_log = passed(run)
        events = run.table("events").select(["append_ms", "event_time"]).to_pylist()
        late_for_ms = 0
        for (from_ms, lower, _), (to_ms, _, _) in pairwise(in_log.bounds):
            below = [event["append_ms"] for event in events if event["event_time"] < lower]
            late_for_ms += max(0, min(to_ms, max(below, default=0)) - from_ms)
        assert in_log.late(LateReads(0, {})).facts["late for"] == late_for_ms


def test_the_time_after_an_end_of_known_time_has_no_lag() -> None:
    """Between the runs only the lower bound of the silent time differs: one keeps it, the other knows none."""
    stream = Stream(timestamp_aggregation_timeout_ms=2_000)
    scenario = Scenario(
        "kept",
        stream=stream,
        writers=[EventWriter("w1", rate_per_s=10, note_every_ms=500)],
        controllers=Controllers(period_ms=500),
        script=[SilenceWriter(at_ms=5_000, writer="w1", for_ms=15_000)],
        duration_ms=30_000,
    )
    other = scenario.replace(name="unknown", rules=Rules(null_without_writers=True))
    kept, unknown = scenario.record(), other.record()
    comparison = compare(kept, unknown)
    worst = dict(comparison.results)["worst lag of the lower bound (ms)"]
    assert worst[0] > 10_000 > worst[1]
    assert comparison.sentence.startswith("The lower bound of kept lags most")
    slacks = [slack_ms(passed(run).bounds, run.table("events")) for run in (kept, unknown)]
    assert slacks[0] > slacks[1] >= 0


def test_many_runs_are_compared_and_four_are_drawn(runs: tuple[Recording, Recording]) -> None:
    comparison = compare(*runs, *runs, runs[0], labels=list("abcde"))
    assert "Drawn are 4 of 5 runs." in comparison.chart.scene.note
    assert all(len(values) == 5 for _, values in comparison.results)


def test_what_cannot_be_compared_is_refused(runs: tuple[Recording, Recording]) -> None:
    with pytest.raises(RecordingError, match=r"one recording is given(.|\n)*compare\(one, other\)"):
        compare(runs[0])
    with pytest.raises(RecordingError, match="do not name 2 recordings"):
        compare(*runs, labels=["a", "a"])
    with pytest.raises(RecordingError, match="labels is 'ab'"):
        compare(*runs, labels="ab")
    with pytest.raises(RecordingError, match="5 is not a recording"):
        compare(runs[0], 5)  # type: ignore[arg-type]
    with pytest.raises((RecordingError, ScenarioError), match="sales"):
        compare(*runs, stream="sales")
    scenario = Scenario("s", writers=[EventWriter("w1", rate_per_s=1)], duration_ms=1_000).to_dict()
    silent = StreamRecording.from_tables(dict(recording(watermarks=[]).tables), name="s", scenario=scenario)
    with pytest.raises(ChartError, match="None of the runs has a watermark"):
        compare(silent, silent)
    from_a_log = StreamRecording.from_tables(dict(recording().tables), name="a log")
    with pytest.raises(RecordingError, match="came from a log"):
        compare(from_a_log, from_a_log)


def run(name: str, steps: BoundSteps, lag_ms: float | None) -> RunMeasures:
    return RunMeasures(name=name, bound="lower bound", steps=steps, lag_ms=lag_ms, measures={})


def test_the_measures_of_a_run_with_known_answers() -> None:
    in_log = passed(recording())
    assert in_log.bounds == [(2_500, 800, 900), (5_000, 2_800, 3_900), (8_000, 2_800, 3_900)]
    assert measured(recording(), in_log) == {
        "events": 5,
        "watermarks": 2,
        "stalls": 2,
        "refused": 1,
        # 2.5 s at a mean lag of 2 950 ms, then 3 s at 3 700 ms.
        "lag_ms": 3_359.1,
        "worst_lag_ms": 5_200,
        # Its window of 2.6 s holds until 5.5 s, at 800 ms.
        "seen_worst_lag_ms": 4_700,
        # 2.5 s at 100 ms, then 3 s at 1 100 ms.
        "uncertainty_ms": 645.5,
    }
    # From the bound of 800 ms until an event of 500 ms is appended.
    late = in_log.late(LateReads(0, {})).facts
    assert [late[label] for label in ("late", "late at most by", "late for")] == [1, 300, 1_000]


def test_the_largest_lag_of_a_long_run_is_drawn() -> None:
    """One bound in 3 000 stood still for long."""
    times = [1_000 * n + (50_500 if n > 1_234 else 0) for n in range(3_000)]
    rows = [(at_ms, at_ms - 5_000 - 100 * (n % 3)) for n, at_ms in enumerate(times)]
    bounds = [*rows, (times[-1] + 1_000, rows[-1][1])]
    chart = draw_comparison({"a": run("a", bounds, 1.0), "b": run("b", bounds, 1.0)})
    (line,) = chart.scene.panels[1].layers
    assert max(y for y in line.ys if y is not None) == 50_500 + 1_000 + 5_000 + 100
    lags = {at_ms: {at_ms - lower, at_ms - before} for (_, before), (at_ms, lower) in pairwise(bounds)}
    assert all(y in lags[x] for x, y in zip(line.xs[1:], line.ys[1:], strict=True))
    assert len(line.xs) < 1_000


def test_the_measures_are_a_table(runs: tuple[Recording, Recording]) -> None:
    patient = measures(runs[0])
    assert patient.sentence == "The lower bound of orders lags 6.6 s on average."
    assert patient.measures["watermarks"] == 37
    assert "worst lag of the lower bound (ms)" in repr(patient)
    assert "<td style='text-align:left'>watermarks</td><td style='white-space:nowrap'>37</td>" in patient._repr_html_()
    assert dict(compare(*runs).results)["watermarks"] == (37, measures(runs[1]).measures["watermarks"])


def test_a_run_without_watermarks_has_no_lag() -> None:
    in_log = passed(recording(watermarks=[]))
    assert (in_log.bounds, lags(in_log.bounds)["lag_ms"], in_log.late_count) == ([], None, 0)


def test_a_run_without_a_lag_is_named() -> None:
    steps = [(1_000, 500), (2_000, 500)]
    runs = {"a": run("a", steps, 1_000.0), "b": run("b", steps, 1_000.0), "c": run("c", [], None)}
    assert draw_comparison(runs).sentence == (
        "c never had a lower bound. The lower bounds of a and b lag equally, 1.0 s on average."
    )
    runs["b"] = run("b", steps, 1_200.0)
    assert draw_comparison(runs).sentence.startswith("c never had a lower bound. The lower bound of b lags most")


def test_a_run_that_never_had_a_bound_is_told_from_one_of_another_time() -> None:
    steps = [(1_000, 500), (2_000, 500)]
    known, another = run("a", steps, 1_000.0), run("c", steps, None)
    never = run("b", [(1_000, None), (2_000, None)], None)
    sentence = draw_comparison({"a": known, "b": never, "c": another}).sentence
    assert sentence == (
        "b never had a lower bound. Fewer than two of the runs have a lag to compare. "
        "The lower bound of c has no lag: it counts from another time than the clock."
    )
    assert never.sentence == "b never had a lower bound."


def test_a_bound_of_another_time_is_beyond_the_axis_of_the_comparison() -> None:
    begin = 1_704_067_200_000
    rows = [(begin + 1_000 * n, 5 if n in {40, 41, 42} else begin + 1_000 * n - 500) for n in range(100)]
    usual = [(at_ms, at_ms - 700) for at_ms, _ in rows]
    chart = draw_comparison({"a": run("a", rows, 1.0), "b": run("b", usual, 1.0)})
    lower, behind = (panel.up for panel in chart.scene.panels)
    assert lower.high - lower.low < 120_000
    assert behind.high < 5_000
    assert chart.scene.beyond == "Beyond the axis: a, down to Jan 1 1970; a, up to 19 723 d 1 min."
    assert chart.data["lower_bound"][40] == 5
