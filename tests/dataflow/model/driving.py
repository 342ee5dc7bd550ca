"""A processor driven by hand: stimuli in, what leaves as plain tuples out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from wmlab.dataflow.model.items import Event, Item, Watermark
from wmlab.dataflow.model.processor import (
    Answer,
    Call,
    Complete,
    Drop,
    EdgeWatermark,
    GlobalWatermark,
    InputIdle,
    Processor,
    Reply,
    Row,
    Stimulus,
)

S = TypeVar("S")
MODES = ("design", "hz")


def plain(items: Iterable[Item]) -> list[Any]:
    """A row as its values, a watermark as ("wm", key, value), other items as they are called."""
    found: list[Any] = []
    for item in items:
        match item:
            case Event(values):
                found.append(values)
            case Watermark(key, value):
                found.append(("wm", key, value))
            case _:
                found.append(type(item).__name__.lower())
    return found


def rows(items: Iterable[Any]) -> list[Any]:
    """The rows among plain items."""
    return [item for item in items if isinstance(item, tuple) and item[:1] != ("wm",)]


class Driven(Generic[S]):
    """A processor and its state; `out`, `drops` and `calls` gather what happened."""

    def __init__(self, processor: Processor[S], state: S | None = None) -> None:
        self.processor = processor
        self.state = processor.start() if state is None else state
        self.out: list[Any] = []
        self.drops: list[Drop] = []
        self.calls: list[Call] = []
        self.accepted = True

    def do(self, stimulus: Stimulus) -> list[Any]:
        reply: Reply[S] = self.processor.step(self.state, stimulus)
        self.state, self.accepted = reply.state, reply.accepted
        out = plain(reply.out)
        self.out += out
        self.drops += reply.drops
        self.calls += reply.calls
        return out

    def row(self, *values: Any, edge: int = 0, retry: bool = False) -> list[Any]:
        return self.do(Row(edge, Event(values), retry))

    def wm(self, value: int, key: int = 0) -> list[Any]:
        return self.do(GlobalWatermark(Watermark(key, value)))

    def edge_wm(self, edge: int, value: int, key: int) -> list[Any]:
        return self.do(EdgeWatermark(edge, Watermark(key, value)))

    def idle(self) -> list[Any]:
        return self.do(InputIdle())

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
