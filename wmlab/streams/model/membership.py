"""What the readers of a group share over all its streams: members, positions, and the checkpoint under way.

Every change is one function from a state to the next, so that it can be made again on a newer state when a
compare-and-set fails. `generation` grows with every reset: a reader of an older one has to begin anew, from `origin`.

Source: PDP-33, Client Changes (reader group state); upstream class `ReaderGroupState`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.streams.model.checkpoint import GroupCheckpoint, PendingCheckpoint, checkpointed, reset
from wmlab.streams.model.group import GroupState

Place = tuple[str, int]
"""A stream and a segment of it."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The whole shared state of a reader group; `streams` holds each stream's part.

    Source: upstream class `ReaderGroupState`.
    """

    streams: Mapping[str, GroupState]
    readers: frozenset[str] = frozenset()
    generation: int = 0
    pending: PendingCheckpoint | None = None
    checkpoints: Mapping[str, GroupCheckpoint] = field(default_factory=dict)
    origin: GroupCheckpoint | None = None

    def add_reader(self, reader: str) -> Membership:
        """One more reader. Raises `ModelError` if it is in already. Source: upstream class `AddReader`."""
        return replace(self._all(lambda state: state.add_reader(reader)), readers=self.readers | {reader})

    def remove_reader(self, reader: str, at: Mapping[Place, int] | None = None) -> Membership:
        """Without a reader: its segments are free, at the offsets `at` if it says goodbye.

        A checkpoint does not wait for it. Raises `ModelError` for an unknown reader.
        Source: upstream class `ReaderGroupState` (RemoveReader).
        """
        state = self
        for (stream, segment), offset in (at or {}).items():
            if self.streams[stream].owners.get(segment) == reader:
                state = state.release(reader, (stream, segment), offset)
        state = replace(state._all(lambda part: part.remove_reader(reader)), readers=self.readers - {reader})
        if state.pending is None:
            return state
        return replace(state, pending=state.pending.without(reader))._completed()

    def acquire(self, reader: str, place: Place) -> Membership:
        """After a reader has taken a free segment. Raises `ModelError` as `GroupState.acquire`. Source: as there."""
        return self._one(place[0], lambda state: state.acquire(reader, place[1]))

    def release(self, reader: str, place: Place, offset: int) -> Membership:
        """After a reader has given a segment back. Raises `ModelError` as `GroupState.release`. Source: as there."""
        return self._one(place[0], lambda state: state.release(reader, place[1], offset))

    def publish(self, reader: str, offsets: Mapping[Place, int]) -> Membership:
        """After a reader has published offsets, of segments that it owns only.

        Raises `ModelError` for an unknown reader. Source: upstream class `ReaderGroupState` (UpdatingDistances).
        """
        state = self
        for name, part in self.streams.items():
            mine = {s: o for (stream, s), o in offsets.items() if stream == name and part.owners.get(s) == reader}
            moved = {segment: offset for segment, offset in mine.items() if part.offsets[segment] != offset}
            if moved:
                state = replace(state, streams={**state.streams, name: part.publish(reader, moved)})
        return state

    def complete(self, reader: str, place: Place, successors: Mapping[int, frozenset[int]]) -> Membership:
        """After a segment is read to its end. Raises `ModelError` as `GroupState.complete`. Source: as there."""
        return self._one(place[0], lambda state: state.complete(reader, place[1], successors))

    def note_time(self, reader: str, stream: str, time: int | None) -> Membership:
        """After a reader has put the time it passed into the map. Raises `ModelError` for an unknown reader.

        Source: PDP-33, Client Changes.
        """
        return self._one(stream, lambda state: state.note_time(reader, time))

    def begin_checkpoint(self, name: str) -> Membership:
        """With a checkpoint asked for; it is complete at once when there is no reader.

        Raises `ModelError` when one is under way or the name was used. Source: upstream class `CheckpointState`.
        """
        if self.pending is not None or name in self.checkpoints:
            raise ModelError(f"Checkpoint {name} cannot begin.", remedy="Wait for the last one, and use a new name.")
        return replace(self, pending=PendingCheckpoint(name, self.readers))._completed()

    def report(self, reader: str, offsets: Mapping[Place, int], marks: Mapping[str, int] | None = None) -> Membership:
        """After a reader's report for the checkpoint under way, which publishes its offsets too.

        Raises `ModelError` when none is under way. Source: upstream class `ReaderGroupState` (CheckpointReader).
        """
        if self.pending is None:
            raise ModelError("No checkpoint is under way.", remedy="Begin one first.")
        state = self.publish(reader, offsets)
        mine = {
            name: {s: o for (stream, s), o in offsets.items() if stream == name and part.owners.get(s) == reader}
            for name, part in self.streams.items()
        }
        return replace(state, pending=self.pending.report(reader, mine, marks))._completed()

    def reset(self, name: str, *, ranges: bool = True) -> Membership:
        """Back at a completed checkpoint: nobody owns anything and every reader begins anew.

        Raises `ModelError` for an unknown checkpoint. Source: upstream class `ReaderGroupImpl` (resetReaderGroup).
        """
        if name not in self.checkpoints:
            raise ModelError(f"There is no checkpoint {name}.", remedy="Name one that is complete.")
        origin = self.checkpoints[name]
        streams = {stream: reset(state, origin.places[stream], ranges=ranges) for stream, state in self.streams.items()}
        return replace(self, streams=streams, generation=self.generation + 1, pending=None, origin=origin)

    def owned(self, reader: str) -> tuple[Place, ...]:
        """The segments of a reader, stream by stream. Source: upstream class `ReaderGroupState` (getSegments)."""
        return tuple((name, segment) for name, state in self.streams.items() for segment in state.owned(reader))

    @property
    def unassigned(self) -> tuple[Place, ...]:
        """The segments that nobody owns, stream by stream. Source: upstream class `ReaderGroupState`."""
        return tuple((name, segment) for name, state in self.streams.items() for segment in state.unassigned)

    @property
    def has_unassigned(self) -> bool:
        """Whether nobody owns some segment. Source: upstream class `ReaderGroupState`."""
        return any(None in state.owners.values() for state in self.streams.values())

    @property
    def size(self) -> int:
        """The number of segments in the state. Source: upstream class `ReaderGroupState` (getNumberOfSegments)."""
        return sum(len(state.offsets) for state in self.streams.values())

    def _completed(self) -> Membership:
        """With the checkpoint under way recorded if nobody has to report any more."""
        found = self.pending.complete(self.streams) if self.pending is not None else None
        if found is None:
            return self
        streams = {name: checkpointed(state, found.places[name]) for name, state in self.streams.items()}
        return replace(self, streams=streams, pending=None, checkpoints={**self.checkpoints, found.name: found})

    def _one(self, stream: str, change: Callable[[GroupState], GroupState]) -> Membership:
        return replace(self, streams={**self.streams, stream: change(self.streams[stream])})

    def _all(self, change: Callable[[GroupState], GroupState]) -> Membership:
        return replace(self, streams={name: change(state) for name, state in self.streams.items()})
