"""When events arrived, against their event time and the lower bounds that watermarks had given by then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.facts import Head
from wmlab.core.invariants import TableRow
from wmlab.streams.answers.head_labels import head_of


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """The delays from event time to arrival that occur, in ms and ascending, and how many events have each."""

    delay_ms: npt.NDArray[np.int64]
    events: npt.NDArray[np.int64]

    @classmethod
    def of(cls, parts: Iterable[pa.Table]) -> Delays:
        """From events, part by part, with the columns append_ms and event_time."""
        counts = pa.table({"delay": pa.array([], pa.int64()), "count": pa.array([], pa.int64())})
        for part in parts:
            delay = pc.subtract(part["append_ms"], part["event_time"])
            counts = pa.concat_tables([counts, pa.table([delay, pa.repeat(1, len(delay))], counts.schema)])
            counts = counts.group_by("delay").aggregate([("count", "sum")]).rename_columns(counts.column_names)
        counts = counts.sort_by("delay")
        return cls(counts["delay"].to_numpy(), counts["count"].to_numpy())

    @property
    def count(self) -> int:
        """How many events there are."""
        return int(self.events.sum())

    @property
    def median_ms(self) -> int:
        """The delay that half of the events do not exceed."""
        return int(self.delay_ms[self.events.cumsum().searchsorted(self.count // 2, side="right")])

    @property
    def largest_ms(self) -> int:
        """The delay of the slowest event."""
        return int(self.delay_ms[-1])


def arrival_head(delays: Delays) -> Head:
    """How long events took from their time to their arrival."""
    return head_of("arrivals", {"median delay": delays.median_ms, "longest delay": delays.largest_ms})


def extremes(parts: Iterable[pa.Table]) -> list[TableRow]:
    """The first event that arrived soonest after its time, and the first that arrived latest."""
    extremes: list[TableRow] = []
    for part in parts:
        if part.num_rows:
            delay = pc.subtract(part["append_ms"], part["event_time"]).to_numpy()
            extremes += part.take([int(delay.argmin()), int(delay.argmax())]).to_pylist()
            extremes.sort(key=lambda row: row["append_ms"] - row["event_time"])
            extremes = [extremes[0], extremes[-1]]
    return extremes
