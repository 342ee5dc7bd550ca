"""The result of an edit in the form: another scenario, or its mistakes as `Problems`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING
from fractions import Fraction
from itertools import count
from typing import Any

from wmlab.core.durations import ms_of_text
from wmlab.core.errors import ScenarioError
from wmlab.core.mistakes import Location
from wmlab.core.scenario_file import parse_fragment, with_changes
from wmlab.core.values import Problem, Problems, plain, value_at
from wmlab.core.words import shown
from wmlab.streams.panel.fields import FAULTS, NOTINGS, WRITERS, Field, names_of
from wmlab.streams.scenario.checks import segment_to_seal
from wmlab.streams.scenario.options import SECTIONS
from wmlab.streams.scenario.parts import TransactionalWriter
from wmlab.streams.scenario.scenario import StreamScenario


def changed(scenario: StreamScenario, field: Field, offered: Any) -> StreamScenario:
    """The scenario with a text as it is typed, or with a value, in a field; raises `Problems` for mistakes."""
    content = _read(field, offered) if isinstance(offered, str) and field.kind != "choice" else offered
    if field.path[-1] == "kind":
        path = field.path[:-1]
        return with_changes(scenario, {path: _of_kind(scenario, path, content)})
    return with_changes(scenario, {field.path: content})


def with_part(scenario: StreamScenario, section: str) -> StreamScenario:
    """The scenario with one more writer, fault or group of readers; what it requires is filled in.

    Raises `ScenarioError` for a section that has only one part.
    """
    name = SECTIONS[section]
    entries = list(scenario.to_dict().get(name, ())) if name in ("writers", "script") else []
    match name:
        case "writers":
            raw: Any = [*entries, {"name": _new_name(scenario, "w"), "rate_per_s": 10}]
        case "script":
            raw = [*entries, _filled(scenario, {"kind": "silence_writer"}, FAULTS["silence_writer"])]
        case "readers" if scenario.readers is None:
            raw = {}
        case _:
            raise ScenarioError(f"{section} can have no other part here.", remedy="write it into the YAML.")
    return with_changes(scenario, {(name,): raw})


def without_part(scenario: StreamScenario, path: Location) -> StreamScenario:
    """The scenario without the writer, fault or group of readers at `path`; raises `Problems` if others name it."""
    name = str(path[0])
    if len(path) == 1:
        return with_changes(scenario, {(name,): None})
    entries = list(scenario.to_dict()[name])
    del entries[int(path[1])]
    return with_changes(scenario, {(name,): entries})


def removable(scenario: StreamScenario, path: Location) -> bool:
    """Whether `without_part` takes the part at a path out."""
    return path[:1] in (("script",), ("readers",)) or (path[:1] == ("writers",) and len(scenario.writers) > 1)


def _read(field: Field, text: str) -> Any:
    """What a text means in a field; one that is not a number stays a text, which its class refuses."""
    text = text.strip().replace("\N{MINUS SIGN}", "-")
    if not text and field.optional:
        return None
    if field.kind == "text":
        return text
    if field.kind == "names":
        return text.replace(",", " ").split()
    if field.kind == "yaml":
        try:
            return parse_fragment(text)
        except ScenarioError as wrong:
            raise Problems("The form", [Problem(field.path, f"{wrong.problem} {wrong.remedy}")]) from None
    # Digits may be written in groups.
    digits = "".join(text.replace(",", "").split())
    for read in (int, float):
        try:
            number = read(digits)
        except ValueError:
            continue
        if field.kind == "duration" and number:
            raise Problems(
                "The form", [Problem(field.path, f"{shown(text)} has no unit; write {digits} ms or {digits} s")]
            )
        return number
    return _fraction_of_ms(text) if field.kind == "duration" else text


def _fraction_of_ms(text: str) -> Any:
    """A duration as the text it is, or as a number where it is not of whole milliseconds."""
    try:
        ms = ms_of_text(text)
    except ValueError:
        return text
    return float(ms) if isinstance(ms, Fraction) else text


def _of_kind(scenario: StreamScenario, path: Location, kind: str) -> dict[str, Any]:
    """A tagged value of another kind, as plain data: what both kinds have stays, what is required is filled in."""
    raw = plain(value_at(scenario, path))
    kinds = {"writers": WRITERS, "script": FAULTS}.get(str(path[0]), {}) if len(path) == 2 else NOTINGS
    made = kinds[kind]
    fields = {field.name for field in dataclasses.fields(made)}
    if kind.endswith("_transaction"):
        fields -= {"writer"}  # the one that is named may have no transactions
    shared = {name: content for name, content in raw.items() if name in fields} if isinstance(raw, dict) else {}
    return _filled(scenario, shared | ({"kind": kind} if "kind" in fields else {}), made)


def _filled(scenario: StreamScenario, raw: Mapping[str, Any], made: type) -> dict[str, Any]:
    """Plain data of a class with all that it requires."""
    required = [
        field.name
        for field in dataclasses.fields(made)
        if field.default is MISSING and field.default_factory is MISSING and field.name not in raw
    ]
    return {**raw, **{name: _first_value(scenario, str(raw.get("kind")), name) for name in required}}


def _first_value(scenario: StreamScenario, kind: str, name: str) -> Any:
    """What a required field begins with."""
    names = names_of(scenario).get(name, ())
    if name == "name":
        return _new_name(scenario, f"{kind.replace('_', '-')}-")
    if name == "reader" and kind == "add_reader":
        group = next((group.name for group in scenario.groups), "readers")
        return next(new for n in count() if (new := f"{group}-{n}") not in names)
    if name == "writer" and kind.endswith("_transaction"):
        return next((w.name for w in scenario.writers if isinstance(w, TransactionalWriter)), names[0])
    if name in ("seal", "segment"):
        segment = segment_to_seal(scenario, scenario.duration_ms // 2) or "0@0"
        return [segment] if name == "seal" else segment
    if name == "controller":
        return names[-1]
    firsts: dict[str, Any] = {
        "at_ms": scenario.duration_ms // 2,
        "for_ms": max(1, scenario.duration_ms // 4),
        "hold_ms": max(1, scenario.duration_ms // 4),
        "by_ms": 5_000,
        "slack_ms": 1_000,
        "time": "clock" if kind == "compute" else scenario.start_ms + scenario.duration_ms // 2,
        "b": "controllers",
    }
    return firsts.get(name, names[0] if names else "")


def _new_name(scenario: StreamScenario, stem: str) -> str:
    taken = {getattr(entry, "name", None) for entry in (*scenario.writers, *scenario.script)}
    return next(new for n in count(1) if (new := f"{stem}{n}") not in taken)
