"""The reader of short notations: a text is taken token by token, a mistake is reported at its character.

A pattern for each token is all that these notations need.
"""

from __future__ import annotations

import re
from typing import Final

from wmlab.core.errors import ModelError
from wmlab.core.words import shown

_SHOWN: Final = 20
"""The most characters that an error quotes of what is there instead."""


class TextReader:
    """What is left of a text; what matches `ignored` between tokens does not matter.

    >>> reader = TextReader("wm(0, x)")
    >>> reader.take(r"wm\\(", "wm(")
    'wm('
    >>> reader.integer("the input")
    0
    >>> reader.take(",", "a comma")
    ','
    >>> reader.integer("the watermark")
    Traceback (most recent call last):
        ...
    wmlab.core.errors.ModelError: Character 7 of the text is wrong: the watermark is expected, not 'x)'.
        wm(0, x)
              ^
    To repair it: write the watermark there.
    """

    def __init__(self, text: str, *, ignored: str = r"\s*") -> None:
        if not isinstance(text, str):
            raise ModelError(f"{shown(text)} is not text.", remedy="write the text as text.")
        self._text = text.rstrip()
        self._ignored = re.compile(ignored)
        self.index = 0
        self._skip()

    def _skip(self) -> None:
        if (blank := self._ignored.match(self._text, self.index)) is not None:
            self.index = blank.end()

    @property
    def at_end(self) -> bool:
        """Whether all of the text is read."""
        return self.index == len(self._text)

    def take_if(self, pattern: str) -> str | None:
        """The next token if it matches, else None, and nothing is read."""
        token = re.compile(pattern).match(self._text, self.index)
        if token is None:
            return None
        self.index = token.end()
        self._skip()
        return token[0]

    def take(self, pattern: str, expected: str) -> str:
        """The next token. Raises the error at its first character if it does not match; `expected` names it."""
        token = self.take_if(pattern)
        if token is None:
            rest = self._text[self.index :].partition("\n")[0]
            instead = repr(rest[:_SHOWN]) if rest else "the end" if self.at_end else "the end of the line"
            raise self.error(self.index, f"{expected} is expected, not {instead}", f"write {expected} there")
        return token

    def integer(self, expected: str) -> int:
        """The whole number that comes next; raises the error at its first character."""
        return int(self.take(r"-?[0-9]+", expected))

    def error(self, index: int, problem: str, remedy: str) -> ModelError:
        """The error for what is wrong at a character of the text, with its line and a mark under it."""
        line_begin = self._text.rfind("\n", 0, index) + 1
        line = self._text[line_begin:].partition("\n")[0]
        number = self._text.count("\n", 0, index) + 1
        in_line = f" in line {number}" if "\n" in self._text.strip() else ""
        where = f"Character {index - line_begin + 1}{in_line} of the text"
        mark = " " * (index - line_begin) + "^"
        return ModelError(f"{where} is wrong: {problem}.\n    {line}\n    {mark}", remedy=f"{remedy}.")
