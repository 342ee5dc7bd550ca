"""What the condition of a join says about time: its bounds, and the columns that must be equal.

Only the parts joined by `and` at the top count, as `wmlab.dataflow.model.expression` has it. Everything else of the
condition is applied to the rows, and bounds nothing.

Source: "Stream-to-stream join", time bounds; upstream class `StreamToStreamJoinPhysicalRule`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wmlab.dataflow.model.expression import required_comparisons, time_bounds
from wmlab.dataflow.scenario.plan import Output
from wmlab.dataflow.scenario.vertices import Join


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
    found = time_bounds(join.condition, places, keys[0], keys[1])
    by_key = keys[0] | keys[1]
    bounds = {by_key[a]: {by_key[b]: amount for b, amount in amounts.items()} for a, amounts in found.items()}
    return JoinRule(bounds, tuple(dict.fromkeys(_equal_columns(join.condition))))


def _equal_columns(condition: str) -> Iterator[tuple[str, str]]:
    """Pairs of a left and a right column that the condition wants equal as they are."""
    for one, comparison, other in required_comparisons(condition):
        match one, comparison, other:
            case ast.Attribute(), ast.Eq(), ast.Attribute():
                columns = dict(ast.unparse(side).split(".") for side in (one, other))
                if len(columns) == 2:
                    yield columns["left"], columns["right"]


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
