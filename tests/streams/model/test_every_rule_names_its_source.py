"""Each module of the model says what it is and where it comes from; everything public in it says what it is."""

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


def source(docstring: str) -> str:
    return " ".join(docstring.partition("Source:")[2].split()).rstrip(".")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_names_its_source_and_what_is_public_has_a_docstring_with_another(path: Path) -> None:
    tree = ast.parse(path.read_text())
    docstring = ast.get_docstring(tree) or ""
    own = source(docstring)
    assert own or path.stem == "__init__"
    assert len(docstring) > 100
    assert [name for name, text in public(tree) if not text or (source(text) and source(text) in own)] == []
