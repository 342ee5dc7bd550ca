"""What Tab shows: the public names of a namespace alone, and the fields of a value by their plain types."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from types import ModuleType
from typing import Any, Final

import pytest

import wmlab as wm
from tests.core.value_types import TYPES
from tools import public_names
from wmlab.core.values import Timed

SPACES: Final[dict[str, ModuleType]] = {
    title: public_names.module_named(title) for title, _ in public_names.namespaces()
}


def test_the_namespaces_are_walked() -> None:
    assert SPACES.keys() >= {"wmlab", "wmlab.script.noting", "wmlab.strategy.spark", "wmlab.progress.chart"}
    assert len(SPACES) >= 14


@pytest.mark.parametrize("title", SPACES)
def test_tab_shows_the_public_names_alone(title: str) -> None:
    space = SPACES[title]
    shown = dir(space)
    assert shown == sorted(space.__all__)
    for name in shown:
        offered = getattr(space, name)
        if inspect.isclass(offered) or inspect.isroutine(offered):
            assert offered.__module__.startswith("wmlab."), f"{name} is not of wmlab"


def test_every_action_is_a_public_name() -> None:
    script = wm.script
    actions = {
        name
        for name, made in vars(script).items()
        if isinstance(made, type) and issubclass(made, Timed) and made is not Timed
    }
    assert actions <= set(script.__all__)


@pytest.mark.parametrize("title", SPACES)
def test_a_name_that_is_not_there_is_answered_with_what_is(title: str) -> None:
    space = SPACES[title]
    for name in space.__all__:
        for wrong in (f"{name}x", name.swapcase()):
            if wrong in space.__all__:
                continue
            with pytest.raises(AttributeError) as refused:
                getattr(space, wrong)
            said = str(refused.value)
            assert f"has no attribute {wrong!r}; did you mean " in said
    with pytest.raises(AttributeError, match="; it has "):
        space.zzzzzz  # noqa: B018


def test_scale_up_is_scale() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'ScaleUp'; did you mean 'Scale'\?"):
        wm.script.ScaleUp  # noqa: B018


def test_a_name_of_python_is_not_guessed() -> None:
    with pytest.raises(AttributeError) as refused:
        wm.script.__wrapped__  # noqa: B018
    assert "did you mean" not in str(refused.value)


@pytest.mark.parametrize("made", TYPES, ids=lambda made: made.__name__)
def test_a_signature_has_plain_types(made: Any) -> None:
    signature = inspect.signature(made)
    text = str(signature)
    assert re.findall(r"Annotated|Field\(|Validator|strict=|wmlab\.|typing\.|['\"]tuple|UNSET", text) == []
    fields = {name: field for name, field in made.__dataclass_fields__.items() if name != "kind" and field.init}
    assert list(signature.parameters) == sorted(fields, key=lambda name: fields[name].kw_only)
    for name, parameter in signature.parameters.items():
        assert (parameter.kind is parameter.KEYWORD_ONLY) == fields[name].kw_only


def test_signatures_read_like_the_call() -> None:
    assert "(name: str, *, rate_per_s: float | None = None, trace: str | None = None, " in str(
        inspect.signature(wm.EventWriter)
    )
    assert str(inspect.signature(wm.script.Scale)) == (
        "(*, at_ms: int, seal: tuple[str, ...], into: int | tuple[str, ...] = 2, seal_every_ms: int | None = None, "
        "stream: str | None = None)"
    )
    noting = inspect.signature(wm.TransactionalWriter).parameters["noting"]
    assert str(noting) == (
        "noting: EarliestOpen | WallClock | LastEventTime | MaxMinusSlack | Compute | Never = EarliestOpen()"
    )
    assert str(inspect.signature(wm.Stream).parameters["bug_6510"]) == "bug_6510: bool | None = None"
    script = str(inspect.signature(wm.Scenario).parameters["script"])
    assert script == "script: tuple[CrashWriter | SilenceWriter | NoteTime | ShutDownWriter | 33 more, ...] = ()"


def test_type_checkers_and_tab_see_each_name_where_it_is_loaded_from() -> None:
    (block,) = (node for node in ast.parse(inspect.getsource(wm)).body if isinstance(node, ast.If))
    seen = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            home = importlib.import_module(statement.module or "")
            module = f"{statement.module}.{alias.name}"
            seen[alias.asname or alias.name] = getattr(home, alias.name, None) or importlib.import_module(module)
    assert seen == {name: getattr(wm, name) for name in wm.__all__}
