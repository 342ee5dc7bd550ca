"""What is wrong with a field is said with what to give and what was given; the same of a whole scenario and a file.

What holds of every field is tested in `test_every_value`.
"""

from __future__ import annotations

import inspect
import typing
from typing import Any, Final

import pytest

import wmlab
from tests.core.value_types import of_pydantic, refused_at
from wmlab import dataflow as flow
from wmlab import progress as plans
from wmlab.core.errors import WmlabError
from wmlab.core.values import Problems

WRITER: Final = wmlab.EventWriter("w", rate_per_s=1)


@pytest.mark.parametrize(
    ("made", "field", "wrong", "message"),
    [
        (wmlab.Scenario, "writers", WRITER, "writers: give a list (got a value of type EventWriter)"),
        (wmlab.Scenario, "script", WRITER, "script: give a list (got a value of type EventWriter)"),
        (wmlab.ReaderGroup, "streams", "orders", "streams: give a list (got 'orders')"),
        (flow.Dataflow, "vertices", flow.Sink("out"), "vertices: give a list (got a value of type Sink)"),
        (plans.PlanScenario, "queries", WRITER, "queries: give a list (got a value of type EventWriter)"),
        (
            wmlab.script.CrashController, "point", "nonsense",
            "point: give 'after_marks', 'after_log', 'before_removal', 'before_append', 'after_append', "
            "'before_leave', 'before_merge', 'after_merge', 'after_noting' or 'between_seals' (got 'nonsense')",
        ),
        (
            wmlab.EventWriter, "noting", "wall_clock",
            "noting: give EarliestOpen, WallClock, LastEventTime, MaxMinusSlack, Compute or Never, "
            "in a file a mapping with 'kind' (got 'wall_clock')",
        ),
        (flow.EventTime, "policy", "x", "policy: give 'lag', 'real_time' or 'lower_bound', or a function (got 'x')"),
        (flow.Custom, "initial", [], "initial: give a whole number, or a number, or a text (got [])"),
        (wmlab.Scenario, "duration_ms", 5.0 * 1_000, "duration_ms: give a whole number (got 5000.0)"),
        (wmlab.Scenario, "writers", [5],
            "writers[0]: give EventWriter or TransactionalWriter, in a file a mapping with 'kind' (got 5)"),
    ],
)  # fmt: skip
def test_all_that_is_possible_stands_in_one_mistake(made: Any, field: str, wrong: object, message: str) -> None:
    assert [str(problem) for problem in refused_at(made, field, wrong)] == [message]


@pytest.mark.parametrize(
    ("made", "field"),
    [(wmlab.Scenario, "writers"), (flow.Dataflow, "vertices"), (plans.PlanScenario, "queries")],
    ids=lambda of: of if isinstance(of, str) else of.__name__,
)
def test_no_file_is_refused_in_the_words_of_pydantic(made: Any, field: str) -> None:
    for text in ("5", "[5]", "[[]]", "[{}]", "[{kind: zzz}]", "x", "", "{a: b}", "true", "1.5"):
        with pytest.raises(WmlabError, match="To repair it") as raised:
            made.from_yaml(f"wmlab: 1\nname: n\n{field}: {text}\nscript: {text}\nduration_ms: {text}\n")
        assert of_pydantic(str(raised.value)) == [], text


def test_a_segment_is_named_once_only() -> None:
    for made in (
        lambda: wmlab.script.Scale(at_ms=1, seal=["0@0", "0@0"], into=1),
        lambda: wmlab.script.NoteTime(at_ms=1, writer="w", time=1, position=[("0@0", 1), ("0@0", 2)]),
    ):
        with pytest.raises(Problems, match="name each once; '0@0' is there twice"):
            made()


def test_a_recording_with_a_damaged_scenario_says_which_field() -> None:
    writers = [wmlab.EventWriter("w1", rate_per_s=1)]
    recording = wmlab.Scenario("short", writers=writers, duration_ms=1_000).record(progress=False)
    with pytest.raises(WmlabError, match=r"is damaged: duration_ms: give whole .*got 'x'") as raised:
        recording.scenario_as(wmlab.Scenario, {**(recording.scenario or {}), "duration_ms": "x"})
    assert of_pydantic(str(raised.value)) == []


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
