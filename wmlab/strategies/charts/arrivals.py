"""The axis of arrivals, over most of them, and which rows of a log are drawn on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wmlab.core.charts.axis import Axis, duration_unit, shown_range, single
from wmlab.core.charts.scene import Value, thin
from wmlab.core.words import counted, is_instant
from wmlab.strategies.replay import Log

CAP: Final = 400
"""Points drawn at most of each curve over time, about."""
_OTHER_TIMES: Final = 20
"""Of how many records one may arrive beyond the axis of arrivals."""


@dataclass(frozen=True, slots=True)
class DrawnRows:
    """The rows of a log at which curves are drawn, and how many that differ from the row before are left out."""

    rows: list[int]
    left_out: int

    def arrivals(self, log: Log) -> list[int]:
        """When they arrived."""
        return list(log.arrival[self.rows].tolist())

    def of(self, values: Sequence[Value]) -> list[Value]:
        """The values of these rows."""
        return [values[row] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The axis of arrivals, the rows of the log that are on it, and what is said of the others."""

    axis: Axis
    first: int
    end: int
    beyond: str

    @classmethod
    def of(cls, log: Log) -> Arrivals:
        """Over the arrivals but for far ones, if these are few; otherwise over all."""
        arrival = log.arrival
        low, high = shown_range([single(arrival.tolist())])
        first, end = int(np.searchsorted(arrival, low)), int(np.searchsorted(arrival, high, side="right"))
        if _OTHER_TIMES * (len(arrival) - (end - first)) > len(arrival):
            low, high, first, end = int(arrival[0]), int(arrival[-1]), 0, len(arrival)
        axis = Axis(
            "arrival",
            low,
            high + (low == high),
            is_instant([low, high], clock=[log.clock_ms]),
            duration_unit(high - low),
        )
        beyond = len(arrival) - (end - first)
        words = f"Beyond the axis of arrivals: {counted(beyond, 'record')}." if beyond else ""
        return cls(axis, first, end, words)

    def thin(self, log: Log, columns: Sequence[Sequence[Value]]) -> DrawnRows:
        """The rows on the axis that are enough to draw the columns."""
        inside = [column[self.first : self.end] for column in columns]
        rows = thin(inside, CAP, xs=log.arrival[self.first : self.end].tolist())
        changed = sum(
            any(column[row] != column[row - 1] for column in inside) for row in range(1, self.end - self.first)
        )
        drawn = sum(row > 0 and any(column[row] != column[row - 1] for column in inside) for row in rows)
        return DrawnRows([self.first + row for row in rows], changed - drawn)
