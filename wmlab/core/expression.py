"""Expressions over the columns of a row: the conditions of filters and joins, and the columns of maps.

The notation is Python's, the meaning is SQL's where a value is missing: arithmetic and comparisons with None give None,
which counts as false. An expression is read by the parser and never executed as code; it is nested at most 100 levels
deep.

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from wmlab.core.errors import FunctionError, ScenarioError
from wmlab.core.values import is_function, without_functions

Cells = Sequence[Any]
Evaluate = Callable[[Cells], Any]

_LOST: Final = "function "
"""How a function is written where it cannot be kept."""
_DEEPEST: Final = 100
_COLUMN: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?")


def _of_numbers(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operation that Python also has for texts and lists, where its result can fill any memory."""

    def calculated(a: Any, b: Any) -> Any:
        if isinstance(a, str | tuple) or isinstance(b, str | tuple):
            raise TypeError("only numbers are multiplied and divided")
        return operation(a, b)

    return calculated


_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _of_numbers(operator.mul),
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: _of_numbers(operator.mod),
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
        too_deep = _depth(tree) > _DEEPEST
    except SyntaxError as error:
        raise ValueError(f"is not an expression: {error.msg}; write it as in Python, for example price * 2") from None
    except (RecursionError, MemoryError):  # of the parser as well
        too_deep = True
    if too_deep:
        raise ValueError(f"is nested deeper than {_DEEPEST} levels")
    _compiled(tree, defaultdict(int))
    return tree


def _depth(node: ast.AST) -> int:
    return 1 + max(map(_depth, ast.iter_child_nodes(node)), default=0)


def columns_read(text: str) -> tuple[str, ...]:
    """The columns that an expression reads, each once, in order; those of a join are dotted, as in `left.t`."""
    return tuple(dict.fromkeys(_names(parse(text))))


def compiled(text: str, indices: Mapping[str, int]) -> Evaluate:
    """A function from a row to the value of the expression; `indices` has that of every column in the row.

    What goes wrong in a row, a division by zero for example, is a `ScenarioError` with the expression and the row.
    """
    evaluate = _compiled(parse(text), indices)

    def guarded(row: Cells) -> Any:
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
        if unknown := [name for name in columns_read(offered) if name not in names]:
            raise ValueError(f"knows no {unknown[0]!r}; there are: {', '.join(names)}")
        return offered.strip()

    return checked


def number_by(rule: Any) -> Callable[[Mapping[str, Any]], int | None]:
    """The whole number that an expression or a function gives for values by name; None if it gives none.

    Anything but a 64-bit integer is a `ScenarioError`, and so is a function that a recording has only the name of. A
    function that raises an error is a `FunctionError`, from that error.
    """
    if isinstance(rule, str) and rule.startswith(_LOST):
        raise ScenarioError(f"{rule} was not kept with the scenario.", remedy="give the function again.")
    names = () if is_function(rule) else columns_read(rule)
    evaluate = None if is_function(rule) else compiled(rule, {name: index for index, name in enumerate(names)})

    def number(known: Mapping[str, Any]) -> int | None:
        try:
            result = rule(dict(known)) if evaluate is None else evaluate([known[name] for name in names])
        except Exception as error:
            if evaluate is not None:
                raise
            raise FunctionError.of(repr(without_functions(rule)), error, str(dict(known))) from error
        if result is None or (isinstance(result, int) and not isinstance(result, bool) and -(2**63) <= result < 2**63):
            return result
        raise ScenarioError(
            f"{without_functions(rule)!r} gives {result!r} for {dict(known)}, which is no 64-bit integer.",
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


def join_time_bounds(
    condition: str, indices: Mapping[str, int], left: Collection[int], right: Collection[int]
) -> dict[int, dict[int, int]]:
    """The bounds that a condition sets between the time columns of both sides, by index in the joined row."""
    bounds: dict[int, dict[int, int]] = {}
    for left_side, comparison, right_side in required_comparisons(condition):
        terms: Counter[int | None] = Counter()
        if not (_added(terms, left_side, 1, indices) and _added(terms, right_side, -1, indices)):
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


def _added(terms: Counter[int | None], node: ast.expr, sign: int, indices: Mapping[str, int]) -> bool:
    """Adds a sum or difference to the factor of each column and the constant under None; false for anything else."""
    match node:
        case ast.Name() | ast.Attribute() if (index := indices.get(ast.unparse(node))) is not None:
            terms[index] += sign
        case ast.Constant(value=number) if type(number) is int:
            terms[None] += sign * number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _added(terms, operand, -sign, indices)
        case ast.BinOp(left=augend, op=ast.Add() | ast.Sub(), right=addend):
            opposite = -sign if isinstance(node.op, ast.Sub) else sign
            return _added(terms, augend, sign, indices) and _added(terms, addend, opposite, indices)
        case _:
            return False
    return True


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=ast.Name(id=side), attr=name):
            yield f"{side}.{name}"
        case _:
            inner = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
            for child in inner:
                yield from _names(child)


