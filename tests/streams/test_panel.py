"""The panel: what a user changes becomes a scenario, a run, a picture; what is wrong is said and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from wmlab.core.errors import ScenarioError
from wmlab.core.recording import Recording
from wmlab.core.scenario_file import dump_fragment
from wmlab.core.values import plain
from wmlab.core.words import grouped
from wmlab.streams.api import Scenario
from wmlab.streams.panel import ScenarioPanel, panel
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario.parts import EventWriter
from wmlab.streams.scenario.scenario import fields_of, with_changes

TIMEOUT = ("stream", "timestamp_aggregation_timeout_ms")


@pytest.fixture
def shown() -> ScenarioPanel:
    return panel(Scenario.load("data/scenarios/first_bounds.yaml")).wait()


def turn(shown: ScenarioPanel, path: tuple[Any, ...], value: object) -> ScenarioPanel:
    shown.widget.form.control(path).value = value
    return shown.wait()


def part_text(part: object) -> str:
    return dump_fragment(plain(part), one_line=False)


def test_a_panel_records_at_once_and_says_what_held_the_bound(shown: ScenarioPanel) -> None:
    assert shown.recording is not None
    rows = sum(shown.recording.counts.values())
    fields = len(fields_of(shown.scenario))
    assert (
        repr(shown) == f"Panel of scenario 'a split and a dead writer': {fields} fields, {grouped(rows)} rows recorded"
    )
    assert shown.recording.tables == shown.scenario.record().tables
    assert "held back most by w2 (lagging)" in shown.widget.sentence.value
    assert "<svg" in shown.widget.picture.value


def test_a_changed_field_changes_scenario_run_and_picture(shown: ScenarioPanel) -> None:
    before = shown.widget.picture.value
    turn(shown, TIMEOUT, 4_000)
    assert shown.scenario.stream.timestamp_aggregation_timeout_ms == 4_000
    assert "w2 (slowest)" in shown.widget.sentence.value
    assert shown.widget.picture.value != before


def test_every_kind_of_field_can_be_changed(shown: ScenarioPanel) -> None:
    turn(shown, ("writers", 0, "rate_per_s"), "20")
    turn(shown, ("writers", 0, "note_every_ms"), "")
    turn(shown, ("writers", 1, "noting"), "{kind: wall_clock}")
    turn(shown, ("stream", "cut_algorithm"), "pravega")
    turn(shown, ("stream", "bug_6510"), True)
    turn(shown, ("writers", 1, "delay_mean_ms"), 2.5)
    scenario = shown.scenario
    assert (scenario.writers[0].rate_per_s, scenario.writers[0].note_every_ms) == (20, None)
    assert type(scenario.writers[1].noting).__name__ == "WallClock"
    assert (scenario.stream.cut_algorithm, scenario.stream.bug_6510) == ("pravega", True)
    assert scenario.writers[1].delay_mean_ms == 2.5
    assert Scenario.from_yaml(shown.widget.yaml.value) == scenario


def test_a_mistake_is_named_and_the_last_run_stays(shown: ScenarioPanel) -> None:
    before, run = shown.scenario, shown.recording
    turn(shown, ("writers", 1, "keys"), "0..7")
    assert "writers[1].keys" in shown.widget.message.value
    assert "not a key range" in shown.widget.message.value
    assert (shown.scenario, shown.recording) == (before, run)
    turn(shown, ("writers", 1, "noting"), "{kind: [")
    assert "is not YAML" in shown.widget.message.value
    turn(shown, ("writers", 1, "keys"), "0..1/2")
    assert shown.scenario == before, "a mistake elsewhere still stands in the form"
    turn(shown, ("writers", 1, "noting"), "{kind: last_event_time}")
    assert shown.widget.message.value == ""
    assert shown.scenario.writers[1].keys == "0..1/2"


def test_a_number_outside_its_bounds_is_a_mistake_and_not_another_number(shown: ScenarioPanel) -> None:
    before = shown.scenario
    turn(shown, ("duration_ms",), -5)
    assert "duration_ms" in shown.widget.message.value
    assert shown.widget.form.control(("duration_ms",)).value == -5
    assert shown.scenario == before


def test_the_picture_follows_the_theme_of_jupyterlab(shown: ScenarioPanel) -> None:
    assert '[data-jp-theme-light="false"] .wmlab-panel .wmlab-fill-paper{fill:' in shown.widget.picture.value
    assert "wmlab-panel" in shown.widget.picture._dom_classes


def test_kept_runs_are_compared_on_one_axis(shown: ScenarioPanel) -> None:
    shown.keep("patient")
    assert shown.widget.kept.value == "Kept: patient"
    turn(shown, TIMEOUT, 4_000)
    shown.keep()
    assert list(shown.kept) == ["patient", "run 2"]
    assert "stream.timestamp_aggregation_timeout_ms" in shown.widget.kept.value
    assert repr(shown).endswith("2 runs kept")


def test_kept_runs_of_a_stream_that_was_renamed_are_compared(shown: ScenarioPanel) -> None:
    shown.keep("before")
    turn(shown, ("stream", "name"), "renamed")
    shown.keep("after")
    assert "<svg" in shown.widget.kept.value
    assert "stream.name" in shown.widget.kept.value


def test_a_label_that_is_taken_is_refused_and_the_kept_run_stays(shown: ScenarioPanel) -> None:
    run = shown.recording
    shown.keep("mine")
    turn(shown, TIMEOUT, 4_000).keep("mine")
    assert "kept under" in shown.widget.message.value
    assert shown.kept == {"mine": run}
    shown.keep("run 3")
    shown.keep()
    assert list(shown.kept) == ["mine", "run 3", "run 4"]


class _Verdicts:
    def __init__(self, of: Recording) -> None:
        self.of = of

    def _repr_html_(self) -> str:
        return f"verdicts of {self.of.scenario['stream']['timestamp_aggregation_timeout_ms']}"


def test_verdicts_are_of_the_run_that_is_shown(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamRecording, "check", lambda recording: _Verdicts(recording))
    turn(shown, TIMEOUT, 9_000).judge()
    assert shown.wait().widget.verdicts.value == "verdicts of 9000"
    turn(shown, TIMEOUT, 4_000)
    assert (shown.verdicts, shown.widget.verdicts.value) == (None, "")
    shown.judge()
    assert shown.wait().widget.verdicts.value == "verdicts of 4000"
    turn(shown, TIMEOUT, -1)
    assert shown.widget.verdicts.value == "verdicts of 4000", "a mistake changes no scenario"


def test_a_judgement_that_ends_after_a_change_is_dropped(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(recording: Recording) -> _Verdicts:
        if recording.scenario["stream"]["timestamp_aggregation_timeout_ms"] != 4_000:
            shown.change(TIMEOUT, 4_000)
            while shown.recording.scenario["stream"]["timestamp_aggregation_timeout_ms"] != 4_000:
                sleep(0.01)
            shown.judge()
        return _Verdicts(recording)

    monkeypatch.setattr(StreamRecording, "check", check)
    shown.judge()
    assert shown.wait().widget.verdicts.value == "verdicts of 4000"
    assert isinstance(shown.verdicts, _Verdicts)
    assert shown.verdicts.of is shown.recording


def test_a_run_that_is_gone_is_neither_kept_nor_judged(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmlab.streams.panel.record", interrupted([], shown.cancel))
    turn(shown, ("duration_ms",), 50_000)
    assert "cancelled. The picture shows the run of the scenario before." in shown.widget.message.value
    shown.keep("wrong")
    shown.judge()
    assert (shown.kept, shown.verdicts, shown.widget.verdicts.value) == ({}, None, "")
    assert "has no run" in shown.widget.message.value


def test_acts_and_writers_come_and_go(shown: ScenarioPanel) -> None:
    act = part_text(shown.scenario.script[1])
    shown.remove("script 1: crash writer")
    assert len(shown.wait().scenario.script) == 1
    shown.add("script", act)
    assert shown.wait().scenario == Scenario.load("data/scenarios/first_bounds.yaml")
    shown.add("writers", part_text(shown.scenario.writers[0]).replace("w1", "w3"))
    assert [writer.name for writer in shown.wait().scenario.writers] == ["w1", "w2", "w3"]
    shown.add("script", "kind: no_such_act")
    assert "no_such_act" in shown.widget.message.value
    shown.remove("script 9")
    assert "no act has the heading &#x27;script 9&#x27;. " in shown.widget.message.value


def test_another_picture_is_of_the_same_run(shown: ScenarioPanel) -> None:
    run = shown.recording
    for name in shown.widget.choice.options:
        shown.picture(name)
        assert "<svg" in shown.widget.picture.value, name
    assert shown.recording is run


def test_a_run_without_what_the_picture_needs_says_so(shown: ScenarioPanel) -> None:
    shown.picture("lag")
    shown.scenario = shown.scenario.replace(readers=None)
    shown.add("writers", part_text(shown.scenario.writers[0]).replace("w1", "w3"))
    assert "role='alert'" in shown.wait().widget.picture.value


def test_a_cancelled_run_leaves_the_last_one(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shown.recording
    monkeypatch.setattr("wmlab.streams.panel.record", interrupted([], shown.cancel))
    turn(shown, ("duration_ms",), 50_000)
    assert shown.recording is run
    assert shown.widget.stop.layout.visibility == "hidden"
    shown.cancel()
    assert turn(shown, TIMEOUT, 4_000).recording is not run, "after a cancelled run another one can be requested"


def test_the_latest_request_wins_over_the_run_that_is_under_way(
    shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    change = interrupted(begun, lambda: shown.change(TIMEOUT, 4_000))
    monkeypatch.setattr("wmlab.streams.panel.record", change)
    turn(shown, TIMEOUT, 9_000)
    assert begun == [9_000, 4_000]
    assert shown.recording.scenario["stream"]["timestamp_aggregation_timeout_ms"] == 4_000


def interrupted(begun: list[int], interrupt: Callable[[], None]) -> Callable[..., Recording]:
    """`record`, during whose first run something happens; `begun` collects the timeouts of the runs that began."""

    def run(scenario: Scenario, *, progress: Callable[[int], None]) -> Recording:
        begun.append(scenario.stream.timestamp_aggregation_timeout_ms)
        if len(begun) == 1:
            interrupt()
        return record(scenario, progress=progress)

    return run


def test_the_scenario_is_saved_where_it_can_be_read(shown: ScenarioPanel, tmp_path: Path) -> None:
    shown.save(str(tmp_path / "mine.yaml"))
    assert Scenario.load(tmp_path / "mine.yaml") == shown.scenario
    shown.save(str(tmp_path / "no" / "mine.yaml"))
    assert "cannot be written" in shown.widget.message.value


def test_what_a_notebook_stores_is_text(shown: ScenarioPanel) -> None:
    assert shown._repr_mimebundle_()["text/plain"] == repr(shown)
    with pytest.raises(ScenarioError, match="made of a dict"):
        panel({})  # type: ignore[arg-type]


@pytest.mark.parametrize("path", sorted(Path("data/scenarios").glob("[dr]*/*.yaml")), ids=lambda path: path.stem)
def test_a_form_without_changes_is_the_same_scenario(path: Path) -> None:
    scenario = Scenario.load(path)
    fields = fields_of(scenario)
    assert with_changes(scenario, {field.path: field.value for field in fields if field.value is not None}) == scenario
    assert len({field.path for field in fields}) == len(fields)
    assert all(field.unit == "ms" for field in fields if str(field.path[-1]).endswith("_ms"))


def test_a_panel_refuses_a_function_that_its_yaml_could_not_hold() -> None:
    writer = EventWriter("w", rate_per_s=5, event_time=lambda known: known["clock"])
    with pytest.raises(ScenarioError, match="Python function, which no file can hold"):
        panel(Scenario("own time", writers=[writer], duration_ms=1_000))
