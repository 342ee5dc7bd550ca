"""The simulated job: a clock, the execution that is running, its snapshots, and which task is polled next.

A task that has something to do is due after a random part of `jitter_ms`. Of those that are due at one moment, chance
says which is first; so every order of the queues that a real job may have can come about. A restart
ends the execution and begins the next one from the last complete snapshot.

Source: upstream classes `MasterJobContext`, `MasterSnapshotContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from wmlab.core.errors import FunctionError, WmlabError
from wmlab.core.simulation import Journal, JournalRow, Simulation, chances
from wmlab.core.words import counted, moment
from wmlab.dataflow.model.items import Barrier
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.faults import AnyFault, Restart, Stall, SwallowAll
from wmlab.dataflow.scenario.plan import Output
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import AsyncMap, Window
from wmlab.dataflow.sim.layout import Node, layout
from wmlab.dataflow.sim.processor_task import Calls, ProcessorTask
from wmlab.dataflow.sim.rules import clocked
from wmlab.dataflow.sim.source_task import Reading, SourceTask, feeds
from wmlab.dataflow.sim.task import NodeTask, Queue


@dataclass(frozen=True, slots=True)
class Saved:
    """A complete snapshot: its number, and by name the state of every task and how many rows each sink had."""

    number: int
    states: Mapping[str, Any] = field(repr=False)
    sunk: Mapping[str, int] = field(repr=False)


class Execution:
    """The tasks of one execution, begun from `snapshot` if any; `barrier` is that of a snapshot under way."""

    def __init__(self, world: DataflowWorld, snapshot: Saved | None) -> None:
        self.world = world
        self.snapshot = snapshot
        self.barrier: Barrier | None = None
        self._postponed: Barrier | None = None
        self._states: dict[str, Any] = {}
        self._sunk: dict[str, int] = {}
        self._rows: dict[str, JournalRow] = {}
        begun = {"started_ms": world.now_ms, "snapshot": None if snapshot is None else snapshot.number}
        self._row = world.journal.write("executions", outcome="running", reason="", **begun)
        nodes = world.layout.nodes
        self.queues = [Queue(channel, world.dataflow.queue_size, world.journal) for channel in world.layout.channels]
        self.tasks = {
            (name, number): self._task(node, number)
            for name, node in nodes.items()
            for number in range(node.parallelism)
        }
        for queue in self.queues:
            queue.producer = self.tasks[queue.channel.edge.source, queue.channel.source_instance]
            queue.consumer = self.tasks[queue.channel.edge.target, queue.channel.target_instance]

    def begin(self) -> None:
        """Everybody looks whether there is something to do."""
        for task in self.tasks.values():
            task.begin()

    def end(self, outcome: str, reason: str = "") -> None:
        """The execution is over."""
        self._row.update(ended_ms=self.world.now_ms, outcome=outcome, reason=reason)

    @property
    def snapshot_under_way(self) -> bool:
        """Whether a snapshot was begun, or will be, and is not complete."""
        return self.barrier is not None or self._postponed is not None

    def begin_snapshot(self, number: int, *, terminal: bool = False) -> None:
        """Send barriers; the snapshot is complete when every task has saved its state.

        While a task reads an input to its end before it looks at others, no barrier could come over all inputs; then
        the snapshot is begun when it has. Source: upstream class `SnapshotContext` (higher priority vertices).
        """
        self._postponed = Barrier(number, terminal)
        self.begin_postponed_snapshot()

    def begin_postponed_snapshot(self) -> None:
        """Begin the snapshot that waits for tasks that read an input to its end, if there is one and they have."""
        if self._postponed is None or any(task.reads_first for task in self.tasks.values()):
            return
        self.barrier, self._postponed = self._postponed, None
        self._states, self._sunk = {}, {}
        begun = {"snapshot": self.barrier.snapshot, "begun_ms": self.world.now_ms}
        self._rows = {task.name: task.write("snapshots", **begun) for task in self.tasks.values()}
        for task in self.tasks.values():
            task.begin_snapshot(self.barrier)

    def saved(self, task: NodeTask, barrier: Barrier, state: Any, *, size: int, rows_read: int | None = None) -> None:
        """The state of a task; with the last of them the snapshot is complete. `rows_read` is of a source."""
        if barrier != self.barrier:
            return
        self._states[task.name] = state
        self._sunk[task.name] = len(task.sunk)
        self._rows[task.name].update(saved_ms=self.world.now_ms, size=size, rows_read=rows_read)
        if len(self._states) < len(self.tasks):
            return
        self.barrier = None
        for row in self._rows.values():
            row["completed_ms"] = self.world.now_ms
        self.world.snapshot_complete(Saved(barrier.snapshot, self._states, self._sunk), terminal=barrier.terminal)

    def ended(self) -> None:
        """A task has sent its end; with the last of them the dataflow is complete."""
        if all(task.finished for task in self.tasks.values()):
            self.world.completed()

    def roll_back(self) -> None:
        """Rows that sinks put out behind the last complete snapshot are not committed."""
        snapshot = self.world.last_snapshot
        sunk = {} if snapshot is None or snapshot is self.snapshot else snapshot.sunk
        for task in self.tasks.values():
            for row in task.sunk[sunk.get(task.name, 0) :]:
                row["committed"] = False

    def _task(self, node: Node, number: int) -> NodeTask:
        others = [other for other in range(node.parallelism) if other != number]
        states = None if self.snapshot is None else self.snapshot.states
        snapshots = [] if states is None else [states[node.instance(n)] for n in (number, *others)]
        return (SourceTask if node.kind == "source" else ProcessorTask)(self, node, number, snapshots)


class DataflowWorld(Simulation):
    """One run of one dataflow; `readings` are what its sources read."""

    def __init__(self, dataflow: DataflowScenario, readings: Mapping[str, Reading]) -> None:
        super().__init__(start_ms=dataflow.start_ms, duration_ms=dataflow.duration_ms, seed=dataflow.seed)
        self.dataflow = dataflow = dataflow.resolved
        self.plan = dataflow.plan
        self.layout = layout(dataflow)
        self.journal = Journal(common={"stream": dataflow.name, "execution": 1})
        self._write_topology()
        self.last_snapshot: Saved | None = None
        sources = [vertex for vertex in dataflow.vertices if isinstance(vertex, Source)]
        self.feeds = {source.name: feeds(dataflow, source, readings[source.name]) for source in sources}
        self.times = {source.name: clocked(dataflow, source) for source in sources}
        self.calls = {name: Calls(self, n) for name, n in self.layout.nodes.items() if isinstance(n.vertex, AsyncMap)}
        self._chances = chances(self.draws("turns"))
        self._due: list[NodeTask] = []
        self._dispatching = False
        self._snapshots = count(1)
        self._stopped = False
        self._asleep: dict[NodeTask, int] = {}
        self._restart_due = False
        self._terminal_due = False
        self.execution = Execution(self, None)

    def run(self) -> Journal:
        """Run to the end of the dataflow, or until it is complete or has failed. Returns what happened.

        Raises `FunctionError` when a function of a user's own raises an error: that is a mistake of its author.
        """
        self.begin()
        self.advance(self.end_ms)
        self._note_what_never_came()
        return self.journal

    def begin(self) -> None:
        """The first execution begins."""
        self._plan()
        self.execution.begin()

    def advance(self, until_ms: int) -> None:
        """Go on up to a moment, exclusive, or until the dataflow is complete or has failed."""
        while not self._stopped and self.env.peek() < min(until_ms, self.end_ms):
            try:
                self.env.step()
            except FunctionError:
                raise
            except WmlabError as problem:
                self.execution.end("failed", problem.problem)
                self.note("failure", self.dataflow.name, problem.problem)
                self._stopped = True

    def _note_what_never_came(self) -> None:
        """Write down, at the end of the run, the faults that waited for a call or a snapshot that never came."""
        for name, calls in self.calls.items():
            for fault in calls.failing:
                self.note(
                    "never came",
                    name,
                    f"no call that could fail was made from {moment(self.start_ms + fault.at_ms)} on",
                )
        restarts = sum(isinstance(fault, Restart) for fault in self.dataflow.faults)
        missing = restarts - (self.journal.common["execution"] - 1)
        if missing > 0:
            self.note("never came", self.dataflow.name, f"{counted(missing, 'restart')}: the run had ended before")

    def _write_topology(self) -> None:
        for node in self.layout.nodes.values():
            output = Output() if node.kind == "sink" else node.output
            self.journal.write(
                "vertices",
                vertex=node.name,
                kind=node.kind,
                parallelism=node.parallelism,
                columns=output.columns,
                keys=output.keys,
                detail=node.vertex.detail,
                grid=node.vertex.step_ms if isinstance(node.vertex, Window) and node.vertex.bounds_only else None,
            )
        for channel in self.layout.channels:
            self.journal.write(
                "queues",
                queue=channel.number,
                source=channel.edge.source,
                source_instance=channel.source_instance,
                target=channel.edge.target,
                target_instance=channel.target_instance,
                edge=channel.edge.number,
                input=channel.index,
                priority=channel.edge.priority,
                routing=channel.edge.words,
                capacity=self.dataflow.queue_size,
                keys=self.layout.nodes[channel.edge.source].output.keys,
            )

    def wake(self, task: NodeTask, *, after_ms: int = 0) -> None:
        """A task has something to do; it is polled soon."""
        if task.due or task.execution is not self.execution:
            return
        task.due = True
        delay_ms = max(after_ms, next(self._chances) * self.dataflow.jitter_ms)
        if delay_ms:
            self.later(delay_ms, self._is_due, task)
        else:
            self._is_due(task)

    def wake_at(self, task: NodeTask, at_ms: int) -> None:
        """A task has something to do at a time; of several times the earliest counts."""
        earlier_ms = self._asleep.get(task)
        if earlier_ms is not None and self.now_ms < earlier_ms <= at_ms:
            return
        self._asleep[task] = at_ms

        def rise() -> None:
            if self._asleep.get(task) == at_ms:
                del self._asleep[task]
                self.wake(task)

        self.later(max(0, at_ms - self.env.now), rise)

    def later(self, delay_ms: float, act: Callable[..., None], *args: Any) -> None:
        """Call `act` after a time, unless a restart or the end comes before."""
        self.after(delay_ms, self._unless_over, self.execution, act, *args)

    def _unless_over(self, execution: Execution, act: Callable[..., None], *args: Any) -> None:
        if execution is self.execution:
            act(*args)

    def note(self, kind: str, target: str, detail: str) -> None:
        """Write down a fault, or what one has led to."""
        self.journal.write("incidents", at_ms=self.now_ms, kind=kind, target=target, detail=detail)

    def is_hit(self, kind: type[Stall | SwallowAll], vertex: str, instance: int | None = None) -> bool:
        """Whether a fault of that kind happens to a vertex, or to this instance of it, now."""
        faults = (fault for fault in self.dataflow.faults if isinstance(fault, kind) and fault.vertex == vertex)
        return any(getattr(fault, "instance", None) in {None, instance} and self.in_force(fault) for fault in faults)

    def in_force(self, fault: AnyFault) -> bool:
        """Whether now is the time of a fault; without `for_ms` it lasts to the end."""
        after_ms = self.now_ms - self.dataflow.start_ms
        for_ms = getattr(fault, "for_ms", None)
        return fault.at_ms <= after_ms and (for_ms is None or after_ms < fault.at_ms + for_ms)

    def snapshot_complete(self, snapshot: Saved, *, terminal: bool) -> None:
        """All tasks have saved their state."""
        self.last_snapshot = snapshot
        if terminal:
            self._restart_due = True
        elif self._terminal_due:
            self.later(0, self._snapshot_and_restart)

    def completed(self) -> None:
        """All tasks have sent their end."""
        self.execution.end("completed")
        self._stopped = True

    def _is_due(self, task: NodeTask) -> None:
        self._due.append(task)
        if not self._dispatching:
            self._dispatching = True
            self.later(0, self._dispatch)

    def _dispatch(self) -> None:
        """Poll all tasks that are due now, one by one; what becomes due by that takes part."""
        while self._due and not self._stopped:
            task = self._due.pop(int(next(self._chances) * len(self._due)) if len(self._due) > 1 else 0)
            task.due = False
            if not self.is_hit(Stall, task.node.vertex.name, task.number):
                task.poll()
            if self._restart_due and not self._stopped:
                self._restart()
        self._dispatching = False

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

    def _note_fault(self, fault: Any) -> None:
        details = [
            f"{field.removesuffix('_ms').replace('_', ' ')} {value}{' ms' if field.endswith('_ms') else ''}"
            for field in ("partition", "instance", "by_ms", "first", "for_ms")
            if (value := getattr(fault, field, None)) is not None
        ]
        target = fault.source if hasattr(fault, "source") else fault.vertex
        self.note(fault.kind.replace("_", " "), target, ", ".join(details))

    def _wake_all(self) -> None:
        for task in self.execution.tasks.values():
            self.wake(task)

    def _snapshot_regularly(self, every_ms: int) -> None:
        if not self.execution.snapshot_under_way:
            self.execution.begin_snapshot(next(self._snapshots))
        self.after(every_ms, self._snapshot_regularly, every_ms)

    def _snapshot_and_restart(self) -> None:
        self._terminal_due = self.execution.snapshot_under_way
        if not self._terminal_due:
            self.execution.begin_snapshot(next(self._snapshots), terminal=True)

    def _restart(self) -> None:
        """Begin again from the last complete snapshot."""
        self._restart_due = False
        if self.dataflow.guarantee == "exactly_once":
            self.execution.roll_back()
        self.execution.end("restarted")
        snapshot = self.last_snapshot
        begin = "from the start" if snapshot is None else f"from snapshot {snapshot.number}"
        self.note("restart", self.dataflow.name, begin)
        self._due, self._asleep, self._dispatching = [], {}, False
        self.journal.common["execution"] += 1
        self.execution = Execution(self, snapshot)
        self.execution.begin()
