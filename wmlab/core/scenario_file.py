"""Scenario files: YAML both ways, with the line of every field, and mistakes reported with their location and line.

Only the safe loader is used: a file can hold data, never code. A key given twice is a mistake, not a choice. Size,
depth and number of entries have limits, aliases counted as what they stand for, so that a hostile file is refused at
once.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, Self, TypeVar, cast, get_type_hints

import yaml
from pydantic import TypeAdapter, ValidationError
from yaml.composer import Composer, ComposerError

from wmlab.core import files
from wmlab.core.durations import GivenDuration
from wmlab.core.errors import ScenarioError, UnknownNameError, closest, unknown_attribute
from wmlab.core.estimate import Cost, Estimate
from wmlab.core.mistakes import Location
from wmlab.core.rules import RuleOption, RuleSet
from wmlab.core.values import (
    Problems,
    arguments,
    fields_in_use,
    number_text,
    plain,
    problems_of,
    without_functions,
)
from wmlab.core.words import shown

FORMAT = 1
"""The version of the scenario format, written as `wmlab: 1` at the top of each file."""

Lines = dict[tuple[str | int, ...], int]


_MOST_BYTES: Final = 1_000_000
_MOST_ENTRIES: Final = 100_000
_DEEPEST: Final = 50


class _Loader(Composer, yaml.CSafeLoader):
    """The safe loader with limits, strict about repeated keys. libyaml reads, Python builds the tree."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._depth = 0
        self._entries = 0
        self._weights: dict[yaml.Node, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node; raises `ComposerError` beyond the limits."""
        event: Any = self.peek_event()
        mark = event.start_mark
        alias = self.check_event(yaml.AliasEvent)
        before = self._entries
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ComposerError(None, None, f"it is nested deeper than {_DEEPEST} levels", mark)
        node: Any = super().compose_node(parent, index)
        self._depth -= 1
        if alias and node not in self._weights:
            raise ComposerError(None, None, "an entry contains itself", mark)
        self._entries += self._weights[node] if alias else 1
        if self._entries > _MOST_ENTRIES:
            raise ComposerError(None, None, f"it has more than {_MOST_ENTRIES:,} entries, aliases resolved", mark)
        if not alias:
            self._weights[node] = self._entries - before
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """The value of a node; raises `ConstructorError` for a text that its type does not admit."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            what = shown(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            problem = f"{what} is not of type {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[object, object]:
    seen: set[object] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int | float | bool | None):
            raise yaml.constructor.ConstructorError(None, None, f"{shown(key)} is not a key", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"{shown(key)} is given twice", key_node.start_mark)
        seen.add(key)
    return cast("dict[object, object]", loader.construct_mapping(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


class NotYaml(ScenarioError):
    """A text that is no YAML: what is wrong in which `line` (None: in no particular one)."""

    def __init__(self, source: str, error: yaml.YAMLError, text: str) -> None:
        self.complaint, self.line = _complaint(error), _line_of(error, text)
        at = "" if self.line is None else f"line {self.line}: "
        super().__init__(
            f"{source} is not a scenario in YAML: {at}{self.complaint}.", remedy="correct the file at that place."
        )


def parse_scenario(text: str, source: str) -> tuple[dict[str, Any], Lines]:
    """The data of a scenario file and the line of each of its fields; `source` names the file in errors."""
    if not isinstance(text, str):
        raise ScenarioError(f"{shown(text)} is not text.", remedy="give YAML text; a file is read by load.")
    try:
        data, root = _load(text)
    except yaml.YAMLError as error:
        raise NotYaml(source, error, text) from None
    if not isinstance(data, dict):
        held = "nothing" if data is None else "a list" if isinstance(data, list) else f"the value {shown(data)}"
        raise ScenarioError(
            f"{source} holds {held}, not a scenario.",
            remedy=f"write a mapping with 'wmlab: {FORMAT}', 'name', and one of {', '.join(map(repr, _KINDS))}.",
        )
    version = data.pop("wmlab", None)
    if version != FORMAT:
        stated = "no format version" if version is None else f"format version {shown(version)}"
        raise ScenarioError(
            f"{source} has {stated}; this wmlab reads {FORMAT}.",
            remedy=f"put 'wmlab: {FORMAT}' at the top, or use the wmlab that wrote the file.",
        )
    return data, dict(_lines(root, ()))


def _load(text: str) -> tuple[Any, Any]:
    """The data of a YAML text and the node that it is made from."""
    if len(text) > _MOST_BYTES:
        raise yaml.YAMLError(f"it has {len(text):,} characters; the limit is {_MOST_BYTES:,}")
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        return None if root is None else loader.construct_document(root), root
    except UnicodeEncodeError as wrong:
        raise yaml.YAMLError(f"it has a character that is not text: {wrong.reason}") from None


def parse_fragment(text: str) -> Any:
    """The data of a piece of YAML, such as one field of the panel; raises `ScenarioError` if it is none."""
    try:
        return _load(text)[0]
    except yaml.YAMLError as error:
        raise ScenarioError(
            f"{shown(text.strip())} is not YAML: {_complaint(error)}.",
            remedy="correct it, for example as {kind: wall_clock}.",
        ) from None


class _Dumper(yaml.CSafeDumper):
    """Writes a duration as the text by which it was given."""


_Dumper.add_representer(GivenDuration, lambda dumper, duration: dumper.represent_str(duration.given))


def dump_fragment(data: object, *, one_line: bool) -> str:
    """Plain data as a piece of YAML, on one line or as a block."""
    style: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "default_flow_style": one_line, "width": 10_000}
    text = str(yaml.dump(data, Dumper=_Dumper, **style))
    return text.strip().removesuffix("...").strip()


def _complaint(error: yaml.YAMLError) -> str:
    return getattr(error, "problem", None) or " ".join(str(error).split())


def _line_of(error: yaml.YAMLError, text: str) -> int | None:
    mark = getattr(error, "problem_mark", None)
    # At the end of a text the mark is behind its last line.
    return None if mark is None else max(1, min(mark.line + 1, len(text.splitlines())))


def _lines(node: yaml.Node, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            yield from _lines(child, (*path, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from _lines(child, (*path, index))


def line_of(location: tuple[str | int, ...], lines: Lines) -> int | None:
    """The line of the innermost known part of a location."""
    outwards = (location[:length] for length in range(len(location), -1, -1))
    return next((lines[location_there] for location_there in outwards if location_there in lines), None)


def bundled_scenarios() -> dict[str, Path]:
    """The scenario files of every kind that come with wmlab, by name."""
    return {file.stem: file for file in sorted((files.DATA / "scenarios").rglob("*.yaml"))}


def read_scenario_text(source: str | Path) -> str:
    """The text of the scenario file at a path or, by its name alone, of one that comes with wmlab.

    Raises `ScenarioError` for what cannot be read.
    """
    path = files.as_path(source, ScenarioError)
    if path.suffix == "" and path.name == str(source) and not path.is_file():
        bundled = bundled_scenarios()
        if path.name not in bundled:
            close = closest(path.name, bundled)
            raise ScenarioError(
                f"no scenario {path.name!r} comes with wmlab, and there is no such file.",
                remedy=f"give {repr(close) if close else 'one of wm.Scenario.names()'}, or the path of a YAML file.",
            )
        path = bundled[path.name]
    try:
        return files.read_text(path, _MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ScenarioError(
            f"the scenario file {str(path)!r} cannot be read: {reason}.",
            remedy="give the path of a scenario YAML file, or the name of a scenario that comes with wmlab.",
        ) from None


def dump(data: object) -> str:
    """Plain data as YAML, in the order given."""
    named = {"wmlab": FORMAT, **cast("dict[str, object]", data)}
    return str(yaml.dump(named, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


_LINE: Final = 100
"""The most characters that a call has on one line, besides what is before it."""


def python_call(part: object, called: Callable[[type], str], indent: str = "") -> str:
    """A value as the Python code that makes it; `called` names its classes. What is long has a line for each entry.

    A scenario inside another one names its own classes.
    """
    if isinstance(part, ScenarioFile):
        called = part.class_name
    if dataclasses.is_dataclass(part):
        begin, end = f"{called(type(part))}(", ")"
        entries = [(f"{name}=" if name else "", entry) for name, entry in arguments(part)]
    elif isinstance(part, Mapping):
        begin, end = "{", "}"
        entries = [(f"{key!r}: ", entry) for key, entry in part.items()]
    elif isinstance(part, list | tuple):
        begin, end = "[", "]"
        entries = [("", entry) for entry in part]
    else:
        return number_text(part)
    one_line = begin + ", ".join(before + python_call(entry, called) for before, entry in entries) + end
    if len(indent) + len(one_line) <= _LINE and "\n" not in one_line:
        return one_line
    inside = f"{indent}    "
    lines = "".join(f"{inside}{before}{python_call(entry, called, inside)},\n" for before, entry in entries)
    return f"{begin}\n{lines}{indent}{end}"


_KINDS: Final[dict[str, str]] = {}
"""The field that only one kind of scenario has, and what users call that kind; each kind registers itself."""


class ScenarioFile:
    """The base of the scenarios, which are values: written as YAML, read back equal, replaced but never changed.

    The base class of a kind gives `only_field`, a field that no other kind has, `users_call_it`, and the class of its
    `rules` as `rule_set`. `noun` is what its own mistakes call it. `_namespaces` says where users find the classes of a
    module, if not next to the scenario.
    """

    name: str
    seed: int
    rules: Any
    rule_set: ClassVar[type[RuleSet]]
    only_field: ClassVar[str]
    _users_call_it: ClassVar[str]
    noun: ClassVar[str] = "the scenario"
    _namespaces: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, *, only_field: str | None = None, users_call_it: str = "") -> None:
        if only_field is not None:
            cls.only_field, cls._users_call_it = only_field, users_call_it
            _KINDS[only_field] = users_call_it

    def __eq__(self, other: object) -> bool:
        """Whether it is the same scenario; one with verbs equals the one without, which a file inside another gives."""
        if not isinstance(other, ScenarioFile) or self.only_field != other.only_field:
            return NotImplemented
        return _contents(self) == _contents(other)

    def __hash__(self) -> int:
        return hash(_contents(self))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            """Say of a verb that the recording has it, or which name is like this one."""
            record = getattr(type(self), "record", None)
            if name.startswith("_") or record is None or not hasattr(get_type_hints(record)["return"], name):
                unknown_attribute(self, name)
            raise UnknownNameError(
                f"A scenario has no {name}; its recording has.",
                remedy=f"record it first: scenario.record().{name}(...).",
            )

    def replace(self, **fields: Any) -> Self:
        """The same scenario with some fields changed.

        `rules="design"` replaces the rules, with the options that they set; `with_rules` keeps those.
        """
        return dataclasses.replace(self, **fields)  # type: ignore[type-var]

    def with_rules(self, base: str | None = None, **options: Any) -> Self:
        """The same scenario by another set of rules, `base`, or with other `options`; those that it sets stay set."""
        return self.replace(rules=dataclasses.replace(self.rules, **({"base": base} if base else {}), **options))

    @property
    def resolved(self) -> Self:
        """The scenario that runs: the same one, with its rules in effect."""
        filled = copy.copy(self)
        object.__setattr__(filled, "rules", self.rules.in_effect)
        return filled

    @property
    def options(self) -> dict[str, Any]:
        """The value in effect of every option of the rules, by name."""
        return self.rules.options  # type: ignore[no-any-return]

    def option_changes(self, to_rules: str) -> Iterator[tuple[str, RuleOption, Callable[[], Self] | None]]:
        """Each option that has another value in the set `to_rules`, and what makes the scenario with only that changed.

        It is None if the scenario sets the option itself, or has no part that the option is about.
        """
        parts = {base.__name__ for part in _parts_in(self) for base in part.__mro__}
        for name, said in self.rule_set.decided.items():
            is_left = getattr(self.rules, name) is None and not parts.isdisjoint(said.parts)
            if (after := said.values[to_rules]) != said.values[self.rules.base]:
                yield name, said, functools.partial(self.with_rules, **{name: after}) if is_left else None

    def followed_by_quiet(self, quiet_ms: int) -> Self:
        """The same scenario, extended by `quiet_ms` (ms) in which nothing new is sent."""
        return self.replace(duration_ms=self.duration_ms + quiet_ms)  # type: ignore[attr-defined]

    def estimate(self) -> Estimate:
        """An estimate of a run of the scenario, without running it."""
        return Estimate(self.name, tuple(self._costs()))

    def _costs(self) -> Iterable[Cost]:
        """What the fields of the scenario cost."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The scenario as dicts, lists and scalars; defaults are left out, a Python function is its name."""
        made: dict[str, Any] = dict(without_functions(plain(self)))  # type: ignore[call-overload]
        if made.get("rules", {}).keys() == {"base"}:
            made["rules"] = self.rules.base
        return made

    @property
    def settings(self) -> dict[str, Any]:
        """As `to_dict`, with every default, and every option as the rules have it."""
        return dict(without_functions(plain(self.resolved, defaults=True)))  # type: ignore[call-overload,no-any-return]

    def to_yaml(self) -> str:
        """The scenario as YAML text that `from_yaml` reads back; raises `ScenarioError` if it has Python functions."""
        self._require_text()
        return dump(self.to_dict())

    def to_python(self) -> str:
        """The scenario as Python code that makes an equal one, called `scenario`; raises as `to_yaml` does."""
        self._require_text()
        return f"import wmlab as wm\n\nscenario = {python_call(self, self.class_name)}\n"

    def class_name(self, made: type) -> str:
        """The public name of the class of the scenario, or of one of its parts."""
        if isinstance(self, made):
            return self._users_call_it
        beside = self._users_call_it.rpartition(".")[0]
        return f"{self._namespaces.get(made.__module__, beside)}.{made.__name__}"

    def _require_text(self) -> None:
        data = plain(self)
        if without_functions(data) != data:
            raise ScenarioError(
                "The scenario has a Python function, which no file can hold.", remedy="write it as an expression."
            )

    def save(self, path: str | Path) -> Path:
        """Write the scenario as a YAML file; returns its path."""
        return files.write(files.as_path(path, ScenarioError), self.to_yaml().encode(), ScenarioError)

    @classmethod
    def from_yaml(cls, text: str, *, source: str = "the YAML text") -> Self:
        """Read a scenario from YAML text; every mistake is reported with its location and line."""
        data, lines = parse_scenario(text, source)
        _require_kind(cls, data, source)
        try:
            return TypeAdapter(cls).validate_python(data)
        except ValidationError as error:
            mistakes = problems_of(error, data, cls)
            located = (dataclasses.replace(p, line=line_of(p.location, lines)) for p in mistakes)
            raise Problems(source, located) from None

    @classmethod
    def load(cls, source: str | Path) -> Self:
        """Read a scenario from a YAML file at a path, or by its name one of those that come with wmlab: see `names`.

        Raises `ScenarioError` for what cannot be read, and with every mistake, its location and line.
        """
        return cls.from_yaml(read_scenario_text(source), source=str(source))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The scenarios of this kind that come with wmlab, in alphabetical order; `load` takes each name."""
        first = f"\n{cls.only_field}:"
        files_by_name = bundled_scenarios().items()
        return tuple(sorted(name for name, file in files_by_name if first in file.read_text(encoding="utf-8")))


AnyScenario = TypeVar("AnyScenario", bound=ScenarioFile)


def scenarios_with(name: str, base: type[ScenarioFile] = ScenarioFile) -> bool:
    """Whether scenarios of some kind have an attribute of that name."""
    return hasattr(base, name) or any(scenarios_with(name, subclass) for subclass in base.__subclasses__())


def with_changes(scenario: AnyScenario, changes: Mapping[Location, object]) -> AnyScenario:
    """The scenario with these values at these paths; all its mistakes are raised as one `Problems`."""
    data: Any = plain(scenario)
    for path, new in changes.items():
        part = data
        for step in path[:-1]:
            part = part.setdefault(step, {}) if isinstance(part, dict) else part[step]
        part[path[-1]] = plain(new)
    try:
        return TypeAdapter(type(scenario)).validate_python(data)
    except ValidationError as error:
        raise Problems(f"scenario {scenario.name!r}", problems_of(error, data, type(scenario))) from None


def _contents(scenario: Any) -> tuple[Any, ...]:
    return tuple(getattr(scenario, field.name) for field in dataclasses.fields(scenario))


def _require_kind(cls: type, data: Mapping[str, object], source: str) -> None:
    """Refuse a file that is a scenario of another kind, and name that kind."""
    own = {field.name for field in dataclasses.fields(cls)}
    for field, kind in _KINDS.items():
        if field in data and field not in own:
            raise ScenarioError(
                f"{source} has {field!r}: it is a {kind}, not a {cls.__name__}.", remedy=f"load it with {kind}.load."
            )


def _parts_in(part: Any) -> Iterator[type]:
    """The class of a value and of every value in it."""
    if isinstance(part, tuple):
        for entry in part:
            yield from _parts_in(entry)
    elif dataclasses.is_dataclass(part):
        yield type(part)
        for field in fields_in_use(part):
            yield from _parts_in(getattr(part, field.name))
