"""The words by which somebody looks for a scenario notebook, from the page that sorts these by what one sees."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[1] / "notebooks" / "scenarios" / "README.md"


def words_of(notebook: str) -> tuple[str, ...]:
    """The words of the section that lists the notebook, a name without suffix; () if the page does not list it."""
    return _words().get(notebook, ())


@cache
def _words() -> dict[str, tuple[str, ...]]:
    words = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        text = section.partition("\n|")[0]
        found = tuple(dict.fromkeys(re.findall(r"\w+", text.lower())))
        words |= dict.fromkeys(re.findall(r"\((\w+)\.ipynb\)", section), found)
    return words
