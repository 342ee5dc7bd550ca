"""A processor, and an instance of one behind its queues, driven by hand: what leaves them, in plain tuples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from wmlab.dataflow.model.coalescer import EdgeStream, drain
from wmlab.dataflow.model.items import IDLE, Event, Item, Watermark
from wmlab.dataflow.model.processor import (
    DESIGN,
    SHIPPED,
    Answer,
    Call,
    Complete,
    Deviations,
    Drop,
    EdgeWatermark,
    Mode,
    Processor,
    Row,
    Stimulus,
)
from wmlab.dataflow.model.tasklet import InputEdge, Tasklet, TaskletState, Turn
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


def drained_out(edge: EdgeStream, deviations: Deviations = DESIGN) -> tuple[EdgeStream, list[Item]]:
    """What leaves until no drain makes progress."""
    out: list[Item] = []
    while (drained := drain(edge, deviations)).out:
        edge = drained.edge
        out += drained.out
    return drained.edge, out


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
        return self.do(Row(edge, Event(values), retry))

    def rows(self, *rows: Sequence[Any], edge: int = 0) -> list[Any]:
        return [item for values in rows for item in self.row(*values, edge=edge)]

    def wm(self, value: int, key: int = 0) -> list[Any]:
        return self.do(Watermark(key, value))

    def edge_wm(self, edge: int, value: int, key: int) -> list[Any]:
        return self.do(EdgeWatermark(edge, Watermark(key, value)))

    def idle(self) -> list[Any]:
        return self.do(IDLE)

    def complete(self) -> list[Any]:
        return self.do(Complete())

    def answer(self, call: int, *results: Any) -> list[Any]:
        return self.do(Answer(call, tuple((result,) for result in results)))

    def restarted(self, processor: Processor[S] | None = None, others: Sequence[S] = ()) -> Driven[S]:
        again = processor or self.processor
        return Driven(again, again.restore([self.state, *others]))

    @property
    def size(self) -> int:
        return self.processor.size(self.state)


class Instance:
    """An instance whose inputs are pushed and run by hand; `turns` are those in which something happened."""

    def __init__(self, *inputs: int | InputEdge, processor: Any = None, **options: Any) -> None:
        edges = tuple(InputEdge(count) if isinstance(count, int) else count for count in inputs)
        self.tasklet: Tasklet[Any] = Tasklet(processor=processor or MERGE, edges=edges, **options)
        self.state: TaskletState[Any] = self.tasklet.start()
        self.turns: list[Turn[Any]] = []

    def push(self, edge: int, queue: int, *items: Item) -> Instance:
        self.state = self.tasklet.push(self.state, edge=edge, queue=queue, items=items)
        return self

    def run(self, **options: Any) -> list[Item]:
        """Go on until nothing happens; what left."""
        out: list[Item] = []
        while (turn := self.tasklet.step(self.state, **options)).progress:
            out += self.took(turn)
        return out

    def answer(self, call: int, *results: Any) -> list[Item]:
        """A call returns these rows."""
        turn = self.tasklet.answer(self.state, Answer(call, tuple((result,) for result in results)))
        return [*self.took(turn), *self.run()]

    def took(self, turn: Turn[Any]) -> tuple[Item, ...]:
        self.state = turn.state
        self.turns.append(turn)
        return turn.out
