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
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import ClassVar, NamedTuple

from wmlab.dataflow.model import aggregate
from wmlab.dataflow.model.aggregate import Accumulators, Aggregation, group_of, group_order
from wmlab.dataflow.model.items import MAX, MIN, Event, FrameGrid, FrozenMap, RowValues, Watermark, row_time
from wmlab.dataflow.model.processor import (
    DESIGN,
    Deviations,
    Drop,
    JobFailedError,
    Processor,
    ProcessorState,
    Reason,
    Reply,
)


class Held(NamedTuple):
    """What is held of some rows: how many there are, and their accumulators."""

    rows: int
    accumulators: Accumulators


Groups = FrozenMap[RowValues, Held]


class OpenWindow(NamedTuple):
    """A window [start, end) that has not come out, how many rows it holds, and of a session the group."""

    start: int
    end: int
    rows: int
    group: RowValues = ()


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Windows of `size`, one every `slide`, of which it is a multiple, in the unit of the times; tumbling if equal."""

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
        """The [start, end) of every window that holds a time, ascending. Source: upstream class `WindowUtils`."""
        frame = self.frames.higher(time)
        return tuple((end - self.size, end) for end in range(frame, self.last_end(frame) + 1, self.slide))


@dataclass(frozen=True, slots=True)
class FrameStore:
    """Accumulators by frame and group, and the end of the next window.

    Of grouped times by key: the watermark that was `received` and the one that was `sent`; `visited` groups so far. The
    last bound that was sent as a watermark is among `sent` too.
    """

    frames: FrozenMap[int, Groups] = field(default_factory=FrozenMap)
    next: int = MIN
    received: FrozenMap[int, int] = field(default_factory=FrozenMap)
    sent: FrozenMap[int, int] = field(default_factory=FrozenMap)
    visited: int = 0

    def ends(self, shape: WindowShape, upto: int, *, every: bool = False) -> Sequence[int]:
        """The ends of the windows that a watermark at `upto` closes, ascending; empty windows only with `every`."""
        if not self.frames:
            return ()
        first = self.next if self.next != MIN else min(self.frames)
        if every:
            return range(first, upto + 1, shape.slide)
        of_each = (range(max(frame, first), min(shape.last_end(frame), upto) + 1, shape.slide) for frame in self.frames)
        return sorted(set(chain(*of_each)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aggregation(Processor[ProcessorState]):
    """What all windows share: watermarks of `key` close windows, whose rows were aggregated."""

    aggregates: tuple[Aggregation, ...]
    key: int = 0
    ignores_key: bool = False
    """Every watermark counts as one of its key, as before there were keys."""

    def watermark(self, state: ProcessorState, watermark: Watermark) -> Reply[ProcessorState]:
        """One of its key leaves behind the results of the windows that it closes."""
        if watermark.key != self.key:
            if not self.ignores_key:
                return Reply(state)
            watermark = Watermark(self.key, watermark.value)
        after, out = self._closed(state, watermark.value)
        return self._followed(after, out, watermark)

    def _followed(
        self, state: ProcessorState, results: tuple[Event, ...], watermark: Watermark
    ) -> Reply[ProcessorState]:
        """The results that a watermark of its key closes, and behind them the watermark."""
        return Reply(state, (*results, watermark))

    def complete(self, state: ProcessorState) -> Reply[ProcessorState]:
        """The results of all windows leave."""
        return Reply(*self._closed(state, None))

    def _closed(self, state: ProcessorState, watermark: int | None) -> tuple[ProcessorState, tuple[Event, ...]]:
        """The state without the windows that a watermark closes (None: without any), and their results."""
        raise NotImplementedError

    def _single(self, values: RowValues) -> Held:
        """What is held of one row."""
        return Held(1, aggregate.accumulated(self.aggregates, aggregate.created(self.aggregates), values))

    def combine(self, first: Held, second: Held) -> Held:
        """What is held of two parts together."""
        both = aggregate.combined_accumulators(self.aggregates, first.accumulators, second.accumulators)
        return Held(first.rows + second.rows, both)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowProcessor(_Aggregation[FrameStore]):
    """Windows over the time in column `time`; `group` are the columns of the grouping key, none for one group.

    `times` has the column of the time on each input edge, where they differ; `grouped` has of every key that goes on
    with a column of the group the index of that column in it. `limit` is the state limit in (frame, group) pairs, None
    for none. With `bounds_only` a watermark leaves as the last window bound at or below it, once for each bound.
    Source: "Keyed watermark support", Changes to window aggregation processors.
    """

    empty: ClassVar[FrameStore] = FrameStore()

    shape: WindowShape
    limit: int | None = None
    bounds_only: bool = False
    deviations: Deviations = DESIGN
    time: int
    group: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    grouped: tuple[tuple[int, int], ...] = ()

    def _closed(self, state: FrameStore, watermark: int | None) -> tuple[FrameStore, tuple[Event, ...]]:
        upto = self.shape.last_end(max(state.frames, default=MIN)) if watermark is None else watermark
        ends = state.ends(self.shape, upto, every=self.deviations.every_boundary)
        out = (self._result(end, *entry) for end in ends for entry in self._content(state, end))
        open_frames = {frame: groups for frame, groups in state.frames.items() if self.shape.last_end(frame) > upto}
        start = state.next if watermark is None else self.shape.frames.higher(watermark)
        return replace(state, frames=FrozenMap(open_frames), next=start), tuple(out)

    def _followed(self, state: FrameStore, results: tuple[Event, ...], watermark: Watermark) -> Reply[FrameStore]:
        """Behind the results the watermark or, with `bounds_only`, its bound, unless that was sent before."""
        if not self.bounds_only:
            return Reply(state, (*results, watermark))
        key, bound = watermark.key, self.shape.frames.floor(watermark.value)
        if bound <= state.sent.get(key, MIN):
            return Reply(state, results)
        return Reply(replace(state, sent=state.sent.put(key, bound)), (*results, Watermark(key, bound)))

    def _content(self, state: FrameStore, end: int) -> list[tuple[RowValues, Held]]:
        """What the window that ends at `end` holds, by group in a fixed order."""
        content: dict[RowValues, Held] = {}
        for frame in range(end - self.shape.size + self.shape.slide, end + 1, self.shape.slide):
            for group, held in state.frames.get(frame, {}).items():
                content[group] = self.combine(content[group], held) if group in content else held
        return sorted(content.items(), key=lambda entry: group_order(entry[0]))

    def _result(self, end: int, group: RowValues, held: Held) -> Event:
        """The row (start, end, group..., results...)."""
        return Event((end - self.shape.size, end, *group, *aggregate.finished(self.aggregates, held.accumulators)))

    def _added(self, state: FrameStore, frame: int, group: RowValues, held: Held) -> FrameStore:
        """With rows added to those of a group in a frame."""
        groups: Groups = state.frames.get(frame, FrozenMap())
        sums = self.combine(groups[group], held) if group in groups else held
        return replace(state, frames=state.frames.put(frame, groups.put(group, sums)))

    def closed_by(self, end: int) -> int:
        """The lowest watermark that closes the window that ends at `end`."""
        return end

    def open(self, state: FrameStore) -> list[OpenWindow]:
        """The windows that hold rows."""
        rows = Counter[int]()
        for frame, groups in state.frames.items():
            for end in range(max(frame, state.next), self.shape.last_end(frame) + 1, self.shape.slide):
                rows[end] += sum(held.rows for held in groups.values())
        return [OpenWindow(end - self.shape.size, end, count) for end, count in rows.items()]

    def size(self, state: FrameStore) -> int:
        """The (frame, group) pairs."""
        return sum(map(len, state.frames.values()))

    def sizes(self, state: FrameStore) -> dict[str, int]:
        """Also the groups that were visited for the sake of grouped times, if any."""
        return {"all": self.size(state)} | ({"visited": state.visited} if state.visited else {})

    def restore(self, snapshots: Sequence[FrameStore]) -> FrameStore:
        """Its own frames, also of another window, and the lowest next window of all, moved up to a boundary.

        Frames off the grid are moved up to it and merged; those that no window still to come holds are left out.
        """
        higher = self.shape.frames.higher
        start = min(store.next for store in snapshots)
        received = {key: min(s.received.get(key, MIN) for s in snapshots) for key in snapshots[0].received}
        store = FrameStore(next=start if start == MIN else higher(start - 1), received=FrozenMap(received))
        for frame, groups in sorted(snapshots[0].frames.items()):
            moved = higher(frame - 1)
            if self.shape.last_end(moved) < store.next:
                continue
            for group, held in groups.items():
                store = self._added(store, moved, group, held)
        return store

    def time_on(self, edge: int) -> int:
        """The column of the time on an input edge."""
        return self.times[edge] if self.times else self.time

    def watermark(self, state: FrameStore, watermark: Watermark) -> Reply[FrameStore]:
        """As all windows do; grouped times follow."""
        if any(key == watermark.key for key, _ in self.grouped):
            reply = Reply(replace(state, received=state.received.put(watermark.key, watermark.value)))
        else:
            # In a dataclass with slots super() needs its arguments.
            reply = super(WindowProcessor, self).watermark(state, watermark)
        if not self.grouped:
            return reply
        state, out = reply.state, list(reply.out)
        open_groups = [group for groups in state.frames.values() for group in groups]
        for key, index in self.grouped:
            if key in state.received:
                times = (time for group in open_groups if type(time := group[index]) is int)
                due = min([state.received[key], *times])
                state = replace(state, visited=state.visited + len(open_groups))
                if due > state.sent.get(key, MIN):
                    state = replace(state, sent=state.sent.put(key, due))
                    out.append(Watermark(key, due))
        return Reply(state, tuple(out))

    def row(self, state: FrameStore, edge: int, event: Event) -> Reply[FrameStore]:
        """It goes into its frame. Raises `JobFailedError` at the state limit: when the count would reach it.

        With `limit_when_exceeded`, when it would be above it. Source: upstream class `SlidingWindowP`.
        """
        time = row_time(event.values, self.time_on(edge))
        frame = self.shape.frames.higher(time)
        if frame < state.next:
            limit = state.next - self.shape.slide
            return Reply(state, drops=(Drop(edge, event, "window", self.key, time, limit),))
        group, most, count = group_of(event.values, self.group), self.limit, self.size(state) + 1
        is_new = group not in state.frames.get(frame, ())
        if is_new and most is not None and count >= most + self.deviations.limit_when_exceeded:
            raise JobFailedError(
                Reason.LIMIT_EXCEEDED,
                f"The window would hold {count} accumulators at a limit of {most}.",
                remedy="Raise the limit, or let the watermark come sooner so that windows close.",
            )
        return Reply(self._added(state, frame, group, self._single(event.values)))


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Rows in [start, end), in the unit of the event times."""

    start: int
    end: int
    held: Held


