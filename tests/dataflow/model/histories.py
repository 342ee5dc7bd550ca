"""What the tests on merging share: legal histories of inputs, their interleavings, and a way to play them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hypothesis import strategies as st

from wmlab.dataflow.model.coalescer import EmittedItems, KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, Item, Watermark
from wmlab.dataflow.model.processor import Deviations

EVENT = (0,)
Stream = tuple[Item, ...]
Updates = list[tuple[int, Item]]


@st.composite
def streams(
    draw: st.DrawFn,
    *,
    keys: int = 2,
    length: int = 6,
    idle: bool = True,
    ends: Sequence[Sequence[Item]] = ((), (DONE,)),
) -> Stream:
    """What one input may bring: watermarks that rise per key, events, idle messages, and at last one of `ends`."""
    at = [0] * keys
    items: list[Item] = []
    kinds = ["watermark", "watermark", "event", *(["idle"] if idle else [])]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=length)):
        if kind == "watermark":
            key = draw(st.integers(0, keys - 1))
            at[key] += draw(st.integers(1, 4))
            items.append(Watermark(key, at[key]))
        else:
            items.append(EVENT if kind == "event" else IDLE_MESSAGE)
    return (*items, *draw(st.sampled_from(ends)))


def lasting(length: int = 3) -> st.SearchStrategy[Stream]:
    """A stream that is idle at most at its end, and does not come back; what follows can only be its end."""
    return streams(length=length, idle=False, ends=((), (DONE,), (IDLE_MESSAGE,), (IDLE_MESSAGE, DONE)))


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
) -> tuple[KeyedCoalescer, list[EmittedItems]]:
    """Coalesce all updates, one at a time; the coalescer behind them, and what each of them emitted."""
    coalescer = KeyedCoalescer(count, deviations)
    return coalescer, [coalescer.step(index, item) for index, item in updates]


def rising(values: Sequence[int]) -> bool:
    return all(earlier < later for earlier, later in pairwise(values))


def watermarks(items: Sequence[Item], key: int) -> list[int]:
    return [item.value for item in items if isinstance(item, Watermark) and item.key == key]


def on_time(stream: Stream, index: int) -> int:
    """The last watermark of key 0 before an item: the lowest time at which it is not late."""
    return max(watermarks(stream[:index], 0), default=0)
