"""What every part of a scenario is: a frozen, validated value that prints as the code that makes it.

Values are pydantic dataclasses, so that a YAML file and a Python call pass the same checks; numbers may be those of
numpy. Every mistake becomes a `ScenarioError` that lists all problems together, each with its location.

A scenario follows the design, the implementation, or sound rules: its `rules`, one switch for many options. An option
in which the three differ is a field `name: Option[...] = UNSET` of some part of a scenario. The scenario
class names all of them in one table, `rule_table`; `resolved` fills in those that nobody has set. The value keeps what
was written, so that a file says no more than its author did.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast, dataclass_transform, get_args

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from wmlab.core.errors import ScenarioError, WmlabError
from wmlab.core.words import counted, shown

AnyValue = TypeVar("AnyValue")

MAX_MS: Final = 2**53
"""The largest number of milliseconds, 285,000 years: sums of such times stay within 64 bits, and floats are exact."""
Ms = Annotated[int, Field(ge=0, le=MAX_MS, strict=True)]
"""Milliseconds after the start of the scenario, or a duration that may be nothing."""
Period = Annotated[int, Field(gt=0, le=MAX_MS, strict=True)]
"""A duration in milliseconds."""
SignedMs = Annotated[int, Field(ge=-MAX_MS, le=MAX_MS, strict=True)]
"""A moment in milliseconds since 1970, or how far a clock is ahead; negative: before, or behind."""
MeanMs = Annotated[float, Field(ge=0, le=2**43, strict=True), AfterValidator(abs)]
"""The mean of a duration in milliseconds, at most 278 years; -0.0, which numpy refuses as a scale, is read as 0.0."""
Time = Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True)]
"""An application time: a 64-bit integer, which charts and sentences write as milliseconds."""
Offset = Annotated[int, Field(ge=0, le=2**62, strict=True)]
"""An offset in a segment, in bytes."""
Share = Annotated[float, Field(ge=0, lt=1, strict=True)]
"""A part of the whole, below 1."""
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]
"""What a node or a stream is called."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("give a name of printable characters")
    return text


AnyName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
"""What a writer is called: any text, as logs have it."""

_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False, str_strip_whitespace=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a scenario: where it is, what is wrong, and the offending value."""

    location: tuple[str | int, ...]
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

    def under(self, location: tuple[str | int, ...]) -> tuple[Problem, ...]:
        """The problems seen from an enclosing value."""
        return tuple(dataclasses.replace(p, location=(*location, *p.location)) for p in self.problems)


def unknown(location: tuple[str | int, ...], what: str, named: str | None, names: Iterable[str]) -> Iterator[Problem]:
    """The problem of a name that nothing has; None names nothing."""
    known = list(names)
    if named is not None and named not in known:
        yield Problem(location, f"no {what} is called {named!r}; there are: {', '.join(known) or 'none'}")


def problems_of(error: ValidationError, offered: object) -> tuple[Problem, ...]:
    """The problems pydantic found in the plain data `offered`, those of nested `Problems` unfolded."""
    problems: list[Problem] = []
    for line in error.errors(include_url=False):
        location = _fields(line["loc"], offered)
        nested = line.get("ctx", {}).get("error")
        if isinstance(nested, Problems):
            problems.extend(nested.under(location))
        elif line["type"] != "too_short" or not any(p.location[: len(location)] == location for p in problems):
            # A sequence whose items were refused counts as empty too; that would only be noise.
            problems.append(Problem(location, _sentence(dict(line))))
    return tuple(problems)


def branch(name: str) -> str:
    """The tag of one branch of a union that a function chooses from; no field can be called so."""
    return f"<{name}>"


def _fields(steps: tuple[str | int, ...], offered: object) -> tuple[str | int, ...]:
    """A pydantic location without the steps that only name the chosen branch of a union."""
    location: list[str | int] = []
    for step in steps:
        if isinstance(step, str) and step == branch(step[1:-1]):
            continue
        kind = offered.get("kind") if isinstance(offered, Mapping) and step not in offered else None
        if isinstance(kind, str) and step == kind:
            continue
        location.append(step)
        if isinstance(offered, Mapping):
            offered = offered.get(step)
        elif isinstance(offered, list | tuple) and isinstance(step, int) and step < len(offered):
            offered = offered[step]
    return tuple(location)


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
    "bool_type": "give true or false",
    "bool_parsing": "give true or false",
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


def _sentence(line: dict[str, Any]) -> str:
    """A mistake in words of wmlab's own: what to give, and what was given."""
    kind, offered = line["type"], line.get("input")
    if kind in _ALONE:
        return _ALONE[kind]
    limits = dict(line.get("ctx", {}))
    own = limits.get("error")
    if isinstance(own, UnicodeError):
        remedy = _REMEDIES["string_unicode"]
    elif isinstance(own, WmlabError):
        remedy = f"{own.problem.removesuffix('.')}; {own.remedy[:1].lower()}{own.remedy[1:].removesuffix('.')}"
    elif own is not None:
        remedy = str(own)
    else:
        limits["pattern"] = _PATTERNS.get(str(limits.get("pattern")), f"a text like {limits.get('pattern')}")
        remedy = _REMEDIES.get(kind, "give another value").format_map({n: _limit(limit) for n, limit in limits.items()})
    got = _as_offered(offered)
    return remedy if got in remedy and own is not None else f"{remedy} (got {got})"


