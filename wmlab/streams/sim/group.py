"""A reader group: its shared state, changed by compare-and-set, who takes which segment, and the rows of both.

Source: PDP-33, "Client Changes"; upstream `ReaderGroupStateManager` and `StateSynchronizerImpl`; PDP-33, "Future
Possibilities", for rebalancing by time instead of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wmlab.core.errors import ScenarioError
from wmlab.core.simulation import Journal
from wmlab.streams.model.group import (
    Checkpoint,
    GroupState,
    StreamReading,
    StreamSegment,
    fair_share,
    is_least_loaded,
    to_release,
)
from wmlab.streams.model.index import record_at, start_of, window_at
from wmlab.streams.model.position import Position
from wmlab.streams.scenario.parts import SEGMENT_STORE, ReaderGroup
from wmlab.streams.sim.network import Message
from wmlab.streams.sim.stores import StreamWorld
from wmlab.streams.sim.world import Node, Steps, World

_PATIENCE = 3


class Balance:
    """The rules of one group: `segments` by number, `bytes` by what remains, `time` by what the segments lag behind."""

    def __init__(self, group: SharedState) -> None:
        self._group = group
        self._by = group.part.rebalance
        self._free_since: dict[StreamSegment, int] = {}
        self.reserved_until_ms: dict[StreamSegment, int] = {}
        self.released: set[StreamSegment] = set()
        self.members_changed = False

    def note(self, before: GroupState, after: GroupState) -> None:
        """Remember since when segments are free."""
        if any(reading.owners != before.streams[stream].owners for stream, reading in after.streams.items()):
            now_ms = self._group.world.now_ms
            self._free_since = {segment: self._free_since.get(segment, now_ms) for segment in after.unassigned}
            self.released &= self._free_since.keys()

    def acquire(self, state: GroupState, reader: str) -> bool:
        """Let a reader take the free segments that are for it; whether there was one."""
        before = len(state.unassigned)
        while reader in state.readers and (segment := self._next(state, reader)) is not None:
            state.acquire(reader, segment)
        return len(state.unassigned) < before

    def _next(self, state: GroupState, reader: str) -> StreamSegment | None:
        now_ms = self._group.world.now_ms
        free = [segment for segment in state.unassigned if self.reserved_until_ms.get(segment, now_ms) <= now_ms]
        if not free:
            return None
        is_short = len(state.owned(reader)) < fair_share(state.size, len(state.readers))
        if self._by == "segments":
            return free[0] if is_short else None
        if is_least_loaded(self._loads(state), reader):
            return free[0]
        # A segment that nobody has owned yet is for any reader with less than its fair share. One that was given back
        # is for the least loaded reader, which may be gone without a word; what nobody takes is for everybody.
        patience_ms = _PATIENCE * self._group.part.publish_every_ms
        for segment in free:
            is_left = now_ms - self._free_since.get(segment, now_ms) > patience_ms
            if is_left or (is_short and segment not in self.released):
                return segment
        return None

    def to_release(self, state: GroupState, reader: str) -> StreamSegment | None:
        """The segment that a reader should give back now, if any; not while segments are free."""
        if (self._by == "segments" and not self.members_changed) or reader not in state.readers or state.has_unassigned:
            return None
        segment = to_release(self._loads(state), reader, gain=self._slack)
        if segment is not None:
            self.released.add(segment)
        return segment

    @property
    def _slack(self) -> int:
        """What a segment weighs for being there, and the least gain for which one moves."""
        part = self._group.part
        return max(1, {"segments": 1, "bytes": part.rebalance_slack_bytes, "time": part.rebalance_slack_ms}[self._by])

    def _loads(self, state: GroupState) -> Mapping[str, Mapping[StreamSegment, int]]:
        return {
            reader: {segment: self._slack + self._lag(state, segment) for segment in state.owned(reader)}
            for reader in sorted(state.readers)
        }

    def _lag(self, state: GroupState, segment: StreamSegment) -> int:
        """Bytes that remain in a segment, or how far its time is behind the last watermark; nothing by number."""
        stream, number = segment
        stream_world, offset = self._group.streams[stream], state.streams[stream].offsets[number]
        if stream_world.deleted or self._by == "segments":
            return 0
        if self._by == "bytes":
            return max(0, stream_world.store[number].length - offset)
        if not stream_world.log.entries:
            return 0
        passed = window_at(
            stream_world.index, stream_world.log, Position({number: offset}), stream_world.history.segments
        ).lower
        first, last = stream_world.log.entries[0][1].lower, stream_world.log.entries[-1][1].lower
        return last - (first if passed is None else passed)


GroupChange = Callable[[GroupState], bool]
"""Changes the state that it is given, a copy; False: there is nothing to do."""


class SharedState(Node):
    """The shared state of a group over its `streams`, and how far each segment was ever read.

    The state lives in the segment store, and a node that reads or changes it sends messages there; the application that
    asks for checkpoints and resets does so under the name of the group. A changed copy takes its place, so what a
    reader has fetched stays as it was. `by_time`: the document's design, in which readers share the times they have
    passed. `groups` are all groups of the run by name, at whose checkpoints it may begin.
    """

    def __init__(
        self, world: World, part: ReaderGroup, streams: Iterable[StreamWorld], groups: Mapping[str, SharedState]
    ) -> None:
        super().__init__(world, part.name)
        self.part = part
        self._groups = groups
        self.streams = {stream_world.name: stream_world for stream_world in streams}
        self.state = GroupState({})
        self.balance = Balance(self)
        self.read_up_to: dict[StreamSegment, int] = {}
        self.by_time = world.rules.read_side == "document" and part.time_windows
        self._requested: dict[str, int] = {}
        self._completed: dict[str, int] = {}
        self._version = -1

    def start(self) -> None:
        """Bring the group to life at its starting position."""
        origin = self._origin()
        self.state = GroupState({name: origin[name].copy() for name in self.streams})
        nowhere = GroupState({name: StreamReading.begin({}) for name in self.streams})
        self._write_positions(nowhere, self.state, None, None)
        self.state.readers.update(self.part.reader_names())

    def _origin(self) -> Checkpoint:
        """Where the group is to begin in each stream: by default at the head of all."""
        if self.part.starting_checkpoint is not None:
            return self._checkpoint_of_another(self.part.starting_checkpoint)
        time = self.part.starting_time
        return {name: _reading_at(stream_world, time) for name, stream_world in self.streams.items()}

    def _checkpoint_of_another(self, name: str) -> Checkpoint:
        for other in self._groups.values():
            checkpoint = other.state.checkpoints.get(name)
            reads_the_same = all(
                other.streams.get(stream) is stream_world for stream, stream_world in self.streams.items()
            )
            if other is not self and checkpoint is not None and reads_the_same:
                return checkpoint
        raise ScenarioError(
            f"Group {self.part.name!r} cannot start at {name!r}: no other group of its streams has come to it by then.",
            remedy="Let it start later, with starts_ms, or read the streams of the group that takes it.",
        )

    def write(self, stream: str, table: str, **row: Any) -> None:
        """Write down what the group does now in a stream."""
        self.streams[stream].journal.write(table, group=self.part.name, at_ms=self.world.now_ms, **row)

    @property
    def journals(self) -> list[Journal]:
        """The journals of its streams."""
        return [stream_world.journal for stream_world in self.streams.values()]

    def fetch(self, reader: Node) -> Steps[GroupState]:
        """The present state, one round trip of a reader later."""
        yield from self._travel(reader, reader.name, SEGMENT_STORE, "fetch state")
        newest = self.state
        yield from self._travel(reader, SEGMENT_STORE, reader.name, "state")
        return newest

    def update(self, seen: GroupState, by: Node, operation: str, change: GroupChange) -> Steps[GroupState]:
        """Let a reader or the group itself change the shared state from what was `seen`.

        It changes it again from what is there when somebody was faster.
        """
        reader = None if by is self else by.name
        if self.part.state_latency_ms == 0:
            seen = self.state
        while True:
            wanted = seen.copy()
            if not change(wanted):
                return seen
            wanted.revision += 1
            yield from self._travel(by, by.name, SEGMENT_STORE, operation)
            applied = self.state.revision == seen.revision
            if applied:
                self.state = wanted
            outcome = "applied" if applied else "conflict"
            for name in _concerned(seen, wanted):
                self.write(
                    name,
                    "group_updates",
                    reader=reader,
                    operation=operation,
                    outcome=outcome,
                    revision=seen.revision,
                    **self._map_of_times(name),
                )
            if applied:
                self.balance.note(seen, wanted)
                for name in wanted.checkpoints.keys() - seen.checkpoints.keys():
                    self._completed[name] = self.world.now_ms
                self._write_positions(seen, wanted, reader, operation)
            newest = self.state
            yield from self._travel(by, SEGMENT_STORE, by.name, f"{operation}: {outcome}")
            if applied:
                return newest
            seen = newest

    def _map_of_times(self, stream: str) -> dict[str, Any]:
        """The window of the map of times that the group shares now, and its entries; without a map nothing."""
        reading = self.state.streams[stream]
        row: dict[str, Any] = {"lower": reading.window.lower, "upper": reading.window.upper}
        if self.by_time:
            row["lowers"] = {reader: window.lower for reader, window in sorted(reading.times.items())}
            row["uppers"] = {reader: window.upper for reader, window in sorted(reading.times.items())}
        return row

    def checkpoint(self, name: str) -> Steps[None]:
        """Ask for a checkpoint, once no other is under way; of several that wait one comes first."""
        while True:
            while self.state.pending is not None:
                yield self.world.env.timeout(self.part.publish_every_ms)
            self._requested[name] = self.world.now_ms
            newest = yield from self.update(self.state, self, "checkpoint", lambda state: state.begin_checkpoint(name))
            if name in newest.checkpoints or (newest.pending is not None and newest.pending.name == name):
                return

    def take_cut(self, name: str) -> Steps[None]:
        """Keep the stream cut that is published, by the document with the least offset in the marks segment."""

        def take(state: GroupState) -> bool:
            marks_offsets = {
                s: start_of(self.streams[s].log, reading.window.lower) for s, reading in state.streams.items()
            }
            return state.take_cut(name, marks_offsets if self.by_time else {})

        self._requested[name] = self.world.now_ms
        yield from self.update(self.state, self, "stream cut", take)

    def remove(self, reader: Node, operation: str, at: dict[StreamSegment, int] | None = None) -> Steps[None]:
        """Take a reader out of the group, with what it says about where it is, or without."""
        self.balance.members_changed = True
        by = self if at is None else reader
        yield from self.update(self.state, by, operation, lambda state: state.remove_reader(reader.name, at))

    def reset(self, name: str, *, ranges: bool) -> Steps[None]:
        """Take the group back to a completed checkpoint."""
        yield from self.update(self.state, self, "reset", lambda state: state.reset(name, ranges=ranges))

    def write_checkpoints(self) -> None:
        """Write down every checkpoint that was asked for, at the end of the run."""
        for name, requested_ms in self._requested.items():
            checkpoint = self.state.checkpoints.get(name)
            for stream, stream_world in self.streams.items():
                position = None if checkpoint is None else checkpoint[stream]
                stream_world.journal.write(
                    "checkpoints",
                    group=self.part.name,
                    checkpoint=name,
                    requested_ms=requested_ms,
                    completed_ms=self._completed.get(name),
                    cut=None if position is None else dict(position.offsets),
                    marks_offset=None if position is None else position.marks_offset,
                )

    def _travel(self, node: Node, sender: str, receiver: str, kind: str) -> Steps[None]:
        only = next(iter(self.streams.values())).title if len(self.streams) == 1 else None
        message = Message(only, sender, receiver, kind, self.part.name)
        return node.go(message, delay_ms=self.part.state_latency_ms)

    def _write_positions(
        self, before: GroupState, after: GroupState, reader: str | None, operation: str | None
    ) -> None:
        """Write down what left the position, and what is new, moved, finished or without an owner in it.

        The rows share the next version. After a reset the whole position is new.
        """
        version, reset = self._version + 1, after.generation != before.generation
        for name, reading in after.streams.items():
            stream_world, past = self.streams[name], before.streams[name]
            old, new = past.position.offsets, reading.position.offsets
            rows = []
            unowned = {segment for segment, owner in reading.owners.items() if owner is None}
            freed = {segment for segment in unowned - reading.finished.keys() if past.owners.get(segment)}
            for segment in sorted(old.keys() - new.keys()):
                offset = stream_world.store[segment].length if operation == "complete" else old[segment]
                rows.append((segment, offset, True, reader if reset or segment in past.offsets else None))
            for segment in new:
                is_done = segment in reading.finished and segment not in past.finished
                if reset or is_done or segment in freed or new[segment] != old.get(segment):
                    publisher = reader if segment in old and segment not in freed else None
                    rows.append((segment, new[segment], False, publisher))
            for segment, offset, finished, publisher in rows:
                self._version = version
                self.write(
                    name,
                    "positions",
                    version=version,
                    reader=publisher,
                    segment_id=segment,
                    offset=offset,
                    finished=finished,
                    waits=segment in reading.finished,
                    reset=reset,
                )


def _reading_at(stream_world: StreamWorld, time: int | None) -> StreamReading:
    """A group that begins at the stream cut of a time; without a time and before the first cut, at the head."""
    record = None if time is None else record_at(stream_world.index, stream_world.log, time)
    if record is None:
        return StreamReading.begin(stream_world.head)
    cut = stream_world.log.first_after(record.offset)[1].cut
    return StreamReading.begin({segment: offset or 0 for segment, offset in cut.items()}, record.offset)


def _concerned(before: GroupState, after: GroupState) -> list[str]:
    """The streams that a change is about: those whose part is another one now, or all if it is about the group."""
    changed = [stream for stream, reading in after.streams.items() if reading != before.streams[stream]]
    is_about_all = (
        after.readers != before.readers
        or after.generation != before.generation
        or after.checkpoints.keys() != before.checkpoints.keys()
    )
    return list(after.streams) if is_about_all or not changed else changed
