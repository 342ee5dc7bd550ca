"""Edge cases of merging that no vector of `tests/conformance` has, each in both modes.

The numbers are those of the list of edge cases; where the modes differ, that is what is asserted.
"""

from __future__ import annotations

import itertools

from tests.dataflow.model.driving import RULES, Instance
from tests.dataflow.model.histories import EVENT, Updates, play, watermarks
from wmlab.dataflow.model.items import IDLE_MESSAGE, Item, Watermark


def wm(value: int, key: int = 0) -> Watermark:
    return Watermark(key, value)


def merged(rules: str, count: int, updates: Updates) -> list[Item]:
    """What leaves at the last of the updates."""
    return list(play(count, updates, RULES[rules])[1][-1])


def test_edge_case_03_an_input_that_comes_back_holds_until_its_own_watermark_passes(rules: str) -> None:
    updates: Updates = [(0, IDLE_MESSAGE), (1, wm(11)), (0, EVENT)]
    assert merged(rules, 2, [*updates, (1, wm(12))]) == []
    assert merged(rules, 2, [*updates, (1, wm(12)), (0, wm(11))]) == []
    assert merged(rules, 2, [*updates, (1, wm(12)), (0, wm(13))]) == [wm(12)]


def test_edge_case_06_all_become_idle_in_any_order(rules: str) -> None:
    begun: Updates = [(0, wm(10)), (1, wm(7)), (2, wm(8))]
    for order in itertools.permutations(range(3)):
        _, found = play(3, [*begun, *((place, IDLE_MESSAGE) for place in order)], RULES[rules])
        leaving = [item for emitted in found for item in emitted]
        assert watermarks(leaving, 0)[-1] == 10
        assert leaving.count(IDLE_MESSAGE) == 1
        assert leaving[-1] == IDLE_MESSAGE
    again: Updates = [*begun, (0, IDLE_MESSAGE), (1, IDLE_MESSAGE), (2, IDLE_MESSAGE), (0, IDLE_MESSAGE)]
    assert merged(rules, 3, again) == ([IDLE_MESSAGE] if rules == "implementation" else [])
    assert merged(rules, 3, [*again, (1, EVENT), (1, IDLE_MESSAGE)]) == [IDLE_MESSAGE]


def test_edge_case_12_inputs_of_disjoint_keys_are_merged_when_one_is_idle(rules: str) -> None:
    edges = Instance(1, 1, deviations=RULES[rules]).push(0, 0, wm(10, 0)).push(1, 0, wm(20, 1))
    assert edges.run() == []
    assert edges.push(0, 0, IDLE_MESSAGE).run() == [wm(20, 1)]
    assert edges.push(1, 0, IDLE_MESSAGE).run() == [wm(10, 0), IDLE_MESSAGE]
