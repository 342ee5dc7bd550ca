"""The simulated job: a clock, the execution that is running, its snapshots, and who takes the next turn.

A party that has something to do is due after a random part of `jitter_ms`. Of those that are due at one moment, chance
or a given choice says who is first; so every order of the queues that a real job may have can come about. A restart
ends the execution and begins the next one from the last complete snapshot.

Source: upstream classes `MasterJobContext`, `MasterSnapshotContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wmlab.core.clock import Simulation
from wmlab.core.delays import chances
from wmlab.core.errors import WmlabError
from wmlab.core.journal import Journal, Row
from wmlab.dataflow.model.items import Barrier
from wmlab.dataflow.model.tasklet import InputEdge, Tasklet
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.faults import Restart, Stall, SwallowAll
from wmlab.dataflow.scenario.source import Reading, Source
from wmlab.dataflow.scenario.vertices import AsyncMap
from wmlab.dataflow.sim.instance import Calls, Instance
from wmlab.dataflow.sim.layout import Node, layout
from wmlab.dataflow.sim.party import Party, Queue, Way, Written
from wmlab.dataflow.sim.processors import clocked, condition_of, processor_of
from wmlab.dataflow.sim.reader import Reader, feeds

Place = tuple[str, int]
"""A node's name and the number of an instance."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A complete snapshot: its number, the state of every party, and how many rows each sink had by then."""

    number: int
    states: Mapping[Place, Any] = field(repr=False)
    sunk: Mapping[Place, int] = field(repr=False)


class Running:
    """The parties of one execution, begun from `snapshot` if there is one."""

    def __init__(self, world: DataflowWorld, snapshot: Saved | None) -> None:
        self.world = world
        self.snapshot = snapshot
        self._barrier: Barrier | None = None
        self._states: dict[Place, Any] = {}
        self._sunk: dict[Place, int] = {}
        self._rows: dict[Place, Row] = {}
        self._row = world.journal.write(
            "executions",
            started_ms=world.now_ms,
            snapshot=None if snapshot is None else snapshot.number,
            ended_ms=None,
            outcome="running",
            reason="",
        )
        nodes = {node.name: node for node in world.layout.nodes}
        self.queues = [
            Queue(lane, world.dataflow.queue_size, world.journal, Written(nodes[lane.link.source].output))
            for lane in world.layout.lanes
        ]
        self.parties: dict[Place, Party] = {
            (node.name, n): self._party(node, n) for node in world.layout.nodes for n in range(node.parallelism)
        }
        self._connect()

    def begin(self) -> None:
        """Everybody looks whether there is something to do."""
        for party in self.parties.values():
            party.begin()

    def end(self, outcome: str, reason: str = "") -> None:
        """The execution is over."""
        self._row.update(ended_ms=self.world.now_ms, outcome=outcome, reason=reason)

    @property
    def in_snapshot(self) -> bool:
        """Whether a snapshot is under way."""
        return self._barrier is not None

    def begin_snapshot(self, number: int, *, terminal: bool = False) -> None:
        """Send barriers; the snapshot is complete when every party has saved its state."""
        self._barrier = Barrier(number, terminal)
        self._states, self._sunk = {}, {}
        for (vertex, instance), party in self.parties.items():
            self._rows[vertex, instance] = party.write(
                "snapshots", snapshot=number, begun_ms=self.world.now_ms, saved_ms=None, completed_ms=None, size=None
            )
        for party in self.parties.values():
            party.begin_snapshot(self._barrier)

    def saved(self, party: Party, barrier: Barrier, state: Any, size: int) -> None:
        """The state of a party; with the last of them the snapshot is complete."""
        if barrier != self._barrier:
            return
        place = (party.node.name, party.number)
        self._states[place] = state
        if isinstance(party, Instance):
            self._sunk[place] = len(party.sunk)
        self._rows[place].update(saved_ms=self.world.now_ms, size=size)
        if len(self._states) < len(self.parties):
            return
        self._barrier = None
        for row in self._rows.values():
            row["completed_ms"] = self.world.now_ms
        self.world.snapshot_complete(Saved(barrier.snapshot, self._states, self._sunk), terminal=barrier.terminal)

    def ended(self, party: Party) -> None:  # noqa: ARG002
        """A party has sent its end; with the last of them the dataflow is complete."""
        if all(one.finished for one in self.parties.values()):
            self.world.completed()

    def take_back(self) -> None:
        """Rows that sinks put out behind the last complete snapshot are not committed."""
        snapshot = self.world.last_snapshot
        for place, party in self.parties.items():
            if isinstance(party, Instance):
                kept = snapshot.sunk.get(place, 0) if snapshot is not None and snapshot is not self.snapshot else 0
                for row in party.sunk[kept:]:
                    row["committed"] = False

    def _party(self, node: Node, number: int) -> Party:
        snapshots = None if self.snapshot is None else self._snapshots(self.snapshot, node, number)
        if node.kind == "source":
            return self._reader(node, number, None if snapshots is None else snapshots[0])
        links = self.world.layout.inputs(node.name)
        inputs = [
            queue
            for queue in self.queues
            if queue.lane.link.target == node.name and queue.lane.target_instance == number
        ]
        counts = [sum(queue.lane.link is link for queue in inputs) for link in links]
        dataflow = self.world.dataflow
        runtime = Tasklet(
            processor=processor_of(dataflow, self.world.plan, node, lambda: not self.world.swallows(node.name)),
            edges=tuple(InputEdge(count, link.priority) for count, link in zip(counts, links, strict=True)),
            guarantee=dataflow.guarantee,
            deviations=dataflow.rules,
            name=node.name if node.parallelism == 1 else f"{node.name}[{number}]",
        )
        return Instance(self, node, number, runtime, inputs, snapshots)

    def _reader(self, node: Node, number: int, position: Any) -> Reader:
        source, world = node.vertex, self.world
        where = None if source.where is None else condition_of(source.where, source.row_columns)

        def keep(values: tuple[Any, ...]) -> bool:
            return where is None or (not world.swallows(node.name) and bool(where(values)))

        return Reader(self, node, number, world.feeds[node.name][number], world.times[node.name], keep, position)

    def _snapshots(self, snapshot: Saved, node: Node, number: int) -> Sequence[Any]:
        own = snapshot.states[node.name, number]
        return [own, *(snapshot.states[node.name, n] for n in range(node.parallelism) if n != number)]

    def _connect(self) -> None:
        for (name, number), party in self.parties.items():
            for link in self.world.layout.links:
                if link.source == name:
                    mine = [q for q in self.queues if q.lane.link is link and q.lane.source_instance == number]
                    party.ways.append(Way(link, mine))
                    for queue in mine:
                        queue.producer = party
                        queue.consumer = self.parties[link.target, queue.lane.target_instance]


