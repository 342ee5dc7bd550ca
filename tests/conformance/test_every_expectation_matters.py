"""A stored case whose expectation is altered has to fail, and so has one with something that no adapter knows.

Every asserted value of a case is altered, one at a time: of one case in ten, and of those that are the first to show a
kind, an operation or an expectation; with --long of every case.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import pytest

from tests.conformance.fields import UnknownFormatError
from tests.conformance.formats import FORMATS, Case, runs_of
from tests.conformance.hazelcast_steps import ERRORS
from tests.conftest import VECTORS
from tests.repetitions import Count, repetitions

Place = tuple[str | int, ...]
SHARE: Final = repetitions(10, long=1)
"""One case in so many is chosen by its number."""


class Stored(NamedTuple):
    """The files with cases of one format, and whether a name in an object, given with it, is of an expectation."""

    files: tuple[str, ...]
    asserts: Callable[[str | int, Any], bool]


def children(value: Any) -> Iterable[tuple[str | int, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def places(value: Any, asserts: Callable[..., bool], at: Place = (), *, asserted: bool = False) -> Iterator[Place]:
    """The place of every asserted value that has no parts."""
    for key, child in children(value):
        yield from places(child, asserts, (*at, key), asserted=asserted or asserts(key, value))
    if asserted and not (isinstance(value, dict | list) and value):
        yield at


def value_at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def changed_at(value: Any, place: Place, new: Any) -> Any:
    """A copy with another value at one place, which may be a new field; what is not on the way to it is shared."""
    if not place:
        return new
    changed = value.copy()
    old = value.get(place[0]) if isinstance(value, dict) else value[place[0]]
    changed[place[0]] = changed_at(old, place[1:], new)
    return changed


def other(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case None:
            return 987_654
        case bool():
            return not value
        case int() | float():
            return value + 1
        case "MAX" | "MIN" | "MIN+1":
            return "MAX" if value == "MIN" else "MIN"
        case str() if value in ERRORS:
            return next(error for error in ERRORS if error != value)
        case str():
            return value + "?"
        case dict():
            return {"?": 0}
    return [{}]


def readers(name: str, case: Case, place: Place) -> Iterable[str]:
    """The variants that read a value; of two expectations of one step each algorithm reads its own."""
    for depth, key in enumerate(place):
        if key == "expect_real":
            return ["pravega"]
        if key == "expect" and "expect_real" in value_at(case, place[:depth]):
            return ["sound"]
    return FORMATS[name].variants(case)


def objects(value: Any, at: Place = ()) -> Iterator[Place]:
    """The place of every object of a case whose fields must all be known, as their names are not data."""
    if isinstance(value, dict) and (at in OBJECTS or at[-2:-1] == ("steps",) or "op" in value):
        yield at
    for key, child in children(value):
        yield from objects(child, (*at, key))


def of_engines(key: str | int, holder: Any) -> bool:
    """Sources that wait for a limit are given what others are to answer."""
    waits = "paused" in holder if isinstance(holder, dict) else False
    if key in ("wm", "allowed", "allowed_then", "paused"):
        return waits == (key == "paused")
    return key in OF_ENGINES


OBJECTS: Final[set[Place]] = {(), ("inputs",), ("config",), ("entry",)}
STORED: Final = {
    "pravega": Stored(
        files=("pravega.json", "wmlab.json"),
        asserts=lambda key, holder: key in {"expected", "expect", "expect_real", "tracked_after"},
    ),
    "hazelcast": Stored(
        files=("hazelcast.json",),
        asserts=lambda key, holder: key in {"expect", "expect_error", "expect_config_error"},
    ),
    "nebula": Stored(
        files=("nebula.json",),
        # A `wm` next to other things is what a step is given; alone it is the answer of an assigner.
        asserts=lambda key, holder: key in OF_NEBULA or (key == "wm" and "buffer_ts" in holder),
    ),
    "engines": Stored(files=("engines.json",), asserts=of_engines),
}
OF_ENGINES: Final = {
    "aggregate", "accept", "avg_late", "closed_until", "dropped", "emit", "error", "expect", "final", "finals_at",
    "idle", "late_by", "max_late", "min after", "monotone", "poll", "poll_in", "rule", "skipped_records",
    "skipped_windows", "stream_time", "text", "wm_after", "wm_evict", "wm_late",
}  # fmt: skip
OF_NEBULA: Final = {
    "out", "final", "complete_at", "current", "current_after_k", "current_until_last", "stuck_value", "global",
    "expect", "expect_outputs", "slice", "windows", "slices", "fired_ends", "result", "outputs", "completed_up_to",
    "parts",
}  # fmt: skip


@functools.cache
def cases_of(name: str) -> list[Case]:
    """All stored cases of a format."""
    contents = [json.loads((VECTORS / file).read_text()) for file in STORED[name].files]
    return [case for content in contents for case in FORMATS[name].cases_of(content)]


@functools.cache
def chosen_cases(name: str) -> list[Case]:
    """The cases that are altered: a share of them by number, and those that are the first to show something."""
    chosen = []
    shown: set[tuple[str, ...]] = set()
    for number, case in enumerate(cases_of(name)):
        traits = {(case["kind"], *names_to(case, at)) for at in (*asserted_places(name, case), *objects(case))}
        if number % SHARE == 0 or not traits <= shown:
            chosen.append(case)
            shown |= traits
    return chosen


def names_to(case: Case, place: Place) -> Iterator[str]:
    """The names and operations on the way to a place."""
    value: Any = case
    for key in place:
        value = value[key]
        if isinstance(key, str):
            yield key
        elif isinstance(value, dict) and "op" in value:
            yield value["op"]


def asserted_places(name: str, case: Case) -> list[Place]:
    """The place of every value that a case asserts."""
    asserted = list(places(case, STORED[name].asserts))
    if name == "nebula" and not asserted:
        return [("entry", "oracle")]  # A case that asserts nothing by value names what the adapter has written out.
    assert asserted, f"{case} asserts nothing"
    return asserted


def unnoticed(name: str, case: Case, place: Place, new: Any) -> list[tuple[str, Place, str]]:
    """The variants of a case, with its name, in which nothing fails although there is something else at a place."""
    changed, case_name = changed_at(case, place, new), case.get("id") or case["name"]
    return [(case_name, place, variant) for variant in readers(name, case, place) if not fails(name, changed, variant)]


def fails(name: str, case: Case, variant: str) -> bool:
    try:
        FORMATS[name].run(case, variant)
    except (AssertionError, ValueError, LookupError, TypeError):
        return True
    return False


@pytest.mark.parametrize("name", STORED)
def test_every_kind_and_every_operation_is_among_the_chosen_cases(name: str) -> None:
    chosen, stored = chosen_cases(name), cases_of(name)
    assert {case["kind"] for case in chosen} == FORMATS[name].kinds.keys()
    assert operations_of(chosen) == operations_of(stored)


def operations_of(cases: Iterable[Case]) -> set[tuple[str, str]]:
    """Each kind with each of its operations."""
    return {(case["kind"], operation) for case in cases for operation in re.findall(r'"op": "(\w+)"', json.dumps(case))}


@pytest.mark.parametrize("name", STORED)
def test_every_altered_expectation_is_noticed(name: str, count: Count) -> None:
    altered = [(case, place) for case in chosen_cases(name) for place in asserted_places(name, case)]
    count(len(altered), "altered expectations of stored cases")
    assert [run for case, place in altered for run in unnoticed(name, case, place, other(value_at(case, place)))] == []


@pytest.mark.parametrize("name", STORED)
def test_every_unknown_field_and_operation_is_noticed(name: str) -> None:
    changed = []
    for case in chosen_cases(name):
        # Next to its entry a case has only what its place in the file says.
        for place in (at for at in objects(case) if at or "entry" not in case):
            changed.append((case, (*place, "unheard_of")))
            changed += [(case, (*place, "op"))] if "op" in value_at(case, place) else []
    assert [run for case, place in changed for run in unnoticed(name, case, place, "unheard of")] == []


@pytest.mark.parametrize(
    ("name", "kind", "place", "value", "problem"),
    [
        ("pravega", "workflow", ("kind",), "unheard of", "kind 'unheard of'"),
        ("pravega", "workflow", ("inputs", "steps", 0, "op"), "unheard of", "unknown operation 'unheard of'"),
        ("pravega", "revisioned_log", ("inputs", "unheard of"), [], "input 'unheard of'"),
        ("pravega", "revisioned_log", ("expected", "unheard of"), [], "expected 'unheard of'"),
        ("pravega", "reader_group", ("inputs", "ops", 0), "unheard of", "operation 'unheard of'"),
        ("pravega", "scale_shape", ("expected", "properties", 0), "unheard of", "property 'unheard of'"),
        ("hazelcast", "wm_coalescer", ("kind",), "unheard of", "kind 'unheard of'"),
        ("hazelcast", "wm_coalescer", ("steps", 0, "op"), "unheard of", "unknown operation 'unheard of'"),
        ("hazelcast", "edge_stream", ("steps", 0, "expect"), None, r"unknown fields \['expect'\]"),
        ("hazelcast", "wm_coalescer", ("variants",), ["hz", "other"], "variant"),
        ("hazelcast", "wm_coalescer", ("variants",), [], "variant"),
        ("hazelcast", "wm_coalescer", ("steps",), [], "without steps"),
        ("nebula", "assigners", ("kind",), "unheard of", "kind 'unheard of'"),
        ("nebula", "assigners", ("entry", "kind"), "unheard of", "assigner 'unheard of'"),
        ("nebula", "seq_queue_generators", ("entry", "order"), "unheard of", "order 'unheard of'"),
        ("engines", "status_watermark_valve", ("kind",), "unheard of", "kind 'unheard of'"),
        ("engines", "status_watermark_valve", ("entry", "steps", 0, "op"), "unheard of", "operation 'unheard of'"),
        ("engines", "status_watermark_valve", ("entry", "versions"), ["unheard of"], r"versions \['unheard of'\]"),
        ("engines", "watermark_output_multiplexer", ("entry", "versions"), [], "versions"),
        ("engines", "watermark_output_multiplexer", ("entry", "steps", 0), ["unheard of"], "operation"),
    ],
)
def test_what_is_unknown_is_named(name: str, kind: str, place: Place, value: Any, problem: str) -> None:
    case = changed_at(next(case for case in cases_of(name) if case["kind"] == kind), place, value)
    with pytest.raises(UnknownFormatError, match=problem):
        FORMATS[name].run(case, next(iter(FORMATS[name].variants(case))))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"meta": {"unheard of": 1}}, "meta: unknown fields"),
        ({"meta": {}, "chunk_rule_comparison": {"rows": [], "unheard of": 1}}, "unknown fields"),
        ({"_convention": "", "beam": {"unit": "unheard of"}}, "unit 'unheard of'"),
        ({"meta": {}, "unheard of": [{}]}, "kind 'unheard of'"),
        ({"_convention": "", "unheard of": [{}]}, "kind 'unheard of'"),
        ({"_convention": "", "beam": {"unheard of": [{}]}}, "kind 'beam.unheard of'"),
        ({"cases": [{"kind": "wm_coalescer", "config": {}}, {"variants": ["hz"]}]}, "variant"),
        ({"unheard of": []}, "kind"),
        ([], "kind"),
    ],
)
def test_what_is_unknown_in_a_file_is_named(content: Any, problem: str) -> None:
    with pytest.raises(UnknownFormatError, match=problem):
        run_all(content)


def run_all(content: Any) -> None:
    for _, run in runs_of(content):
        run()
