"""A reader group: its shared state, changed by compare-and-set, who owns which segment, and the rows of both.

Source: PDP-33, "Client Changes"; upstream `ReaderGroupStateManager` and `StateSynchronizerImpl`; PDP-33, "Future
Possibilities", for rebalancing by time instead of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import simpy

from wmlab.core.errors import ScenarioError
from wmlab.streams.model import group as model
from wmlab.streams.model.index import record_at, start_of, window_at
from wmlab.streams.model.position import Position, ReaderPosition, is_valid_cut
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario.parts import SEGMENT_STORE, ReaderGroup
from wmlab.streams.sim.network import Message
from wmlab.streams.sim.reader import Reader
from wmlab.streams.tables import DONE, Outcome, Subject

if TYPE_CHECKING:
    from wmlab.streams.sim.stream import StreamWorld
    from wmlab.streams.sim.world import World

_PATIENCE = 3


class Balance:
    """The rules of one group: `segments` by number, `bytes` by what remains, `time` by what the segments lag behind."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._by = group.part.rebalance
        self._free_since: dict[model.Place, int] = {}
        self.kept_free: dict[model.Place, int] = {}
        self.given_back: set[model.Place] = set()
        self.members_changed = False

    def note(self, before: model.Membership, after: model.Membership) -> None:
        """Remember since when segments are free."""
        if any(state.owners is not before.streams[name].owners for name, state in after.streams.items()):
            now = self._group.world.now_ms
            self._free_since = {place: self._free_since.get(place, now) for place in after.unassigned}
            self.given_back &= self._free_since.keys()

    def acquired(self, value: model.Membership, reader: str) -> model.Membership | None:
        """The state after a reader has taken the free segments that are for it, None when none is."""
        if reader not in value.readers:
            return None
        taken = value
        while (place := self._next(taken, reader)) is not None:
            taken = taken.acquire(reader, place)
        return None if taken is value else taken

    def _next(self, value: model.Membership, reader: str) -> model.Place | None:
        now = self._group.world.now_ms
        free = [place for place in value.unassigned if self.kept_free.get(place, now) <= now]
        if not free:
            return None
        short = len(value.owned(reader)) < model.fair_share(value.size, len(value.readers))
        if self._by == "segments":
            return free[0] if short else None
        if model.is_least_loaded(self._loads(value), reader):
            return free[0]
        # Nobody's yet: for anybody with less than a fair share. Given back: for the least loaded reader, which may be
        # gone without a word; what nobody takes is for everybody.
        patience_ms = _PATIENCE * self._group.part.publish_every_ms
        for place in free:
            if (short and place not in self.given_back) or now - self._free_since.get(place, now) > patience_ms:
                return place
        return None

    def to_release(self, value: model.Membership, reader: str) -> model.Place | None:
        """The segment that a reader should give back now, if any; not while segments are free."""
        if (self._by == "segments" and not self.members_changed) or reader not in value.readers or value.has_unassigned:
            return None
        place = model.to_release(self._loads(value), reader, gain=self._slack)
        if place is not None:
            self.given_back.add(place)
        return place

    @property
    def _slack(self) -> int:
        """What a segment weighs for being there, and the least gain for which one moves."""
        part = self._group.part
        return max(1, {"segments": 1, "bytes": part.rebalance_slack_bytes, "time": part.rebalance_slack_ms}[self._by])

    def _loads(self, value: model.Membership) -> Mapping[str, Mapping[model.Place, int]]:
        return {
            reader: {place: self._slack + self._lag(value, place) for place in value.owned(reader)}
            for reader in sorted(value.readers)
        }

    def _lag(self, value: model.Membership, place: model.Place) -> int:
        """Bytes that remain in a segment, or how far its time is behind the last mark; nothing by number."""
        stream, segment = place
        feed, offset = self._group.feeds[stream], value.streams[stream].offsets[segment]
        if feed.deleted or self._by == "segments":
            return 0
        if self._by == "bytes":
            return max(0, feed.store[segment].length - offset)
        if not feed.log.entries:
            return 0
        here = window_at(feed.index, feed.log, ReaderPosition({segment: offset}), feed.history.segments).lower
        first, last = feed.log.entries[0][1].lower, feed.log.entries[-1][1].lower
        return last - (first if here is None else here)


State = model.Shared[model.Membership]
Change = Callable[[model.Membership], model.Membership | None]
Update = Generator[simpy.Event, None, State]


