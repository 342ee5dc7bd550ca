"""Every order in which the items of several inputs can be coalesced, and the distinct outputs that come of it.

The order within an input is kept. Two orders that lead to the same state with the same output have the same future. So
they are followed together, each output with the number of its orders; far fewer states than orders have to be visited.

Source: "Keyed watermark support", Handling of keyed idle messages (the result must not depend on the order in which
inputs become idle); upstream classes `WatermarkCoalescer`, `KeyedWatermarkCoalescer`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb, prod

from wmlab.dataflow.model.coalescer import EmittedItems, KeyedCoalescer
from wmlab.dataflow.model.items import Idle, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError

Histories = Sequence[Sequence[Item]]
"""What comes on each input, in its order."""
MessageOrder = tuple[int, ...]
"""Which input each item is taken from, one after the other."""
_End = tuple[EmittedItems, str | None]
"""What was emitted, and why it ended early, if it did."""


@dataclass(frozen=True, slots=True)
class OrderOutcome:
    """One output, in how many orders it comes about, and one of them; `failure` says why it ended early."""

    output: EmittedItems
    failure: str | None
    count: int
    example: MessageOrder

    @property
    def final(self) -> tuple[tuple[int, int], ...]:
        """The last watermark of every key that left, by ascending key."""
        return tuple(sorted({item.key: item.value for item in self.output if isinstance(item, Watermark)}.items()))

    @property
    def idle(self) -> bool:
        """Whether the output is idle at the end."""
        return bool(self.output) and isinstance(self.output[-1], Idle)


def orders(histories: Histories) -> int:
    """In how many orders the items can come."""
    lengths = [len(items) for items in histories]
    return prod(map(comb, accumulate(lengths), lengths))


@dataclass(slots=True)
class _Branch:
    """A state that was reached: in how many orders, the first of them, and the coalescer in that state."""

    count: int
    order: MessageOrder
    coalescer: KeyedCoalescer


def explore(coalescer: KeyedCoalescer, histories: Histories, *, limit: int) -> tuple[OrderOutcome, ...] | None:
    """All distinct outputs from the state of `coalescer` on, which stays as it is, the most frequent first.

    None if more than `limit` states stand side by side.
    """
    ended: dict[_End, tuple[int, MessageOrder]] = {}
    nothing_taken = (0,) * len(histories)
    reached: dict[tuple[MessageOrder, Hashable, EmittedItems], _Branch] = {
        (nothing_taken, coalescer.state, ()): _Branch(1, (), coalescer)
    }
    for _ in range(sum(map(len, histories))):
        following: dict[tuple[MessageOrder, Hashable, EmittedItems], _Branch] = {}
        for (taken, _, output), branch in reached.items():
            for index, items in enumerate(histories):
                if taken[index] == len(items):
                    continue
                after, order = (*taken[:index], taken[index] + 1, *taken[index + 1 :]), (*branch.order, index)
                moved = branch.coalescer.copy()
                try:
                    emitted = moved.step(index, items[taken[index]])
                except JobFailedError as failed:
                    rest = orders([items[n:] for items, n in zip(histories, after, strict=True)])
                    _add(ended, (output, failed.problem), branch.count * rest, order)
                    continue
                known = following.setdefault((after, moved.state, output + emitted), _Branch(0, order, moved))
                known.count += branch.count
        if len(following) > limit:
            return None
        reached = following
    for (_, _, output), branch in reached.items():
        _add(ended, (output, None), branch.count, branch.order)
    return _outcomes(ended)


def _add(ended: dict[_End, tuple[int, MessageOrder]], end: _End, count: int, order: MessageOrder) -> None:
    """Count `count` more orders that end so; the first order that did is kept."""
    before, example = ended.get(end, (0, order))
    ended[end] = before + count, example


def _outcomes(ended: dict[_End, tuple[int, MessageOrder]]) -> tuple[OrderOutcome, ...]:
    outcomes = [OrderOutcome(output, failure, count, order) for (output, failure), (count, order) in ended.items()]
    return tuple(sorted(outcomes, key=lambda outcome: (-outcome.count, outcome.example)))
