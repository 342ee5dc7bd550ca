"""What a dataflow becomes when it runs: nodes, links and bounded queues, and whoever takes turns between them.

A window in two stages is two nodes, the first of them called `NAME.frames`.

What a party sends waits in its outbox until every queue that has to take it has room; meanwhile it does nothing else.
An outgoing edge of a party is a way: it chooses the queues that a row takes.

Source: "Keyed watermark support", Terminology; upstream classes `Vertex`, `Edge`, `Tasklet`, `OutboxImpl`,
`ConcurrentConveyor` and `OutboundCollector`.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from wmlab.core.simulation import Journal, Row
from wmlab.dataflow.model.items import Barrier, Event, Idle, Item, Watermark
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.plan import Output, Plan
from wmlab.dataflow.scenario.vertices import Edge, SessionWindow, StatefulMap, Window

if TYPE_CHECKING:
    from wmlab.dataflow.sim.world import Running

FRAMES: Final = ".frames"
"""How the name of the first of two stages ends."""


_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


@dataclass(frozen=True)
class Node:
    """A vertex as it runs; `stage` is 1 or 2 of a window in two stages, otherwise None."""

    name: str
    vertex: Any
    output: Output
    stage: int | None = None

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return str(self.vertex.kind).replace("_", " ")

    @property
    def parallelism(self) -> int:
        """How many instances it has."""
        return int(self.vertex.parallelism)

    def instance(self, number: int) -> str:
        """What an instance is called."""
        return self.name if self.parallelism == 1 else f"{self.name}[{number}]"

    def text(self, values: tuple[Any, ...]) -> str:
        """A row that leaves it as a JSON object."""
        return _ENCODE(dict(zip(self.output.columns, values, strict=True)))

    def time(self, values: tuple[Any, ...]) -> int | None:
        """The time of a row that leaves it; None if it has none."""
        time = None if self._time is None else values[self._time]
        return time if type(time) is int else None

    @cached_property
    def _time(self) -> int | None:
        return None if self.output.time is None else self.output.columns.index(self.output.time)


@dataclass(frozen=True, slots=True)
class Link:
    """An edge as it runs: input `edge` of `target`; `columns` choose the instance."""

    source: str
    target: str
    edge: int
    priority: int
    routing: str
    columns: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The routing in words."""
        kind = self.routing.replace("_", " ")
        if self.routing != "partitioned":
            return kind
        return f"{kind} by {', '.join(self.columns)}" if self.columns else "all to one"


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue: number, the link it belongs to, its two instances, and its index among the queues of that input."""

    number: int
    link: Link
    source_instance: int
    target_instance: int
    index: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes by name in the order of the flow, the links, and the queues."""

    nodes: dict[str, Node]
    links: tuple[Link, ...]
    lanes: tuple[Lane, ...]


def layout(dataflow: DataflowScenario) -> Layout:
    """What a dataflow becomes when it runs."""
    plan = dataflow.plan
    nodes: dict[str, Node] = {}
    links: list[Link] = []
    for name, output in plan.outputs.items():
        vertex = dataflow.vertex(name)
        two_stages = isinstance(vertex, Window) and vertex.stages == 2
        entry = name + FRAMES if two_stages else name
        for number, edge in enumerate(plan.inputs[name]):
            links.append(Link(edge.source, entry, number, edge.priority, *_routing(vertex, plan, edge, number)))
        if two_stages:
            frames = Output(("end", *vertex.by, *vertex.aggregates), tuple((key, "end") for key, _ in output.keys))
            nodes[entry] = Node(entry, vertex, frames, 1)
            links.append(Link(entry, name, 0, 0, "partitioned", vertex.by))
        nodes[name] = Node(name, vertex, output, 2 if two_stages else None)
    lanes: list[Lane] = []
    for link in links:
        for target in range(nodes[link.target].parallelism):
            sources = [target] if link.routing == "isolated" else range(nodes[link.source].parallelism)
            lanes += [Lane(len(lanes) + n, link, source, target, n) for n, source in enumerate(sources)]
    return Layout(nodes, tuple(links), tuple(lanes))


