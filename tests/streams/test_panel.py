"""The panel: what a user changes becomes a scenario, a run, a picture; what is wrong is said and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from wmlab.core.errors import ScenarioError
from wmlab.core.recording import Recording
from wmlab.core.words import grouped
from wmlab.streams.api import Scenario
from wmlab.streams.panel import ScenarioPanel, panel
from wmlab.streams.panel.pictures import PICTURES
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario.form import Draft, fields_of, with_changes
from wmlab.streams.scenario.parts import EventWriter

TIMEOUT = ("stream", "timestamp_aggregation_timeout_ms")
RATE = ("writers", 0, "rate_per_s")


@pytest.fixture(autouse=True)
def recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels record a scenario once for all tests; most of them begin with the same one."""
    monkeypatch.setattr("wmlab.streams.panel.record", record_once)


_recorded: list[tuple[Scenario, Recording]] = []


def record_once(scenario: Scenario, *, progress: Callable[[int], None]) -> Recording:
    """`record`, or the recording of an equal scenario."""
    for before, recording in _recorded:
        if before == scenario:
            return recording
    _recorded.append((scenario, record(scenario, progress=progress)))
    return _recorded[-1][1]


@pytest.fixture
def shown() -> ScenarioPanel:
    return panel(Scenario.load("data/scenarios/first_bounds.yaml")).wait()


def turn(shown: ScenarioPanel, path: tuple[Any, ...], value: object) -> ScenarioPanel:
    return shown.change(path, value).wait()


def part(shown: ScenarioPanel, *path: str | int) -> dict[str, Any]:
    return next(part for part in shown.widget.form["parts"] if part["path"] == list(path))


def text_in(shown: ScenarioPanel, path: tuple[Any, ...]) -> str:
    """What stands in a field."""
    return next(field["text"] for field in part(shown, *path[:-1])["fields"] if field["path"] == list(path))


def mistakes(shown: ScenarioPanel) -> dict[Any, str]:
    """What is said at which field."""
    return {entry["path"]: entry["text"] for entry in shown.widget.form["mistakes"]}


def from_browser(shown: ScenarioPanel, name: str, *given: object) -> ScenarioPanel:
    """What the program in the browser sends."""
    shown.widget._handle_custom_msg({"do": name, "with": list(given)}, [])
    return shown.wait()


def test_a_panel_records_at_once_and_says_what_held_the_bound(shown: ScenarioPanel) -> None:
    assert shown.recording is not None
    rows = sum(shown.recording.counts.values())
    fields = len(fields_of(shown.scenario))
    assert (
        repr(shown) == f"Panel of scenario 'a split and a dead writer': {fields} fields, {grouped(rows)} rows recorded"
    )
    assert shown.recording.tables == shown.scenario.record().tables
    assert "held back most by w2 (lagging)" in shown.widget.sentence
    assert "<svg" in shown.widget.picture


def test_a_changed_field_changes_scenario_run_and_picture(shown: ScenarioPanel) -> None:
    before = shown.widget.picture
    turn(shown, TIMEOUT, "4000")
    assert shown.scenario.stream.timestamp_aggregation_timeout_ms == 4_000
    assert "w2 (slowest)" in shown.widget.sentence
    assert shown.widget.picture != before


def test_every_kind_of_field_can_be_changed(shown: ScenarioPanel) -> None:
    turn(shown, RATE, "20")
    turn(shown, ("writers", 0, "note_every_ms"), "")
    turn(shown, ("writers", 1, "noting"), "{kind: wall_clock}")
    turn(shown, ("stream", "cut_algorithm"), "pravega")
    turn(shown, ("stream", "bug_6510"), "true")
    turn(shown, ("writers", 1, "delay_mean_ms"), "2.5")
    scenario = shown.scenario
    assert (scenario.writers[0].rate_per_s, scenario.writers[0].note_every_ms) == (20, None)
    assert type(scenario.writers[1].noting).__name__ == "WallClock"
    assert (scenario.stream.cut_algorithm, scenario.stream.bug_6510) == ("pravega", True)
    assert scenario.writers[1].delay_mean_ms == 2.5
    assert Scenario.from_yaml(shown.widget.yaml) == scenario
    made: dict[str, Any] = {}
    exec(shown.widget.python, made)
    assert made["scenario"] == scenario


