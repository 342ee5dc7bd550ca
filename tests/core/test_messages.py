"""What is wrong with a field is said with what to give and what was given; the same of a whole scenario and a file.

What holds of every field is tested in `test_every_value`.
"""

from __future__ import annotations

import datetime
import inspect
import re
import typing
from typing import Any, Final

import pytest

import wmlab
from tests.core.value_types import refused_at
from wmlab import dataflow as flow, progress as plans
from wmlab.core.errors import ScenarioError, UnknownNameError, WmlabError
from wmlab.core.values import Problems, value

WRITER: Final = wmlab.EventWriter("w", rate_per_s=1)
A_LIST: Final = "input should be a list; put what is given into one, in brackets"
SHORT: Final = wmlab.Scenario("short", writers=[WRITER], duration_ms="5 s")


@pytest.mark.parametrize(
    ("made", "field", "wrong", "message"),
    [
        (wmlab.Scenario, "writers", WRITER, f"writers: {A_LIST} (got a value of type EventWriter)"),
        (wmlab.ReaderGroup, "streams", "orders", f"streams: {A_LIST} (got 'orders')"),
        (flow.Dataflow, "vertices", flow.Sink("out"),
            f"vertices: {A_LIST} (got a value of type Sink)"),
        (
            wmlab.EventWriter, "noting", "wall_clock",
            "noting: input should be EarliestOpen or WallClock or LastEventTime or MaxMinusSlack or Compute or Never, "
            "in a file with its 'kind' (got 'wall_clock')",
        ),
        (flow.EventTime, "policy", "x",
            "policy: input should be 'lag', 'real_time' or 'lower_bound', or callable (got 'x')"),
        (flow.Custom, "initial", [],
            "initial: input should be a valid integer, or a valid number, or a valid string (got [])"),
        (wmlab.Scenario, "duration_ms", 5.0 * 1_000,
            "duration_ms: input should be a valid integer (got 5000.0)"),
        (wmlab.Scenario, "duration_ms", "soon",
            'duration_ms: give whole milliseconds or a text such as "250ms", "10s", "5 min", "1 h 30 min" or "2 d" '
            "(got 'soon')"),
        (wmlab.Scenario, "start_ms", "yesterday",
            'start_ms: give milliseconds since 1970 or a date such as "2013-07-15 09:00" (got \'yesterday\')'),
        (wmlab.Scenario, "writers", [], "writers: input should be a list of 1 or more (got [])"),
        (wmlab.Scenario, "script", wmlab.script.CrashWriter(at_ms=1, writer="w"),
            f"script: {A_LIST} (got a value of type CrashWriter)"),
        (wmlab.Scenario, "writers", [5],
            "writers[0]: input should be a dictionary or an instance of EventWriter (got 5)"),
    ],
)  # fmt: skip
def test_all_that_is_possible_stands_in_one_mistake(made: Any, field: str, wrong: object, message: str) -> None:
    assert [str(problem) for problem in refused_at(made, field, wrong)] == [message]


@pytest.mark.parametrize(
    "scenario",
    [
        SHORT,
        flow.Dataflow(
            "d", vertices=[flow.Source("s", rows=[[1]], columns=["t"]), flow.Sink("out")], edges=["s -> out"]
        ),
        plans.PlanScenario("p", queries=[plans.Query("q", sources=[plans.Source("s", times_ms=[1])])], duration_ms=9),
    ],
)
def test_what_a_run_is_changed_by_is_a_field_of_the_scenario(scenario: Any) -> None:
    with pytest.raises(ScenarioError, match="record takes no seed and name: what is run is the scenario") as raised:
        scenario.record(seed=3, name="n")
    assert raised.value.remedy == "write scenario.replace(seed=3, name='n').record()."


def test_a_share_given_in_percent_is_told_as_a_share() -> None:
    log = wmlab.trace.load("flights")
    for late_share, told in ((5, "; 5% is 0.05 (got 5)"), (0.5 + 1, "; 1.5% is 0.015 (got 1.5)"), (500, " (got 500)")):
        with pytest.raises(WmlabError, match=re.escape(f"input should be less than 1{told}")):
            wmlab.strategy.advise(log, late_share=late_share)


@pytest.mark.parametrize(
    ("made", "wrong", "message"),
    [
        (wmlab.EventWriter, "rate", "rate: no such field, did you mean rate_per_s?"),
        (wmlab.Scenario, "duration", "duration: no such field, did you mean duration_ms?"),
        (wmlab.script.CrashWriter, "at", "at: no such field, did you mean at_ms?"),
        (flow.Window, "sise_ms", "sise_ms: no such field, did you mean size_ms?"),
        (plans.Query, "zzz", "zzz: no such field"),
    ],
)
def test_a_field_that_is_not_there_is_answered_with_one_like_it(made: Any, wrong: str, message: str) -> None:
    with pytest.raises(Problems) as raised:
        made(**{wrong: 5})
    assert str(raised.value.problems[-1]) == message


