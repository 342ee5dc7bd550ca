"""Which open window of an instance ends first: found in a heap that follows the rows, not by a look at all of them.

A heap keeps what has gone until it comes to the top, where it is left out; so every row is looked at a few times, over
all the moments at which a run is asked.

Source: upstream classes `SlidingWindowP`, `SessionWindowP`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from wmlab.dataflow.model.aggregate import group_of
from wmlab.dataflow.model.items import RowValues
from wmlab.dataflow.model.processor import EdgeRow
from wmlab.dataflow.model.window import FrameStore, OpenSession, SessionProcessor, Sessions, WindowProcessor

WindowName = tuple[Any, ...]
"""What a window is called: its start, its end and, of a session, the columns of its group."""
CountedWindow = tuple[WindowName, int]
"""A window and how many rows it has."""


class LowestFrames:
    """The frames of windows; `rule` counts rows in one group."""

    def __init__(self, rule: WindowProcessor, state: FrameStore) -> None:
        self._rule, self._shape = rule, rule.shape
        self._heap = list(state.frames)
        heapify(self._heap)

    def follow(self, state: FrameStore, row: EdgeRow) -> None:
        """A row was taken."""
        time = row.event.values[self._rule.time_on(row.edge)]
        # A row without a time has ended the job.
        if type(time) is int and (frame := self._shape.frames.higher(time)) in state.frames:
            heappush(self._heap, frame)

    def first(self, state: FrameStore, needed: int) -> CountedWindow | None:
        """The window that ends first of those that a watermark of `needed` or higher closes."""
        heap = self._heap
        while heap and heap[0] not in state.frames:
            heappop(heap)
        if not heap:
            return None
        end = self._first_end(state, heap[0], needed)
        if end is None:
            # The watermark has closed this frame, and the rule has not seen that.
            ends = (self._first_end(state, frame, needed) for frame in state.frames)
            end = min((end for end in ends if end is not None), default=None)
        return None if end is None else next(self.at(state, end))

    def _first_end(self, state: FrameStore, frame: int, needed: int) -> int | None:
        """The first end at or above `needed` of the windows of a frame that are open."""
        end = max(frame, state.next)
        end += -(-max(0, needed - end) // self._shape.slide) * self._shape.slide
        return end if end <= self._shape.last_end(frame) else None

    def at(self, state: FrameStore, end: int) -> Iterator[CountedWindow]:
        """The open window with that end, if it has rows."""
        shape = self._shape
        frames = range(end - shape.size + shape.slide, end + 1, shape.slide)
        known = (f for f in frames if f in state.frames) if len(frames) < len(state.frames) else state.frames
        filled = [f for f in known if f in frames and end in self._ends(state, f)]
        if filled:
            yield (end - shape.size, end), sum(self._rows(state, frame) for frame in filled)

    def _ends(self, state: FrameStore, frame: int) -> range:
        return range(max(frame, state.next), self._shape.last_end(frame) + 1, self._shape.slide)

    def _rows(self, state: FrameStore, frame: int) -> int:
        return sum(accumulators[0] for accumulators in state.frames[frame].values())  # type: ignore[misc]

    def every(self, state: FrameStore) -> Iterator[CountedWindow]:
        """All open windows."""
        rows = Counter[int]()
        for frame in state.frames:
            for end in self._ends(state, frame):
                rows[end] += self._rows(state, frame)
        return (((end - self._shape.size, end), count) for end, count in rows.items())


class LowestSessions:
    """The sessions of all groups; of sessions with one end the group that has been open longest comes first."""

    def __init__(self, rule: SessionProcessor, state: Sessions) -> None:
        self._rule = rule
        self._numbers = count()
        self._opened: dict[RowValues, int] = {group: next(self._numbers) for group in state.groups}
        self._heap: list[tuple[int, int, int, int, RowValues]] = []
        for group, sessions in state.groups.items():
            for session in sessions:
                self._push(group, session)

    def _push(self, group: RowValues, session: OpenSession) -> None:
        # The last number keeps groups from being compared, whose columns may have no order.
        heappush(self._heap, (session.end, self._opened[group], session.start, next(self._numbers), group))

    def follow(self, state: Sessions, row: EdgeRow) -> None:
        """A row was taken."""
        group, time = group_of(row.event.values, self._rule.group), row.event.values[self._rule.time]
        sessions = state.groups.get(group, ())
        mine = [session for session in sessions if type(time) is int and session.start <= time < session.end]
        if len(sessions) == 1 and mine and mine[0].accumulators[0] == 1:
            # The group is opened by this row, whether it was open before or not.
            self._opened[group] = next(self._numbers)
        for session in mine:
            self._push(group, session)

    def first(self, state: Sessions, needed: int) -> CountedWindow | None:
        """The session that ends first of those that a watermark of `needed` or higher closes."""
        heap = self._heap
        while heap and self._session(state, heap[0]) is None:
            heappop(heap)
        if heap and self._rule.closed_by(heap[0][0]) < needed:
            # The watermark has closed it, and the rule has not seen that.
            later = (known for known in self.every(state) if self._rule.closed_by(known[0][1]) >= needed)
            return min(later, key=lambda known: known[0][1], default=None)
        return self._session(state, heap[0]) if heap else None

    def _session(self, state: Sessions, entry: tuple[int, int, int, int, RowValues]) -> CountedWindow | None:
        """The session of an entry of the heap; None if it is no more."""
        end, opened, start, _, group = entry
        for session in state.groups.get(group, ()):
            if (session.start, session.end, self._opened[group]) == (start, end, opened):
                return self._named(group, session)
        return None

    def _named(self, group: RowValues, session: OpenSession) -> CountedWindow:
        return (session.start, session.end, *group), session.accumulators[0]  # type: ignore[return-value]

    def at(self, state: Sessions, end: int) -> Iterator[CountedWindow]:
        """The sessions with that end."""
        return (known for known in self.every(state) if known[0][1] == end)

    def every(self, state: Sessions) -> Iterator[CountedWindow]:
        """All open sessions."""
        return (self._named(group, session) for group, sessions in state.groups.items() for session in sessions)
