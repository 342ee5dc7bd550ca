"""One processor instance at work: its edges are drained, merged with each other, and handed to the processor.

A round does these in order, each until nothing of it is left: the events of the batch; the callback for an edge that
has ended; the watermarks of that edge, one callback each; the watermarks merged over all edges, one callback each, and
idle messages among them; then a snapshot, if its barrier has come on every edge; then the completion, if all edges
have ended; then the next edge is drained. A callback that the processor refuses is offered again first of all in the
next round. Every watermark that gets through both levels of merging so arrives twice: per edge and globally.

States and turns are values: a state can be kept, compared and gone back to, and the turn holds everything that a
simulation has to carry out or to write down.

Source: "Keyed watermark support", Processor API and Coalescing of WMs with different keys; upstream class
`ProcessorTasklet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.coalescer import EdgeStream, Guarantee, Keyed, Merge, Progress, drain
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.items import DONE, IDLE, MIN, Barrier, Event, Idle, Item, Watermark
from wmlab.dataflow.model.processor import (
    Answer,
    Call,
    Complete,
    CountsRetries,
    Drop,
    EdgeDone,
    EdgeWatermark,
    GlobalWatermark,
    InputIdle,
    JobFailedError,
    Processor,
    Reason,
    Row,
    Stimulus,
)

S = TypeVar("S")


class Phase(StrEnum):
    """What an instance is doing."""

    WORKING = "working"
    COMPLETING = "completing"
    """All inputs have ended; the processor finishes what it holds."""
    FINISHED = "finished"
    """The end was sent."""
    STOPPED = "stopped"
    """A terminal snapshot was taken."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Effect: the first `count` items of queue `queue` of input edge `edge` were taken."""

    edge: int
    queue: int
    count: int


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[S]):
    """Effect: the processor's state at the barrier, as `Processor.restore` takes it."""

    barrier: Barrier
    processor: S


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskletState(Generic[S]):
    """One processor instance between two rounds.

    `edges` are the input edges with what lies on their queues, `keyed` merges the edges, `groups` are the edges that
    have not ended by ascending priority (only the first group is drained, from place `cursor` on). `inbox` are the
    events of edge `current` that the processor has not accepted yet, `retry` says that the first of them was offered
    before; `completing` is the edge whose end the processor has to be told; the callbacks wait behind both. `marked`
    are the edges whose `barrier` has come. `forwarded` has the last watermark per key that left.
    """

    processor: S
    edges: tuple[EdgeStream, ...]
    keyed: Keyed
    groups: tuple[tuple[int, ...], ...]
    cursor: int = 0
    current: int | None = None
    inbox: tuple[Event, ...] = ()
    retry: bool = False
    completing: int | None = None
    edge_callbacks: tuple[Watermark, ...] = ()
    global_callbacks: tuple[Watermark | Idle, ...] = ()
    waiting: bool = False
    marked: frozenset[int] = frozenset()
    barrier: Barrier | None = None
    forwarded: tuple[tuple[int, int], ...] = ()
    phase: Phase = Phase.WORKING


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Generic[S]):
    """What a round did: the new state, what leaves in this order, and what happened besides.

    `progress` is false if nothing could be done; then the same call does nothing again until an item is pushed, an
    answer comes or there is more room. `taken` says which items left which queue, `merges` which steps the two levels
    of coalescing made, in the order they were made.
    """

    state: TaskletState[S]
    progress: bool = False
    out: tuple[Item, ...] = ()
    taken: tuple[Taken, ...] = ()
    drops: tuple[Drop, ...] = ()
    calls: tuple[Call, ...] = ()
    merges: tuple[Merge, ...] = field(default=(), repr=False)
    snapshot: Snapshot[S] | None = None


@dataclass(slots=True)
class Batch:
    """What one drain of an edge brought: its events or its watermarks, and what the instance's merging let through.

    `ended`: the edge has ended, of which the processor has to be told.
    """

    edge: int
    events: tuple[Event, ...] = ()
    edge_watermarks: tuple[Watermark, ...] = ()
    merged: tuple[Watermark | Idle, ...] = ()
    ended: bool = False


