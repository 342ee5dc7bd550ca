"""The shared state of a reader group: who reads which segment, how far the group has read, and its checkpoints.

Every change is one function from a state to the next, made by compare-and-set: it names the revision it was made from,
and is made again on a newer state when somebody else was faster.

Every segment of a group has a last-read offset, assigned or not. It is overwritten when its reader publishes or
releases it, and left alone when the reader disappears. A finished segment leaves the state, and a successor appears
at offset 0 once all its predecessors have finished; until then its keys have no entry. The design text shares times
instead: a map from reader to the time of the last watermark that it has passed with its own segments and those nobody
owns; the group is at the minimum. A reader without segments is not in the map. One that owns segments and has passed
nothing has the time None, and so has the group. Beside its time each reader has its upper bound there.

A checkpoint is one position that all readers agree on, to which the group can be taken back. It is asked for; each
reader then reports where it is, once; what nobody owns counts where its next owner would begin. When all have reported
it is complete. In the design text it also carries the offset in the marks segment of the reader that is least far
there; the implementation leaves that out. `generation` grows with every reset: a reader of an older one begins anew.

A reader's load is the sum over its segments of a weight: one each, the bytes that remain to be read, or how far the
segment's time is behind, on top of a weight for being there. A reader gives a segment back when the larger of its load
and that of the least loaded reader shrinks by it, and it gives the one with which it shrinks most, of several the
lightest.

Source: PDP-33, Client Changes (reader group state, getCheckpoint, getStreamCut), and PDP-33, Future Possibilities
(rebalancing by time instead of bytes); upstream classes `ReaderGroupState` and its updates, `PositionImpl`,
`ReaderGroupStateManager` (findSegmentToReleaseIfRequired, calculateNumSegmentsToAcquire), `ReaderGroupImpl`
(resetReaderGroup; issue 4194), `CheckpointState`, `CheckpointImpl` and `StateSynchronizerImpl` (conditionallyWrite).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from wmlab.core.errors import ModelError
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.segment import segment_name
from wmlab.streams.model.window import TimeWindow, joint

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shared(Generic[T]):
    """A value and its revision, which grows by one with every change."""

    value: T
    revision: int = 0

    def replace_if(self, revision: int, value: T) -> tuple[Shared[T], bool]:
        """The new value if the revision is still the present one; else the same as before, and False."""
        return (Shared(value, revision + 1), True) if revision == self.revision else (self, False)


@dataclass(frozen=True, slots=True)
class GroupState:
    """Immutable group state: offsets in bytes, owner of each segment (None: nobody), and what is still waited for.

    `pending` maps a future segment to its predecessors that are not finished. `resume` is where the next owner of a
    segment begins to read, `ends` where a bounded group stops in a segment, `times` the map of the design text,
    `rangeless` the segments whose key range the group does not know.
    """

    offsets: Mapping[int, int]
    owners: Mapping[int, str | None]
    pending: Mapping[int, frozenset[int]] = field(default_factory=dict)
    readers: frozenset[str] = frozenset()
    resume: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    times: Mapping[str, TimeWindow] = field(default_factory=dict)
    rangeless: frozenset[int] = frozenset()

    @classmethod
    def create(
        cls,
        offsets: Mapping[int, int],
        pending: Mapping[int, frozenset[int]] | None = None,
        *,
        ends: Mapping[int, int] | None = None,
    ) -> GroupState:
        """A group that starts at the given offsets and stops at `ends`, with no reader.

        Raises `ModelError` for a negative offset.
        """
        known = ReaderPosition(offsets).offsets
        stops = ReaderPosition(ends or {}).offsets
        return cls(known, dict.fromkeys(known), pending or {}, resume=known, ends=stops)

    def add_reader(self, reader: str) -> GroupState:
        """The group with one more reader. Raises `ModelError` if it is in already."""
        if reader in self.readers:
            raise ModelError(f"Reader {reader} is in the group already.", remedy="Give every reader its own name.")
        return replace(self, readers=self.readers | {reader})

    def remove_reader(self, reader: str) -> GroupState:
        """The group without a reader; its segments are free and keep their last-read offsets.

        Raises `ModelError` for an unknown reader.
        """
        self._refuse_unknown(reader)
        owners = {segment: None if owner == reader else owner for segment, owner in self.owners.items()}
        times = {name: time for name, time in self.times.items() if name != reader}
        return replace(self, owners=owners, readers=self.readers - {reader}, times=times)

    def acquire(self, reader: str, segment: int) -> GroupState:
        """The group after a reader has taken a free segment; its offset does not change.

        Raises `ModelError` when the reader is unknown, or the segment is not there or not free.
        """
        self._refuse_unknown(reader)
        if self.owners.get(segment, reader) is not None:
            free = ", ".join(map(segment_name, self.unassigned)) or "none: all are owned"
            raise ModelError(f"Segment {segment_name(segment)} is not free.", remedy=f"Acquire one of {free}.")
        times = {**self.times, reader: self.times.get(reader, TimeWindow(None, None))}
        return replace(self, owners={**self.owners, segment: reader}, times=times)

    def release(self, reader: str, segment: int, offset: int) -> GroupState:
        """The group after a reader has given a segment back; its offset becomes `offset`, even if that is lower.

        The next owner begins there, and a reader that loses its last segment leaves the map of times.
        Raises `ModelError` when the reader does not own it or the offset is negative.
        """
        self._refuse_foreign(reader, segment)
        offsets = ReaderPosition({**self.offsets, segment: offset}).offsets
        owners, resume = {**self.owners, segment: None}, {**self.resume, segment: offset}
        times = _times_of_owners(self.times, owners)
        return replace(self, offsets=offsets, owners=owners, resume=resume, times=times)

    def publish(self, reader: str, offsets: Mapping[int, int]) -> GroupState:
        """The group after a reader has published offsets; segments that are not in the state are ignored.

        Raises `ModelError` for an unknown reader or a negative offset.
        """
        self._refuse_unknown(reader)
        known = {segment: offset for segment, offset in offsets.items() if segment in self.offsets}
        return replace(self, offsets={**self.offsets, **ReaderPosition(known).offsets})

    def complete(self, reader: str, segment: int, successors: Mapping[int, frozenset[int]]) -> GroupState:
        """The group after a segment is done with; `successors` maps each of its successors to all predecessors.

        A successor appears at offset 0 when none of its predecessors is left; beyond the end of a bounded group
        there are none. Raises `ModelError` when the reader does not own the segment.
        """
        self._refuse_foreign(reader, segment)
        following = {} if segment in self.ends else successors
        waiting = {future: left - {segment} for future, left in {**following, **self.pending}.items()}
        ready = sorted(future for future, left in waiting.items() if not left)
        starts = dict.fromkeys(ready, 0)
        offsets = ReaderPosition({**_without(self.offsets, segment), **starts}).offsets
        owners = {**_without(self.owners, segment), **dict.fromkeys(ready)}
        pending = {future: left for future, left in waiting.items() if left}
        resume = {**_without(self.resume, segment), **starts}
        times = _times_of_owners(self.times, owners)
        return replace(self, offsets=offsets, owners=owners, pending=pending, resume=resume, times=times)

    def note_time(self, reader: str, window: TimeWindow) -> GroupState:
        """The group after a reader has put its window into the map: the time it has passed, and what is ahead of it.

        Without segments it has no place there. Raises `ModelError` for an unknown reader.
        """
        self._refuse_unknown(reader)
        return replace(self, times=_times_of_owners({**self.times, reader: window}, self.owners))

    @property
    def position(self) -> ReaderPosition:
        """How far the group has read, as its trackers compare it."""
        return ReaderPosition(self.offsets)

    @property
    def time(self) -> int | None:
        """The minimum of the map of times; None while a reader in it has passed nothing, or nobody is in it."""
        return self.window.lower

    @property
    def window(self) -> TimeWindow:
        """The group's window over the map.

        The document has the lower bound only; what is ahead of every reader's segments is ahead of the group.
        """
        return joint(self.times.values())

    def share_of(self, reader: str) -> ReaderPosition:
        """The position that a reader compares for the map of times: its own segments and those nobody owns.

        Source: PDP-33, Client Changes ("counting as its own any unassigned Segments").
        """
        mine = {s for s, owner in self.owners.items() if owner in (reader, None)}
        return ReaderPosition({s: offset for s, offset in self.offsets.items() if s in mine})

    def owned(self, reader: str) -> tuple[int, ...]:
        """The segments of a reader, ascending."""
        return tuple(sorted(segment for segment, owner in self.owners.items() if owner == reader))

    @property
    def unassigned(self) -> tuple[int, ...]:
        """The segments that no reader owns, ascending."""
        return tuple(sorted(segment for segment, owner in self.owners.items() if owner is None))

    def _refuse_unknown(self, reader: str) -> None:
        if reader not in self.readers:
            raise ModelError(f"Reader {reader} is not in the group.", remedy="Add the reader first.")

    def _refuse_foreign(self, reader: str, segment: int) -> None:
        self._refuse_unknown(reader)
        if self.owners.get(segment) != reader:
            raise ModelError(
                f"Reader {reader} does not own segment {segment_name(segment)}.", remedy="Let it acquire it first."
            )


def _times_of_owners(times: Mapping[str, TimeWindow], owners: Mapping[int, str | None]) -> Mapping[str, TimeWindow]:
    owning = set(owners.values())
    return {reader: time for reader, time in times.items() if reader in owning}


def _without(offsets: Mapping[int, T], segment: int) -> dict[int, T]:
    return {other: offset for other, offset in offsets.items() if other != segment}


Place = tuple[str, int]
"""A stream and a segment of it."""


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """Where a group is in one stream: offsets of open segments, and the segments that wait for predecessors.

    `marks_offset` is where to go on in the marks segment; None: at its start.
    """

    offsets: Mapping[int, int]
    pending: Mapping[int, frozenset[int]]
    marks_offset: int | None = None


Checkpoint = Mapping[str, StreamPlace]
"""A checkpoint or a stream cut of the group: the place in each stream."""


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A checkpoint that the readers in `waiting` have not reported for; `offsets` and `marks` are what others have.

    `marks` has for each stream where the reader is that is least far in the marks segment.
    """

    name: str
    waiting: frozenset[str]
    offsets: Mapping[Place, int] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Membership:
    """The whole shared state of a reader group; `streams` holds each stream's part.

    `origin` is the checkpoint that the group began at or was last taken back to.
    """

    streams: Mapping[str, GroupState]
    readers: frozenset[str] = frozenset()
    generation: int = 0
    pending: PendingCheckpoint | None = None
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    origin: Checkpoint | None = None

    def add_reader(self, reader: str) -> Membership:
        """One more reader. Raises `ModelError` if it is in already."""
        return replace(self._all(lambda state: state.add_reader(reader)), readers=self.readers | {reader})

    def remove_reader(self, reader: str, at: Mapping[Place, int] | None = None) -> Membership:
        """Without a reader: its segments are free, at the offsets `at` if it says goodbye.

        A checkpoint does not wait for it. Raises `ModelError` for an unknown reader.
        """
        state = self
        for place, offset in self._owned_of(reader, at or {}).items():
            state = state.release(reader, place, offset)
        state = replace(state._all(lambda part: part.remove_reader(reader)), readers=self.readers - {reader})
        if state.pending is None:
            return state
        return replace(state, pending=replace(state.pending, waiting=state.pending.waiting - {reader}))._completed()

    def acquire(self, reader: str, place: Place) -> Membership:
        """After a reader has taken a free segment. Raises `ModelError` as `GroupState.acquire`."""
        return self._one(place[0], lambda state: state.acquire(reader, place[1]))

    def release(self, reader: str, place: Place, offset: int) -> Membership:
        """After a reader has given a segment back. Raises `ModelError` as `GroupState.release`."""
        return self._one(place[0], lambda state: state.release(reader, place[1], offset))

    def publish(self, reader: str, offsets: Mapping[Place, int]) -> Membership:
        """After a reader has published offsets, of segments that it owns only."""
        moved: dict[str, dict[int, int]] = {}
        for (stream, segment), offset in self._owned_of(reader, offsets).items():
            if self.streams[stream].offsets[segment] != offset:
                moved.setdefault(stream, {})[segment] = offset
        parts = {stream: self.streams[stream].publish(reader, mine) for stream, mine in moved.items()}
        return replace(self, streams={**self.streams, **parts}) if parts else self

    def complete(self, reader: str, place: Place, successors: Mapping[int, frozenset[int]]) -> Membership:
        """After a segment is read to its end. Raises `ModelError` as `GroupState.complete`."""
        return self._one(place[0], lambda state: state.complete(reader, place[1], successors))

    def note_time(self, reader: str, stream: str, window: TimeWindow) -> Membership:
        """After a reader has put its window into the map. Raises `ModelError` for an unknown reader."""
        return self._one(stream, lambda state: state.note_time(reader, window))

    def begin_checkpoint(self, name: str) -> Membership:
        """With a checkpoint asked for; it is complete at once when there is no reader.

        Raises `ModelError` when one is under way or the name was used.
        """
        if self.pending is not None or name in self.checkpoints:
            raise ModelError(f"Checkpoint {name} cannot begin.", remedy="Wait for the last one, and use a new name.")
        return replace(self, pending=PendingCheckpoint(name, self.readers))._completed()

    def take_cut(self, name: str, marks: Mapping[str, int]) -> Membership:
        """With the stream cut that the group has published, kept like a checkpoint; no reader has to report.

        `marks` has for each stream the least offset in the marks segment at which a reader is. Raises `ModelError` when
        the name was used. Source: PDP-33, Client Changes (getStreamCut).
        """
        if name in self.checkpoints:
            raise ModelError(f"There is a checkpoint {name} already.", remedy="Use a new name.")
        places = {s: StreamPlace(state.offsets, state.pending, marks.get(s)) for s, state in self.streams.items()}
        return replace(self, checkpoints={**self.checkpoints, name: places})

    def report(self, reader: str, offsets: Mapping[Place, int], marks: Mapping[str, int] | None = None) -> Membership:
        """After a reader's report for the checkpoint under way, which publishes its offsets too; only the first counts.

        Raises `ModelError` when no checkpoint is under way.
        """
        if self.pending is None:
            raise ModelError("No checkpoint is under way.", remedy="Begin one first.")
        state, pending = self.publish(reader, offsets), self.pending
        if reader not in pending.waiting:
            return state
        lowest = {stream: min(offset, pending.marks.get(stream, offset)) for stream, offset in (marks or {}).items()}
        known = {**pending.offsets, **self._owned_of(reader, offsets)}
        reported = PendingCheckpoint(pending.name, pending.waiting - {reader}, known, {**pending.marks, **lowest})
        return replace(state, pending=reported)._completed()

    def reset(self, name: str, *, ranges: bool = True) -> Membership:
        """Back at a completed checkpoint: nobody owns anything and every reader begins anew.

        Without `ranges` no key range is known. Raises `ModelError` for an unknown checkpoint.
        """
        if name not in self.checkpoints:
            raise ModelError(f"There is no checkpoint {name}.", remedy="Name one that is complete.")
        origin, streams = self.checkpoints[name], {}
        for stream, state in self.streams.items():
            begun = GroupState.create(origin[stream].offsets, origin[stream].pending, ends=state.ends)
            rangeless = frozenset() if ranges else frozenset(begun.offsets)
            streams[stream] = replace(begun, readers=state.readers, rangeless=rangeless)
        return replace(self, streams=streams, generation=self.generation + 1, pending=None, origin=origin)

    def owned(self, reader: str) -> tuple[Place, ...]:
        """The segments of a reader, stream by stream."""
        return tuple((name, segment) for name, state in self.streams.items() for segment in state.owned(reader))

    @property
    def unassigned(self) -> tuple[Place, ...]:
        """The segments that nobody owns, stream by stream."""
        return tuple((name, segment) for name, state in self.streams.items() for segment in state.unassigned)

    @property
    def has_unassigned(self) -> bool:
        """Whether nobody owns some segment."""
        return any(None in state.owners.values() for state in self.streams.values())

    @property
    def size(self) -> int:
        """The number of segments in the state."""
        return sum(len(state.offsets) for state in self.streams.values())

    def _completed(self) -> Membership:
        """With the checkpoint under way recorded if nobody has to report any more.

        Segments without a report count where their next owner begins. What a crashed reader leaves is read again from
        the checkpoint on.
        """
        if self.pending is None or self.pending.waiting:
            return self
        places, streams = {}, {}
        for stream, state in self.streams.items():
            offsets = {s: self.pending.offsets.get((stream, s), state.resume[s]) for s in state.offsets}
            places[stream] = StreamPlace(offsets, state.pending, self.pending.marks.get(stream))
            streams[stream] = replace(state, resume={**state.resume, **offsets})
        return replace(self, streams=streams, pending=None, checkpoints={**self.checkpoints, self.pending.name: places})

    def _owned_of(self, reader: str, offsets: Mapping[Place, int]) -> dict[Place, int]:
        """Of the offsets those of segments that a reader owns."""
        return {
            (stream, segment): offset
            for (stream, segment), offset in offsets.items()
            if self.streams[stream].owners.get(segment) == reader
        }

    def _one(self, stream: str, change: Callable[[GroupState], GroupState]) -> Membership:
        return replace(self, streams={**self.streams, stream: change(self.streams[stream])})

    def _all(self, change: Callable[[GroupState], GroupState]) -> Membership:
        return replace(self, streams={name: change(state) for name, state in self.streams.items()})


Loads = Mapping[str, Mapping[Place, int]]
"""Of each reader, the weight of each segment that it owns."""


def to_release(loads: Loads, reader: str, *, gain: int = 1) -> Place | None:
    """The segment that a reader should give back, or None.

    Nothing is given back for less than `gain`, nor the last segment of a reader. Raises `KeyError` for an unknown
    reader.
    """
    mine = loads[reader]
    load = sum(mine.values())
    least = min((sum(other.values()) for name, other in loads.items() if name != reader), default=load)
    if len(mine) < 2:
        return None
    larger = {place: max(load - weight, least + weight) for place, weight in mine.items()}
    best = min(mine, key=lambda place: (larger[place], mine[place], place))
    return best if load - larger[best] >= gain else None


def is_least_loaded(loads: Loads, reader: str) -> bool:
    """Whether a free segment is for this reader: the least loaded, of those the one with fewest segments, by name."""
    return reader == min(loads, key=lambda name: (sum(loads[name].values()), len(loads[name]), name))


def fair_share(segments: int, readers: int) -> int:
    """How many segments a reader may own: its even share, rounded up."""
    return -(-segments // max(1, readers))
