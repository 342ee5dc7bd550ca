"""Scenario files: YAML both ways, with the line of every field, and mistakes reported with their location and line.

Only the safe loader is used: a file can hold data, never code. A key given twice is a mistake, not a choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Self, cast

import yaml
from pydantic import TypeAdapter, ValidationError

from wmlab.core.errors import ScenarioError
from wmlab.core.rules import RuleTable, options_in, resolved
from wmlab.core.values import Problems, plain, problems_of

FORMAT = 1
"""The version of the scenario format, written as `wmlab: 1` at the top of each file."""

Lines = dict[tuple[str | int, ...], int]


class _Loader(yaml.SafeLoader):
    """The safe loader, strict about repeated keys."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[object, object]:
    seen: set[object] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} is given twice", key_node.start_mark)
        seen.add(key)
    return cast("dict[object, object]", loader.construct_mapping(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str, source: str) -> tuple[dict[str, Any], Lines]:
    """The data of a scenario file and the line of each of its fields; `source` names the file in errors."""
    try:
        data = yaml.load(text, Loader=_Loader)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ScenarioError(
            f"{source} is not a scenario in YAML: {_complaint(error)}.", remedy="correct the file at that place."
        ) from None
    if not isinstance(data, dict):
        raise ScenarioError(
            f"{source} holds {_kind(data)}, not a scenario.",
            remedy="write a mapping with 'wmlab: 1', 'name', 'writers' and so on.",
        )
    version = data.pop("wmlab", None)
    if version != FORMAT:
        found = "no format version" if version is None else f"format version {version!r}"
        raise ScenarioError(
            f"{source} has {found}; this wmlab reads {FORMAT}.",
            remedy=f"put 'wmlab: {FORMAT}' at the top, or use the wmlab that wrote the file.",
        )
    lines: Lines = {}
    _note_lines(root, (), lines)
    return data, lines


def parse_fragment(text: str) -> Any:
    """The data of a piece of YAML, such as one field of a form; raises `ScenarioError` if it is none."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ScenarioError(
            f"{text.strip()!r} is not YAML: {_complaint(error)}.", remedy="correct it, for example as {kind: clock}."
        ) from None


def dump_fragment(data: object, *, one_line: bool) -> str:
    """Plain data as a piece of YAML, on one line or as a block."""
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=one_line, width=10_000)
    return text.strip().removesuffix("...").strip()


def _complaint(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"line {mark.line + 1}: {problem}" if mark is not None else problem


def _kind(data: object) -> str:
    return "nothing" if data is None else "a list" if isinstance(data, list) else f"the value {data!r}"


def _note_lines(node: yaml.Node | None, path: tuple[str | int, ...], lines: Lines) -> None:
    if node is None:
        return
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            _note_lines(child, (*path, str(key.value)), lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _note_lines(child, (*path, index), lines)


def line_of(location: tuple[str | int, ...], lines: Lines) -> int | None:
    """The line of the innermost known part of a location."""
    for length in range(len(location), -1, -1):
        if location[:length] in lines:
            return lines[location[:length]]
    return None


def read_text(path: str | Path) -> str:
    """The text of a scenario file, or a clear error."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ScenarioError(
            f"the scenario file {str(path)!r} cannot be read: {reason}.",
            remedy="give the path of a scenario YAML file.",
        ) from None


def dump(data: object) -> str:
    """Plain data as YAML, in the order given."""
    return yaml.safe_dump({"wmlab": FORMAT, **cast("dict[str, object]", data)}, sort_keys=False, allow_unicode=True)


_KINDS: Final[dict[str, str]] = {}
"""The field that only one kind of scenario has, and what users call that kind; each kind registers itself."""


class ScenarioFile:
    """The base of the scenarios, which are values: written as YAML, read back equal, replaced but never changed.

    The base class of a kind gives `only_field`, a field that no other kind has, and `users_call_it`; one with a field
    `rules` has a `rule_table` as well.
    """

    rule_table: ClassVar[RuleTable] = {}

    def __init_subclass__(cls, *, only_field: str | None = None, users_call_it: str = "") -> None:
        if only_field is not None:
            _KINDS[only_field] = users_call_it

    def replace(self, **fields: Any) -> Self:
        """The same scenario with some fields changed."""
        return dataclasses.replace(self, **fields)  # type: ignore[type-var]

    @property
    def resolved(self) -> Self:
        """The same scenario with all that was left to its `rules` filled in: what is run."""
        return resolved(self, getattr(self, "rules", "sound"), self.rule_table)

    @property
    def options(self) -> dict[str, Any]:
        """What is in effect, by path, of every option that `rules` decides on unless a part sets it."""
        return dict(options_in(self.resolved, self.rule_table))

    def to_dict(self) -> dict[str, Any]:
        """The scenario as dicts, lists and scalars; defaults are left out."""
        return dict(plain(self))  # type: ignore[call-overload,no-any-return]

    def to_yaml(self) -> str:
        """The scenario as YAML text that `from_yaml` reads back to an equal scenario."""
        return dump(self.to_dict())

    def save(self, path: str | Path) -> Path:
        """Write the scenario as a YAML file; returns its path."""
        target = Path(path)
        target.write_text(self.to_yaml(), encoding="utf-8")
        return target

    @classmethod
    def from_yaml(cls, text: str, *, source: str = "the YAML text") -> Self:
        """Read a scenario from YAML text; every mistake is reported with its location and line."""
        data, lines = parse(text, source)
        _require_kind(cls, data, source)
        try:
            return TypeAdapter(cls).validate_python(data)
        except ValidationError as error:
            found = problems_of(error, data)
            located = (dataclasses.replace(p, line=line_of(p.location, lines)) for p in found)
            raise Problems(source, located) from None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a scenario from a YAML file."""
        return cls.from_yaml(read_text(path), source=str(path))


def _require_kind(cls: type, data: Mapping[str, object], source: str) -> None:
    """Refuse a file that is a scenario of another kind, and say of which."""
    own = {field.name for field in dataclasses.fields(cls)}
    for field, kind in _KINDS.items():
        if field in data and field not in own:
            raise ScenarioError(
                f"{source} has {field!r}: it is a {kind}, not a {cls.__name__}.", remedy=f"load it with {kind}.load."
            )
