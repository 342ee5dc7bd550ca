"""Every order is counted once, with what it leads to; what comes out depends on the order only where a rule lets it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.dataflow.model.driving import SHIPPED
from tests.dataflow.model.histories import EVENT, Stream, interleavings, streams
from wmlab.dataflow.model.coalescer import EmittedItems, KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, Watermark
from wmlab.dataflow.model.permute import Histories, MessageOrder, OrderOutcome, explore, orders
from wmlab.dataflow.model.processor import SOUND, Deviations, JobFailedError

IDLE_IN_BOTH_ORDERS: list[Stream] = [(Watermark(0, 10), IDLE_MESSAGE), (Watermark(0, 20), IDLE_MESSAGE)]
UNFLUSHED = Deviations(highest_held_back=True)
INPUTS = st.lists(streams(length=3, ends=[()]), min_size=2, max_size=3)
ENDED = st.lists(streams(length=3, ends=[(IDLE_MESSAGE,), (DONE,)]), min_size=2, max_size=3)


def outcome_of(coalescer: KeyedCoalescer, histories: Histories, order: MessageOrder) -> OrderOutcome:
    """What one order leads to from the state of `coalescer` on, which stays as it is."""
    coalescer = coalescer.copy()
    waiting = [iter(items) for items in histories]
    output: EmittedItems = ()
    for number, index in enumerate(order, start=1):
        try:
            output += coalescer.step(index, next(waiting[index]))
        except JobFailedError as failed:
            return OrderOutcome(output, failed.problem, 1, order[:number])
    return OrderOutcome(output, None, 1, order)


@given(INPUTS, st.sampled_from([SOUND, SHIPPED]))
def test_the_counts_are_those_of_all_orders_one_by_one(offered: list[Stream], deviations: Deviations) -> None:
    start = KeyedCoalescer(len(offered), deviations)
    wanted: Counter[object] = Counter()
    for order in interleavings(offered):
        outcome = outcome_of(start, offered, tuple(index for index, _ in order))
        wanted[outcome.output, outcome.failure] += 1
    found = explore(start, offered, limit=100_000)
    assert found is not None
    assert {(one.output, one.failure): one.count for one in found} == wanted
    assert sum(wanted.values()) == orders(offered)
    for one in found:
        again = outcome_of(start, offered, one.example)
        assert (again.output, again.failure) == (one.output, one.failure)


@given(ENDED)
def test_in_the_design_all_orders_end_alike_once_all_inputs_are_idle_or_have_ended(offered: list[Stream]) -> None:
    found = explore(KeyedCoalescer(len(offered)), offered, limit=100_000)
    assert found is not None
    tops: dict[int, int] = {}
    for item in (item for items in offered for item in items if isinstance(item, Watermark)):
        tops[item.key] = max(tops.get(item.key, 0), item.value)
    assert {one.failure for one in found} == {None}
    assert {one.final for one in found} == {tuple(sorted(tops.items()))}
    # Where all inputs have ended the end follows, so that it does not matter whether idleness was said before.
    if any(items[-1] == IDLE_MESSAGE for items in offered):
        assert {one.idle for one in found} == {True}


class Valve:
    """Flink's valve before FLINK-7728 as that pull request describes it, key by key: a judge without the model.

    Only a watermark and an input that becomes idle or ends make it look; what is idle or has ended does not count.
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.marks: dict[int, dict[int, int]] = {}
        self.out: dict[int, int] = {}
        self.idle: set[int] = set()
        self.done: set[int] = set()

    def take(self, index: int, item: Any) -> list[tuple[int, int]]:
        keys = [item.key] if isinstance(item, Watermark) else sorted(self.marks)
        if item in (IDLE_MESSAGE, DONE):
            (self.idle if item == IDLE_MESSAGE else self.done).add(index)
        else:
            self.idle.discard(index)
        if isinstance(item, Watermark):
            self.marks.setdefault(item.key, {})[index] = item.value
        active = set(range(self.inputs)) - self.idle - self.done
        left: list[tuple[int, int]] = []
        for key in () if item == EVENT else keys:
            known = [self.marks[key].get(number) for number in active]
            low = None if None in known else min((mark for mark in known if mark is not None), default=None)
            if low is not None and (key not in self.out or low > self.out[key]):
                self.out[key] = low
                left.append((key, low))
        return left


