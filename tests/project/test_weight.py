"""A ceiling on what the package weighs: its statements, and its text templates outside errors and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.project.source import modules

MOST_STATEMENTS = 38_668
MOST_TEMPLATES = 2_142
"""Never raised: what one part adds, another one saves."""

_ENDINGS_OF_ERRORS = ("Error", "Problem", "Unknown")
_WORD = re.compile(r"[A-Za-z]{2,}")


def statements_in(tree: ast.AST) -> int:
    """How many statements there are in a syntax tree, the inner ones too."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree))


def templates_in(tree: ast.AST) -> int:
    """How many texts in a syntax tree are sentences or parts of one, without those of errors and docstrings."""
    return sum(map(_is_template, _outside_errors(tree)))


def _outside_errors(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that is neither in an error nor a docstring; a raised or made error is left out with all in it."""
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _called(node).endswith(_ENDINGS_OF_ERRORS)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.Expr) and isinstance(child, ast.Constant)):
            yield from _outside_errors(child)


def _called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    called = call.func
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def _is_template(node: ast.AST) -> bool:
    """An f-string with three words of its own, or another text with four that is not all in capitals."""
    if isinstance(node, ast.JoinedStr):
        texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
        return len(_WORD.findall(" ".join(texts))) >= 3
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return len(node.value.split()) >= 4 and not node.value.isupper()
    return False


def test_the_package_weighs_no_more_than_its_ceiling() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in modules()]
    assert sum(map(statements_in, trees)) <= MOST_STATEMENTS
    assert sum(map(templates_in, trees)) <= MOST_TEMPLATES


@pytest.mark.parametrize(
    ("source", "statements", "templates"),
    [
        ("if a:\n    b = 1\nelse:\n    c()", 3, 0),
        ("a = 1; b = 2", 2, 0),
        ('"""What it is for, in words."""\ndef f():\n    """Of four words here."""', 3, 0),
        ("a = 'a text of five words'", 1, 1),
        ("a = 'only three words'", 1, 0),
        ("a = 'SELECT ALL FROM ROWS'", 1, 0),
        ("a = f'{b} is {c} and so {d} more'", 1, 1),
        ("a = f'{b} is {c}'", 1, 0),
        ("a = f'{b}' f' has {c} of those that are there'", 1, 2),
        ("a = {'key': ['a text of five words', 'another one of five words']}", 1, 2),
        ("raise KeyError('a text of five words' + f'{a} of the three')", 1, 0),
        ("yield Problem(('field',), 'a text of five words')", 1, 0),
        ("a = errors.ModelError('a text of five words', remedy=f'give {b} or one of those')", 1, 0),
        ("a = make('a text of five words')", 1, 1),
        ("a = table['b']('a text of five words')", 1, 1),
    ],
)
def test_what_counts(source: str, statements: int, templates: int) -> None:
    tree = ast.parse(source)
    assert (statements_in(tree), templates_in(tree)) == (statements, templates)
