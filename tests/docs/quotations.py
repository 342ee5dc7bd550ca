"""Quotations of the design documents: how they are found in a text, and what the documents say.

`quotations.json` has the passages that wmlab quotes, word by word, each with its document and section, and all sections
of the documents. It is what this project keeps of the documents: whoever quotes another passage adds it there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

STORED: Final = Path(__file__).with_suffix(".json")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE_OR_QUOTED = re.compile(r'`[^`]*`|"((?:[^"`]|`[^`]*`)+)"|“([^”]+)”')
_LEFT_OUT = re.compile(r"\.\.\.|…|\[[^\]]*\]")
_LINK = re.compile(r"\{@link (?:\w+#)?(\w+)(?:\([^)]*\))?\}")
_JAVA_CALL = re.compile(r"\b[A-Z]\w+\.(\w+)\(\w*\)")


class Passage(NamedTuple):
    """A passage of a document, as `plain` text."""

    document: str
    section: str
    text: str


def plain(text: str) -> str:
    """A text without marks of emphasis, code, links and inner quotations, in straight quotation marks."""
    text = _JAVA_CALL.sub(r"\1", _LINK.sub(r"\1", text.replace("’", "'").replace("‘", "'")))
    return " ".join(re.sub(r'[*_`\\"“”]', "", text).split())


@cache
def passages() -> tuple[Passage, ...]:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return tuple(
        Passage(name, section, plain(text))
        for name, document in stored.items()
        for section, texts in document["passages"].items()
        for text in texts
    )


@cache
def sections() -> frozenset[str]:
    """The titles of all documents and of their sections."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return frozenset(plain(title) for name, document in stored.items() for title in (name, *document["sections"]))


def quotations_in(markdown: str) -> Iterator[str]:
    """What stands in quotation marks in the running text of Markdown, code aside."""
    for paragraph in re.split(r"\n\s*\n", _FENCE.sub("", markdown)):
        for found in _CODE_OR_QUOTED.finditer(" ".join(paragraph.split())):
            if quoted := found[1] or found[2]:
                yield quoted


def pieces(quotation: str) -> list[str]:
    """The parts of a quotation between the places where something is left out."""
    parts = (plain(part).strip(" .,:;?") for part in _LEFT_OUT.split(quotation))
    return [part for part in parts if part]


def sources_of(piece: str) -> list[Passage]:
    """The passages with these words; the first letter may be larger or smaller."""
    spelled = {piece[0].upper() + piece[1:], piece[0].lower() + piece[1:]}
    return [passage for passage in passages() if any(text in passage.text for text in spelled)]