def test_a_field_of_a_part_is_looked_for_among_those_of_its_kind() -> None:
    text = "wmlab: 1\nname: n\nduration_ms: 9\nwriters: [{name: w, rate_per_s: 1, batch: 5}]\n"
    with pytest.raises(Problems, match=r"writers\[0\].batch \(line 4\): no such field, did you mean batch_ms\?"):
        wmlab.Scenario.from_yaml(text)
    with pytest.raises(Problems, match=r"script\[0\].restart \(line 5\): .* mean restart_after_ms\?"):
        wmlab.Scenario.from_yaml(f"{text}script: [{{kind: crash_controller, at_ms: 1, restart: 5}}]\n")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda run: run.explan, r"has no attribute 'explan'; did you mean 'explain'\?"),
        (lambda run: run.panel, r"'short' is a recording of streams, which has no panel\.\n.*scenario.panel\(...\)"),
        (lambda run: run.coalesced, "which has no coalesced"),
        (lambda run: run.check().verdict, r"'Verdicts' .*; did you mean 'verdicts'\?"),
        (lambda run: run.explain("3 s").sentense, r"; did you mean 'sentence'\?"),
        (
            lambda _: SHORT.scrub,
            r"A scenario has no scrub; its recording has.\n.*scenario.record\(\).scrub\(...\)",
        ),
        (lambda _: SHORT.panle, r"'Scenario' .*; did you mean 'panel'\?"),
        (lambda _: SHORT.stream.segment, r"'Stream' .*; did you mean 'segments'\?"),
        (lambda _: wmlab.trace.load("dengue").row, r"'Trace' .*; did you mean 'rows'\?"),
    ],
)
def test_a_name_that_a_value_does_not_have_is_answered_with_one_like_it(asked: Any, message: str) -> None:
    run = SHORT.record(progress=False)
    with pytest.raises(UnknownNameError, match=message):
        asked(run)
    assert not hasattr(run, "explan")
    with pytest.raises(AttributeError) as private:
        run._repr_of_others_()
    assert not isinstance(private.value, WmlabError)


def test_a_property_that_fails_says_why() -> None:
    @value
    class Broken:
        @property
        def broken(self) -> int:
            return object().no_such_thing  # type: ignore[attr-defined,no-any-return]

    with pytest.raises(AttributeError, match="no_such_thing"):
        Broken().broken  # noqa: B018


def test_a_run_that_ends_before_the_first_cycle_says_so() -> None:
    assert "ends after 5.0 s, before the first watermark cycle at 11.0 s)" in repr(SHORT.record(progress=False))
    wrong_unit = SHORT.replace(duration_ms=10).record(progress=False)
    assert "at 10.0 s; did you mean duration_ms='10 s'?" in repr(wrong_unit)
    assert "did you mean" in wrong_unit._repr_html_()
    assert "ends" not in repr(SHORT.replace(duration_ms="12 s").record(progress=False))


def test_a_scenario_starts_at_a_date() -> None:
    for offered in ("2013-07-15", "2013-07-15 00:00", "2013-07-15T02:00+02:00", datetime.date(2013, 7, 15)):
        scenario = SHORT.replace(start_ms=offered)
        assert scenario.start_ms == 1_373_846_400_000
        assert wmlab.Scenario.from_yaml(scenario.to_yaml()) == scenario
    assert "start_ms: '2013-07-15'" in SHORT.replace(start_ms="2013-07-15").to_yaml()
    assert wmlab.Scenario.from_yaml(f"{SHORT.to_yaml()}start_ms: 2013-07-15\n").start_ms == 1_373_846_400_000


def test_a_segment_is_named_once_only() -> None:
    for made in (
        lambda: wmlab.script.Scale(at_ms=1, seal=["0@0", "0@0"], into=1),
        lambda: wmlab.script.NoteTime(at_ms=1, writer="w", time=1, position=[("0@0", 1), ("0@0", 2)]),
    ):
        with pytest.raises(Problems, match="name each once; '0@0' is there twice"):
            made()


def test_a_recording_with_a_damaged_scenario_says_which_field() -> None:
    recording = SHORT.record(progress=False)
    with pytest.raises(WmlabError, match=r"is damaged: duration_ms: give whole .*got 'x'"):
        recording.scenario_as(wmlab.Scenario, {**(recording.scenario or {}), "duration_ms": "x"})


def test_a_scale_that_names_a_segment_which_is_not_there_lists_those_that_are() -> None:
    scales = [wmlab.script.Scale(at_ms=100, seal=["1@0"]), wmlab.script.Scale(at_ms=200, seal=["1@1", "2@1"])]
    with pytest.raises(Problems) as refused:
        wmlab.Scenario("s", stream=wmlab.Stream(segments=2), writers=[WRITER], duration_ms=9_000, script=scales)
    (problem,) = refused.value.problems
    assert problem.message == "Cannot seal 1@1, 2@1: not active in epoch 1; seal some of 0@0, 2@1, 3@1"


def test_the_moment_is_given_by_its_place_or_by_its_name() -> None:
    run = wmlab.Scenario("s", writers=[WRITER], readers=wmlab.ReaderGroup(), duration_ms=5_000).record(progress=False)
    assert run.explain(3_000).sentence == run.explain(at_ms=3_000).sentence
    assert run.scrub(3_000).at_ms == run.scrub(at_ms=3_000).at_ms == 3_000
    for made in (flow.Dataflow.record, plans.PlanScenario.record):
        kind = typing.get_type_hints(made)["return"]
        assert list(inspect.signature(kind.explain).parameters)[1] == "at_ms"
        assert inspect.signature(kind.explain).parameters["at_ms"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
