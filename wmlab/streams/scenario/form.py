"""A scenario as a form: its parts and their fields, and a draft of it that may have mistakes.

What has no simple control (a noting policy, a list) is a piece of YAML. Everything about a field comes from the class
of its value: its kind and bounds from its type, what it is for from the docstring. A draft is checked as a whole, by
the same rules as a file.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, replace
from functools import cache, cached_property
from itertools import count
from typing import Any, Final, Generic, Literal, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from wmlab.core.durations import GivenDuration
from wmlab.core.errors import ScenarioError
from wmlab.core.field_help import first_sentence, help_of
from wmlab.core.scenario_file import dump_fragment, parse_fragment
from wmlab.core.values import Problem, Problems, Rules, in_words, options_of, plain, problems_of
from wmlab.core.words import span
from wmlab.streams.scenario.checks import segment_to_seal
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import (
    EVERY,
    SERVICES,
    Controllers,
    EventWriter,
    ReaderGroup,
    Stream,
    TransactionalWriter,
    controller_name,
)
from wmlab.streams.scenario.scenario import RULE_TABLE, StreamScenario
from wmlab.streams.scenario.script import Action

FieldKind = Literal["whole", "real", "flag", "choice", "text", "yaml"]
FieldPath = tuple[str | int, ...]
AnyScenario = TypeVar("AnyScenario", bound=StreamScenario)

_UNITS: Final = {"_ms": "ms", "_bytes": "bytes", "_per_s": "per s"}
_KINDS: Final[Mapping[str, FieldKind]] = {"integer": "whole", "number": "real", "boolean": "flag", "string": "text"}
_PARTS: Final = ("stream", "streams", "writers", "readers", "controllers", "network", "script")
_OF_PARTS: Final[Mapping[str, type]] = {
    "stream": Stream,
    "streams": Stream,
    "readers": ReaderGroup,
    "controllers": Controllers,
    "network": Network,
}
_MOST_NAMES: Final = 100
"""So many readers of a group, or controllers, are offered by their names."""
_WRITERS: Final[Mapping[str, type]] = {"event": EventWriter, "transactional": TransactionalWriter}
_ACTS: Final[Mapping[str, type]] = {
    next(str(field.default) for field in dataclasses.fields(act) if field.name == "kind"): act
    for family in get_args(get_args(Action)[0])
    for act in (get_args(family) or (family,))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field: where it is, how it is called, what it holds, what may stand in it, and what it is for.

    `unit` is "" for plain numbers and texts. `low` and `high` bound a number, inclusive; None is no bound. `optional`
    fields may be empty, which is None. A value of kind `yaml` is text. `text` is what stands in the field: as it was
    typed, or else the value. `names` are those that may be meant, of writers, readers and so on.
    """

    path: FieldPath
    label: str
    unit: str
    kind: FieldKind
    value: Any
    help: str
    text: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPart:
    """A part of a scenario: where it is, its class, what it is called, what it is, its fields, and if it can go."""

    path: FieldPath
    made: type
    title: str
    help: str
    fields: tuple[FormField, ...]
    removable: bool


def kinds_of_parts() -> dict[str, dict[str, str]]:
    """What can be added: by `writers` and `script` the kinds, each with a sentence about it."""
    parts = {"writers": _WRITERS, "script": _ACTS}
    return {name: {kind: first_sentence(part) for kind, part in kinds.items()} for name, kinds in parts.items()}


def fields_of(scenario: StreamScenario) -> tuple[FormField, ...]:
    """All fields of a scenario, part by part: the run, its streams, writers, readers, controllers, network, script.

    Options that the rules decide on show what is in effect.
    """
    return tuple(Draft.of(scenario).fields.values())


def with_changes(scenario: AnyScenario, changes: Mapping[FieldPath, Any]) -> AnyScenario:
    """The scenario with the values at these paths; all its mistakes are raised as one `Problems`."""
    draft = shown = Draft.of(scenario)
    for path, new in changes.items():
        field = shown.fields.get(path)
        # An option left as it was stays with the rules, also if these change.
        if field is None or (type(field.value), field.value) != (type(new), new):
            draft = draft.changed(path, new)
    return draft.scenario()


class _NotYaml(str):
    """A text that was typed where YAML is wanted, and is none; `complaint` says why."""

    __slots__ = ("complaint",)
    complaint: str


