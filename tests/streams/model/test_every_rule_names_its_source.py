"""Each module of the model says what it is and where it comes from, and so does everything public in it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import wmlab.streams.model

MODULES = sorted(Path(wmlab.streams.model.__path__[0]).glob("*.py"))


def public(tree: ast.Module) -> list[tuple[str, str]]:
    """Name and docstring of every public class, function and method."""
    found = []
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node) if isinstance(node, ast.Module | ast.ClassDef) else ():
            if isinstance(child, ast.ClassDef | ast.FunctionDef) and not child.name.startswith("_"):
                found.append((child.name, ast.get_docstring(child) or ""))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_names_its_source(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert "Source:" in docstring or path.stem == "__init__"
    assert len(docstring) > 100


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_everything_public_has_a_docstring_with_its_source(path: Path) -> None:
    silent = [name for name, docstring in public(ast.parse(path.read_text())) if not says_source(docstring)]
    assert silent == []


def says_source(docstring: str) -> bool:
    return "Source:" in docstring or "source:" in docstring


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300
