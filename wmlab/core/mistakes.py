"""Mistakes in values: what they are, and how those that pydantic finds are said in words of wmlab's own.

One field has one mistake, whatever the branches of a union had to say of it: all that could be given stands in one
list.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from wmlab.core.errors import ScenarioError, WmlabError
from wmlab.core.words import counted, shown

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


def in_words(error: WmlabError) -> str:
    """An error as the message of a problem: what was wrong, and what to do."""
    return f"{error.problem.removesuffix('.')}; {error.remedy[:1].lower()}{error.remedy[1:].removesuffix('.')}"


def unknown(location: Location, what: str, named: str | None, names: Iterable[str]) -> Iterator[Problem]:
    """The problem of a name that nothing has; None names nothing."""
    known = list(names)
    if named is not None and named not in known:
        yield Problem(location, f"no {what} is called {named!r}; there are: {', '.join(known) or 'none'}")


def problems_of(error: ValidationError, offered: object, made: object = None) -> tuple[Problem, ...]:
    """The problems pydantic found in the plain data `offered`, those of nested `Problems` unfolded.

    `made` is the class that was to be made of it; its fields say which parts there could be.
    """
    entries: dict[Location, list[dict[str, Any]]] = {}
    problems: list[Problem | Location] = []
    for line in error.errors(include_url=False):
        location = _fields(line["loc"], offered, is_missing=line["type"] in _MISSING)
        nested = line.get("ctx", {}).get("error")
        if isinstance(nested, Problems):
            problems.extend(nested.under(location))
        elif line["type"] != "too_short" or not any(_location(p)[: len(location)] == location for p in problems):
            # A sequence whose items were refused counts as empty too; that would only be noise.
            if location not in entries:
                problems.append(location)
            entries.setdefault(location, []).append(dict(line))
    return tuple(
        problem if isinstance(problem, Problem) else Problem(problem, _sentence(entries[problem], made, problem))
        for problem in problems
    )


def _location(problem: Problem | Location) -> Location:
    return problem.location if isinstance(problem, Problem) else problem


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


def _parts_at(made: object, location: Location) -> list[str]:
    """The names of the classes of values that may stand at a location in a value of class `made`."""
    hints = [made]
    for step in location:
        if isinstance(step, int):
            hints = [entry for hint in hints for entry in typing.get_args(hint) if entry is not ...]
        else:
            hints = [_hints(hint)[step] for hint in hints if step in _hints(hint)]
        hints = [choice for hint in hints for choice in _choices(hint)]
    return [hint.__name__ for hint in hints if dataclasses.is_dataclass(hint) and isinstance(hint, type)]


def _choices(hint: object) -> tuple[object, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


@functools.cache
def _hints(made: object) -> dict[str, Any]:
    return typing.get_type_hints(made) if isinstance(made, type) and dataclasses.is_dataclass(made) else {}


_MISSING: Final = ("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument")
_NO_FIELD: Final = "no such field"
_REQUIRED: Final = "is required"
_ALONE: Final = {
    "extra_forbidden": _NO_FIELD,
    "unexpected_keyword_argument": _NO_FIELD,
    "missing": _REQUIRED,
    "missing_argument": _REQUIRED,
    "missing_keyword_only_argument": _REQUIRED,
    "missing_positional_only_argument": _REQUIRED,
    "union_tag_not_found": "needs 'kind' to say what it is",
    "multiple_argument_values": "is given twice, by its place and by its name",
}
"""Mistakes, by pydantic's name, of which the location says all."""
_REMEDIES: Final = {
    "int_type": "give a whole number",
    "int_parsing": "give a whole number",
    "int_from_float": "give a whole number",
    "int_parsing_size": "give a whole number of 64 bits",
    "float_type": "give a number",
    "float_parsing": "give a number",
    "finite_number": "give a finite number",
    "greater_than": "give a number above {gt}",
    "greater_than_equal": "give a number of at least {ge}",
    "less_than": "give a number below {lt}",
    "less_than_equal": "give a number of at most {le}",
    "bool_type": "give True or False",
    "string_type": "give a text",
    "string_unicode": "give a text without surrogates, which no file can hold",
    "string_too_short": "give a text of {min_length} or more characters",
    "string_too_long": "give a text of at most {max_length} characters",
    "string_pattern_mismatch": "give {pattern}",
    "literal_error": "give {expected}",
    "union_tag_invalid": "give one of {expected_tags} as 'kind'",
    "tuple_type": "give a list",
    "list_type": "give a list",
    "too_short": "give {min_length} or more entries",
    "too_long": "give {max_length} entries at most",
    "dict_type": "give a mapping of names",
    "mapping_type": "give a mapping of names",
    "invalid_key": "give texts as names",
    "model_attributes_type": "give a part of a scenario, in a file a mapping with 'kind'",
    "dataclass_type": "give a value of {class_name}, in a file a mapping of its fields",
    "dataclass_exact_type": "give a value of {class_name}, in a file a mapping of its fields",
    "callable_type": "give a function",
    "unexpected_positional_argument": "is one value too many; give the fields by name",
}
"""What to do about a mistake, by pydantic's name and with what it says of the limits."""
_PATTERNS: Final = {
    r"^[A-Za-z0-9._-]+$": "a name of letters, digits, dots, dashes and underscores",
    r"^(\{name\}|[A-Za-z0-9._-])+$": "an id of letters, digits, dots, dashes, underscores and {name}",
    r"^[^\W\d]\w*$": "a name of letters, digits and underscores that does not begin with a digit",
}


