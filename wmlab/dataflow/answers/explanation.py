"""Answers about a dataflow as values: what holds a watermark, a window or a row, and whether state stays bounded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from wmlab.core.answers.answer import Answer, Cell, TableAnswer
from wmlab.core.words import counted, grouped, listed, moment, span

Asked = Literal["watermark", "window", "row"]
Kind = Literal["slow", "idle", "ended", "no key", "on queue", "inside", "no bound", "no watermark", "clock", "mute"]
_MOST: Final = 20
_NUMBERS: Final = ("key", "at_ms", "time", "limit", "margin", "passed_ms")
_COLUMNS: Final = ("vertex", "instance", "at_ms", "rule", "key", "time", "limit", "margin", "passed_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowHolder:
    """What holds a watermark back, at the place where it begins.

    `vertex`, `instance`, `partition` say where (the partition of a source, otherwise None); `kind` is why: slow, idle,
    ended, no key (the input has no watermarks of `key`), on queue (it waits there), inside (work is in flight), no
    bound (a join never lets the key through), no watermark (the source sends none), clock (it follows the clock),
    mute (it is idle, and has not said so). `mark` is its own watermark,
    `last_ms` when the last row came, `rejected` how many rows a filter of the source has rejected since. `needs_time`
    is the event time that would release it, `idle_at_ms` when it is left out as idle if nothing comes. `behind_by` is
    how far it is behind the next input, `end_helps` whether its end would release it. `through` are the vertices
    between it and the one that was asked for. Times in
    ms, None if unknown or if there is none.
    """

    vertex: str
    instance: int
    partition: int | None = None
    kind: Kind
    key: int
    mark: int | None = None
    last_ms: int | None = None
    rejected: int = 0
    needs_time: int | None = None
    idle_at_ms: int | None = None
    behind_by: int | None = None
    end_helps: bool = True
    through: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Where it is, in words."""
        if self.partition is not None:
            return f"partition {self.partition} of {self.vertex}"
        return self.vertex


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StateForecast(Answer):
    """Whether the state of an instance stays bounded: its size and peak by `at_ms`, in rows or accumulators.

    `since_ms` is when it last shrank (or began), `changed_ms` when it last changed, `rate_per_s` how fast it grew
    between; `limit_at_ms` when it
    reaches `limit` at that rate. `bounded` is None if nothing can be said. `shrank`: it ever did.
    """

    vertex: str
    instance: int
    at_ms: int
    size: int
    peak: int
    since_ms: int
    changed_ms: int
    rate_per_s: float
    shrank: bool
    limit: int | None = None
    limit_at_ms: int | None = None
    bounded: bool | None = None

    @property
    def sentence(self) -> str:
        """The forecast in one sentence, without a full stop."""
        held = f"{self.vertex} holds {grouped(self.size)}"
        most = f"at most {grouped(self.peak)} so far"
        if self.bounded:
            return f"{held}, {most}, and shrinks whenever its watermark moves"
        if self.bounded is None:
            return f"{held}, {most}, unchanged since {moment(self.changed_ms)}"
        since = f"since it last shrank at {moment(self.since_ms)}" if self.shrank else "and has never shrunk"
        grows = f"{held} {since}, growing by {_rate(self.rate_per_s)} a second"
        if self.limit is None:
            return f"{grows}, without a limit"
        if self.limit_at_ms is None:
            return f"{grows}; it has reached its limit of {grouped(self.limit)}"
        return f"{grows}: it reaches its limit of {grouped(self.limit)} at {moment(self.limit_at_ms)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedRow:
    """A row that was left out at `at_ms` (clock) by `rule`: its time lies `margin` below `limit`, both of `key`.

    `passed_ms` is when the watermark that decided had come; None if the recording does not tell.
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
        """The drop in one sentence, without a full stop."""
        late = ""
        if self.passed_ms is not None:
            before = span(self.at_ms - self.passed_ms)
            late = f"; the watermark that decided had come at {moment(self.passed_ms)}, {before} before it"
        return (
            f"dropped by the {self.rule} rule of {self.vertex} at {moment(self.at_ms)}: its time {moment(self.time)} "
            f"is {span(self.margin)} below {moment(self.limit)}, the lowest that was still taken (key {self.key}){late}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Drops(TableAnswer[DroppedRow]):
    """The rows that were left out, in the order of the clock."""

    stream: str
    rows: tuple[DroppedRow, ...]

    heads = ("row", "vertex", "rule", "key", "at (ms)", "time", "limit", "late by", "passed at (ms)")
    left = (0, 1, 2)

    @property
    def sentence(self) -> str:
        """Who dropped how many and by how much, in one sentence."""
        if not self.rows:
            return f"No row was dropped in {self.stream}."
        if len(self.rows) == 1:
            return f"{row_words(self.rows[0].row)} was {self.rows[0].sentence}."
        counts = Counter((drop.vertex, drop.rule) for drop in self.rows)
        parts = []
        for (vertex, rule), count in counts.most_common():
            margins = [drop.margin for drop in self.rows if (drop.vertex, drop.rule) == (vertex, rule)]
            low, high = span(min(margins)), span(max(margins))
            late_by = low if low == high else f"{low} to {high}"
            parts.append(f"{grouped(count)} by the {rule} rule of {vertex}, late by {late_by}")
        return f"{counted(len(self.rows), 'row')} of {self.stream} were dropped: {listed(parts)}."

    def _entries(self) -> tuple[DroppedRow, ...]:
        return self.rows

    def to_dict(self) -> dict[str, Any]:
        """The drops as dicts, lists and scalars."""
        return asdict(self) | {"sentence": self.sentence}

    def to_pandas(self) -> Any:
        """One row per drop as a pandas DataFrame, with the columns of `DroppedRow`; `row` as JSON."""
        columns: dict[str, list[Any]] = {name: [getattr(drop, name) for drop in self.rows] for name in _COLUMNS}
        columns["row"] = [json.dumps(drop.row, ensure_ascii=False) for drop in self.rows]
        return pa.table(columns).to_pandas(integer_object_nulls=True)

    def __repr__(self) -> str:
        lines = [f"  {row_words(drop.row)} {drop.sentence}" for drop in self.rows[:_MOST]] if len(self) > 1 else []
        more = [f"  {grouped(len(self) - _MOST)} more"] if len(self) > _MOST else []
        return "\n".join([self.sentence, *lines, *more])

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for drop in self.rows[:_MOST]:
            yield row_words(drop.row), drop.vertex, drop.rule, *(getattr(drop, name) for name in _NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FlowExplanation(Answer):
    """Why a watermark, a window or a row stands where it does at `at_ms` (clock, ms).

    `asked` says which of them. `cause` is in one word what is the matter: held, moving, idle, ended, failed, stuck,
    came out, dropped, rejected, empty, waiting, gone or unknown. `watermark` is what has left `vertex` for `key`,
    `since_ms` when it last moved (for a window or a row: when it happened), `needed` the watermark that would release
    it. `holders` are those that keep it from there; `release_ms` is when it is released if nothing else happens. Each
    is None if unknown or if there is none. `drop` tells how a row was left out, `state` whether the vertex stays
    bounded.
    """

    at_ms: int
    stream: str
    asked: Asked
    vertex: str | None
    instance: int | None = None
    key: int | None = None
    cause: str
    watermark: int | None = None
    since_ms: int | None = None
    needed: int | None = None
    holders: tuple[FlowHolder, ...] = ()
    release_ms: int | None = None
    drop: DroppedRow | None = None
    state: StateForecast | None = None
    sentence: str


def row_words(row: dict[str, Any]) -> str:
    """A row as one reads it: "id 1, t 10"."""
    return "row (" + ", ".join(f"{name} {value}" for name, value in row.items()) + ")"


def _rate(rate: float) -> str:
    return grouped(round(rate)) if rate >= 10 else f"{rate:.1f}".removesuffix(".0")
