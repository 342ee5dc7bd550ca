"""A flag of a call is True or False: no argument takes "no" for true. Fields are tested in `test_every_value`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.core.value_types import NO_FLAGS, TYPES, choices
from tools import public_names
from wmlab.core.arguments import the_flag
from wmlab.core.errors import WmlabError
from wmlab.core.values import Problems
from wmlab.streams.bounds.configurations import configurations
from wmlab.streams.model.replay import Configuration

ANSWERS: Final = {"Disagreement", "Finding", "JobExplanation", "WriterClock"}
"""Public classes whose values a function gives, and nobody makes."""
CHECKED_WHEN_USED: Final = {"Configuration"}
"""Public classes whose values are checked by the function that takes them; see the last test."""
ROWS: Final = {"SourceEnd"}
"""What a strategy, or an alignment, is given for each record of a log: tuples that nothing checks, or a step would take
twice as long."""


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, method and class that is not a value, by its path."""
    classes = public_names.recording_kinds()
    for title, names in public_names.namespaces():
        for name, offered in names.items():
            classes += [offered] if inspect.isclass(offered) else []
            is_checked = (
                inspect.isclass(offered) and offered not in TYPES and name not in ANSWERS | ROWS | CHECKED_WHEN_USED
            )
            if inspect.isroutine(offered) or is_checked:
                yield f"{title}.{name}", offered
    for made in dict.fromkeys(classes):
        for name, member in public_names.members(made).items():
            function = getattr(member, "__func__", member)
            if inspect.isroutine(function):
                yield f"{made.__qualname__}.{name}", function


CALLS: Final = [
    (f"{path}({name})", call, name)
    for path, call in public_calls()
    for name, hint in public_names.annotations_of(call).items()
    if name != "return" and bool in choices(hint)
]


def called(call: Callable[..., Any], **arguments: Any) -> Any:
    """The call with these arguments, and something that is nothing for each other argument that it needs."""
    places, names = [], dict(arguments)
    for parameter in inspect.signature(call).parameters.values():
        if parameter.default is not parameter.empty or parameter.name in arguments:
            continue
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not names.keys() - arguments.keys():
            places.append(object())
        elif parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            names[parameter.name] = object()
    return call(*places, **names)


def test_flags_of_functions_methods_and_classes_are_among_those_asked() -> None:
    assert {path for path, *_ in CALLS} >= {
        "StreamRecording.stream_cut_at(closest)",
        "Scenario.sweep(check)",
        "Scenario.record(progress)",
        "wmlab.progress.spark.fired_windows(flush)",
        "wmlab.chart.Scene(together)",
    }


def test_an_argument_that_is_a_flag_takes_nothing_else() -> None:
    for path, call, name in CALLS:
        for offered in NO_FLAGS:
            with pytest.raises(WmlabError, match="To repair it: give True or False") as refused:
                called(call, **{name: offered})
            assert refused.value.problem.startswith(f"{name} is "), path


def test_a_flag_of_numpy_is_a_flag() -> None:
    assert the_flag(np.True_, "closest") is True
    assert the_flag(np.False_, "closest") is False


@pytest.mark.parametrize(
    ("field", "offered"),
    [
        ("bug_6510", "no"),
        ("leaves_bucket", 1),
        ("null_without_writers", None),
        ("timeout_ms", "10"),
        ("timeout_ms", -1),
        ("period_ms", 0),
        ("start_delay_ms", True),
        ("expected_writers", 0),
    ],
)
def test_a_configuration_of_a_replay_is_as_strict(field: str, offered: object) -> None:
    for written in ({field: offered}, Configuration(**{field: offered})):  # type: ignore[arg-type]
        with pytest.raises(Problems, match=rf"other\.{field}: .* \(got {offered!r}\)"):
            configurations({"other": written})


def test_a_configuration_takes_durations_as_text_and_numbers_of_numpy() -> None:
    written = {"timeout_ms": "10 s", "period_ms": np.int64(500), "bug_6510": np.True_, "without": ["w"]}
    made = Configuration(timeout_ms=10_000, period_ms=500, bug_6510=True, without=("w",))
    assert configurations({"a": written}) == {"a": made}
    with pytest.raises(Problems, match="a: give a Configuration, or a mapping of its fields"):
        configurations({"a": 5})  # type: ignore[dict-item]
