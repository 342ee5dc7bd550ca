"""Window aggregations: tumbling, sliding and session windows by group, driven by the watermarks of one key.

    row              late: dropped
    watermark        of its key: results of all windows that it closes, then the watermark itself
                     of another key: nothing, since the output has no column for it
    end of inputs    results of all windows that hold anything, without a watermark

A result is the row (start, end, group, aggregates...); windows without rows give none. The watermark on the output is
that on the window end.

Tumbling and sliding windows keep frames. A frame is one slide of time, named by its exclusive end; the frame of a time
is the lowest boundary above it. A window of n frames is named by the end of its last frame. `next` is the first end
that has not been emitted; MIN before the first watermark. A row is late if its frame ends before `next`, also for
windows still open; a row below the watermark is accepted while its frame is open.

    watermark w     every window that ends from `next` to w and holds anything is emitted, in order; a frame goes with
                    the last window that it belongs to; `next` is the lowest boundary above w
    first of all    the ends begin at the lowest frame
    lower w         nothing is emitted and `next` goes back: after a restart windows open again

The text wants "watermarks only on the window bounds", upstream forwards those of the key as they came. As bounds a
watermark leaves as the highest window end that is not above it, if it is the first one there: nothing is late by the
one that is not late by the other, since all results are at bounds.

Of another grouped column with a watermark key of its own the key can go on, as the text describes and rejects: after
each watermark the lowest of the received one and of the times in all groups that are held. All groups are looked at
each time, `visited` counts them.

In a session window rows of a group belong together as long as no gap of `timeout` lies between them. A row at t is the
interval [t, t + timeout). Intervals of a group that overlap are one session; those that only touch are two. One row can
join two sessions. A row below the last watermark is late. A session that ends exactly at the watermark stays, other
than a sliding window, which would close: the row that would extend it is late, the one that would touch it is not.

Source: "Keyed watermark support", Changes to window aggregation processors; upstream classes `SlidingWindowPolicy`,
`SlidingWindowP`, `SessionWindowP`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from typing import NamedTuple

from wmlab.dataflow.model.aggregate import (
    Accumulators,
    Aggregation,
    accumulated,
    combined_accumulators,
    created,
    finished,
    group_of,
    group_order,
)
from wmlab.dataflow.model.items import MAX, MIN, FrameGrid, RowValues, Watermark, row_time
from wmlab.dataflow.model.processor import SOUND, Deviations, Drop, JobFailedError, Processor, Reason, State


class Held(NamedTuple):
    """What is held of some rows: how many there are, and their accumulators."""

    rows: int
    accumulators: Accumulators


class OpenWindow(NamedTuple):
    """A window [start, end) that has not come out, how many rows it holds, and of a session the group."""

    start: int
    end: int
    rows: int
    group: RowValues = ()


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Windows of `size`, one every `slide`; `size` is a multiple of it, in the unit of the times; tumbling if equal."""

    size: int
    slide: int

    @property
    def frames(self) -> FrameGrid:
        """The grid of frames."""
        return FrameGrid(self.slide)

    def last_end(self, frame: int) -> int:
        """The end of the last window that a frame belongs to."""
        return frame + self.size - self.slide

    def windows_of(self, time: int) -> tuple[tuple[int, int], ...]:
        """The [start, end) of every window that holds a time, ascending, also beyond 64 bits.

        Source: upstream class `WindowUtils`.
        """
        frame = time - time % self.slide + self.slide
        return tuple((end - self.size, end) for end in range(frame, self.last_end(frame) + 1, self.slide))


