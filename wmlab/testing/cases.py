"""Cases of rules from a table: steps, and the answers that the systems' own tests and documents give.

A step whose answer is not given has no "answer"; whatever a machine says to it is admitted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from wmlab.testing.known_rules import History


class _Anything:
    """The answer that is not given."""

    def __repr__(self) -> str:
        return "anything"


ANYTHING: Final = _Anything()
"""Stands for an answer that a case does not give."""


@dataclass(frozen=True, slots=True)
class KnownCase:
    """A history with the answer to each of its steps."""

    name: str
    history: History
    answers: tuple[Any, ...]


def cases_of(rule: str) -> Sequence[KnownCase]:
    """The cases of a rule; none, if no table has any."""
    return [
        KnownCase(
            case["name"],
            History(case["parameters"], tuple(row["step"] for row in case["rows"])),
            tuple(row.get("answer", ANYTHING) for row in case["rows"]),
        )
        for case in _table().get(rule, ())
    ]


@cache
def _table() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    text = resources.files("wmlab.testing").joinpath("cases.json").read_text(encoding="utf-8")
    table: Mapping[str, Sequence[Mapping[str, Any]]] = json.loads(text)
    return table
