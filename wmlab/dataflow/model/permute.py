"""Every order in which the items of several inputs can be merged, and the distinct outputs that come of it.

The order within an input is kept. A rule takes one item at a time: `step(state, input, item)` gives the next state and
what leaves. Two orders that lead to the same state with the same output have the same future, so they are followed
together, each output with the number of its orders; far fewer states than orders have to be visited. Where even these
are too many, orders are drawn, each with the same chance.

A program that chooses what is next (`Choose`) is explored by making every choice in every way.

Source: "Keyed watermark support", Handling of keyed idle messages (the result must not depend on the order in which
inputs become idle); upstream class `WatermarkCoalescer`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb, prod
from typing import Generic, TypeVar

from wmlab.dataflow.model.coalescer import Emitted, Keyed
from wmlab.dataflow.model.items import Idle, Item, Watermark
from wmlab.dataflow.model.processor import DESIGN, Deviations, JobFailedError

K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound=Hashable)
T = TypeVar("T")
Inputs = Sequence[Sequence[Item]]
Order = tuple[int, ...]
"""Which input each item is taken from, one after the other."""
_Counts = dict[K, tuple[int, Order]]
"""In how many orders something comes about, and the first of them."""
_End = tuple[Emitted, str | None]
Choose = Callable[[Sequence[str]], int]
Draw = Callable[[int], int]
"""A number from 0 up to the given one, exclusive, each with the same chance."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """A state to begin with, and what an item on an input does to it; equal states have equal futures.

    `step` may raise `JobFailedError`, which ends the order.
    """

    start: S
    step: Callable[[S, int, Item], tuple[S, Emitted]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One output, in how many orders it comes about, and one of them; `failure` says why it ended early."""

    output: Emitted
    failure: str | None
    count: int
    example: Order

    @property
    def final(self) -> tuple[tuple[int, int], ...]:
        """The last watermark of every key that left, by ascending key."""
        return tuple(sorted({item.key: item.value for item in self.output if isinstance(item, Watermark)}.items()))

    @property
    def idle(self) -> bool:
        """Whether the output is idle at the end."""
        return bool(self.output) and isinstance(self.output[-1], Idle)


def merging(inputs: int, deviations: Deviations = DESIGN) -> Rule[Keyed]:
    """The coalescer of all keys. Source: upstream class `KeyedWatermarkCoalescer`."""
    return Rule(Keyed(inputs), lambda state, index, item: state.step(index, item, deviations))


def orders(inputs: Inputs) -> int:
    """In how many ways the inputs can be merged."""
    lengths = [len(items) for items in inputs]
    return prod(map(comb, accumulate(lengths), lengths))


def explore(rule: Rule[S], inputs: Inputs, *, limit: int) -> tuple[Outcome, ...] | None:
    """All distinct outputs, the most frequent first; None if more than `limit` states stand side by side."""
    ended: _Counts[_End] = {}
    reached: _Counts[tuple[Order, S, Emitted]] = {((0,) * len(inputs), rule.start, ()): (1, ())}
    for _ in range(sum(map(len, inputs))):
        following: _Counts[tuple[Order, S, Emitted]] = {}
        for (taken, state, output), (count, order) in reached.items():
            for index, items in enumerate(inputs):
                if taken[index] == len(items):
                    continue
                after = (*taken[:index], taken[index] + 1, *taken[index + 1 :])
                try:
                    moved, left = rule.step(state, index, items[taken[index]])
                except JobFailedError as failed:
                    rest = orders([items[n:] for items, n in zip(inputs, after, strict=True)])
                    _add(ended, (output, failed.problem), count * rest, (*order, index))
                    continue
                _add(following, (after, moved, output + left), count, (*order, index))
        if len(following) > limit:
            return None
        reached = following
    for (_, _, output), (count, order) in reached.items():
        _add(ended, (output, None), count, order)
    return _outcomes(ended)


def sample(rule: Rule[S], inputs: Inputs, *, samples: int, draw: Draw) -> tuple[Outcome, ...]:
    """The distinct outputs of `samples` orders, each drawn with the same chance."""
    ended: _Counts[_End] = {}
    for _ in range(samples):
        outcome = follow(rule, inputs, _drawn([len(items) for items in inputs], draw))
        _add(ended, (outcome.output, outcome.failure), 1, outcome.example)
    return _outcomes(ended)


def follow(rule: Rule[S], inputs: Inputs, order: Order) -> Outcome:
    """What one order leads to."""
    queues = [iter(items) for items in inputs]
    state = rule.start
    output: Emitted = ()
    for number, index in enumerate(order):
        try:
            state, left = rule.step(state, index, next(queues[index]))
        except JobFailedError as failed:
            return Outcome(output, failed.problem, 1, order[: number + 1])
        output += left
    return Outcome(output, None, 1, order)


def every_choice(run: Callable[[Choose], T]) -> Iterator[tuple[T, Order]]:
    """Run a program with every sequence of answers to its questions; each result with its answers.

    The program must ask the same as long as it gets the same answers.
    """
    beginnings: list[Order] = [()]
    while beginnings:
        begun = beginnings.pop()
        answers: list[int] = []

        def choose(names: Sequence[str], begun: Order = begun, answers: list[int] = answers) -> int:
            place = len(answers)
            if place >= len(begun):
                beginnings.extend((*answers, other) for other in range(len(names) - 1, 0, -1))
            answers.append(begun[place] if place < len(begun) else 0)
            return answers[place]

        yield run(choose), tuple(answers)


def _add(counts: _Counts[K], key: K, count: int, order: Order) -> None:
    before, example = counts.get(key, (0, order))
    counts[key] = before + count, example


def _outcomes(ended: _Counts[_End]) -> tuple[Outcome, ...]:
    outcomes = [Outcome(output, failure, count, order) for (output, failure), (count, order) in ended.items()]
    return tuple(sorted(outcomes, key=lambda outcome: (-outcome.count, outcome.example)))


def _drawn(left: list[int], draw: Draw) -> Order:
    """An order, drawn by picking one of all items that are left, and taking the next of its input."""
    order = []
    for together in range(sum(left), 0, -1):
        index = bisect_right(list(accumulate(left)), draw(together))
        left[index] -= 1
        order.append(index)
    return tuple(order)
