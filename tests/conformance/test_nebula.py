"""The stored cases on progress: every altered expectation and every unknown field has to be noticed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import nebula
from tests.conftest import VECTORS

ASSERTING = {
    "out", "final", "complete_at", "current", "current_after_k", "current_until_last", "stuck_value", "global",
    "expect", "expect_outputs", "slice", "windows", "slices", "fired_ends", "result", "outputs", "completed_up_to",
    "parts", "wm",
}  # fmt: skip
Place = tuple[str | int, ...]


def stored_cases() -> list[Any]:
    content = json.loads(Path(VECTORS, "nebula.json").read_text())
    return [pytest.param(case, id=case["name"]) for case in nebula.cases_of(content)]


def places(value: Any, at: Place = (), *, asserted: bool = False) -> Iterator[Place]:
    """The place of every asserted value that has no parts."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*at, key), asserted=asserted or (key in ASSERTING and not is_input(key, value)))
    if asserted and not (isinstance(value, dict | list) and value):
        yield at


def is_input(key: Any, holder: Any) -> bool:
    """A `wm` beside other things is what a step is given; alone it is the answer of an assigner."""
    return key == "wm" and "buffer_ts" not in holder


def altered(value: Any) -> Any:
    match value:
        case None:
            return [987_654]
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value + "?"
        case _:
            return [{}]


def fails(case: dict[str, Any]) -> bool:
    try:
        nebula.run_case(case)
    except (AssertionError, ValueError, LookupError, TypeError):
        return True
    return False


def changed_at(case: dict[str, Any], place: Place) -> dict[str, Any]:
    changed = copy.deepcopy(case)
    holder: Any = changed["entry"]
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = altered(holder[place[-1]])
    return changed


@pytest.mark.parametrize("case", stored_cases())
def test_every_altered_expectation_of_progress_is_noticed(case: dict[str, Any]) -> None:
    # A case that asserts nothing by value names the oracle that the adapter has written out.
    found = list(places(case["entry"])) or [("oracle",)]
    unnoticed = [place for place in found if not fails(changed_at(case, place))]
    assert unnoticed == []


@pytest.mark.parametrize("case", stored_cases())
def test_every_unknown_field_of_progress_is_noticed(case: dict[str, Any]) -> None:
    entry = case["entry"]
    holders = [(), *(("steps", number) for number in range(len(entry.get("steps", ()))))]
    unnoticed = []
    for place in holders:
        changed = copy.deepcopy(case)
        holder: Any = changed["entry"]
        for key in place:
            holder = holder[key]
        holder["unheard_of"] = 1
        unnoticed += [] if fails(changed) else [place]
    assert unnoticed == []


def test_an_unknown_kind_of_progress_fails() -> None:
    assert fails({"kind": "unheard of", "name": "x", "entry": {}})


def test_an_unknown_description_of_the_file_fails() -> None:
    with pytest.raises(AssertionError, match="meta"):
        nebula.cases_of({"meta": {"unheard of": 1}})
