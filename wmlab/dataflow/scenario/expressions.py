"""Expressions over the columns of a row: what a dataflow in a file has in place of Python functions.

The notation is Python's, the meaning is SQL's where a value is missing: arithmetic and comparisons with None give None,
which counts as false. There are columns, numbers, texts, `+ - * / // %`, comparisons, `and or not`, `is None`,
`a if c else b`, and a few functions. An expression is read by the parser and never executed as code.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from wmlab.core.errors import ScenarioError

Row = Sequence[Any]
Evaluate = Callable[[Row], Any]

_COLUMN: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?")
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
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


def parse(text: str) -> ast.expr:
    """The expression as a tree; raises `ValueError` that says what is not understood."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"is not an expression: {error.msg}") from None
    for _ in _names(tree):
        pass
    _compiled(tree, _AnyColumn())
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


def _require(text: str) -> str:
    parse(text)
    return text.strip()


Expression = Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(_require)]
"""An expression over the columns of a row."""


class _AnyColumn(dict[str, int]):
    """Every column exists: for a check of everything else."""

    def __missing__(self, key: str) -> int:
        return 0


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


def _binary(node: Any, places: Mapping[str, int]) -> Evaluate:
    apply = _ARITHMETIC.get(type(node.op))
    if apply is None:
        raise ValueError(f"may not use the operator of {ast.unparse(node)!r}")
    left, right = _compiled(node.left, places), _compiled(node.right, places)

    def evaluate(row: Row) -> Any:
        a, b = left(row), right(row)
        return None if a is None or b is None else apply(a, b)

    return evaluate


def _unary(node: Any, places: Mapping[str, int]) -> Evaluate:
    inner = _compiled(node.operand, places)
    if not isinstance(node.op, ast.Not | ast.USub):
        raise ValueError(f"may not use the operator of {ast.unparse(node)!r}")
    apply = operator.not_ if isinstance(node.op, ast.Not) else operator.neg

    def evaluate(row: Row) -> Any:
        value = inner(row)
        return None if value is None else apply(value)

    return evaluate


def _comparison(node: Any, places: Mapping[str, int]) -> Evaluate:
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot):
        return _missing(node, places)
    tests = [_COMPARISONS.get(type(op)) for op in node.ops]
    if None in tests:
        raise ValueError(f"may not use the comparison of {ast.unparse(node)!r}")
    parts = [_compiled(part, places) for part in (node.left, *node.comparators)]

    def evaluate(row: Row) -> Any:
        values = [part(row) for part in parts]
        if any(value is None for value in values):
            return None
        return all(test(a, b) for test, a, b in zip(tests, values, values[1:], strict=False) if test is not None)

    return evaluate


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
    parts = [_compiled(part, places) for part in node.args]

    def evaluate(row: Row) -> Any:
        values = [part(row) for part in parts]
        return None if any(value is None for value in values) else function(*values)

    return evaluate


_BUILDERS: Final[dict[type[ast.expr], Callable[[Any, Mapping[str, int]], Evaluate]]] = {
    ast.Attribute: _column,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Call: _call,
    ast.Compare: _comparison,
    ast.Constant: _constant,
    ast.IfExp: _choice,
    ast.Name: _column,
    ast.UnaryOp: _unary,
}
