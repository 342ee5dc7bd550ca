"""The stored cases on keyed watermarks: every altered expectation and every unknown field has to be noticed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import hazelcast
from tests.conformance.fields import UnknownFormatError
from tests.conformance.hazelcast_steps import ERRORS, NAMED
from tests.conftest import VECTORS

ASSERTING = {"expect", "expect_error", "expect_config_error"}
Place = tuple[str | int, ...]


def stored_cases() -> list[Any]:
    content = json.loads(Path(VECTORS, "hazelcast.json").read_text())
    return [pytest.param(case, id=case["id"]) for case in content["cases"]]


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
            return [987_654]
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if value in NAMED:
            return "MAX" if value == "MIN" else "MIN"
        case str() if value in ERRORS:
            return next(error for error in ERRORS if error != value)
        case str():
            return value + "?"
        case _:
            return [{}]


def parent(case: dict[str, Any], place: Place) -> Any:
    found: Any = case
    for key in place[:-1]:
        found = found[key]
    return found


def unnoticed(case: dict[str, Any], place: Place, value: Any) -> list[tuple[Place, str]]:
    """The variants under which the case still passes with another value at this place."""
    changed = copy.deepcopy(case)
    parent(changed, place)[place[-1]] = value
    found = []
    for variant in hazelcast.variants_of(case):
        try:
            hazelcast.run_case(changed, variant)
        except (AssertionError, ValueError, LookupError, TypeError):
            continue
        found.append((place, variant))
    return found


@pytest.mark.parametrize("case", stored_cases())
def test_every_altered_expectation_is_noticed(case: dict[str, Any]) -> None:
    found = list(places(case))
    assert found, "the case asserts nothing"
    missed = []
    for place in found:
        missed += unnoticed(case, place, altered(parent(case, place)[place[-1]]))
    assert missed == []


def objects(case: dict[str, Any]) -> Iterator[Place]:
    """The case, its configuration and its steps."""
    yield ()
    yield ("config",)
    yield from (("steps", number) for number in range(len(case.get("steps", ()))))


@pytest.mark.parametrize("case", stored_cases())
def test_every_unknown_field_is_noticed(case: dict[str, Any]) -> None:
    missed = []
    for place in objects(case):
        missed += unnoticed(case, (*place, "unheard_of"), 1)
    assert missed == []


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("kind",), "unheard of", "kind 'unheard of'"),
        (("steps", 0, "op"), "unheard of", "unheard of"),
        (("variants",), ["hz", "other"], "variant"),
        (("variants",), [], "variant"),
        (("steps",), [], "without steps"),
    ],
)
def test_what_is_unknown_is_named(place: Place, value: Any, problem: str) -> None:
    case = copy.deepcopy(stored_cases()[0].values[0])
    parent(case, place)[place[-1]] = value
    variant = next(hazelcast.variants_of(case))
    with pytest.raises(UnknownFormatError, match=problem):
        hazelcast.run_case(case, variant)
