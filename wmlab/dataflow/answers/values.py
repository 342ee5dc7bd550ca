"""The answers about a recorded dataflow as values: why a vertex or a window waits, and which rows were dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from wmlab.core.answers import Cell, TableAnswer
from wmlab.core.facts import FactAnswer, Facts
from wmlab.core.words import grouped
from wmlab.dataflow.answers.cause import Holder
from wmlab.dataflow.answers.vocabulary import BECAUSE, LATE, LostBecause

_ROWS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DroppedRow(FactAnswer):
    """A `row` that was dropped: by which rule, by how much it was late, and why the watermark had passed it.

    `facts.label(name)` has the meaning of each label; a time is in the unit of its column.
    """

    row: dict[str, Any]
    facts: Facts

    @property
    def because(self) -> LostBecause:
        """Why the watermark had passed it."""
        return LostBecause(str(self.facts["lost because"]))

    @property
    def templates(self) -> tuple[str, ...]:  # type: ignore[override]
        """The drop, and its cause."""
        return LATE, *BECAUSE[self.because]

    def number(self, label: str) -> int:
        """The value of a label that is a number."""
        value = self.facts[label]
        assert isinstance(value, int)
        return value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Drops(FactAnswer, TableAnswer[DroppedRow]):
    """The rows that were dropped, in the order of the clock."""

    rows: tuple[DroppedRow, ...]
    facts: Facts
    templates: tuple[str, ...]

    entries = "rows"
    heads = ("row", "dropped by", "rule", "key", "time", "late by", "dropped at", "lost because", "partition")
    left = (0, 1, 2, 7, 8)

    def to_dict(self) -> dict[str, Any]:
        """The drops as dicts, lists and scalars."""
        return FactAnswer.to_dict(self) | {"rows": [drop.to_dict() for drop in self.rows]}

    def to_pandas(self) -> Any:
        """One row per drop as a pandas DataFrame: `row` as JSON, and a column for each label of the facts."""
        import pandas as pd

        return pd.DataFrame([{**drop.facts, "row": json.dumps(drop.row, ensure_ascii=False)} for drop in self.rows])

    def __repr__(self) -> str:
        lines = [f"  {drop.sentence}" for drop in (self.rows[:_ROWS_SHOWN] if len(self) > 1 else ())]
        more = [f"  {grouped(len(self) - _ROWS_SHOWN)} more"] if len(self) > _ROWS_SHOWN else []
        return "\n".join([self.sentence, *lines, *more])

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for drop in self.rows[:_ROWS_SHOWN]:
            words = {label.name: ", ".join(texts) for label, texts in drop.facts.rows()}
            yield tuple(words.get(head) for head in self.heads)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(FactAnswer):
    """Why a watermark or a window is where it is at `at_ms` (clock, ms).

    `cause` is one word: held, moving, idle, ended, failed, completed, stuck; for a window:
    came out, empty, waiting or failed. `watermark` is the last one that `vertex` emitted for `key`, `since_ms` is when
    it last moved (for a window that came out: when it did), and `needed` is the watermark that would release it.
    `holders` are the inputs that hold it; `release_ms` is when it is released if nothing else happens. Each is None if
    unknown or if there is none. `facts.label(name)` has the
    meaning of each label.
    """

    at_ms: int
    stream: str
    vertex: str
    instance: int | None = None
    key: int
    cause: str
    watermark: int | None = None
    since_ms: int | None = None
    needed: int | None = None
    holders: tuple[Holder, ...] = ()
    release_ms: int | None = None
    facts: Facts
    templates: tuple[str, ...]