Choose = Callable[[Sequence[str]], int]
"""Of the parties that are due, by name, the place of the one that takes the next turn."""


class DataflowWorld(Simulation):
    """One run of one dataflow.

    `readings` gives what every source reads that has no rows of its own; `choose` replaces chance in who is next.
    """

    def __init__(
        self, dataflow: DataflowScenario, readings: Mapping[str, Reading] | None = None, *, choose: Choose | None = None
    ) -> None:
        super().__init__(start_ms=dataflow.start_ms, duration_ms=dataflow.duration_ms, seed=dataflow.seed)
        self.dataflow = dataflow
        self.plan = dataflow.plan
        self.layout = layout(dataflow)
        self.journal = Journal(common={"execution": 1})
        self.last_snapshot: Saved | None = None
        sources = [vertex for vertex in dataflow.vertices if isinstance(vertex, Source)]
        self.feeds = {source.name: feeds(dataflow, source, (readings or {}).get(source.name)) for source in sources}
        self.times = {source.name: clocked(dataflow, source) for source in sources}
        self.calls = {n.name: Calls(self, n) for n in self.layout.nodes if isinstance(n.vertex, AsyncMap)}
        self._chances = chances(self.draws("turns"))
        self._choose = choose or (lambda names: int(next(self._chances) * len(names)))
        self._due: list[Party] = []
        self._dispatching = False
        self._snapshots = 0
        self._stopped = False
        self._asleep: dict[Party, int] = {}
        self._restart_due = False
        self._terminal_due = False
        self.execution = Running(self, None)

    def run(self) -> Journal:
        """Run to the end of the dataflow, or until it is complete or has failed. Returns what happened."""
        self._plan()
        self.execution.begin()
        while not self._stopped and self.env.peek() < self.end_ms:
            try:
                self.env.step()
            except WmlabError as problem:
                self._fail(problem)
        return self.journal

    def wake(self, party: Party, *, after_ms: int = 0) -> None:
        """A party has something to do; it takes its turn soon."""
        if party.ready or party.execution is not self.execution:
            return
        party.ready = True
        delay_ms = max(after_ms, next(self._chances) * self.dataflow.jitter_ms)
        if delay_ms:
            self.later(delay_ms, self._is_due, party)
        else:
            self._is_due(party)

    def wake_at(self, party: Party, at_ms: int) -> None:
        """A party has something to do at a time; of several times the earliest counts."""
        known = self._asleep.get(party)
        if known is not None and self.now_ms < known <= at_ms:
            return
        self._asleep[party] = at_ms

        def rise() -> None:
            if self._asleep.get(party) == at_ms:
                del self._asleep[party]
                self.wake(party)

        self.later(max(0, at_ms - self.env.now), rise)

    def later(self, delay_ms: float, act: Callable[..., None], *args: Any) -> None:
        """Call `act` after a time, unless a restart or the end comes before."""
        self.after(delay_ms, self._unless_over, self.execution, act, *args)

    def _unless_over(self, execution: Running, act: Callable[..., None], *args: Any) -> None:
        if execution is self.execution:
            act(*args)

    def note(self, kind: str, target: str, detail: str) -> None:
        """Write down a fault, or what one has led to."""
        self.journal.write("incidents", at_ms=self.now_ms, kind=kind, target=target, detail=detail)

    def swallows(self, vertex: str) -> bool:
        """Whether a filter lets nothing pass now."""
        after_ms = self.now_ms - self.dataflow.start_ms
        return any(
            isinstance(fault, SwallowAll) and fault.vertex == vertex and _covers(fault, after_ms)
            for fault in self.dataflow.faults
        )

    def snapshot_complete(self, snapshot: Saved, *, terminal: bool) -> None:
        """All parties have saved their state."""
        self.last_snapshot = snapshot
        if terminal:
            self._restart_due = True
        elif self._terminal_due:
            self.later(0, self._snapshot_and_restart)

    def completed(self) -> None:
        """All parties have sent their end."""
        self.execution.end("completed")
        self._stopped = True

    def _fail(self, problem: WmlabError) -> None:
        self.execution.end("failed", problem.problem)
        self.note("failure", self.dataflow.name, problem.problem)
        self._stopped = True

    def _is_due(self, party: Party) -> None:
        self._due.append(party)
        if not self._dispatching:
            self._dispatching = True
            self.later(0, self._dispatch)

    def _dispatch(self) -> None:
        """Turns of all that are due now, one by one; what becomes due by them takes part."""
        while self._due and not self._stopped:
            party = self._due.pop(self._choose([one.name for one in self._due]) if len(self._due) > 1 else 0)
            party.ready = False
            if not self._stalled(party):
                party.turn()
            if self._restart_due:
                self._restart()
        self._dispatching = False

    def _stalled(self, party: Party) -> bool:
        after_ms = self.now_ms - self.dataflow.start_ms
        return any(
            isinstance(fault, Stall)
            and fault.vertex == party.node.vertex.name
            and fault.instance in {None, party.number}
            and _covers(fault, after_ms)
            for fault in self.dataflow.faults
        )

    def _plan(self) -> None:
        """Everything that happens at a time that is known beforehand."""
        every_ms = self.dataflow.snapshot_every_ms
        if every_ms is not None:
            self.after(every_ms, self._snapshot_regularly, every_ms)
        for fault in self.dataflow.faults:
            if isinstance(fault, Restart):
                self.after(fault.at_ms, self._snapshot_and_restart if fault.after_snapshot else self._restart)
                continue
            self.after(fault.at_ms, self._note_fault, fault)
            if isinstance(fault, Stall) and fault.for_ms is not None:
                self.after(fault.at_ms + fault.for_ms, self._wake_all)

    def _note_fault(self, fault: object) -> None:
        details = [
            f"{field.removesuffix('_ms').replace('_', ' ')} {value}{' ms' if field.endswith('_ms') else ''}"
            for field in ("partition", "instance", "by_ms", "first", "for_ms")
            if (value := getattr(fault, field, None)) is not None
        ]
        target = str(getattr(fault, "source", None) or getattr(fault, "vertex", ""))
        kind = str(getattr(fault, "kind", "")).replace("_", " ")
        self.note(kind, target, ", ".join(details))

    def _wake_all(self) -> None:
        for party in self.execution.parties.values():
            self.wake(party)

    def _snapshot_regularly(self, every_ms: int) -> None:
        if not self.execution.in_snapshot:
            self._snapshots += 1
            self.execution.begin_snapshot(self._snapshots)
        self.after(every_ms, self._snapshot_regularly, every_ms)

    def _snapshot_and_restart(self) -> None:
        self._terminal_due = self.execution.in_snapshot
        if self._terminal_due:
            return
        self._snapshots += 1
        self.execution.begin_snapshot(self._snapshots, terminal=True)

    def _restart(self) -> None:
        """Begin again from the last complete snapshot."""
        self._restart_due = False
        if self.dataflow.guarantee == "exactly_once":
            self.execution.take_back()
        self.execution.end("restarted")
        snapshot = self.last_snapshot
        self.note(
            "restart", self.dataflow.name, "from the start" if snapshot is None else f"from snapshot {snapshot.number}"
        )
        self._due, self._asleep, self._dispatching = [], {}, False
        self.journal.common["execution"] += 1
        self.execution = Running(self, snapshot)
        self.execution.begin()


def _covers(fault: Stall | SwallowAll, after_ms: int) -> bool:
    return fault.at_ms <= after_ms and (fault.for_ms is None or after_ms < fault.at_ms + fault.for_ms)