def test_a_mistake_is_named_at_its_field_and_the_last_run_stays(shown: ScenarioPanel) -> None:
    before, run = shown.scenario, shown.recording
    turn(shown, ("writers", 1, "keys"), "0..7")
    assert "not a key range" in mistakes(shown)["writers", 1, "keys"]
    assert shown.widget.form["mistakes"][0]["where"] == "writers[1].keys"
    assert (shown.scenario, shown.recording) == (before, run)
    turn(shown, ("writers", 1, "noting"), "{kind: [")
    assert "is not YAML" in mistakes(shown)["writers", 1, "noting"]
    assert len(mistakes(shown)) == 2, "all mistakes are shown together"
    assert repr(shown).endswith(", 2 mistakes in the form")
    turn(shown, ("writers", 1, "keys"), "0..1/2")
    assert shown.scenario == before, "a mistake elsewhere still stands in the form"
    turn(shown, ("writers", 1, "noting"), "{kind: last_event_time}")
    assert mistakes(shown) == {}
    assert shown.scenario.writers[1].keys == "0..1/2"


@pytest.mark.parametrize("typed", ["-5", "abc", "1e99", "99999999999999999999", "1.5", ""])
def test_what_is_typed_stays_as_typed_and_is_a_mistake_and_not_another_number(shown: ScenarioPanel, typed: str) -> None:
    before = shown.scenario
    turn(shown, ("duration_ms",), typed)
    assert text_in(shown, ("duration_ms",)) == typed
    assert (typed if typed else "''") in mistakes(shown)["duration_ms",]
    assert shown.scenario == before


def test_a_number_may_be_typed_in_groups_and_keeps_its_look(shown: ScenarioPanel) -> None:
    turn(shown, TIMEOUT, "4 000")
    assert (shown.scenario.stream.timestamp_aggregation_timeout_ms, text_in(shown, TIMEOUT)) == (4_000, "4 000")
    turn(shown, RATE, "1e3")
    assert (shown.scenario.writers[0].rate_per_s, text_in(shown, RATE)) == (1_000, "1e3")


def test_a_mistake_inside_a_field_is_shown_at_the_field(shown: ScenarioPanel) -> None:
    turn(shown, ("writers", 1, "noting"), "{kind: max_minus_slack, slack_ms: -1}")
    assert shown.widget.form["mistakes"][0]["where"] == "writers[1].noting.slack_ms"
    assert list(mistakes(shown)) == [("writers", 1, "noting")]


def test_every_field_says_what_it_is_for_and_few_come_first(shown: ScenarioPanel) -> None:
    for kind in shown.widget.kinds["script"]:
        shown.widget.show(Draft.of(shown.scenario).with_part("script", kind), ())
        (act,) = (part for part in shown.widget.form["parts"] if part["path"] == ["script", 2])
        assert [field["path"] for field in act["fields"] if not field["help"]] == [], kind
    parts = shown.undo().widget.form["parts"] or []
    shown.widget.show(shown.draft, ())
    fields = [field for part in shown.widget.form["parts"] for field in part["fields"]]
    assert [field["path"] for field in fields if not field["help"]] == []
    assert parts
    first = {tuple(field["path"]) for field in fields if field["usual"] and field["path"][:2] != ["writers", 1]}
    assert first == {
        ("latency_ms",),
        ("stream", "segments"),
        TIMEOUT,
        RATE,
        ("writers", 0, "delay_mean_ms"),
        ("writers", 0, "note_every_ms"),
        ("controllers", "period_ms"),
    }


