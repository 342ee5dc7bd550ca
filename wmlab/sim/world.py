"""The simulated world: a clock, the parties of a scenario, and the messages between them.

SimPy holds the clock and the queue of what is to come; the rules are in `wmlab.model`, the parties carry them
out. Every message takes the scenario's latency. Nothing here depends on wall time or on hash order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import simpy

from wmlab.model.epoch import Epoch
from wmlab.model.history import StreamHistory
from wmlab.model.position import Position
from wmlab.model.segment import Segment
from wmlab.scenario import Scenario
from wmlab.sim.controller import Controller
from wmlab.sim.director import Director
from wmlab.sim.journal import Journal
from wmlab.sim.load import Load, synthetic
from wmlab.sim.readers import Group
from wmlab.sim.store import SegmentStore
from wmlab.sim.transactions import Transactions
from wmlab.sim.txn_writer import TxnWriter
from wmlab.sim.writer import Writer
from wmlab.sim.writer_faults import processes

_STEPS = 100


class World:
    """One run of one scenario; `traces` gives the load of every writer that replays a real trace."""

    def __init__(self, scenario: Scenario, traces: Mapping[str, Load]) -> None:
        stream = scenario.stream
        self.scenario = scenario
        self.env = simpy.Environment(initial_time=scenario.start_ms)
        self.end_ms = scenario.start_ms + scenario.duration_ms
        self.journal = Journal()
        self.store = SegmentStore()
        # Pravega computes even ranges in doubles, which is what makes 49 segments fail there.
        doubles = stream.cut_algorithm == "pravega"
        self.history = StreamHistory.create(stream.segments, arithmetic="double" if doubles else "exact")
        self.controller = Controller(self)
        self.transactions = Transactions(self)
        self.writers = [
            process
            for index, part in enumerate(scenario.writers)
            for process in processes(
                self, part, index, traces[part.name] if part.trace is not None else synthetic(part, scenario)
            )
        ]
        self._created_ms: dict[int, int] = {}
        self._sealed_ms: dict[int, int] = {}
        self._by_name = {writer.name: writer for writer in self.writers}

    @property
    def now_ms(self) -> int:
        """The simulated clock."""
        return int(self.env.now)

    def writer(self, name: str) -> Writer | TxnWriter:
        """The writer process called `name`; the first one of a writer is called like it."""
        return self._by_name[name]

    def processes_of(self, part_name: str) -> int:
        """How many processes of a writer there are."""
        return sum(writer.part.name == part_name for writer in self.writers)

    def join(self, process: Writer) -> None:
        """One more process of a writer, which starts now."""
        self.writers.append(process)
        self._by_name[process.name] = process
        process.start()

    def note(self, writer_id: str, time: int, position: Position, *, noted_ms: int, process: str) -> None:
        """Send a noted time to a controller."""
        self.later(self._note, writer_id, time, position, noted_ms, process)

    def _note(self, writer_id: str, time: int, position: Position, noted_ms: int, process: str) -> None:
        self.controller.receive(writer_id, time, position, noted_ms, process=process)

    def leave(self, writer_id: str, call: str, *, process: str) -> None:
        """Send to a controller that a writer shuts down or is idle."""
        self.later(self._leave, writer_id, call, self.now_ms, process)

    def _leave(self, writer_id: str, call: str, sent_ms: int, process: str) -> None:
        self.controller.let_go(writer_id, call, sent_ms, process=process)

    def refuse(self, process: str, call: str, problem: str) -> None:
        """Write down that a call was refused."""
        self.journal.write("errors", at_ms=self.now_ms, process=process, call=call, problem=problem)

    def happened(self, kind: str, target: str, detail: str) -> None:
        """Write down what happened to whom, in one short phrase."""
        self.journal.write("faults", at_ms=self.now_ms, kind=kind, target=target, detail=detail)

    def after(self, delay_ms: int, act: Callable[..., None], *args: object) -> None:
        """Call `act` after a delay."""
        self.env.timeout(delay_ms).callbacks.append(lambda _: act(*args))

    def later(self, act: Callable[..., None], *args: object) -> None:
        """Call `act` one message later."""
        self.after(self.scenario.latency_ms, act, *args)

    def open_epoch(self, created: Iterable[Segment]) -> None:
        """Open the new segments of the active epoch and write both down."""
        self.open_segments(created)
        self.write_epoch(self.history.active)

    def open_segments(self, created: Iterable[Segment]) -> None:
        """Open new segments."""
        for segment in created:
            self.store.open(segment.id)
            self._created_ms[segment.id] = self.now_ms

    def write_epoch(self, epoch: Epoch) -> None:
        """Write an epoch down."""
        self.journal.write(
            "epochs",
            epoch=epoch.number,
            kind=epoch.kind,
            at_ms=self.now_ms,
            segment_ids=sorted(segment.id for segment in epoch.segments),
        )

    def seal(self, segment_id: int) -> None:
        """Seal a segment in the store."""
        self.store.seal(segment_id)
        self._sealed_ms[segment_id] = self.now_ms

    def run(self, progress: Callable[[int], None] | None = None) -> Journal:
        """Run to the end of the scenario; `progress` hears the percentage done. Returns what happened."""
        self.open_epoch(self.history.active.segments)
        Director(self).start(self.scenario.script)
        for writer in self.writers:
            self.after(writer.part.starts_ms, writer.start)
        if self.scenario.readers is not None:
            self.after(self.scenario.readers.starts_ms, Group(self, self.scenario.readers).start)
        for step in range(1, _STEPS + 1):
            until = self.scenario.start_ms + self.scenario.duration_ms * step // _STEPS
            if until > self.env.now:
                self.env.run(until=until)
            if progress is not None:
                progress(step)
        self._write_segments()
        self.transactions.write()
        return self.journal

    def _write_segments(self) -> None:
        for segment in sorted(self.history.segments.values(), key=lambda segment: segment.id):
            self.journal.write(
                "segments",
                segment_id=segment.id,
                number=segment.number,
                epoch=segment.epoch,
                low=float(segment.keys.low),
                high=float(segment.keys.high),
                keys=segment.keys.text,
                created_ms=self._created_ms[segment.id],
                sealed_ms=self._sealed_ms.get(segment.id),
            )
