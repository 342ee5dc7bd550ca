"""Whoever takes turns in a dataflow: it has an outbox, and ways out of it that may have no room.

What a party sends waits in its outbox until every queue that has to take it has room; meanwhile it does nothing else.

Source: upstream classes `Tasklet` and `OutboxImpl`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from wmlab.core.journal import Row
from wmlab.dataflow.model.items import Barrier, Event, Item
from wmlab.dataflow.sim.layout import Node
from wmlab.dataflow.sim.ledger import Written
from wmlab.dataflow.sim.queue import Way

if TYPE_CHECKING:
    from wmlab.dataflow.sim.world import DataflowWorld


class Execution(Protocol):
    """What a party knows of the execution it belongs to."""

    world: DataflowWorld

    def saved(self, party: Party, barrier: Barrier, state: Any, size: int) -> None:
        """The state of a party for a snapshot."""

    def ended(self, party: Party) -> None:
        """A party has sent its end."""


class Party:
    """One instance of a node: its place in the dataflow, its outbox, and whether it is due for a turn."""

    def __init__(self, execution: Execution, node: Node, number: int) -> None:
        self.execution = execution
        self.world = execution.world
        self.node = node
        self.number = number
        self.ways: list[Way] = []
        self.ready = False
        self.finished = False
        self.blocked = False
        self._outbox: deque[tuple[Item, str | None]] = deque()
        self._written = Written(node.output)

    @property
    def name(self) -> str:
        """What it is called: the node, and the instance if there are several."""
        return self.node.name if self.node.parallelism == 1 else f"{self.node.name}[{self.number}]"

    @property
    def room(self) -> int | None:
        """How many items it can send now; None: any number."""
        if not self.ways:
            return None
        return max(0, min(queue.room for way in self.ways for queue in way.queues) - len(self._outbox))

    def begin(self) -> None:
        """The execution begins."""
        self.world.wake(self)

    def turn(self) -> None:
        """Do what can be done now."""
        raise NotImplementedError

    def begin_snapshot(self, barrier: Barrier) -> None:
        """A snapshot begins."""
        raise NotImplementedError

    def send(self, items: Iterable[Item]) -> None:
        """Send items as soon as there is room for them, in this order."""
        for item in items:
            self._outbox.append((item, self._written.text(item.values) if isinstance(item, Event) else None))
        self.flush()

    def flush(self) -> bool:
        """Put on the queues what there is room for; whether nothing is left."""
        while self._outbox:
            item, row = self._outbox[0]
            targets = [queue for way in self.ways for queue in way.targets(item)]
            for queue in targets:
                if queue.room < 1:
                    self.blocked = True
                    return False
            now_ms = self.world.now_ms
            for queue in targets:
                queue.put(item, row, now_ms)
                if queue.consumer is not None and not queue.consumer.ready:
                    self.world.wake(queue.consumer)
            if isinstance(item, Event):
                for way in self.ways:
                    way.passed()
            self._outbox.popleft()
        return True

    def write(self, table: str, **row: object) -> Row:
        """Write down something that happened here."""
        return self.world.journal.write(table, vertex=self.node.name, instance=self.number, **row)
