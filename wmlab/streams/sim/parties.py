"""The parties of a scenario, put together: streams, services, controllers, writers and reader groups."""

from __future__ import annotations

from collections.abc import Mapping

from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.sim.controller import Controllers
from wmlab.streams.sim.coordinator import Coordinator
from wmlab.streams.sim.load import Load, synthetic
from wmlab.streams.sim.reader import RunningGroup
from wmlab.streams.sim.stores import MetadataStore, StreamWorld
from wmlab.streams.sim.transactions import Transactions
from wmlab.streams.sim.txn_writer import TxnWriter
from wmlab.streams.sim.world import World
from wmlab.streams.sim.writer import Writer, WriterProcess


class Parties:
    """All parties of a run in one world; `traces` gives the load of every writer that replays a real trace.

    `transactions` are those of every stream by its title, `groups` those that have started, `deleted_streams` those
    that were deleted, in that order.
    """

    def __init__(self, world: World, traces: Mapping[str, Load]) -> None:
        self.world = world
        scenario = world.scenario
        self.metadata = MetadataStore(world)
        self.coordinator = Coordinator(world)
        self.controllers = Controllers(world, self.metadata, self.coordinator)
        self.transactions: dict[str, Transactions] = {}
        self.deleted_streams: list[StreamWorld] = []
        self.groups: dict[str, RunningGroup] = {}
        self.begun_groups: list[RunningGroup] = []
        for part in scenario.all_streams:
            self._add_stream(part).deleted = part.name in scenario.created_later
        self.writers = {
            process.name: process
            for index, part in enumerate(scenario.writers)
            for process in self._processes(part, index, traces)
        }

    def stream(self, name: str | None = None) -> StreamWorld:
        """The stream called `name`; the first one for None."""
        return self.metadata.streams[self.world.scenario.all_streams[0].name if name is None else name]

    def all_streams(self) -> list[StreamWorld]:
        """Every stream that there was: those that were deleted, then those that are there."""
        return [*self.deleted_streams, *(s for s in self.metadata.streams.values() if not s.deleted)]

    def _add_stream(self, part: Stream, *, generation: int = 1, first_number: int = 0) -> StreamWorld:
        stream = StreamWorld(self.world, part, generation=generation, first_number=first_number)
        transactions = Transactions(stream, self.controllers)
        self.metadata.streams[part.name] = stream
        self.transactions[stream.title] = self.coordinator.committers[part.name] = transactions
        return stream

    def open_stream(self, stream: StreamWorld) -> None:
        """Begin a stream: its records in the metadata store, its first epoch and segments."""
        self.metadata.create(stream)
        stream.open_epoch(stream.history.active.segments)

    def create_stream(self, name: str) -> StreamWorld:
        """Create a stream, again if it was deleted: then its segments have numbers that were never used."""
        old = self.stream(name)
        again = old in self.deleted_streams
        first_number = 1 + max(segment.number for segment in old.history.segments.values()) if again else 0
        new = self._add_stream(old.part, generation=old.generation + again, first_number=first_number)
        self.open_stream(new)
        return new

    def delete_stream(self, stream: StreamWorld) -> None:
        """End a stream: nobody reaches its records and its bytes any more, its tables are kept."""
        stream.deleted = True
        self.metadata.delete(stream.name)
        self.deleted_streams.append(stream)

    def _processes(
        self, part: EventWriter | TransactionalWriter, index: int, traces: Mapping[str, Load]
    ) -> list[WriterProcess]:
        """All processes of a writer; several share its load event by event in turn."""
        stream, controllers = self.stream(part.stream), self.controllers
        spans = (traces[part.name],) if part.trace else synthetic(part, self.world.scenario)
        if isinstance(part, TransactionalWriter):
            return [TxnWriter(stream, controllers, self.transactions, part, index, Load.whole(spans))]
        if part.processes == 1:
            return [Writer(stream, controllers, part, index, spans)]
        load, count = Load.whole(spans), part.processes
        return [Writer(stream, controllers, part, index, (load[number::count],), number + 1) for number in range(count)]

    def start_group(self, part: ReaderGroup) -> None:
        """Bring a reader group to life on its streams as they are now, if they are there."""
        streams = [self.stream(name) for name in part.streams or (part.stream,)]
        present = [stream for stream in streams if not stream.deleted]
        if present:
            group = self.groups[part.name] = RunningGroup(self.world, part, present, self.groups)
            self.begun_groups.append(group)
            group.start()
