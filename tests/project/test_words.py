"""Words that are never needed do not come back, and sentences stay short: see "Words" in docs/development.md."""

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
MOST_WORDS = 25
"""Of a sentence of a page or notebook that quotes nothing."""
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


def paragraphs(text: str) -> list[str]:
    """The running text of Markdown, one string a paragraph or entry of a list, without code, tables and headings."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|^ {4}\S.*$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^\s*([-*]|\d+\.)\s+", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*(#|\||<|!\[|\$\$|:::).*$", "", text, flags=re.MULTILINE)
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def long_sentences(text: str) -> list[str]:
    """The sentences of more than `MOST_WORDS` words. Code is one word, and so is a link."""
    prose = "\n".join(paragraphs(re.sub(r"(?<!`)`[^`\n]+(\n[^`\n]+)?`", "code", text)))
    prose = re.sub(r"\[[^\]]*\]\([^)]*\)", "link", prose).replace(" · ", ". ")
    sentences = re.split(r"(?:(?<=[.!?:;])|(?<=[.!?]\*\*)|(?<=[.!?][\")]))\s", prose)
    return [text for text in sentences if len(text.split()) > MOST_WORDS and '"' not in text]


def test_a_long_sentence_is_noticed() -> None:
    words = "One sentence with many words, " * 5
    assert long_sentences(f"Short.\n\n- Short.\n- {words}and `a piece of code`. Short.") == [f"{words}and code."]
    assert long_sentences(f'Says the document: "{words}".') == []
    assert long_sentences(f"```\n{words}\n```\n| {words} |") == []


def test_the_sentences_of_pages_and_notebooks_are_short() -> None:
    texts = {str(page.relative_to(source.ROOT)): page.read_text(encoding="utf-8") for page in PAGES} | {
        path.name: "\n\n".join(
            cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"
        )
        for path in NOTEBOOKS
    }
    assert {name: sentences for name, text in texts.items() if (sentences := long_sentences(text))} == {}
