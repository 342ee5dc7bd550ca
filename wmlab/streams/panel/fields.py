"""The form of a scenario: its parts, and the fields of each, made from the annotations of the values.

A field's kind, its choices and whether it may be empty come from the type of its class. A fault has all of its fields,
any other part those of `options`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from inspect import getdoc
from typing import Any, Final, Literal, get_args

from pydantic import TypeAdapter

from wmlab.core.mistakes import Location
from wmlab.core.rules import RuleSet
from wmlab.core.scenario_file import dump_fragment
from wmlab.core.scenario_words import (
    duration_in_words,
    fault_in_words,
    field_in_words,
    sentence_about,
    spaced,
    value_in_words,
)
from wmlab.core.values import plain, value_at
from wmlab.core.words import as_sentence
from wmlab.streams.scenario.noting import Noting
from wmlab.streams.scenario.options import OPTIONS, SECTIONS, WORDS, Option
from wmlab.streams.scenario.parts import EVERY, SERVICES, EventWriter, TransactionalWriter, controller_name
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.scenario.script import Action, AddReader

FieldKind = Literal["duration", "whole", "real", "flag", "choice", "text", "names", "yaml"]
_KINDS_OF_TYPES: Final[Mapping[str, FieldKind]] = {
    "integer": "whole",
    "number": "real",
    "boolean": "flag",
    "string": "text",
}
_SLIDERS: Final = {"by_ms": (-10_000, 10_000)}
"""From where to where the sliders of durations in faults go, if that is not 100 ms to the length of the run."""
_STEPS: Final = (Fraction(1), Fraction(3, 2), *map(Fraction, (2, 3, 4, 5, 7)))
"""The stops of a slider in each power of ten."""
_MOST_NAMES: Final = 100
"""So many readers of a group, or controllers, are offered by their names."""


def _kinds_in(union: Any) -> dict[str, type]:
    """The classes of a union of tagged values, by their kind."""
    classes = (made for family in get_args(get_args(union)[0]) for made in (get_args(family) or (family,)))
    return {next(str(f.default) for f in dataclasses.fields(made) if f.name == "kind"): made for made in classes}


WRITERS: Final[Mapping[str, type]] = {"event": EventWriter, "transactional": TransactionalWriter}
FAULTS: Final[Mapping[str, type]] = _kinds_in(Action)
"""The classes of whatever may happen, by their kind."""
NOTINGS: Final[Mapping[str, type]] = _kinds_in(Noting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of the form: where its value is in the scenario, what it is called, and what may stand in it.

    The path of the kind of a fault, a writer or a noting policy ends with "kind". `help_below`: the help changes with
    the value, so it stands below it.
    `choices` are the values that it may have, each with its words, where there are no others; `stops` those of its
    slider, ascending. An `optional` field may be empty, which is None and means `empty`.
    """

    path: Location
    label: str
    help: str
    kind: FieldKind
    value: Any
    optional: bool = False
    empty: str = ""
    choices: tuple[tuple[str, Any], ...] = ()
    stops: tuple[Any, ...] = ()
    help_below: bool = False

    @property
    def text(self) -> str:
        """The value as one types it."""
        return self.text_of(self.value)

    def text_of(self, content: Any) -> str:
        """A value of the field as one types it; None is empty."""
        match self.kind if content is not None else "empty":
            case "empty":
                return ""
            case "duration":
                return duration_in_words(content)
            case "names":
                return ", ".join(content)
            case "yaml":
                return dump_fragment(plain(content), one_line=True)
            case "real":
                return f"{content:g}" if float(f"{content:g}") == content else repr(content)
        return str(content)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a scenario: where it is, what it is, and what it is called."""

    path: Location
    value: Any
    title: str


def parts_of(scenario: StreamScenario, section: str) -> tuple[Part, ...]:
    """The parts of a section of `SECTIONS`, in their order."""
    name = SECTIONS[section]
    if not name:
        return (Part((), scenario, "run"),)
    if name == "stream" and scenario.streams:
        name = "streams"
    held = getattr(scenario, name)
    if held is None:
        return ()
    if not isinstance(held, tuple):
        return (Part((name,), held, str(getattr(held, "name", name))),)
    titles = [fault_in_words(entry, WORDS) if name == "script" else str(entry.name) for entry in held]
    return tuple(Part((name, index), held[index], title) for index, title in enumerate(titles))


def fields_of(scenario: StreamScenario, part: Part) -> tuple[Field, ...]:
    """The fields of a part: the options that are offered of it; of a fault all that it has."""
    made = type(part.value)
    if part.path[:1] == ("script",):
        first = Field(
            path=(*part.path, "kind"),
            label="What happens",
            help=_first_paragraph(made),
            kind="choice",
            value=part.value.kind,
            choices=tuple((field_in_words(kind).capitalize(), kind) for kind in FAULTS),
            help_below=True,
        )
        names = [field.name for field in dataclasses.fields(made) if field.name != "kind"]
        sliders = {name: (100, scenario.duration_ms) for name in names if name.endswith("_ms")} | _SLIDERS
        offered = [Option(name, field_in_words(name).capitalize(), sliders.get(name)) for name in names]
        return (first, *(field for option in offered for field in _fields(scenario, part, option)))
    offered = list(next(options for owner, options in OPTIONS.items() if isinstance(part.value, owner)))
    if isinstance(part.value, RuleSet):
        for name, said in part.value.decided.items():
            by_the_rules = f"{value_in_words(name, said.values[part.value.base], WORDS)}, by the rules"
            offered.append(Option(name, field_in_words(name).capitalize(), empty=by_the_rules))
    fields = tuple(field for option in offered for field in _fields(scenario, part, option))
    if part.path[:1] == ("writers",):
        kinds = tuple((kind, kind) for kind in WRITERS)
        kind = getattr(part.value, "kind", "event")
        first = Field(
            path=(*part.path, "kind"),
            label="Writes",
            help="A writer of events, or of events in transactions.",
            kind="choice",
            value=kind,
            choices=kinds,
        )
        return (first, *fields)
    return fields


def names_of(scenario: StreamScenario) -> Mapping[str, tuple[str, ...]]:
    """The names that a field of this name may hold, of a fault."""
    writers = tuple(writer.name for writer in scenario.writers)
    added = tuple(action.reader for action in scenario.script if isinstance(action, AddReader))
    readers = (*(name for group in scenario.groups for name in group.reader_names()[:_MOST_NAMES]), *added)
    controllers = tuple(map(controller_name, range(min(scenario.controllers.count, _MOST_NAMES))))
    nodes = (*writers, *readers, *controllers, *SERVICES, *EVERY)
    return {
        "writer": writers,
        "reader": readers,
        "controller": ("leader", "committer", "distributor", *controllers),
        "party": (*writers, *controllers),
        "a": nodes,
        "b": nodes,
        "stream": tuple(stream.name for stream in scenario.all_streams),
        "group": tuple(group.name for group in scenario.groups),
    }


def _first_paragraph(made: type) -> str:
    """The first paragraph of the docstring of a class."""
    return _in_form(made, " ".join((getdoc(made) or "").partition("\n\n")[0].split()))


def _help(made: type, name: str) -> str:
    """What an option does: what the rules say of it, or else the docstring of its class, or that of other writers."""
    if issubclass(made, RuleSet) and name in made.decided:
        return as_sentence(made.decided[name].meaning)
    said = re.sub(rf"^`{name}`(:| is)? ", "", sentence_about(name, (*made.__mro__, EventWriter)))
    return as_sentence(_in_form(made, said.rstrip(":;")))


def _in_form(made: type, text: str) -> str:
    """A text of a docstring, in which the fields of its class are called as the form calls them."""
    for field in dataclasses.fields(made):
        text = text.replace(f"`{field.name}`", f"“{field_in_words(field.name).capitalize()}”")
    return text.replace("`", "")


def _fields(scenario: StreamScenario, part: Part, option: Option) -> Iterator[Field]:
    """The field of an option; of a tagged value, as a noting policy, its kind and the fields of that kind."""
    *inner, name = option.field.split(".")
    path = (*part.path, *inner)
    owner: Any = value_at(scenario, path)
    made: type = owner.__class__
    value = getattr(owner, name)
    annotated = _annotation(made, name)
    is_fault = part.path[:1] == ("script",)
    about = "" if is_fault else _help(made, name)  # what a fault does stands at its kind
    common: dict[str, Any] = {"path": (*path, name), "label": option.label, "help": about, "value": value}
    if annotated.kind == "tagged":
        kinds = tuple((spaced(kind), kind) for kind in NOTINGS)
        first = {
            "path": (*path, name, "kind"),
            "value": value.kind,
            "help": _first_paragraph(type(value)),
            "help_below": True,
        }
        yield Field(**common | first, kind="choice", choices=kinds)
        tagged = Part((*path, name), value, "")
        for field in dataclasses.fields(value):
            if field.name != "kind":
                yield from _fields(scenario, tagged, Option(field.name, field_in_words(field.name).capitalize()))
        return
    empty = option.empty or WORDS.empty.get(name, "none") if annotated.optional else ""
    choices = annotated.choices
    if names := names_of(scenario).get(name, ()) if annotated.kind == "text" and is_fault else ():
        choices = tuple((entry, entry) for entry in dict.fromkeys((*names, *([value] if value else []))))
    if choices and annotated.optional:
        choices = ((empty, None), *choices)
    if name == "at_ms":
        stops = _moments(scenario.duration_ms, value)
    elif option.slider is not None:
        stops = _stops(annotated.kind, *option.slider, value, annotated.optional)
    else:
        stops = ()
    kind: FieldKind = "choice" if choices else annotated.kind
    yield Field(**common, kind=kind, optional=annotated.optional, empty=empty, choices=choices, stops=stops)


@dataclass(frozen=True, slots=True)
class _Annotation:
    """What the annotation of a field says: its kind, whether it may be None, and its choices if it has a few."""

    kind: Any
    optional: bool
    choices: tuple[tuple[str, Any], ...]


@cache
def _annotation(made: type, name: str) -> _Annotation:
    schema = TypeAdapter(made).json_schema()
    described, defined = schema["properties"][name], schema.get("$defs", {})
    forms = [defined.get(form.get("$ref", "").rpartition("/")[2], form) for form in described.get("anyOf", [described])]
    known = [form for form in forms if form.get("type") != "null"]
    rules = known[0] if len(known) == 1 else {}
    # A flag that may also be unset is a choice of three.
    unset_or = (True, False) if rules.get("type") == "boolean" and len(known) < len(forms) else ()
    choices = tuple((value_in_words(name, choice, WORDS), choice) for choice in rules.get("enum", unset_or))
    kind = _KINDS_OF_TYPES.get(rules.get("type", ""), "yaml")
    if rules.get("type") == "array" and rules.get("items", {}).get("type") == "string":
        kind = "names"
    if name.endswith("_ms") and kind in ("whole", "real"):
        kind = "duration"
    return _Annotation("tagged" if "discriminator" in described else kind, len(known) < len(forms), choices)


def _stops(kind: FieldKind, low: float, high: float, value: Any, optional: bool) -> tuple[Any, ...]:
    """The stops of a slider: all whole numbers if they are few, else some in each power of ten; and the value."""
    if kind == "whole" and high - low <= 20:
        stops: set[float] = set(range(int(low), int(high) + 1))
    else:
        steps = (sign * step * Fraction(10) ** power for power in range(-2, 6) for step in _STEPS for sign in (1, -1))
        near = {step for step in steps if abs(step) * 1_000 >= high and low <= step <= high} | {Fraction(0)}
        stops = {int(step) if step.denominator == 1 else float(step) for step in near if low <= step}
        stops = stops if kind == "real" else {stop for stop in stops if isinstance(stop, int)}
    if value is not None:
        stops = (stops - {value}) | {value}  # in the words in which it was given
    return (*sorted(stops), *([None] if optional else []))


def _moments(duration_ms: int, value: int) -> tuple[int, ...]:
    """The stops of a slider over a run: at most a hundred moments at even distances, and the value."""
    sizes = (int(step * 10**power) for power in range(18) for step in (1, 2, 5))
    step_ms = next(size for size in sizes if size * 100 >= duration_ms)
    return tuple(sorted(({*range(0, duration_ms + 1, step_ms)} - {value}) | {value}))
