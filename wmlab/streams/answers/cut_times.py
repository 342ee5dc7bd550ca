"""When the segments of a stream were as long as a stream cut, or the position of a group, says.

A cut has an offset in every segment that it crosses. An offset has a time: when the event that ends there was appended.
So a cut becomes a line across the key space, left of the moment at which it was emitted by what was written since.

Source: PDP-33, Stream Cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from wmlab.core.invariants import TableRow
from wmlab.core.words import clock_words, counted, rounded
from wmlab.streams.answers.history import group_states
from wmlab.streams.model.segment import segment_name

GroupOffsets = tuple[int, Mapping[int, int | None]]
"""When it was published, and the offset in each segment that it crosses; None: the end."""
Front = tuple[int, dict[int, int]]
"""When it was published, and of each segment that it crosses the clock time at which the segment was that long."""


class Lengths:
    """How long segments were when: for each offset in `positions` the last event that ends there or before.

    `events` are parts in any order, of which nothing else is kept; `last_ms` is when the last one was appended.
    """

    def __init__(
        self, segments: Sequence[TableRow], positions: Iterable[GroupOffsets], events: Iterable[pa.Table]
    ) -> None:
        self._created = {row["segment_id"]: row["created_ms"] for row in segments}
        wanted: dict[int, set[int]] = {}
        for _, offsets in positions:
            for segment, offset in offsets.items():
                wanted.setdefault(segment, set()).update([] if offset is None else [offset])
        self._wanted = {segment: np.array(sorted(offsets), np.int64) for segment, offsets in wanted.items()}
        self._last_events = {segment: np.full((2, len(offsets)), -1) for segment, offsets in self._wanted.items()}
        self.last_ms = min(self._created.values())
        for part in events:
            self._look(part.sort_by("offset"))

    def _look(self, part: pa.Table) -> None:
        ids, ends, appended = (part[name].to_numpy() for name in ("segment_id", "offset", "append_ms"))
        self.last_ms = int(appended.max(initial=self.last_ms))
        for segment, offsets in self._wanted.items():
            rows = np.flatnonzero(ids == segment)
            last = ends[rows].searchsorted(offsets, side="right") - 1
            with_event = np.flatnonzero(last >= 0)
            mine = rows[last[with_event]]
            further = ends[mine] > self._last_events[segment][0, with_event]
            self._last_events[segment][:, with_event[further]] = ends[mine[further]], appended[mine[further]]

    def front(self, at_ms: int, offsets: Mapping[int, int | None]) -> Front:
        """One of the positions as the times at which its segments were that long."""
        reached = {}
        for segment, offset in offsets.items():
            ends, appended = self._last_events[segment][:, self._wanted[segment] == offset]
            reached[segment] = int(appended[0]) if (ends >= 0).any() else self._created.get(segment, at_ms)
        return at_ms, reached


def group_offsets(rows: Sequence[TableRow]) -> list[GroupOffsets]:
    """The positions of all groups after each of their updates, by the clock."""
    positions: list[GroupOffsets] = [
        (at_ms, {segment: row["offset"] for segment, row in state.items()})
        for group in sorted({row["group"] for row in rows})
        for at_ms, state in group_states([row for row in rows if row["group"] == group])
    ]
    return sorted(positions, key=lambda position: position[0])


def cut_sentences(
    stream: str, segments: Sequence[TableRow], watermarks: int, cuts: Sequence[Front], end_ms: int
) -> str:
    """How many watermarks cut the stream, how much was written after the last cut, and how many segments there were."""
    still_open = sum(row["sealed_ms"] is None for row in segments)
    had = f"The stream had {counted(len(segments), 'segment')}, {still_open} of them open at the end."
    if not cuts:
        return f"No watermark of {stream} was emitted, so there is no cut. {had}"
    behind_ms = end_ms - min(cuts[-1][1].values(), default=end_ms)
    were = "was" if watermarks == 1 else "were"
    return (
        f"{counted(watermarks, 'watermark')} of {stream} {were} emitted, each with a cut. "
        f"The last cut was {rounded(behind_ms)} of writing before the end. {had}"
    )


def segment_words(row: TableRow) -> str:
    """A segment, its keys, and from when until when it was open."""
    until = "open" if row["sealed_ms"] is None else f"sealed at {clock_words(row['sealed_ms'])}"
    name = segment_name(row["segment_id"])
    return f"segment {name}, keys {row['keys']}, from {clock_words(row['created_ms'])}, {until}"
