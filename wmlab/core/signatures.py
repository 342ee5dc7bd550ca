"""The readable signature of a value: `rate_per_s: float | None = None`, without the checks of pydantic.

Field annotations carry limits and validators, which the docstring says in words; IPython shows the signature first.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from typing import Any, Final

_MOST_CHOICES: Final = 6
_SHOWN_CHOICES: Final = 4
"""Of more choices than can be read, so many are named."""


class PlainSignature:
    """Stands as `__signature__` in a class of values; what its class is, it makes the signature of."""

    def __get__(self, _: object, made: type) -> inspect.Signature:
        return _signature_of(made)


class PlainType(str):
    """An annotation that is shown as it is, without quotes; in `Annotated`, what is shown of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@functools.cache
def _signature_of(made: type) -> inspect.Signature:
    """What has to be given comes first, then what may be given."""
    hints = typing.get_type_hints(made, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=_default_of(field),
            annotation=PlainType(plain_type(hints[field.name])),
        )
        # Nobody gives the kind of a value, which its class says.
        for field in dataclasses.fields(made)
        if field.init and field.name != "kind"
    ]

    return inspect.Signature(sorted(parameters, key=lambda each: (each.kind, each.default is not each.empty)))


def _default_of(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty


def plain_type(hint: Any) -> str:
    """A type without modules, as one writes it; of many choices the first ones.

    >>> plain_type(tuple[int, ...] | None)
    'tuple[int, ...] | None'
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return next((part for part in inner[1:] if isinstance(part, PlainType)), plain_type(inner[0]))
    if hint is type(None):
        return "None"
    if hint is ...:
        return "..."
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin in (typing.Union, types.UnionType):
        choices = [plain_type(choice) for choice in inner]
        if len(choices) > _MOST_CHOICES:
            choices = [*choices[:_SHOWN_CHOICES], f"{len(choices) - _SHOWN_CHOICES} more"]
        return " | ".join(choices)
    name = str(getattr(origin or hint, "__name__", hint)).removeprefix("typing.")
    return f"{name}[{', '.join(map(plain_type, inner))}]" if inner and name != "Callable" else name
