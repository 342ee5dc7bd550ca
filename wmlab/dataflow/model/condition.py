"""A small language for join conditions: columns, constants, sums and differences, compared and connected.

Columns count through the joined row, left before right. Conditions have three values as in SQL: None means unknown,
which is what a comparison with null gives, and a join takes only what is true.

Source: "Stream-to-stream join", extraction of time bounds; upstream class `StreamToStreamJoinPhysicalRule`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import Value
from wmlab.dataflow.model.processor import Values

Comparator = Literal["=", "<", "<=", ">", ">="]
COMPARATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FAMILIES: Final[Mapping[str, str]] = {
    "tinyint": "integer",
    "smallint": "integer",
    "integer": "integer",
    "bigint": "integer",
    "timestamp": "temporal",
    "timestamp with time zone": "temporal",
    "decimal": "decimal",
    "double": "decimal",
    "varchar": "text",
}
"""The families of SQL types; a cast within one keeps the value."""
_CONVERT: Final[Mapping[str, Callable[[Any], Value]]] = {"integer": int, "temporal": int, "decimal": float, "text": str}


class Expression(Protocol):
    """Something with a value in every joined row."""

    def value(self, row: Values) -> Value:
        """Its value; None is null."""


class Condition(Protocol):
    """Something that holds, or not, or is unknown, for every joined row."""

    def holds(self, row: Values) -> bool | None:
        """Whether it does; None is unknown."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the joined row."""

    index: int

    def value(self, row: Values) -> Value:
        """What the row has there."""
        return row[self.index]

    def __str__(self) -> str:
        return f"column {self.index}"


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant."""

    constant: Value

    def value(self, row: Values) -> Value:  # noqa: ARG002
        """The constant."""
        return self.constant

    def __str__(self) -> str:
        return repr(self.constant)


@dataclass(frozen=True, slots=True)
class Plus:
    """A sum, or with `minus` a difference."""

    left: Expression
    right: Expression
    minus: bool = False

    def value(self, row: Values) -> Value:
        """The result; null if either side is."""
        left: Any = self.left.value(row)
        right: Any = self.right.value(row)
        if left is None or right is None:
            return None
        result: Value = left - right if self.minus else left + right
        return result

    def __str__(self) -> str:
        return f"{self.left} {'-' if self.minus else '+'} {self.right}"


@dataclass(frozen=True, slots=True)
class Cast:
    """A value of SQL type `source` as one of type `target`.

    Raises `ModelError` for a type that is not known.
    """

    operand: Expression
    source: str
    target: str

    def __post_init__(self) -> None:
        for name in (self.source, self.target):
            if name not in FAMILIES:
                raise ModelError(f"There is no type {name!r}.", remedy=f"Use one of {', '.join(FAMILIES)}.")

    @property
    def keeps_value(self) -> bool:
        """Whether both types are of one family."""
        return FAMILIES[self.source] == FAMILIES[self.target]

    def value(self, row: Values) -> Value:
        """The value, converted if the families differ."""
        value = self.operand.value(row)
        return value if value is None or self.keeps_value else _CONVERT[FAMILIES[self.target]](value)

    def __str__(self) -> str:
        return f"cast({self.operand} as {self.target})"


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison. Raises `ModelError` for an operator that is not known."""

    left: Expression
    operator: Comparator
    right: Expression

    def __post_init__(self) -> None:
        if self.operator not in COMPARATORS:
            known = ", ".join(get_args(Comparator))
            raise ModelError(f"There is no comparison {self.operator!r}.", remedy=f"Use one of {known}.")

    def holds(self, row: Values) -> bool | None:
        """Unknown if either side is null."""
        left, right = self.left.value(row), self.right.value(row)
        return None if left is None or right is None else COMPARATORS[self.operator](left, right)

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True)
class NotDistinct:
    """Equality in which null equals null (IS NOT DISTINCT FROM)."""

    left: Expression
    right: Expression

    def holds(self, row: Values) -> bool:
        """Always known."""
        return self.left.value(row) == self.right.value(row)

    def __str__(self) -> str:
        return f"{self.left} is not distinct from {self.right}"


@dataclass(frozen=True, slots=True)
class And:
    """All parts."""

    parts: tuple[Condition, ...]

    def holds(self, row: Values) -> bool | None:
        """False if one part is, else unknown if one is."""
        found = {part.holds(row) for part in self.parts}
        return False if False in found else None if None in found else True

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts)) or "true"


@dataclass(frozen=True, slots=True)
class Or:
    """Any part."""

    parts: tuple[Condition, ...]

    def holds(self, row: Values) -> bool | None:
        """True if one part is, else unknown if one is."""
        found = {part.holds(row) for part in self.parts}
        return True if True in found else None if None in found else False

    def __str__(self) -> str:
        return f"({' or '.join(map(str, self.parts))})"


def between(value: Expression, low: Expression, high: Expression) -> And:
    """Both ends included."""
    return And((Compare(value, ">=", low), Compare(value, "<=", high)))
