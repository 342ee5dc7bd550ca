"""A processor, and an instance of one behind its queues, driven by hand: what leaves them, in plain tuples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from wmlab.dataflow.model.items import IDLE_MESSAGE, Barrier, Item, Watermark
from wmlab.dataflow.model.processor import SOUND, Call, Deviations, Drop, Processor
from wmlab.dataflow.model.transform import Transform
from wmlab.dataflow.rules import Rules
from wmlab.dataflow.scenario.plan import Output
from wmlab.dataflow.sim.columns import JobTable
from wmlab.dataflow.sim.instance import ProcessorInstance, Queue
from wmlab.dataflow.sim.layout import Channel, Layout, Node, NodeEdge
from wmlab.dataflow.tables import DATAFLOW_TABLES

S = TypeVar("S")
DESIGN = Rules("design").deviations
SHIPPED = Rules("implementation").deviations
RULES: dict[str, Deviations] = {"sound": SOUND, "implementation": SHIPPED}


def merge() -> Transform:
    """A processor that forwards everything."""
    return Transform(lambda row: [row])


def plain(items: Iterable[Item]) -> list[Any]:
    """A row as its values, a watermark as ("wm", key, value), other items as they are called."""
    written: list[Any] = []
    for item in items:
        match item:
            case tuple():
                written.append(item)
            case Watermark(key, value):
                written.append(("wm", key, value))
            case _:
                written.append(type(item).__name__.lower())
    return written


def rows(items: Iterable[Any]) -> list[Any]:
    """The rows among plain items."""
    return [item for item in items if isinstance(item, tuple) and item[:1] != ("wm",)]


class Driven(Generic[S]):
    """A processor; `out`, `drops` and `calls` gather what happened, `accepted` says whether it took the last item."""

    def __init__(self, processor: Processor[S]) -> None:
        self.processor = processor
        self.out: list[Any] = []
        self.drops: list[Drop] = []
        self.calls: list[Call] = []
        self.accepted = True

    @property
    def state(self) -> S:
        return self.processor.state

    def offer(self, method: str, *arguments: Any) -> list[Item]:
        """What leaves as items when a method of the processor is called."""
        self.accepted = getattr(self.processor, method)(*arguments) is not False
        return self.left()

    def left(self) -> list[Item]:
        """What has left the processor since the last time."""
        left = [*self.processor.out]
        self.drops += self.processor.drops
        self.calls += self.processor.calls
        for gathered in (self.processor.out, self.processor.drops, self.processor.calls):
            gathered.clear()
        return left

    def do(self, method: str, *arguments: Any) -> list[Any]:
        out = plain(self.offer(method, *arguments))
        self.out += out
        return out

    def row(self, *values: Any, edge: int = 0) -> list[Any]:
        return self.do("row", values, edge)

    def rows(self, *rows: Sequence[Any], edge: int = 0) -> list[Any]:
        return [item for values in rows for item in self.row(*values, edge=edge)]

    def wm(self, value: int, key: int = 0) -> list[Any]:
        return self.do("watermark", Watermark(key, value))

    def edge_wm(self, edge: int, value: int, key: int) -> list[Any]:
        return self.do("edge_watermark", Watermark(key, value), edge)

    def idle(self) -> list[Any]:
        return self.do("idle", IDLE_MESSAGE)

    def complete(self) -> list[Any]:
        return self.do("complete")

    def answer(self, call: int, *results: Any) -> list[Any]:
        return self.do("answer", call, tuple((result,) for result in results))

    def restarted(self, processor: Processor[S], others: Sequence[S] = ()) -> Driven[S]:
        """`processor`, which is a new one, from the state of this one and of `others`."""
        processor.restore([self.processor.snapshot(), *others])
        return Driven(processor)

    @property
    def size(self) -> int:
        return self.processor.size


class _Job:
    """Stands in for a job around one instance, whose input edges have so many queues each."""

    def __init__(self, name: str, queues: Sequence[int], priorities: Sequence[int] | None, **options: Any) -> None:
        self.node = Node(name, SimpleNamespace(kind="merge", parallelism=1), Output())
        producers = {f"p{edge}": Node(f"p{edge}", None, Output()) for edge in range(len(queues))}
        ranks = priorities or [0] * len(queues)
        edges = [NodeEdge(f"p{n}", name, n, rank, "round_robin") for n, rank in enumerate(ranks)]
        each = [(edge, index) for edge, count in zip(edges, queues, strict=True) for index in range(count)]
        channels = [Channel(number, edge, index, 0, index) for number, (edge, index) in enumerate(each)]
        self.layout = Layout({name: self.node, **producers}, tuple(edges), tuple(channels))
        self.queues = [Queue(channel, 1_000_000) for channel in channels]
        self.guarantee = options.get("guarantee", "at_least_once")
        self.deviations = options.get("deviations", SOUND)
        self.execution, self.now_ms = 1, 0
        self.snapshots: list[tuple[Barrier, Any]] = []
        for table in ("items", "coalescing", "drops", "state", "sunk"):
            setattr(self, table, JobTable(table, DATAFLOW_TABLES[table], "test"))
        self.taken_ms: list[int | None] = []
        self.taken: list[int | None] = []
        self.postponed = None
        for queue in self.queues:
            queue.producer = SimpleNamespace(blocked=False)  # type: ignore[assignment]

    def wake(self, instance: Any) -> None:
        """The test says when it is its turn."""

    def call(self, instance: Any, call: Call) -> None:
        """The test answers it."""

    def ended(self) -> None:
        """There is no other instance."""

    def begin_postponed_snapshot(self) -> None:
        """There is none."""

    def saved(self, instance: Any, barrier: Barrier, state: Any, *, size: int) -> None:
        self.snapshots.append((barrier, state))


class _Instance(ProcessorInstance):
    """What leaves it is gathered batch by batch in `batches`; `limit` is the room that there is for each."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.limit: int | None = None
        self.batches: list[list[Item]] = []

    @property
    def room(self) -> int | None:
        return self.limit

    def send(self, items: Iterable[Item]) -> None:
        self.batches.append([*items])


