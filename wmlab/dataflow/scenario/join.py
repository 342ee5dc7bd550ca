"""What the condition of a join says about time: its bounds, and the columns that must be equal.

Only the parts joined by `and` at the top count, as `wmlab.dataflow.model.join_bounds` has it. Everything else of the
condition is applied to the rows, and bounds nothing.

Source: "Stream-to-stream join", time bounds; upstream class `StreamToStreamJoinPhysicalRule`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wmlab.dataflow.model.condition import And, Column, Comparator, Compare, Constant, Expression, Plus
from wmlab.dataflow.model.join_bounds import extract_bounds
from wmlab.dataflow.scenario.expressions import parse
from wmlab.dataflow.scenario.plan import Output
from wmlab.dataflow.scenario.vertices import Join

_COMPARATORS: Final[dict[type[ast.cmpop], Comparator]] = {
    ast.Eq: "=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


@dataclass(frozen=True, slots=True)
class JoinRule:
    """What a join needs besides its condition.

    `bounds`: key a to keys of the other side, each with an amount: "time of the other >= time of a - amount".
    `equal`: pairs of a left and a right column that must be equal.
    """

    bounds: Mapping[int, Mapping[int, int]]
    equal: tuple[tuple[str, str], ...]


def places_of(left: Output, right: Output) -> dict[str, int]:
    """The place of every dotted column in a joined row, left before right."""
    names = [*(f"left.{name}" for name in left.columns), *(f"right.{name}" for name in right.columns)]
    return {name: place for place, name in enumerate(names)}


def rule_of(join: Join, left: Output, right: Output) -> JoinRule:
    """The bounds and the equal columns that the condition of `join` contains."""
    places = places_of(left, right)
    keys = [{places[f"{side}.{c}"]: k for k, c in o.keys if c} for side, o in (("left", left), ("right", right))]
    parts = tuple(_comparisons(parse(join.condition), places))
    found = extract_bounds(And(parts), keys[0], keys[1])
    by_key = keys[0] | keys[1]
    bounds = {by_key[a]: {by_key[b]: amount for b, amount in amounts.items()} for a, amounts in found.items()}
    return JoinRule(bounds, tuple(dict.fromkeys(_equal(parts, left, right))))


def join_problems(join: Join, left: Output, right: Output) -> Iterator[str]:
    """Why the join cannot run: the same key on both sides, or a bound that is missing, spelled out."""
    both = [key for key, _ in left.keys if key in dict(right.keys)]
    for key in both:
        sides = f"left.{dict(left.keys)[key]} and right.{dict(right.keys)[key]}"
        yield f"both sides have watermark key {key} ({sides}); give the times of one side another key"
    if both:
        return
    for side, output in (("left", left), ("right", right)):
        if output.time is None:
            yield f"the {side} side has no column with a watermark; give its source times="
            return
    bounds = rule_of(join, left, right).bounds
    for here, there, this, other in (("left", "right", left, right), ("right", "left", right, left)):
        theirs = dict(other.keys)
        if not any(bounded in theirs for key in dict(this.keys) for bounded in bounds.get(key, {})):
            wanted = f"{there}.{other.time} >= {here}.{this.time} - N"
            yield (
                f"nothing bounds a time of the {there} side from below by one of the {here} side, so its rows would be "
                f"kept for ever; add a part like `{wanted}` to the condition with `and` (got {join.condition!r})"
            )


def _comparisons(tree: ast.expr, places: Mapping[str, int]) -> Iterator[Compare]:
    """The comparisons that the condition requires, each of two sides; those of anything but sums are left out."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for part in tree.values:
            yield from _comparisons(part, places)
    elif isinstance(tree, ast.Compare):
        sides = [_sum(side, places) for side in (tree.left, *tree.comparators)]
        for left, comparison, right in zip(sides, tree.ops, sides[1:], strict=False):
            comparator = _COMPARATORS.get(type(comparison))
            if left is not None and right is not None and comparator is not None:
                yield Compare(left, comparator, right)


def _sum(node: ast.expr, places: Mapping[str, int]) -> Expression | None:
    """A sum or difference of columns and whole numbers; None for anything else."""
    match node:
        case ast.Attribute():
            return Column(places[ast.unparse(node)])
        case ast.Constant(value=int() as number):
            return Constant(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _sum(operand, places)
            return None if inner is None else Plus(Constant(0), inner, minus=True)
        case ast.BinOp(left=one, op=ast.Add() | ast.Sub(), right=other):
            left, right = _sum(one, places), _sum(other, places)
            return None if left is None or right is None else Plus(left, right, isinstance(node.op, ast.Sub))
    return None


def _equal(parts: tuple[Compare, ...], left: Output, right: Output) -> Iterator[tuple[str, str]]:
    """Pairs of a left and a right column that a comparison wants equal as they are."""
    width = len(left.columns)
    for part in parts:
        match part:
            case Compare(Column(one), "=", Column(other)):
                low, high = sorted((one, other))
                if low < width <= high:
                    yield left.columns[low], right.columns[high - width]