def test_the_time_bounds_of_a_reader_come_first_and_any_reader_can_be_chosen(shown: ScenarioPanel) -> None:
    assert (shown.widget.chosen, shown.widget.pictures[0]) == ("time bounds", "time bounds")
    assert "How far is readers-0 in event time" in shown.widget.picture.replace("\u00a0", " ")
    assert "w2 crashes" in shown.widget.picture.replace("\u00a0", " ")
    from_browser(shown, "reader", "readers-1")
    assert "How far is readers-1 in event time" in shown.widget.picture.replace("\u00a0", " ")
    with pytest.raises(ScenarioError, match="readers-0, readers-1"):
        shown.see("readers-2")


def test_the_time_bounds_show_the_upper_bound_that_became_known_later(shown: ScenarioPanel) -> None:
    picture = shown.widget.picture.replace("\u00a0", " ")
    assert "upper bound, known later" in picture
    assert "and in hindsight for" in picture


def test_the_picture_is_drawn_for_the_width_it_has(shown: ScenarioPanel) -> None:
    from_browser(shown, "fit", 640.5)
    assert '<svg xmlns="http://www.w3.org/2000/svg" width="640"' in shown.widget.picture
    turn(shown, TIMEOUT, "4000")
    assert 'width="640"' in shown.widget.picture


def test_the_picture_follows_the_theme_of_jupyterlab(shown: ScenarioPanel) -> None:
    assert '[data-jp-theme-light="false"] .wmlab-panel{' in shown.widget._css
    assert ".wmlab-panel .wmlab-fill-paper{fill:var(--wmlab-paper)}" in shown.widget._css


def test_kept_runs_are_compared_on_one_axis(shown: ScenarioPanel) -> None:
    shown.keep("patient")
    assert (shown.widget.kept, shown.widget.comparison) == (["patient"], "")
    assert "Kept as 'patient'" in shown.widget.notice
    turn(shown, TIMEOUT, "4000")
    shown.keep()
    assert list(shown.kept) == shown.widget.kept == ["patient", "run 2"]
    assert "Kept as 'run 2'" in shown.widget.notice
    assert "stream.timestamp_aggregation_timeout_ms" in shown.widget.comparison
    assert repr(shown).endswith("2 runs kept")


def test_kept_runs_of_a_stream_that_was_renamed_are_compared(shown: ScenarioPanel) -> None:
    shown.keep("before")
    turn(shown, ("stream", "name"), "renamed")
    shown.keep("after")
    assert "<svg" in shown.widget.comparison
    assert "stream.name" in shown.widget.comparison


def test_a_label_that_is_taken_is_refused_and_the_kept_run_stays(shown: ScenarioPanel) -> None:
    run = shown.recording
    shown.keep("mine")
    turn(shown, TIMEOUT, "4000").keep("mine")
    assert "kept under" in shown.widget.notice
    assert shown.kept == {"mine": run}
    shown.keep("run 3")
    shown.keep()
    assert list(shown.kept) == ["mine", "run 3", "run 4"]


def test_a_form_with_mistakes_is_not_kept(shown: ScenarioPanel) -> None:
    turn(shown, TIMEOUT, "abc").keep()
    assert shown.kept == {}
    assert "has no run" in shown.widget.notice


def test_every_change_can_be_undone_and_made_again(shown: ScenarioPanel) -> None:
    start = shown.scenario
    assert (shown.widget.form["undo"], shown.widget.form["redo"]) == (False, False)
    turn(shown, TIMEOUT, "4000")
    changed = shown.scenario
    from_browser(shown, "remove", ["script", 1])
    assert len(shown.scenario.script) == 1
    assert shown.widget.form["removed"] == "crash writer w2 at 30 000 ms"
    turn(shown, RATE, "abc")
    from_browser(shown, "undo")
    assert mistakes(shown) == {}
    assert text_in(shown, RATE) == "200"
    assert from_browser(shown, "undo").scenario == changed
    assert from_browser(shown, "undo").scenario == start
    assert shown.undo().scenario == start, "there is nothing more to take back"
    assert shown.recording.scenario == start.to_dict()
    assert from_browser(shown, "redo").scenario == changed
    turn(shown, TIMEOUT, "5000")
    assert shown.widget.form["redo"] is False
    assert shown.undo().scenario == changed