class Instance:
    """An instance whose queues, so many on each edge, are filled by hand."""

    def __init__(
        self,
        *queues: int,
        processor: Processor[Any] | None = None,
        name: str = "processor",
        snapshots: Sequence[Any] = (),
        priorities: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        self.job = _Job(name, queues, priorities, **options)
        processor = processor or merge()
        self.model = _Instance(self.job, self.job.node, 0, processor, snapshots)

    @property
    def state(self) -> Any:
        """That of the processor."""
        return self.model.processor.state

    def queue(self, edge: int, queue: int) -> Queue:
        return self.model.edges[edge].queues[queue]

    def push(self, edge: int, queue: int, *items: Item) -> Instance:
        target = self.queue(edge, queue)
        for item in items:
            target.items.append((item, len(self.job.taken)))
            self.job.taken_ms.append(None)
            self.job.taken.append(None)
            self.model.waiting += 1
        return self

    def run(self, *, room: int | None = None) -> list[Item]:
        """Go on until nothing happens; what left."""
        self.model.limit = room
        before = len(self.model.batches)
        while not self.model.finished and self.model.work():
            pass
        return [item for batch in self.model.batches[before:] for item in batch]

    def answer(self, call: int, *results: Any) -> list[Item]:
        """A call returns these rows."""
        before = len(self.model.batches)
        self.model.answer(call, tuple((result,) for result in results))
        return [item for batch in self.model.batches[before:] for item in batch] + self.run()

    def steps(self) -> list[dict[str, Any]]:
        """The steps of coalescing that were written down."""
        return self.job.coalescing.table().to_pylist()  # type: ignore[attr-defined,no-any-return]

    def taken(self) -> list[int | None]:
        """Of all items that were pushed, as which number they were taken."""
        return self.job.taken


class Edge:
    """An input edge whose queues are filled and drained by hand."""

    def __init__(self, queues: int, **options: Any) -> None:
        self.instance = Instance(queues, **options)
        self.edge = self.instance.model.edges[0]

    def push(self, queue: int, *items: Item) -> Edge:
        self.instance.push(0, queue, *items)
        return self

    @property
    def sizes(self) -> list[int]:
        """How many items lie on each queue."""
        return [len(queue.items) for queue in self.edge.queues]

    def drain(self) -> tuple[str, Sequence[Item]]:
        """What upstream calls the progress of a drain, and what it gave."""
        had_ended = self.edge.ended
        drained = self.edge.drain()
        if drained is None:
            return "WAS_ALREADY_DONE" if had_ended else "NO_PROGRESS", ()
        # Behind its end an edge can only give what the deviation `last_watermark_lost` keeps from the instance.
        return "DONE" if self.edge.ended and not had_ended else "MADE_PROGRESS", drained

    def drain_all(self) -> list[Item]:
        """What leaves until no drain makes progress."""
        out: list[Item] = []
        while (drained := self.drain()[1]) != ():
            out += drained
        return out
