"""One input edge of an instance: several queues, one per producing instance, drained together.

A drain visits the queues in order and takes items until a queue is empty or a special one was taken: a watermark, an
idle message, a barrier or the end. Events leave at once, specials are merged over the queues and what that releases
is set aside. One drain gives either events or specials, never both; what was set aside is the next one.

A queue whose barrier has come is left alone until the barrier is there on all of them, if the snapshots are exactly
once or the barrier is terminal; otherwise what lies behind the barrier overtakes it.

Source: "Keyed watermark support", Description of current behavior; upstream class `ConcurrentInboundEdgeStream`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.dataflow.model import keyed
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.items import Barrier, Done, Event, Idle, Item, Watermark
from wmlab.dataflow.model.keyed import Emitted, Keyed

Guarantee = Literal["none", "at_least_once", "exactly_once"]
"""What snapshots promise; only `exactly_once` makes a queue wait behind its barrier."""
Special = Watermark | Idle | Barrier


class Progress(StrEnum):
    """What a drain achieved. Source: upstream class `ProgressState`."""

    MADE_PROGRESS = "made progress"
    NO_PROGRESS = "no progress"
    DONE = "done"
    """This drain gave the last there is."""
    WAS_ALREADY_DONE = "was already done"


@dataclass(frozen=True, slots=True)
class QueueMerge:
    """Effect: what one item of queue `queue` did to the watermarks of the edge. Source: as the module."""

    queue: int
    item: Item
    emitted: Emitted
    after: Keyed = field(repr=False)


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain gave: either events or specials in `out`; `taken` counts the items that left each queue.

    Source: as the module.
    """

    edge: EdgeStream
    progress: Progress
    out: tuple[Item, ...] = ()
    taken: tuple[tuple[int, int], ...] = ()
    merges: tuple[QueueMerge, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class EdgeStream:
    """The queues of one edge with what lies on them, None for one that has ended.

    `keyed` merges the queues; `marked` are those whose `barrier` has come, `waiting` whether these are left alone;
    `stash` is what was set aside. Source: as the module.
    """

    queues: tuple[tuple[Item, ...] | None, ...]
    keyed: Keyed
    waiting: bool = False
    marked: frozenset[int] = frozenset()
    barrier: Barrier | None = None
    stash: tuple[Special, ...] = ()

    @classmethod
    def start(cls, queues: int, guarantee: Guarantee = "at_least_once") -> EdgeStream:
        """An edge of empty queues. Source: as the module."""
        return cls(((),) * queues, Keyed.start(queues), guarantee == "exactly_once")

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many items lie on each queue; 0 for one that has ended. Source: as the module."""
        return tuple(len(queue or ()) for queue in self.queues)

    @property
    def exhausted(self) -> bool:
        """Whether every queue has ended; something may still be set aside. Source: as the module."""
        return self.queues.count(None) == len(self.queues)

    @property
    def ended(self) -> bool:
        """Whether nothing can come any more. Source: as the module."""
        return not self.stash and self.exhausted

    def push(self, queue: int, items: Iterable[Item]) -> EdgeStream:
        """The edge with `items` at the end of a queue. Raises `ModelError` for one that is not there or has ended.

        Source: as the module.
        """
        if not 0 <= queue < len(self.queues):
            raise ModelError(
                f"there is no queue {queue}, only {len(self.queues)} of them", remedy="Count queues from 0."
            )
        lying = self.queues[queue]
        if lying is None:
            raise ModelError(f"queue {queue} has ended", remedy="Push nothing behind the end.")
        queues = (*self.queues[:queue], (*lying, *items), *self.queues[queue + 1 :])
        return EdgeStream(queues, self.keyed, self.waiting, self.marked, self.barrier, self.stash)


def drain(edge: EdgeStream, deviations: Deviations = DESIGN) -> Drained:
    """One drain of all queues; raises `JobFailedError` when merging does. Source: as the module."""
    if edge.stash:
        after = replace(edge, stash=())
        last = after.ended and not deviations.last_watermark_lost
        return Drained(after, Progress.DONE if last else Progress.MADE_PROGRESS, edge.stash)
    if edge.exhausted:
        return Drained(edge, Progress.WAS_ALREADY_DONE)
    ready = [(n, lying) for n, lying in enumerate(edge.queues) if lying and not (edge.waiting and n in edge.marked)]
    if not ready:
        return Drained(edge, Progress.NO_PROGRESS)
    work = _Draining(edge, deviations)
    for queue, lying in ready:
        if work.take(queue, lying):
            break
    return work.drained()


class _Draining:
    """An edge while it is drained."""

    def __init__(self, edge: EdgeStream, deviations: Deviations) -> None:
        self.queues = list(edge.queues)
        self.keyed = edge.keyed
        self.waiting = edge.waiting
        self.marked = set(edge.marked)
        self.barrier = edge.barrier
        self.stash: list[Special] = []
        self.events: list[Event] = []
        self.taken: list[tuple[int, int]] = []
        self.merges: list[QueueMerge] = []
        self.deviations = deviations

    def take(self, queue: int, lying: tuple[Item, ...]) -> bool:
        """Take from one queue; returns whether a barrier is complete, which ends the drain."""
        count = next((n for n, item in enumerate(lying) if type(item) is not Event), len(lying))
        events: tuple[Event, ...] = lying[:count]  # type: ignore[assignment]
        special = lying[count] if count < len(lying) else None
        self.events += events
        self.queues[queue] = lying[count + (special is not None) :]
        self.taken.append((queue, count + (special is not None)))
        if events and not self.deviations.event_after_special:
            self._merge(queue, events[-1])
        if special is not None:
            self._interpret(queue, special)
        if events and self.deviations.event_after_special:
            self._merge(queue, events[-1])
        return special is not None and self._barrier_complete()

    def _interpret(self, queue: int, special: Item) -> None:
        if isinstance(special, Barrier):
            self._observe(queue, special)
            return
        if isinstance(special, Done):
            self.queues[queue] = None
            self.marked.discard(queue)
        self._merge(queue, special)

    def _merge(self, queue: int, item: Item) -> None:
        after, emitted = keyed.step(self.keyed, queue, item, self.deviations)
        if after is not self.keyed:
            self.merges.append(QueueMerge(queue, item, emitted, after))
        self.keyed = after
        self.stash += emitted

    def _observe(self, queue: int, barrier: Barrier) -> None:
        if self.barrier is not None and self.barrier != barrier:
            raise ModelError(
                f"queue {queue} brings barrier {barrier.snapshot} while {self.barrier.snapshot} is under way",
                remedy="Begin a snapshot after the one before has ended.",
            )
        self.barrier = barrier
        self.marked.add(queue)
        # The end comes right behind a terminal barrier, and must not move the watermark before the snapshot is taken.
        self.waiting = self.waiting or barrier.terminal

    def _barrier_complete(self) -> bool:
        live = [queue for queue, lying in enumerate(self.queues) if lying is not None]
        if self.barrier is None or not live or not self.marked.issuperset(live):
            return False
        self.stash.append(self.barrier)
        self.barrier = None
        self.marked.clear()
        return True

    def drained(self) -> Drained:
        kept = tuple(self.stash) if self.events else ()
        edge = EdgeStream(tuple(self.queues), self.keyed, self.waiting, frozenset(self.marked), self.barrier, kept)
        finished = edge.exhausted if self.deviations.last_watermark_lost else edge.ended
        out: tuple[Item, ...] = tuple(self.events) or tuple(self.stash)
        return Drained(
            edge, Progress.DONE if finished else Progress.MADE_PROGRESS, out, tuple(self.taken), tuple(self.merges)
        )
