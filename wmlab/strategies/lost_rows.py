"""The late records of each strategy of a comparison: which, whose and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import Cell, TableAnswer, pandas_frame, text_table
from wmlab.core.traces import TRACE_SCHEMA
from wmlab.core.words import counted, grouped, moment, rounded

LOST_ROWS: Final = pa.schema(
    [("strategy", pa.string()), ("row", pa.int64())]
    + [(column.name, column.type) for column in TRACE_SCHEMA]
    + [("met", pa.int64()), ("late_by_ms", pa.int64())]
)
"""One row for each strategy and record that is late for it: its number in order of arrival, from 1, the columns of a
trace, the X that it met, and by how much it was below that, ms."""
_LISTED: Final = 20


class Loss(NamedTuple):
    """What a strategy lost of a writer: how many of its `rows`, when the first and the last arrived, and how late."""

    strategy: str
    writer: str
    lost: int
    rows: int
    first_ms: int
    last_ms: int
    late_by_max_ms: int

    @property
    def share(self) -> float:
        """The share of the writer's records, from 0 to 1."""
        return self.lost / self.rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LostRows(TableAnswer[Mapping[str, Any]]):
    """The late records of each strategy over a log; iteration and `to_pandas` give each record, `losses` sums up.

    `table` has the columns of `LOST_ROWS`, in order of arrival within each strategy; `rows_of` says how many records
    the log has of each writer.
    """

    name: str
    table: pa.Table
    rows_of: Mapping[str, int] = field(repr=False)
    clock_ms: int = field(repr=False)

    entries = "lost"
    heads = ("strategy", "writer", "lost", "of its records", "first arrival", "last arrival", "late by at most")
    left = (0, 1)
    schema = LOST_ROWS

    @property
    def lost(self) -> list[Mapping[str, Any]]:
        """The late records as dicts."""
        rows: list[Mapping[str, Any]] = self.table.to_pylist()
        return rows

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_pandas(self) -> Any:
        """One row for each strategy and late record, as `LOST_ROWS` has it."""
        return pandas_frame(self.table)

    def to_dict(self) -> dict[str, Any]:
        """What each strategy lost of each writer as dicts."""
        return {"trace": self.name, "losses": [loss._asdict() for loss in self.losses]}

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What each strategy lost of each writer; strategies in their order, of each the most lost first."""
        order = {name: rank for rank, name in enumerate(pc.unique(self.table["strategy"]).to_pylist())}
        groups = self.table.group_by(["strategy", "writer"], use_threads=False).aggregate(
            [("row", "count"), ("arrival_ms", "min"), ("arrival_ms", "max"), ("late_by_ms", "max")]
        )
        losses = [
            Loss(
                strategy=group["strategy"],
                writer=group["writer"],
                lost=group["row_count"],
                rows=self.rows_of[group["writer"]],
                first_ms=group["arrival_ms_min"],
                last_ms=group["arrival_ms_max"],
                late_by_max_ms=group["late_by_ms_max"],
            )
            for group in groups.to_pylist()
        ]
        return tuple(sorted(losses, key=lambda loss: (order[loss.strategy], -loss.lost, loss.writer)))

    @property
    def sentence(self) -> str:
        """Whose records each strategy lost most, and when."""
        by_strategy: dict[str, list[Loss]] = {}
        for loss in self.losses:
            by_strategy.setdefault(loss.strategy, []).append(loss)
        if not by_strategy:
            return f"No strategy lost a record of {self.name!r}."
        return " ".join(self._of_strategy(strategy, losses) for strategy, losses in by_strategy.items())

    def _of_strategy(self, strategy: str, losses: Sequence[Loss]) -> str:
        total, most = sum(loss.lost for loss in losses), losses[0]
        when = f"from {self._moment(most.first_ms)} to {self._moment(most.last_ms)}"
        whose = f", the most of {most.writer}" if len(losses) > 1 else f", all of {most.writer}"
        count = f" ({grouped(most.lost)} of its {grouped(most.rows)}" if len(self.rows_of) > 1 else " ("
        joint = ", " if len(self.rows_of) > 1 else ""
        return f"{strategy} lost {counted(total, 'record')}{whose}{count}{joint}{when})."

    def _moment(self, time_ms: int) -> str:
        return moment(time_ms, clock_ms=self.clock_ms)

    def __repr__(self) -> str:
        rows = [self.heads, *([str(cell) for cell in row] for row in self._rows())]
        return "\n".join([self.sentence, *(text_table(rows, right=(2, 3, 4, 5, 6)) if len(self) else [])])

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        losses = self.losses
        for loss in losses[:_LISTED]:
            times = (self._moment(loss.first_ms), self._moment(loss.last_ms), rounded(loss.late_by_max_ms))
            yield loss.strategy, loss.writer, grouped(loss.lost), f"{loss.share:.2%}", *times
        if len(losses) > _LISTED:
            yield f"and {grouped(len(losses) - _LISTED)} more", *[""] * 6
