"""Aggregations: nulls, distinct values, and partial results that combine."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given, strategies as st

from wmlab.dataflow.model.aggregate import AGGREGATE_FUNCTIONS, Aggregation, combined_accumulators, created, group_order
from wmlab.dataflow.model.items import FieldValue

COLUMN = st.lists(st.none() | st.integers(-5, 5), max_size=12)


def part(aggregate: Aggregation, column: list[int | None]) -> FieldValue:
    """The accumulator of all values of a column."""
    return reduce(aggregate.accumulate, ((value,) for value in column), aggregate.create())


@pytest.mark.parametrize(
    ("aggregate", "expected", "of_nothing"),
    [
        (Aggregation("count"), 4, 0),
        (Aggregation("count", 0), 3, 0),
        (Aggregation("count", 0, distinct=True), 2, 0),
        (Aggregation("sum", 0), 7, None),
        (Aggregation("sum", 0, distinct=True), 4, None),
        (Aggregation("min", 0), 1, None),
        (Aggregation("min", 0, distinct=True), 1, None),
        (Aggregation("max", 0), 3, None),
        (Aggregation("max", 0, distinct=True), 3, None),
        (Aggregation("avg", 0), 7 / 3, None),
        (Aggregation("avg", 0, distinct=True), 2.0, None),
        (Aggregation("list", 0), (3, None, 1, 3), ()),
        (Aggregation("list", 0, distinct=True), (3, 1), ()),
    ],
    ids=str,
)
def test_nulls_equal_values_and_no_value(aggregate: Aggregation, expected: object, of_nothing: object) -> None:
    results = [aggregate.finish(part(aggregate, column)) for column in ([3, None, 1, 3], [])]
    assert results == [expected, of_nothing]


@given(st.sampled_from(AGGREGATE_FUNCTIONS), st.booleans(), COLUMN, COLUMN)
def test_combining_parts_gives_the_result_of_the_whole(
    function: str, distinct: bool, one: list[int | None], other: list[int | None]
) -> None:
    aggregate = Aggregation(function, 0, distinct)
    combined_accumulators = aggregate.combine(part(aggregate, one), part(aggregate, other))
    assert aggregate.finish(combined_accumulators) == aggregate.finish(part(aggregate, one + other))


def test_accumulators_of_several_aggregations_combine_one_by_one() -> None:
    aggregates = (Aggregation("count"), Aggregation("list", 0))
    assert created(aggregates) == (0, ())
    assert combined_accumulators(aggregates, (1, (5,)), (2, (6, 7))) == (3, (5, 6, 7))


def test_groups_of_any_values_have_one_order() -> None:
    groups = [("b", 1), (None, 2), ("a", None), (3, 1), ("a", 0)]
    assert sorted(groups, key=group_order) == [(None, 2), (3, 1), ("a", None), ("a", 0), ("b", 1)]