@dataclass(slots=True)
class Intake:
    """The inputs of one state while they change; the fields are those of `TaskletState`."""

    edges: list[EdgeStream]
    keyed: Keyed
    groups: tuple[tuple[int, ...], ...]
    cursor: int
    waiting: bool
    marked: frozenset[int]
    barrier: Barrier | None
    deviations: Deviations
    taken: list[Taken] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)

    @classmethod
    def of(cls, state: TaskletState[Any], deviations: Deviations) -> Intake:
        """The inputs of a state."""
        return cls(
            list(state.edges),
            state.keyed,
            state.groups,
            state.cursor,
            state.waiting,
            state.marked,
            state.barrier,
            deviations,
        )

    @property
    def barrier_complete(self) -> bool:
        """Whether the barrier has come on every edge that has not ended."""
        return self.barrier is not None and all(self.marked.issuperset(group) for group in self.groups)

    def barrier_passed(self) -> None:
        """The snapshot was taken."""
        self.barrier, self.marked = None, frozenset()

    def fill(self) -> Batch | None:
        """Drain the edges of the first group in turn until one gives something; None if none does."""
        for _ in self.groups[0]:
            edge = self.groups[0][self.cursor]
            batch = None if self.waiting and edge in self.marked else self._drain(edge)
            if batch is not None:
                return batch
            self._advance()
        return None

    def _advance(self) -> None:
        self.cursor = (self.cursor + 1) % len(self.groups[0])

    def _drain(self, number: int) -> Batch | None:
        try:
            drained = drain(self.edges[number], self.deviations)
        except ModelError as error:
            raise at(f"queues of input edge {number}", error) from None
        if drained.progress is Progress.NO_PROGRESS:
            return None
        self.edges[number] = drained.edge
        self.taken += [Taken(number, queue, count) for queue, count in drained.taken]
        self.merges += [Merge("edge", number, m.queue, m.item, m.emitted, m.after) for m in drained.merges]
        batch = Batch(number)
        self._distribute(batch, drained.out)
        if drained.progress is Progress.DONE:
            self._end(batch)
        else:
            self._advance()
        return batch

    def _distribute(self, batch: Batch, items: tuple[Item, ...]) -> None:
        if items and isinstance(items[0], Event):
            batch.events = tuple(item for item in items if isinstance(item, Event))
            self._merge(batch, items[-1])
            return
        for item in items:
            if isinstance(item, Barrier):
                self._observe(batch.edge, item)
                continue
            if isinstance(item, Watermark):
                batch.edge_watermarks += (item,)
            self._merge(batch, item)

    def _merge(self, batch: Batch, item: Item) -> None:
        try:
            after, emitted = self.keyed.step(batch.edge, item, self.deviations)
        except JobFailedError as error:
            raise error.at("input edges") from None
        if after is not self.keyed:
            self.merges.append(Merge("global", batch.edge, batch.edge, item, emitted, after))
        self.keyed = after
        batch.merged += emitted

    def _observe(self, number: int, barrier: Barrier) -> None:
        if self.barrier is not None and self.barrier != barrier:
            raise ModelError(
                f"input edge {number} brings barrier {barrier.snapshot} while {self.barrier.snapshot} is under way",
                remedy="Begin a snapshot after the one before has ended.",
            )
        self.barrier = barrier
        self.marked |= {number}
        self.waiting = self.waiting or barrier.terminal

    def _end(self, batch: Batch) -> None:
        """The edge has ended, and with it perhaps its group or all of them."""
        self.marked -= {batch.edge}
        self._merge(batch, DONE)
        batch.ended = self.edges[batch.edge].ended
        group = tuple(edge for edge in self.groups[0] if edge != batch.edge)
        self.groups = (group, *self.groups[1:]) if group else self.groups[1:]
        self.cursor = self.cursor % len(group) if group else 0
        if not self.groups and self.deviations.last_watermark_lost:
            batch.edge_watermarks, batch.merged = (), ()


def at(place: str, error: ModelError) -> ModelError:
    """The same error with the place where it came up in front."""
    if isinstance(error, JobFailedError):
        return error.at(place)
    return ModelError(f"{place}: {error.problem}", remedy=error.remedy)