def _routing(target: Any, plan: Plan, edge: Edge, number: int) -> tuple[str, tuple[str, ...]]:
    """How rows of an edge are dealt out, and by which columns; what the edge does not say, the target decides."""
    if edge.routing is not None or edge.by:
        return edge.routing or "partitioned", edge.by
    if target.parallelism == 1:
        return "round_robin", ()
    if target.name in plan.joins:
        equal = plan.joins[target.name].equal
        if equal:
            return "partitioned", tuple(pair[number] for pair in equal)
        stays = 1 if target.outer == "right" else 0
        return ("round_robin" if number == stays else "broadcast"), ()
    if isinstance(target, SessionWindow | StatefulMap) or (isinstance(target, Window) and target.stages == 1):
        return "partitioned", target.by
    return "round_robin", ()


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
    """What lies between two instances: the items that were not taken, each with its row in the table."""

    def __init__(self, lane: Lane, capacity: int, journal: Journal) -> None:
        self.lane = lane
        self.capacity = capacity
        self.journal = journal
        self.producer: Party
        self.consumer: Party
        self._entries: deque[tuple[Item, Row]] = deque()
        self._sequence = 0

    def __iter__(self) -> Iterator[Item]:
        return (item for item, _ in self._entries)

    @property
    def room(self) -> int:
        """How many more items it holds."""
        return self.capacity - len(self._entries)

    def put(self, item: Item, row: str | None, now_ms: int) -> None:
        """Put an item at its end."""
        kind, key, value = described(item)
        time = self.producer.node.time(item.values) if isinstance(item, Event) else None
        known = {"put_ms": now_ms, "kind": kind, "key": key, "value": value, "time": time, "row": row}
        written = self.journal.write("items", queue=self.lane.number, sequence=self._sequence, **known)
        self._entries.append((item, written))
        self._sequence += 1

    def take(self, count: int, first: int, now_ms: int) -> Item:
        """Remove the first `count` items, which its consumer took as its items number `first` on; returns the last."""
        for number in range(first, first + count):
            item, row = self._entries.popleft()
            row["taken_ms"], row["taken"] = now_ms, number
        return item


class Way:
    """The queues of one outgoing edge of an instance, and which of them a row takes; its rows have `columns`."""

    def __init__(self, link: Link, queues: Iterable[Queue], columns: Sequence[str]) -> None:
        self.queues = tuple(queues)
        self._routing = link.routing
        self._by = [columns.index(column) for column in link.columns]

    def targets(self, item: Item, passed: int) -> tuple[Queue, ...]:
        """Where an item goes that `passed` rows came before: a row mostly to one queue, everything else to all."""
        if not isinstance(item, Event) or self._routing == "broadcast" or len(self.queues) == 1:
            return self.queues
        partitioned = self._routing == "partitioned"
        chosen = spread(tuple(item.values[index] for index in self._by)) if partitioned else passed
        return (self.queues[chosen % len(self.queues)],)


def spread(values: tuple[Any, ...]) -> int:
    """A number that is the same for equal values in every process."""
    number = 0
    for value in values:
        if isinstance(value, str):
            part = zlib.crc32(value.encode())
        else:
            part = 0 if value is None else spread(value) if isinstance(value, tuple) else hash(value)
        number = (number * 31 + part) & 0x7FFF_FFFF
    return number


class Party:
    """One instance of a node: its outgoing ways, its outbox, and whether it is due for a turn."""

    def __init__(self, execution: Running, node: Node, number: int) -> None:
        self.execution = execution
        self.world = execution.world
        self.node = node
        self.number = number
        self.name = node.instance(number)
        mine = [q for q in execution.queues if (q.lane.link.source, q.lane.source_instance) == (node.name, number)]
        self.ways = [Way(link, queues, node.output.columns) for link, queues in groupby(mine, lambda q: q.lane.link)]
        self.sunk: list[Row] = []
        self.ready = False
        self.finished = False
        self.blocked = False
        self._steps = 0
        self._passed = 0
        self._outbox: deque[tuple[Item, str | None]] = deque()

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
            self._outbox.append((item, self.node.text(item.values) if isinstance(item, Event) else None))
        self.flush()

    def flush(self) -> bool:
        """Put on the queues what there is room for; whether nothing is left."""
        while self._outbox:
            item, row = self._outbox[0]
            targets = [queue for way in self.ways for queue in way.targets(item, self._passed)]
            if any(queue.room < 1 for queue in targets):
                self.blocked = True
                return False
            now_ms = self.world.now_ms
            for queue in targets:
                queue.put(item, row, now_ms)
                self.world.wake(queue.consumer)
            self._passed += isinstance(item, Event)
            self._outbox.popleft()
        return True

    def write(self, table: str, **row: object) -> Row:
        """Write down something that happened here and now."""
        at_ms = self.world.now_ms
        return self.world.journal.write(table, vertex=self.node.name, instance=self.number, at_ms=at_ms, **row)

    def write_step(self, items: Sequence[Item], **row: object) -> None:
        """Write down a step of merging that let `items` through."""
        marks = [(item.key, item.value) for item in items if isinstance(item, Watermark)]
        self.write("coalescing", step=self._steps, emitted=marks, emitted_idle=len(marks) < len(items), **row)
        self._steps += 1