def test_the_drag_of_a_slider_is_undone_at_once(shown: ScenarioPanel) -> None:
    start = shown.scenario
    for text in ("300", "400", "500"):
        from_browser(shown, "change", list(RATE), text, 7)
    from_browser(shown, "change", list(RATE), "600", 8)
    assert shown.undo().scenario.writers[0].rate_per_s == 500
    assert shown.undo().scenario == start


class _Verdicts:
    def __init__(self, of: Recording) -> None:
        self.of = of

    def _repr_html_(self) -> str:
        return f"verdicts of {self.of.scenario['stream']['timestamp_aggregation_timeout_ms']}"


def test_verdicts_are_of_the_run_that_is_shown(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamRecording, "check", lambda recording: _Verdicts(recording))
    turn(shown, TIMEOUT, 9_000).judge()
    assert shown.wait().widget.verdicts == "verdicts of 9000"
    turn(shown, TIMEOUT, 4_000)
    assert (shown.verdicts, shown.widget.verdicts) == (None, "")
    shown.judge()
    assert shown.wait().widget.verdicts == "verdicts of 4000"
    turn(shown, TIMEOUT, -1)
    assert shown.widget.verdicts == "verdicts of 4000", "a mistake changes no scenario"


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
    assert shown.wait().widget.verdicts == "verdicts of 4000"
    assert isinstance(shown.verdicts, _Verdicts)
    assert shown.verdicts.of is shown.recording


