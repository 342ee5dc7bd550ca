"""Expressions over the columns of a row: the conditions of filters and joins, and the columns of maps.

The notation is Python's, the meaning is SQL's where a value is missing: arithmetic and comparisons with None give None,
which counts as false. An expression is read by the parser and never executed as code.

The condition of a join says how far the times of two joined rows can lie apart. `bounds[a][b] = amount` says that in
every match the time of b is at least the time of a minus `amount`, which may be negative. So once no row with a time of
a below v can come, rows with a time of b below v - amount are of no use. A bound comes from a comparison (== < <= > >=)
of one time of each side, with constants, that all matches must meet: one at the top of the condition or connected by
`and`. Strict and inclusive comparisons give the same bound. Of several bounds for a pair the tightest counts, that is,
the smallest amount. `or`, other columns and comparisons within one side give none.

Source: "Stream-to-stream join", time bounds and their extraction; upstream class `StreamToStreamJoinPhysicalRule`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from wmlab.core.errors import ScenarioError
from wmlab.core.values import is_function, without_functions

Row = Sequence[Any]
Evaluate = Callable[[Row], Any]

_LOST: Final = "function "
"""How a function is written where it cannot be kept."""
_COLUMN: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?")
_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "float": float,
    "int": int,
    "len": len,
    "lower": str.lower,
    "max": max,
    "min": min,
    "round": round,
    "str": str,
    "upper": str.upper,
}
"""What an expression can call; with a missing argument the result is missing."""


@lru_cache  # a policy that computes the time asks for its expression at every noted time
def parse(text: str) -> ast.expr:
    """The expression as a tree; raises `ValueError` that says what is not understood."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"is not an expression: {error.msg}") from None
    _compiled(tree, defaultdict(int))
    return tree


def columns_of(text: str) -> tuple[str, ...]:
    """The columns that an expression reads, each once, in order; those of a join are dotted, as in `left.t`."""
    return tuple(dict.fromkeys(_names(parse(text))))


def compiled(text: str, places: Mapping[str, int]) -> Evaluate:
    """A function from a row to the value of the expression; `places` has the index of every column in the row.

    What goes wrong in a row, a division by zero for example, is a `ScenarioError` with the expression and the row.
    """
    evaluate = _compiled(parse(text), places)

    def guarded(row: Row) -> Any:
        try:
            return evaluate(row)
        except (TypeError, ValueError, ArithmeticError) as wrong:
            raise ScenarioError(
                f"{text!r} has no value for the row {tuple(row)}: {wrong}.", remedy="correct the expression or the row."
            ) from None

    return guarded


def rule_over(*names: str) -> Callable[[object], object]:
    """A validator of a field that holds an expression over these names, or a Python function of them as a dict."""

    def checked(offered: object) -> object:
        if is_function(offered) or (isinstance(offered, str) and offered.startswith(_LOST)):
            return offered
        if not isinstance(offered, str):
            raise ValueError(f"give an expression over {', '.join(names)}, or a function of them as a dict")
        if unknown := [name for name in columns_of(offered) if name not in names]:
            raise ValueError(f"knows no {unknown[0]!r}; there are: {', '.join(names)}")
        return offered.strip()

    return checked


def number_by(rule: Any) -> Callable[[Mapping[str, Any]], int | None]:
    """The whole number that an expression or a function gives for values by name; None if it gives none.

    Anything but a 64-bit integer is a `ScenarioError`, and so is a function that a recording has only the name of.
    """
    if isinstance(rule, str) and rule.startswith(_LOST):
        raise ScenarioError(f"{rule} was not kept with the scenario.", remedy="give the function again.")
    names = () if is_function(rule) else columns_of(rule)
    evaluate = None if is_function(rule) else compiled(rule, {name: place for place, name in enumerate(names)})

    def number(known: Mapping[str, Any]) -> int | None:
        found = rule(dict(known)) if evaluate is None else evaluate([known[name] for name in names])
        if found is None or (isinstance(found, int) and not isinstance(found, bool) and -(2**63) <= found < 2**63):
            return found
        raise ScenarioError(
            f"{without_functions(rule)!r} gives {found!r} for {dict(known)}, which is no 64-bit integer.",
            remedy="round it, for example by // or int().",
        )

    return number


def required_comparisons(condition: str) -> Iterator[tuple[ast.expr, ast.cmpop, ast.expr]]:
    """The comparisons that every row must meet for the condition to hold, as (left side, operator, right side)."""
    open_parts = [parse(condition)]
    while open_parts:
        part = open_parts.pop(0)
        if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.And):
            open_parts = [*part.values, *open_parts]
        elif isinstance(part, ast.Compare):
            sides = (part.left, *part.comparators)
            yield from zip(sides, part.ops, sides[1:], strict=False)


def time_bounds(
    condition: str, places: Mapping[str, int], left: Collection[int], right: Collection[int]
) -> dict[int, dict[int, int]]:
    """The bounds that a condition sets between the time columns of both sides, by place in the joined row."""
    bounds: dict[int, dict[int, int]] = {}
    for one, comparison, other in required_comparisons(condition):
        terms: Counter[int | None] = Counter()
        if not (_added(terms, one, 1, places) and _added(terms, other, -1, places)):
            continue
        constant = terms.pop(None, 0)
        columns = {factor: column for column, factor in terms.items() if factor and column is not None}
        if sum(map(bool, terms.values())) != 2 or columns.keys() != {1, -1}:
            continue
        higher, lower = columns[1], columns[-1]
        if not ((higher in left and lower in right) or (higher in right and lower in left)):
            continue
        parts = [(lower, higher, constant)] if isinstance(comparison, ast.Eq | ast.Gt | ast.GtE) else []
        parts += [(higher, lower, -constant)] if isinstance(comparison, ast.Eq | ast.Lt | ast.LtE) else []
        for known, bounded, amount in parts:
            amounts = bounds.setdefault(known, {})
            amounts[bounded] = min(amount, amounts.get(bounded, amount))
    return bounds


