"""The glossary has the words of the documents, and the names to which it sends their readers exist."""

from __future__ import annotations

import re

from tests.docs.names import DOCUMENTS, ROOT, exists, in_backticks, rows

TERMS, WORDS, USE = (
    [row.cells for row in rows((ROOT / "docs" / "glossary.md").read_text()) if row.heading == heading]
    for heading in ("", "The words of the documents", "The word to use")
)
CODE = "\n".join(path.read_text() for path in (ROOT / "wmlab").rglob("*.py"))

DOCUMENT_WORDS = """
    writerId createEventWriter createTransactionalEventWriter EventStreamWriter TransactionalEventStreamWriter
    EventStreamReader StreamConfiguration EventWriterConfig noteTime automaticallyNoteTime commit(timestamp)
    commitTransaction timestampAggregationTimeout timestampAggrigationTimeout getCurrentTimeWindow
    getMostRecentWatermark TimeWindow lowerTimeBound upperTimeBound timestamp streamCut Position lastWrittenPosition
    noteTimestampFromWriter noteTimestamp() writerShutdown currentSegmentWriteOffset newTargetWriteOffset DataAppended
    SegmentMerged getSegmentLength ReaderGroupState getCheckpoint getStreamCut findNextAttributeFollowing
    computeGreatestUpperBound addToUpperBound computeStreamCut
    wm(N, M)|Watermark|IDLE_MESSAGE|IDLE_MESAGE|tryProcessWatermark(watermark)|tryProcessWatermark(ordinal, watermark)
    OriginId SequenceNumber ChunkNumber lastChunk seenAllChunks
    generation|greatest upper bound|known set|marks segment|time barrier|index segment|binary search|WM coalescing
    Watermark timestamp|local watermark|global watermark|longest consecutive sequence|tuple buffer
"""
"""The identifiers and phrases of the documents, between blanks, or bars where they have blanks."""


def document_words() -> list[str]:
    lines = [line.strip() for line in DOCUMENT_WORDS.splitlines()]
    return [word for line in lines for word in (line.split("|") if "|" in line else line.split())]


def test_each_word_of_the_documents_leads_to_a_name() -> None:
    explained = {
        word for words, _, names in WORDS for word in [*in_backticks(words), *words.split(", ")] if in_backticks(names)
    }
    assert [word for word in document_words() if word not in explained] == []


def test_the_names_that_a_word_leads_to_exist() -> None:
    assert {document for _, document, _ in WORDS} == DOCUMENTS.keys()
    missing = [
        (word, name) for word, document, names in WORDS for name in in_backticks(names) if not exists(document, name)
    ]
    assert missing == []
    kinds = [kind for _, _, names in WORDS for kind in re.findall(r"`\w+\.kind`: ([\w ]+?)(?:[,;]|$)", names)]
    assert kinds
    assert [kind for kind in kinds if f'"{kind}"' not in CODE and f'"{kind} ' not in CODE] == []


def test_no_term_has_two_meanings() -> None:
    terms = [term for term, _ in TERMS]
    assert len(terms) == len(set(terms)) > 35
    assert terms == sorted(terms, key=str.lower)


def test_a_word_to_use_is_a_term_and_what_it_replaces_is_none() -> None:
    terms = {term for words, _ in TERMS for term in words.split(", ")}
    assert len(USE) > 15
    for instead, use, _ in USE:
        assert set(re.split(r", |; ", use)) & terms, use
        assert not set(instead.split(", ")) & terms, instead


def test_generation_and_upper_bound_are_those_of_the_document_and_of_the_code() -> None:
    meaning = dict(TERMS)
    assert "previous lower bound" in meaning["generation"]
    assert "noted time" in meaning["upper bound"]
    assert "first watermark that is ahead" in meaning["upper bound"]
