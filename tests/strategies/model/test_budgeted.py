"""Bounds that spend one budget of late records on several writers."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies.model.logs import logs, xs
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record
from wmlab.strategies.model.targets import BudgetedMinimum, budgets

VALUES = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 20), min_size=1, max_size=7), min_size=1)


@given(VALUES, st.integers(0, 8))
def test_no_other_bounds_that_leave_out_as_many_are_shorter(given_values: dict[str, list[int]], most: int) -> None:
    values = {writer: sorted(own, reverse=True) for writer, own in given_values.items()}
    counts = {writer: len(own) for writer, own in values.items()}
    found = budgets({writer: own[: most + 1] for writer, own in values.items()}, counts, most)
    left_out = sum(value > found[writer] for writer, own in values.items() for value in own)
    assert left_out <= most
    places = {writer: values[writer].index(bound) for writer, bound in found.items()}
    cost = sum(counts[writer] * bound for writer, bound in found.items())
    every = product(*([(writer, k) for k in range(len(own))] for writer, own in values.items()))
    assert cost == min(
        sum(counts[writer] * values[writer][k] for writer, k in choice)
        for choice in every
        if sum(k for _, k in choice) <= sum(places.values())
    )


def test_the_writer_that_saves_more_gets_the_budget() -> None:
    largest = {"punctual": [3, 2, 1, 0], "erratic": [90, 50, 20, 10]}
    assert budgets(largest, {"punctual": 4, "erratic": 4}, 2) == {"punctual": 3, "erratic": 20}
    # Steps of 3 and 20 records: what saves most for each late record goes first, whole or not at all.
    assert budgets({"a": [9, 9, 0], "b": [4, 1]}, {"a": 3, "b": 2}, 2) == {"a": 0, "b": 4}
    assert budgets({"a": [9, 9, 0], "b": [4, 1]}, {"a": 3, "b": 2}, 1) == {"a": 9, "b": 4}
    assert budgets({"a": [10, 9], "b": [5, 0]}, {"a": 2, "b": 2}, 1) == {"a": 10, "b": 0}
    # The second step of a saves 4, more than the step of b.
    assert budgets({"a": [10, 4, 0], "b": [3, 0]}, {"a": 1, "b": 1}, 2) == {"a": 0, "b": 3}
    # Steps of one writer that save equally are one.
    assert budgets({"a": [4, 2, 0]}, {"a": 3}, 1) == {"a": 4}
    assert budgets({"a": [10, 4, 2, 0]}, {"a": 1}, 2) == {"a": 4}
    # Of one more than may be late, the side ends before: the budget is spent.
    assert budgets({"a": [4, 2]}, {"a": 3}, 1) == {"a": 2}
    # A steep step is taken without the flatter ones behind it.
    assert budgets({"a": [10, 7, 6, 5, 0]}, {"a": 1}, 1) == {"a": 7}


class Watched(list[int]):
    """Keeps which places were looked at."""

    def __init__(self, values: list[int]) -> None:
        super().__init__(values)
        self.places: set[int] = set()

    def __getitem__(self, place: int) -> int:  # type: ignore[override]
        self.places.add(place)
        return super().__getitem__(place)


def test_values_that_can_only_be_on_a_flatter_side_are_not_looked_at() -> None:
    values = Watched([100] + [60] * 99)
    assert budgets({"a": values}, {"a": 100}, 0) == {"a": 100}
    assert values.places == {0, 1, 99}


def test_a_writer_that_is_not_in_the_plan_has_its_largest_bound() -> None:
    log = [(10, "a"), (10, "b"), (5, "b"), (20, "a"), (30, "b"), (22, "c"), (40, "a")]
    # The plan after four records has the bounds 0 and 5; c stands at 22 - 5 and holds X.
    found = xs(BudgetedMinimum(0.01, every=4), [Record(time, 0, writer) for time, writer in log])
    assert found == [UNKNOWN] * 4 + [20, 20, 20]


def test_a_share_of_one_in_49_spares_one_record() -> None:
    log = [Record(time, 0) for time in [*range(1, 48), 0, 48]]
    assert int(1 / 49 * 49) == 0, "the share is no exact double"
    assert xs(BudgetedMinimum(1 / 49, every=49), log)[-1] == 48


@given(logs(), st.integers(1, 15), st.integers(1, 15))
@example([Record(time, 0, "a") for time in (0, 0, 0, 0, 2, 0, 1)], 7, 4)
def test_it_is_the_least_over_writers_with_the_bounds_of_the_last_plan(
    records: list[Record], every: int, size: int
) -> None:
    tops: dict[str, int] = {}
    late_by: dict[str, list[int]] = {}
    marks: dict[str, int] = {}
    bounds: dict[str, int] = {}
    expected, x = [], UNKNOWN
    for index, record in enumerate(records, 1):
        writer, time = record.writer, record.event_time
        late_by.setdefault(writer, []).append(max(0, tops.get(writer, time) - time))
        tops[writer] = max(tops.get(writer, time), time)
        if index % every == 0:
            last = {name: sorted(own[-size:], reverse=True) for name, own in late_by.items()}
            counts = {name: len(own) for name, own in last.items()}
            late = sum(counts.values()) * 3 // 10
            bounds = budgets({name: own[: late + 1] for name, own in last.items()}, counts, late)
        mark = tops[writer] - bounds.get(writer, max(bounds.values())) if bounds else UNKNOWN
        marks[writer] = max(marks.get(writer, UNKNOWN), mark)
        x = max(x, min(marks.values()))
        expected.append(x)
    assert xs(BudgetedMinimum(0.3, size, every), [*records, EndOfInput()]) == [*expected, END]
