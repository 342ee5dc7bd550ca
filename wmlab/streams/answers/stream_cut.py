"""How the stream cut of a watermark came about, and when segments were as long as a cut or a group's position says.

The steps to a cut are those that the run's own algorithm takes (`model.cut.stream_cut`), on what the recorded watermark
counted: the positions, the furthest one, what it misses, the cut. A cut has an offset in every segment that it crosses.
An offset has a time: when the event that ends there was appended. So a cut becomes a line across the key space, left of
the moment at which it was emitted by what was written since.

Source: PDP-33, Stream Cuts and Watermark Computation, `computeGreatestUpperBound` and `computeStreamCut`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from wmlab.core.errors import ChartError
from wmlab.core.facts import Head
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words
from wmlab.streams.answers.head_labels import head_of
from wmlab.streams.answers.history import epochs_of, group_states, recorded_configuration, rows_of_stream
from wmlab.streams.model.cut import CutError, CutStep, stream_cut
from wmlab.streams.model.cycle import CycleRules
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import segment_name


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOfWatermark:
    """A recorded watermark and the steps to its cut.

    `positions` are those of the writers that it counts, `before` the cut before where the algorithm uses it, else
    empty.
    """

    watermark: TableRow
    positions: Mapping[str, Position]
    before: Mapping[int, int | None]
    steps: Sequence[CutStep]
    history: StreamHistory

    @property
    def head(self) -> Head:
        """The cut."""
        return cut_head(self.steps, clock_ms=self.watermark["emitted_ms"])


def cut_head(steps: Sequence[CutStep], *, clock_ms: int | None = None) -> Head:
    """The cut, of the steps to one."""
    return head_of("cut", {"cut": cut_words(steps[-1].offsets)}, clock_ms=clock_ms)


def cut_at(recording: Recording, stream: str, at_ms: int | None) -> CutOfWatermark:
    """The newest watermark at `at_ms` (clock, ms; None: the last one that counts a writer) and the steps to its cut.

    Raises `ChartError` if there is none that counts writers, or if its cut does not follow from their positions.
    """
    marks = sorted(rows_of_stream(recording, "watermarks", stream), key=lambda row: int(row["emitted_ms"]))
    mark, previous = _chosen(marks, at_ms)
    positions, history = _positions(recording, stream, mark), epochs_of(recording, stream)
    rules = recorded_configuration(recording, stream) or CycleRules()
    steps: list[CutStep] = []
    with suppress(CutError):
        stream_cut([*positions.values()], previous, history, rules, steps=steps)
    if not steps or dict(steps[-1].offsets) != dict(mark["cut"]):
        raise ChartError(
            f"The cut of the watermark of {clock_words(mark['emitted_ms'])} does not follow from the recorded "
            "positions.",
            remedy="Draw a recording that was made of a scenario, with its tables writer_marks and epochs.",
        )
    before = {} if previous is None or rules.algorithm == "document" else dict(previous)
    return CutOfWatermark(watermark=mark, positions=positions, before=before, steps=steps, history=history)


def _chosen(marks: Sequence[TableRow], at_ms: int | None) -> tuple[TableRow, Position | None]:
    """The watermark and the cut before it, if there is one; without a moment the last one that counts a writer."""
    known = [row for row in marks if at_ms is None or row["emitted_ms"] <= at_ms]
    if at_ms is None:
        known = known[: max((index + 1 for index, row in enumerate(known) if row["writers"]), default=len(known))]
    if not known:
        raise ChartError(
            f"No watermark was emitted until {clock_words(at_ms or 0)}.",
            remedy=f"Choose at_ms from {marks[0]['emitted_ms']} on.",
        )
    if not known[-1]["writers"]:
        raise ChartError(
            f"The watermark of {clock_words(known[-1]['emitted_ms'])} counts no writer: its cut is not an upper bound.",
            remedy="Choose another moment with at_ms=....",
        )
    return known[-1], Position(dict(known[-2]["cut"])) if len(known) > 1 else None


def _positions(recording: Recording, stream: str, mark: TableRow) -> dict[str, Position]:
    """The position that each writer of the watermark had noted with its time."""
    counted_times, received = dict(mark["writers"]), dict(mark.get("counted") or {})
    positions: dict[str, Position] = {}
    rows = rows_of_stream(recording, "writer_marks", stream)
    for row in sorted(rows, key=lambda row: int(row["received_ms"])):
        writer, at_ms = row["writer"], row["received_ms"]
        is_counted = at_ms <= mark["emitted_ms"] if received.get(writer) is None else at_ms == received[writer]
        if is_counted and row["outcome"] == "success" and counted_times.get(writer) == row["time"]:
            positions[writer] = Position(dict(row["position"]))
    return {writer: positions[writer] for writer in counted_times if writer in positions}


def offset_words(segment: int, offset: int | None) -> str:
    """A segment with an offset as the document writes it, "2/off2"."""
    return f"{segment_name(segment)}/{'end' if offset is None else offset}"


def cut_words(offsets: Mapping[int, int | None]) -> str:
    """A position or a cut as the document writes it, "(1/off1, 2/off2)"."""
    return f"({', '.join(offset_words(segment, offset) for segment, offset in sorted(offsets.items()))})"


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


def key_space_head(segments: Sequence[TableRow], watermarks: int) -> Head:
    """How many watermarks cut the stream, and how many segments there were."""
    return head_of(
        "key space",
        {
            "watermarks": watermarks,
            "segments": len(segments),
            "open segments": sum(row["sealed_ms"] is None for row in segments),
        },
    )


def segment_words(row: TableRow) -> str:
    """A segment, its keys, and from when until when it was open."""
    until = "open" if row["sealed_ms"] is None else f"sealed at {clock_words(row['sealed_ms'])}"
    name = segment_name(row["segment_id"])
    return f"segment {name}, keys {row['keys']}, from {clock_words(row['created_ms'])}, {until}"
