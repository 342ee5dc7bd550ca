"""Checkpoints of a reader group: one position that all its readers agree on, to which the group can be taken back.

A checkpoint is asked for; each reader then reports where it is, once; what nobody owns counts where its next owner
would begin. When all have reported it is complete. In the design text it also carries the offset in the marks segment
of the reader that is least far there, so that readers need not begin at the start of the marks; the implementation
leaves that out.

Source: PDP-33, Client Changes (getCheckpoint, getStreamCut); upstream classes `CheckpointState` and `ReaderGroupImpl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wmlab.streams.model.group import GroupState


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """Where a group is in one stream: offsets of open segments, and the segments that wait for predecessors.

    `marks_offset` is where to go on in the marks segment; None: at its start. Source: as the module.
    """

    offsets: Mapping[int, int]
    pending: Mapping[int, frozenset[int]]
    marks_offset: int | None = None


@dataclass(frozen=True, slots=True)
class GroupCheckpoint:
    """A checkpoint: its name and the place in each stream. Source: upstream class `CheckpointImpl`."""

    name: str
    places: Mapping[str, StreamPlace]


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A checkpoint that some readers have not reported for; `offsets` and `writer_marks` are by stream.

    Source: upstream class `CheckpointState`.
    """

    name: str
    waiting: frozenset[str]
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)

    def report(
        self, reader: str, offsets: Mapping[str, Mapping[int, int]], marks: Mapping[str, int] | None = None
    ) -> PendingCheckpoint:
        """After a reader's report: its offsets, and where it is in the marks segments. A second one changes nothing.

        Source: upstream class `CheckpointState` (readerCheckpointed).
        """
        if reader not in self.waiting:
            return self
        lowest = dict(self.marks)
        for stream, offset in (marks or {}).items():
            lowest[stream] = min(offset, lowest.get(stream, offset))
        merged = {stream: {**self.offsets.get(stream, {}), **mine} for stream, mine in offsets.items()}
        return replace(self, waiting=self.waiting - {reader}, offsets={**self.offsets, **merged}, marks=lowest)

    def without(self, reader: str) -> PendingCheckpoint:
        """After a reader has left: it is not waited for. Source: upstream class `CheckpointState` (removeReader)."""
        return replace(self, waiting=self.waiting - {reader})

    def complete(self, streams: Mapping[str, GroupState]) -> GroupCheckpoint | None:
        """The checkpoint, or None while somebody has to report.

        Segments without a report count where their next owner begins. Source: as `without`.
        """
        if self.waiting:
            return None
        places = {}
        for stream, state in streams.items():
            reported = self.offsets.get(stream, {})
            offsets = {segment: reported.get(segment, state.resume[segment]) for segment in state.offsets}
            places[stream] = StreamPlace(offsets, state.pending, self.marks.get(stream))
        return GroupCheckpoint(self.name, places)


def checkpointed(state: GroupState, place: StreamPlace) -> GroupState:
    """The group after a checkpoint: what a crashed reader leaves is read again from there on.

    Source: upstream class `ReaderGroupState` (CheckpointReader).
    """
    return replace(state, resume={**state.resume, **{s: o for s, o in place.offsets.items() if s in state.offsets}})


def reset(state: GroupState, place: StreamPlace, *, ranges: bool = True) -> GroupState:
    """The group back at a checkpoint, with its readers and no owner; without `ranges` no key range is known.

    Source: upstream classes `ReaderGroupImpl` (resetReaderGroup) and issue 4194.
    """
    begun = GroupState.create(place.offsets, ends=state.ends)
    rangeless = frozenset() if ranges else frozenset(begun.offsets)
    return replace(begun, pending=place.pending, readers=state.readers, rangeless=rangeless)
