"""A reader who comes from one of the documents finds it, its rules and its examples at once."""

from __future__ import annotations

import json
import re
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


ONE_CLICK = {
    "`TimeWindow`": ("less than or equal to the most recent value", "greater than or equal to any", "time_bounds("),
    "time **T**": ("composed of a time", "first_after_split", "event boundary", 'check("I3", "I4"'),
    "(1/off1, 2/off2)": ("wm.paper.cut(", "probe_on_seal=False"),
    "case a": ("known set", "time\nbarrier", '"Case b"', "wm.chart.generations("),
    "`timestampAggregationTimeout`": ("will be forgotten", "null_without_writers", "timestamp_aggregation_timeout_ms"),
    "buckets": ("*Buckets*", 'CrashController(at_ms="35 s", controller="leader")', "wm.chart.bucket_ownership("),
    "`commit(timestamp)`": ("TransactionalWriter(", "LoseMergeReply(", "writer_marks"),
    "the map from reader": ("from Reader to timestamp", 'read_side="document"', "enters_time"),
    "coalescing": ("wm.paper.coalesce(", "`IDLE_MESSAGE`", "merge_over_join", "join_over_join"),
    "the diagram": ("wm.paper.sequence_table(", "seenAllChunks", 'rules="diagram"', "wm.progress.chart.plan("),
}
"""What a reader of the documents looks for first: a word of its row in the README, and what the linked files show."""


@pytest.mark.parametrize("word", ONE_CLICK)
def test_what_a_reader_looks_for_first_is_one_click_from_the_readme(word: str) -> None:
    (row,) = [line for line in README.splitlines() if line.startswith("| ") and word in line.split(" | ")[0]]
    linked = [ROOT / path for path in re.findall(r"\]\(([^)#]+)\)", row)]
    shown = "\n".join(map(source_of, linked))
    assert [text for text in ONE_CLICK[word] if text not in shown] == []


def source_of(path: Path) -> str:
    """The text of a page, or the cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"]) if path.suffix == ".ipynb" else text


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
