"""A reader who comes from one of the documents finds it, its rules and its examples at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs import quotations
from tests.docs.names import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIALS = ROOT / "notebooks" / "tutorials"
SETS_OF_RULES = ('rules="sound"', 'rules="design"', 'rules="implementation"')
ADDRESSES = 5


def first_cell(notebook: Path) -> str:
    return "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"])


def test_the_readme_links_the_examples_and_the_requirements_before_its_picture() -> None:
    before = README.partition("![")[0]
    assert "notebooks/tutorials/on_paper.ipynb" in before
    assert "docs/seeds.md" in before


def test_the_readme_names_the_documents_with_their_addresses_and_the_rules() -> None:
    section = README.partition("\n## The documents\n")[2].partition("\n## ")[0]
    stored = json.loads(quotations.STORED.read_text(encoding="utf-8"))
    for name, document in stored.items():
        assert f'"{name}"' in section or name in section
        assert document["address"] in section
    assert section.count("(https://") == ADDRESSES
    for rules in ("sound", "design", "implementation"):
        assert f'| `"{rules}"`' in section


def test_the_first_tutorial_links_the_examples_which_are_twelve_short_cells() -> None:
    on_paper = TUTORIALS / "on_paper.ipynb"
    assert "](on_paper.ipynb)" in first_cell(TUTORIALS / "00_first_bounds.ipynb")
    cells = json.loads(on_paper.read_text(encoding="utf-8"))["cells"]
    assert len(cells) <= 12
    text = "".join(first_cell(on_paper))
    assert [number for number in ("02", "07", "08") if f"[{number} " not in text] == []


FROM_A_DOCUMENT = [path for path in sorted(TUTORIALS.glob("*.ipynb")) if "\n**From " in first_cell(path)]


@pytest.mark.parametrize("notebook", FROM_A_DOCUMENT, ids=lambda path: path.stem)
def test_a_notebook_from_a_document_says_in_its_first_cell_by_which_rules_it_runs(notebook: Path) -> None:
    assert any(rules in first_cell(notebook) for rules in SETS_OF_RULES)


def test_most_tutorials_are_from_a_document() -> None:
    assert len(FROM_A_DOCUMENT) == 12
