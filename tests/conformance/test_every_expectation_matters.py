"""A case whose expectation is altered has to fail: every asserted value of every stored case, one at a time."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.fields import UnknownFormatError
from tests.conformance.runner import run_case
from tests.conftest import VECTORS

ASSERTING = ("expected", "expect", "expect_real", "tracked_after")
Place = tuple[str | int, ...]


def stored_cases() -> list[Any]:
    contents = [json.loads(Path(VECTORS, name).read_text()) for name in ("pravega.json", "wmlab.json")]
    return [pytest.param(case, id=case["name"]) for content in contents for case in content["cases"]]


def places(value: Any, at: Place = (), *, asserted: bool = False) -> Iterator[Place]:
    """The place of every asserted value that has no parts."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*at, key), asserted=asserted or key in ASSERTING)
    if asserted and not (isinstance(value, dict | list) and value):
        yield at


def altered(value: Any) -> Any:
    match value:
        case None:
            return 987_654
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "?"
        case list():
            return [{}]
        case _:
            return {"?": 0}


def parent(case: dict[str, Any], place: Place) -> Any:
    found: Any = case
    for key in place[:-1]:
        found = found[key]
    return found


def algorithms_that_see(case: dict[str, Any], place: Place) -> tuple[str, ...]:
    """Of two expectations of one step each algorithm sees its own."""
    for depth, key in enumerate(place):
        if key == "expect_real":
            return ("pravega",)
        if key == "expect" and "expect_real" in parent(case, place[: depth + 1]):
            return ("sound",)
    return ("sound", "pravega")


def fails(case: dict[str, Any], algorithm: Any) -> bool:
    try:
        run_case(case, algorithm)
    except (AssertionError, ValueError, LookupError, TypeError):
        return True
    return False


@pytest.mark.parametrize("case", stored_cases())
def test_every_altered_expectation_is_noticed(case: dict[str, Any]) -> None:
    found = list(places(case))
    unnoticed = []
    for place in found:
        changed = copy.deepcopy(case)
        holder = parent(changed, place)
        holder[place[-1]] = altered(holder[place[-1]])
        unnoticed += [(place, a) for a in algorithms_that_see(case, place) if not fails(changed, a)]
    assert found, "the case asserts nothing"
    assert unnoticed == []


def objects(value: Any, at: Place = ()) -> Iterator[Place]:
    """The place of every object that is not a map whose names are data."""
    if isinstance(value, dict):
        if "op" in value or at in ((), ("inputs",)):
            yield at
        children: Any = value.items()
    else:
        children = enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from objects(child, (*at, key))


@pytest.mark.parametrize("case", stored_cases())
def test_every_unknown_field_is_noticed(case: dict[str, Any]) -> None:
    unnoticed = []
    for place in objects(case):
        changed = copy.deepcopy(case)
        parent(changed, (*place, "unheard_of"))["unheard_of"] = 1
        unnoticed += [(place, a) for a in ("sound", "pravega") if not fails(changed, a)]
    assert unnoticed == []


@pytest.mark.parametrize(
    ("change", "problem"), [(("kind",), "kind"), (("inputs", "steps", 0, "op"), "unknown operation")]
)
def test_an_unknown_kind_or_operation_is_named(change: Place, problem: str) -> None:
    case = copy.deepcopy(stored_cases()[0].values[0])
    parent(case, change)[change[-1]] = "unheard of"
    with pytest.raises(UnknownFormatError, match=problem):
        run_case(case, "sound")