class Round(Generic[S]):
    """A state while a round changes it."""

    def __init__(
        self, runtime: Tasklet[S], state: TaskletState[S], *, room: int | None = None, rows: int | None = None
    ) -> None:
        self.runtime, self.deviations = runtime, runtime.deviations
        self.before = state
        self.room, self.rows = room, rows
        self.processor = state.processor
        self.intake = Intake.of(state, runtime.deviations)
        self.current, self.completing = state.current, state.completing
        self.inbox, self.retry = state.inbox, state.retry
        self.edge_callbacks, self.global_callbacks = state.edge_callbacks, state.global_callbacks
        self.forwarded = dict(state.forwarded)
        self.phase = state.phase
        self.progress = False
        self.out: list[Item] = []
        self.drops: list[Drop] = []
        self.calls: list[Call] = []
        self.snapshot: Snapshot[S] | None = None

    def run(self) -> Turn[S]:
        """Everything the round does."""
        try:
            self._go()
        except ModelError as error:
            raise at(self.runtime.name, error) from None
        return self._turn()

    def answer(self, answer: Answer) -> Turn[S]:
        """The processor gets the answer of a call."""
        try:
            self._offer(answer)
        except ModelError as error:
            raise at(self.runtime.name, error) from None
        return self._turn()

    def _turn(self) -> Turn[S]:
        if not self.progress:
            return Turn(state=self.before)
        intake = self.intake
        state = TaskletState(
            processor=self.processor,
            edges=tuple(intake.edges),
            keyed=intake.keyed,
            groups=intake.groups,
            cursor=intake.cursor,
            current=self.current,
            inbox=self.inbox,
            retry=self.retry,
            completing=self.completing,
            edge_callbacks=self.edge_callbacks,
            global_callbacks=self.global_callbacks,
            waiting=intake.waiting,
            marked=intake.marked,
            barrier=intake.barrier,
            forwarded=tuple(self.forwarded.items()),
            phase=self.phase,
        )
        return Turn(
            state=state,
            progress=True,
            out=tuple(self.out),
            taken=tuple(intake.taken),
            drops=tuple(self.drops),
            calls=tuple(self.calls),
            merges=tuple(intake.merges),
            snapshot=self.snapshot,
        )

    def _has_room(self) -> bool:
        return self.room is None or len(self.out) < self.room

    def _go(self) -> None:
        if self.phase in (Phase.FINISHED, Phase.STOPPED):
            return
        drained = False
        while self._pending_done():
            barrier = self.intake.barrier
            if barrier is not None and self.intake.barrier_complete:
                if not self._take_snapshot(barrier):
                    return
            elif not self.intake.groups:
                self._complete()
                return
            elif drained or not self._has_room():
                return
            else:
                drained = True
                if not self._fill():
                    return

    def _pending_done(self) -> bool:
        """Offer all that is pending, in order; false if something of it is left."""
        return self._rows() and self._edge_done() and self._edge_watermarks() and self._global_watermarks()

    def _rows(self) -> bool:
        while self.inbox and self.current is not None:
            if not self._has_room() or self.rows == 0:
                return False
            event, before = self.inbox[0], len(self.out)
            if not self._offer(Row(self.current, event, self.retry)):
                return False
            if self._fits(before) or self.retry:
                self.inbox, self.retry = self.inbox[1:], False
            else:
                self.retry = True
            self.rows = self.rows and self.rows - 1
        return True

    def _fits(self, before: int) -> bool:
        """Whether what a row left went out in one go; if not, it may have to be offered again."""
        if self.room is None or len(self.out) <= max(self.room, before):
            return True
        return not (self.deviations.retry_counts_as_row and isinstance(self.runtime.processor, CountsRetries))

    def _edge_done(self) -> bool:
        if self.completing is None:
            return True
        if not self._has_room() or not self._offer(EdgeDone(self.completing)):
            return False
        self.completing = None
        return True

    def _edge_watermarks(self) -> bool:
        while self.edge_callbacks and self.current is not None:
            if not self._has_room() or not self._offer(EdgeWatermark(self.current, self.edge_callbacks[0])):
                return False
            self.edge_callbacks = self.edge_callbacks[1:]
        return True

    def _global_watermarks(self) -> bool:
        while self.global_callbacks:
            first = self.global_callbacks[0]
            if not self._has_room():
                return False
            if isinstance(first, Watermark):
                taken = self._offer(GlobalWatermark(first))
            elif self.deviations.idle_overtakes:
                taken = self.progress = True
                self._emit((IDLE,))
            else:
                taken = self._offer(InputIdle())
            if not taken:
                return False
            self.global_callbacks = self.global_callbacks[1:]
        return True

    def _offer(self, stimulus: Stimulus) -> bool:
        """Hand a stimulus to the processor; false if it was refused."""
        reply = self.runtime.processor.step(self.processor, stimulus)
        if reply.accepted or reply.out or reply.calls or reply.state != self.processor:
            self.progress = True
        self.processor = reply.state
        self.drops += reply.drops
        self.calls += reply.calls
        self._emit(reply.out)
        return reply.accepted

    def _emit(self, items: tuple[Item, ...]) -> None:
        for item in items:
            if type(item) is Watermark:
                last = self.forwarded.get(item.key, MIN)
                if item.value <= last and not self.deviations.emission_unchecked:
                    raise JobFailedError(
                        Reason.NON_MONOTONIC,
                        f"watermark {item.value} of key {item.key} is emitted behind {last}",
                        remedy="Let the processor emit each watermark of a key above the one before.",
                    )
                self.forwarded[item.key] = item.value
        self.out += items

    def _fill(self) -> bool:
        """Take the next batch; false if there is none."""
        batch = self.intake.fill()
        if batch is None:
            return False
        self.progress = True
        self.current, self.inbox = batch.edge, batch.events
        self.edge_callbacks, self.global_callbacks = batch.edge_watermarks, batch.merged
        self.completing = batch.edge if batch.ended else None
        if not self.intake.groups:
            self.phase = Phase.COMPLETING
        return True

    def _take_snapshot(self, barrier: Barrier) -> bool:
        if not self._has_room() or not self.runtime.processor.may_snapshot(self.processor):
            return False
        self.progress = True
        self.snapshot = Snapshot(barrier, self.processor)
        self._emit((barrier,))
        self.intake.barrier_passed()
        if barrier.terminal:
            self.phase = Phase.STOPPED
        return not barrier.terminal

    def _complete(self) -> None:
        if self._has_room() and self._offer(Complete()):
            self._emit((DONE,))
            self.phase = Phase.FINISHED


