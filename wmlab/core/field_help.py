"""What a field of a value is for, in one sentence: the one that the docstring of its class has about it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc, get_annotations
from typing import Final

_PARAGRAPHS: Final = re.compile(r"\n\s*\n|\n(?=- )")
_ENDS: Final = re.compile(r"(?<=\.)\s+(?=[A-Z`\"])|(?<=;)\s+(?=`\w+`:)")


@cache
def help_of(part: type, field: str) -> str:
    """The first sentence that names the field in backquotes; "" if there is none.

    It is looked for in the docstring of the class and of those it extends, of a class that inherits the field from the
    same one, and of the module.
    """
    owner = next(base for base in part.__mro__ if field in get_annotations(base))
    classes = dict.fromkeys((*part.__mro__[:-1], *owner.__subclasses__()))
    for docstring in (
        *(described.__dict__.get("__doc__") for described in classes),
        sys.modules[part.__module__].__doc__,
    ):
        for entry in _of(docstring):
            if f"`{field}`" in entry or f"`{field}=" in entry:
                return _alone(entry.removeprefix(f"`{field}`: "))
    return ""


def first_sentence(part: type) -> str:
    """What the class itself is, in one sentence."""
    return next(_of(part.__doc__), "")


def _of(docstring: str | None) -> Iterator[str]:
    for paragraph in _PARAGRAPHS.split(cleandoc(docstring or "")):
        yield from _ENDS.split(" ".join(paragraph.removeprefix("- ").split()))


def _alone(sentence: str) -> str:
    begun = sentence[:1].upper() + sentence[1:]
    return begun if begun.endswith((".", ")", '"')) else f"{begun.rstrip(':;,')}."
