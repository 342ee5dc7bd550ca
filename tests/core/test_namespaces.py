"""What Tab shows: the public names of a namespace alone, and the fields of a value by their plain types."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any, Final

import jedi
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
    with pytest.raises(AttributeError, match="To repair it: use one of "):
        space.zzzzzz  # noqa: B018


def test_a_name_is_answered_with_the_closest_one_and_others_of_its_kind() -> None:
    with pytest.raises(AttributeError, match="write SilenceWriter, or one of CrashWriter, "):
        wm.script.KillWriter  # noqa: B018
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
    assert signature.parameters.keys() == fields.keys()
    ranks = [(parameter.kind, parameter.default is not parameter.empty) for parameter in signature.parameters.values()]
    assert ranks == sorted(ranks)
    for name, parameter in signature.parameters.items():
        assert (parameter.kind is parameter.KEYWORD_ONLY) == fields[name].kw_only


def test_signatures_read_like_the_call() -> None:
    """What a newcomer needs is first, the options of the rules are last."""
    assert "(name: str, *, rate_per_s: float | None = None, trace: str | None = None, " in str(
        inspect.signature(wm.EventWriter)
    )
    assert str(inspect.signature(wm.script.Scale)) == (
        "(*, at_ms: int | str, seal: tuple[str, ...], into: int | tuple[str, ...] = 2, "
        "seal_every_ms: int | str | None = None, stream: str | None = None)"
    )
    noting = inspect.signature(wm.TransactionalWriter).parameters["noting"]
    assert str(noting) == (
        "noting: EarliestOpen | WallClock | LastEventTime | MaxMinusSlack | Compute | Never = EarliestOpen()"
    )
    stream = inspect.signature(wm.Stream).parameters
    assert [*stream][:3] == ["name", "segments", "timestamp_aggregation_timeout_ms"]
    rules = inspect.signature(wm.Rules).parameters
    assert next(iter(rules)) == "base"
    assert str(rules["bug_6510"]) == "bug_6510: bool | None = None"
    scenario = inspect.signature(wm.Scenario).parameters
    assert [*scenario][:4] == ["name", "writers", "duration_ms", "stream"]
    assert str(scenario["rules"]) == ("rules: Rules | Literal['design', 'implementation', 'sound'] = Rules()")
    assert str(scenario["script"]) == (
        "script: tuple[CrashWriter | SilenceWriter | NoteTime | ShutDownWriter | 33 more, ...] = ()"
    )


LAZY: Final = (
    "wmlab",
    "wmlab.dataflow",
    "wmlab.engine",
    "wmlab.paper",
    "wmlab.progress",
    "wmlab.strategy",
    "wmlab.testing",
)


@pytest.mark.parametrize("title", LAZY)
def test_tab_has_the_kind_and_a_line_about_each_lazy_name(title: str) -> None:
    """jedi reads the source as a type checker does, and runs nothing."""
    space = SPACES[title]
    completions = {name.name: name for name in jedi.Interpreter("space.", [{"space": space}]).complete()}
    assert completions.keys() >= set(space.__all__)
    for name in space.__all__:
        offered = getattr(space, name)
        kind = (
            "module" if inspect.ismodule(offered)
            else "class" if inspect.isclass(offered)
            else "function" if inspect.isroutine(offered)
            else completions[name].type
        )  # fmt: skip
        assert completions[name].type == kind != "", name
        if inspect.ismodule(offered) or inspect.isclass(offered) or inspect.isroutine(offered):
            assert completions[name].docstring(raw=True).strip(), name
