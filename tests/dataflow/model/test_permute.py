"""Every order is counted once, with what it leads to; what comes out depends on the order only where a rule lets it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.histories import EVENT, Stream, interleavings, streams
from wmlab.dataflow.model.items import DONE, IDLE, Watermark
from wmlab.dataflow.model.permute import Choose, every_choice, explore, follow, merging, orders, sample, unflushed
from wmlab.dataflow.model.processor import DESIGN, SHIPPED, Deviations

IDLE_IN_BOTH_ORDERS: list[Stream] = [(Watermark(0, 10), IDLE), (Watermark(0, 20), IDLE)]
INPUTS = st.lists(streams(length=3, ends=[()]), min_size=2, max_size=3)
ENDED = st.lists(streams(length=3, ends=[(IDLE,), (DONE,)]), min_size=2, max_size=3)


@given(INPUTS, st.sampled_from([DESIGN, SHIPPED]))
def test_the_counts_are_those_of_all_orders_one_by_one(offered: list[Stream], deviations: Deviations) -> None:
    rule = merging(len(offered), deviations)
    wanted: Counter[object] = Counter()
    for order in interleavings(offered):
        outcome = follow(rule, offered, tuple(index for index, _ in order))
        wanted[outcome.output, outcome.failure] += 1
    found = explore(rule, offered, limit=100_000)
    assert found is not None
    assert {(one.output, one.failure): one.count for one in found} == wanted
    assert sum(wanted.values()) == orders(offered)
    for one in found:
        again = follow(rule, offered, one.example)
        assert (again.output, again.failure) == (one.output, one.failure)


@given(ENDED)
def test_in_the_design_all_orders_end_alike_once_all_inputs_are_idle_or_have_ended(offered: list[Stream]) -> None:
    found = explore(merging(len(offered)), offered, limit=100_000)
    assert found is not None
    tops: dict[int, int] = {}
    for item in (item for items in offered for item in items if isinstance(item, Watermark)):
        tops[item.key] = max(tops.get(item.key, 0), item.value)
    assert {one.failure for one in found} == {None}
    assert {one.final for one in found} == {tuple(sorted(tops.items()))}
    # Where all inputs have ended the end follows, so that it does not matter whether idleness was said before.
    if any(items[-1] == IDLE for items in offered):
        assert {one.idle for one in found} == {True}


def test_the_shipped_rule_fails_in_some_orders_only() -> None:
    offered = ((Watermark(0, 1), IDLE, DONE), (Watermark(1, 5), DONE))
    found = explore(merging(2, SHIPPED), offered, limit=1_000)
    assert found is not None
    failed = [one for one in found if one.failure is not None]
    assert 0 < sum(one.count for one in failed) < orders(offered)
    assert all("key 1 appears after input 0 was idle and then ended" in str(one.failure) for one in failed)
    assert sum(one.count for one in found) == orders(offered)


def test_a_limit_is_kept_and_drawing_takes_over() -> None:
    offered = tuple(tuple(Watermark(0, 3 * n + place) for n in range(1, 5)) for place in range(3))
    assert explore(merging(3), offered, limit=50) is None
    found = sample(merging(3), offered, samples=200, draw=random.Random(1).randrange)
    assert sum(one.count for one in found) == 200
    again = sample(merging(3), offered, samples=200, draw=random.Random(1).randrange)
    assert found == again
    everything = explore(merging(3), offered, limit=100_000)
    assert everything is not None
    assert {one.output for one in found} <= {one.output for one in everything}


def test_drawn_orders_are_equally_likely() -> None:
    found = sample(unflushed(2), IDLE_IN_BOTH_ORDERS, samples=6_000, draw=random.Random(3).randrange)
    shares = sorted(one.count for one in found)
    assert [round(share / 1_000) for share in shares] == [1, 2, 3]


@pytest.mark.parametrize(("lengths", "count"), [((), 1), ((3,), 1), ((2, 2), 6), ((3, 2, 1), 60), ((10, 10), 184_756)])
def test_the_number_of_orders(lengths: Sequence[int], count: int) -> None:
    assert orders([[EVENT] * length for length in lengths]) == count


def test_every_choice_is_made_once() -> None:
    def run(choose: Choose) -> str:
        first = "ab"[choose("ab")]
        return first + ("xyz"[choose("xyz")] if first == "a" else "")

    assert dict(every_choice(run)) == {"ax": (0, 0), "ay": (0, 1), "az": (0, 2), "b": (1,)}


def test_a_program_that_asks_nothing_runs_once() -> None:
    assert list(every_choice(lambda _: "only")) == [("only", ())]
