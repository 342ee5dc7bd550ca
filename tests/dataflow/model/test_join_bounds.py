"""Bounds of a join: extraction from a condition, validity, spread, and edge case 37."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.condition import And, Cast, Column, Compare, Constant, NotDistinct, Or, Plus, between
from wmlab.dataflow.model.join import StreamJoin
from wmlab.dataflow.model.join_bounds import bounds_by_key, extract_bounds, minimum_spread

LEFT, RIGHT = Column(0), Column(2)


def shifted(column: Column, amount: int) -> Plus:
    return Plus(column, Constant(amount))


def bounds(condition: Any) -> dict[int, dict[int, int]]:
    return extract_bounds(condition, {0}, {2})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Compare(LEFT, ">=", RIGHT), {2: {0: 0}}),
        (Compare(LEFT, ">", shifted(RIGHT, -7)), {2: {0: 7}}),
        (Compare(LEFT, "<=", shifted(RIGHT, 10)), {0: {2: 10}}),
        (Compare(Plus(LEFT, RIGHT, minus=True), "<", Constant(10)), {0: {2: 10}}),
        (Compare(Constant(0), ">", shifted(Plus(LEFT, RIGHT, minus=True), 10)), {0: {2: -10}}),
        (Compare(LEFT, "=", shifted(RIGHT, 10)), {2: {0: -10}, 0: {2: 10}}),
        (between(RIGHT, shifted(LEFT, -1), shifted(LEFT, 4)), {0: {2: 1}, 2: {0: 4}}),
        (Compare(Plus(LEFT, Column(1)), ">=", Plus(RIGHT, Column(1))), {2: {0: 0}}),
        (Compare(Cast(LEFT, "tinyint", "bigint"), ">=", Cast(RIGHT, "integer", "bigint")), {2: {0: 0}}),
    ],
    ids=str,
)
def test_edge_case_37_a_comparison_gives_a_bound(condition: Any, expected: dict) -> None:
    assert bounds(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        Or((Compare(LEFT, ">=", RIGHT), Compare(LEFT, "<=", RIGHT))),
        NotDistinct(LEFT, RIGHT),
        Compare(LEFT, ">=", Plus(RIGHT, Column(1))),
        Compare(LEFT, ">=", Column(1)),
        Compare(Column(3), ">=", Column(1)),
        Compare(Plus(LEFT, LEFT), ">=", RIGHT),
        Compare(Plus(LEFT, RIGHT), ">=", Constant(3)),
        Compare(LEFT, ">=", Constant(3)),
        Compare(Cast(LEFT, "varchar", "bigint"), ">=", RIGHT),
        Compare(LEFT, ">=", Plus(RIGHT, Constant(1.5))),
        And(()),
    ],
    ids=str,
)
def test_edge_case_37_what_gives_no_bound(condition: Any) -> None:
    assert bounds(condition) == {}


def test_edge_case_37_of_several_bounds_the_tightest_counts() -> None:
    parts = tuple(Compare(LEFT, ">=", shifted(RIGHT, -amount)) for amount in (5, -2, 3))
    nested = And((parts[0], And((parts[1], And((parts[2],))))))
    assert bounds(nested) == {2: {0: -2}}


KEYS: tuple[dict[int, int], dict[int, int]] = ({0: 0}, {1: 1})


def test_bounds_are_named_by_key() -> None:
    condition = between(Column(3), shifted(Column(0), -1), shifted(Column(0), 4))
    assert bounds_by_key(condition, *KEYS, left_width=2) == {0: {1: 1}, 1: {0: 4}}


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (Compare(Column(0), "<=", Column(3)), "no time of the left side .* one of the right .* column 0 <= column 3"),
        (Compare(Column(0), ">=", Column(3)), "no time of the right side .* one of the left"),
        (Or((Compare(Column(0), "=", Column(3)),)), r"\(column 0 = column 3\) bounds nothing, since it is an OR"),
        (And(()), "the condition is true"),
    ],
    ids=str,
)
def test_edge_case_37_a_missing_bound_is_named(condition: Any, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        bounds_by_key(condition, *KEYS, left_width=2)


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


def test_conditions_have_three_values() -> None:
    unknown, true, false = Compare(Column(0), "=", Constant(1)), Constant(1), Constant(2)
    is_true, is_false = Compare(true, "<", false), Compare(true, ">=", false)
    row = (None,)
    assert unknown.holds(row) is None
    assert And((is_true, unknown)).holds(row) is None
    assert And((is_false, unknown)).holds(row) is False
    assert And((is_true,)).holds(row) is True
    assert Or((is_false, unknown)).holds(row) is None
    assert Or((is_true, unknown)).holds(row) is True
    assert Or((is_false,)).holds(row) is False
    assert NotDistinct(Column(0), Constant(None)).holds(row) is True
    assert Plus(Column(0), Constant(1)).value(row) is None


@pytest.mark.parametrize(
    ("cast", "expected"),
    [
        (Cast(Constant(3), "integer", "varchar"), "3"),
        (Cast(Constant("3"), "varchar", "bigint"), 3),
        (Cast(Constant(3), "integer", "double"), 3.0),
        (Cast(Constant(3), "timestamp", "timestamp with time zone"), 3),
        (Cast(Constant(None), "varchar", "bigint"), None),
    ],
    ids=str,
)
def test_casts(cast: Cast, expected: object) -> None:
    found = cast.value(())
    assert (found, type(found)) == (expected, type(expected))


def test_unknown_words_are_named() -> None:
    with pytest.raises(ModelError, match="no type 'blob'"):
        Cast(LEFT, "blob", "integer")
    with pytest.raises(ModelError, match="no comparison '<>'"):
        Compare(LEFT, "<>", RIGHT)


COMPARISONS = st.builds(
    lambda operator, left, right: Compare(shifted(LEFT, left), operator, shifted(RIGHT, right)),
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.integers(-3, 3),
    st.integers(-3, 3),
)


@given(st.lists(COMPARISONS, max_size=4).map(lambda parts: And(tuple(parts))))
def test_bounds_hold_for_every_row_that_meets_the_condition(condition: And) -> None:
    found = bounds(condition)
    rows = [(left, None, right) for left, right in itertools.product(range(-8, 9), repeat=2)]
    meeting = [row for row in rows if condition.holds(row)]
    assume(meeting)
    for known, bounded in found.items():
        for other, amount in bounded.items():
            assert all(row[other] >= row[known] - amount for row in meeting)