class Group:
    """The group's shared state over its streams (`feeds`), its readers, and how far each segment was ever read.

    The state lives in the segment store, and whoever reads or changes it sends messages there; the application that
    asks for checkpoints and resets does so under the name of the group. `by_time`: the document's design, in which
    readers share the times they have passed.
    """

    def __init__(self, world: World, part: ReaderGroup, feeds: Iterable[StreamWorld]) -> None:
        self.world = world
        self.part = part
        self.feeds = {feed.name: feed for feed in feeds}
        self.shared: State = model.Shared(model.Membership({}))
        self.readers: dict[str, Reader] = {}
        self.balance = Balance(self)
        self.read_up_to: dict[model.Place, int] = {}
        self.by_time = part.read_side == "document" and part.time_windows
        self._requested: dict[str, int] = {}
        self._completed: dict[str, int] = {}
        self._version = -1

    def start(self) -> None:
        """Bring the group to life: its starting position, then its readers."""
        empty = model.Membership({name: model.GroupState.create({}) for name in self.feeds})
        origin = self._origin()
        ends = {parse_segment(name): offset for name, offset in (self.part.ending_cut or {}).items()}
        places = origin or {name: model.StreamPlace(feed.head, {}) for name, feed in self.feeds.items()}
        states = {n: model.GroupState.create(places[n].offsets, places[n].pending, ends=ends) for n in self.feeds}
        begun = model.Membership(states, origin=origin)
        self._write_positions(empty, begun, None, None)
        for name in self.part.reader_names():
            begun = begun.add_reader(name)
        self.shared = model.Shared(begun)
        for name in self.part.reader_names():
            self.add(name)
        if self.part.automatic_checkpoint_every_ms is not None:
            self.world.env.process(self._checkpointing(self.part.automatic_checkpoint_every_ms))

    def _origin(self) -> model.Checkpoint | None:
        """Where the group is to begin in each stream; None: at the head of all."""
        if self.part.starting_checkpoint is not None:
            return self._checkpoint_of_another(self.part.starting_checkpoint)
        if self.part.starting_time is not None:
            return {name: self._place_at(feed, self.part.starting_time) for name, feed in self.feeds.items()}
        if self.part.starting_cut is not None:
            cut = Position(self.part.starting_cut)
            return {name: self._place_of(feed, cut) for name, feed in self.feeds.items()}
        return None

    def _checkpoint_of_another(self, name: str) -> model.Checkpoint:
        for other in self.world.groups.values():
            found = other.shared.value.checkpoints.get(name)
            same = all(other.feeds.get(name) is feed for name, feed in self.feeds.items())
            if other is not self and found is not None and same:
                return found
        raise ScenarioError(
            f"Group {self.part.name!r} cannot start at {name!r}: no other group of its streams has come to it by then.",
            remedy="Let it start later, with starts_ms, or read the streams of the group that takes it.",
        )

    def _place_at(self, feed: StreamWorld, time: int) -> model.StreamPlace:
        """The stream cut of a time, and where its entry begins in the marks segment; the head before the first."""
        record = record_at(feed.index, feed.log, time)
        if record is None:
            return model.StreamPlace(feed.head, {})
        return _place(feed.log.first_after(record.offset)[1].cut, record.offset)

    def _place_of(self, feed: StreamWorld, cut: Position) -> model.StreamPlace:
        exists = is_valid_cut(cut, feed.history)
        if not exists or any((offset or 0) > feed.store[segment].length for segment, offset in cut.items()):
            raise ScenarioError(
                f"Group {self.part.name!r} cannot start at {cut}: it is no place in {feed.name!r} at that time.",
                remedy="Give one offset at each key, in what is written by the time the readers start.",
            )
        return _place(cut)

    def write(self, stream: str, table: str, **row: Any) -> None:
        """Write down what the group does now in a stream."""
        self.feeds[stream].journal.write(table, group=self.part.name, at_ms=self.world.now_ms, **row)

    def happened(self, kind: str, subject: Subject, target: str, detail: str, *, outcome: Outcome = DONE) -> None:
        """Write down something that was made to happen to the group: a row for each of its streams."""
        for feed in self.feeds.values():
            feed.happened(kind, subject, target, detail, outcome=outcome)

    def add(self, name: str, *, join: bool = False) -> None:
        """Start a reader; with `join` it still has to become a member."""
        self.readers[name] = Reader(self, name, join=join)

    def fetch(self, reader: str) -> Update:
        """The present state, one round trip later."""
        yield from self._travel(reader, SEGMENT_STORE, "fetch state")
        newest = self.shared
        yield from self._travel(SEGMENT_STORE, reader, "state")
        return newest

    def update(self, seen: State, reader: str | None, operation: str, change: Change) -> Update:
        """Change the shared state from what was `seen`, and again from what is there when somebody was faster.

        `change` gives None, or the state itself, when there is nothing to do. Returns the newest state.
        """
        party = reader or self.part.name
        if self.part.state_latency_ms == 0:
            seen = self.shared
        while True:
            before, wanted = seen.value, change(seen.value)
            if wanted is None or wanted is before:
                return seen
            yield from self._travel(party, SEGMENT_STORE, operation)
            self.shared, applied = self.shared.replace_if(seen.revision, wanted)
            outcome = "applied" if applied else "conflict"
            changed = [name for name in self.feeds if wanted.streams[name] is not before.streams[name]]
            for name in changed or self.feeds:
                row = {"operation": operation, "outcome": outcome, "revision": seen.revision}
                window = self.shared.value.streams[name].window
                self.write(name, "group_updates", reader=reader, lower=window.lower, upper=window.upper, **row)
            if applied:
                self.balance.note(before, wanted)
                for name in wanted.checkpoints.keys() - before.checkpoints.keys():
                    self._completed[name] = self.world.now_ms
                self._write_positions(before, wanted, reader, operation)
            newest = self.shared
            yield from self._travel(SEGMENT_STORE, party, f"{operation}: {outcome}")
            if applied:
                return newest
            seen = newest

    def checkpoint(self, name: str) -> Generator[simpy.Event]:
        """Ask for a checkpoint, once no other is under way; of several that wait one comes first."""

        def begun(value: model.Membership) -> model.Membership | None:
            return value.begin_checkpoint(name) if value.pending is None else None

        while True:
            while self.shared.value.pending is not None:
                yield self.world.env.timeout(self.part.publish_every_ms)
            self._requested[name] = self.world.now_ms
            newest = (yield from self.update(self.shared, None, "checkpoint", begun)).value
            if name in newest.checkpoints or (newest.pending is not None and newest.pending.name == name):
                return

    def take_cut(self, name: str) -> Generator[simpy.Event]:
        """Keep the stream cut that is published, by the document with the least place in the marks."""

        def taken(value: model.Membership) -> model.Membership:
            marks = {s: start_of(self.feeds[s].log, state.time) for s, state in value.streams.items()}
            return value.take_cut(name, marks if self.by_time else {})

        self._requested[name] = self.world.now_ms
        yield from self.update(self.shared, None, "stream cut", taken)

    def remove(self, name: str, operation: str, at: dict[model.Place, int] | None = None) -> Generator[simpy.Event]:
        """Take a reader out of the group, with what it says about where it is, or without."""
        self.balance.members_changed = True
        yield from self.update(
            self.shared,
            name if at is not None else None,
            operation,
            lambda value: value.remove_reader(name, at) if name in value.readers else None,
        )

    def write_checkpoints(self) -> None:
        """Write down every checkpoint that was asked for, at the end of the run."""
        for name, requested_ms in self._requested.items():
            checkpoint = self.shared.value.checkpoints.get(name)
            for stream, feed in self.feeds.items():
                place = None if checkpoint is None else checkpoint[stream]
                feed.journal.write(
                    "checkpoints",
                    group=self.part.name,
                    checkpoint=name,
                    requested_ms=requested_ms,
                    completed_ms=self._completed.get(name),
                    cut=None if place is None else dict(place.offsets),
                    marks_offset=None if place is None else place.marks_offset,
                )

    def _checkpointing(self, every_ms: int) -> Generator[simpy.Event]:
        count = 0
        while True:
            yield self.world.env.timeout(every_ms)
            count += 1
            yield from self.checkpoint(f"automatic {count}")

    def _travel(self, sender: str, receiver: str, what: str) -> Generator[simpy.Event]:
        only = next(iter(self.feeds.values())).title if len(self.feeds) == 1 else None
        message = Message(only, sender, receiver, what, self.part.name)
        arrival = self.world.network.arrival(message, delay_ms=self.part.state_latency_ms)
        if arrival is not None:
            yield arrival

    def _write_positions(
        self, before: model.Membership, after: model.Membership, reader: str | None, operation: str | None
    ) -> None:
        """Write down what left the open position, and what is new or moved in it, under the next version."""
        version = self._version + 1
        for name, state in after.streams.items():
            feed, old, new = self.feeds[name], before.streams[name], state.offsets
            if new is old.offsets:
                continue
            rows = []
            for segment in sorted(old.offsets.keys() - new.keys()):
                at_end = operation == "complete"
                offset = old.ends.get(segment, feed.store[segment].length) if at_end else old.offsets[segment]
                rows.append((segment, offset, True, reader))
            for segment in sorted(new):
                if new[segment] != old.offsets.get(segment):
                    rows.append((segment, new[segment], False, reader if segment in old.offsets else None))
            for segment, offset, finished, who in rows:
                self._version = version
                row = {"version": version, "segment_id": segment, "offset": offset, "finished": finished}
                self.write(name, "positions", reader=who, **row)


def _place(cut: Position, marks_offset: int | None = None) -> model.StreamPlace:
    return model.StreamPlace({segment: offset or 0 for segment, offset in cut.items()}, {}, marks_offset)
