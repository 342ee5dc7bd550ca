"""The inputs of an instance: coalesced, aligned at barriers, and drained batch by batch.

Watermarks are coalesced twice: over the queues of each input edge, and then over the edges. Barriers are aligned on
the same two levels. `AlignedInputs` is one such level, `InputEdge` an edge with its queues.

A drain looks at every queue of the edge once. It takes the events at the head of a queue and the special item behind
them (a watermark, an idle message, a barrier, the end). What it gives is either events or special items: special items
that come with events are set aside until the next drain.

Source: "Keyed watermark support", Coalescing of WMs with different keys; upstream classes
`ConcurrentInboundEdgeStream`, `ProgressState`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.coalescer import NOTHING, EmittedItems, KeyedCoalescer
from wmlab.dataflow.model.items import Barrier, Event, Item
from wmlab.dataflow.model.processor import DESIGN, Deviations, JobFailedError

Guarantee = Literal["none", "at_least_once", "exactly_once"]
"""How often an item counts after a restart; only with `exactly_once` does a queue wait behind its barrier."""


def located(name: str, error: ModelError) -> ModelError:
    """The error with the name of where it came up, a vertex or an edge, in front."""
    problem = f"{name}: {error.problem}"
    if isinstance(error, JobFailedError):
        return JobFailedError(error.reason, problem, remedy=error.remedy)
    return ModelError(problem, remedy=error.remedy)


@dataclass(frozen=True, slots=True)
class CoalescingStep:
    """Effect: one step of coalescing. What came on input `index` was `item`, `emitted` what that let through.

    The inputs are the queues of edge `edge`, or with None the edges of the instance. `idle` and `done` are the inputs
    that are idle and that have ended after the step. An event is listed if it ended an idleness.
    """

    edge: int | None
    index: int
    item: Item
    emitted: EmittedItems
    idle: frozenset[int]
    done: frozenset[int]


class AlignedInputs:
    """Inputs that are coalesced and aligned at barriers: the queues of edge `edge`, or with None the edges.

    `received` are the inputs that have brought the `barrier` under way; if it `waits`, they are left alone until all
    inputs that have not ended have brought it. Barriers are of one snapshot, until `pass_barrier`.
    """

    __slots__ = ("barrier", "coalescer", "edge", "received", "waits")

    def __init__(self, inputs: int, *, edge: int | None, guarantee: Guarantee, deviations: Deviations) -> None:
        self.coalescer = KeyedCoalescer(inputs, deviations)
        self.edge = edge
        self.waits = guarantee == "exactly_once"
        self.barrier: Barrier | None = None
        self.received: set[int] = set()

    @property
    def ended(self) -> bool:
        """Whether every input has ended."""
        return len(self.coalescer.done) == self.coalescer.inputs

    @property
    def aligned(self) -> Barrier | None:
        """The barrier if it has come on all inputs that have not ended."""
        if self.barrier is None or len(self.received | self.coalescer.done) < self.coalescer.inputs:
            return None
        return self.barrier

    def blocks(self, index: int) -> bool:
        """Whether an input is left alone, because it has brought the barrier."""
        return self.waits and index in self.received

    def pass_barrier(self) -> None:
        """The barrier was passed on."""
        self.barrier = None
        self.received.clear()

    def take(self, index: int, items: Iterable[Item]) -> list[CoalescingStep]:
        """These items came on an input; returns the steps of coalescing. Raises `JobFailedError` as coalescing does."""
        try:
            return [step for item in items if (step := self._take_item(index, item)) is not None]
        except ModelError as error:
            inputs = "input edges" if self.edge is None else f"queues of input edge {self.edge}"
            raise located(inputs, error) from None

    def _take_item(self, index: int, item: Item) -> CoalescingStep | None:
        coalescer = self.coalescer
        if isinstance(item, Barrier):
            # The end comes right behind a terminal barrier, and must not move the watermark before the snapshot.
            self.waits = self.waits or item.terminal
            self.barrier = item
            self.received.add(index)
            return None
        if not isinstance(item, Event):
            emitted = coalescer.step(index, item)
        elif coalescer.wake(index):
            emitted = NOTHING
        else:
            return None
        return CoalescingStep(self.edge, index, item, emitted, frozenset(coalescer.idle), frozenset(coalescer.done))


class DrainProgress(StrEnum):
    """What a drain achieved. Source: upstream class `ProgressState`."""

    MADE_PROGRESS = "made progress"
    NO_PROGRESS = "no progress"
    DONE = "done"
    """This drain gave the last there is."""
    WAS_ALREADY_DONE = "was already done"


@dataclass(frozen=True, slots=True)
class Taken:
    """Effect: the first `count` items of queue `queue` of input edge `edge` were taken."""

    edge: int
    queue: int
    count: int


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain gave: either events or special items in `out`; `taken` counts the items that leave each queue."""

    progress: DrainProgress
    out: tuple[Item, ...] = ()
    taken: tuple[Taken, ...] = ()
    steps: tuple[CoalescingStep, ...] = field(default=(), repr=False)


