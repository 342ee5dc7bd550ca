"""The simulated job: a clock, the instances that run, their calls and snapshots, and which instance is next.

An instance that has something to do is due after a random part of `jitter_ms`. Of those that are due at one moment,
chance says which takes its turn first; so every order of the queues that a real job may have can come about. A restart
ends the execution and begins the next one from the last complete snapshot.

Source: upstream classes `MasterJobContext`, `MasterSnapshotContext`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from itertools import chain, count, tee
from typing import Any, Final

import pyarrow as pa

from wmlab.core.errors import FunctionError, WmlabError
from wmlab.core.schemas import NEVER_HAPPENED
from wmlab.core.simulation import Simulation, chances, delays_ms
from wmlab.core.words import counted, moment
from wmlab.dataflow.model.items import Barrier
from wmlab.dataflow.model.processor import Call
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.faults import (
    AnyFault,
    FailCall,
    Restart,
    SlowCalls,
    Stall,
    SwallowAll,
    never_happening,
)
from wmlab.dataflow.scenario.plan import Output
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import AsyncMap, Window
from wmlab.dataflow.sim.columns import JobRow, JobTable, Texts
from wmlab.dataflow.sim.instance import Instance, ProcessorInstance, Queue
from wmlab.dataflow.sim.layout import Node, layout
from wmlab.dataflow.sim.rules import processor_of, row_function, watermarked_columns
from wmlab.dataflow.sim.source_instance import Reading, SourceInstance, arrivals_by_instance
from wmlab.dataflow.tables import DATAFLOW_TABLES

_ENDED_BEFORE: Final = "the run had ended before"


@dataclass(frozen=True, slots=True)
class Saved:
    """A complete snapshot: its number, and by name the state of every instance and how many rows each sink had."""

    number: int
    states: Mapping[str, Any] = field(repr=False)
    sunk: Mapping[str, int] = field(repr=False)


class Calls:
    """All calls of one asynchronous vertex."""

    def __init__(self, job: Job, node: Node) -> None:
        self._job = job
        self._results = row_function(node.vertex, job.plan.incoming(node.name)[0], node.output)
        (self.delays,) = tee(delays_ms(node.vertex.latency, job.draws(f"calls of {node.name}")), 1)
        own = [fault for fault in job.dataflow.faults if getattr(fault, "vertex", None) == node.name]
        self._slow = [fault for fault in own if isinstance(fault, SlowCalls)]
        self._slowed = Counter[SlowCalls]()
        self.failing = [fault for fault in own if isinstance(fault, FailCall)]

    def make(self, instance: ProcessorInstance, call: Call) -> None:
        """Begin a call; its answer comes later."""
        job = self._job
        where = job.execution, instance.node.name, instance.number, call.number
        written = job.calls.add(*where, job.now_ms, None, "in flight", call.values)
        failing = [fault for fault in self.failing if job.in_force(fault)]
        for fault in failing:
            self.failing.remove(fault)
            job.note("call fails", instance.name, f"call {call.number}")
        # A fault slows each call that is made in its time down, or the first ones only where it says so.
        slow = [f for f in self._slow if job.in_force(f) and (f.first is None or self._slowed[f] < f.first)]
        self._slowed.update(slow)
        results = None if failing else self._results(call.values)
        delay_ms = next(self.delays) + sum(fault.by_ms for fault in slow)
        job.later(delay_ms, self._end, instance, call.number, written, results)

    def _end(self, instance: ProcessorInstance, number: int, written: int, results: Any) -> None:
        """A call is over; without results it has failed."""
        job = self._job
        job.calls.set(written, ended_ms=job.now_ms, outcome="failed" if results is None else "answered")
        instance.answer(number, results)


class Job(Simulation):
    """One run of one dataflow; `readings` are what its sources read.

    `now_ms` is the clock in whole ms. `execution` counts from 1; `instances` by vertex and number, `queues` by number
    are those of this execution. `barrier` is that of a snapshot under way. Tables are attributes by their names;
    `taken_ms` and `taken` have of each item when it was taken and as which of its consumer, None before.
    """

    now_ms: int = 0  # not a property, since it is read many times at each moment
    queues: list[Queue]
    instances: dict[tuple[str, int], Instance]
    barrier: Barrier | None
    postponed: Barrier | None

    def __init__(self, dataflow: DataflowScenario, readings: Mapping[str, Reading]) -> None:
        super().__init__(start_ms=dataflow.start_ms, duration_ms=dataflow.duration_ms, seed=dataflow.seed)
        self.now_ms = dataflow.start_ms
        self.dataflow = dataflow = dataflow.resolved
        self.deviations = dataflow.rules.deviations
        self.guarantee = dataflow.guarantee
        self.plan = dataflow.plan
        self.layout = layout(dataflow)
        apart = {"items": ("taken_ms", "taken")}
        tables = {
            name: JobTable(name, schema, dataflow.name, apart=apart.get(name, ()))
            for name, schema in DATAFLOW_TABLES.items()
        }
        self._tables = tables
        self.items, self.coalescing, self.drops = tables["items"], tables["coalescing"], tables["drops"]
        self.source_rows, self.state, self.sunk = tables["source_rows"], tables["state"], tables["sunk"]
        self.calls = tables["calls"]
        self.taken_ms: list[int | None] = []
        self.taken: list[int | None] = []
        self._write_topology()
        sources = [vertex for vertex in dataflow.vertices if isinstance(vertex, Source)]
        self.arrivals = {
            source.name: arrivals_by_instance(dataflow, source, readings[source.name]) for source in sources
        }
        self.times = {source.name: watermarked_columns(dataflow, source) for source in sources}
        self._calls = {name: Calls(self, n) for name, n in self.layout.nodes.items() if isinstance(n.vertex, AsyncMap)}
        (self._chances,) = tee(chances(self.draws("turns")), 1)
        self._running = [self]
        self._has_stalls = any(isinstance(fault, Stall) for fault in dataflow.faults)
        self._never = never_happening(dataflow.faults)
        self._waiting: list[Any] = []
        self._snapshots = count(1)
        self._last_snapshot: Saved | None = None
        self._stopped = self._restart_due = self._terminal_due = False
        self.execution = 0
        self._begin_execution(None)

    def run(self) -> dict[str, pa.Table]:
        """Run to the end of the dataflow, or until it is complete or has failed. Returns what happened.

        Raises `FunctionError` when a function of a user's own raises an error: that is a mistake of its author.
        """
        self.begin()
        self.advance(self.end_ms)
        self._note_what_never_came()
        return self.tables()

    def begin(self) -> None:
        """The first execution begins."""
        self._plan_events()
        self._begin_instances()

    def advance(self, until_ms: int) -> None:
        """Go on up to a moment, exclusive, or until the dataflow is complete or has failed."""
        self._running[0] = self
        env, until_ms = self.env, min(until_ms, self.end_ms)
        try:
            while not self._stopped and (at_ms := env.peek()) < until_ms:
                self.now_ms = int(at_ms)
                env.step()
        except FunctionError:
            raise
        except WmlabError as problem:
            self._end_execution("failed", problem.problem)
            self.note("failure", self.dataflow.name, problem.problem)
            self._stopped = True

    def copy(self) -> Job:
        """A job in the same state, which goes on by itself; both write into the same tables.

        A function of a user's own that remembers something is not copied.
        """
        shared = [
            *(self.dataflow, self.deviations, self.plan, self.layout, self.arrivals, self.times, self._running),
            *(self._tables, self.taken_ms, self.taken, *self._tables.values()),
            *(*self.layout.nodes.values(), *self.layout.channels, *self.layout.edges, *chain(*self.times.values())),
            *(read.entries for read in chain(*self.arrivals.values())),
            # The numbers of snapshots and events go on together, and so keep their order.
            *(self._snapshots, self.env._eid),
        ]
        memo: dict[int, Any] = {id(value): value for value in shared}
        memo |= {id(draws): copy(draws) for draws in (self._chances, *(calls.delays for calls in self._calls.values()))}
        parts = [self, *self.instances.values(), *self.queues]
        memo |= {id(part): copy(part) for part in parts}
        for part in parts:
            for name in part.__slots__ if isinstance(part, Queue) else vars(part):
                setattr(memo[id(part)], name, deepcopy(getattr(part, name), memo))
        twin: Job = memo[id(self)]
        return twin

    def tables(self) -> dict[str, pa.Table]:
        """What has happened. Raises `ModelError` for a number that does not fit into its column."""
        nodes, edges = self.layout.nodes, self.layout.edges
        by_queue = [nodes[channel.edge.source].output.columns for channel in self.layout.channels]
        into = {(edge.target, edge.number): nodes[edge.source].output.columns for edge in edges}
        texts = Texts()

        def first_input(row: JobRow) -> Sequence[str]:
            """The columns of the rows that came on the first input of the vertex of a table's row."""
            return into[row[1], 0]

        columns_of: dict[str, Callable[[JobRow], Sequence[str]]] = {
            "items": lambda row: by_queue[row[1]],
            "source_rows": lambda row: nodes[row[1]].output.columns,
            "drops": lambda row: into[row[1], row[4]],
            "calls": first_input,
            "sunk": first_input,
        }
        made = {}
        for name, table in self._tables.items():
            apart: dict[str, Sequence[Any]] = {}
            if name in columns_of:
                apart["row"] = texts.of(columns_of[name], table.rows)
            if name == "items":
                apart |= {"taken_ms": self.taken_ms, "taken": self.taken}
            made[name] = table.table(**apart)
        return made

    def wake(self, instance: Instance) -> None:
        """An instance has something to do; it takes a turn soon."""
        if instance.due or instance.execution != self.execution:
            return
        instance.due = True
        delay_ms = next(self._chances) * self.dataflow.jitter_ms
        if delay_ms:
            self.after(delay_ms, self._is_due, instance, True)
        else:
            self._is_due(instance)

    def wake_at(self, instance: Instance, at_ms: int) -> None:
        """An instance has something to do at a time; of several times the earliest counts."""
        earlier_ms = self._asleep.get(instance)
        if earlier_ms is not None and self.now_ms < earlier_ms <= at_ms:
            return
        self._asleep[instance] = at_ms
        self.after(max(0, at_ms - self.env.now), self._rise, instance, at_ms)

    def _rise(self, instance: Instance, at_ms: int) -> None:
        if self._asleep.get(instance) == at_ms:
            del self._asleep[instance]
            self.wake(instance)

    def later(self, delay_ms: float, act: Callable[..., None], *args: Any) -> None:
        """Call `act` after a time, unless a restart or the end comes before."""
        self.after(delay_ms, self._unless_over, self.execution, act, *args)

    def _unless_over(self, execution: int, act: Callable[..., None], *args: Any) -> None:
        if execution == self.execution:
            act(*args)

    def note(self, kind: str, target: str, detail: str) -> None:
        """Write down a fault, or what one has led to."""
        self._tables["incidents"].add(self.now_ms, kind, target, detail)

    def call(self, instance: ProcessorInstance, call: Call) -> None:
        """Begin a call of an instance of an asynchronous vertex."""
        self._calls[instance.node.name].make(instance, call)

    def is_hit(self, kind: type[Stall | SwallowAll], vertex: str, instance: int | None = None) -> bool:
        """Whether a fault of that kind happens to a vertex, or to this instance of it, now."""
        faults = (fault for fault in self.dataflow.faults if isinstance(fault, kind) and fault.vertex == vertex)
        return any(getattr(fault, "instance", None) in {None, instance} and self.in_force(fault) for fault in faults)

    def in_force(self, fault: AnyFault) -> bool:
        """Whether now is the time of a fault; without `for_ms` it lasts to the end."""
        after_ms = self.now_ms - self.dataflow.start_ms
        for_ms = getattr(fault, "for_ms", None)
        return fault.at_ms <= after_ms and (for_ms is None or after_ms < fault.at_ms + for_ms)

    def begin_postponed_snapshot(self) -> None:
        """Begin the snapshot that waits for instances that read an input to its end, if there is one and they have.

        While an instance reads an input to its end before it looks at others, no barrier could come over all inputs.
        Source: upstream class `SnapshotContext` (higher priority vertices).
        """
        if self.postponed is None or any(instance.reads_first for instance in self.instances.values()):
            return
        barrier = self.barrier = self.postponed
        self.postponed = None
        self._states: dict[str, Any] = {}
        self._sunk_rows: dict[str, int] = {}
        begun = self.execution, barrier.snapshot
        self._saved_rows = {
            instance.name: self._tables["snapshots"].add(
                *begun, instance.node.name, instance.number, self.now_ms, None, None, None, None
            )
            for instance in self.instances.values()
        }
        for instance in self.instances.values():
            instance.begin_snapshot(barrier)

    def saved(
        self, instance: Instance, barrier: Barrier, state: Any, *, size: int, rows_read: int | None = None
    ) -> None:
        """The state of an instance; with the last of them the snapshot is complete. `rows_read` is of a source."""
        if barrier != self.barrier:
            return
        self._states[instance.name] = state
        self._sunk_rows[instance.name] = len(instance.sunk)
        snapshots = self._tables["snapshots"]
        snapshots.set(self._saved_rows[instance.name], saved_ms=self.now_ms, size=size, rows_read=rows_read)
        if len(self._states) < len(self.instances):
            return
        self.barrier = None
        for row in self._saved_rows.values():
            snapshots.set(row, completed_ms=self.now_ms)
        self._last_snapshot = Saved(barrier.snapshot, self._states, self._sunk_rows)
        if barrier.terminal:
            self._restart_due = True
        elif self._terminal_due:
            self.later(0, self._snapshot_and_restart)

    def ended(self) -> None:
        """An instance has sent its end; with the last of them the dataflow is complete."""
        if all(instance.finished for instance in self.instances.values()):
            self._end_execution("completed")
            self._stopped = True

    def _begin_execution(self, snapshot: Saved | None) -> None:
        """Make the queues and instances of the next execution, which begins from `snapshot` if there is one."""
        self.execution += 1
        self._snapshot = snapshot
        self.barrier = None
        self.postponed = None
        self._due: list[Instance] = []
        self._dispatching = False
        self._asleep: dict[Instance, int] = {}
        number = None if snapshot is None else snapshot.number
        executions = self._tables["executions"]
        self._execution_row = executions.add(self.execution, self.now_ms, None, number, "running", "")
        self.queues = [Queue(channel, self.dataflow.queue_size) for channel in self.layout.channels]
        self.instances = {
            (name, number): self._instance(node, number)
            for name, node in self.layout.nodes.items()
            for number in range(node.parallelism)
        }
        for queue in self.queues:
            queue.producer = self.instances[queue.channel.edge.source, queue.channel.source_instance]
            consumer = self.instances[queue.channel.edge.target, queue.channel.target_instance]
            assert isinstance(consumer, ProcessorInstance)
            queue.consumer = consumer

    def _instance(self, node: Node, number: int) -> Instance:
        others = [other for other in range(node.parallelism) if other != number]
        states = {} if self._snapshot is None else self._snapshot.states
        snapshots = [states[node.instance(n)] for n in (number, *others)] if states else []
        if node.kind == "source":
            arrivals, times = self.arrivals[node.name][number], self.times[node.name]
            return SourceInstance(self, node, number, arrivals=arrivals, times=times, snapshots=snapshots)
        # Of copies of a job the one asks that runs.
        running = self._running
        processor = processor_of(self.dataflow, self.plan, node, lambda: not running[0].is_hit(SwallowAll, node.name))
        return ProcessorInstance(self, node, number, processor, snapshots)

    def _begin_instances(self) -> None:
        for instance in self.instances.values():
            instance.begin()

    def _end_execution(self, outcome: str, reason: str = "") -> None:
        executions = self._tables["executions"]
        executions.set(self._execution_row, ended_ms=self.now_ms, outcome=outcome, reason=reason)

    def _is_due(self, instance: Instance, alone: bool = False) -> None:
        """An instance takes its turn at this moment; at once if it is `alone` and nothing else happens then."""
        if instance.execution != self.execution:
            return
        self._due.append(instance)
        if not self._dispatching:
            self._dispatching = True
            if alone and self.env.peek() > self.env.now:
                self._dispatch()
            else:
                self.later(0, self._dispatch)

    def _dispatch(self) -> None:
        """All instances that are due now take their turns, one by one; what becomes due by that takes part."""
        while self._due and not self._stopped:
            instance = self._due.pop(int(next(self._chances) * len(self._due)) if len(self._due) > 1 else 0)
            instance.due = False
            if not self._has_stalls or not self.is_hit(Stall, instance.node.name, instance.number):
                instance.turn()
            if self._restart_due and not self._stopped:
                self._restart()
        self._dispatching = False

    def _plan_events(self) -> None:
        """Everything that happens at a time that is known beforehand."""
        every_ms = self.dataflow.snapshot_every_ms
        if every_ms is not None:
            self.after(every_ms, self._snapshot_regularly, every_ms)
        for number, fault in enumerate(self.dataflow.faults):
            if number in self._never:
                continue
            if isinstance(fault, Restart):
                self.after(fault.at_ms, self._snapshot_and_restart if fault.after_snapshot else self._restart)
                continue
            self.after(fault.at_ms, self._note_fault, fault)
            self._waiting.append(fault)
            if isinstance(fault, Stall) and fault.for_ms is not None:
                self.after(fault.at_ms + fault.for_ms, self._wake_all)

    def _note_fault(self, fault: Any) -> None:
        details = [
            f"{field.removesuffix('_ms').replace('_', ' ')} {value}{' ms' if field.endswith('_ms') else ''}"
            for field in ("partition", "instance", "by_ms", "first", "for_ms")
            if (value := getattr(fault, field, None)) is not None
        ]
        self._waiting.remove(fault)
        self.note(fault.kind.replace("_", " "), _target(fault), ", ".join(details))

    def _note_what_never_came(self) -> None:
        """Write down, at the end of the run, what was not read, and faults that waited for what never came."""
        for name, calls in self._calls.items():
            for fault in calls.failing:
                at = moment(self.start_ms + fault.at_ms)
                self.note(NEVER_HAPPENED, name, f"fail call: no call that could fail was made from {at} on")
        for number, (why, at_ms) in self._never.items():
            never: Any = self.dataflow.faults[number]
            what = f"{never.kind.replace('_', ' ')} {never.partition} at {moment(self.start_ms + never.at_ms)}"
            self.note(NEVER_HAPPENED, never.source, f"{what}: {why.format(moment(self.start_ms + at_ms))}")
        for fault in [fault for fault in self._waiting if not isinstance(fault, FailCall)]:
            what = f"{fault.kind.replace('_', ' ')} at {moment(self.start_ms + fault.at_ms)}"
            self.note(NEVER_HAPPENED, _target(fault), f"{what}: {_ENDED_BEFORE}")
        restarts = sum(isinstance(fault, Restart) for fault in self.dataflow.faults)
        for name in [] if self._stopped else self.arrivals:
            self._note_unread(name)
        missing = restarts - (self.execution - 1)
        if missing > 0:
            self.note(NEVER_HAPPENED, self.dataflow.name, f"{counted(missing, 'restart')}: {_ENDED_BEFORE}")

    def _note_unread(self, source: str) -> None:
        """Write down how many rows had arrived that a source has not read, if there are any."""
        read = [instance for instance in self.instances.values() if instance.node.name == source]
        unread = sum(each.unread(self.end_ms) for each in read if isinstance(each, SourceInstance))
        if unread:
            self.note("not read", source, f"{counted(unread, 'row')} that had arrived")

    def _wake_all(self) -> None:
        for instance in self.instances.values():
            self.wake(instance)

    def _begin_snapshot(self, *, terminal: bool) -> None:
        """Send barriers; the snapshot is complete when every instance has saved its state."""
        self.postponed = Barrier(next(self._snapshots), terminal)
        self.begin_postponed_snapshot()

    @property
    def _snapshot_under_way(self) -> bool:
        """Whether a snapshot was begun, or will be, and is not complete."""
        return self.barrier is not None or self.postponed is not None

    def _snapshot_regularly(self, every_ms: int) -> None:
        if not self._snapshot_under_way:
            self._begin_snapshot(terminal=False)
        self.after(every_ms, self._snapshot_regularly, every_ms)

    def _snapshot_and_restart(self) -> None:
        self._terminal_due = self._snapshot_under_way
        if not self._terminal_due:
            self._begin_snapshot(terminal=True)

    def _restart(self) -> None:
        """Begin again from the last complete snapshot."""
        self._restart_due = False
        if self.dataflow.guarantee == "exactly_once":
            self._roll_back()
        self._end_execution("restarted")
        snapshot = self._last_snapshot
        self.note(
            "restart", self.dataflow.name, "from the start" if snapshot is None else f"from snapshot {snapshot.number}"
        )
        self._begin_execution(snapshot)
        self._begin_instances()

    def _roll_back(self) -> None:
        """Rows that sinks put out behind the last complete snapshot are not committed."""
        snapshot = self._last_snapshot
        sunk = {} if snapshot is None or snapshot is self._snapshot else snapshot.sunk
        for instance in self.instances.values():
            for row in instance.sunk[sunk.get(instance.name, 0) :]:
                self.sunk.set(row, committed=False)

    def _write_topology(self) -> None:
        for node in self.layout.nodes.values():
            output = Output() if node.kind == "sink" else node.output
            grid = node.vertex.step_ms if isinstance(node.vertex, Window) and self.dataflow.rules.bounds_only else None
            columns = node.parallelism, output.columns, output.keys
            self._tables["vertices"].add(node.name, node.kind, *columns, node.vertex.detail, grid)
        for channel in self.layout.channels:
            edge = channel.edge
            instances = edge.source, channel.source_instance, edge.target, channel.target_instance
            about = edge.number, channel.index, edge.priority, edge.words, self.dataflow.queue_size
            keys = self.layout.nodes[edge.source].output.keys
            self._tables["queues"].add(channel.number, *instances, *about, keys)


def _target(fault: Any) -> str:
    """The source or the vertex that a fault happens to."""
    return str(fault.source if hasattr(fault, "source") else fault.vertex)
