"""An instance of a processor: its queues, the tasklet that drives it, its calls, and the rows it writes down.

Source: "Keyed watermark support", Processor API and Changes to async-transform processor; upstream classes
`ProcessorTasklet`, `AsyncTransformUsingServiceP`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wmlab.core.delays import delays_ms
from wmlab.core.journal import Row
from wmlab.dataflow.model.coalescer import Keyed, Merge
from wmlab.dataflow.model.items import Barrier, Event, Item
from wmlab.dataflow.model.join import JoinState
from wmlab.dataflow.model.processor import Answer, Call, Drop
from wmlab.dataflow.model.tasklet import Phase, Tasklet, Turn
from wmlab.dataflow.scenario.faults import FailCall, SlowCalls
from wmlab.dataflow.sim.layout import Node
from wmlab.dataflow.sim.party import Party, Queue, Written, described, emitted
from wmlab.dataflow.sim.processors import rows_of

if TYPE_CHECKING:
    from wmlab.dataflow.sim.world import DataflowWorld, Running

Numbers = Mapping[int, int]
"""Queue of an edge to the number of items that its instance had taken, the one that matters included."""
_Lists = tuple[list[int], list[int], list[int]]


class Notes:
    """The notes of one instance; `read` has how the rows of each input edge are written."""

    def __init__(self, party: Party, read: Sequence[Written]) -> None:
        self._party = party
        self._read = read
        self._steps = 0
        self._taken = 0
        self._sizes: dict[str, int] = {}
        self._inputs: dict[int | None, tuple[frozenset[int], frozenset[int], _Lists]] = {}

    def merge(self, merge: Merge, events: Numbers, specials: Numbers) -> None:
        """A step of merging, caused by the last row or by the special item that was taken from a queue."""
        edge = merge.edge if merge.level == "edge" else None
        if edge is not None:
            self._taken = (events if isinstance(merge.item, Event) else specials)[merge.place]
        kind, key, value = described(merge.item)
        active, idle, done = self._lists(edge, merge.after)
        self._party.write(
            "coalescing",
            step=self._steps,
            at_ms=self._party.world.now_ms,
            taken=self._taken,
            level=merge.level,
            edge=edge,
            input=merge.place,
            stimulus=kind,
            key=key,
            value=value,
            active=active,
            idle=idle,
            done=done,
            **emitted(merge.emitted),
        )
        self._steps += 1

    def _lists(self, edge: int | None, after: Keyed) -> _Lists:
        """The inputs that count, are idle, and have ended; they change far less often than watermarks do."""
        known = self._inputs.get(edge)
        if known is None or known[0] != after.idle or known[1] != after.done:
            lists = (sorted(after.active), sorted(after.idle - after.done), sorted(after.done))
            known = self._inputs[edge] = (after.idle, after.done, lists)
        return known[2]

    def drop(self, drop: Drop) -> None:
        """A row that was left out."""
        self._party.write(
            "drops",
            at_ms=self._party.world.now_ms,
            edge=drop.edge,
            rule=drop.rule,
            key=drop.key,
            time=drop.time,
            limit=drop.limit,
            margin=drop.margin,
            row=self._read[drop.edge].text(drop.event.values),
        )

    def size(self, size: int, state: Any) -> None:
        """How much the processor holds, if that has changed; a join tells it by side too."""
        sizes = {"all": size}
        if isinstance(state, JoinState):
            sizes |= {"left": len(state.buffers[0]), "right": len(state.buffers[1])}
        if sizes == self._sizes:
            return
        for buffer, now in sizes.items():
            if now != self._sizes.get(buffer, 0):
                self._party.write("state", at_ms=self._party.world.now_ms, buffer=buffer, size=now)
        self._sizes = sizes


class Calls:
    """All calls of one asynchronous vertex."""

    def __init__(self, world: DataflowWorld, node: Node) -> None:
        self._world = world
        dataflow = world.dataflow
        given = world.plan.outputs[world.plan.inputs[node.name][0].source]
        self._results = rows_of(node.vertex, given, node.output)
        self._delays = delays_ms(node.vertex.latency, world.draws(f"calls of {node.name}"))
        mine = [fault for fault in dataflow.faults if getattr(fault, "vertex", None) == node.name]
        self._slow = [fault for fault in mine if isinstance(fault, SlowCalls)]
        self._slowed = dict.fromkeys(range(len(self._slow)), 0)
        self._failing = [fault for fault in mine if isinstance(fault, FailCall)]

    def make(self, instance: Instance, call: Call, row: str) -> None:
        """Begin a call; its answer comes later."""
        world = self._world
        written = instance.write(
            "calls", call=call.number, began_ms=world.now_ms, ended_ms=None, outcome="in flight", row=row
        )
        fails = self._fails(instance, call)
        delay_ms = next(self._delays) + self._extra_ms()
        results = None if fails else self._results(call.event.values)

        def end() -> None:
            outcome = "failed" if fails else "answered"
            written.update(ended_ms=world.now_ms, outcome=outcome)
            instance.answer(call.number, results)

        world.later(delay_ms, end)

    def _fails(self, instance: Instance, call: Call) -> bool:
        after_ms = self._world.now_ms - self._world.dataflow.start_ms
        due = [fault for fault in self._failing if fault.at_ms <= after_ms]
        for fault in due:
            self._failing.remove(fault)
            self._world.note("call fails", instance.name, f"call {call.number}")
        return bool(due)

    def _extra_ms(self) -> int:
        extra = 0
        after_ms = self._world.now_ms - self._world.dataflow.start_ms
        for number, fault in enumerate(self._slow):
            inside = fault.at_ms <= after_ms and (fault.for_ms is None or after_ms < fault.at_ms + fault.for_ms)
            if inside and (fault.first is None or self._slowed[number] < fault.first):
                self._slowed[number] += 1
                extra += fault.by_ms
        return extra


class Instance(Party):
    """One processor instance; `snapshots` are those of all instances of its vertex after a restart, its own first."""

    def __init__(
        self,
        execution: Running,
        node: Node,
        number: int,
        runtime: Tasklet[Any],
        inputs: Sequence[Queue],
        snapshots: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(execution, node, number)
        self.runtime = runtime
        self.state = runtime.start(snapshots)
        self.inputs = {(queue.lane.link.edge, queue.lane.place): queue for queue in inputs}
        self.sunk: list[Row] = []
        self.barrier: Barrier | None = None
        self._read = [queue.written for queue in inputs if queue.lane.place == 0]
        self._taken = 0
        self._notes = Notes(self, self._read)
        self._is_sink = node.kind == "sink"
        self._sink_rows = self._read[0] if self._is_sink else Written(node.output)
        self._rows = 1 if node.vertex.turn_ms else None

    def begin(self) -> None:
        """Make the calls again that were in flight at a snapshot, and look what there is to do."""
        self._note_size()
        self._call(self.runtime.processor.outstanding(self.state.processor))
        super().begin()

    def turn(self) -> None:
        """Hand over what came, and run one round."""
        self.blocked = False
        if not self.flush() or self.finished:
            return
        for (edge, place), queue in self.inputs.items():
            if queue.fresh:
                self.state = self.runtime.push(self.state, edge=edge, queue=place, items=queue.handed_over())
        room = self.room
        self.blocked = room == 0
        done = self.runtime.step(self.state, room=room, rows=self._rows)
        if done.progress:
            self._carry_out(done)
            self.world.wake(self, after_ms=self.node.vertex.turn_ms)

    def answer(self, call: int, results: tuple[tuple[Any, ...], ...] | None) -> None:
        """A call returned; None: it failed."""
        self._carry_out(self.runtime.answer(self.state, Answer(call, results)))
        self.world.wake(self)

    def begin_snapshot(self, barrier: Barrier) -> None:
        """The barrier comes over the inputs, unless they have all ended."""
        self.barrier = barrier
        self._snapshot_alone()

    def _snapshot_alone(self) -> None:
        if self.barrier is None or self.state.groups or self.state.alignment.barrier is not None:
            return
        if self.finished:
            self._save(self.barrier, self.state.processor)
        elif self.state.phase is Phase.COMPLETING:
            self.state = self.runtime.snapshot(self.state, self.barrier)
            self.world.wake(self)

    def _save(self, barrier: Barrier, state: Any) -> None:
        self.barrier = None
        self.execution.saved(self, barrier, state, self.runtime.processor.size(state))

    def _carry_out(self, done: Turn[Any]) -> None:
        self.state = done.state
        now_ms = self.world.now_ms
        events: dict[int, int] = {}
        specials: dict[int, int] = {}
        for taken in done.taken:
            queue = self.inputs[taken.edge, taken.queue]
            last = queue.take(taken.count, self._taken, now_ms)
            self._taken += taken.count
            if last == "event":
                events[taken.queue] = self._taken
            else:
                events[taken.queue], specials[taken.queue] = self._taken - 1, self._taken
            if queue.producer is not None and queue.producer.blocked:
                self.world.wake(queue.producer)
        for merge in done.merges:
            self._notes.merge(merge, events, specials)
        for drop in done.drops:
            self._notes.drop(drop)
        self._call(done.calls)
        self._leave(done.out)
        if done.snapshot is not None:
            self._save(done.snapshot.barrier, done.snapshot.processor)
        self._note_size()
        if done.state.phase is Phase.FINISHED and not self.finished:
            self.finished = True
            self.execution.ended(self)
        self._snapshot_alone()

    def _leave(self, items: Sequence[Item]) -> None:
        if not self._is_sink:
            self.send(items)
            return
        for item in items:
            if isinstance(item, Event):
                self.sunk.append(self._sink(item))

    def _sink(self, event: Event) -> Row:
        return self.write(
            "sunk",
            sequence=len(self.sunk),
            at_ms=self.world.now_ms,
            time=self._sink_rows.time(event.values),
            committed=True,
            row=self._sink_rows.text(event.values),
        )

    def _call(self, calls: Sequence[Call]) -> None:
        for call in calls:
            row = self._read[0].text(call.event.values)
            self.world.calls[self.node.name].make(self, call, row)

    def _note_size(self) -> None:
        state = self.state.processor
        self._notes.size(self.runtime.processor.size(state), state)
