"""The glossary has the words of the documents, and the names to which it sends their readers exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_seeds import PLACES, exists

ROOT = Path(__file__).parents[2]
TERMS, _, WORDS = (ROOT / "docs" / "glossary.md").read_text().partition("## The words of the documents")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")] for line in WORDS.splitlines() if line.startswith("| ")
][1:]
CODE = "\n".join(path.read_text() for path in (ROOT / "wmlab").rglob("*.py"))


@pytest.mark.parametrize(
    "word",
    [
        "getCurrentTimeWindow",
        "getSegmentLength",
        "noteTime",
        "writerShutdown",
        "noteTimestampFromWriter",
        "tryProcessWatermark",
        "IDLE_MESSAGE",
        "greatest upper bound",
        "generation",
        "known set",
        "binary search",
        "OriginId",
        "seenAllChunks",
    ],
)
def test_a_word_of_the_documents_leads_to_a_name(word: str) -> None:
    rows = [row for row in ROWS if re.search(rf"\b{word}\b", row[0])]
    assert rows, word
    assert any("`" in row[2] for row in rows)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_names_that_a_word_leads_to_exist(row: list[str]) -> None:
    word, document, here = row
    assert document in PLACES
    assert [name for name in re.findall(r"`([^`]+)`", here) if not exists(document, name)] == []
    for kind in re.findall(r"`\w+\.kind`: ([\w ]+?)(?:[,;]|$)", here):
        assert f'"{kind}"' in CODE or f'"{kind} ' in CODE, f"{word}: no {kind}"


def test_no_term_has_two_meanings() -> None:
    terms = [line.strip("| ").split(" | ")[0] for line in TERMS.splitlines() if line.startswith("| ")][1:]
    assert len(terms) == len(set(terms)) > 35
    assert terms == sorted(terms, key=str.lower)


def test_generation_and_upper_bound_are_those_of_the_document_and_of_the_code() -> None:
    meaning = dict(line.strip("| ").split(" | ", 1) for line in TERMS.splitlines() if line.startswith("| "))
    assert "previous lower bound" in meaning["generation"]
    assert "noted time" in meaning["upper bound"]
    assert "first watermark that is ahead" in meaning["upper bound"]
