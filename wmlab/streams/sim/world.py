"""The simulated world: a clock, the nodes of a scenario, and the messages between them.

SimPy holds the clock and the queue of what is to come; the rules are in `wmlab.streams.model`, the nodes carry them
out. Nothing here depends on wall time or on hash order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wmlab.core.simulation import Journal, Simulation
from wmlab.streams.scenario.checks import controllers_of, created_later, process_names, readers_of
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, TransactionalWriter
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.sim.actions import Actions
from wmlab.streams.sim.controller import Controllers
from wmlab.streams.sim.coordinator import Coordinator
from wmlab.streams.sim.load import Load, synthetic
from wmlab.streams.sim.network import SimulatedNetwork
from wmlab.streams.sim.reader import RunningGroup
from wmlab.streams.sim.store import MetadataStore
from wmlab.streams.sim.stream import StreamWorld
from wmlab.streams.sim.txn_writer import TxnWriter
from wmlab.streams.sim.writer import Writer, WriterProcess
from wmlab.streams.tables import TOOK_PLACE, IncidentOutcome, Sides, Subject

_STEPS = 100


class World(Simulation):
    """One run of one scenario; `traces` gives the load of every writer that replays a real trace.

    `take_events`, if given, takes the events of a stream, by its title, whenever there are many.
    """

    def __init__(
        self,
        scenario: StreamScenario,
        traces: Mapping[str, Load],
        take_events: Callable[[str, Journal], None] | None = None,
    ) -> None:
        super().__init__(start_ms=scenario.start_ms, duration_ms=scenario.duration_ms, seed=scenario.seed)
        self.scenario = scenario = scenario.resolved
        self.shared = Journal()
        self.take_events = take_events
        self.network = SimulatedNetwork(self, scenario, self.shared)
        self.metadata = MetadataStore(self)
        self.coordinator = Coordinator(self)
        self.controllers = Controllers(self)
        self.past: list[StreamWorld] = []
        self.groups: dict[str, RunningGroup] = {}
        self._begun_groups: list[RunningGroup] = []
        self.streams = {part.name: StreamWorld(self, part) for part in scenario.all_streams}
        for name in created_later(scenario):
            self.streams[name].deleted = True
        self.writers = {
            process.name: process
            for index, part in enumerate(scenario.writers)
            for process in self._processes(part, index, traces)
        }

    def stream(self, name: str | None = None) -> StreamWorld:
        """The stream called `name`; the first one for None."""
        return self.streams[self.scenario.all_streams[0].name if name is None else name]

    def journals(self) -> dict[str | None, Journal]:
        """The rows of each stream by its title, deleted streams first, and under None those of no stream."""
        return {**{stream.title: stream.journal for stream in self.all_streams()}, None: self.shared}

    def record_incident(
        self,
        kind: str,
        subject: Subject,
        target: str,
        detail: str,
        *,
        outcome: IncidentOutcome = TOOK_PLACE,
        for_ms: int | None = None,
        sides: Sides | None = None,
    ) -> None:
        """Write down something that was made to happen to all streams: a row for each."""
        for stream in self.streams.values():
            stream.record_incident(kind, subject, target, detail, outcome=outcome, for_ms=for_ms, sides=sides)

    def _processes(
        self, part: EventWriter | TransactionalWriter, index: int, traces: Mapping[str, Load]
    ) -> list[WriterProcess]:
        """All processes of a writer; several share its load event by event in turn."""
        stream = self.stream(part.stream)
        spans = (traces[part.name],) if part.trace else synthetic(part, self.scenario)
        if isinstance(part, TransactionalWriter):
            return [TxnWriter(stream, part, index, Load.whole(spans))]
        if part.processes == 1:
            return [Writer(stream, part, index, spans)]
        load, count = Load.whole(spans), part.processes
        return [Writer(stream, part, index, (load[number::count],), number + 1) for number in range(count)]

    def nodes(self, named: str) -> frozenset[str]:
        """The nodes that a script means by a name: itself, or all of a kind."""
        kinds = {
            "writers": tuple(process_names(self.scenario.writers, self.scenario.script)),
            "readers": readers_of(self.scenario),
            "controllers": controllers_of(self.scenario),
        }
        return frozenset(kinds.get(named, (named,)))

    def later(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` one message later."""
        self.after(self.scenario.latency_ms, act, *args)

    def run(self, progress: Callable[[int], None] = lambda _: None) -> None:
        """Run to the end of the scenario; `progress` gets the percentage done."""
        for stream in self.all_streams():
            stream.open()
        for controller in self.controllers.members:
            controller.start()
        actions = Actions(self)
        actions.plan(self.scenario.script)
        for writer in self.writers.values():
            self.after(writer.part.starts_ms, writer.start)
        for group in self.scenario.groups:
            self.after(group.starts_ms, self.start_group, group)
        for step in range(1, _STEPS + 1):
            until = self.scenario.start_ms + self.scenario.duration_ms * step // _STEPS
            if until > self.env.now:
                self.env.run(until=until)
            progress(step)
        self.coordinator.finish()
        actions.write_pending_actions()
        for stream in self.all_streams():
            stream.write_segments()
            stream.transactions.write()
        for begun in self._begun_groups:
            begun.write_checkpoints()

    def start_group(self, part: ReaderGroup) -> None:
        """Bring a reader group to life on its streams as they are now, if they are there."""
        streams = [self.stream(name) for name in part.streams or (part.stream,)]
        present = [stream for stream in streams if not stream.deleted]
        if present:
            group = self.groups[part.name] = RunningGroup(self, part, present)
            self._begun_groups.append(group)
            group.start()

    def all_streams(self) -> list[StreamWorld]:
        """Every stream that there was: those that were deleted, then those that are there."""
        return [*self.past, *(stream for stream in self.streams.values() if not stream.deleted)]
