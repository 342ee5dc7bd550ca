"""One processor instance at work: its input edges are drained, coalesced, and handed to the processor.

A poll does these in order, each until nothing of it is left: the events of the batch; the callback for an edge that
has ended; the watermarks of that edge, one callback each; the watermarks coalesced over all edges, one callback each,
and idle messages among them; then a snapshot, if its barrier has come on every edge; then the completion, if all edges
have ended; then the next edge is drained. A callback that the processor refuses is offered again first of all in the
next poll. Every watermark that gets through both levels of coalescing so arrives twice: per edge and globally.

An instance changes in place. What a poll has to have carried out or written down is in the `Poll` that it returns.

Source: "Keyed watermark support", Processor API and Coalescing of WMs with different keys; upstream class
`ProcessorTasklet`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.inputs import (
    AlignedInputs,
    CoalescingStep,
    Drained,
    DrainProgress,
    Guarantee,
    InputEdge,
    Taken,
    located,
)
from wmlab.dataflow.model.items import DONE, MIN, Barrier, Event, Idle, Item, Watermark
from wmlab.dataflow.model.processor import (
    DESIGN,
    Call,
    CallAnswer,
    Complete,
    Deviations,
    Drop,
    EdgeDone,
    EdgeRow,
    EdgeWatermark,
    JobFailedError,
    Processor,
    ProcessorState,
    Reason,
    Stimulus,
)


class Phase(StrEnum):
    """What an instance is doing."""

    WORKING = "working"
    FINISHED = "finished"
    """The end was sent."""
    STOPPED = "stopped"
    """A terminal snapshot was taken."""


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[ProcessorState]):
    """Effect: the processor's state at the barrier, as `Processor.restore` takes it."""

    barrier: Barrier
    state: ProcessorState


@dataclass(slots=True, kw_only=True)
class Poll(Generic[ProcessorState]):
    """What a poll did, to be carried out in this order.

    `taken`: items leave their queues; `steps`: what the two levels of coalescing did, in the order in which they did
    it; `drops` and `calls` of the processor; `out`: items leave the instance, in this order; then the `snapshot`.
    `progress` is false if nothing could be done; then the same poll does nothing again until an item comes on a queue,
    an answer comes or there is more room. `room` and `rows` limit what is done, see `Instance.poll`.
    """

    room: int | None = None
    rows: int | None = None
    progress: bool = False
    taken: list[Taken] = field(default_factory=list)
    steps: list[CoalescingStep] = field(default_factory=list, repr=False)
    drops: list[Drop] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    out: list[Item] = field(default_factory=list)
    snapshot: Snapshot[ProcessorState] | None = None

    @property
    def has_room(self) -> bool:
        """Whether the processor can be called."""
        return self.room is None or len(self.out) < self.room


