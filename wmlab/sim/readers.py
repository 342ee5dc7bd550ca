"""A reader group in motion: readers read their segments, publish positions and look at their time windows.

Source: PDP-33, "Client Changes"; upstream `ReaderGroupStateManager` and `WatermarkReaderImpl`. The shared state
holds the last read offset of every open segment, assigned or not; each reader compares it with the marks log.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

import simpy

from wmlab.model.group import GroupState
from wmlab.model.window import Tracker
from wmlab.scenario.parts import ReaderGroup
from wmlab.scenario.units import SEGMENT_STORE, reader_name

if TYPE_CHECKING:
    from wmlab.sim.stream import StreamWorld


class Group:
    """The group's shared state, its version, and how many events of each segment are read."""

    def __init__(self, world: StreamWorld, part: ReaderGroup) -> None:
        self.world = world
        self.part = part
        self.version = -1
        self.state = GroupState.create(world.head)
        self.events_read: dict[int, int] = {}

    def start(self) -> None:
        """Bring the group to life: its starting position, then its readers."""
        self._update(self.state, self.state.offsets, reader=None)
        for index in range(self.part.readers):
            reader = Reader(self, reader_name(self.part.name, index))
            self.state = self.state.add_reader(reader.name)
            self.world.env.process(reader.reading())

    def acquire(self, reader: str) -> None:
        """Give a reader unassigned segments until it has its fair share."""
        share = -(-len(self.state.offsets) // self.part.readers)
        owned = sum(owner == reader for owner in self.state.owners.values())
        free = sorted(segment_id for segment_id in self.state.offsets if self.state.owners.get(segment_id) is None)
        for segment_id in free[: max(0, share - owned)]:
            self.state = self.state.acquire(reader, segment_id)

    def publish(self, reader: str, offsets: dict[int, int]) -> None:
        """Put a reader's offsets into the shared state."""
        moved = [segment_id for segment_id, offset in offsets.items() if self.state.offsets[segment_id] != offset]
        if moved:
            self._update(self.state.publish(reader, offsets), moved, reader)

    def complete(self, reader: str, segment_id: int) -> None:
        """A sealed segment is read to its end: it leaves, and successors without open predecessors appear."""
        history = self.world.history
        successors = {
            successor.id: frozenset(segment.id for segment in history.predecessors(successor.id))
            for successor in history.successors(segment_id)
        }
        before = set(self.state.offsets)
        length = self.world.store[segment_id].length
        state = self.state.complete(reader, segment_id, successors)
        appeared = sorted(set(state.offsets) - before)
        self._update(state, appeared, None, finished=(segment_id, length, reader))

    def _update(
        self,
        state: GroupState,
        changed: Iterable[int],
        reader: str | None,
        finished: tuple[int, int, str] | None = None,
    ) -> None:
        """Replace the shared state and write down what changed under the next version."""
        self.state = state
        self.version += 1
        if finished is not None:
            segment_id, length, finisher = finished
            self._write(finisher, segment_id, length, finished=True)
        for segment_id in sorted(changed):
            self._write(reader, segment_id, state.offsets[segment_id], finished=False)

    def _write(self, reader: str | None, segment_id: int, offset: int, *, finished: bool) -> None:
        self.world.journal.write(
            "positions",
            group=self.part.name,
            version=self.version,
            reader=reader,
            segment_id=segment_id,
            offset=offset,
            finished=finished,
            at_ms=self.world.now_ms,
        )


class Reader:
    """One reader: the segments it owns, its allowance of events, and its tracker of the marks log."""

    def __init__(self, group: Group, name: str) -> None:
        self.group = group
        self.name = name
        self.world = group.world
        self._tracker = Tracker.start()
        self._allowance = 0.0

    def reading(self) -> Generator[simpy.Event]:
        """Read and publish, once every publish period."""
        part = self.group.part
        while True:
            yield self.world.env.timeout(part.publish_every_ms)
            if self.world.deleted:
                return
            if self.world.network.is_cut(self.name, SEGMENT_STORE):
                continue
            if part.rate_per_s is not None:
                self._allowance += part.rate_per_s * part.publish_every_ms / 1_000
            while self._read_once():
                pass
            self._look()

    def _read_once(self) -> bool:
        """Read what is there and publish it; True when a segment was completed, so that there may be more."""
        self.group.acquire(self.name)
        state = self.group.state
        owned = sorted(segment_id for segment_id, owner in state.owners.items() if owner == self.name)
        offsets = {segment_id: self._advance(segment_id) for segment_id in owned}
        self.group.publish(self.name, offsets)
        completed = [s for s in owned if self.world.store[s].sealed and offsets[s] == self.world.store[s].length]
        for segment_id in completed:
            self.group.complete(self.name, segment_id)
        return bool(completed)

    def _advance(self, segment_id: int) -> int:
        """Read a segment as far as the allowance goes; returns the offset reached."""
        segment = self.world.store[segment_id]
        read = max(self.group.events_read.get(segment_id, 0), segment.truncated_events)
        count = segment.events - read
        if self.group.part.rate_per_s is not None:
            count = min(count, int(self._allowance))
            self._allowance -= count
        self.group.events_read[segment_id] = read + count
        return segment.end_of(read + count)

    def _look(self) -> None:
        """Fetch the group's position, advance along the marks log, and write the window down."""
        world = self.world
        log = world.readable_log
        if log is not None:
            self._tracker = self._tracker.skip_truncated(log).advance(
                self.group.state.position, log, world.history.segments
            )
        window = self._tracker.window
        world.journal.write(
            "windows",
            group=self.group.part.name,
            reader=self.name,
            lower=window.lower,
            upper=window.upper,
            at_ms=world.now_ms,
        )