def test_a_run_that_is_gone_is_neither_kept_nor_judged(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmlab.streams.panel.record", interrupted([], shown.cancel))
    turn(shown, ("duration_ms",), 50_000)
    assert "cancelled. The picture shows the run of the scenario before." in shown.widget.notice
    shown.keep("wrong")
    shown.judge()
    assert (shown.kept, shown.verdicts, shown.widget.verdicts) == ({}, None, "")
    assert "has no run" in shown.widget.notice


def test_acts_and_writers_come_and_go(shown: ScenarioPanel) -> None:
    from_browser(shown, "add", "script", "silence_writer")
    assert shown.widget.form["added"] == ["script", 2]
    assert repr(shown.scenario.script[2]) == "SilenceWriter(at_ms=30_000, writer='w1')"
    turn(shown, ("script", 2, "for_ms"), "5000")
    assert part(shown, "script", 2)["title"] == "silence writer w1 at 30 000 ms"
    from_browser(shown, "remove", ["script", 2])
    assert shown.scenario == Scenario.load("data/scenarios/first_bounds.yaml")
    from_browser(shown, "add", "writers", "transactional")
    assert [writer.name for writer in shown.scenario.writers] == ["w1", "w2", "w3"]
    with pytest.raises(ScenarioError, match="no kind 'no_such_act'"):
        shown.add("script", "no_such_act")
    from_browser(shown, "remove", ["script", 9])
    assert "nothing at ('script', 9)" in shown.widget.notice


def test_a_part_that_others_name_goes_and_they_are_mistakes_until_it_is_back(shown: ScenarioPanel) -> None:
    before = shown.scenario
    from_browser(shown, "remove", ["writers", 1])
    assert "no writer is called 'w2'" in mistakes(shown)["script", 1, "writer"]
    assert shown.scenario == before
    assert [part["removable"] for part in shown.widget.form["parts"] if part["path"][:1] == ["writers"]] == [False]
    shown.undo()
    assert (mistakes(shown), shown.scenario) == ({}, before)


KINDS_THAT_NEED_MORE = {"create_stream": "is not there then"}
"""Acts that no default makes possible in a scenario whose script uses the stream before."""


def test_every_act_can_be_added_as_it_is_offered() -> None:
    scenario = Scenario.load("data/scenarios/first_bounds.yaml")
    draft = Draft.of(scenario).with_part("writers", "transactional")
    assert draft.scenario().writers[2].name == "w3"
    for kind in panel(scenario).widget.kinds["script"]:
        added = draft.with_part("script", kind)
        if kind in KINDS_THAT_NEED_MORE:
            with pytest.raises(ScenarioError, match=KINDS_THAT_NEED_MORE[kind]):
                added.scenario()
        else:
            assert added.scenario().script[2].kind == kind
    assert draft.with_part("script", "scale").with_part("script", "scale").scenario().script[3].seal != ("0@0",)


def test_the_names_that_may_be_meant_are_offered(shown: ScenarioPanel) -> None:
    from_browser(shown, "add", "script", "partition")
    names = {field["path"][-1]: field["names"] for field in part(shown, "script", 2)["fields"]}
    assert {"w1", "readers-1", "controller-0", "metadata-store", "writers"} <= set(names["a"])
    crash = {field["path"][-1]: field["names"] for field in part(shown, "script", 1)["fields"]}
    assert crash["writer"] == ["w1", "w2"]


def test_another_picture_is_of_the_same_run(shown: ScenarioPanel) -> None:
    run = shown.recording
    for name in PICTURES:
        from_browser(shown, "picture", name)
        assert "<svg" in shown.widget.picture, name
    assert shown.recording is run
    with pytest.raises(ScenarioError, match="no picture 'sunset'"):
        shown.picture("sunset")


def test_a_run_without_what_the_picture_needs_says_so() -> None:
    unread = panel(Scenario.load("data/scenarios/first_bounds.yaml").replace(readers=None)).wait()
    assert "role='alert'" in unread.widget.picture
    assert unread.widget.readers == []


def test_every_message_of_the_browser_is_answered(shown: ScenarioPanel) -> None:
    before = shown.widget.answered
    from_browser(shown, "picture", "no such picture")
    assert "no picture" in shown.widget.notice
    assert shown.widget.answered == before + 1


def test_a_cancelled_run_leaves_the_last_one(shown: ScenarioPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shown.recording
    monkeypatch.setattr("wmlab.streams.panel.record", interrupted([], shown.cancel))
    turn(shown, ("duration_ms",), 50_000)
    assert shown.recording is run
    assert shown.widget.running is None
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
    from_browser(shown, "save", str(tmp_path / "no" / "mine.yaml"))
    assert "cannot be written" in shown.widget.notice


def test_a_panel_is_of_a_scenario_of_streams(shown: ScenarioPanel) -> None:
    assert shown.widget.still() == (shown.widget.picture, repr(shown))
    with pytest.raises(ScenarioError, match="made of a dict"):
        panel({})  # type: ignore[arg-type]


@pytest.mark.parametrize("path", sorted(Path("data/scenarios").glob("[dr]*/*.yaml")), ids=lambda path: path.stem)
def test_a_form_without_changes_is_the_same_scenario(path: Path) -> None:
    scenario = Scenario.load(path)
    fields = fields_of(scenario)
    assert with_changes(scenario, {field.path: field.value for field in fields if field.value is not None}) == scenario
    assert with_changes(scenario, {field.path: field.text for field in fields if field.text}) == scenario
    assert len({field.path for field in fields}) == len(fields)
    assert all(field.unit == "ms" for field in fields if str(field.path[-1]).endswith("_ms"))


def test_a_panel_refuses_a_function_that_its_yaml_could_not_hold() -> None:
    writer = EventWriter("w", rate_per_s=5, event_time=lambda known: known["clock"])
    with pytest.raises(ScenarioError, match="Python function, which no file can hold"):
        panel(Scenario("own time", writers=[writer], duration_ms=1_000))
