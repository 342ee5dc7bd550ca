"""How far the times of two joined rows can lie apart: the bounds of a stream-to-stream join.

`bounds[a][b] = amount` says that in every match the time of b is at least the time of a minus `amount`, which may be
negative. So once no row with a time of a below v can come, rows with a time of b below v - amount are of no use. A join
needs a bound from a time of the left side to one of the right, and one back; otherwise one side has to be kept for
ever.

A bound comes from a comparison (= < <= > >=) at the top level of the condition between one time of each side and
constants. Strict and inclusive comparisons give the same bound. Of several bounds for a pair the tightest counts, that
is, the smallest amount. OR, IS NOT DISTINCT FROM, other columns and comparisons within one side give none.

Source: "Stream-to-stream join", time bounds and their extraction; upstream class `StreamToStreamJoinPhysicalRule`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.condition import And, Cast, Column, Compare, Condition, Constant, Expression, Or, Plus

Bounds = Mapping[int, Mapping[int, int]]
"""From a time to the times it bounds, with the amounts, in the unit of the times."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of columns, each with a factor, and a constant."""

    factors: tuple[tuple[int, int], ...] = ()
    constant: int = 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """The sum with `factor` times another one."""
        factors = dict(self.factors)
        for column, times in other.factors:
            factors[column] = factors.get(column, 0) + factor * times
        return Linear(tuple((c, f) for c, f in sorted(factors.items()) if f), self.constant + factor * other.constant)


def linear(expression: Expression) -> Linear | None:
    """The expression as a sum of columns and a constant; None if it is not one."""
    match expression:
        case Column(index):
            return Linear(((index, 1),))
        case Constant(constant) if type(constant) is int:
            return Linear(constant=constant)
        case Cast(operand) if expression.keeps_value:
            return linear(operand)
        case Plus(left, right, minus):
            one, other = linear(left), linear(right)
            return None if one is None or other is None else one.plus(other, -1 if minus else 1)
    return None


def extract_bounds(condition: Condition, left: Collection[int], right: Collection[int]) -> dict[int, dict[int, int]]:
    """The bounds that a condition sets between the time columns of both sides, by column of the joined row.

    Source: upstream class `StreamToStreamJoinPhysicalRule` (tryExtractTimeBound).
    """
    bounds: dict[int, dict[int, int]] = {}
    for part in _top_level(condition):
        for known, bounded, amount in _bounds_of(part, frozenset(left), frozenset(right)):
            amounts = bounds.setdefault(known, {})
            amounts[bounded] = min(amount, amounts.get(bounded, amount))
    return bounds


def _top_level(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, And):
        for part in condition.parts:
            yield from _top_level(part)
    else:
        yield condition


def _bounds_of(part: Condition, left: frozenset[int], right: frozenset[int]) -> Iterator[tuple[int, int, int]]:
    """(a, b, amount) for each bound of one comparison: one for an inequality, two for an equality."""
    if not isinstance(part, Compare):
        return
    one, other = linear(part.left), linear(part.right)
    if one is None or other is None:
        return
    difference = one.plus(other, -1)
    columns = {factor: column for column, factor in difference.factors}
    if len(difference.factors) != 2 or columns.keys() != {1, -1}:
        return
    higher, lower = columns[1], columns[-1]
    if not ((higher in left and lower in right) or (higher in right and lower in left)):
        return
    if part.operator != "<" and part.operator != "<=":
        yield lower, higher, difference.constant
    if part.operator != ">" and part.operator != ">=":
        yield higher, lower, -difference.constant


def bounds_by_key(
    condition: Condition, left: Mapping[int, int], right: Mapping[int, int], left_width: int
) -> dict[int, dict[int, int]]:
    """The bounds of a condition by watermark key; `left` and `right` give the time column of every key, per side.

    Raises `ModelError` if a direction has no bound, and says which, and what the condition has instead.
    Source: "Stream-to-stream join", time bounds.
    """
    keys = {column: key for key, column in left.items()} | {left_width + column: key for key, column in right.items()}
    on_left, on_right = list(left.values()), [left_width + column for column in right.values()]
    found = extract_bounds(condition, on_left, on_right)
    bounds = {keys[a]: {keys[b]: amount for b, amount in amounts.items()} for a, amounts in found.items()}
    if problem := missing_bound(bounds, left, right):
        raise ModelError(
            f"{problem}: the condition is {condition}{_set_aside(condition)}",
            remedy="Compare a time of each side with the other's plus or minus a constant, connected by AND.",
        )
    return bounds


def missing_bound(bounds: Bounds, left: Collection[int], right: Collection[int]) -> str | None:
    """Which direction has no bound, in words; None if both have one."""
    if not any(b in right for a in left for b in bounds.get(a, {})):
        return f"no time of the right side (keys {_listed(right)}) is bounded by one of the left (keys {_listed(left)})"
    if not any(b in left for a in right for b in bounds.get(a, {})):
        return f"no time of the left side (keys {_listed(left)}) is bounded by one of the right (keys {_listed(right)})"
    return None


def minimum_spread(bounds: Bounds, left: Collection[int]) -> int:
    """The width of the narrowest time range in which rows can match, at least 1, in the unit of the times.

    That is the smallest amount from the left side plus the smallest from the right. `left` are the left side's times.
    Raises `ModelError` if one direction has no bound.
    Source: upstream class `StreamToStreamJoinPhysicalRel` (minimumSpread).
    """
    amounts = [(a in left, amount) for a, bounded in bounds.items() for amount in bounded.values()]
    from_left = [amount for on_left, amount in amounts if on_left]
    from_right = [amount for on_left, amount in amounts if not on_left]
    if not from_left or not from_right:
        side = "right" if from_left else "left"
        raise ModelError(
            f"The join has no bound from the {side} side.", remedy="Bound the times of both sides by each other."
        )
    return max(1, min(from_left) + min(from_right))


def _set_aside(condition: Condition) -> str:
    found = [part for part in _top_level(condition) if isinstance(part, Or)]
    return f", of which {' and '.join(map(str, found))} bounds nothing, since it is an OR" if found else ""


def _listed(keys: Collection[int]) -> str:
    return ", ".join(map(str, sorted(keys)))