def _limit(limit: object) -> object:
    """A limit as it is written: pydantic makes a float of 1 where a field takes fractions."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


_DATA: Final = (str, int, float, type(None), list, tuple, dict, set)


def _as_offered(offered: object) -> str:
    """A value as it was given; of one that is no data, what it is."""
    return shown(offered) if isinstance(offered, _DATA) else f"a value of type {type(offered).__name__}"


@dataclass_transform(frozen_default=True, kw_only_default=False)
def value(cls: type[AnyValue]) -> type[AnyValue]:
    """Make `cls` a frozen validated value with a repr that leaves defaults out.

    What its method `_problems`, if it has one, says of all fields together is raised as `Problems`.
    """
    if hasattr(cls, "_problems"):
        setattr(cls, "__post_init__", _refuse_problems)  # noqa: B010 - as below
    made = pydantic_dataclass(frozen=True, repr=False, config=_CONFIG)(cls)
    if cls.__repr__ is object.__repr__:
        setattr(made, "__repr__", _repr)  # noqa: B010 - a plain assignment to a method does not type-check
    setattr(made, "__init__", _gathering(made.__init__))  # noqa: B010
    return cast("type[AnyValue]", made)


@dataclass_transform(frozen_default=True, kw_only_default=False)
def tagged(cls: type[AnyValue]) -> type[AnyValue]:
    """Make `cls` a value of a union: its field `kind` is always the name of the class in snake case."""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
    cls.__annotations__["kind"] = Literal[kind]
    setattr(cls, "kind", dataclasses.field(default=kind, kw_only=True))  # noqa: B010 - as above
    return value(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def action(cls: type[AnyValue]) -> type[AnyValue]:
    """Make `cls`, a `Timed`, an action of a script: a value of a union whose fields are all given by name."""
    cls.__annotations__ = {"_": dataclasses.KW_ONLY, **cls.__annotations__}
    return tagged(cls)


def _refuse_problems(self: Any) -> None:
    problems = tuple(self._problems())
    if problems:
        name = f" {self.name!r}" if hasattr(self, "name") else ""
        raise Problems(f"{getattr(self, 'noun', type(self).__name__)}{name}", problems)


def _gathering(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def gathering(self: Any, *args: Any, **fields: Any) -> None:
        offered = next((argument for argument in (*args[:1], fields.get("name")) if isinstance(argument, str)), None)
        positional = [field.name for field in dataclasses.fields(self) if field.init and not field.kw_only][: len(args)]
        if len(positional) == len(args) and fields.keys().isdisjoint(positional):
            args, fields = (), dict(zip(positional, args, strict=True)) | fields
        fields = {
            name: argument.item() if isinstance(argument, np.generic) else argument for name, argument in fields.items()
        }
        try:
            init(self, *args, **fields)
        except ValidationError as error:
            name = f"{type(self).__name__} {offered!r}" if offered else type(self).__name__
            raise Problems(name, problems_of(error, fields)) from None
        except TypeError as error:
            raise Problems(type(self).__name__, (Problem((), str(error)),)) from None

    return gathering


_LONG_NUMBER: Final = 10_000
"""From here on a repr groups the digits of a number, as Python reads them: at_ms=43_200_000."""


def _repr(self: Any) -> str:
    parts = []
    for name, offered in arguments(self):
        shown = repr(list(offered)) if isinstance(offered, tuple) else number_text(without_functions(offered))
        parts.append(f"{name}={shown}" if name else shown)
    return f"{type(self).__name__}({', '.join(parts)})"


def arguments(part: Any) -> Iterator[tuple[str, Any]]:
    """What a call that makes the value gives: each field that is no default, by its name; `name` by place ("")."""
    for field in dataclasses.fields(part):
        offered = getattr(part, field.name)
        if field.name != "kind" and not is_default(field, offered):
            yield "" if not field.kw_only and field.name == "name" else field.name, offered


def number_text(offered: object) -> str:
    """A scalar as Python reads it, the digits of a long number in groups."""
    is_long = type(offered) in (int, float) and abs(offered) >= _LONG_NUMBER  # type: ignore[arg-type]
    return f"{offered:_}" if is_long else repr(offered)


@value
class Timed:
    """The base of all actions. `at_ms` is when it happens, after the start of the scenario."""

    _: dataclasses.KW_ONLY
    at_ms: Ms


def is_default(field: dataclasses.Field[Any], offered: object) -> bool:
    """Whether a field holds what it would hold if nobody had said anything."""
    if field.default is not dataclasses.MISSING:
        return bool(type(offered) is type(field.default) and offered == field.default)
    if field.default_factory is not dataclasses.MISSING:
        return bool(offered == field.default_factory())
    return False


def plain(offered: object) -> object:
    """A value as dicts, lists and scalars, defaults left out, `kind` kept where it tells kinds apart."""
    if dataclasses.is_dataclass(offered) and not isinstance(offered, type):
        fields = dataclasses.fields(offered)
        shown = [f for f in fields if f.name == "kind" or not is_default(f, getattr(offered, f.name))]
        return {f.name: plain(getattr(offered, f.name)) for f in sorted(shown, key=lambda f: f.name != "kind")}
    if isinstance(offered, list | tuple):
        return [plain(item) for item in offered]
    if isinstance(offered, Mapping):
        return {key: plain(item) for key, item in offered.items()}
    return offered


def is_function(offered: object) -> bool:
    """Whether a part of a value is a Python function, which no file can hold."""
    return callable(offered) and not isinstance(offered, type)


def function_name(function: Any) -> str:
    """What a function is called."""
    return str(getattr(function, "__name__", type(function).__name__))


def without_functions(offered: object) -> object:
    """Plain data in which every Python function is its name, as `function NAME`."""
    if isinstance(offered, Mapping):
        return {key: without_functions(item) for key, item in offered.items()}
    if isinstance(offered, list | tuple):
        return [without_functions(item) for item in offered]
    return f"function {function_name(offered)}" if is_function(offered) else offered


Rules = Literal["design", "implementation", "sound"]
"""`design`: as the document is written; `implementation`: as the shipped code works; `sound`: with every repair."""
RuleTable = Mapping[type, Mapping[str, tuple[Any, Any, Any]]]
"""By class and option, what design, implementation and sound set."""

if TYPE_CHECKING:
    # Whoever runs a scenario reads options of `resolved` values only, where none is unset.
    Option = Annotated[AnyValue, "UNSET stands for what the scenario's rules set"]
else:
    Option = AnyValue | None
UNSET: Final[Any] = None
"""The default of an option: the scenario's rules decide."""


