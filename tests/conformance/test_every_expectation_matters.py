"""A stored case whose expectation is altered has to fail, and so has one with a field that no adapter knows.

Every asserted value of every case of every format is altered, one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.conformance import engines, hazelcast, nebula, runner
from tests.conformance.fields import UnknownFormatError
from tests.conformance.hazelcast_steps import ERRORS, NAMED
from tests.conftest import VECTORS

Case = dict[str, Any]
Place = tuple[str | int, ...]


class Format(NamedTuple):
    """How cases of one format are run, and where and by whom their values are read."""

    cases: Callable[[], list[Case]]
    asserts: Callable[[str | int, Any], bool]
    """Whether a name in an object, given with it, is of an expectation."""
    run: Callable[[Case, Any], None]
    variants: Callable[[Case, Place], Iterable[str]]
    """The variants of the model that read the value at a place."""
    altered: Callable[[Any], Any]
    objects: Callable[[Case], Iterable[Place]]
    """The objects whose fields must all be known."""


def stored(*files: str) -> list[Any]:
    return [json.loads(Path(VECTORS, file).read_text()) for file in files]


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
            return [987_654]
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "?"
        case _:
            return [{}]


def other_of_pravega(value: Any) -> Any:
    return 987_654 if value is None else {"?": 0} if isinstance(value, dict) else other(value)


def other_of_hazelcast(value: Any) -> Any:
    if not isinstance(value, str):
        return other(value)
    if value in NAMED:
        return "MAX" if value == "MIN" else "MIN"
    return next(error for error in ERRORS if error != value) if value in ERRORS else other(value)


def algorithms_that_see(case: Case, place: Place) -> tuple[str, ...]:
    """Of two expectations of one step each algorithm sees its own."""
    for depth, key in enumerate(place):
        if key == "expect_real":
            return ("pravega",)
        if key == "expect" and "expect_real" in value_at(case, place[:depth]):
            return ("sound",)
    return ("sound", "pravega")


def objects_of_pravega(value: Any, at: Place = ()) -> Iterator[Place]:
    """The place of every object that is not a map whose names are data."""
    if isinstance(value, dict) and ("op" in value or at in ((), ("inputs",))):
        yield at
    for key, child in children(value):
        yield from objects_of_pravega(child, (*at, key))


def with_steps(case: Case, *first: Place, at: Place = ()) -> list[Place]:
    return [*first, *((*at, "steps", number) for number in range(len(value_at(case, at).get("steps", ()))))]


def of_engines(key: str | int, holder: Any) -> bool:
    """Sources that wait for a limit are given what others are to answer."""
    waits = "paused" in holder if isinstance(holder, dict) else False
    if key in ("wm", "allowed", "allowed_then", "paused"):
        return waits == (key == "paused")
    return key in OF_ENGINES


def named(case: Case, place: Place) -> bool:
    return isinstance(value_at(case, place), dict)


FORMATS: Final = {
    "pravega": Format(
        cases=lambda: [case for content in stored("pravega.json", "wmlab.json") for case in content["cases"]],
        asserts=lambda key, holder: key in {"expected", "expect", "expect_real", "tracked_after"},
        run=runner.run_case,
        variants=algorithms_that_see,
        altered=other_of_pravega,
        objects=objects_of_pravega,
    ),
    "hazelcast": Format(
        cases=lambda: stored("hazelcast.json")[0]["cases"],
        asserts=lambda key, holder: key in {"expect", "expect_error", "expect_config_error"},
        run=hazelcast.run_case,
        variants=lambda case, place: hazelcast.variants_of(case),
        altered=other_of_hazelcast,
        objects=lambda case: with_steps(case, (), ("config",)),
    ),
    "nebula": Format(
        cases=lambda: nebula.cases_of(stored("nebula.json")[0]),
        # A `wm` beside other things is what a step is given; alone it is the answer of an assigner.
        asserts=lambda key, holder: key in OF_NEBULA or (key == "wm" and "buffer_ts" in holder),
        run=lambda case, _: nebula.run_case(case),
        variants=lambda case, place: ("",),
        altered=other,
        objects=lambda case: with_steps(case, ("entry",), at=("entry",)),
    ),
    "engines": Format(
        cases=lambda: engines.cases_of(stored("engines.json")[0]),
        asserts=of_engines,
        run=lambda case, _: engines.run_case(case),
        variants=lambda case, place: ("",),
        altered=other,
        objects=lambda case: [at for at in with_steps(case, ("entry",), at=("entry",)) if named(case, at)],
    ),
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
CASES: Final = [
    pytest.param(name, case, id=f"{name}-{case.get('id') or case['name']}")
    for name, form in FORMATS.items()
    for case in form.cases()
]


def fails(form: Format, case: Case, variant: str) -> bool:
    try:
        form.run(case, variant)
    except (AssertionError, ValueError, LookupError, TypeError):
        return True
    return False


@pytest.mark.parametrize(("name", "case"), CASES)
def test_every_altered_expectation_is_noticed(name: str, case: Case) -> None:
    form = FORMATS[name]
    found = list(places(case, form.asserts))
    if name == "nebula" and not found:
        found = [("entry", "oracle")]  # A case that asserts nothing by value names what the adapter has written out.
    assert found, "the case asserts nothing"
    unnoticed = []
    for place in found:
        changed = changed_at(case, place, form.altered(value_at(case, place)))
        unnoticed += [(place, variant) for variant in form.variants(case, place) if not fails(form, changed, variant)]
    assert unnoticed == []


@pytest.mark.parametrize(("name", "case"), CASES)
def test_every_unknown_field_is_noticed(name: str, case: Case) -> None:
    form = FORMATS[name]
    unnoticed = []
    for place in form.objects(case):
        changed = changed_at(case, (*place, "unheard_of"), 1)
        unnoticed += [(place, variant) for variant in form.variants(case, ()) if not fails(form, changed, variant)]
    assert unnoticed == []


@pytest.mark.parametrize(
    ("name", "place", "value", "problem"),
    [
        ("pravega", ("kind",), "unheard of", "kind"),
        ("pravega", ("inputs", "steps", 0, "op"), "unheard of", "unknown operation"),
        ("hazelcast", ("kind",), "unheard of", "kind 'unheard of'"),
        ("hazelcast", ("steps", 0, "op"), "unheard of", "unheard of"),
        ("hazelcast", ("variants",), ["hz", "other"], "variant"),
        ("hazelcast", ("variants",), [], "variant"),
        ("hazelcast", ("steps",), [], "without steps"),
        ("nebula", ("kind",), "unheard of", "kind 'unheard of'"),
        ("engines", ("kind",), "unheard of", "kind 'unheard of'"),
    ],
)
def test_what_is_unknown_is_named(name: str, place: Place, value: Any, problem: str) -> None:
    form = FORMATS[name]
    case = changed_at(form.cases()[0], place, value)
    variant = next(iter(form.variants(case, ())))
    with pytest.raises(UnknownFormatError, match=problem):
        form.run(case, variant)


def test_an_unknown_description_of_a_file_is_named() -> None:
    with pytest.raises(UnknownFormatError, match="meta"):
        nebula.cases_of({"meta": {"unheard of": 1}})
