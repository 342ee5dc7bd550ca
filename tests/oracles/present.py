"""The facts of an oracle as an answer has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def present(facts: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The facts that have a value; a tuple of one is that value, as an answer has it."""
    found: dict[str, Any] = {}
    for label, value in facts:
        single = value
        if isinstance(value, tuple):
            single = None if all(each is None for each in value) else value[0] if len(value) == 1 else value
        if single is not None:
            found[label] = single
    return found