def resolved(part: AnyValue, rules: Rules, table: RuleTable) -> AnyValue:
    """The value and all values in it, with every option that is unset as `rules` has it by the table."""
    if isinstance(part, tuple):
        if not part or not dataclasses.is_dataclass(part[0]):
            return part
        made = tuple(resolved(entry, rules, table) for entry in part)
        return part if all(new is old for new, old in zip(made, part, strict=True)) else made  # type: ignore[return-value]
    if not dataclasses.is_dataclass(part):
        return part
    options = options_of(type(part), table)
    changed = {}
    for field in dataclasses.fields(part):
        before = getattr(part, field.name)
        if before is UNSET and field.name in options:
            changed[field.name] = options[field.name][get_args(Rules).index(rules)]
        elif (after := resolved(before, rules, table)) is not before:
            changed[field.name] = after
    if not changed:
        return part
    # What the table holds is valid (a test says so); to validate a scenario twice would cost as much again.
    filled = copy.copy(part)
    for name, after in changed.items():
        object.__setattr__(filled, name, after)
    return filled


def options_of(part: type, table: RuleTable) -> Mapping[str, tuple[Any, Any, Any]]:
    """The options of a class or of one that it extends."""
    return next((table[base] for base in part.__mro__ if base in table), {})


def options_in(part: Any, table: RuleTable, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every option in a value, by its path such as `writers[1].noting`, with what it holds."""
    if isinstance(part, tuple):
        for index, entry in enumerate(part):
            yield from options_in(entry, table, f"{path}[{index}]")
    elif dataclasses.is_dataclass(part):
        options = options_of(type(part), table)
        for field in dataclasses.fields(part):
            name = f"{path}.{field.name}" if path else field.name
            if field.name in options:
                yield name, getattr(part, field.name)
            else:
                yield from options_in(getattr(part, field.name), table, name)
