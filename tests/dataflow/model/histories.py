"""What the tests on merging share: legal histories of inputs, their interleavings, and short ways to play them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from wmlab.dataflow.model.coalescer import Keyed
from wmlab.dataflow.model.deviations import Deviations
from wmlab.dataflow.model.items import DONE, IDLE, Event, Item, Watermark
from wmlab.dataflow.model.tasklet import InputEdge, Tasklet, TaskletState, Turn
from wmlab.dataflow.model.transform import Transform

EVENT = Event((0,))
Stream = tuple[Item, ...]


@st.composite
def streams(draw: st.DrawFn, *, keys: int = 2, length: int = 6, idle: bool = True) -> Stream:
    """What one input may bring: watermarks that rise per key, events, idle messages, and perhaps its end."""
    at = [0] * keys
    items: list[Item] = []
    kinds = ["watermark", "watermark", "event", *(["idle"] if idle else [])]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=length)):
        if kind == "watermark":
            key = draw(st.integers(0, keys - 1))
            at[key] += draw(st.integers(1, 4))
            items.append(Watermark(key, at[key]))
        else:
            items.append(EVENT if kind == "event" else IDLE)
    return (*items, *([DONE] if draw(st.booleans()) else []))


@st.composite
def lasting(draw: st.DrawFn, *, keys: int = 2, length: int = 3) -> Stream:
    """A stream that is idle at most at its end, and does not come back; what follows can only be its end."""
    active = draw(streams(keys=keys, length=length, idle=False))
    if not draw(st.booleans()):
        return active
    return (*(item for item in active if item != DONE), IDLE, *(item for item in active if item == DONE))


def inputs(stream: st.SearchStrategy[Stream], most: int = 4) -> st.SearchStrategy[list[Stream]]:
    return st.lists(stream, min_size=1, max_size=most)


def interleavings(streams: Sequence[Stream]) -> Iterator[list[tuple[int, Item]]]:
    """Every order in which the items of the streams can come, each stream in its own order."""
    if not any(streams):
        yield []
    for place, stream in enumerate(streams):
        if stream:
            rest = [*streams[:place], stream[1:], *streams[place + 1 :]]
            yield from ([(place, stream[0]), *later] for later in interleavings(rest))


@st.composite
def interleaved(
    draw: st.DrawFn, stream: st.SearchStrategy[Stream], most: int = 4
) -> tuple[int, list[tuple[int, Item]]]:
    """Several streams in one order: their number, and what comes on which of them."""
    chosen = draw(inputs(stream, most))
    left = [place for place, items in enumerate(chosen) for _ in items]
    order = draw(st.permutations(left))
    iterators = [iter(items) for items in chosen]
    return len(chosen), [(place, next(iterators[place])) for place in order]


def play(
    count: int, updates: Sequence[tuple[int, Item]], deviations: Deviations
) -> tuple[Keyed, list[tuple[Watermark | Any, ...]]]:
    """Merge all updates, one at a time."""
    state, found = Keyed.start(count), []
    for place, item in updates:
        state, emitted = state.step(place, item, deviations)
        found.append(emitted)
    return state, found


class Instance:
    """A processor instance whose inputs are pushed and run by hand; `turns` are those in which something happened."""

    def __init__(self, *queues: int, processor: Any = None, **options: Any) -> None:
        self.runtime: Tasklet[Any] = Tasklet(
            processor=processor or Transform.merge(), edges=tuple(InputEdge(count) for count in queues), **options
        )
        self.state: TaskletState[Any] = self.runtime.start()
        self.turns: list[Turn[Any]] = []

    def push(self, edge: int, queue: int, *items: Item) -> Instance:
        self.state = self.runtime.push(self.state, edge=edge, queue=queue, items=items)
        return self

    def run(self, **options: Any) -> list[Item]:
        """Go on until nothing happens; what left."""
        found: list[Item] = []
        while (turn := self.runtime.step(self.state, **options)).progress:
            self.state = turn.state
            self.turns.append(turn)
            found += turn.out
        return found


def rising(values: Sequence[int]) -> bool:
    return all(earlier < later for earlier, later in pairwise(values))


def watermarks(items: Sequence[Item], key: int) -> list[int]:
    return [item.value for item in items if isinstance(item, Watermark) and item.key == key]