def _compiled(node: ast.expr, indices: Mapping[str, int]) -> Evaluate:
    match node:
        case ast.Constant(value=value):
            if not isinstance(value, int | float | str | bool | None):
                raise ValueError(f"may not use the constant {value!r}")
            return lambda _: value
        case ast.Name() | ast.Attribute():
            name = ast.unparse(node)
            if not _COLUMN.fullmatch(name):
                raise ValueError(f"is not a column: {name!r}")
            return operator.itemgetter(indices[name])
        case ast.BoolOp(op=op, values=values):
            return _boolean([_compiled(part, indices) for part in values], decisive=isinstance(op, ast.Or))
        case ast.IfExp(test=condition, body=body, orelse=other):
            test, yes, no = (_compiled(part, indices) for part in (condition, body, other))
            return lambda row: yes(row) if test(row) else no(row)
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[right]):
            inner, missing = _compiled(left, indices), isinstance(op, ast.Is)
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise ValueError(f"may compare by 'is' with None only, not as in {ast.unparse(node)!r}")
            return lambda row: (inner(row) is None) is missing
    apply, parts = _applied(node)
    compiled_parts = [_compiled(part, indices) for part in parts]

    def evaluate(row: Cells) -> Any:
        values = [part(row) for part in compiled_parts]
        return None if any(value is None for value in values) else apply(*values)

    return evaluate


def _boolean(parts: Sequence[Evaluate], *, decisive: bool) -> Evaluate:
    """All parts connected by `or`, where one true part decides, or by `and`, where one false part decides."""

    def evaluate(row: Cells) -> Any:
        unknown = False
        for part in parts:
            value = part(row)
            if value is None:
                unknown = True
            elif bool(value) is decisive:
                return decisive
        return None if unknown else not decisive

    return evaluate


def _applied(node: ast.expr) -> tuple[Callable[..., Any], Sequence[ast.expr]]:
    """A function and the parts that it is a function of; where one of them is None, so is the result."""
    match node:
        case ast.UnaryOp(op=op, operand=operand):
            return _operator(op, node), [operand]
        case ast.BinOp(left=left, op=op, right=right):
            return _operator(op, node), [left, right]
        case ast.Compare(left=left, ops=ops, comparators=others):
            tests = [_operator(op, node) for op in ops]

            def all_hold(*values: Any) -> bool:
                return all(test(a, b) for test, a, b in zip(tests, values, values[1:], strict=False))

            return all_hold, [left, *others]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name], arguments
        case ast.Call():
            raise ValueError(f"may call {', '.join(FUNCTIONS)}, but not {ast.unparse(node)!r}")
    raise ValueError(f"may not use {type(node).__name__.lower()} as in {ast.unparse(node)!r}")


def _operator(op: ast.AST, node: ast.expr) -> Callable[..., Any]:
    if type(op) not in _OPERATORS:
        name = "comparison" if isinstance(node, ast.Compare) else "operator"
        raise ValueError(f"may not use the {name} of {ast.unparse(node)!r}")
    return _OPERATORS[type(op)]