class InputEdge:
    """Input edge `number` of an instance, with its `queues`, one from each producing instance.

    A queue is looked at and not changed: whoever owns it removes what a drain has `taken`, before the next drain.
    `set_aside` are the special items that came behind the events of the last drain.
    """

    __slots__ = ("deviations", "inputs", "number", "queues", "set_aside")

    def __init__(
        self,
        queues: Sequence[Iterable[Item]],
        *,
        number: int = 0,
        guarantee: Guarantee = "at_least_once",
        deviations: Deviations = DESIGN,
    ) -> None:
        self.queues = queues
        self.number = number
        self.deviations = deviations
        self.inputs = AlignedInputs(len(queues), edge=number, guarantee=guarantee, deviations=deviations)
        self.set_aside: tuple[Item, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether nothing can come any more."""
        return not self.set_aside and self.inputs.ended

    def drain(self) -> Drained:
        """One drain of all queues; raises `JobFailedError` when coalescing does, and the edge is of no use then."""
        if self.set_aside:
            out, self.set_aside = self.set_aside, ()
            last = self.inputs.ended and not self.deviations.last_watermark_lost
            return Drained(DrainProgress.DONE if last else DrainProgress.MADE_PROGRESS, out)
        events: list[Item] = []
        specials: list[Item] = []
        taken: list[Taken] = []
        steps: list[CoalescingStep] = []
        for index, queue in enumerate(self.queues):
            if self.inputs.blocks(index):
                continue
            batch, special = _batch(queue)
            if not batch and special is None:
                continue
            events += batch
            taken.append(Taken(self.number, index, len(batch) + (special is not None)))
            of_queue = self.inputs.take(index, self._coalesced(batch, special))
            steps += of_queue
            specials += (item for step in of_queue for item in step.emitted)
            if special is not None and not self.inputs.ended and (barrier := self.inputs.aligned):
                specials.append(barrier)
                self.inputs.pass_barrier()
                break
        if not taken:
            return Drained(DrainProgress.WAS_ALREADY_DONE if self.inputs.ended else DrainProgress.NO_PROGRESS)
        self.set_aside = tuple(specials) if events else ()
        finished = self.inputs.ended if self.deviations.last_watermark_lost else self.ended
        progress = DrainProgress.DONE if finished else DrainProgress.MADE_PROGRESS
        return Drained(progress, tuple(events or specials), tuple(taken), tuple(steps))

    def _coalesced(self, batch: Sequence[Item], special: Item | None) -> list[Item]:
        """What of a batch is coalesced: the special item, and one event, which is enough to end an idleness."""
        items = [*batch[-1:], *([] if special is None else [special])]
        return items[::-1] if self.deviations.event_after_special else items


def _batch(queue: Iterable[Item]) -> tuple[list[Item], Item | None]:
    """The events at the head of a queue, and the special item behind them."""
    events: list[Item] = []
    for item in queue:
        if type(item) is not Event:
            return events, item
        events.append(item)
    return events, None
