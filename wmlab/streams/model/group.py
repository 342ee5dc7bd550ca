"""The shared state of a reader group: which reader has which segment, how far the group has read, and checkpoints.

One object is the whole state, with a part for each stream that the group reads. A change is made on a copy, which takes
the place of the state if that has still the revision that was copied; when somebody else was faster, it is made again
on a copy of the newer state. So a state that somebody has seen never changes, and a reader may know an older one. Each
change says whether there was one to make: what a reader may not do, or somebody has done already, changes nothing.

Every segment of a group has a last-read offset, owned or not. It is overwritten when its reader publishes or releases
it, and left alone when the reader disappears. A finished segment is read no more, and a successor appears at offset 0
once all its predecessors have finished. Until then the finished segment still says where the group is at these keys: it
counts in the position, at its end, and so does one that has no successors. (Upstream forgets it at once; then the upper
bound may be below a time noted before the location, which PDP-33, Event Reader API Changes, excludes. It also depends
on the moments at which a reader has looked.) The design text shares times instead: a map from reader to the time of the
last watermark that it has passed with its own segments and those nobody owns; the group is at the minimum. A reader
without segments is not in the map. Next to its time each reader has its upper bound there. An entry changes when its
reader has passed a later cut, so nobody takes the group's time back:

- A reader that gives a segment back, reads it to its end or disappears leaves its time to all others. They count as
  their own what nobody owns. An entry that was later becomes this one.
- Who comes to the map begins with the time of the group, up to which all segments have been read that nobody owned.
- While nobody is in the map, the group keeps the time of the last who was.

(The document says none of this: by it a crash removes the smallest time, and time jumps ahead of unread events.)

A checkpoint is one position that all readers agree on, to which the group can be taken back. It is asked for; each
reader then reports where it is, once; what nobody owns counts where its next owner would begin. When all have reported
it is complete. In the design text it also carries the offset in the marks segment of the reader that is least far
there; the implementation leaves that out. `generation` grows with every reset: a reader of an older one starts again.

A reader's load is the sum over its segments of a weight: one each, the bytes that remain to be read, or how far the
segment's time is behind, on top of a weight for being there. A reader gives a segment back when the larger of its load
and that of the least loaded reader shrinks by it. It gives the one with which it shrinks most, of several the lightest.

Source: PDP-33, Client Changes (reader group state, getCheckpoint, getStreamCut), and PDP-33, Future Possibilities
(rebalancing by time instead of bytes); upstream classes `ReaderGroupState` and its updates, `PositionImpl`,
`ReaderGroupStateManager` (findSegmentToReleaseIfRequired, calculateNumSegmentsToAcquire), `ReaderGroupImpl`
(resetReaderGroup; issue 4194), `CheckpointState`, `CheckpointImpl` and `StateSynchronizerImpl` (conditionallyWrite).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wmlab.streams.model.position import Position
from wmlab.streams.model.window import UNKNOWN, TimeWindow, joint

StreamSegment = tuple[str, int]
"""A stream, and the id of one of its segments."""


@dataclass(slots=True)
class PendingCheckpoint:
    """A checkpoint that the readers in `waiting` have not reported for, and what the others have reported.

    `offsets` are theirs; `marks_offsets` has for each stream where that of them is that is least far in the marks
    segment.
    """

    name: str
    waiting: set[str]
    offsets: dict[StreamSegment, int] = field(default_factory=dict)
    marks_offsets: dict[str, int] = field(default_factory=dict)

    def copy(self) -> PendingCheckpoint:
        """The same in an object of its own."""
        return PendingCheckpoint(self.name, set(self.waiting), dict(self.offsets), dict(self.marks_offsets))


@dataclass(slots=True)
class StreamReading:
    """What a group shares about one stream: last-read offsets in bytes, ascending by segment, and who owns what.

    An owner of None is nobody. `resume` is where the next owner of a segment begins to read. `pending` maps a future
    segment to its predecessors; it can be read when all of them are `finished`, which maps the segments that are read
    to their end, and still count, to that end. `times` is the map of the design text, `rangeless` are the segments
    whose key range the group does not know. `left` is the window while nobody is in the map. `marks_offset` is where
    readers begin in the marks segment (bytes); None: at its start.
    """

    offsets: dict[int, int]
    owners: dict[int, str | None]
    resume: dict[int, int]
    pending: dict[int, frozenset[int]] = field(default_factory=dict)
    finished: dict[int, int] = field(default_factory=dict)
    times: dict[str, TimeWindow] = field(default_factory=dict)
    rangeless: frozenset[int] = frozenset()
    marks_offset: int | None = None
    left: TimeWindow = UNKNOWN

    @classmethod
    def begin(cls, offsets: Mapping[int, int], marks_offset: int | None = None) -> StreamReading:
        """A group that has read nothing from these offsets on, and in which nobody owns a segment."""
        ordered = {segment: offsets[segment] for segment in sorted(offsets)}
        return cls(ordered, dict.fromkeys(ordered), dict(ordered), marks_offset=marks_offset)

    def copy(self) -> StreamReading:
        """The same in an object of its own."""
        return replace(
            self,
            offsets=dict(self.offsets),
            owners=dict(self.owners),
            resume=dict(self.resume),
            pending=dict(self.pending),
            finished=dict(self.finished),
            times=dict(self.times),
        )

    def checkpoint(self, offsets: Mapping[int, int], marks_offset: int | None) -> StreamReading:
        """The stream at other offsets of its open segments, as a reset begins it."""
        begun = self.begin(offsets, marks_offset)
        begun.pending, begun.finished = dict(self.pending), dict(self.finished)
        return begun

    @property
    def position(self) -> Position:
        """How far the group has read, as its trackers compare it: with the finished segments that still count."""
        return Position({**self.offsets, **self.finished})

    @property
    def window(self) -> TimeWindow:
        """The group's window over the map of times: its lower bound is their minimum.

        None while a reader in the map has passed nothing. The document has the lower bound only; what is ahead of every
        reader's segments is ahead of the group.
        """
        return joint(self.times.values()) if self.times else self.left

    def share_of(self, reader: str) -> Position:
        """The position that a reader compares for the map of times: its own segments and those nobody owns.

        A finished segment that still counts is nobody's. Source: PDP-33, Client Changes ("counting as its own any
        unassigned Segments").
        """
        mine = {segment for segment, owner in self.owners.items() if owner in (reader, None)}
        offsets = {segment: offset for segment, offset in self.offsets.items() if segment in mine}
        return Position({**offsets, **self.finished})

    def owned(self, reader: str) -> list[int]:
        """The segments of a reader, ascending."""
        return sorted(segment for segment, owner in self.owners.items() if owner == reader)

    @property
    def unassigned(self) -> list[int]:
        """The segments that no reader owns, ascending."""
        return sorted(segment for segment, owner in self.owners.items() if owner is None)

    def leave_time(self, reader: str) -> None:
        """A segment of a reader is nobody's now: the others take its time if theirs is later.

        Without another segment it has no place in the map.
        """
        window = self.times.get(reader)
        if window is None:
            return
        self.times = {other: joint((time, window)) for other, time in self.times.items()}
        if reader not in self.owners.values():
            del self.times[reader]
        self.left = window


Checkpoint = Mapping[str, StreamReading]
"""Where a group is in each of its streams, or a stream cut of the group; nobody changes it."""


@dataclass(slots=True)
class GroupState:
    """The whole shared state of a reader group; `streams` holds the part of each stream.

    `revision` grows with every change that is made.
    """

    streams: dict[str, StreamReading]
    revision: int = 0
    readers: set[str] = field(default_factory=set)
    generation: int = 0
    pending: PendingCheckpoint | None = None
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)

    def copy(self) -> GroupState:
        """The same in an object of its own, to be changed."""
        return replace(
            self,
            streams={stream: reading.copy() for stream, reading in self.streams.items()},
            readers=set(self.readers),
            pending=None if self.pending is None else self.pending.copy(),
            checkpoints=dict(self.checkpoints),
        )

    def add_reader(self, reader: str) -> bool:
        """One more reader; False if it is in already."""
        is_new = reader not in self.readers
        self.readers.add(reader)
        return is_new

    def remove_reader(self, reader: str, at: Mapping[StreamSegment, int] | None = None) -> bool:
        """A reader goes: its segments are free, at the offsets `at` if it says goodbye; False for an unknown reader.

        A checkpoint does not wait for it.
        """
        if reader not in self.readers:
            return False
        for segment, offset in self._owned_of(reader, at or {}).items():
            self.release(reader, segment, offset)
        self.readers.discard(reader)
        for reading in self.streams.values():
            reading.owners.update(dict.fromkeys(reading.owned(reader)))
            reading.leave_time(reader)
        if self.pending is not None:
            self.pending.waiting.discard(reader)
            self._complete_checkpoint()
        return True

    def acquire(self, reader: str, segment: StreamSegment) -> bool:
        """A reader takes a free segment; its offset does not change.

        False when the reader is unknown, or the segment is not there or not free.
        """
        stream, number = segment
        reading = self.streams[stream]
        if reader not in self.readers or reading.owners.get(number, reader) is not None:
            return False
        reading.owners[number] = reader
        reading.times.setdefault(reader, reading.window)
        return True

    def release(self, reader: str, segment: StreamSegment, offset: int) -> bool:
        """A reader gives a segment back; its offset becomes `offset`, even if that is lower.

        The next owner begins there, and a reader that loses its last segment leaves the map of times. False when the
        reader does not own it.
        """
        reading, number = self.streams[segment[0]], segment[1]
        if reading.owners.get(number) != reader:
            return False
        reading.offsets[number] = reading.resume[number] = offset
        reading.owners[number] = None
        reading.leave_time(reader)
        return True

    def publish(self, reader: str, offsets: Mapping[StreamSegment, int]) -> bool:
        """A reader publishes offsets, of segments that it owns only; whether one of them is another one than before."""
        moved = False
        for (stream, number), offset in self._owned_of(reader, offsets).items():
            moved |= self.streams[stream].offsets[number] != offset
            self.streams[stream].offsets[number] = offset
        return moved

    def complete(
        self, reader: str, segment: StreamSegment, successors: Mapping[int, frozenset[int]], *, end: int
    ) -> bool:
        """A segment is read to its `end` (bytes); `successors` maps each of its successors to all predecessors.

        A successor appears at offset 0 when none of its predecessors is left. The segment counts in the position until
        all its successors have appeared. False when the reader does not own the segment.
        """
        reading, number = self.streams[segment[0]], segment[1]
        if reading.owners.get(number) != reader:
            return False
        for column in (reading.offsets, reading.owners, reading.resume):
            del column[number]
        reading.finished[number] = end
        waiting = {**successors, **reading.pending}
        starts = {future: 0 for future, before in waiting.items() if before <= reading.finished.keys()}
        reading.pending = {future: before for future, before in waiting.items() if future not in starts}
        reading.offsets = dict(sorted({**reading.offsets, **starts}.items()))
        reading.owners.update(dict.fromkeys(starts))
        reading.resume.update(starts)
        released = frozenset[int]().union(*(waiting[future] for future in starts))
        for passed in released.difference(*reading.pending.values()):
            del reading.finished[passed]
        reading.leave_time(reader)
        return True

    def note_time(self, reader: str, stream: str, window: TimeWindow) -> bool:
        """A reader puts its window into the map of a stream: the time it has passed there, and what is ahead of it.

        Whether its entry is another one now: an earlier time than its own changes nothing, and without segments it has
        no place there.
        """
        times = self.streams[stream].times
        before = times.get(reader)
        if before is None:
            return False
        times[reader] = before.followed_by(window)
        return (times[reader], times[reader].passed_seq) != (before, before.passed_seq)

    def begin_checkpoint(self, name: str) -> bool:
        """A checkpoint is asked for; it is complete at once when there is no reader.

        False when one is under way or the name was used.
        """
        if self.pending is not None or name in self.checkpoints:
            return False
        self.pending = PendingCheckpoint(name, set(self.readers))
        self._complete_checkpoint()
        return True

    def take_cut(self, name: str, marks_offsets: Mapping[str, int]) -> bool:
        """The stream cut that the group has published is kept like a checkpoint; no reader has to report.

        `marks_offsets` has for each stream the least offset in the marks segment at which a reader is. False when the
        name was used. Source: PDP-33, Client Changes (getStreamCut).
        """
        if name in self.checkpoints:
            return False
        self.checkpoints[name] = {
            stream: reading.checkpoint(reading.offsets, marks_offsets.get(stream))
            for stream, reading in self.streams.items()
        }
        return True

    def report(
        self, reader: str, offsets: Mapping[StreamSegment, int], marks_offsets: Mapping[str, int] | None = None
    ) -> bool:
        """A reader reports for the checkpoint under way, which publishes its offsets too.

        False when none is under way, or the reader has reported: only the first one counts.
        """
        if self.pending is None or reader not in self.pending.waiting:
            return False
        self.publish(reader, offsets)
        self.pending.waiting.discard(reader)
        self.pending.offsets.update(self._owned_of(reader, offsets))
        for stream, offset in (marks_offsets or {}).items():
            self.pending.marks_offsets[stream] = min(offset, self.pending.marks_offsets.get(stream, offset))
        self._complete_checkpoint()
        return True

    def reset(self, name: str, *, ranges: bool) -> bool:
        """Go back to a completed checkpoint: nobody owns anything and every reader starts again.

        Without `ranges` no key range is known. False for an unknown checkpoint.
        """
        if name not in self.checkpoints:
            return False
        self.pending = None
        self.generation += 1
        self.streams = {stream: self.checkpoints[name][stream].copy() for stream in self.streams}
        if not ranges:
            for reading in self.streams.values():
                reading.rangeless = frozenset(reading.position.offsets)
        return True

    def owned(self, reader: str) -> tuple[StreamSegment, ...]:
        """The segments of a reader, stream by stream."""
        return tuple((stream, segment) for stream, part in self.streams.items() for segment in part.owned(reader))

    @property
    def unassigned(self) -> tuple[StreamSegment, ...]:
        """The segments that nobody owns, stream by stream."""
        return tuple((stream, segment) for stream, part in self.streams.items() for segment in part.unassigned)

    @property
    def has_unassigned(self) -> bool:
        """Whether nobody owns some segment."""
        return any(None in reading.owners.values() for reading in self.streams.values())

    @property
    def size(self) -> int:
        """The number of segments in the state."""
        return sum(len(reading.offsets) for reading in self.streams.values())

    def _complete_checkpoint(self) -> None:
        """Record the checkpoint under way if nobody has to report any more.

        Segments without a report count where their next owner begins. What a crashed reader leaves is read again from
        the checkpoint on.
        """
        pending = self.pending
        if pending is None or pending.waiting:
            return
        positions = {}
        for stream, reading in self.streams.items():
            offsets = {s: pending.offsets.get((stream, s), reading.resume[s]) for s in reading.offsets}
            positions[stream] = reading.checkpoint(offsets, pending.marks_offsets.get(stream))
            reading.resume.update(offsets)
        self.checkpoints[pending.name] = positions
        self.pending = None

    def _owned_of(self, reader: str, offsets: Mapping[StreamSegment, int]) -> dict[StreamSegment, int]:
        """Of the offsets those of segments that a reader owns."""
        return {
            (stream, segment): offset
            for (stream, segment), offset in offsets.items()
            if self.streams[stream].owners.get(segment) == reader
        }


Loads = Mapping[str, Mapping[StreamSegment, int]]
"""Of each reader, the weight of each segment that it owns."""


def to_release(loads: Loads, reader: str, *, gain: int = 1) -> StreamSegment | None:
    """The segment that a reader should give back, or None.

    Nothing is given back for less than `gain`, nor the last segment of a reader. Raises `KeyError` for an unknown
    reader.
    """
    mine = loads[reader]
    load = sum(mine.values())
    least = min((sum(other.values()) for name, other in loads.items() if name != reader), default=load)
    if len(mine) < 2:
        return None
    larger = {segment: max(load - weight, least + weight) for segment, weight in mine.items()}
    best = min(mine, key=lambda segment: (larger[segment], mine[segment], segment))
    return best if load - larger[best] >= gain else None


def is_least_loaded(loads: Loads, reader: str) -> bool:
    """Whether a free segment is for this reader: the least loaded, of those the one with fewest segments, by name."""
    return reader == min(loads, key=lambda name: (sum(loads[name].values()), len(loads[name]), name))


def fair_share(segments: int, readers: int) -> int:
    """How many segments a reader may own: its even share, rounded up."""
    return -(-segments // max(1, readers))