@dataclass(frozen=True, slots=True)
class InputEdge:
    """An input of an instance: the number of queues, one per producing instance, and its priority.

    Edges of a lower priority number are drained to their end before the others are looked at.
    """

    queues: int
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasklet(Generic[S]):
    """What drives one processor instance; `name` is how failures call it. It holds no state: `start()` gives one.

    runtime = Tasklet(edges=(InputEdge(2), InputEdge(1)), processor=processor)
    state = runtime.start()
    state = runtime.push(state, edge=0, queue=1, items=[Event((1,)), Watermark(0, 5)])
    turn = runtime.step(state)          # what left is in turn.out; go on with turn.state
    """

    processor: Processor[S]
    edges: tuple[InputEdge, ...] = ()
    guarantee: Guarantee = "at_least_once"
    deviations: Deviations = DESIGN
    name: str = "processor"

    def start(self, snapshots: Sequence[S] | None = None) -> TaskletState[S]:
        """Before anything came; after a restart from the `snapshots` of all instances of the vertex.

        Raises `ModelError` for an edge without queues.
        """
        for number, edge in enumerate(self.edges):
            if edge.queues < 1:
                raise ModelError(
                    f"{self.name}: input edge {number} has {edge.queues} queues",
                    remedy="Give every edge one queue per producing instance.",
                )
        priorities = sorted({edge.priority for edge in self.edges})
        return TaskletState(
            processor=self.processor.start() if snapshots is None else self.processor.restore(snapshots),
            edges=tuple(EdgeStream.start(edge.queues, self.guarantee) for edge in self.edges),
            keyed=Keyed.start(len(self.edges)),
            groups=tuple(
                tuple(n for n, edge in enumerate(self.edges) if edge.priority == priority) for priority in priorities
            ),
            waiting=self.guarantee == "exactly_once",
            phase=Phase.WORKING if self.edges else Phase.COMPLETING,
        )

    def push(self, state: TaskletState[S], *, edge: int, queue: int, items: Iterable[Item]) -> TaskletState[S]:
        """The state with `items` at the end of a queue; `ModelError` for a queue that is not there or has ended."""
        if not 0 <= edge < len(state.edges):
            raise ModelError(
                f"{self.name}: there is no input edge {edge}, only {len(state.edges)} of them",
                remedy="Count edges from 0.",
            )
        pushed = state.edges[edge].push(queue, items)
        return replace(state, edges=(*state.edges[:edge], pushed, *state.edges[edge + 1 :]))

    def step(self, state: TaskletState[S], *, room: int | None = None, rows: int | None = None) -> Turn[S]:
        """One round: what is pending is offered to the processor, then one batch is drained and offered.

        `room` is how many items the outputs can take (None: any number): the processor is not called while as many
        have left in this round, so that a step with no room does nothing. One call may still leave more than that,
        which the caller has to keep until there is room. `rows` is how many events are offered at most in this round.

        Raises `JobFailedError` when a rule is broken, by an input or by what the processor emits; the state that was
        given stays as it is.
        """
        return Round(self, state, room=room, rows=rows).run()

    def answer(self, state: TaskletState[S], answer: Answer) -> Turn[S]:
        """The result of an asynchronous call, which the processor gets at once. Raises as `step` does."""
        return Round(self, state).answer(answer)

    def snapshot(self, state: TaskletState[S], barrier: Barrier) -> TaskletState[S]:
        """The state of an instance that is to take a snapshot by itself, because no barrier can reach it any more.

        That is one without inputs, or one whose inputs have all ended while it completes; the next rounds take the
        snapshot as soon as the processor admits one.
        """
        if state.groups:
            raise ModelError(
                f"{self.name}: barrier {barrier.snapshot} has to come over the inputs, which have not ended",
                remedy="Push the barrier into every queue.",
            )
        return replace(state, barrier=barrier)
