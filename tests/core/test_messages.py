"""What is wrong with a field is said in wmlab's own words, with the value and what to give; never in pydantic's."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import inspect
import pkgutil
import sys
import typing
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest

import wmlab
from wmlab import dataflow as flow
from wmlab import progress as plans
from wmlab.core import mistakes
from wmlab.core.errors import WmlabError
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import Problem, Problems

WRONG: Final[tuple[Any, ...]] = (
    None, True, "x", "", 1.5, -1, 10**30, float("nan"), float("inf"), 1e300, 1j, b"x", "x" * 1_000, "\x00", "\ud800",
    [], {}, (), [1], {"a": 1}, {3: 4}, ("a", "b"), ["a", "a"], [[]], [{}], [None], {1}, [1, 2, 3], object(), int,
    {"kind": "zzz"}, {"kind": None}, {"kind": ["x"]}, [{"kind": "zzz"}], lambda *_: 1, datetime.datetime(2020, 1, 1),
    wmlab.EventWriter("w", rate_per_s=1), [wmlab.EventWriter("w", rate_per_s=1)], wmlab.Stream("s"), range(3),
    flow.Sink("out"), iter([1]), np.arange(3), pd.DataFrame({"a": [1]}), Path("x"), wmlab.EventWriter,
)  # fmt: skip
OF_PYDANTIC: Final = (
    "input should", "should have", "should be", "should match", "a valid", "unable to", "unexpected", "argument",
    "validation error", "pydantic", "does not match any", "after validation", "assertion", "value error", "codec",
    "literal[", "function-", "constrained-", "union[", "callable", "nonetype",
)  # fmt: skip
"""How its messages read, and those of Python."""


def value_types() -> list[type]:
    """Every class of the package that pydantic validates."""
    for module in pkgutil.walk_packages(wmlab.__path__, "wmlab."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    modules = [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "wmlab"]
    return [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and found.__module__ == module.__name__ and "__pydantic_validator__" in vars(found)
    ]


TYPES: Final = value_types()


def refused(made: type, *places: Any, **fields: Any) -> list[Problem]:
    """What is said of each field, if the value cannot be made; anything but an error of wmlab goes on."""
    try:
        made(*places, **fields)
    except Problems as error:
        return list(error.problems)
    except WmlabError as error:
        return [Problem((), str(error))]
    return []


def refused_at(made: type, field: str, offered: object) -> list[Problem]:
    """What is said of that field of a value of which no other is given."""
    return [problem for problem in refused(made, **{field: offered}) if problem.location[:1] in ((field,), ())]


def flow_options() -> tuple[str, ...]:
    from wmlab.dataflow.scenario.dataflow import OPTIONS

    return OPTIONS


def test_there_are_values_of_all_three_models() -> None:
    assert {name.__module__.split(".")[1] for name in TYPES} >= {"core", "streams", "dataflow", "progress"}
    assert len(TYPES) > 80


@pytest.mark.parametrize("made", TYPES, ids=lambda made: made.__name__)
def test_no_field_answers_in_the_words_of_pydantic(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: set[str] = set()
    words = mistakes._sentence

    def seen(lines: list[dict[str, Any]], *where: Any) -> str:
        kinds.update(line["type"] for line in lines)
        return words(lines, *where)

    monkeypatch.setattr(mistakes, "_sentence", seen)
    said: set[str] = set()
    for field in (field for field in dataclasses.fields(made) if field.init):
        for wrong in WRONG:
            problems = refused(made, **{field.name: wrong})
            said.update(problem.message for problem in problems)
            paths = [problem.path for problem in problems]
            assert len(set(paths)) == len(paths), "one mistake a field"
            assert [path for path in paths for word in OF_PYDANTIC if word in path.lower()] == []
    for problems in (refused(made, *range(50)), refused(made, none_has_it=1), refused(made)):
        said.update(problem.message for problem in problems)
    assert said
    assert kinds <= {*mistakes._ALONE, *mistakes._REMEDIES, "value_error"}, "each kind of mistake has words"
    without_values = {message.rpartition(" (got ")[0] or message for message in said}
    assert [message for message in without_values for word in OF_PYDANTIC if word in message.lower()] == []
    assert [message for message in said if "{" in message.partition(" (got ")[0].replace("{name}", "")] == []


WRITER: Final = wmlab.EventWriter("w", rate_per_s=1)


@pytest.mark.parametrize(
    ("made", "field", "wrong", "said"),
    [
        (wmlab.Scenario, "writers", WRITER, "writers: give a list (got a value of type EventWriter)"),
        (wmlab.Scenario, "script", WRITER, "script: give a list (got a value of type EventWriter)"),
        (wmlab.ReaderGroup, "streams", "orders", "streams: give a list (got 'orders')"),
        (flow.Dataflow, "vertices", flow.Sink("out"), "vertices: give a list (got a value of type Sink)"),
        (plans.PlanScenario, "queries", WRITER, "queries: give a list (got a value of type EventWriter)"),
    ],
)
def test_one_part_where_several_belong_is_answered_with_a_list(made: Any, field: str, wrong: Any, said: str) -> None:
    with pytest.raises(Problems) as refused:
        made(**{"name": "n", field: wrong})
    assert said in [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("made", "field", "wrong", "said"),
    [
        (
            wmlab.script.CrashController, "point", "nonsense",
            "give 'after_marks', 'after_log', 'before_removal', 'before_append', 'after_append', 'before_leave', "
            "'before_merge', 'after_merge', 'after_noting' or 'between_seals' (got 'nonsense')",
        ),
        (
            wmlab.EventWriter, "noting", "wall_clock",
            "give EarliestOpen, WallClock, LastEventTime, MaxMinusSlack, Compute or Never, "
            "in a file a mapping with 'kind' (got 'wall_clock')",
        ),
        (flow.EventTime, "policy", "x", "give 'lag', 'real_time' or 'lower_bound', or a function (got 'x')"),
        (flow.Custom, "initial", [], "give a whole number, or a number, or a text (got [])"),
        (wmlab.Scenario, "duration_ms", 5.0 * 1_000, "give a whole number (got 5000.0)"),
        (wmlab.Scenario, "writers", [5],
            "give EventWriter or TransactionalWriter, in a file a mapping with 'kind' (got 5)"),
    ],
)  # fmt: skip
def test_all_that_is_possible_stands_in_one_mistake(made: Any, field: str, wrong: object, said: str) -> None:
    assert [problem.message for problem in refused_at(made, field, wrong)] == [said]


def sets_of_names() -> list[tuple[type, str]]:
    """Every field of texts, by its class; each is a set in some order."""
    hints = [(made, typing.get_type_hints(made)) for made in TYPES]
    texts = (tuple[str, ...], tuple[str, ...] | None)
    return [(made, field.name) for made, of in hints for field in dataclasses.fields(made) if of[field.name] in texts]


@pytest.mark.parametrize(("made", "field"), sets_of_names(), ids=lambda of: of if isinstance(of, str) else of.__name__)
def test_no_name_is_given_twice(made: Any, field: str) -> None:
    name = flow_options()[0] if field == "deviations" else "n0"
    for names, said in (([name, name], [f"name each once; {name!r} is there twice"]), ([name], [])):
        messages = [problem.message for problem in refused_at(made, field, names)]
        assert [message.partition(" (got ")[0] for message in messages if "there twice" in message] == said


SCENARIOS: Final = {"Scenario": "writers", "Dataflow": "vertices", "PlanScenario": "queries"}


@pytest.mark.parametrize("kind", SCENARIOS)
@pytest.mark.parametrize("text", ["5", "[5]", "[[]]", "[{}]", "[{kind: zzz}]", "x", "", "{a: b}", "true", "1.5"])
def test_no_file_is_refused_in_the_words_of_pydantic(kind: str, text: str) -> None:
    made: type[ScenarioFile] = next(found for found in every_scenario() if found.__name__ == kind)
    with pytest.raises(WmlabError, match="To repair it") as raised:
        made.from_yaml(f"wmlab: 1\nname: n\n{SCENARIOS[kind]}: {text}\nscript: {text}\nduration_ms: {text}\n")
    assert [word for word in OF_PYDANTIC if word in str(raised.value).lower()] == []


def every_scenario() -> list[Any]:
    from wmlab import dataflow, progress

    return [wmlab.Scenario, dataflow.Dataflow, progress.PlanScenario]


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
    assert "pydantic" not in str(raised.value)


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
