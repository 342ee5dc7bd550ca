"""The answers about a recorded dataflow as values: why a vertex or a window waits, and which rows were dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

import pyarrow as pa

from wmlab.core.answers import Answer, Cell, TableAnswer
from wmlab.core.words import clock_words, counted, grouped, is_instant, joined, listed, moment, rounded
from wmlab.dataflow.answers.cause import Holder
from wmlab.dataflow.answers.sentences import row_words
from wmlab.dataflow.answers.state import HeldState

Asked = Literal["watermark", "window"]
_ROWS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedRow:
    """A row that was dropped at `at_ms` (clock) by `rule`: its time lies `margin` below `limit`, both of `key`.

    `passed_ms` is when the deciding watermark had arrived; None if unknown.
    """

    vertex: str
    instance: int
    at_ms: int
    rule: str
    key: int
    time: int
    limit: int
    margin: int
    passed_ms: int | None
    row: dict[str, Any]

    @property
    def sentence(self) -> str:
        """The drop in one sentence."""
        late = ""
        if self.passed_ms is not None:
            late = (
                f"; the watermark that decided had come at {clock_words(self.passed_ms)}, "
                f"{rounded(self.at_ms - self.passed_ms)} before it"
            )
        # Its limit comes from other rows, which have dates where the clock of the run has none.
        clock_ms = self.at_ms if is_instant([self.at_ms]) else self.limit
        time, limit = (moment(value, clock_ms=clock_ms) for value in (self.time, self.limit))
        return joined(
            f"Row ({row_words(self.row)}) was dropped by the {self.rule} rule of {self.vertex} at "
            f"{clock_words(self.at_ms)}: its time {time} is {rounded(self.margin)} below {limit}, the "
            f"lowest that was still taken (key {self.key}){late}."
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Drops(TableAnswer[DroppedRow]):
    """The rows that were dropped, in the order of the clock; `failure` says that the job failed, if it did."""

    stream: str
    rows: tuple[DroppedRow, ...]
    failure: str = ""

    entries = "rows"
    heads = ("row", "vertex", "rule", "key", "at (ms)", "time", "limit", "late by", "passed at (ms)")
    left = (0, 1, 2)

    @property
    def sentence(self) -> str:
        """Which vertices dropped how many rows and by how much; first the failure of the job, if there was one."""
        return joined(self.failure, self._counted())

    def _counted(self) -> str:
        if not self.rows:
            until = " until then" if self.failure else ""
            return f"No row was dropped in {self.stream}{until}."
        if len(self.rows) == 1:
            return self.rows[0].sentence
        margins: dict[tuple[str, str], list[int]] = {}
        for drop in self.rows:
            margins.setdefault((drop.rule, drop.vertex), []).append(drop.margin)
        parts = []
        for (rule, vertex), late_by in sorted(margins.items(), key=lambda entry: -len(entry[1])):
            ends = dict.fromkeys((rounded(min(late_by)), rounded(max(late_by))))
            parts.append(f"{grouped(len(late_by))} by the {rule} rule of {vertex}, late by {' to '.join(ends)}")
        return f"{counted(len(self.rows), 'row')} of {self.stream} were dropped: {listed(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """The drops as dicts, lists and scalars."""
        return asdict(self) | {"sentence": self.sentence}

    def to_pandas(self) -> Any:
        """One row per drop as a pandas DataFrame, with the columns of `DroppedRow`; `row` as JSON."""
        names = [field.name for field in fields(DroppedRow)]
        columns = {name: [getattr(drop, name) for drop in self.rows] for name in names}
        columns["row"] = [json.dumps(row, ensure_ascii=False) for row in columns["row"]]
        return pa.table(columns).to_pandas(integer_object_nulls=True)

    def __repr__(self) -> str:
        first_rows = self.rows[:_ROWS_SHOWN] if len(self) > 1 else ()
        lines = [f"  {drop.sentence}" for drop in first_rows]
        more = [f"  {grouped(len(self) - _ROWS_SHOWN)} more"] if len(self) > _ROWS_SHOWN else []
        return "\n".join([self.sentence, *lines, *more])

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for drop in self.rows[:_ROWS_SHOWN]:
            numbers = drop.key, drop.at_ms, drop.time, drop.limit, drop.margin, drop.passed_ms
            yield f"row ({row_words(drop.row)})", drop.vertex, drop.rule, *numbers


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Answer):
    """Why a watermark or a window is where it is at `at_ms` (clock, ms).

    `asked` says which of them. `cause` is one word: held, moving, idle, ended, failed, completed, stuck; for a window:
    came out, empty, waiting or failed. `watermark` is the last one that `vertex` emitted for `key`, `since_ms` is when
    it last moved (for a window that came out: when it did), and `needed` is the watermark that would release it.
    `holders` are the inputs that hold it; `release_ms` is when it is released if nothing else happens. Each is None if
    unknown or if there is none. `state` says whether the state of the vertex stays bounded.
    """

    at_ms: int
    stream: str
    asked: Asked
    vertex: str
    instance: int | None = None
    key: int
    cause: str
    watermark: int | None = None
    since_ms: int | None = None
    needed: int | None = None
    holders: tuple[Holder, ...] = ()
    release_ms: int | None = None
    state: HeldState | None = None
    sentence: str
