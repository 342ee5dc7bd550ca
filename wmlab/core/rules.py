"""One switch for many options: a scenario follows the design, or the implementation, or sound rules.

An option in which the three differ is a field `name: Option[...] = UNSET` of some part of a scenario. The scenario
class names all of them in one table, `rule_table`; `resolved` fills in those that nobody has set. The value keeps what
was written, so that a file says no more than its author did.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args

T = TypeVar("T")

Rules = Literal["design", "implementation", "sound"]
"""`design`: as the document is written; `implementation`: as the shipped code works; `sound`: with every repair."""
RuleTable = Mapping[type, Mapping[str, tuple[Any, Any, Any]]]
"""By class and option, what design, implementation and sound set."""

if TYPE_CHECKING:
    # Whoever runs a scenario reads options of `resolved` values only, where none is unset.
    Option = Annotated[T, "UNSET stands for what the scenario's rules set"]
else:
    Option = T | None
UNSET: Final[Any] = None
"""The default of an option: the scenario's rules decide."""


def resolved(held: T, rules: Rules, table: RuleTable) -> T:
    """The value and all values in it, with every option that is unset as `rules` has it by the table."""
    if isinstance(held, tuple):
        if not held or not dataclasses.is_dataclass(held[0]):
            return held
        made = tuple(resolved(entry, rules, table) for entry in held)
        return held if all(new is old for new, old in zip(made, held, strict=True)) else made  # type: ignore[return-value]
    if not dataclasses.is_dataclass(held):
        return held
    options = options_of(type(held), table)
    changed = {}
    for field in dataclasses.fields(held):
        before = getattr(held, field.name)
        if before is UNSET and field.name in options:
            changed[field.name] = options[field.name][get_args(Rules).index(rules)]
        elif (after := resolved(before, rules, table)) is not before:
            changed[field.name] = after
    if not changed:
        return held
    # What the table holds is valid (a test says so); to validate a scenario twice would cost as much again.
    filled = copy.copy(held)
    for name, after in changed.items():
        object.__setattr__(filled, name, after)
    return filled


def options_of(part: type, table: RuleTable) -> Mapping[str, tuple[Any, Any, Any]]:
    """The options of a class or of one that it extends."""
    return next((table[base] for base in part.__mro__ if base in table), {})


def options_in(held: Any, table: RuleTable, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every option in a value, by its path such as `writers[1].noting`, with what it holds."""
    if isinstance(held, tuple):
        for index, entry in enumerate(held):
            yield from options_in(entry, table, f"{path}[{index}]")
    elif dataclasses.is_dataclass(held):
        options = options_of(type(held), table)
        for field in dataclasses.fields(held):
            name = f"{path}.{field.name}" if path else field.name
            if field.name in options:
                yield name, getattr(held, field.name)
            else:
                yield from options_in(getattr(held, field.name), table, name)
