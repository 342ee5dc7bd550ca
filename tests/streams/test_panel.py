"""The panel: what a user commits becomes a scenario, a run and a picture; what is wrong is said and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wmlab.core import live_view
from wmlab.core.errors import ScenarioError
from wmlab.core.recording import Recording
from wmlab.core.words import grouped, unbroken
from wmlab.streams.api import Scenario
from wmlab.streams.panel import YAML, ScenarioPanel, panel
from wmlab.streams.panel.edits import changed, with_part, without_part
from wmlab.streams.panel.fields import FAULTS, Field, fields_of, parts_of
from wmlab.streams.panel.pictures import PICTURES
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario import script
from wmlab.streams.scenario.options import OPTIONS, SECTIONS
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import Rules
from wmlab.streams.scenario.scenario import StreamScenario

TIMEOUT = ("stream", "timestamp_aggregation_timeout_ms")
RATE = ("writers", 0, "rate_per_s")
FIRST_BOUNDS = Scenario.load("data/scenarios/first_bounds.yaml")


@pytest.fixture
def shown() -> ScenarioPanel:
    return panel(FIRST_BOUNDS)


def stream(shown: ScenarioPanel) -> ScenarioPanel:
    return shown.section("Stream")


def all_fields(scenario: Scenario) -> list[Field]:
    parts = [part for section in SECTIONS for part in parts_of(scenario, section)]
    return [field for part in parts for field in fields_of(scenario, part)]


def field_at(scenario: Scenario, *path: str | int) -> Field:
    return next(field for field in all_fields(scenario) if field.path == path)


def edit(scenario: Scenario, path: tuple[str | int, ...], offered: object) -> Scenario:
    return changed(scenario, field_at(scenario, *path), offered)


def control(shown: ScenarioPanel, path: tuple[str | int, ...]) -> Any:
    return next(control for control in shown._controls.values() if control.field.path == path)


def mistake_at(shown: ScenarioPanel, path: tuple[str | int, ...]) -> str:
    return str(control(shown, path)._mistake.value)


def picture(shown: ScenarioPanel) -> list[dict[str, Any]]:
    """What stands where the picture is, as outputs of a cell have it."""
    return [output["data"] for output in shown._view.drawn.outputs]


# The form, without widgets.


def test_a_field_is_made_of_the_annotation_of_its_class() -> None:
    kinds = {field.path[-1]: field.kind for field in all_fields(FIRST_BOUNDS) if field.path[0] != "script"}
    assert kinds["rate_per_s"] == "real"
    assert kinds["timestamp_aggregation_timeout_ms"] == kinds["skew_ms"] == "duration"
    assert kinds["segments"] == "whole"
    assert kinds["flush_before_note"] == "flag"
    assert kinds["cut_algorithm"] == kinds["bug_6510"] == kinds["base"] == "choice"
    note_every = field_at(FIRST_BOUNDS, "writers", 0, "note_every_ms")
    assert (note_every.optional, note_every.empty, note_every.text) == (True, "never", "1 s")
    assert not field_at(FIRST_BOUNDS, "stream", "segments").optional


def test_twenty_to_forty_options_are_offered_and_each_says_what_it_does() -> None:
    offered = {(option.field, option.label) for options in OPTIONS.values() for option in options}
    assert 20 <= len(offered) <= 40
    both = FIRST_BOUNDS.replace(writers=[*FIRST_BOUNDS.writers, TransactionalWriter("t", rate_per_s=1.0)])
    helps = {field.path: field.help for field in all_fields(both) if field.path[0] != "script"}
    parts = {EventWriter, TransactionalWriter, Stream, Controllers, ReaderGroup, Rules, StreamScenario}
    assert OPTIONS.keys() == parts
    assert [path for path, said in helps.items() if not said.endswith(".")] == []
    assert helps["readers", "readers"].startswith("How many it starts with")
    assert helps["writers", len(FIRST_BOUNDS.writers), "delay_mean_ms"] == helps["writers", 0, "delay_mean_ms"]


@pytest.mark.parametrize("name", Scenario.names())
def test_what_the_form_shows_put_in_again_is_the_same_scenario(name: str) -> None:
    scenario = Scenario.load(name)
    fields = all_fields(scenario)
    assert len({field.path for field in fields}) == len(fields)
    for field in fields:
        assert changed(scenario, field, field.value if field.kind in ("flag", "choice") else field.text) == scenario
        if field.stops:
            assert field.value in field.stops
        if field.kind == "choice":
            assert field.value in dict(field.choices).values()


@pytest.mark.parametrize(
    ("path", "typed", "value"),
    [
        (TIMEOUT, "4 s", 4_000),
        (TIMEOUT, "1 min 30 s", 90_000),
        (TIMEOUT, "0", 0),
        (RATE, "20", 20),
        (RATE, "1 000", 1_000),
        (RATE, "1e3", 1_000),
        (("writers", 0, "delay_mean_ms"), "2.5 ms", 2.5),
        (("writers", 0, "clock", "skew_ms"), "\N{MINUS SIGN}5 s", -5_000),
        (("writers", 0, "note_every_ms"), "", None),
        (("writers", 0, "flush_before_note"), True, True),
        (("rules", "cut_algorithm"), "pravega", "pravega"),
        (("network", "loss"), "0.1", 0.1),
        (("script", 0, "seal"), "1@0", ("1@0",)),
        (("script", 0, "seal"), "0@0, 1@0", ("0@0", "1@0")),
        (("script", 0, "into"), "3", 3),
        (("script", 1, "restart_after_ms"), "5 s", 5_000),
    ],
)
def test_a_field_takes_what_is_typed(path: tuple[str | int, ...], typed: object, value: object) -> None:
    scenario = edit(FIRST_BOUNDS, path, typed)
    assert field_at(scenario, *path).value == value
    assert Scenario.from_yaml(scenario.to_yaml()) == scenario


@pytest.mark.parametrize(
    ("path", "typed", "said"),
    [
        (TIMEOUT, "20", "'20' has no unit; write 20 ms or 20 s"),
        (TIMEOUT, "-5 s", "greater than or equal to 0"),
        (TIMEOUT, "abc", "got 'abc'"),
        (TIMEOUT, "1.5 ms", "valid integer"),
        (RATE, "-5", "greater than or equal to 0"),
        (RATE, "fast", "got 'fast'"),
        (RATE, "", "give either rate_per_s or trace"),
        (("stream", "segments"), "", "valid integer"),
        (("stream", "segments"), "99999999999999999999", "less than or equal to 10000"),
        (("script", 0, "into"), "[", "is not YAML"),
        (("script", 0, "seal"), "7@0", "7@0"),
    ],
)
def test_a_mistake_is_said_and_is_not_another_number(path: tuple[str | int, ...], typed: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said.replace("[", r"\[")):
        edit(FIRST_BOUNDS, path, typed)


def test_an_option_of_the_rules_shows_what_is_in_effect() -> None:
    by_design = FIRST_BOUNDS.replace(rules="design")
    field = field_at(by_design, "rules", "read_side")
    assert (field.value, field.choices[0]) == (None, ("document, by the rules", None))
    assert field_at(by_design, "rules", "forgets").empty == "all, by the rules"
    set_by_hand = edit(by_design, ("rules", "read_side"), "implementation")
    assert set_by_hand.options["read_side"] == "implementation"
    assert edit(set_by_hand, ("rules", "read_side"), None) == by_design


def test_a_slider_goes_in_steps_that_read_well_and_has_the_value() -> None:
    stops = field_at(edit(FIRST_BOUNDS, TIMEOUT, "5.6 s"), *TIMEOUT).stops
    assert set(stops) >= {0, 1_000, 5_000, 5_600, 10_000, 100_000}
    assert list(stops) == sorted(stops)
    assert field_at(FIRST_BOUNDS, "stream", "segments").stops == tuple(range(1, 17))
    assert field_at(FIRST_BOUNDS, "writers", 0, "note_every_ms").stops[-1] is None
    assert field_at(FIRST_BOUNDS, "script", 1, "at_ms").stops[:3] == (0, 1_000, 2_000)
    assert min(field_at(FIRST_BOUNDS, "writers", 0, "clock", "skew_ms").stops) == -10_000


def test_a_noting_policy_is_a_choice_with_fields_of_its_own() -> None:
    kind = ("writers", 1, "noting", "kind")
    slack = edit(FIRST_BOUNDS, kind, "max_minus_slack")
    assert field_at(slack, "writers", 1, "noting", "slack_ms").text == "1 s"
    assert repr(edit(slack, ("writers", 1, "noting", "slack_ms"), "3 s").writers[1].noting) == (
        "MaxMinusSlack(slack_ms='3 s')"
    )
    assert repr(edit(slack, kind, "compute").writers[1].noting) == "Compute(time='clock')"
    assert edit(slack, kind, "earliest_open") == FIRST_BOUNDS


def test_a_writer_of_events_becomes_one_of_transactions_and_keeps_what_both_have() -> None:
    scenario = edit(FIRST_BOUNDS, ("writers", 1, "kind"), "transactional")
    writer = scenario.writers[1]
    assert (type(writer).__name__, writer.name, writer.rate_per_s) == ("TransactionalWriter", "w2", 50)
    assert edit(scenario, ("writers", 1, "kind"), "event") == FIRST_BOUNDS


NEED_MORE = {"create_stream": "is not there then"}
"""Faults that no default makes possible in a scenario whose script uses the stream before."""


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_can_be_added_as_it_is_offered(kind: str) -> None:
    scenario = edit(with_part(FIRST_BOUNDS, "Writers"), ("writers", 2, "kind"), "transactional")
    scenario = with_part(scenario, "Faults")
    if kind in NEED_MORE:
        with pytest.raises(ScenarioError, match=NEED_MORE[kind]):
            edit(scenario, ("script", 2, "kind"), kind)
        return
    added = edit(scenario, ("script", 2, "kind"), kind)
    assert added.script[2].kind == kind
    assert added.script[2].at_ms == 30_000
    assert len(without_part(added, ("script", 2)).script) == 2
    assert [f.label for f in all_fields(added) if f.path[:2] == ("script", 2)][:2] == ["What happens", "At"]


def test_the_names_that_may_be_meant_are_the_choices() -> None:
    cut_off = edit(with_part(FIRST_BOUNDS, "Faults"), ("script", 2, "kind"), "partition")
    assert {"w1", "readers-1", "controller-0", "metadata-store", "writers"} <= {
        name for name, _ in field_at(cut_off, "script", 2, "a").choices
    }
    assert field_at(FIRST_BOUNDS, "script", 1, "writer").choices == (("w1", "w1"), ("w2", "w2"))
    assert field_at(FIRST_BOUNDS, "script", 0, "stream").choices[0] == ("the first one", None)


def test_a_part_that_others_name_stays_until_they_are_gone() -> None:
    with pytest.raises(ScenarioError, match="no writer is called 'w2'"):
        without_part(FIRST_BOUNDS, ("writers", 1))
    without_crash = without_part(FIRST_BOUNDS, ("script", 1))
    assert [writer.name for writer in without_part(without_crash, ("writers", 1)).writers] == ["w1"]
    assert without_part(FIRST_BOUNDS, ("readers",)).readers is None
    with pytest.raises(ScenarioError, match="no other part"):
        with_part(FIRST_BOUNDS, "Controllers")


def test_several_streams_are_parts_of_their_own() -> None:
    several = Scenario.load("many_streams")
    assert len(parts_of(several, "Stream")) == 8
    assert parts_of(several, "Stream")[1].path == ("streams", 1)


# The panel.


def test_a_panel_records_at_once_and_says_what_held_the_bound(shown: ScenarioPanel) -> None:
    assert shown.recording is not None
    rows = sum(shown.recording.counts.values())
    assert repr(shown) == f"Panel of scenario 'a split and a dead writer': {grouped(rows)} rows recorded"
    assert shown.recording.tables == FIRST_BOUNDS.record().tables
    assert shown._view.sentence.value == unbroken(shown.recording.explain().sentence)
    heading, _, drawn = picture(shown)
    assert "did readers-0 see?" in heading["text/html"].replace("\u00a0", " ")
    assert {"application/vnd.plotly.v1+json", "image/svg+xml"} <= set(drawn)


def test_a_committed_value_changes_scenario_run_and_picture(shown: ScenarioPanel) -> None:
    before = picture(shown)
    stream(shown).change(TIMEOUT, "4 s")
    assert shown.scenario.stream.timestamp_aggregation_timeout_ms == 4_000
    assert shown.recording.scenario == shown.scenario.to_dict()
    assert picture(shown) != before
    with pytest.raises(ScenarioError, match="shows no field"):
        shown.change(RATE, "5")


def test_text_slider_choice_and_check_box_commit_and_stay_the_same_widgets(shown: ScenarioPanel) -> None:
    rate = control(shown, RATE)
    rate.entry.value = "20"
    assert (shown.scenario.writers[0].rate_per_s, rate._slider.value) == (20, "20")
    rate._slider.value = "50"
    assert (shown.scenario.writers[0].rate_per_s, rate.entry.value) == (50, "50")
    control(shown, ("writers", 0, "flush_before_note")).entry.value = True
    assert shown.scenario.writers[0].flush_before_note
    assert control(shown, RATE) is rate, "a widget that is replaced loses the focus"
    control(shown, ("writers", 0, "noting", "kind")).entry.value = "max minus slack"
    assert control(shown, ("writers", 0, "noting", "slack_ms")).entry.value == "1 s"
    control(shown, ("writers", 0, "note_every_ms"))._slider.value = ""
    assert shown.scenario.writers[0].note_every_ms is None


def test_a_mistake_stands_at_its_field_and_the_last_run_stays(shown: ScenarioPanel) -> None:
    run = stream(shown).recording
    timeout = control(shown, TIMEOUT)
    timeout.entry.value = "-5 s"
    assert "greater than or equal to 0" in mistake_at(shown, TIMEOUT)
    assert timeout.entry.value == "-5 s", "what is typed stays as it is typed"
    assert (shown.scenario, shown.recording, len(shown.mistakes)) == (FIRST_BOUNDS, run, 1)
    assert repr(shown).endswith(", 1 mistake")
    shown.keep().check()
    assert (shown.kept_runs, shown.verdicts) == ({}, None)
    assert "has no run" in shown._view.notice.value
    shown.undo()
    assert (timeout.entry.value, mistake_at(shown, TIMEOUT), shown.mistakes) == ("15 s", "", ())
    timeout.entry.value = "-5 s"
    timeout.entry.value = "6 s"
    assert (mistake_at(shown, TIMEOUT), shown.scenario.stream.timestamp_aggregation_timeout_ms) == ("", 6_000)


def test_a_mistake_elsewhere_is_said_with_its_path(shown: ScenarioPanel) -> None:
    shown.section("Writers", 1).remove()
    assert "script[1].writer: no writer is called" in shown._view.notice.value
    assert shown.scenario == FIRST_BOUNDS


def test_writers_and_faults_come_and_go(shown: ScenarioPanel) -> None:
    shown.section("Faults").add()
    assert shown._view.part.options == (
        "scale at 15 s, seal 0@0",
        "crash writer w2 at 30 s",
        "silence writer w1 at 30 s",
    )
    assert shown._view.part.index == 2
    shown.change(("script", 2, "for_ms"), "5 s")
    assert shown._view.part.options[2] == "silence writer w1 at 30 s, for 5 s"
    assert shown.remove().scenario == FIRST_BOUNDS
    shown.section("Readers").remove()
    assert shown.scenario.readers is None
    assert shown._controls == {}
    with pytest.raises(ScenarioError, match="nothing to remove"):
        shown.remove()
    assert shown.add().scenario.readers is not None
    shown.section("Writers").add()
    assert [writer.name for writer in shown.scenario.writers] == ["w1", "w2", "w3"]


def test_the_yaml_is_the_whole_scenario_and_its_mistakes_have_lines(shown: ScenarioPanel) -> None:
    box = shown.section(YAML)._view.text
    assert box.value == FIRST_BOUNDS.to_yaml()
    box.value = box.value.replace("rate_per_s: 50.0", "rate_per_s: -5").replace("seed: 7", "sead: 7")
    lines = shown._view.wrong_lines.value
    assert "Line 12, writers[1].rate_per_s: input should be greater than or equal to 0 (got -5)." in lines
    assert "Line 29, sead: no such field, did you mean seed?" in lines
    assert "sead" in box.value
    shown.write("wmlab: 1\nname: [x\n")
    assert "Line 2: This is no YAML" in shown._view.wrong_lines.value
    assert "<code>2: name: [x</code>" in shown._view.wrong_lines.value
    shown.write(FIRST_BOUNDS.replace(seed=8).to_yaml())
    assert (shown._view.wrong_lines.value, shown.scenario.seed, type(shown.scenario)) == ("", 8, Scenario)


def test_every_change_can_be_undone_and_made_again(shown: ScenarioPanel) -> None:
    buttons = shown._view
    assert (buttons.undo.disabled, buttons.redo.disabled) == (True, True)
    once = stream(shown).change(TIMEOUT, "4 s").scenario
    twice = shown.section("Faults", 1).remove().scenario
    buttons.undo.click()
    assert (shown.scenario, shown.recording.scenario) == (once, once.to_dict())
    assert shown.undo().undo().scenario == FIRST_BOUNDS, "there is nothing more to take back"
    buttons.redo.click()
    assert shown.redo().scenario == twice
    shown.undo().undo().section("Stream").change(TIMEOUT, "5 s")
    assert buttons.redo.disabled
    assert shown.undo().scenario == FIRST_BOUNDS


def test_an_example_is_opened_by_its_name(shown: ScenarioPanel) -> None:
    shown._view.example.value = "clock_skew"
    assert (shown.scenario, type(shown.scenario)) == (Scenario.load("clock_skew"), Scenario)
    assert shown._view.example.value == ""
    assert shown.undo().scenario == FIRST_BOUNDS
    with pytest.raises(ScenarioError, match="first_bounds"):
        shown.open("no such example")


def test_kept_runs_are_compared_and_called_by_what_differs(shown: ScenarioPanel) -> None:
    shown.keep()
    assert list(shown.kept_runs) == ["a split and a dead writer"]
    assert shown._view.comparison.value == ""
    first = shown.recording
    stream(shown).change(TIMEOUT, "4 s").keep()
    assert list(shown.kept_runs) == ["timeout 15 s", "timeout 4 s"]
    assert shown.kept_runs["timeout 15 s"] is first
    assert "Kept as “timeout 4 s”" in shown._view.notice.value
    assert "timestamp_aggregation" not in shown._view.comparison.value
    assert (
        ">Timeout</td><td style='white-space:nowrap'>15\u00a0s</td><td style='white-space:nowrap'>4\u00a0s</td>"
        in shown._view.comparison.value
    )
    shown.keep()
    assert len(shown.kept_runs) == 2
    assert "is kept as “timeout 4 s”" in shown._view.notice.value
    shown.undo().keep()
    assert len(shown.kept_runs) == 2
    assert repr(shown).endswith("2 runs kept")


def test_kept_runs_of_a_stream_that_was_renamed_are_compared(shown: ScenarioPanel) -> None:
    shown.keep().write(FIRST_BOUNDS.to_yaml().replace("name: orders", "name: renamed")).keep()
    assert "<svg" in shown._view.comparison.value
    assert list(shown.kept_runs) == ["stream name orders", "stream name renamed"]


class Judged:
    sentence = "1 invariant of 2 holds; violated: I1."
    violated, unknown = ("I1",), ()

    def __init__(self, of: Recording) -> None:
        self.of = of

    def _repr_html_(self) -> str:
        return f"verdicts of {self.of.scenario['stream']['timestamp_aggregation_timeout_ms']}"


def test_verdicts_are_of_the_run_that_is_shown(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamRecording, "check", lambda recording: Judged(recording))
    shown._view.check.click()
    assert shown._view.verdicts.value == "verdicts of 15000"
    assert isinstance(shown.verdicts, Judged)
    column = shown._view.root.children[-1].children[1].children
    places = [column.index(widget) for widget in (shown._view.notice, shown._view.verdicts, shown._view.drawn)]
    assert places == [1, 2, 4], "the verdicts stand below their button, not below the picture"
    stream(shown).change(TIMEOUT, "-1 s")
    assert shown._view.verdicts.value == "verdicts of 15000", "a mistake changes no scenario"
    shown.change(TIMEOUT, "4 s")
    assert (shown.verdicts, shown._view.verdicts.value) == (None, "")


@pytest.mark.parametrize(("violated", "unknown"), [((), ()), (("I1",), ()), ((), ("I1",))])
def test_the_table_of_verdicts_is_folded_where_all_hold(
    shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch, violated: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Judged, "violated", violated)
    monkeypatch.setattr(Judged, "unknown", unknown)
    monkeypatch.setattr(StreamRecording, "check", lambda recording: Judged(recording))
    shown._view.check.click()
    found = shown._view.verdicts.value
    assert found.startswith(f"<details><summary>{Judged.sentence}") is not bool(violated or unknown)
    assert "verdicts of 15000" in found


@pytest.mark.parametrize(
    ("failure", "said"),
    [(KeyboardInterrupt(), "The run was interrupted."), (ScenarioError("it fails.", remedy="do not."), "It fails.")],
)
def test_a_run_that_fails_or_is_interrupted_leaves_the_last_one(
    shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch, failure: BaseException, said: str
) -> None:
    run, drawn = stream(shown).recording, picture(shown)
    monkeypatch.setattr("wmlab.streams.panel.record", failing(failure))
    shown.change(TIMEOUT, "4 s")
    assert (shown.recording, picture(shown)) == (run, drawn)
    assert said in shown._view.notice.value
    assert "The picture shows the run before." in shown._view.notice.value
    assert shown.keep().kept_runs == {}
    monkeypatch.setattr("wmlab.streams.panel.record", record)
    assert shown.change(TIMEOUT, "5 s").recording is not run


def failing(failure: BaseException) -> Callable[..., Recording]:
    def run(scenario: Scenario, *, progress: Callable[[int], None]) -> Recording:
        progress(40)
        raise failure

    return run


def test_another_picture_is_of_the_same_run(shown: ScenarioPanel) -> None:
    run = shown.recording
    for name in PICTURES:
        assert "application/vnd.plotly.v1+json" in picture(shown.picture(name))[-1], name
    assert shown.recording is run
    with pytest.raises(ScenarioError, match="no picture 'sunset'"):
        shown.picture("sunset")


def test_the_bounds_of_any_reader_can_be_chosen(shown: ScenarioPanel) -> None:
    shown.see("readers-1")
    assert "did readers-1 see?" in picture(shown)[0]["text/html"].replace("\u00a0", " ")
    stream(shown).change(TIMEOUT, "4 s")
    assert shown._view.reader.value == "readers-1"
    with pytest.raises(ScenarioError, match="readers-0, readers-1"):
        shown.see("readers-2")


def test_a_run_without_what_the_picture_needs_says_so(shown: ScenarioPanel) -> None:
    shown.section("Readers").remove()
    (said,) = picture(shown)
    assert "role='alert'" in said["text/html"]
    assert shown._view.reader.options == ()
    assert "<svg" in shown.svg


def test_a_click_on_the_picture_answers_of_the_curve_that_is_drawn(shown: ScenarioPanel) -> None:
    paused = script.PauseReader(at_ms=20_000, reader="readers-0", for_ms=15_000)
    shown.write(FIRST_BOUNDS.replace(script=[paused]).to_yaml())
    shown._clicked.clicked = 30.0
    assert shown._clicked.sentence == shown.recording.explain(30_000, reader="readers-0").sentence
    assert "held by" in shown.svg
    shown.picture("who held the bound")
    assert shown._clicked.sentence.startswith("Click on the chart")
    shown._clicked.clicked = 30.0
    assert shown._clicked.sentence == shown.recording.explain(30_000).sentence


def test_a_notebook_keeps_a_picture_and_words_of_it(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[dict[str, Any]] = []
    monkeypatch.setattr(live_view, "publish", outputs.append)
    shown._ipython_display_()
    still, note, live = outputs
    assert still == {"image/svg+xml": shown.svg, "text/plain": repr(shown)}
    assert "run this cell" in note["text/html"]
    assert list(live) == ["application/vnd.jupyter.widget-view+json"]


def test_a_panel_is_of_a_scenario_of_streams_without_functions() -> None:
    with pytest.raises(ScenarioError, match="made of a dict"):
        panel({})  # type: ignore[arg-type]
    writer = EventWriter("w", rate_per_s=5, event_time=lambda known: known["clock"])
    with pytest.raises(ScenarioError, match="Python function, which no file can hold"):
        panel(Scenario("own time", writers=[writer], duration_ms=1_000))


def test_a_duration_that_was_given_as_text_keeps_its_words() -> None:
    writers = [EventWriter("w", rate_per_s=5, clock=Clock(skew_ms="0.5 min"))]
    scenario = Scenario(
        "x", stream=Stream(timestamp_aggregation_timeout_ms="1 min"), writers=writers, duration_ms=9_000
    )
    assert field_at(scenario, *TIMEOUT).text == "1 min"
    assert "0.5 min" in edit(scenario, TIMEOUT, "2 min").to_yaml()
    assert "2 min" in edit(scenario, TIMEOUT, "2 min").to_yaml()


def test_the_scenario_can_be_saved(shown: ScenarioPanel, tmp_path: Path) -> None:
    stream(shown).change(TIMEOUT, "4 s").scenario.save(tmp_path / "mine.yaml")
    assert Scenario.load(tmp_path / "mine.yaml") == shown.scenario
