"""One processor instance at work: its edges are drained, merged with each other, and handed to the processor.

A round does these in order, each until nothing of it is left: the events of the batch; the callback for an edge that
has ended; the watermarks of that edge, one callback each; the watermarks merged over all edges, one callback each, and
idle messages among them; then a snapshot, if its barrier has come on every edge; then the completion, if all edges
have ended; then the next edge is drained. A callback that the processor refuses is offered again first of all in the
next round. Every watermark that gets through both levels of merging so arrives twice: per edge and globally.

States and turns are values; the turn holds everything that a simulation has to carry out or to write down.

Source: "Keyed watermark support", Processor API and Coalescing of WMs with different keys; upstream class
`ProcessorTasklet`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Generic, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model import coalescer
from wmlab.dataflow.model.coalescer import EdgeStream, Inputs, KeyedCoalescer, Merge, Taken
from wmlab.dataflow.model.items import DONE, MIN, Barrier, Event, Idle, Item, Watermark
from wmlab.dataflow.model.processor import (
    DESIGN,
    Answer,
    Call,
    Complete,
    Deviations,
    Drop,
    EdgeDone,
    EdgeWatermark,
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
    FINISHED = "finished"
    """The end was sent."""
    STOPPED = "stopped"
    """A terminal snapshot was taken."""


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[S]):
    """Effect: the processor's state at the barrier, as `Processor.restore` takes it."""

    barrier: Barrier
    processor: S


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskletState(Generic[S]):
    """One processor instance between two rounds.

    `edges` are the input edges with what lies on their queues, `inputs` merges the edges, `groups` are the edges that
    have not ended by ascending priority; only the first group is drained, from its first edge on, and an edge that was
    drained goes to its end. `pending` is what the processor has not accepted yet, in the order in which it is offered.
    `forwarded` has the last watermark per key that left.
    """

    processor: S
    edges: tuple[EdgeStream, ...]
    inputs: Inputs
    groups: tuple[tuple[int, ...], ...]
    pending: tuple[Stimulus, ...] = ()
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


@contextmanager
def _at(name: str) -> Iterator[None]:
    """Errors have the vertex or edge where they come up in front."""
    try:
        yield
    except JobFailedError as error:
        raise JobFailedError(error.reason, f"{name}: {error.problem}", remedy=error.remedy) from None
    except ModelError as error:
        raise ModelError(f"{name}: {error.problem}", remedy=error.remedy) from None