def _added(terms: Counter[int | None], node: ast.expr, sign: int, places: Mapping[str, int]) -> bool:
    """Adds a sum or difference to the factor of each column and the constant under None; false for anything else."""
    match node:
        case ast.Name() | ast.Attribute() if (place := places.get(ast.unparse(node))) is not None:
            terms[place] += sign
        case ast.Constant(value=number) if type(number) is int:
            terms[None] += sign * number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _added(terms, operand, -sign, places)
        case ast.BinOp(left=one, op=ast.Add() | ast.Sub(), right=other):
            opposite = -sign if isinstance(node.op, ast.Sub) else sign
            return _added(terms, one, sign, places) and _added(terms, other, opposite, places)
        case _:
            return False
    return True


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield f"{node.value.id}.{node.attr}"
    else:
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.Call) and child is node.func):
                yield from _names(child)


def _compiled(node: ast.expr, places: Mapping[str, int]) -> Evaluate:
    builder = _BUILDERS.get(type(node))
    if builder is None:
        raise ValueError(f"may not use {type(node).__name__.lower()} as in {ast.unparse(node)!r}")
    return builder(node, places)


def _constant(node: Any, _: Mapping[str, int]) -> Evaluate:
    value = node.value
    if not isinstance(value, int | float | str | bool | None):
        raise ValueError(f"may not use the constant {value!r}")
    return lambda _: value


def _column(node: Any, places: Mapping[str, int]) -> Evaluate:
    name = ast.unparse(node)
    if not _COLUMN.fullmatch(name):
        raise ValueError(f"is no column: {name!r}")
    return operator.itemgetter(places[name])


def _strict(apply: Callable[..., Any], parts: Iterable[ast.expr], places: Mapping[str, int]) -> Evaluate:
    """The function of the values of all parts; None if one of them is None."""
    compiled_parts = [_compiled(part, places) for part in parts]

    def evaluate(row: Row) -> Any:
        values = [part(row) for part in compiled_parts]
        return None if any(value is None for value in values) else apply(*values)

    return evaluate


def _operation(node: Any, places: Mapping[str, int]) -> Evaluate:
    parts = (node.operand,) if isinstance(node, ast.UnaryOp) else (node.left, node.right)
    return _strict(_operator(node.op, node), parts, places)


def _operator(op: ast.AST, node: ast.expr) -> Callable[..., Any]:
    if type(op) not in _OPERATORS:
        name = "comparison" if isinstance(node, ast.Compare) else "operator"
        raise ValueError(f"may not use the {name} of {ast.unparse(node)!r}")
    return _OPERATORS[type(op)]


def _comparison(node: Any, places: Mapping[str, int]) -> Evaluate:
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot):
        return _missing(node, places)
    tests = [_operator(op, node) for op in node.ops]

    def compare(*values: Any) -> bool:
        return all(test(a, b) for test, a, b in zip(tests, values, values[1:], strict=False))

    return _strict(compare, (node.left, *node.comparators), places)


def _missing(node: Any, places: Mapping[str, int]) -> Evaluate:
    inner, right = _compiled(node.left, places), node.comparators[0]
    if not (isinstance(right, ast.Constant) and right.value is None):
        raise ValueError(f"may compare by 'is' with None only, not as in {ast.unparse(node)!r}")
    return (lambda row: inner(row) is None) if isinstance(node.ops[0], ast.Is) else (lambda row: inner(row) is not None)


def _boolean(node: Any, places: Mapping[str, int]) -> Evaluate:
    parts = [_compiled(part, places) for part in node.values]
    decisive = isinstance(node.op, ast.Or)

    def evaluate(row: Row) -> Any:
        unknown = False
        for part in parts:
            value = part(row)
            if value is None:
                unknown = True
            elif bool(value) is decisive:
                return decisive
        return None if unknown else not decisive

    return evaluate


def _choice(node: Any, places: Mapping[str, int]) -> Evaluate:
    test, yes, no = (_compiled(part, places) for part in (node.test, node.body, node.orelse))
    return lambda row: yes(row) if test(row) else no(row)


def _call(node: Any, places: Mapping[str, int]) -> Evaluate:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    function = FUNCTIONS.get(name)
    if function is None or node.keywords:
        raise ValueError(f"may call {', '.join(FUNCTIONS)}, but not {ast.unparse(node)!r}")
    return _strict(function, node.args, places)


_BUILDERS: Final[dict[type[ast.expr], Callable[[Any, Mapping[str, int]], Evaluate]]] = {
    ast.Attribute: _column,
    ast.BinOp: _operation,
    ast.BoolOp: _boolean,
    ast.Call: _call,
    ast.Compare: _comparison,
    ast.Constant: _constant,
    ast.IfExp: _choice,
    ast.Name: _column,
    ast.UnaryOp: _operation,
}
