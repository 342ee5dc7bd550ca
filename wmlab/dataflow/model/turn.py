"""What a processor instance is between two rounds, and what one round did.

Both are values: a state can be kept, compared and gone back to, and the turn holds everything that a simulation has to
carry out or to write down.

Source: "Keyed watermark support", Processor API; upstream class `ProcessorTasklet`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from wmlab.dataflow.model.edge import EdgeStream
from wmlab.dataflow.model.items import Barrier, Event, Idle, Item, Watermark
from wmlab.dataflow.model.keyed import Keyed, Merge
from wmlab.dataflow.model.processor import Call, Drop

S = TypeVar("S")


class Phase(StrEnum):
    """What an instance is doing. Source: as the module."""

    WORKING = "working"
    COMPLETING = "completing"
    """All inputs have ended; the processor finishes what it holds."""
    FINISHED = "finished"
    """The end was sent."""
    STOPPED = "stopped"
    """A terminal snapshot was taken."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """The watermark of one key at one instance, in the unit of its times; None: none yet.

    `top_observed` is the highest one that any input edge brought, `coalesced` what merging the edges let through,
    `last_forwarded` what left. `latency_ms` is the clock time minus `last_forwarded`. Source: as the module.
    """

    top_observed: int | None
    coalesced: int | None
    last_forwarded: int | None
    latency_ms: int | None


@dataclass(frozen=True, slots=True)
class Taken:
    """Effect: the first `count` items of queue `queue` of input edge `edge` were taken. Source: as the module."""

    edge: int
    queue: int
    count: int


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[S]):
    """Effect: the processor's state at the barrier, as `Processor.restore` takes it. Source: as the module."""

    barrier: Barrier
    processor: S


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeState(Generic[S]):
    """One processor instance between two rounds.

    `edges` are the input edges with what lies on their queues, `keyed` merges the edges, `groups` are the edges that
    have not ended by ascending priority (only the first group is drained, from place `cursor` on). `inbox` are the
    events of edge `current` that the processor has not accepted yet, `retry` says that the first of them was offered
    before; `completing` is the edge whose end the processor has to be told; the callbacks wait behind both. `marked`
    are the edges whose `barrier` has come. `forwarded` has the last watermark per key that left.
    Source: as the module.
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

    def with_edges(self, edges: tuple[EdgeStream, ...]) -> RuntimeState[S]:
        """The same with other items on the queues. Source: as the module."""
        return RuntimeState(
            processor=self.processor,
            edges=edges,
            keyed=self.keyed,
            groups=self.groups,
            cursor=self.cursor,
            current=self.current,
            inbox=self.inbox,
            retry=self.retry,
            completing=self.completing,
            edge_callbacks=self.edge_callbacks,
            global_callbacks=self.global_callbacks,
            waiting=self.waiting,
            marked=self.marked,
            barrier=self.barrier,
            forwarded=self.forwarded,
            phase=self.phase,
        )

    def metrics(self, key: int, now_ms: int | None = None) -> Metrics:
        """The watermark of `key` here; the latency needs the clock time. Source: as the module."""
        forwarded = dict(self.forwarded).get(key)
        latency = None if forwarded is None or now_ms is None else now_ms - forwarded
        return Metrics(self.keyed.top(key), self.keyed.coalesced(key), forwarded, latency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Generic[S]):
    """What a round did: the new state, what leaves in this order, and what happened besides.

    `progress` is false if nothing could be done; then the same call does nothing again until an item is pushed, an
    answer comes or there is more room. `taken` says which items left which queue, `merges` which steps the two levels
    of coalescing made, in the order they were made. Source: as the module.
    """

    state: RuntimeState[S]
    progress: bool = False
    out: tuple[Item, ...] = ()
    taken: tuple[Taken, ...] = ()
    drops: tuple[Drop, ...] = ()
    calls: tuple[Call, ...] = ()
    merges: tuple[Merge, ...] = field(default=(), repr=False)
    snapshot: Snapshot[S] | None = None