def _sentence(lines: list[dict[str, Any]], made: object, location: Location) -> str:
    """A mistake in words of wmlab's own: what to give, by each branch of a union, and what was given."""
    kind = lines[0]["type"]
    if kind in _ALONE:
        return _ALONE[kind]
    first, *others = dict.fromkeys(_remedy(line, made, location) for line in lines)
    remedy = ", or ".join([first, *(other.removeprefix("give ") for other in others)])
    got = _as_offered(lines[0].get("input"))
    own = any("error" in line.get("ctx", {}) for line in lines)
    return remedy if got in remedy and own else f"{remedy} (got {got})"


def _remedy(line: dict[str, Any], made: object, location: Location) -> str:
    """What to do about one mistake of pydantic."""
    kind, limits = line["type"], dict(line.get("ctx", {}))
    own = limits.get("error")
    if isinstance(own, UnicodeError):
        return _REMEDIES["string_unicode"]
    if isinstance(own, WmlabError):
        return in_words(own)
    if own is not None:
        return str(own)
    parts = _parts_at(made, location) if kind in _OF_A_PART else []
    if len(parts) > 1:
        *most, last = parts if len(parts) <= _MOST_PARTS else [*parts[:_MOST_PARTS], f"{len(parts) - _MOST_PARTS} more"]
        return f"give {', '.join(most)} or {last}, in a file a mapping with 'kind'"
    limits["pattern"] = _PATTERNS.get(str(limits.get("pattern")), f"a text like {limits.get('pattern')}")
    return _REMEDIES.get(kind, "give another value").format_map({n: _limit(limit) for n, limit in limits.items()})


_OF_A_PART: Final = ("model_attributes_type", "dataclass_type", "dataclass_exact_type")
"""What pydantic says of a value that is none of the parts that could be there."""
_MOST_PARTS: Final = 12


def _limit(limit: object) -> object:
    """A limit as it is written: pydantic makes a float of 1 where a field takes fractions."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


_DATA: Final = (str, int, float, type(None), list, tuple, dict, set)


def _as_offered(offered: object) -> str:
    """A value as it was given; of one that is no data, what it is."""
    return shown(offered) if isinstance(offered, _DATA) else f"a value of type {type(offered).__name__}"