@dataclass(frozen=True, slots=True)
class Sessions:
    """The open sessions of every group by time, and the last watermark."""

    groups: FrozenMap[RowValues, tuple[OpenSession, ...]] = field(default_factory=FrozenMap)
    watermark: int = MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionProcessor(_Aggregation[Sessions]):
    """Sessions over the time in column `time`; `group` are the columns of the grouping key, none for one group."""

    empty: ClassVar[Sessions] = Sessions()

    timeout: int
    time: int
    group: tuple[int, ...] = ()

    def row(self, state: Sessions, edge: int, event: Event) -> Reply[Sessions]:
        """It extends a session, joins two or begins one, or is dropped."""
        time = row_time(event.values, self.time)
        if time < state.watermark:
            return Reply(state, drops=(Drop(edge, event, "session", self.key, time, state.watermark),))
        alone = OpenSession(time, min(MAX, time + self.timeout), self._single(event.values))
        group = group_of(event.values, self.group)
        before = state.groups.get(group, ())
        apart = [session for session in before if session.end <= alone.start or alone.end <= session.start]
        whole = reduce(self._merged, [*(session for session in before if session not in apart), alone])
        sessions = tuple(sorted((*apart, whole), key=lambda session: session.start))
        return Reply(replace(state, groups=state.groups.put(group, sessions)))

    def _merged(self, first: OpenSession, second: OpenSession) -> OpenSession:
        both = self.combine(first.held, second.held)
        return OpenSession(min(first.start, second.start), max(first.end, second.end), both)

    def _closed(self, state: Sessions, watermark: int | None) -> tuple[Sessions, tuple[Event, ...]]:
        ended: list[tuple[OpenSession, RowValues]] = []
        open_groups = {}
        for group, sessions in state.groups.items():
            stays = tuple(
                session for session in sessions if watermark is not None and self.closed_by(session.end) > watermark
            )
            ended += [(session, group) for session in sessions if session not in stays]
            if stays:
                open_groups[group] = stays
        ended.sort(key=lambda entry: (entry[0].end, entry[0].start, group_order(entry[1])))
        out = tuple(
            Event((session.start, session.end, *group, *aggregate.finished(self.aggregates, session.held.accumulators)))
            for session, group in ended
        )
        return Sessions(FrozenMap(open_groups), state.watermark if watermark is None else watermark), out

    def closed_by(self, end: int) -> int:
        """The lowest watermark that closes a session that ends at `end`."""
        return end + 1

    def open(self, state: Sessions) -> list[OpenWindow]:
        """The sessions that hold rows."""
        return [
            OpenWindow(session.start, session.end, session.held.rows, group)
            for group, sessions in state.groups.items()
            for session in sessions
        ]

    def size(self, state: Sessions) -> int:
        """The open sessions."""
        return sum(map(len, state.groups.values()))

    def restore(self, snapshots: Sequence[Sessions]) -> Sessions:
        """Its own sessions, and the lowest watermark of all instances."""
        return Sessions(snapshots[0].groups, min(snapshot.watermark for snapshot in snapshots))
