"""A task that runs an instance of a processor: its queues, its calls, and what it writes down.

Source: "Keyed watermark support", Processor API and Changes to async-transform processor; upstream classes
`ProcessorTasklet`, `AsyncTransformUsingServiceP`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from wmlab.core.simulation import delays_ms
from wmlab.dataflow.model.inputs import CoalescingStep
from wmlab.dataflow.model.instance import Instance, Phase, Poll
from wmlab.dataflow.model.items import Barrier, Event, Item
from wmlab.dataflow.model.processor import Call, CallAnswer
from wmlab.dataflow.scenario.faults import FailCall, SlowCalls, SwallowAll
from wmlab.dataflow.sim.layout import Node
from wmlab.dataflow.sim.rules import processor_of, row_function
from wmlab.dataflow.sim.task import NodeTask, described

if TYPE_CHECKING:
    from wmlab.dataflow.sim.world import DataflowWorld, Execution


class Calls:
    """All calls of one asynchronous vertex."""

    def __init__(self, world: DataflowWorld, node: Node) -> None:
        self._world = world
        dataflow = world.dataflow
        self._results = row_function(node.vertex, world.plan.incoming(node.name)[0], node.output)
        self._delays = delays_ms(node.vertex.latency, world.draws(f"calls of {node.name}"))
        own = [fault for fault in dataflow.faults if getattr(fault, "vertex", None) == node.name]
        # What a fault adds to each call that it slows down, to the first ones only where it says so.
        self._slow = [(f, islice(repeat(f.by_ms), f.first)) for f in own if isinstance(f, SlowCalls)]
        self.failing = [fault for fault in own if isinstance(fault, FailCall)]

    def make(self, task: ProcessorTask, call: Call, row: str) -> None:
        """Begin a call; its answer comes later."""
        world = self._world
        written = task.write("calls", call=call.number, began_ms=world.now_ms, outcome="in flight", row=row)
        failing = [fault for fault in self.failing if world.in_force(fault)]
        for fault in failing:
            self.failing.remove(fault)
            world.note("call fails", task.name, f"call {call.number}")
        delay_ms = next(self._delays) + sum(next(more, 0) for fault, more in self._slow if world.in_force(fault))
        results = None if failing else self._results(call.event.values)

        def end() -> None:
            written.update(ended_ms=world.now_ms, outcome="failed" if failing else "answered")
            task.answer(call.number, results)

        world.later(delay_ms, end)


class ProcessorTask(NodeTask):
    """Polls `instance` and carries out what it did; `snapshots` are as `Instance` takes them."""

    def __init__(self, execution: Execution, node: Node, number: int, snapshots: Sequence[Any]) -> None:
        super().__init__(execution, node, number)
        world, dataflow = self.world, self.world.dataflow
        edges = [edge for edge in world.layout.edges if edge.target == node.name]
        own = [queue for queue in execution.queues if queue.channel.target_instance == number]
        self.queues = [[queue for queue in own if queue.channel.edge is edge] for edge in edges]
        self.instance: Instance[Any] = Instance(
            processor_of(dataflow, world.plan, node, lambda: not world.is_hit(SwallowAll, node.name)),
            self.queues,
            priorities=[edge.priority for edge in edges],
            guarantee=dataflow.guarantee,
            deviations=dataflow.deviations_on,
            name=self.name,
            snapshots=snapshots,
        )
        self.barrier: Barrier | None = None
        self._sources = [world.layout.nodes[edge.source] for edge in edges]
        self._taken = 0
        self._taken_by_last = 0
        self._sizes: dict[str, int] = {}

    @property
    def reads_first(self) -> bool:
        """Whether it reads an input to its end before it looks at others."""
        return self.instance.reads_first

    def begin(self) -> None:
        """Make the calls again that were in flight at a snapshot, and look what there is to do."""
        self._note_size()
        self._call(self.instance.processor.outstanding(self.instance.state))
        super().begin()

    def poll(self) -> None:
        """Poll the instance once, and carry out what it did."""
        self.blocked = False
        if not self.flush() or self.finished:
            return
        room = self.room
        self.blocked = room == 0
        turn_ms = self.node.vertex.turn_ms
        poll = self.instance.poll(room=room, rows=1 if turn_ms else None)
        if poll.progress:
            self._carry_out(poll)
            self.world.wake(self, after_ms=turn_ms)

    def answer(self, call: int, results: tuple[tuple[Any, ...], ...] | None) -> None:
        """A call returned; None: it failed."""
        self._carry_out(self.instance.answer(CallAnswer(call, results)))
        self.world.wake(self)

    def begin_snapshot(self, barrier: Barrier) -> None:
        """The barrier comes over the inputs, unless they have all ended."""
        self.barrier = barrier
        self._snapshot_alone()

    def _snapshot_alone(self) -> None:
        inputs = self.instance.inputs
        if self.barrier is None or not inputs.ended or inputs.barrier is not None:
            return
        if self.finished:
            self._save(self.barrier, self.instance.state)
        else:
            self.instance.begin_snapshot(self.barrier)
            self.world.wake(self)

    def _save(self, barrier: Barrier, state: Any) -> None:
        self.barrier = None
        self.execution.saved(self, barrier, state, size=self.instance.processor.size(state))

    def _carry_out(self, poll: Poll[Any]) -> None:
        now_ms = self.world.now_ms
        # Queue of an edge to how many items this instance has taken then, and whether the last of them was a row.
        ends: dict[int, tuple[int, bool]] = {}
        for taken in poll.taken:
            queue = self.queues[taken.edge][taken.queue]
            last = queue.take(taken.count, self._taken, now_ms)
            self._taken += taken.count
            ends[taken.queue] = self._taken, isinstance(last, Event)
            if queue.producer.blocked:
                self.world.wake(queue.producer)
        for step in poll.steps:
            self._note_step(step, ends)
        for drop in poll.drops:
            known = {name: getattr(drop, name) for name in ("edge", "rule", "key", "time", "limit")}
            row = self._sources[drop.edge].text(drop.event.values)
            self.write("drops", margin=drop.limit - drop.time, row=row, **known)
        self._call(poll.calls)
        self._put_out(poll.out)
        if poll.snapshot is not None:
            self._save(poll.snapshot.barrier, poll.snapshot.state)
        self._note_size()
        if self.instance.phase is Phase.FINISHED and not self.finished:
            self.finished = True
            self.execution.ended()
        self._snapshot_alone()
        self.execution.begin_postponed_snapshot()

    def _put_out(self, items: Sequence[Item]) -> None:
        if self.node.kind != "sink":
            self.send(items)
            return
        for item in items:
            if isinstance(item, Event):
                time, row = self._sources[0].time(item.values), self._sources[0].text(item.values)
                self.sunk.append(self.write("sunk", sequence=len(self.sunk), time=time, committed=True, row=row))

    def _call(self, calls: Sequence[Call]) -> None:
        for call in calls:
            self.world.calls[self.node.name].make(self, call, self._sources[0].text(call.event.values))

    def _note_step(self, step: CoalescingStep, ends: Mapping[int, tuple[int, bool]]) -> None:
        """Write down a step of coalescing, caused by the last row or the special item that was taken from a queue."""
        if step.edge is None:
            level, inputs = "global", len(self.queues)
        else:
            level, inputs = "edge", len(self.queues[step.edge])
            end, is_row = ends[step.index]
            self._taken_by_last = end - (isinstance(step.item, Event) and not is_row)
        kind, key, value = described(step.item)
        self.write_step(
            step.emitted,
            taken=self._taken_by_last,
            level=level,
            edge=step.edge,
            input=step.index,
            stimulus=kind,
            key=key,
            value=value,
            **_lists(inputs, step.idle, step.done),
        )

    def _note_size(self) -> None:
        """Write down how much the processor holds, if that has changed."""
        sizes = self.instance.processor.sizes(self.instance.state)
        if sizes != self._sizes:
            for buffer, size in sizes.items():
                if size != self._sizes.get(buffer, 0):
                    self.write("state", buffer=buffer, size=size)
            self._sizes = sizes


@cache
def _lists(inputs: int, idle: frozenset[int], done: frozenset[int]) -> dict[str, list[int]]:
    """The inputs that are active, idle and done; they change far less often than watermarks do."""
    active = sorted(frozenset(range(inputs)) - idle - done)
    return {"active": active, "idle": sorted(idle - done), "done": sorted(done)}
