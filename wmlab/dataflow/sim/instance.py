"""An instance of a processor in motion: its queues, the runtime that drives it, its calls, and its size.

Source: "Keyed watermark support", Processor API; upstream class `ProcessorTasklet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wmlab.core.journal import Row
from wmlab.dataflow.model.items import Barrier, Event, Item
from wmlab.dataflow.model.processor import Answer, Call
from wmlab.dataflow.model.tasklet import Phase, Tasklet, Turn
from wmlab.dataflow.sim.layout import Node
from wmlab.dataflow.sim.ledger import Written
from wmlab.dataflow.sim.notes import Notes
from wmlab.dataflow.sim.party import Execution, Party
from wmlab.dataflow.sim.queue import Queue

_ONE: Final = 1


class Instance(Party):
    """One processor instance; `snapshots` are those of all instances of its vertex after a restart, its own first."""

    def __init__(
        self,
        execution: Execution,
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
        self._rows = _ONE if node.vertex.turn_ms else None

    def begin(self) -> None:
        """Make the calls again that were in flight at a snapshot, and look what there is to do."""
        self._note_size()
        outstanding = getattr(self.runtime.processor, "outstanding", None)
        if outstanding is not None:
            self._call(outstanding(self.state.processor))
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
        if self.barrier is None or self.state.groups or self.state.barrier is not None:
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
