"""The glossary has the words of the documents, and the names to which it sends their readers exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_seeds import PLACES, exists

ROOT = Path(__file__).parents[2]
TERMS, WORDS, USE = re.split(r"^## .*$", (ROOT / "docs" / "glossary.md").read_text(), flags=re.MULTILINE)
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")] for line in WORDS.splitlines() if line.startswith("| ")
][1:]
CODE = "\n".join(path.read_text() for path in (ROOT / "wmlab").rglob("*.py"))


IDENTIFIERS = """
    writerId createEventWriter createTransactionalEventWriter EventStreamWriter TransactionalEventStreamWriter
    EventStreamReader StreamConfiguration EventWriterConfig noteTime automaticallyNoteTime commit(timestamp)
    commitTransaction timestampAggregationTimeout timestampAggrigationTimeout getCurrentTimeWindow
    getMostRecentWatermark TimeWindow lowerTimeBound upperTimeBound timestamp streamCut Position lastWrittenPosition
    noteTimestampFromWriter noteTimestamp() writerShutdown currentSegmentWriteOffset newTargetWriteOffset DataAppended
    SegmentMerged getSegmentLength ReaderGroupState getCheckpoint getStreamCut findNextAttributeFollowing
    computeGreatestUpperBound addToUpperBound computeStreamCut
    wm(N, M)|Watermark|IDLE_MESSAGE|IDLE_MESAGE|tryProcessWatermark(watermark)|tryProcessWatermark(ordinal, watermark)
    OriginId SequenceNumber ChunkNumber lastChunk seenAllChunks
"""
"""The identifiers of the documents, between blanks, or bars where they have blanks."""
PHRASES = (
    "generation",
    "greatest upper bound",
    "known set",
    "marks segment",
    "time barrier",
    "index segment",
    "binary search",
    "WM coalescing",
    "Watermark timestamp",
    "local watermark",
    "global watermark",
    "longest consecutive sequence",
    "tuple buffer",
)


def identifiers() -> list[str]:
    return [
        word for line in IDENTIFIERS.splitlines() for word in (line.strip().split("|") if "|" in line else line.split())
    ]


@pytest.mark.parametrize("word", [*identifiers(), *PHRASES])
def test_a_word_of_the_documents_leads_to_a_name(word: str) -> None:
    rows = [row for row in ROWS if f"`{word}`" in row[0] or word in row[0].split(", ")]
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


def test_a_word_to_use_is_a_term_and_what_it_replaces_is_none() -> None:
    terms = {
        term
        for line in TERMS.splitlines()
        if line.startswith("| ")
        for term in line.strip("| ").split(" | ")[0].split(", ")
    }
    rows = [line.strip("| ").split(" | ") for line in USE.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for instead, use, *_ in rows:
        assert set(re.split(r", |; ", use)) & terms, use
        assert not set(instead.split(", ")) & terms, instead


def test_generation_and_upper_bound_are_those_of_the_document_and_of_the_code() -> None:
    meaning = dict(line.strip("| ").split(" | ", 1) for line in TERMS.splitlines() if line.startswith("| "))
    assert "previous lower bound" in meaning["generation"]
    assert "noted time" in meaning["upper bound"]
    assert "first watermark that is ahead" in meaning["upper bound"]
