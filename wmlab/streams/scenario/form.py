"""A scenario as a form: its fields as data, with units, bounds and choices, and the scenario that a changed form gives.

What has no simple widget (a noting policy, a list) is a piece of YAML. Changes are checked as a whole, by the same
rules as a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from wmlab.core.errors import ScenarioError
from wmlab.core.rules import options_of
from wmlab.core.scenario_file import dump_fragment, parse_fragment
from wmlab.core.values import Problem, Problems, plain, problems_of
from wmlab.streams.scenario.rules import RULE_TABLE
from wmlab.streams.scenario.scenario import StreamScenario

Kind = Literal["whole", "real", "flag", "choice", "text", "yaml"]
Path = tuple[str | int, ...]
Scenario = TypeVar("Scenario", bound=StreamScenario)

_UNITS: Final = {"_ms": "ms", "_bytes": "bytes", "_per_s": "per s"}
_PARTS: Final = ("stream", "streams", "writers", "readers", "controllers", "network", "script")
_LISTS: Final = {"streams": "stream", "writers": "writer", "readers": "readers"}
_OMITTED: Final = {"kind"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field: where it is, how it is called, what it holds, and what may stand in it.

    `unit` is "" for plain numbers and texts. `low` and `high` bound a number, inclusive; None is no bound. `optional`
    fields may be empty, which is None. A value of kind `yaml` is text.
    """

    path: Path
    group: str
    label: str
    unit: str
    kind: Kind
    value: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False


def fields_of(scenario: StreamScenario) -> tuple[FormField, ...]:
    """All fields of a scenario, part by part: the run, its streams, writers, readers, controllers, network, script.

    Options that the rules decide on show what is in effect.
    """
    scenario = scenario.resolved
    fields = _of_part(scenario, (), "run", without=_PARTS)
    for name in _PARTS:
        part = getattr(scenario, name)
        if name == "stream" and scenario.streams:
            continue
        if isinstance(part, tuple):
            for index, entry in enumerate(part):
                script = f"script {index}: {entry.kind.replace('_', ' ')}" if name == "script" else ""
                fields += _of_part(entry, (name, index), script or f"{_LISTS[name]} {entry.name}")
        elif part is not None:
            fields += _of_part(part, (name,), name)
    return tuple(fields)


def with_changes(scenario: Scenario, changes: Mapping[Path, Any]) -> Scenario:
    """The scenario with the values at these paths; all its mistakes are raised as one `Problems`."""
    data = scenario.to_dict()
    problems: list[Problem] = []
    fields = {field.path: field for field in fields_of(scenario)}
    for path, value in changes.items():
        # An option left as it was stays with the rules.
        if path in fields and (type(value), value) == (type(fields[path].value), fields[path].value):
            continue
        part: Any = data
        for step in path[:-1]:
            part = part.setdefault(step, {}) if isinstance(part, dict) else part[step]
        try:
            part[path[-1]] = parse_fragment(value) if path in fields and fields[path].kind == "yaml" else value
        except ScenarioError as wrong:
            problems.append(Problem(path, wrong.problem))
    if problems:
        raise Problems("the form", problems)
    return _checked(scenario, data)


def with_part(scenario: Scenario, name: Literal["writers", "script"], text: str) -> Scenario:
    """The scenario with one more writer or one more act, given as YAML."""
    data = scenario.to_dict()
    data.setdefault(name, []).append(parse_fragment(text))
    return _checked(scenario, data)


def without_part(scenario: Scenario, path: Path) -> Scenario:
    """The scenario without the writer or the act at `path`, for example ("script", 0)."""
    data = scenario.to_dict()
    name, index = path
    del data[str(name)][index]
    return _checked(scenario, data)


def _checked(scenario: Scenario, data: dict[str, Any]) -> Scenario:
    try:
        return TypeAdapter(type(scenario)).validate_python(data)
    except ValidationError as error:
        raise Problems("the form", problems_of(error, data)) from None


def _of_part(part: Any, path: Path, group: str, *, without: tuple[str, ...] = ()) -> list[FormField]:
    schema = _schema(part.__class__)
    properties = schema.get("properties", {})
    options = options_of(type(part), RULE_TABLE)
    fields = [
        _field((*path, entry.name), group, getattr(part, entry.name), properties.get(entry.name, {}), schema)
        for entry in dataclasses.fields(part)
        if entry.name not in _OMITTED and entry.name not in without
    ]
    return [dataclasses.replace(f, optional=False) if f.path[-1] in options else f for f in fields]


@cache
def _schema(part: type) -> dict[str, Any]:
    return TypeAdapter(part).json_schema()


def _field(path: Path, group: str, held: Any, described: Mapping[str, Any], schema: Mapping[str, Any]) -> FormField:
    name = str(path[-1])
    ending, unit = next(((end, unit) for end, unit in _UNITS.items() if name.endswith(end)), ("", ""))
    optional, kind, rules = _kind(described, schema)
    label = name.removesuffix(ending).replace("_", " ")
    return FormField(
        path=path,
        group=group,
        label=label,
        unit=unit,
        kind=kind,
        value=dump_fragment(plain(held), one_line=True) if kind == "yaml" else held,
        low=_bound(rules, "minimum", "exclusiveMinimum", kind, 1),
        high=_bound(rules, "maximum", "exclusiveMaximum", kind, -1),
        choices=tuple(rules.get("enum", ())) or ((rules["const"],) if "const" in rules else ()),
        optional=optional,
    )


def _kind(described: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[bool, Kind, Mapping[str, Any]]:
    """Whether a field may be empty, which kind it is, and the rules for its value."""
    options = [_resolved(option, schema) for option in described.get("anyOf", [described])]
    known = [option for option in options if option.get("type") != "null"]
    optional = len(known) < len(options)
    if len(known) != 1:
        return optional, "yaml", {}
    rules = known[0]
    if "enum" in rules:
        return optional, "choice", rules
    kinds: dict[str, Kind] = {"integer": "whole", "number": "real", "boolean": "flag", "string": "text"}
    return optional, kinds.get(str(rules.get("type")), "yaml"), rules


def _resolved(option: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = option.get("$ref", "")
    return schema.get("$defs", {}).get(reference.rpartition("/")[2], option) if reference else option


def _bound(rules: Mapping[str, Any], inclusive: str, exclusive: str, kind: Kind, step: int) -> float | None:
    """A bound as an inclusive one; an exclusive bound of a real number is kept as it is and checked later."""
    if inclusive in rules:
        return rules[inclusive]  # type: ignore[no-any-return]
    if exclusive in rules:
        return rules[exclusive] + (step if kind == "whole" else 0)  # type: ignore[no-any-return]
    return None
