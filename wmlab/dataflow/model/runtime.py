"""One processor instance at work: its edges are drained, merged with each other, and handed to the processor.

A round does these in order, each until nothing of it is left: the events of the batch; the callback for an edge that
has ended; the watermarks of that edge, one callback each; the watermarks merged over all edges, one callback each, and
idle messages among them; then a snapshot, if its barrier has come on every edge; then the completion, if all edges
have ended; then the next edge is drained. A callback that the processor refuses is offered again first of all in the
next round. Every watermark that gets through both levels of merging so comes twice: per edge and globally.

Source: "Keyed watermark support", Processor API; upstream class `ProcessorTasklet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.edge import EdgeStream, Guarantee
from wmlab.dataflow.model.items import Barrier, Item
from wmlab.dataflow.model.keyed import Keyed
from wmlab.dataflow.model.processor import Answer, Processor
from wmlab.dataflow.model.rounds import Round
from wmlab.dataflow.model.turn import Phase, RuntimeState, Turn

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class InputEdge:
    """An input of an instance: the number of queues, one per producing instance, and its priority.

    Edges of a lower priority number are drained to their end before the others are looked at. Source: as the module.
    """

    queues: int
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[S]):
    """What drives one processor instance; `name` is how failures call it. It holds no state: `start()` gives one.

        runtime = Runtime(edges=(InputEdge(2), InputEdge(1)), processor=processor)
        state = runtime.start()
        state = runtime.push(state, edge=0, queue=1, items=[Event((1,)), Watermark(0, 5)])
        turn = runtime.step(state)          # what left is in turn.out; go on with turn.state

    Source: as the module.
    """

    processor: Processor[S]
    edges: tuple[InputEdge, ...] = ()
    guarantee: Guarantee = "at_least_once"
    deviations: Deviations = DESIGN
    name: str = "processor"

    def start(self, snapshots: Sequence[S] | None = None) -> RuntimeState[S]:
        """Before anything came; after a restart from the `snapshots` of all instances of the vertex.

        Raises `ModelError` for an edge without queues. Source: as the module.
        """
        for number, edge in enumerate(self.edges):
            if edge.queues < 1:
                raise ModelError(
                    f"{self.name}: input edge {number} has {edge.queues} queues",
                    remedy="Give every edge one queue per producing instance.",
                )
        priorities = sorted({edge.priority for edge in self.edges})
        return RuntimeState(
            processor=self.processor.start() if snapshots is None else self.processor.restore(snapshots),
            edges=tuple(EdgeStream.start(edge.queues, self.guarantee) for edge in self.edges),
            keyed=Keyed.start(len(self.edges)),
            groups=tuple(
                tuple(n for n, edge in enumerate(self.edges) if edge.priority == priority) for priority in priorities
            ),
            waiting=self.guarantee == "exactly_once",
            phase=Phase.WORKING if self.edges else Phase.COMPLETING,
        )

    def push(self, state: RuntimeState[S], *, edge: int, queue: int, items: Iterable[Item]) -> RuntimeState[S]:
        """The state with `items` at the end of a queue. Raises `ModelError` for a queue that is not there or has ended.

        Source: as the module.
        """
        if not 0 <= edge < len(state.edges):
            raise ModelError(
                f"{self.name}: there is no input edge {edge}, only {len(state.edges)} of them",
                remedy="Count edges from 0.",
            )
        pushed = state.edges[edge].push(queue, items)
        return state.with_edges((*state.edges[:edge], pushed, *state.edges[edge + 1 :]))

    def step(self, state: RuntimeState[S], *, room: int | None = None, rows: int | None = None) -> Turn[S]:
        """One round: what is pending is offered to the processor, then one batch is drained and offered.

        `room` is how many items the outputs can take (None: any number): the processor is not called while as many
        have left in this round, so that a step with no room does nothing. One call may still leave more than that,
        which the caller has to keep until there is room. `rows` is how many events are offered at most in this round.

        Raises `JobFailedError` when a rule is broken, by an input or by what the processor emits; the state that was
        given stays as it is. Source: as the module.
        """
        return Round(self, state, room=room, rows=rows).run()

    def answer(self, state: RuntimeState[S], answer: Answer) -> Turn[S]:
        """The result of an asynchronous call, which the processor gets at once. Raises as `step` does.

        Source: as the module.
        """
        return Round(self, state).answer(answer)

    def snapshot(self, state: RuntimeState[S], barrier: Barrier) -> RuntimeState[S]:
        """The state of an instance that is to take a snapshot by itself, because no barrier can reach it any more.

        That is one without inputs, or one whose inputs have all ended while it completes; the next rounds take the
        snapshot as soon as the processor admits one. Source: as the module.
        """
        if state.groups:
            raise ModelError(
                f"{self.name}: barrier {barrier.snapshot} has to come over the inputs, which have not ended",
                remedy="Push the barrier into every queue.",
            )
        return replace(state, barrier=barrier)