class Instance(Generic[ProcessorState]):
    """One processor instance with its input edges; `name` is how failures call it.

    `queues` are those of each edge. Edges of a lower priority number are drained to their end before the others are
    looked at; an edge that was drained is the last of its priority next. The state is the first one, or after a restart
    from the `snapshots` of all instances of the vertex, its own first.

        queues = [[deque(), deque()], [deque()]]
        instance = Instance(processor, queues)
        queues[0][1] += [Event((1,)), Watermark(0, 5)]
        poll = instance.poll()      # what left is in poll.out; remove from the queues what is in poll.taken

    `inputs` coalesces the edges. `pending` is what the processor has not accepted yet, in the order in which it is
    offered. `forwarded` has the last watermark per key that left.
    """

    def __init__(
        self,
        processor: Processor[ProcessorState],
        queues: Sequence[Sequence[Iterable[Item]]] = (),
        *,
        priorities: Sequence[int] | None = None,
        guarantee: Guarantee = "at_least_once",
        deviations: Deviations = DESIGN,
        name: str = "processor",
        snapshots: Sequence[ProcessorState] = (),
    ) -> None:
        self.processor = processor
        self.state = processor.restore(snapshots) if snapshots else processor.start()
        self.deviations = deviations
        self.name = name
        self.edges = [
            InputEdge(of_edge, number=number, guarantee=guarantee, deviations=deviations)
            for number, of_edge in enumerate(queues)
        ]
        self.inputs = AlignedInputs(len(queues), edge=None, guarantee=guarantee, deviations=deviations)
        self.pending: deque[Stimulus] = deque()
        self.forwarded: dict[int, int] = {}
        self.phase = Phase.WORKING
        self._by_priority: dict[int, deque[InputEdge]] = {}
        both = zip(priorities or [0] * len(self.edges), self.edges, strict=True)
        for priority, edge in sorted(both, key=lambda entry: entry[0]):
            self._by_priority.setdefault(priority, deque()).append(edge)

    @property
    def reads_first(self) -> bool:
        """Whether edges of a lower priority number have not ended, so that others are not looked at."""
        return len(self._by_priority) > 1

    def poll(self, *, room: int | None = None, rows: int | None = None) -> Poll[ProcessorState]:
        """One poll: what is pending is offered to the processor, then one batch is drained and offered.

        `room` is how many items the outputs can take (None: any number): the processor is not called while as many
        have left in this poll, so that a poll with no room does nothing. One call may still leave more than that,
        which the caller has to keep until there is room. `rows` is how many events are offered at most in this poll.

        Raises `JobFailedError` when a rule is broken, by an input or by what the processor emits; the instance is of no
        use then.
        """
        poll: Poll[ProcessorState] = Poll(room=room, rows=rows)
        try:
            self._work(poll)
        except ModelError as error:
            raise located(self.name, error) from None
        return poll

    def answer(self, answer: CallAnswer) -> Poll[ProcessorState]:
        """The result of an asynchronous call, which the processor gets at once. Raises as `poll` does."""
        poll: Poll[ProcessorState] = Poll()
        try:
            self._offer(poll, answer)
        except ModelError as error:
            raise located(self.name, error) from None
        return poll

    def begin_snapshot(self, barrier: Barrier) -> None:
        """The instance is to take a snapshot by itself, because no barrier can reach it any more.

        That is one without inputs, or one whose inputs have all ended while it completes; the next polls take the
        snapshot as soon as the processor admits one.
        """
        self.inputs.barrier = barrier

    def _work(self, poll: Poll[ProcessorState]) -> None:
        """Offer what is pending, then take one batch and offer it."""
        if self.phase is not Phase.WORKING:
            return
        drained = False
        while self._offer_pending(poll):
            if (barrier := self.inputs.aligned) is not None:
                if not self._take_snapshot(poll, barrier):
                    return
            elif self.inputs.ended:
                self._complete(poll)
                return
            elif drained or not poll.has_room or not self._drain(poll):
                return
            else:
                drained = True

    def _offer_pending(self, poll: Poll[ProcessorState]) -> bool:
        """Offer all that is pending, in order; false if something of it is left."""
        while self.pending:
            stimulus, left_before = self.pending[0], len(poll.out)
            is_row = isinstance(stimulus, EdgeRow)
            if not poll.has_room or (is_row and poll.rows == 0):
                return False
            if isinstance(stimulus, Idle) and self.deviations.idle_overtakes:
                poll.progress = True
                self._emit(poll, (stimulus,))
            elif not self._offer(poll, stimulus):
                return False
            if isinstance(stimulus, EdgeRow):
                poll.rows = poll.rows and poll.rows - 1
                if not stimulus.retry and self._is_offered_again(poll, left_before):
                    self.pending[0] = replace(stimulus, retry=True)
                    continue
            self.pending.popleft()
        return True

    def _is_offered_again(self, poll: Poll[ProcessorState], left_before: int) -> bool:
        """Whether a row comes again, because what it left did not go out in one go."""
        if poll.room is None or len(poll.out) <= max(poll.room, left_before):
            return False
        return self.deviations.retry_counts_as_row and self.processor.counts_retries

    def _offer(self, poll: Poll[ProcessorState], stimulus: Stimulus) -> bool:
        """Hand a stimulus to the processor; false if it was refused."""
        reply = self.processor.step(self.state, stimulus)
        if reply.accepted or reply.out or reply.calls or reply.state != self.state:
            poll.progress = True
        self.state = reply.state
        poll.drops += reply.drops
        poll.calls += reply.calls
        self._emit(poll, reply.out)
        return reply.accepted

    def _emit(self, poll: Poll[ProcessorState], items: Sequence[Item]) -> None:
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
        poll.out += items

    def _drain(self, poll: Poll[ProcessorState]) -> bool:
        """Drain the edges of the first priority in turn until one gives something; false if none does."""
        priority, edges = next(iter(self._by_priority.items()))
        for index, edge in enumerate(edges):
            if self.inputs.blocks(edge.number):
                continue
            drained = edge.drain()
            if drained.progress is DrainProgress.NO_PROGRESS:
                continue
            edges.rotate(-index - 1)
            if drained.progress is DrainProgress.DONE:
                edges.pop()
                if not edges:
                    del self._by_priority[priority]
            self._coalesce(poll, edge, drained)
            return True
        return False

    def _coalesce(self, poll: Poll[ProcessorState], edge: InputEdge, drained: Drained) -> None:
        """What a drain gave becomes pending: rows, the end of the edge, its watermarks, and those of all edges."""
        poll.progress = True
        rows = [EdgeRow(edge.number, item) for item in drained.out if isinstance(item, Event)]
        watermarks = [EdgeWatermark(edge.number, item) for item in drained.out if isinstance(item, Watermark)]
        ended = drained.progress is DrainProgress.DONE
        # Of the events one is enough to end the idleness of the edge.
        steps = self.inputs.take(
            edge.number, [*(drained.out[-1:] if rows else drained.out), *([DONE] if ended else [])]
        )
        poll.taken += drained.taken
        poll.steps += drained.steps
        poll.steps += steps
        coalesced = [item for step in steps for item in step.emitted]
        if self.inputs.ended and self.deviations.last_watermark_lost:
            watermarks, coalesced = [], []
        self.pending += rows
        if ended and edge.ended:
            self.pending.append(EdgeDone(edge.number))
        self.pending += watermarks
        self.pending += coalesced

    def _complete(self, poll: Poll[ProcessorState]) -> None:
        """All inputs have ended: the processor completes, and the end is sent when it has."""
        if poll.has_room and self._offer(poll, Complete()):
            self._emit(poll, (DONE,))
            self.phase = Phase.FINISHED

    def _take_snapshot(self, poll: Poll[ProcessorState], barrier: Barrier) -> bool:
        """Take a snapshot if there is room and the processor admits it; false if that is all for this poll."""
        if not poll.has_room or not self.processor.may_snapshot(self.state):
            return False
        poll.progress = True
        poll.snapshot = Snapshot(barrier, self.state)
        self._emit(poll, (barrier,))
        self.inputs.pass_barrier()
        if barrier.terminal:
            self.phase = Phase.STOPPED
        return not barrier.terminal
