"""Words that are never needed do not come back: see "Words" in docs/development.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest

from tests.project import source

PHRASES = re.compile(r"\b(anew|of one's own|whoever|whose it is)\b", re.IGNORECASE)
BESIDE = re.compile(r"\bbeside\b", re.IGNORECASE)
"""As a word of a sentence; some parameters have this name."""
PAGES = [page for page in source.ROOT.rglob("*.md") if not {".venv", ".wmlab", "reference"} & {*page.parts}]
MODULES = sorted((source.ROOT / "wmlab").rglob("*.py"))
NOTEBOOKS = sorted((source.ROOT / "notebooks").glob("*/*.ipynb"))


def sentences_of(module: Path) -> str:
    """The docstrings of a module, without what stands in backticks."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    texts = [
        line.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for line in node.body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
    ]
    return re.sub(r"`[^`]*`", "", "\n".join(texts))


def found_in(text: str) -> list[str]:
    return [match[0] for match in (*PHRASES.finditer(text), *BESIDE.finditer(text))]


@pytest.mark.parametrize("text", ["It begins anew.", "a rule of one's own", "Whoever comes", "Beside the log"])
def test_each_of_these_words_is_noticed(text: str) -> None:
    assert found_in(text) != []


def test_no_docstring_has_one() -> None:
    assert len(MODULES) > 200
    assert {str(module): words for module in MODULES if (words := found_in(sentences_of(module)))} == {}


def test_no_page_has_one() -> None:
    rules = "docs/development.md"
    pages = {str(page.relative_to(source.ROOT)): found_in(page.read_text(encoding="utf-8")) for page in PAGES}
    assert pages.pop(rules) != [], "the rules name them"
    assert {page: words for page, words in pages.items() if words} == {}


def test_no_text_of_a_notebook_has_one() -> None:
    assert len(NOTEBOOKS) > 50
    texts = {
        path.name: "\n".join(
            cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"
        )
        for path in NOTEBOOKS
    }
    assert {name: words for name, text in texts.items() if (words := found_in(text))} == {}
