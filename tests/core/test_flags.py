"""A flag is True or False, and nothing that only counts as one: no field and no argument takes "no" for true."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import wmlab as wm
from tests.conftest import module_of
from tests.core.test_messages import TYPES
from wmlab.core.arguments import the_flag
from wmlab.core.errors import WmlabError
from wmlab.core.values import Problem, Problems
from wmlab.streams.bounds.configurations import configurations

NO_FLAGS: Final[tuple[Any, ...]] = ("no", "yes", "true", "", 0, 1, 1.0, [], [True], np.array([True]), np.int64(1))
ANSWERS: Final = {"WriterClock"}
"""Public classes whose values a function gives, and nobody makes."""
ROWS: Final = {"SourceEnd", "Status"}
"""What a strategy, or an alignment, is given for each record of a log: tuples that nothing checks, or a step would take
twice as long."""
reference: Final = module_of(Path(__file__).parents[2] / "tools" / "reference.py")


def flags_of(hints: dict[str, Any]) -> Iterator[str]:
    """The names that are annotated as a flag, or as one or something else."""
    for name, hint in hints.items():
        choices = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        if bool in choices:
            yield name


def hints_of(offered: Any) -> dict[str, Any]:
    hints: dict[str, Any] = reference._hints(offered)
    return {name: hint for name, hint in hints.items() if name != "return"}


FIELDS: Final = [
    (made, field.name)
    for made in TYPES
    for field in dataclasses.fields(made)
    if field.init and field.name in flags_of(hints_of(made))
]


def test_there_are_flags_in_all_three_models() -> None:
    assert {made.__module__.split(".")[1] for made, _ in FIELDS} == {"streams", "dataflow", "progress"}


@pytest.mark.parametrize(("made", "name"), FIELDS, ids=lambda of: of if isinstance(of, str) else of.__name__)
def test_a_field_that_is_a_flag_takes_nothing_else(made: Any, name: str) -> None:
    for offered in NO_FLAGS:
        (own,) = [problem for problem in problems_with(made, name, offered) if problem.location[:1] == (name,)]
        assert own.message.startswith("give True or False (got "), offered
    for flag in (True, False, np.True_):
        assert [problem for problem in problems_with(made, name, flag) if problem.location[:1] == (name,)] == []


def problems_with(made: Any, name: str, offered: object) -> tuple[Problem, ...]:
    """All mistakes of a value of which only this field is given."""
    try:
        made(**{name: offered})
    except Problems as refused:
        return refused.problems
    return ()


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, method and class that is no value, by its path."""
    classes = reference.recording_kinds()
    for title, names in reference.namespaces():
        for name, offered in names.items():
            classes += [offered] if inspect.isclass(offered) else []
            is_checked = inspect.isclass(offered) and offered not in TYPES and name not in ANSWERS | ROWS
            if inspect.isroutine(offered) or is_checked:
                yield f"{title}.{name}", offered
    for made in dict.fromkeys(classes):
        for name, member in reference.members(made).items():
            function = getattr(member, "__func__", member)
            if inspect.isroutine(function):
                yield f"{made.__qualname__}.{name}", function


CALLS: Final = [(path, call, name) for path, call in public_calls() for name in flags_of(hints_of(call))]


def given(call: Callable[..., Any], **fields: Any) -> Any:
    """The call with these arguments, and something that is nothing for each other argument that it needs."""
    places, names = [], dict(fields)
    for parameter in inspect.signature(call).parameters.values():
        if parameter.default is not parameter.empty or parameter.name in fields:
            continue
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not names.keys() - fields.keys():
            places.append(object())
        elif parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            names[parameter.name] = object()
    return call(*places, **names)


def test_flags_of_functions_methods_and_classes_are_among_those_asked() -> None:
    asked = {f"{path}({name})" for path, _, name in CALLS}
    assert asked >= {
        "StreamRecording.stream_cut_at(closest)",
        "Scenario.sweep(check)",
        "Scenario.record(progress)",
        "Recording.save(overwrite)",
        "Dataflow.permutations(exhaustive)",
        "wmlab.progress.spark.fired_windows(flush)",
        "wmlab.spark.read_log(line_breaks)",
        "wmlab.spark.Configuration(bug_6510)",
        "wmlab.chart.Scene(together)",
    }


@pytest.mark.parametrize(("path", "call", "name"), CALLS, ids=lambda of: of if isinstance(of, str) else "")
def test_an_argument_that_is_a_flag_takes_nothing_else(path: str, call: Callable[..., Any], name: str) -> None:
    for offered in NO_FLAGS:
        with pytest.raises(WmlabError, match="To repair it: give True or False") as refused:
            given(call, **{name: offered})
        assert refused.value.problem.startswith(f"{name} is "), path


def test_a_flag_of_numpy_is_a_flag() -> None:
    assert the_flag(np.True_, "closest") is True
    assert the_flag(np.False_, "closest") is False


@pytest.mark.parametrize(("field", "offered"), [("bug_6510", "no"), ("timeout_ms", "10"), ("start_delay_ms", True)])
def test_a_configuration_of_a_replay_is_as_strict(field: str, offered: object) -> None:
    with pytest.raises(Problems, match=f"{field} is {offered!r}"):
        configurations({"other": {field: offered}})


def test_the_reported_calls_are_refused() -> None:
    for made in (
        lambda: wm.dataflow.Custom("c", function=max, by_input="yes"),
        lambda: wm.dataflow.Window("w", "t", size_ms=5, aggregates={}, bounds_only="no"),
    ):
        with pytest.raises(Problems, match="give True or False"):
            made()
