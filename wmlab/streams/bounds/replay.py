"""A reader group's tracker, replayed over the changes of the group's position.

`wmlab.streams.model.window.Tracker` compares the whole position with a watermark at every step, 100 segments with 100.
Here two counters per watermark say in how many segments the group is before it and in how many it is past it, and a
change of one offset touches only the watermarks between the old offset and the new one. So a replay costs as much as
the crossings there are, and each comparison of the tracker is a look at two counters. The steps are those of the
tracker, in its order, and hold for every log and every position, also for those that move back.

Source: upstream class `WatermarkReaderImpl` (compare, advanceTo).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wmlab.streams.bounds.seen import Longs, Marks, Ranges, Runs, column

Counts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment against the log: its cuts by offset, and which whole runs it is past or before at any offset."""

    offsets: Longs
    places: Longs
    past: tuple[slice, ...]
    before: tuple[slice, ...]

    @classmethod
    def of(cls, segment: int, marks: Marks, ranges: Ranges, runs: Runs) -> Segment:
        """The segment with this id."""
        places, offsets = runs.cuts_of(segment, marks)
        order = np.argsort(offsets, kind="stable")
        older, newer = runs.sides(segment, *ranges.known.get(segment, (np.nan, np.nan)))
        unnamed = ~runs.naming(segment)

        def spans(which: npt.NDArray[np.bool_]) -> tuple[slice, ...]:
            chosen = np.flatnonzero(which & unnamed)
            return tuple(slice(int(runs.first[run]), int(runs.last[run]) + 1) for run in chosen)

        return cls(offsets[order], places[order], spans(older), spans(newer))

    def ranks(self, offsets: Longs) -> tuple[Longs, Longs]:
        """How many cuts each offset is past, and how many it has reached."""
        return self.offsets.searchsorted(offsets, side="left"), self.offsets.searchsorted(offsets, side="right")


@dataclass(slots=True)
class Group:
    """The counters of one group: per watermark the segments in which the group is before it, and past it."""

    before: Counts
    past: Counts
    ranks: dict[int, tuple[int, int]] = field(default_factory=dict)

    def move(self, segment_id: int, segment: Segment, to: tuple[int, int] | None) -> None:
        """Count a segment at its new ranks; None: it has left the position."""
        at = self.ranks.pop(segment_id, None)
        if at is None and to is not None:
            self._count_whole(segment, 1)
        if at is not None and to is None:
            self._count_whole(segment, -1)
        past, reached = at or (0, len(segment.places))
        new_past, new_reached = to or (0, len(segment.places))
        _shift(self.past, segment.places, past, new_past, 1)
        _shift(self.before, segment.places, reached, new_reached, -1)
        if to is not None:
            self.ranks[segment_id] = to

    def _count_whole(self, segment: Segment, step: int) -> None:
        for span in segment.past:
            self.past[span] += step
        for span in segment.before:
            self.before[span] += step


def _shift(counts: Counts, places: Longs, old: int, new: int, step: int) -> None:
    """Add `step` at the places from rank `old` up to `new`, or take it away on the way back."""
    if new > old:
        counts[places[old:new]] += step
    elif new < old:
        counts[places[new:old]] -= step


@dataclass(slots=True)
class Following:
    """The tracker of one group over its counters; places in the log, -1: none."""

    group: Group
    lower: int = -1
    pending: deque[int] = field(default_factory=deque)
    fetched: int = 0

    def advance(self, known: int) -> None:
        """Follow the group to its position now, with the first `known` watermarks in the log."""
        before, past, pending = self.group.before, self.group.past, self.pending
        while pending and not before[pending[0]]:
            self.lower = pending.popleft()
        while self.fetched < known:
            if pending and before[pending[-1]] and not past[pending[-1]]:
                break
            if before[self.fetched]:
                pending.append(self.fetched)
            else:
                self.lower = self.fetched
            self.fetched += 1

    @property
    def upper(self) -> int:
        """The last watermark in flight."""
        return self.pending[-1] if self.pending else -1


@dataclass(frozen=True, slots=True)
class Moves:
    """The changes that cross a cut, open a segment or close one, in order; `row` is their row among all changes."""

    row: Longs
    segment_id: list[int]
    ranks: list[tuple[int, int] | None]
    segments: dict[int, Segment]

    @classmethod
    def of(cls, marks: Marks, ranges: Ranges, changes: pa.Table) -> Moves:
        """The moves among the changes; ranks of None: the segment leaves the position."""
        runs = Runs.of(marks, ranges)
        ids, offset = column(changes, "segment_id"), column(changes, "offset")
        finished = changes["finished"].to_numpy()
        segments, parts = {}, []
        for segment_id in np.unique(ids).tolist():
            segment = segments[segment_id] = Segment.of(segment_id, marks, ranges, runs)
            rows = np.flatnonzero(ids == segment_id)
            ranks = np.where(finished[rows], -1, segment.ranks(offset[rows]))
            # A segment that was not in the position is not there when it leaves it, either.
            before = np.column_stack([[-1, -1], ranks[:, :-1]])
            parts.append(np.vstack([rows, np.full(len(rows), segment_id), ranks])[:, (ranks != before).any(axis=0)])
        moves = np.hstack(parts)
        moves = moves[:, np.argsort(moves[0], kind="stable")]
        ends = [(past, reached) if past >= 0 else None for past, reached in moves[2:].T.tolist()]
        return cls(moves[0], moves[1].tolist(), ends, segments)

    def apply(self, move: int, group: Group) -> None:
        """Carry out one move."""
        segment_id = self.segment_id[move]
        group.move(segment_id, self.segments[segment_id], self.ranks[move])


def replay(marks: Marks, ranges: Ranges, changes: pa.Table, known: Longs) -> tuple[Longs, Longs]:
    """The places of the watermarks that bound each version, ascending by version; -1: none.

    `changes` has version, segment_id, offset and finished, ascending by version. `known` says how many watermarks
    are in the log at each version.
    """
    version = column(changes, "version")
    starts = np.flatnonzero(np.append(True, version[1:] != version[:-1]))
    count = len(marks.seq)
    moves = Moves.of(marks, ranges, changes)
    ends = np.searchsorted(moves.row, np.append(starts[1:], len(version)))
    following = Following(Group(np.zeros(count, np.int32), np.zeros(count, np.int32)))
    lower, upper = np.full(len(starts), -1), np.full(len(starts), -1)
    begin = 0
    for at, (end, visible) in enumerate(zip(ends.tolist(), known.tolist(), strict=True)):
        for move in range(begin, end):
            moves.apply(move, following.group)
        following.advance(visible)
        lower[at], upper[at], begin = following.lower, following.upper, end
    return lower, upper
