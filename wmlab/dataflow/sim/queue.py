"""A bounded queue between two instances, and the ways a row can take among the queues of an edge.

Source: upstream classes `ConcurrentConveyor` and `OutboundCollector`.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wmlab.dataflow.model.items import Event, Item
from wmlab.dataflow.sim.layout import Lane, Link
from wmlab.dataflow.sim.ledger import described

if TYPE_CHECKING:
    from wmlab.core.journal import Journal, Row
    from wmlab.dataflow.sim.ledger import Written
    from wmlab.dataflow.sim.party import Party


class Queue:
    """What lies between two instances: items not yet handed over, and the rows of all that were not taken."""

    def __init__(self, lane: Lane, capacity: int, journal: Journal, written: Written) -> None:
        self.lane = lane
        self.capacity = capacity
        self.journal = journal
        self.written = written
        self.fresh: list[Item] = []
        self.producer: Party | None = None
        self.consumer: Party | None = None
        self._lying: deque[Row] = deque()
        self._sequence = 0

    @property
    def room(self) -> int:
        """How many more items it holds."""
        return self.capacity - len(self._lying)

    def put(self, item: Item, row: str | None, now_ms: int) -> None:
        """Put an item at its end."""
        kind, key, value = described(item)
        self._lying.append(
            self.journal.write(
                "items",
                queue=self.lane.number,
                sequence=self._sequence,
                put_ms=now_ms,
                taken_ms=None,
                taken=None,
                kind=kind,
                key=key,
                value=value,
                time=self.written.time(item.values) if isinstance(item, Event) else None,
                row=row,
            )
        )
        self._sequence += 1
        self.fresh.append(item)

    def handed_over(self) -> list[Item]:
        """The items that its consumer has not seen yet; they still take room until they are taken."""
        fresh, self.fresh = self.fresh, []
        return fresh

    def take(self, count: int, first: int, now_ms: int) -> str:
        """Its consumer took the first `count` items, as its items number `first` and following; kind of the last."""
        row: Row = {}
        for number in range(first, first + count):
            row = self._lying.popleft()
            row["taken_ms"], row["taken"] = now_ms, number
        return str(row["kind"])


class Way:
    """The queues of one outgoing edge of an instance, and which of them a row takes."""

    def __init__(self, link: Link, queues: Sequence[Queue]) -> None:
        self.queues = tuple(queues)
        self._link = link
        self._next = 0

    def targets(self, item: Item) -> tuple[Queue, ...]:
        """Where an item goes: a row mostly to one queue, everything else to all."""
        if not isinstance(item, Event) or self._link.routing == "broadcast" or len(self.queues) == 1:
            return self.queues
        if self._link.routing == "partitioned":
            place = spread(tuple(item.values[n] for n in self._link.by)) % len(self.queues)
            return (self.queues[place],)
        return (self.queues[self._next % len(self.queues)],)

    def passed(self) -> None:
        """A row has gone its way."""
        self._next += 1


def spread(values: tuple[Any, ...]) -> int:
    """A number that is the same for equal values in every process."""
    found = 0
    for value in values:
        if isinstance(value, str):
            part = zlib.crc32(value.encode())
        else:
            part = 0 if value is None else spread(value) if isinstance(value, tuple) else hash(value)
        found = (found * 31 + part) & 0x7FFF_FFFF
    return found
