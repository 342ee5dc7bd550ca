"""What runs on an instance of a node: its queues, its output edges, its outbox, and whether it is due for a poll.

What a task sends waits in its outbox until every queue that has to take it has room; meanwhile it does nothing else. An
output edge chooses the queues that a row takes.

Source: "Keyed watermark support", Terminology; upstream classes `Tasklet`, `OutboxImpl`, `ConcurrentConveyor` and
`OutboundCollector`.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from wmlab.core.simulation import Journal, JournalRow
from wmlab.dataflow.model.items import Barrier, Event, Idle, Item, Watermark
from wmlab.dataflow.sim.layout import Channel, Node, NodeEdge

if TYPE_CHECKING:
    from wmlab.dataflow.sim.world import Execution


def described(item: Item) -> tuple[str, int | None, int | None]:
    """An item as (kind, key, value)."""
    if isinstance(item, Event):
        return "event", None, None
    if isinstance(item, Watermark):
        return "watermark", item.key, item.value
    if isinstance(item, Barrier):
        return "barrier", None, item.snapshot
    return type(item).__name__.lower(), item.key if isinstance(item, Idle) else None, None


class Queue:
    """What lies on a channel: the items that were not taken, each with its row in the table."""

    def __init__(self, channel: Channel, capacity: int, journal: Journal) -> None:
        self.channel = channel
        self.capacity = capacity
        self.journal = journal
        self.producer: NodeTask
        self.consumer: NodeTask
        self._entries: deque[tuple[Item, JournalRow]] = deque()
        self._sequence = 0

    def __iter__(self) -> Iterator[Item]:
        return (item for item, _ in self._entries)

    @property
    def lying(self) -> list[tuple[Item, int]]:
        """The items that were not taken, each with when it was put here (clock ms)."""
        return [(item, row["put_ms"]) for item, row in self._entries]

    @property
    def room(self) -> int:
        """How many more items it can take."""
        return self.capacity - len(self._entries)

    def put(self, item: Item, row: str | None, now_ms: int) -> None:
        """Put an item at its end."""
        kind, key, value = described(item)
        time = self.producer.node.time(item.values) if isinstance(item, Event) else None
        known = {"put_ms": now_ms, "kind": kind, "key": key, "value": value, "time": time, "row": row}
        written = self.journal.write("items", queue=self.channel.number, sequence=self._sequence, **known)
        self._entries.append((item, written))
        self._sequence += 1

    def take(self, count: int, first: int, now_ms: int) -> Item:
        """Remove the first `count` items, which its consumer took as its items number `first` on; returns the last."""
        for number in range(first, first + count):
            item, row = self._entries.popleft()
            row["taken_ms"], row["taken"] = now_ms, number
        return item


class OutputEdge:
    """The queues of one outgoing edge of an instance, and which of them a row takes; its rows have `columns`."""

    def __init__(self, edge: NodeEdge, queues: Iterable[Queue], columns: Sequence[str]) -> None:
        self.queues = tuple(queues)
        self._routing = edge.routing
        self._by = [columns.index(column) for column in edge.columns]

    def targets(self, item: Item, rows_before: int) -> tuple[Queue, ...]:
        """Where an item goes that so many rows came before: a row mostly to one queue, everything else to all."""
        if not isinstance(item, Event) or self._routing == "broadcast" or len(self.queues) == 1:
            return self.queues
        partitioned = self._routing == "partitioned"
        chosen = partition_hash(tuple(item.values[index] for index in self._by)) if partitioned else rows_before
        return (self.queues[chosen % len(self.queues)],)


def partition_hash(values: tuple[Any, ...]) -> int:
    """A number that is the same for equal values in every process."""
    number = 0
    for value in values:
        if isinstance(value, str):
            part = zlib.crc32(value.encode())
        else:
            part = 0 if value is None else partition_hash(value) if isinstance(value, tuple) else hash(value)
        number = (number * 31 + part) & 0x7FFF_FFFF
    return number


class NodeTask:
    """What runs on one instance of a node, with its output edges and its outbox.

    It is polled when it is `due`. It is `blocked` while a queue has no room for what it sends, and `finished` when it
    has sent the end. `sunk` are the rows in the table of what a sink put out. `sent` has by key the last watermark on
    the queues and since when (ms), `last_kind` the kind of the last item there; `moved_ms` when each level of
    coalescing last let a watermark through, by level, edge and key.
    """

    def __init__(self, execution: Execution, node: Node, number: int) -> None:
        self.execution = execution
        self.world = execution.world
        self.node = node
        self.number = number
        self.name = node.instance(number)
        own = (queue for queue in execution.queues if self._is_producer(queue.channel))
        by_edge = groupby(own, lambda queue: queue.channel.edge)
        self.output_edges = [OutputEdge(edge, queues, node.output.columns) for edge, queues in by_edge]
        self.sunk: list[JournalRow] = []
        self.due = False
        self.finished = False
        self.blocked = False
        self.sent: dict[int, tuple[int, int]] = {}
        self.last_kind: str | None = None
        self.moved_ms: dict[tuple[str, int | None, int], int] = {}
        self._steps = 0
        self._rows_sent = 0
        self._outbox: deque[tuple[Item, str | None]] = deque()

    def _is_producer(self, channel: Channel) -> bool:
        return (channel.edge.source, channel.source_instance) == (self.node.name, self.number)

    @property
    def room(self) -> int | None:
        """How many items it can send now; None: any number."""
        if not self.output_edges:
            return None
        return max(0, min(queue.room for edge in self.output_edges for queue in edge.queues) - len(self._outbox))

    @property
    def reads_first(self) -> bool:
        """Whether it reads an input to its end before it looks at others."""
        return False

    def begin(self) -> None:
        """The execution begins."""
        self.world.wake(self)

    def poll(self) -> None:
        """Do what can be done now."""
        raise NotImplementedError

    def begin_snapshot(self, barrier: Barrier) -> None:
        """A snapshot begins."""
        raise NotImplementedError

    def send(self, items: Iterable[Item]) -> None:
        """Send items as soon as there is room for them, in this order."""
        for item in items:
            self._outbox.append((item, self.node.text(item.values) if isinstance(item, Event) else None))
        self.flush()

    @property
    def waiting(self) -> list[Item]:
        """What has left the instance, and waits for room on the queues."""
        return [item for item, _ in self._outbox]

    def flush(self) -> bool:
        """Put on the queues what there is room for; whether nothing is left."""
        while self._outbox:
            item, row = self._outbox[0]
            targets = [queue for edge in self.output_edges for queue in edge.targets(item, self._rows_sent)]
            if any(queue.room < 1 for queue in targets):
                self.blocked = True
                return False
            now_ms = self.world.now_ms
            for queue in targets:
                queue.put(item, row, now_ms)
                self.world.wake(queue.consumer)
            self.last_kind = described(item)[0]
            if isinstance(item, Watermark):
                self.sent[item.key] = item.value, now_ms
            self._rows_sent += isinstance(item, Event)
            self._outbox.popleft()
        return True

    def write(self, table: str, **row: object) -> JournalRow:
        """Write down something that happened here and now."""
        at_ms = self.world.now_ms
        return self.world.journal.write(table, vertex=self.node.name, instance=self.number, at_ms=at_ms, **row)

    def write_step(self, items: Sequence[Item], **row: object) -> None:
        """Write down a step of coalescing that emitted `items`."""
        watermarks = [(item.key, item.value) for item in items if isinstance(item, Watermark)]
        for key, _ in watermarks:
            self.moved_ms[str(row["level"]), cast("int | None", row.get("edge")), key] = self.world.now_ms
        emitted_idle = len(watermarks) < len(items)
        self.write("coalescing", step=self._steps, emitted=watermarks, emitted_idle=emitted_idle, **row)
        self._steps += 1
