"""A processor, and an instance of one behind its queues, driven by hand: what leaves them, in plain tuples."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from wmlab.dataflow.model import instance as model
from wmlab.dataflow.model.inputs import Drained, InputEdge, Taken
from wmlab.dataflow.model.instance import Poll
from wmlab.dataflow.model.items import IDLE_MESSAGE, Event, Item, Watermark
from wmlab.dataflow.model.processor import (
    DESIGN,
    SHIPPED,
    Call,
    CallAnswer,
    Complete,
    Deviations,
    Drop,
    EdgeRow,
    EdgeWatermark,
    Mode,
    Processor,
    Stimulus,
)
from wmlab.dataflow.model.transform import Transform

S = TypeVar("S")
RULES: dict[Mode, Deviations] = {"design": DESIGN, "hz": SHIPPED}
MERGE = Transform(lambda row: [row])


def plain(items: Iterable[Item]) -> list[Any]:
    """A row as its values, a watermark as ("wm", key, value), other items as they are called."""
    written: list[Any] = []
    for item in items:
        match item:
            case Event(values):
                written.append(values)
            case Watermark(key, value):
                written.append(("wm", key, value))
            case _:
                written.append(type(item).__name__.lower())
    return written


def rows(items: Iterable[Any]) -> list[Any]:
    """The rows among plain items."""
    return [item for item in items if isinstance(item, tuple) and item[:1] != ("wm",)]


class Queues:
    """The queues of one input edge."""

    def __init__(self, count: int) -> None:
        self.items: list[deque[Item]] = [deque() for _ in range(count)]

    def push(self, queue: int, *items: Item) -> None:
        self.items[queue] += items

    def remove(self, taken: Iterable[Taken]) -> None:
        """Remove what was taken."""
        for of_queue in taken:
            for _ in range(of_queue.count):
                self.items[of_queue.queue].popleft()


class Edge:
    """An input edge whose queues are filled and drained by hand."""

    def __init__(self, queues: int, **options: Any) -> None:
        self.queues = Queues(queues)
        self.edge = InputEdge(self.queues.items, **options)

    def push(self, queue: int, *items: Item) -> Edge:
        self.queues.push(queue, *items)
        return self

    def drain(self) -> Drained:
        drained = self.edge.drain()
        self.queues.remove(drained.taken)
        return drained

    def drain_all(self) -> list[Item]:
        """What leaves until no drain makes progress."""
        out: list[Item] = []
        while (drained := self.drain()).out:
            out += drained.out
        return out


class Driven(Generic[S]):
    """A processor and its state; `out`, `drops` and `calls` gather what happened."""

    def __init__(self, processor: Processor[S], state: S | None = None) -> None:
        self.processor = processor
        self.state = processor.start() if state is None else state
        self.out: list[Any] = []
        self.drops: list[Drop] = []
        self.calls: list[Call] = []
        self.accepted = True

    def offer(self, stimulus: Stimulus) -> tuple[Item, ...]:
        """What leaves as items."""
        reply = self.processor.step(self.state, stimulus)
        self.state, self.accepted = reply.state, reply.accepted
        self.drops += reply.drops
        self.calls += reply.calls
        return reply.out

    def do(self, stimulus: Stimulus) -> list[Any]:
        out = plain(self.offer(stimulus))
        self.out += out
        return out

    def row(self, *values: Any, edge: int = 0, retry: bool = False) -> list[Any]:
        return self.do(EdgeRow(edge, Event(values), retry))

    def rows(self, *rows: Sequence[Any], edge: int = 0) -> list[Any]:
        return [item for values in rows for item in self.row(*values, edge=edge)]

    def wm(self, value: int, key: int = 0) -> list[Any]:
        return self.do(Watermark(key, value))

    def edge_wm(self, edge: int, value: int, key: int) -> list[Any]:
        return self.do(EdgeWatermark(edge, Watermark(key, value)))

    def idle(self) -> list[Any]:
        return self.do(IDLE_MESSAGE)

    def complete(self) -> list[Any]:
        return self.do(Complete())

    def answer(self, call: int, *results: Any) -> list[Any]:
        return self.do(CallAnswer(call, tuple((result,) for result in results)))

    def restarted(self, processor: Processor[S] | None = None, others: Sequence[S] = ()) -> Driven[S]:
        again = processor or self.processor
        return Driven(again, again.restore([self.state, *others]))

    @property
    def size(self) -> int:
        return self.processor.size(self.state)


class Instance:
    """An instance whose queues, so many on each edge, are filled by hand; `polls` are those with progress."""

    def __init__(self, *queues: int, processor: Any = None, **options: Any) -> None:
        self.queues = [Queues(count) for count in queues]
        self.model: model.Instance[Any] = model.Instance(
            processor or MERGE, [edge.items for edge in self.queues], **options
        )
        self.polls: list[Poll[Any]] = []

    @property
    def state(self) -> Any:
        """That of the processor."""
        return self.model.state

    def push(self, edge: int, queue: int, *items: Item) -> Instance:
        self.queues[edge].push(queue, *items)
        return self

    def run(self, **options: Any) -> list[Item]:
        """Go on until nothing happens; what left."""
        out: list[Item] = []
        while (poll := self.model.poll(**options)).progress:
            out += self.carried_out(poll)
        return out

    def answer(self, call: int, *results: Any) -> list[Item]:
        """A call returns these rows."""
        poll = self.model.answer(CallAnswer(call, tuple((result,) for result in results)))
        return [*self.carried_out(poll), *self.run()]

    def carried_out(self, poll: Poll[Any]) -> list[Item]:
        for number, queues in enumerate(self.queues):
            queues.remove(taken for taken in poll.taken if taken.edge == number)
        self.polls.append(poll)
        return poll.out