@given(st.lists(streams(length=4, ends=[(), (IDLE_MESSAGE,), (DONE,)]), min_size=2, max_size=3), st.randoms())
def test_without_the_flush_it_is_the_valve_of_flink_before_7728(offered: list[Stream], chance: random.Random) -> None:
    order = [index for index, items in enumerate(offered) for _ in items]
    chance.shuffle(order)
    coalescer, valve = KeyedCoalescer(len(offered), UNFLUSHED), Valve(len(offered))
    queues = [iter(items) for items in offered]
    for index in order:
        item = next(queues[index])
        out = coalescer.step(index, item)
        assert [(mark.key, mark.value) for mark in out if isinstance(mark, Watermark)] == valve.take(index, item)


class Listing22440:
    """Which idle messages left Hazelcast before pull request 22440: a judge without the model."""

    def __init__(self, inputs: int) -> None:
        self.idle = [False] * inputs
        self.sent = False

    def take(self, index: int, item: Any) -> bool:
        """An event did not end the idleness, a watermark did; an input that had ended went on counting."""
        if isinstance(item, Watermark):
            self.idle[index] = self.sent = False
        elif item == EVENT:
            self.sent = self.sent and not self.idle[index]
        elif item == IDLE_MESSAGE:
            self.idle[index] = True
        due = item == IDLE_MESSAGE and all(self.idle) and not self.sent
        self.sent = self.sent or due
        return due


@given(st.lists(streams(length=4, ends=[(), (IDLE_MESSAGE,), (DONE,)]), min_size=2, max_size=3), st.randoms())
def test_idle_messages_before_pull_request_22440(offered: list[Stream], chance: random.Random) -> None:
    # The end of an input sent no idle message either; that is so still.
    rules = Deviations(event_leaves_idle=True, end_counts_as_active=True, done_hides_idle=True)
    order = [index for index, items in enumerate(offered) for _ in items]
    chance.shuffle(order)
    coalescer, judge = KeyedCoalescer(len(offered), rules), Listing22440(len(offered))
    queues = [iter(items) for items in offered]
    for index in order:
        item = next(queues[index])
        assert (IDLE_MESSAGE in coalescer.step(index, item)) is judge.take(index, item)


def test_the_shipped_rule_fails_in_some_orders_only() -> None:
    offered = ((Watermark(0, 1), IDLE_MESSAGE, DONE), (Watermark(1, 5), DONE))
    found = explore(KeyedCoalescer(2, SHIPPED), offered, limit=1_000)
    assert found is not None
    failed = [one for one in found if one.failure is not None]
    assert 0 < sum(one.count for one in failed) < orders(offered)
    assert all("key 1 appears after input 0 was idle and then ended" in str(one.failure) for one in failed)
    assert sum(one.count for one in found) == orders(offered)


def test_a_limit_is_kept() -> None:
    offered = tuple(tuple(Watermark(0, 3 * n + place) for n in range(1, 5)) for place in range(3))
    assert explore(KeyedCoalescer(3), offered, limit=50) is None
    assert explore(KeyedCoalescer(3), offered, limit=100_000) is not None


@pytest.mark.parametrize(("lengths", "count"), [((), 1), ((3,), 1), ((2, 2), 6), ((3, 2, 1), 60), ((10, 10), 184_756)])
def test_the_number_of_orders(lengths: Sequence[int], count: int) -> None:
    assert orders([[EVENT] * length for length in lengths]) == count
