"""Bounds of a join: extraction from a condition, validity, spread, and edge case 37."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.core.expression import compiled, time_bounds
from wmlab.dataflow.model.join import StreamJoin, minimum_spread

PLACES = {"left.t": 0, "x": 1, "right.t": 2, "y": 3}


def bounds(condition: str) -> dict[int, dict[int, int]]:
    return time_bounds(condition, PLACES, {0}, {2})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("left.t >= right.t", {2: {0: 0}}),
        ("left.t > right.t + -7", {2: {0: 7}}),
        ("left.t <= right.t + 10", {0: {2: 10}}),
        ("left.t - right.t < 10", {0: {2: 10}}),
        ("0 > left.t - right.t + 10", {0: {2: -10}}),
        ("left.t == right.t + 10", {2: {0: -10}, 0: {2: 10}}),
        ("left.t - 1 <= right.t <= left.t + 4", {0: {2: 1}, 2: {0: 4}}),
        ("left.t + x >= right.t + x", {2: {0: 0}}),
        ("-right.t >= -left.t", {2: {0: 0}}),
    ],
)
def test_edge_case_37_a_comparison_gives_a_bound(condition: str, expected: dict) -> None:
    assert bounds(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "left.t >= right.t or left.t <= right.t",
        "not left.t < right.t",
        "left.t != right.t",
        "left.t is None",
        "left.t >= right.t + x",
        "left.t >= x",
        "y >= x",
        "left.t + left.t >= right.t",
        "left.t * 1 >= right.t",
        "left.t + right.t >= 3",
        "left.t >= 3",
        "int(left.t) >= right.t",
        "left.t >= right.t + 1.5",
        "left.t >= right.t + True",
        "True",
    ],
)
def test_edge_case_37_what_gives_no_bound(condition: str) -> None:
    assert bounds(condition) == {}


def test_edge_case_37_of_several_bounds_the_tightest_counts() -> None:
    nested = "left.t >= right.t - 5 and (left.t >= right.t - -2 and (left.t >= right.t - 3))"
    assert bounds(nested) == {2: {0: -2}}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"keys": ({0: 0}, {0: 0})}, "Key 0 is on both sides"),
        ({"keys": ({}, {1: 0})}, "The left side of the join carries no watermarks"),
        ({"keys": ({0: 0}, {})}, "The right side of the join carries no watermarks"),
        ({"bounds": {0: {1: 1}, 1: {}}}, r"no time of the left side \(keys 0\) is bounded by one of the right"),
        ({"bounds": {1: {0: 1}}}, "no time of the right side"),
        ({"bounds": {0: {1: 1}, 1: {7: 1}}}, "A bound names key 7"),
        ({"kind": "full outer"}, "no join 'full outer'"),
        ({"output": "best"}, "no output formula 'best'"),
    ],
    ids=str,
)
def test_edge_case_37_a_join_that_cannot_run_is_refused(changed: dict, problem: str) -> None:
    sound = {"keys": ({0: 0}, {1: 0}), "widths": (1, 1), "bounds": {0: {1: 1}, 1: {0: 1}}, "condition": bool}
    assert StreamJoin(**sound).bounds == sound["bounds"]
    with pytest.raises(ModelError, match=problem):
        StreamJoin(**{**sound, **changed})


def test_a_bound_within_one_side_means_nothing_to_a_join() -> None:
    join = StreamJoin(
        keys=({0: 0, 2: 1}, {1: 0}), widths=(2, 1), bounds={0: {1: 1, 2: 5}, 1: {0: 1}}, condition=lambda row: True
    )
    assert join.bounds == {0: {1: 1}, 1: {0: 1}}


def test_the_spread_is_that_of_the_tightest_bounds() -> None:
    given_bounds = {0: {3: 10}, 1: {4: 12}, 2: {5: 15}, 3: {0: 6}, 4: {1: 13}, 5: {2: 7}}
    assert minimum_spread(given_bounds, range(3)) == 16
    assert minimum_spread({0: {1: -5}, 1: {0: 2}}, [0]) == 1
    for missing, side in ((0, "left"), (1, "right")):
        one_way = {key: amounts for key, amounts in {0: {1: 1}, 1: {0: 1}}.items() if key != missing}
        with pytest.raises(ModelError, match=f"no bound from the {side} side"):
            minimum_spread(one_way, [0])


COMPARISONS = st.builds(
    "left.t + {} {} right.t + {}".format,
    st.integers(-3, 3),
    st.sampled_from(["==", "<", "<=", ">", ">="]),
    st.integers(-3, 3),
)


@given(st.lists(COMPARISONS, min_size=1, max_size=4).map(" and ".join))
def test_bounds_hold_for_every_row_that_meets_the_condition(condition: str) -> None:
    holds = compiled(condition, PLACES)
    rows = [(left, None, right, None) for left, right in itertools.product(range(-8, 9), repeat=2)]
    meeting = [row for row in rows if holds(row)]
    assume(meeting)
    for known, bounded in bounds(condition).items():
        for other, amount in bounded.items():
            assert all(row[other] >= row[known] - amount for row in meeting)