class _Round(Generic[S]):
    """A state while a round changes it: `state` has the inputs, the other parts of it are on their own."""

    def __init__(
        self, tasklet: Tasklet[S], state: TaskletState[S], *, room: int | None = None, rows: int | None = None
    ) -> None:
        self.tasklet, self.deviations = tasklet, tasklet.deviations
        self.before = self.state = state
        self.room, self.rows = room, rows
        self.processor, self.phase = state.processor, state.phase
        self.pending = deque(state.pending)
        self.forwarded = dict(state.forwarded)
        self.progress = False
        self.out: list[Item] = []
        self.taken: list[Taken] = []
        self.drops: list[Drop] = []
        self.calls: list[Call] = []
        self.merges: list[Merge] = []
        self.snapshot: Snapshot[S] | None = None

    def turn(self, act: Callable[[], object]) -> Turn[S]:
        """What the round does by `act`."""
        with _at(self.tasklet.name):
            act()
        if not self.progress:
            return Turn(state=self.before)
        return Turn(
            state=replace(
                self.state,
                processor=self.processor,
                pending=tuple(self.pending),
                forwarded=tuple(self.forwarded.items()),
                phase=self.phase,
            ),
            progress=True,
            snapshot=self.snapshot,
            **{name: tuple(getattr(self, name)) for name in ("out", "taken", "drops", "calls", "merges")},
        )

    def run(self) -> None:
        """Offer what is pending, then take one batch and offer it."""
        if self.phase is not Phase.WORKING:
            return
        drained = False
        while self._offer_pending():
            barrier = self.state.inputs.complete(tuple(chain(*self.state.groups)))
            if barrier is not None:
                if not self._take_snapshot(barrier):
                    return
            elif not self.state.groups:
                if self._has_room() and self.offer(Complete()):
                    self._emit((DONE,))
                    self.phase = Phase.FINISHED
                return
            elif drained or not self._has_room() or not self._fill():
                return
            drained = drained or barrier is None

    def _has_room(self) -> bool:
        return self.room is None or len(self.out) < self.room

    def _offer_pending(self) -> bool:
        """Offer all that is pending, in order; false if something of it is left."""
        while self.pending:
            stimulus, left_before = self.pending[0], len(self.out)
            is_row = isinstance(stimulus, Row)
            if not self._has_room() or (is_row and self.rows == 0):
                return False
            if isinstance(stimulus, Idle) and self.deviations.idle_overtakes:
                self.progress = True
                self._emit((stimulus,))
            elif not self.offer(stimulus):
                return False
            if isinstance(stimulus, Row):
                self.rows = self.rows and self.rows - 1
                if not stimulus.retry and self._is_offered_again(left_before):
                    self.pending[0] = replace(stimulus, retry=True)
                    continue
            self.pending.popleft()
        return True

    def _is_offered_again(self, left_before: int) -> bool:
        """Whether a row comes again, because what it left did not go out in one go."""
        if self.room is None or len(self.out) <= max(self.room, left_before):
            return False
        return self.deviations.retry_counts_as_row and self.tasklet.processor.counts_retries

    def offer(self, stimulus: Stimulus) -> bool:
        """Hand a stimulus to the processor; false if it was refused."""
        reply = self.tasklet.processor.step(self.processor, stimulus)
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
        """Drain the edges of the first group in turn until one gives something; false if none does."""
        state = self.state
        for edge in state.groups[0]:
            if state.inputs.blocks(edge):
                continue
            with _at(f"queues of input edge {edge}"):
                drained = coalescer.drain(state.edges[edge], self.deviations)
            if drained.progress is not coalescer.Progress.NO_PROGRESS:
                self._take(edge, drained)
                return True
        return False

    def _take(self, edge: int, drained: coalescer.Drained) -> None:
        """What one drain brought becomes pending: rows, the end of the edge, its watermarks, and merged ones."""
        self.progress = True
        self.taken += drained.taken
        self.merges += drained.merges
        state, items = self.state, drained.out
        ended = drained.progress is coalescer.Progress.DONE
        rows = [Row(edge, item) for item in items if isinstance(item, Event)]
        watermarks = [EdgeWatermark(edge, item) for item in items if isinstance(item, Watermark)]
        # Of the events one is enough to wake the edge.
        came = (*(items[-1:] if rows else items), *([DONE] if ended else ()))
        with _at("input edges"):
            inputs, merges = state.inputs.take(edge, came, self.deviations)
        self.merges += merges
        merged = [item for merge in merges for item in merge.emitted]
        first, *others = state.groups
        place = first.index(edge)
        first = first[place + 1 :] + first[:place] + (() if ended else (edge,))
        groups = (first, *others) if first else tuple(others)
        if not groups and self.deviations.last_watermark_lost:
            watermarks, merged = [], []
        self.state = replace(
            state,
            edges=(*state.edges[:edge], drained.edge, *state.edges[edge + 1 :]),
            inputs=inputs,
            groups=groups,
        )
        done = [EdgeDone(edge)] if ended and drained.edge.ended else []
        self.pending = deque([*rows, *done, *watermarks, *merged])

    def _take_snapshot(self, barrier: Barrier) -> bool:
        if not self._has_room() or not self.tasklet.processor.may_snapshot(self.processor):
            return False
        self.progress = True
        self.snapshot = Snapshot(barrier, self.processor)
        self._emit((barrier,))
        self.state = replace(self.state, inputs=self.state.inputs.passed())
        if barrier.terminal:
            self.phase = Phase.STOPPED
        return not barrier.terminal


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
    guarantee: coalescer.Guarantee = "at_least_once"
    deviations: Deviations = DESIGN
    name: str = "processor"

    def start(self, snapshots: Sequence[S] | None = None) -> TaskletState[S]:
        """Before anything came; after a restart from the `snapshots` of all instances of the vertex."""
        priorities = sorted({edge.priority for edge in self.edges})
        return TaskletState(
            processor=self.processor.restore(snapshots) if snapshots else self.processor.start(),
            edges=tuple(EdgeStream.start(edge.queues, self.guarantee, n) for n, edge in enumerate(self.edges)),
            inputs=Inputs(KeyedCoalescer(len(self.edges)), self.guarantee == "exactly_once"),
            groups=tuple(
                tuple(n for n, edge in enumerate(self.edges) if edge.priority == priority) for priority in priorities
            ),
        )

    def push(self, state: TaskletState[S], *, edge: int, queue: int, items: Iterable[Item]) -> TaskletState[S]:
        """The state with `items` at the end of a queue that has not ended."""
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
        work = _Round(self, state, room=room, rows=rows)
        return work.turn(work.run)

    def answer(self, state: TaskletState[S], answer: Answer) -> Turn[S]:
        """The result of an asynchronous call, which the processor gets at once. Raises as `step` does."""
        work = _Round(self, state)
        return work.turn(lambda: work.offer(answer))

    def snapshot(self, state: TaskletState[S], barrier: Barrier) -> TaskletState[S]:
        """The state of an instance that is to take a snapshot by itself, because no barrier can reach it any more.

        That is one without inputs, or one whose inputs have all ended while it completes; the next rounds take the
        snapshot as soon as the processor admits one.
        """
        return replace(state, inputs=replace(state.inputs, barrier=barrier))
