"""A row of the stream is compared with the rows of a batch that have its key, and with no others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from wmlab.dataflow.model.items import RowValues
from wmlab.dataflow.model.join import LEFT, RIGHT, BatchJoin


@pytest.mark.parametrize("outer", [None, LEFT])
def test_a_row_is_compared_with_those_of_its_key_only_and_the_results_are_the_same(outer: int | None) -> None:
    compared = Counter[bool]()

    def joined(equal: tuple[tuple[int, int], ...]) -> list[Any]:
        def condition(row: RowValues) -> bool:
            compared[bool(equal)] += 1
            return row[1] is not None and row[1] == row[2] and row[0] < row[3]  # type: ignore[operator]

        join = BatchJoin(outer=outer, width=2, condition=condition, equal=equal)
        for row in [*((number % 50, 10 * number) for number in range(200)), (None, 5), (1.0, 7), (True, 900)]:
            join.row(row, RIGHT)
        for number in range(100):
            join.row((7 * number, None if number == 9 else number % 60), LEFT)
        assert join.size == 203
        return join.out

    assert joined(()) == joined(((1, 0),)) != []
    assert compared[False] == 100 * 203
    assert compared[True] <= 100 * 6
