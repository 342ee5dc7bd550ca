"""Mistakes in values: where they are, what pydantic or a value itself says of them, and what was given.

One field has one mistake, whatever the branches of a union say of it: all that could be given stands in one sentence.
"""

from __future__ import annotations

import dataclasses
import itertools
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from wmlab.core.durations import GivenDuration
from wmlab.core.errors import ScenarioError, complaint, did_you_mean, shown_as_data
from wmlab.core.words import counted, exactly

_MOST_PARTS: Final = 12
RULE_SETS: Final[list[Any]] = []
"""The classes of rules; each registers itself."""
Location = tuple[str | int, ...]
"""The fields and indices that lead to a value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a scenario: where it is, what is wrong, and the offending value."""

    location: Location
    message: str
    line: int | None = None

    @property
    def path(self) -> str:
        """The location as one writes it in Python: `writers[1].rate_per_s`."""
        text = ""
        for step in self.location:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text or "scenario"

    def __str__(self) -> str:
        at = f" (line {self.line})" if self.line is not None else ""
        return f"{self.path}{at}: {self.message}"


class Problems(ScenarioError):
    """A scenario with mistakes: all of them, in the order of the scenario."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        listing = "\n".join(f"  {problem}" for problem in self.problems)
        count = counted(len(self.problems), "mistake")
        super().__init__(f"{name} has {count}:\n{listing}", remedy="correct the named fields; nothing was run.")

    def __reduce__(self) -> tuple[type[Problems], tuple[str, tuple[Problem, ...]]]:
        # Raised again in another process it is made from its problems, not from its message.
        return type(self), (self.name, self.problems)

    def under(self, location: Location) -> tuple[Problem, ...]:
        """The problems seen from an enclosing value."""
        return tuple(dataclasses.replace(p, location=(*location, *p.location)) for p in self.problems)


def unknown(location: Location, what: str, named: str | None, names: Iterable[str]) -> Iterator[Problem]:
    """The problem of a name that nothing has; None names nothing."""
    known = list(names)
    if named is not None and named not in known:
        yield Problem(location, f"no {what} is called {named!r}; there are: {', '.join(known) or 'none'}")


def after_the_end(location: Location, at_ms: int, duration_ms: int) -> Iterator[Problem]:
    """The problem of a time in a run, in ms from its start, that the run does not reach."""
    if at_ms >= duration_ms:
        yield Problem(location, f"lies at or after the end of the run, {exactly(duration_ms)} (got {exactly(at_ms)})")


def problems_of(error: ValidationError, offered: object, made: object = None) -> tuple[Problem, ...]:
    """The problems pydantic found in the plain data `offered`, one for each field, those of nested `Problems` unfolded.

    `made` is the class that was to be made of it, which says what there could be.
    """
    lines: dict[Location, list[Any]] = {}
    problems: dict[Location, tuple[Problem, ...]] = {}
    for line in error.errors(include_url=False):
        location = _fields(line["loc"], offered, is_missing=line["type"].startswith("missing"))
        nested = line.get("ctx", {}).get("error")
        if isinstance(nested, Problems):
            problems[location] = nested.under(location)
        # A sequence whose entries were refused counts as empty, too.
        elif line["type"] != "too_short" or not any(known[: len(location)] == location for known in problems):
            lines.setdefault(location, []).append(line)
            problems[location] = (Problem(location, _message(lines[location], location, offered, made)),)
    return tuple(itertools.chain.from_iterable(problems.values()))


def _message(lines: list[Any], location: Location, offered: object, made: object) -> str:
    """What is wrong with one field: with one that is not there, the one that is like it."""
    kind = lines[0]["type"]
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        parts = _parts_at(made, location[:-1], offered)
        if hint := _hint_at_rules(str(location[-1]), lines[0]["input"], parts):
            return hint
        fields = [field.name for part in parts for field in dataclasses.fields(part)]
        return "no such field" + did_you_mean(str(location[-1]), dict.fromkeys(fields))
    if kind in ("model_attributes_type", "union_tag_not_found"):
        names = [part.__name__ for part in _parts_at(made, location, None)]
        names = names if len(names) <= _MOST_PARTS else [*names[:_MOST_PARTS], f"{len(names) - _MOST_PARTS} more"]
        return (
            f"input should be {' or '.join(names)}, in a file with its 'kind' (got {shown_as_data(lines[0]['input'])})"
        )
    given = _given_at(location, offered)
    return complaint([line | {"input": given} for line in lines] if isinstance(given, str) else lines)


def _hint_at_rules(name: str, given: object, parts: Iterable[type]) -> str | None:
    """Where an option of the rules belongs that was given to a part; None: it is none, or was given to rules."""
    models = [part.__module__.split(".")[:2] for part in parts]
    for rules in [made for made in RULE_SETS if made.__module__.split(".")[:2] in models and made not in parts]:
        if name in rules.formerly:
            return f"no such field; give the scenario {rules.formerly[name]}"
        if name in {field.name for field in dataclasses.fields(rules)} - {"base"}:
            code, file = f"rules={rules.users_call_it}({name}={given!r})", f"{name}: {shown_as_data(given)}"
            return f"is an option of the rules; give the scenario {code}, in a file rules: {{{file}}}"
    return None


def _given_at(location: Location, offered: object) -> object:
    """What was given at a location, before a text such as "20 s" became a number; None where nothing is."""
    for step in location:
        if dataclasses.is_dataclass(offered) and isinstance(step, str):
            offered = getattr(offered, step, None)
        elif isinstance(offered, Mapping):
            offered = offered.get(step)
        elif isinstance(offered, list | tuple) and isinstance(step, int) and step < len(offered):
            offered = offered[step]
        else:
            return None
    return offered.given if isinstance(offered, GivenDuration) else offered


def branch(name: str) -> str:
    """The tag of one branch of a union that a function chooses from; no field can be called so."""
    return f"<{name}>"


def _fields(steps: Location, offered: object, *, is_missing: bool) -> Location:
    """A pydantic location without the steps that name no field, but the branch of a union or a kind of key.

    The last step of a value that is missing is a field that nobody has given. A value of a class is looked at like
    the mapping of its fields.
    """
    location: list[str | int] = []
    for number, step in enumerate(steps):
        if dataclasses.is_dataclass(offered) and not isinstance(offered, type):
            offered = {field.name: getattr(offered, field.name) for field in dataclasses.fields(offered)}
        is_field = isinstance(step, int) or (isinstance(offered, Mapping) and step in offered)
        if not is_field and not (is_missing and number == len(steps) - 1):
            continue
        location.append(step)
        if isinstance(offered, Mapping):
            offered = offered.get(step)
        elif isinstance(offered, list | tuple) and isinstance(step, int) and step < len(offered):
            offered = offered[step]
    return tuple(location)


def _parts_at(made: object, location: Location, offered: object) -> list[type]:
    """The classes of values that may be at a location in a value of class `made`.

    Of several, those of the kind that `offered`, the data of that value, names there.
    """
    hints: list[Any] = [made]
    for step in location:
        if isinstance(step, int):
            hints = [entry for hint in hints for entry in typing.get_args(hint) if entry is not ...]
        else:
            fields = [typing.get_type_hints(hint) for hint in hints if dataclasses.is_dataclass(hint)]
            hints = [of_part[step] for of_part in fields if step in of_part]
        hints = [choice for hint in hints for choice in _choices(hint)]
        if isinstance(offered, Mapping):
            offered = offered.get(step)
        elif isinstance(offered, list | tuple) and isinstance(step, int):
            offered = offered[step]
    parts = [hint for hint in hints if isinstance(hint, type) and dataclasses.is_dataclass(hint)]
    kind = offered.get("kind") if isinstance(offered, Mapping) else None
    return [part for part in parts if getattr(part, "kind", kind) == kind] or parts


def _choices(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
