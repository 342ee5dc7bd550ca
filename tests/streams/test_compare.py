"""Two runs side by side, from the public door to what a notebook shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from pydantic import TypeAdapter

from tests.streams.charts.recordings import recording
from wmlab.core.errors import ChartError, RecordingError, ScenarioError
from wmlab.core.recording import Recording
from wmlab.streams.api import Scenario
from wmlab.streams.compare import compare


@pytest.fixture(scope="module")
def runs() -> tuple[Recording, Recording]:
    patient = Scenario.load("data/scenarios/first_bounds.yaml")
    fields = patient.to_dict()
    fields["stream"]["timestamp_aggregation_timeout_ms"] = 4_000
    hasty = TypeAdapter(Scenario).validate_python(fields | {"name": "hasty"})
    return patient.record(), hasty.record()


def test_what_was_changed_is_the_only_difference_and_its_effect_is_told(runs: tuple[Recording, Recording]) -> None:
    found = compare(*runs)
    assert found.labels == ("a split and a dead writer", "hasty")
    assert found.differs == (("stream.timestamp_aggregation_timeout_ms", (15_000, 4_000)),)
    results = dict(found.results)
    patient, hasty = results["worst lag of the lower bound (ms)"]
    assert 10_000 < patient - hasty <= 11_000, "the timeout decides how long a dead writer holds the bound"
    assert "events" not in results, "the writers wrote the same"
    assert "a split and a dead writer lags most" in found.sentence
    assert found.to_pandas()["hasty"].tolist()[0] == "4,000"


def test_a_notebook_shows_picture_and_tables(runs: tuple[Recording, Recording]) -> None:
    bundle = compare(*runs, labels=["15 s", "4 s"])._repr_mimebundle_()
    page = ET.fromstring(f"<div>{bundle['text/html']}</div>")
    assert len(page.findall("table")) == 2
    assert {"15 s", "4 s"} <= {node.text for node in page.iter("th")}
    assert bundle["text/plain"].splitlines()[1].split() == ["15", "s", "4", "s"]
    assert compare(*runs, labels=["15 s", "4 s"])._repr_mimebundle_() == bundle


def test_equal_names_are_numbered_and_equal_runs_differ_in_nothing(runs: tuple[Recording, Recording]) -> None:
    found = compare(runs[1], runs[1])
    assert found.labels == ("hasty (1)", "hasty (2)")
    assert (found.differs, found.results) == ((), ())
    assert "Nothing differs in the scenario" in found._repr_mimebundle_()["text/html"]
    assert "lag equally" in found.sentence


def test_many_runs_are_compared_and_four_are_drawn(runs: tuple[Recording, Recording]) -> None:
    found = compare(*runs, *runs, runs[0], labels=list("abcde"))
    assert "Of 5 runs the first 4 are drawn." in found.chart.svg
    assert all(len(values) == 5 for _, values in found.results)


def test_what_cannot_be_compared_is_refused(runs: tuple[Recording, Recording]) -> None:
    with pytest.raises(RecordingError, match="1 recordings cannot be compared"):
        compare(runs[0])
    with pytest.raises(RecordingError, match="do not name 2 recordings"):
        compare(*runs, labels=["a", "a"])
    with pytest.raises((RecordingError, ScenarioError), match="sales"):
        compare(*runs, stream="sales")
    silent = Recording.from_tables(dict(recording(watermarks=[]).tables), name="s", scenario={"seed": 1})
    with pytest.raises(ChartError, match="None of the runs has a watermark"):
        compare(silent, silent)
