"""Aggregations: nulls, distinct values, and partial results that combine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.aggregate import FUNCTIONS, Aggregate, combined, created, group_order

COLUMN = st.lists(st.none() | st.integers(-5, 5), max_size=12)


def result(aggregate: Aggregate, column: list[int | None]) -> object:
    found = aggregate.create()
    for value in column:
        found = aggregate.accumulate(found, (value,))
    return aggregate.finish(found)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (Aggregate("count"), 4),
        (Aggregate("count", 0), 3),
        (Aggregate("count", 0, distinct=True), 2),
        (Aggregate("sum", 0), 7),
        (Aggregate("sum", 0, distinct=True), 4),
        (Aggregate("min", 0), 1),
        (Aggregate("max", 0), 3),
        (Aggregate("avg", 0), 7 / 3),
        (Aggregate("avg", 0, distinct=True), 2.0),
        (Aggregate("list", 0), (3, None, 1, 3)),
        (Aggregate("list", 0, distinct=True), (3, 1)),
    ],
    ids=str,
)
def test_nulls_and_equal_values(aggregate: Aggregate, expected: object) -> None:
    assert result(aggregate, [3, None, 1, 3]) == expected


@pytest.mark.parametrize(
    ("function", "expected"), [("count", 0), ("sum", None), ("min", None), ("max", None), ("avg", None), ("list", ())]
)
@pytest.mark.parametrize("distinct", [False, True])
def test_without_any_value(function: str, expected: object, distinct: bool) -> None:
    assert result(Aggregate(function, 0, distinct), []) == expected


@given(st.sampled_from(FUNCTIONS), st.booleans(), COLUMN, COLUMN)
def test_combining_parts_gives_the_result_of_the_whole(
    function: str, distinct: bool, one: list[int | None], other: list[int | None]
) -> None:
    aggregate = Aggregate(function, 0, distinct)
    parts = []
    for column in (one, other):
        found = aggregate.create()
        for value in column:
            found = aggregate.accumulate(found, (value,))
        parts.append(found)
    assert aggregate.finish(aggregate.combine(*parts)) == result(aggregate, one + other)


def test_accumulators_of_several_aggregations_combine_one_by_one() -> None:
    aggregates = (Aggregate("count"), Aggregate("list", 0))
    assert created(aggregates) == (0, ())
    assert combined(aggregates, (1, (5,)), (2, (6, 7))) == (3, (5, 6, 7))


def test_groups_of_any_values_have_one_order() -> None:
    groups = [("b", 1), (None, 2), ("a", None), (3, 1), ("a", 0)]
    assert sorted(groups, key=group_order) == [(None, 2), (3, 1), ("a", None), ("a", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(("median", 0), "no aggregation 'median'"), (("sum",), "sum has no column"), (("count", None, True), "distinct")],
)
def test_mistakes_are_named(arguments: tuple[object, ...], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        Aggregate(*arguments)
