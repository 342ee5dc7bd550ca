"""A reader group's shared state for one stream: who reads which segment, and how far the group has read.

Every segment of the group has a last-read offset, assigned or not. It is overwritten when its reader publishes or
releases it, and left alone when the reader disappears. A finished segment leaves the state, and a successor appears
at offset 0 once all its predecessors have finished; until then its keys have no entry.

The design text shares times instead: a map from reader to the time of the last watermark that it has passed with its
own segments and those nobody owns; the group is at the minimum. A reader without segments is not in the map. One that
owns segments and has passed nothing has the time None, and so has the group.

Source: PDP-33, Client Changes (reader group state); upstream class `ReaderGroupState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.segment import segment_name


@dataclass(frozen=True, slots=True)
class GroupState:
    """Immutable group state: offsets in bytes, owner of each segment (None: nobody), and what is still waited for.

    `pending` maps a future segment to its predecessors that are not finished; `finished` are the segments read to
    their end whose completion is not recorded yet. `resume` is where the next owner of a segment begins to read, `ends`
    where a bounded group stops in a segment, `times` the map of the design text, `rangeless` the segments whose key
    range the group does not know. Source: upstream class `ReaderGroupState`.
    """

    offsets: Mapping[int, int]
    owners: Mapping[int, str | None]
    pending: Mapping[int, frozenset[int]] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    readers: frozenset[str] = frozenset()
    resume: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    times: Mapping[str, int | None] = field(default_factory=dict)
    rangeless: frozenset[int] = frozenset()

    @classmethod
    def create(cls, offsets: Mapping[int, int], *, ends: Mapping[int, int] | None = None) -> GroupState:
        """A group that starts at the given offsets and stops at `ends`, with no reader.

        Raises `ModelError` for a negative offset. Source: upstream class `ReaderGroupState` (ReaderGroupStateInit).
        """
        known = ReaderPosition(offsets).offsets
        return cls(known, dict.fromkeys(known), resume=known, ends=ReaderPosition(ends or {}).offsets)

    def add_reader(self, reader: str) -> GroupState:
        """The group with one more reader. Raises `ModelError` if it is in already. Source: upstream `AddReader`."""
        if reader in self.readers:
            raise ModelError(f"Reader {reader} is in the group already.", remedy="Give every reader its own name.")
        return replace(self, readers=self.readers | {reader})

    def remove_reader(self, reader: str) -> GroupState:
        """The group without a reader; its segments are free and keep their last-read offsets.

        What it had finished but not completed will be read again by its next owner. Raises `ModelError` for an
        unknown reader. Source: upstream class `ReaderGroupState` (RemoveReader).
        """
        self._refuse_unknown(reader)
        owned = {segment for segment, owner in self.owners.items() if owner == reader}
        owners = {segment: None if segment in owned else owner for segment, owner in self.owners.items()}
        return replace(
            self,
            owners=owners,
            finished=self.finished - owned,
            readers=self.readers - {reader},
            times={name: time for name, time in self.times.items() if name != reader},
        )

    def acquire(self, reader: str, segment: int) -> GroupState:
        """The group after a reader has taken a free segment; its offset does not change.

        Raises `ModelError` when the reader is unknown, or the segment is not there or not free.
        Source: upstream class `ReaderGroupState` (AcquireSegment).
        """
        self._refuse_unknown(reader)
        if self.owners.get(segment, reader) is not None:
            raise ModelError(f"Segment {segment_name(segment)} is not free.", remedy=f"Acquire one of {self._free()}.")
        times = {**self.times, reader: self.times.get(reader)}
        return replace(self, owners={**self.owners, segment: reader}, times=times)

    def release(self, reader: str, segment: int, offset: int) -> GroupState:
        """The group after a reader has given a segment back; its offset becomes `offset`, even if that is lower.

        The next owner begins there, and a reader that loses its last segment leaves the map of times.
        Raises `ModelError` when the reader does not own it or the offset is negative.
        Source: upstream class `ReaderGroupState` (ReleaseSegment).
        """
        self._refuse_foreign(reader, segment)
        offsets = ReaderPosition({**self.offsets, segment: offset}).offsets
        owners = {**self.owners, segment: None}
        return replace(
            self,
            offsets=offsets,
            owners=owners,
            finished=self.finished - {segment},
            resume={**self.resume, segment: offset},
            times=_times_of_owners(self.times, owners),
        )

    def publish(self, reader: str, offsets: Mapping[int, int]) -> GroupState:
        """The group after a reader has published offsets; segments that are not in the state are ignored.

        Raises `ModelError` for an unknown reader or a negative offset.
        Source: upstream class `ReaderGroupState` (UpdatingDistances / position update).
        """
        self._refuse_unknown(reader)
        known = {segment: offset for segment, offset in offsets.items() if segment in self.offsets}
        return replace(self, offsets={**self.offsets, **ReaderPosition(known).offsets})

    def finish(self, reader: str, segment: int) -> GroupState:
        """The group after a reader has read a sealed segment to its end, before its completion is recorded.

        Raises `ModelError` when the reader does not own it. Source: upstream class `PositionImpl` (offset -1).
        """
        self._refuse_foreign(reader, segment)
        return replace(self, finished=self.finished | {segment})

    def complete(self, reader: str, segment: int, successors: Mapping[int, frozenset[int]]) -> GroupState:
        """The group after a segment is done with; `successors` maps each of its successors to all predecessors.

        A successor appears at offset 0 when none of its predecessors is left; beyond the end of a bounded group
        there are none. Raises `ModelError` when the reader does not own the segment.
        Source: upstream class `ReaderGroupState` (SegmentCompleted).
        """
        self._refuse_foreign(reader, segment)
        following = {} if segment in self.ends else successors
        waiting = {future: left - {segment} for future, left in {**following, **self.pending}.items()}
        ready = sorted(future for future, left in waiting.items() if not left)
        offsets = {s: offset for s, offset in self.offsets.items() if s != segment}
        resume = {s: offset for s, offset in self.resume.items() if s != segment}
        owners = {s: owner for s, owner in self.owners.items() if s != segment}
        return replace(
            self,
            offsets=ReaderPosition({**offsets, **dict.fromkeys(ready, 0)}).offsets,
            owners={**owners, **dict.fromkeys(ready)},
            pending={future: left for future, left in waiting.items() if left},
            finished=self.finished - {segment},
            resume={**resume, **dict.fromkeys(ready, 0)},
            times=_times_of_owners(self.times, owners),
        )

    def note_time(self, reader: str, time: int | None) -> GroupState:
        """The group after a reader has put the time it has passed into the map; without segments it has no place there.

        Raises `ModelError` for an unknown reader. Source: PDP-33, Client Changes.
        """
        self._refuse_unknown(reader)
        return replace(self, times=_times_of_owners({**self.times, reader: time}, self.owners))

    @property
    def position(self) -> ReaderPosition:
        """How far the group has read, as its trackers compare it. Source: upstream `ReaderGroupStateManager`."""
        open_segments = {s: offset for s, offset in self.offsets.items() if s not in self.finished}
        return ReaderPosition(open_segments, self.finished)

    @property
    def time(self) -> int | None:
        """The minimum of the map of times; None while a reader in it has passed nothing, or nobody is in it.

        Source: PDP-33, Client Changes (getCurrentTimeWindow).
        """
        known = [time for time in self.times.values() if time is not None]
        return min(known) if known and len(known) == len(self.times) else None

    def share_of(self, reader: str) -> ReaderPosition:
        """The position that a reader compares for the map of times: its own segments and those nobody owns.

        Source: PDP-33, Client Changes ("counting as its own any unassigned Segments").
        """
        mine = {s for s, owner in self.owners.items() if owner in (reader, None)}
        position = self.position
        return ReaderPosition({s: o for s, o in position.offsets.items() if s in mine}, position.finished & mine)

    def owned(self, reader: str) -> tuple[int, ...]:
        """The segments of a reader, ascending. Source: upstream class `ReaderGroupState` (getSegments)."""
        return tuple(sorted(segment for segment, owner in self.owners.items() if owner == reader))

    @property
    def unassigned(self) -> tuple[int, ...]:
        """The segments that no reader owns, ascending. Source: upstream class `ReaderGroupState`."""
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

    def _free(self) -> str:
        return ", ".join(segment_name(segment) for segment in self.unassigned) or "none: all are owned"


def _times_of_owners(times: Mapping[str, int | None], owners: Mapping[int, str | None]) -> Mapping[str, int | None]:
    owning = set(owners.values())
    return {reader: time for reader, time in times.items() if reader in owning}
