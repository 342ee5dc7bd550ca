"""The parts of a scenario: frozen, validated values that print as the code that makes them.

Values are pydantic dataclasses, so that a YAML file and a Python call pass the same checks; numbers may be those of
numpy. Every mistake becomes a `ScenarioError` that lists all problems together, each with its location.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast, dataclass_transform

import numpy as np
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationError,
    WrapValidator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from wmlab.core.durations import Duration, from_date, from_text
from wmlab.core.errors import in_words as in_words, unknown_attribute
from wmlab.core.mistakes import (
    Problem as Problem,
    Problems as Problems,
    after_the_end as after_the_end,
    branch as branch,
    problems_of as problems_of,
    unknown as unknown,
)
from wmlab.core.signatures import PlainSignature, PlainType
from wmlab.core.words import shown

AnyValue = TypeVar("AnyValue")

MAX_MS: Final = 2**53
"""The largest number of milliseconds, 285,000 years: sums of such times stay within 64 bits, and floats are exact."""
_OR_TEXT: Final = WrapValidator(from_text)
"""For a field of milliseconds, which a text such as "10s" may say."""
_OR_DATE: Final = WrapValidator(from_date)
"""For a field of milliseconds since 1970, which a date may say."""

if TYPE_CHECKING:
    Ms = Duration
    Period = Duration
    SignedMs = Duration
    Start = Duration
    SignedStart = Duration
    MeanMs = float | Any
else:
    _SHOWN = PlainType("int | str")
    Ms = Annotated[int, Field(ge=0, le=MAX_MS, strict=True), _OR_TEXT, _SHOWN]
    """Milliseconds after the start of the scenario, or a duration that may be nothing."""
    Period = Annotated[int, Field(gt=0, le=MAX_MS, strict=True), _OR_TEXT, _SHOWN]
    """A duration above 0."""
    SignedMs = Annotated[int, Field(ge=-MAX_MS, le=MAX_MS, strict=True), _OR_TEXT, _SHOWN]
    """How far a clock is ahead; negative: behind."""
    Start = Annotated[int, Field(ge=0, le=MAX_MS, strict=True), _OR_DATE, _SHOWN]
    """When a scenario starts, in milliseconds since 1970, or a date such as "2013-07-15 09:00" (UTC)."""
    SignedStart = Annotated[int, Field(ge=-MAX_MS, le=MAX_MS, strict=True), _OR_DATE, _SHOWN]
    """As `Start`; it may be before 1970."""
    MeanMs = Annotated[
        float, Field(ge=0, le=2**43, strict=True), AfterValidator(abs), _OR_TEXT, PlainType("float | str")
    ]
    """The mean of a duration in milliseconds, at most 278 years. -0.0 is read as 0.0: numpy refuses it."""
Time = Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True)]
"""An application time: a 64-bit integer, which charts and sentences write as milliseconds."""
Offset = Annotated[int, Field(ge=0, le=2**62, strict=True)]
"""An offset in a segment, in bytes."""
Flag = Annotated[bool, Field(strict=True)]
"""True or False; a text such as "no" or a number is neither."""
Share = Annotated[float, Field(ge=0, lt=1, strict=True)]
"""A part of the whole, below 1."""
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]
"""What a node or a stream is called."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("give a name of printable characters")
    return text


def each_once(entries: AnyValue) -> AnyValue:
    """The entries, which may be None; raises `ValueError` if one is there twice."""
    seen: set[object] = set()
    for entry in cast("Iterable[object]", entries or ()):
        if entry in seen:
            raise ValueError(f"name each once; {shown(entry)} is there twice")
        seen.add(entry)
    return entries


EACH_ONCE: Final = AfterValidator(each_once)
"""For a field that is a set of names, in their order: none is given twice."""

AnyName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
"""What a writer is called: any text, as logs have it."""

_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False, str_strip_whitespace=True)


@dataclass_transform(frozen_default=True, kw_only_default=False)
def value(cls: type[AnyValue]) -> type[AnyValue]:
    """Make `cls` a frozen validated value with a repr that leaves defaults out.

    What its method `_problems`, if it has one, says of all fields together is raised as `Problems`.
    """
    if hasattr(cls, "_problems"):
        setattr(cls, "__post_init__", _refuse_problems)  # noqa: B010 - as below
    # A base that is not a value itself, as that of the scenarios, says what is equal.
    says_equal = any("__eq__" in vars(base) and not dataclasses.is_dataclass(base) for base in cls.__mro__[:-1])
    made = pydantic_dataclass(frozen=True, repr=False, eq=not says_equal, config=_CONFIG)(cls)
    if cls.__repr__ is object.__repr__:
        setattr(made, "__repr__", _repr)  # noqa: B010 - a plain assignment to a method does not type-check
    setattr(made, "__init__", _gathering(made.__init__))  # noqa: B010
    setattr(made, "__signature__", PlainSignature())  # noqa: B010
    if not hasattr(made, "__getattr__"):
        setattr(made, "__getattr__", unknown_attribute)  # noqa: B010
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
            raise Problems(name, problems_of(error, fields, type(self))) from None
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


_BY_PLACE: Final = ("name", "base")
"""The fields whose meaning is clear without their names."""


def arguments(part: Any) -> Iterator[tuple[str, Any]]:
    """What a call that makes the value gives: each field that is not a default, by its name, or by place ("")."""
    for field in dataclasses.fields(part):
        offered = getattr(part, field.name)
        if field.name != "kind" and not is_default(field, offered):
            yield "" if not field.kw_only and field.name in _BY_PLACE else field.name, offered


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


def plain(offered: object, *, defaults: bool = False) -> object:
    """A value as dicts, lists and scalars, without what is a default unless `defaults` asks for it.

    `kind` is kept where it tells kinds apart.
    """
    if dataclasses.is_dataclass(offered) and not isinstance(offered, type):
        fields = fields_in_use(offered)
        shown = [f for f in fields if defaults or f.name == "kind" or not is_default(f, getattr(offered, f.name))]
        shown.sort(key=lambda f: f.name != "kind")
        return {f.name: plain(getattr(offered, f.name), defaults=defaults) for f in shown}
    if isinstance(offered, list | tuple):
        return [plain(item, defaults=defaults) for item in offered]
    if isinstance(offered, Mapping):
        return {key: plain(item, defaults=defaults) for key, item in offered.items()}
    return offered


def fields_in_use(part: Any) -> list[Any]:
    """The fields of a value, without those whose place others have taken: it names them in `_not_in_use`."""
    # The class is asked: of a name that a value does not have, it would look for those that are like it.
    others = part._not_in_use if hasattr(type(part), "_not_in_use") else ()
    return [field for field in dataclasses.fields(part) if field.name not in others]


def value_at(part: Any, path: Sequence[str | int]) -> Any:
    """What a value holds at a path of fields and indices."""
    for step in path:
        part = part[step] if isinstance(step, int) else getattr(part, step)
    return part


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
