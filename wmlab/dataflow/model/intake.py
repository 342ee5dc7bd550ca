"""The input side of a processor instance while a round goes on: the next batch, merged over the queues and the edges.

Source: "Keyed watermark support", Coalescing of WMs with different keys; upstream class `ProcessorTasklet`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wmlab.core.errors import ModelError
from wmlab.dataflow.model import keyed
from wmlab.dataflow.model.deviations import Deviations
from wmlab.dataflow.model.edge import EdgeStream, Progress, drain
from wmlab.dataflow.model.items import DONE, Barrier, Event, Idle, Item, Watermark
from wmlab.dataflow.model.keyed import Merge
from wmlab.dataflow.model.processor import JobFailedError
from wmlab.dataflow.model.turn import RuntimeState, Taken


@dataclass(slots=True)
class Batch:
    """What one drain of an edge brought: its events or its watermarks, and what the instance's merging let through.

    `ended`: the edge has ended, of which the processor has to be told. Source: as the module.
    """

    edge: int
    events: tuple[Event, ...] = ()
    edge_watermarks: tuple[Watermark, ...] = ()
    merged: tuple[Watermark | Idle, ...] = ()
    ended: bool = False


@dataclass(slots=True)
class Intake:
    """The inputs of one state while they change; the fields are those of `RuntimeState`. Source: as the module."""

    edges: list[EdgeStream]
    keyed: keyed.Keyed
    groups: tuple[tuple[int, ...], ...]
    cursor: int
    waiting: bool
    marked: frozenset[int]
    barrier: Barrier | None
    deviations: Deviations
    taken: list[Taken] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)

    @classmethod
    def of(cls, state: RuntimeState[Any], deviations: Deviations) -> Intake:
        """The inputs of a state. Source: as the module."""
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
        """Whether the barrier has come on every edge that has not ended. Source: as the module."""
        return self.barrier is not None and all(self.marked.issuperset(group) for group in self.groups)

    def barrier_passed(self) -> None:
        """The snapshot was taken. Source: as the module."""
        self.barrier, self.marked = None, frozenset()

    def fill(self) -> Batch | None:
        """Drain the edges of the first group in turn until one gives something; None if none does.

        Source: as the module.
        """
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
            after, emitted = keyed.step(self.keyed, batch.edge, item, self.deviations)
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
    """The same error with the place where it came up in front. Source: as the module."""
    if isinstance(error, JobFailedError):
        return error.at(place)
    return ModelError(f"{place}: {error.problem}", remedy=error.remedy)