@dataclass(slots=True)
class FrameStore:
    """What is held by frame and group, and the end of the next window; `count` is the number of (frame, group) pairs.

    Of grouped times by key: the watermark that was `received` and the one that was `sent`; `visited` groups so far. The
    last bound that was sent as a watermark is among `sent` too.
    """

    frames: dict[int, dict[RowValues, Held]] = field(default_factory=dict)
    count: int = 0
    next: int = MIN
    received: dict[int, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    visited: int = 0

    def ends(self, shape: WindowShape, upto: int) -> Sequence[int]:
        """The ends of the windows that a watermark at `upto` closes and that hold anything, ascending."""
        lowest = min(self.frames, default=MAX)
        if lowest > upto:
            return ()
        first = self.next if self.next != MIN else lowest
        of_each = (range(max(frame, first), min(shape.last_end(frame), upto) + 1, shape.slide) for frame in self.frames)
        return sorted(set(chain(*of_each)))


def _moved_up(time: int, slide: int) -> int:
    """The lowest multiple of `slide` that is not below `time`, also beyond 64 bits."""
    return time + -time % slide


def _beyond_64_bits(values: RowValues, time: int, start: int, end: int, length: int) -> JobFailedError:
    """The error about a row whose window [start, end), which is `length` long, has an end that is no 64-bit time."""
    return JobFailedError(
        Reason.BEYOND_64_BITS,
        f"The row {values} at the time {time} belongs to the window [{start}, {end}), which reaches beyond 64 bits.",
        remedy=f"Correct the time, or filter out the rows that are less than {length} from -2^63 or 2^63.",
    )


@dataclass(kw_only=True, eq=False)
class _Aggregation(Processor[State]):
    """What all windows share: watermarks of `key` close windows, whose rows were aggregated."""

    aggregates: tuple[Aggregation, ...]
    key: int = 0
    ignores_key: bool = False
    """Every watermark counts as one of its key, as before there were keys."""

    def watermark(self, watermark: Watermark) -> None:
        """One of its key leaves behind the results of the windows that it closes."""
        if watermark.key != self.key:
            if not self.ignores_key:
                return
            watermark = Watermark(self.key, watermark.value)
        self._close(watermark.value)
        self._forward(watermark)

    def _forward(self, watermark: Watermark) -> None:
        """A watermark of its key leaves behind the results."""
        self.out.append(watermark)

    def complete(self) -> None:
        """The results of all windows leave."""
        self._close(None)

    def _close(self, watermark: int | None) -> None:
        """The results of the windows that a watermark closes (None: of all) leave."""
        raise NotImplementedError

    def _with(self, held: Held | None, values: RowValues) -> Held:
        """What is held of one row more; None: of none so far."""
        if held is None:
            return Held(1, accumulated(self.aggregates, created(self.aggregates), values))
        return Held(held.rows + 1, accumulated(self.aggregates, held.accumulators, values))

    def _combined(self, first: Held, second: Held) -> Held:
        """What is held of two parts together."""
        both = combined_accumulators(self.aggregates, first.accumulators, second.accumulators)
        return Held(first.rows + second.rows, both)


@dataclass(kw_only=True, eq=False)
class WindowProcessor(_Aggregation[FrameStore]):
    """Windows over the time in column `time`; `group` are the columns of the grouping key, none for one group.

    `times` has the column of the time on each input edge, where they differ; `grouped` has of every key that goes on
    with a column of the group the index of that column in it. `limit` is the state limit in (frame, group) pairs, None
    for none. With `bounds_only` a watermark leaves as the last window bound at or below it, once for each bound.
    Source: "Keyed watermark support", Changes to window aggregation processors.
    """

    shape: WindowShape
    limit: int | None = None
    bounds_only: bool = False
    deviations: Deviations = SOUND
    time: int
    group: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    grouped: tuple[tuple[int, int], ...] = ()

    def start(self) -> FrameStore:
        """Nothing is held."""
        return FrameStore()

    def time_on(self, edge: int) -> int:
        """The column of the time on an input edge."""
        return self.times[edge] if self.times else self.time

    def row(self, values: RowValues, edge: int) -> None:
        """It goes into its frame.

        Raises `JobFailedError` at the state limit, when the count would reach it. A row on time of which a window
        begins below -2^63 or ends above 2^63 - 1 raises it, too. Source: upstream class `SlidingWindowP`.
        """
        time, state, slide = row_time(values, self.time_on(edge)), self.state, self.shape.slide
        frame = time - time % slide + slide
        if frame < state.next:
            self.drops.append(Drop(edge, values, "window", self.key, time, state.next - slide))
            return
        if frame - self.shape.size < MIN:
            raise _beyond_64_bits(values, time, frame - self.shape.size, frame, self.shape.size)
        if (end := self.shape.last_end(frame)) > MAX:
            raise _beyond_64_bits(values, time, end - self.shape.size, end, self.shape.size)
        group = group_of(values, self.group)
        groups = state.frames.get(frame, {})
        held = groups.get(group)
        if held is None and self.limit is not None and state.count + 1 >= self.limit:
            raise JobFailedError(
                Reason.LIMIT_EXCEEDED,
                f"The window would hold {state.count + 1} accumulators at a limit of {self.limit}.",
                remedy="Raise the limit, or let the watermark come sooner so that windows close.",
            )
        groups[group] = self._with(held, values)
        if held is None:
            state.frames[frame] = groups
            state.count += 1

    def watermark(self, watermark: Watermark) -> None:
        """As all windows do; grouped times follow."""
        state = self.state
        if any(key == watermark.key for key, _ in self.grouped):
            state.received[watermark.key] = watermark.value
        else:
            super().watermark(watermark)
        open_groups = [group for groups in state.frames.values() for group in groups] if self.grouped else []
        for key, index in self.grouped:
            if key in state.received:
                state.visited += len(open_groups)
                times = (time for group in open_groups if type(time := group[index]) is int)
                due = min([state.received[key], *times])
                if due > state.sent.get(key, MIN):
                    state.sent[key] = due
                    self.out.append(Watermark(key, due))

    def _forward(self, watermark: Watermark) -> None:
        """The watermark or, with `bounds_only`, its bound, unless that was sent before."""
        if not self.bounds_only:
            self.out.append(watermark)
            return
        key, bound = watermark.key, self.shape.frames.floor(watermark.value)
        if bound > self.state.sent.get(key, MIN):
            self.state.sent[key] = bound
            self.out.append(Watermark(key, bound))

    def _close(self, watermark: int | None) -> None:
        state, shape = self.state, self.shape
        upto = shape.last_end(max(state.frames, default=MIN)) if watermark is None else watermark
        for end in state.ends(shape, upto):
            for group, held in self._content(end):
                self.out.append((end - shape.size, end, *group, *finished(self.aggregates, held.accumulators)))
        for frame in [frame for frame in state.frames if shape.last_end(frame) <= upto]:
            state.count -= len(state.frames.pop(frame))
        if watermark is not None:
            state.next = watermark - watermark % shape.slide + shape.slide

    def _content(self, end: int) -> list[tuple[RowValues, Held]]:
        """What the window that ends at `end` holds, by group in a fixed order."""
        content: dict[RowValues, Held] = {}
        for frame in range(end - self.shape.size + self.shape.slide, end + 1, self.shape.slide):
            for group, held in self.state.frames.get(frame, {}).items():
                content[group] = self._combined(content[group], held) if group in content else held
        return sorted(content.items(), key=lambda entry: group_order(entry[0]))

    def closed_by(self, end: int) -> int:
        """The lowest watermark that closes the window that ends at `end`."""
        return end

    @property
    def open_windows(self) -> list[OpenWindow]:
        """The windows that hold rows."""
        rows = Counter[int]()
        for frame, groups in self.state.frames.items():
            for end in range(max(frame, self.state.next), self.shape.last_end(frame) + 1, self.shape.slide):
                rows[end] += sum(held.rows for held in groups.values())
        return [OpenWindow(end - self.shape.size, end, count) for end, count in rows.items()]

    @property
    def size(self) -> int:
        """The (frame, group) pairs."""
        return self.state.count

    @property
    def sizes(self) -> dict[str, int]:
        """Also the groups that were visited for the sake of grouped times, if any."""
        return {"all": self.size} | ({"visited": self.state.visited} if self.state.visited else {})

    def restored(self, snapshots: Sequence[FrameStore]) -> FrameStore:
        """Its own frames, also of another window, and the lowest next window of all, moved up to a boundary.

        Frames off the grid are moved up to it and combined; those that no window still to come holds are gone. Raises
        `JobFailedError` for a frame that moves into a window that ends above 2^63 - 1, as `row` does for such a row.
        """
        shape = self.shape
        start = min(store.next for store in snapshots)
        received = {key: min(s.received.get(key, MIN) for s in snapshots) for key in snapshots[0].received}
        store = FrameStore(next=start if start == MIN else _moved_up(start, shape.slide), received=received)
        for frame, before in sorted(snapshots[0].frames.items()):
            moved = _moved_up(frame, shape.slide)
            if (end := shape.last_end(moved)) < store.next:
                continue
            if end > MAX:
                raise JobFailedError(
                    Reason.BEYOND_64_BITS,
                    f"Rows of a snapshot, from before {frame}, move into the window [{end - shape.size}, {end}), which "
                    "reaches beyond 64 bits.",
                    remedy="Restart with windows of the size and slide with which the snapshot was taken.",
                )
            groups = store.frames.setdefault(moved, {})
            for group, held in before.items():
                groups[group] = self._combined(groups[group], held) if group in groups else held
        store.count = sum(map(len, store.frames.values()))
        return store


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Rows in [start, end), in the unit of the event times."""

    start: int
    end: int
    held: Held


@dataclass(slots=True)
class Sessions:
    """The open sessions of every group by time, and the last watermark."""

    groups: dict[RowValues, list[OpenSession]] = field(default_factory=dict)
    watermark: int = MIN


@dataclass(kw_only=True, eq=False)
class SessionProcessor(_Aggregation[Sessions]):
    """Sessions over the time in column `time`; `group` are the columns of the grouping key, none for one group."""

    timeout: int
    time: int
    group: tuple[int, ...] = ()

    def start(self) -> Sessions:
        """No session is open."""
        return Sessions()

    def row(self, values: RowValues, edge: int) -> None:
        """It extends a session, joins two or begins one, or is dropped.

        Raises `JobFailedError` for a row on time whose session ends above 2^63 - 1.
        """
        time, state = row_time(values, self.time), self.state
        if time < state.watermark:
            self.drops.append(Drop(edge, values, "session", self.key, time, state.watermark))
            return
        end = time + self.timeout
        if end > MAX:
            raise _beyond_64_bits(values, time, time, end, self.timeout)
        alone = OpenSession(time, end, self._with(None, values))
        group = group_of(values, self.group)
        sessions = state.groups.get(group, [])
        apart = [session for session in sessions if session.end <= alone.start or alone.end <= session.start]
        whole = reduce(self._joined, [*(session for session in sessions if session not in apart), alone])
        state.groups[group] = sorted([*apart, whole], key=lambda session: session.start)

    def _joined(self, first: OpenSession, second: OpenSession) -> OpenSession:
        both = self._combined(first.held, second.held)
        return OpenSession(min(first.start, second.start), max(first.end, second.end), both)

    def _close(self, watermark: int | None) -> None:
        ended: list[tuple[OpenSession, RowValues]] = []
        for group, sessions in list(self.state.groups.items()):
            stays = [s for s in sessions if watermark is not None and self.closed_by(s.end) > watermark]
            ended += [(session, group) for session in sessions if session not in stays]
            self.state.groups[group] = stays
            if not stays:
                del self.state.groups[group]
        ended.sort(key=lambda entry: (entry[0].end, entry[0].start, group_order(entry[1])))
        for session, group in ended:
            results = finished(self.aggregates, session.held.accumulators)
            self.out.append((session.start, session.end, *group, *results))
        if watermark is not None:
            self.state.watermark = watermark

    def closed_by(self, end: int) -> int:
        """The lowest watermark that closes a session that ends at `end`."""
        return end + 1

    @property
    def open_windows(self) -> list[OpenWindow]:
        """The sessions that hold rows."""
        return [
            OpenWindow(session.start, session.end, session.held.rows, group)
            for group, sessions in self.state.groups.items()
            for session in sessions
        ]

    @property
    def size(self) -> int:
        """The open sessions."""
        return sum(map(len, self.state.groups.values()))

    def restored(self, snapshots: Sequence[Sessions]) -> Sessions:
        """Its own sessions, and the lowest watermark of all instances."""
        return Sessions(snapshots[0].groups, min(snapshot.watermark for snapshot in snapshots))
