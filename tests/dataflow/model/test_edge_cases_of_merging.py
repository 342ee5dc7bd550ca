"""The edge cases of merging and of snapshots that a researcher should be able to try, each in both modes.

The numbers are those of the list of edge cases; where the modes differ, that is what is asserted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from tests.dataflow.model.driving import RULES, Instance, drained_out
from tests.dataflow.model.histories import EVENT, Updates, play, watermarks
from wmlab.dataflow.model.async_map import AsyncUnordered
from wmlab.dataflow.model.coalescer import EdgeStream
from wmlab.dataflow.model.items import DONE, IDLE, Barrier, Event, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError, Mode, Reason
from wmlab.dataflow.model.transform import LateDrop


def wm(value: int, key: int = 0) -> Watermark:
    return Watermark(key, value)


def merged(mode: Mode, count: int, updates: Updates) -> list[Item]:
    """What leaves at the last of the updates."""
    return list(play(count, updates, RULES[mode])[1][-1])


def failure(mode: Mode, count: int, updates: Updates) -> JobFailedError:
    play(count, updates[:-1], RULES[mode])
    with pytest.raises(JobFailedError) as caught:
        play(count, updates, RULES[mode])
    return caught.value


def instance(mode: Mode, *queues: int, **options: object) -> Instance:
    return Instance(*queues, deviations=RULES[mode], **options)


@pytest.mark.parametrize("again", [10, 9])
def test_edge_case_01_a_watermark_of_a_key_has_to_rise_on_its_queue(mode: Mode, again: int) -> None:
    error = failure(mode, 2, [(0, wm(10)), (0, wm(again))])
    assert error.reason is Reason.NON_MONOTONIC
    assert f"watermark {again} of key 0 on input 0 is not above 10" in error.problem
    assert merged(mode, 1, [(0, wm(10)), (0, wm(again, key=1))]) == [wm(again, key=1)]


@pytest.mark.parametrize("release", [IDLE, DONE])
def test_edge_case_02_a_key_of_one_of_two_inputs_waits_for_the_other_to_be_idle_or_done(
    mode: Mode, release: Item
) -> None:
    waiting: Updates = [(0, wm(10, key=5)), (1, wm(3)), (0, wm(20, key=5))]
    assert merged(mode, 2, waiting) == []
    assert merged(mode, 2, [*waiting, (1, release)]) == [wm(20, key=5)]


def test_edge_case_03_an_input_that_comes_back_holds_until_its_own_watermark_passes(mode: Mode) -> None:
    updates: Updates = [(0, IDLE), (1, wm(11)), (0, EVENT)]
    assert merged(mode, 2, [*updates, (1, wm(12))]) == []
    assert merged(mode, 2, [*updates, (1, wm(12)), (0, wm(11))]) == []
    assert merged(mode, 2, [*updates, (1, wm(12)), (0, wm(13))]) == [wm(12)]


def test_edge_case_04_a_watermark_of_another_key_wakes_the_input(mode: Mode) -> None:
    updates: Updates = [(0, wm(10, 1)), (1, wm(10, 1)), (1, IDLE), (1, wm(3, 2)), (0, wm(13, 1))]
    assert merged(mode, 2, updates) == ([wm(13, 1)] if mode == "hz" else [])
    # An event wakes it for every key in both modes.
    assert merged(mode, 2, [*updates[:-1], (1, EVENT), updates[-1]]) == []
    # In the design its own watermark is waited for; shipped code has long gone past it.
    assert merged(mode, 2, [*updates, (1, wm(12, 1))]) == ([] if mode == "hz" else [wm(12, 1)])


def edge_outputs(mode: Mode, pushes: Sequence[tuple[int, Sequence[Item]]]) -> list[Item]:
    """What an edge of two queues gives at the last push."""
    edge, out = EdgeStream.start(2), []
    for queue, items in pushes:
        edge, out = drained_out(edge.push(queue, items), RULES[mode])
    return out


def test_edge_case_05_an_event_and_an_idle_message_in_one_batch(mode: Mode) -> None:
    begun: list[tuple[int, Sequence[Item]]] = [(0, [wm(10)]), (1, [wm(5)])]
    together = [*begun, (1, [Event((7,)), IDLE]), (0, [wm(20)])]
    apart = [*begun, (1, [Event((7,))]), (1, [IDLE]), (0, [wm(20)])]
    assert edge_outputs(mode, together) == ([] if mode == "hz" else [wm(20)])
    assert edge_outputs(mode, apart) == [wm(20)]


def test_edge_case_06_all_become_idle_in_any_order(mode: Mode) -> None:
    begun: Updates = [(0, wm(10)), (1, wm(7)), (2, wm(8))]
    for order in itertools.permutations(range(3)):
        _, found = play(3, [*begun, *((place, IDLE) for place in order)], RULES[mode])
        leaving = [item for emitted in found for item in emitted]
        assert watermarks(leaving, 0)[-1] == 10
        assert leaving.count(IDLE) == 1
        assert leaving[-1] == IDLE
    again: Updates = [*begun, (0, IDLE), (1, IDLE), (2, IDLE), (0, IDLE)]
    assert merged(mode, 3, again) == ([IDLE] if mode == "hz" else [])
    assert merged(mode, 3, [*again, (1, EVENT), (1, IDLE)]) == [IDLE]


def test_edge_case_07_the_end_of_one_leaves_only_idle_inputs(mode: Mode) -> None:
    updates: Updates = [(1, IDLE), (0, wm(10)), (0, DONE)]
    assert merged(mode, 2, updates) == ([] if mode == "hz" else [IDLE])
    assert merged(mode, 2, [*updates, (1, IDLE)]) == ([IDLE] if mode == "hz" else [])


def test_edge_case_08_all_done_gives_the_top_and_no_idle_message(mode: Mode) -> None:
    assert merged(mode, 2, [(0, wm(10)), (1, wm(4)), (1, DONE)]) == [wm(10)]
    assert merged(mode, 2, [(0, wm(10)), (1, wm(4)), (1, DONE), (0, DONE)]) == []
    edges = instance(mode, 1, 1).push(0, 0, wm(20)).push(1, 0, wm(10))
    assert edges.run() == [wm(10)]
    edges.push(0, 0, DONE).push(1, 0, DONE)
    assert edges.run() == ([DONE] if mode == "hz" else [wm(20), DONE])


def test_edge_case_08_an_edge_that_ends_with_an_event_in_the_same_batch(mode: Mode) -> None:
    edges = instance(mode, 2).push(0, 0, wm(10))
    edges.run()
    edges.push(0, 0, DONE).push(0, 1, Event((1,)), DONE)
    assert edges.run() == [Event((1,)), *([] if mode == "hz" else [wm(10)]), DONE]
    assert edges.state.edges[0].ended == (mode == "design")


def test_edge_case_09_idle_then_done_then_a_new_key_elsewhere(mode: Mode) -> None:
    updates: Updates = [(0, IDLE), (0, DONE), (1, wm(10))]
    if mode == "hz":
        error = failure(mode, 2, updates)
        assert error.reason is Reason.NON_MONOTONIC
        assert "key 0 appears after input 0 was idle and then ended" in error.problem
    else:
        assert merged(mode, 2, updates) == [wm(10)]


def test_edge_case_10_a_new_key_starts_at_minus_infinity_on_every_active_input(mode: Mode) -> None:
    begun: Updates = [(0, wm(100)), (1, wm(100)), (2, IDLE), (0, wm(4, key=7))]
    assert merged(mode, 3, begun) == []
    assert merged(mode, 3, [*begun, (1, wm(6, key=7))]) == [wm(4, key=7)]


def test_edge_case_11_a_recovered_input_behind_the_watermark_stands_still_and_its_events_are_late(mode: Mode) -> None:
    late = instance(mode, 2, processor=LateDrop(time=0))
    late.push(0, 0, wm(10)).push(0, 1, wm(2)).run()
    assert late.push(0, 1, IDLE).run() == [wm(10)]
    events = [Event((time,)) for time in (3, 9, 10)]
    assert late.push(0, 1, *events, wm(5)).run() == [Event((10,))]
    assert late.push(0, 0, wm(12)).run() == []
    assert [drop.margin for turn in late.turns for drop in turn.drops] == [7, 1]
    assert late.push(0, 1, wm(11)).run() == [wm(11)]


def test_edge_case_12_inputs_of_disjoint_keys_are_merged_when_one_is_idle(mode: Mode) -> None:
    edges = instance(mode, 1, 1).push(0, 0, wm(10, 0)).push(1, 0, wm(20, 1))
    assert edges.run() == []
    assert edges.push(0, 0, IDLE).run() == [wm(20, 1)]
    assert edges.push(1, 0, IDLE).run() == [wm(10, 0), IDLE]


def test_edge_case_13_two_levels(mode: Mode) -> None:
    edges = instance(mode, 2, 2)
    for edge, queue, value in ((0, 0, 10), (0, 1, 12), (1, 0, 15), (1, 1, 9)):
        edges.push(edge, queue, wm(value))
    assert edges.run() == [wm(9)]
    assert [dict(edge.keyed.keys)[0].last for edge in edges.state.edges] == [10, 9]
    assert edges.push(1, 1, wm(14)).run() == [wm(10)]
    assert edges.push(0, 0, wm(13)).run() == [wm(12)]
    assert [dict(edge.keyed.keys)[0].last for edge in edges.state.edges] == [12, 14]


def test_edge_case_14_idle_with_calls_in_flight(mode: Mode) -> None:
    calls = instance(mode, 1, processor=AsyncUnordered(capacity=4))
    calls.push(0, 0, Event((1,)), wm(5), IDLE)
    assert calls.run() == ([IDLE] if mode == "hz" else [])
    assert calls.answer(0, 2) == [Event((2,)), wm(5), *([] if mode == "hz" else [IDLE])]


def with_barrier(mode: Mode, guarantee: str, *, terminal: bool = False) -> list[Item]:
    """What leaves an instance when a watermark lies behind the barrier of one of two queues."""
    edges = instance(mode, 2, guarantee=guarantee).push(0, 1, wm(9))
    edges.run()
    out = edges.push(0, 0, Barrier(1, terminal), wm(9)).run()
    return out + edges.push(0, 1, Barrier(1, terminal)).run()


def test_edge_case_47_only_at_least_once_lets_a_watermark_overtake_the_barrier(mode: Mode) -> None:
    assert with_barrier(mode, "at_least_once") == [wm(9), Barrier(1)]
    assert with_barrier(mode, "exactly_once") == [Barrier(1), wm(9)]
    # Behind a terminal barrier the instance stops.
    assert with_barrier(mode, "at_least_once", terminal=True) == [Barrier(1, terminal=True)]


def test_edge_case_48_a_barrier_leaves_before_the_item_that_follows_it(mode: Mode) -> None:
    edges = instance(mode, 2).push(0, 1, Barrier(1))
    assert edges.run() == []
    edges.push(0, 0, Barrier(1)).push(0, 1, Event((1,)))
    assert edges.run() == [Barrier(1), Event((1,))]