@dataclass(frozen=True)
class Draft(Generic[AnyScenario]):
    """A scenario in the making: plain data, which may have mistakes, and what was typed, by field.

    A value; each change makes another draft.
    """

    made: type[AnyScenario]
    data: Mapping[str, Any]
    typed: Mapping[FieldPath, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, scenario: AnyScenario) -> Draft[AnyScenario]:
        """The draft that is the scenario as it is."""
        return cls(type(scenario), scenario.to_dict())

    def scenario(self) -> AnyScenario:
        """The scenario that the draft is; all its mistakes are raised as one `Problems`."""
        refused = {path: text.complaint for path, text in _texts(self.data) if isinstance(text, _NotYaml)}
        problems = [Problem(path, complaint) for path, complaint in refused.items()]
        try:
            scenario = TypeAdapter(self.made).validate_python(self.data)
        except ValidationError as error:
            others = problems_of(error, self.data, self.made)
            problems += [other for other in others if not any(other.location[: len(path)] == path for path in refused)]
        if problems:
            raise Problems(f"scenario {self.data.get('name')!r}", problems)
        return scenario

    @cached_property
    def fields(self) -> Mapping[FieldPath, FormField]:
        """All fields, by path."""
        return {field.path: field for part in self.parts for field in part.fields}

    @cached_property
    def parts(self) -> tuple[FormPart, ...]:
        """All parts, in the order of the fields of a scenario; the run itself comes first."""
        alone = len(self.data["writers"]) < 2
        return tuple(
            FormPart(
                path=path,
                made=part,
                title=self._title(path, raw),
                help=first_sentence(part),
                fields=tuple(self._fields(part, path, raw)),
                removable=path[:1] == ("script",) or (path[:1] == ("writers",) and not alone),
            )
            for path, part, raw in self._parts()
        )

    def changed(self, path: FieldPath, offered: Any) -> Draft[AnyScenario]:
        """The draft with something else in a field: a text as it is typed, or a value.

        An option that is left as it was stays with the rules.
        """
        field = self.fields.get(path)
        typed = {**self.typed, path: offered} if isinstance(offered, str) else self.typed
        content = offered if field is None else _read(field, offered)
        if field is not None and (type(content), content) == (type(field.value), field.value):
            return replace(self, typed=typed)
        if field is not None and field.kind == "yaml" and isinstance(content, str):
            content = _parsed(content)
        data = copy.deepcopy(dict(self.data))
        part: Any = data
        for step in path[:-1]:
            part = part.setdefault(step, {}) if isinstance(part, dict) else part[step]
        part[path[-1]] = content
        return replace(self, data=data, typed=typed)

    def with_part(self, name: Literal["writers", "script"], kind: str) -> Draft[AnyScenario]:
        """The draft with one more writer, or one more act, of a kind; what it requires is filled in.

        Raises `ScenarioError` for a kind that there is not.
        """
        kinds = _WRITERS if name == "writers" else _ACTS
        if kind not in kinds:
            raise ScenarioError(f"There is no kind {kind!r} of {name}.", remedy=f"choose one of: {', '.join(kinds)}.")
        raw: dict[str, Any] = {} if kind == "event" else {"kind": kind}
        raw |= {
            field.name: self._first(kind, field.name)
            for field in dataclasses.fields(kinds[kind])
            if _is_required(field)
        }
        if name == "writers":
            raw["rate_per_s"] = 10.0
        data = copy.deepcopy(dict(self.data))
        data[name] = [*data.get(name, ()), raw]
        return replace(self, data=data)

    def without(self, path: FieldPath) -> Draft[AnyScenario]:
        """The draft without the writer or the act at `path`, for example ("script", 0)."""
        name, index = str(path[0]), path[1]
        data = copy.deepcopy(dict(self.data))
        data[name] = [entry for n, entry in enumerate(data[name]) if n != index]
        # What was typed into the entries after it would stand at other fields.
        return replace(self, data=data, typed={at: text for at, text in self.typed.items() if at[0] != name})

    def _parts(self) -> Iterator[tuple[FieldPath, type, Mapping[str, Any]]]:
        """Each part of the data: where it is, its class, and what is said of it."""
        yield (), self.made, self.data
        for name in _PARTS:
            raw = self.data.get(name)
            if name == "stream" and self.data.get("streams"):
                continue
            if isinstance(raw, list | tuple):
                yield from (((name, index), _class_of(name, entry), entry) for index, entry in enumerate(raw))
            elif raw is not None or name in ("stream", "controllers", "network"):
                yield (name,), _class_of(name, raw), raw or {}

    def _title(self, path: FieldPath, raw: Mapping[str, Any]) -> str:
        if not path:
            return "run"
        if path[0] == "script":
            subject = next((str(raw[name]) for name in ("writer", "reader", "controller", "party") if name in raw), "")
            at_ms = raw.get("at_ms")
            moment = f"at {span(at_ms)}" if isinstance(at_ms, int) else ""
            return " ".join(filter(None, (str(raw["kind"]).replace("_", " "), subject, moment)))
        noun = {"writers": "writer", "streams": "stream", "readers": "readers"}.get(str(path[0]), str(path[0]))
        return f"{noun} {raw.get('name', '')}" if len(path) > 1 else noun

    def _fields(self, part: type, path: FieldPath, raw: Mapping[str, Any]) -> Iterator[FormField]:
        rules = self.data.get("rules", "sound")
        options = options_of(part, RULE_TABLE)
        for field in dataclasses.fields(part):
            name = field.name
            if name == "kind" or (not path and name in _PARTS):
                continue
            if name in raw and not (raw[name] is None and name in options):
                content = raw[name]
            elif name in options:
                content = options[name][get_args(Rules).index(rules if rules in get_args(Rules) else "sound")]
            else:
                content = _default(field)
            described = _described(part, name)
            is_data = described.kind == "yaml" and not isinstance(content, _NotYaml)
            shown = dump_fragment(plain(content), one_line=True) if is_data else content
            at = (*path, name)
            text = "" if content is None and described.optional else _as_text(shown)
            yield replace(
                described,
                path=at,
                value=shown,
                text=self.typed.get(at, text),
                optional=described.optional and name not in options,
                names=self._names.get(name, ()) if described.kind == "text" else (),
            )

    @cached_property
    def _names(self) -> Mapping[str, tuple[str, ...]]:
        """The names that a field of this name may hold."""
        groups = [raw for path, part, raw in self._parts() if part is ReaderGroup]
        streams = tuple(str(raw.get("name", "stream")) for _, part, raw in self._parts() if part is Stream)
        writers = tuple(str(entry.get("name", "")) for entry in self.data["writers"])
        group_names = tuple(str(raw.get("name", "readers")) for raw in groups)
        counts = [raw.get("readers", 1) for raw in groups]
        readers = tuple(
            f"{name}-{n}"
            for name, most in zip(group_names, counts, strict=True)
            for n in range(min(_whole(most), _MOST_NAMES))
        )
        controllers = tuple(
            map(controller_name, range(min(_whole(self.data.get("controllers", {}).get("count", 1)), _MOST_NAMES)))
        )
        nodes = (*writers, *readers, *controllers, *SERVICES, *EVERY)
        return {
            "writer": writers,
            "reader": readers,
            "controller": ("leader", "committer", "distributor", *controllers),
            "party": (*writers, *controllers),
            "a": nodes,
            "b": nodes,
            "stream": streams,
            "group": group_names,
        }

    def _first(self, kind: str, name: str) -> Any:
        """What a required field of a new part of a kind begins with."""
        if name in ("name", "reader", "writer", "controller"):
            return self._first_name(kind, name)
        length_ms = _whole(self.data.get("duration_ms", 0)) or 60_000
        names = self._names.get(name, ())
        match name:
            case "at_ms":
                return length_ms // 2
            case "for_ms" | "hold_ms":
                return max(1, length_ms // 4)
            case "by_ms":
                return 5_000
            case "time":
                return _whole(self.data.get("start_ms", 0)) + length_ms // 2
            case "b":
                return "controllers"
            case "seal" | "segment":
                segment = self._segment(length_ms // 2)
                return [segment] if name == "seal" else segment
        return names[0] if names else ""

    def _first_name(self, kind: str, name: str) -> str:
        """The name that such a field begins with: a new one for what is new, else one that is there."""
        names, acts = self._names.get(name, ()), self.data.get("script", ())
        if name == "name":
            stem = "w" if kind in _WRITERS else f"{kind.replace('_', '-')}-"
            taken = {entry.get("name") for entry in (*self.data["writers"], *acts)}
            return next(new for n in count(1) if (new := f"{stem}{n}") not in taken)
        if kind == "add_reader":
            group = next(iter(self._names["group"]), "readers")
            taken = {*names, *(entry.get("reader") for entry in acts)}
            return next(new for n in count() if (new := f"{group}-{n}") not in taken)
        if kind.endswith("_transaction"):
            with_them = (entry["name"] for entry in self.data["writers"] if entry.get("kind") == "transactional")
            return next(with_them, names[0])
        return (names[-1] if name == "controller" else names[0]) if names else ""

    def _segment(self, at_ms: int) -> str:
        try:
            return segment_to_seal(self.scenario(), at_ms) or "0@0"
        except Problems:
            return "0@0"


def _class_of(name: str, raw: Any) -> type:
    kind = raw.get("kind", "event") if isinstance(raw, Mapping) else "event"
    return {"writers": _WRITERS, "script": _ACTS}.get(name, {kind: _OF_PARTS.get(name, Stream)})[kind]


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return None if field.default_factory is MISSING else field.default_factory()


def _whole(offered: Any) -> int:
    """A number, if it is one that something can be counted with."""
    return offered if isinstance(offered, int) and offered >= 0 else 0


def _as_text(content: Any) -> str:
    if isinstance(content, GivenDuration):
        return content.given
    if isinstance(content, bool):
        return "true" if content else "false"
    return "" if content is None else f"{content:g}" if _is_short(content) else str(content)


def _is_short(content: Any) -> bool:
    """Whether it is a fraction that is written as a whole number without losing anything."""
    return isinstance(content, float) and float(f"{content:g}") == content


def _read(field: FormField, offered: Any) -> Any:
    """What a text means in a field: an empty optional one is None, and a number that is none stays a text."""
    if not isinstance(offered, str):
        return offered
    text = offered.strip()
    if field.optional and not text:
        return None if field.kind != "yaml" else "null"
    if field.kind == "flag" and text in ("true", "false"):
        return text == "true"
    # Digits may be written in groups.
    digits = text.replace(",", "").replace(" ", "").replace("\N{NO-BREAK SPACE}", "")
    for read in (int, float) if field.kind == "real" else (int,) if field.kind == "whole" else ():
        try:
            return read(digits)
        except ValueError:
            continue
    return offered


def _parsed(text: str) -> Any:
    try:
        return parse_fragment(text)
    except ScenarioError as wrong:
        refused = _NotYaml(text)
        refused.complaint = in_words(wrong)
        return refused


def _texts(data: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Every text in plain data, with where it is."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, Mapping):
        for name, entry in data.items():
            yield from _texts(entry, (*path, name))
    elif isinstance(data, list | tuple):
        for index, entry in enumerate(data):
            yield from _texts(entry, (*path, index))


@cache
def _schema(part: type) -> dict[str, Any]:
    return TypeAdapter(part).json_schema()


@cache
def _described(part: type, name: str) -> FormField:
    """A field as its class has it, without what it holds."""
    schema = _schema(part)
    described, defined = schema["properties"][name], schema.get("$defs", {})
    forms = [defined.get(form.get("$ref", "").rpartition("/")[2], form) for form in described.get("anyOf", [described])]
    known = [form for form in forms if form.get("type") != "null"]
    rules = known[0] if len(known) == 1 else {}
    kind: FieldKind = "choice" if "enum" in rules else _KINDS.get(rules.get("type", ""), "yaml")
    ending, unit = next(((end, unit) for end, unit in _UNITS.items() if name.endswith(end)), ("", ""))
    return FormField(
        path=(name,),
        label=name.removesuffix(ending).replace("_", " "),
        unit=unit,
        kind=kind,
        value=None,
        help=help_of(part, name),
        low=_bound(rules, "minimum", int(kind == "whole")),
        high=_bound(rules, "maximum", -int(kind == "whole")),
        choices=tuple(rules.get("enum", ())),
        optional=len(known) < len(forms),
    )


def _bound(rules: Mapping[str, Any], name: str, step: int) -> float | None:
    """A bound as an inclusive one; an exclusive bound of a real number is kept as it is and checked later."""
    exclusive = rules.get(f"exclusive{name.capitalize()}")
    bound: float | None = rules.get(name, None if exclusive is None else exclusive + step)
    return bound
