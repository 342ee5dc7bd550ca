"""The stream-to-stream join and its bounds: edge cases that no vector has, equality with a batch join for any order."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from tests.dataflow.model.driving import RULES, Driven, Instance, rows
from wmlab.core.errors import ModelError
from wmlab.core.expression import compiled, join_time_bounds
from wmlab.dataflow.model.items import MIN
from wmlab.dataflow.model.join import LEFT, RIGHT, START, StreamJoin, minimum_spread
from wmlab.dataflow.model.processor import JobFailedError, Reason


def join(back: int = 1, ahead: int = 1, rules: str = "sound", **options: Any) -> Driven:
    """Rows (time,) of both sides, key 0 left and 1 right, joined where left - back <= right <= left + ahead."""
    made = {
        "keys": ({0: 0}, {1: 0}),
        "widths": (1, 1),
        "bounds": {0: {1: back}, 1: {0: ahead}},
        "condition": lambda row: row[0] - back <= row[1] <= row[0] + ahead,
        "deviations": RULES[rules],
        **options,
    }
    return Driven(StreamJoin(**made))


def kept(driven: Driven) -> list[list[tuple]]:
    return [[row.values for row in side] for side in driven.state.buffers]


def two_keys(output: str, rules: str) -> Driven:
    """Columns i0, i1 left and i2 right: i2 between i1 - 1 and i1 + 4. Key 0 has no bound."""
    return join(
        rules=rules,
        keys=({0: 0, 1: 1}, {2: 0}),
        widths=(2, 1),
        bounds={1: {2: 1}, 2: {1: 4}},
        condition=lambda row: row[1] - 1 <= row[2] <= row[1] + 4,
        output=output,
    )


def test_edge_case_41_one_watermark_releases_several(rules: str) -> None:
    expected = {"state": [("wm", 1, 102), ("wm", 2, 101)], "buffer": [("wm", 0, 103), ("wm", 1, 102), ("wm", 2, 110)]}
    for output, released in expected.items():
        driven = two_keys(output, rules)
        driven.rows((102, 101), (102, 103))
        driven.edge_wm(0, 103, 0)
        driven.edge_wm(0, 102, 1)
        assert driven.edge_wm(1, 110, 2) == released


def test_edge_case_43_a_full_join_fails_at_the_next_row_and_one_with_much_output_counts_once(rules: str) -> None:
    """Two rows are kept; the one that comes has two results and fills the join, and the output has room for one."""
    instance = Instance(1, 1, processor=join(rules=rules, limit=3).processor, deviations=RULES[rules])
    instance.push(0, 0, (5,), (5,)).run()
    assert instance.push(1, 0, (5,)).run(room=1) == [(5, 5), (5, 5)]
    with pytest.raises(JobFailedError, match="limit of 3") as failure:
        instance.push(1, 0, (5,)).run()
    assert failure.value.reason == Reason.LIMIT_EXCEEDED


def test_a_restart_takes_the_lowest_of_all_instances() -> None:
    driven, other = join(), join()
    driven.edge_wm(0, 10, 0)
    driven.edge_wm(1, 10, 1)
    other.edge_wm(0, 8, 0)
    again = driven.restarted(join().processor, others=[other.state])
    assert again.state.received == {0: 8, 1: START}
    assert again.state.limits == {0: START, 1: 7}
    assert again.state.emitted == {0: START, 1: START}


@pytest.mark.parametrize(("outer", "padded"), [(LEFT, (5, None)), (RIGHT, (None, 9))])
def test_edge_case_45_unmatched_rows_leave_padded_at_the_end(outer: int, padded: tuple, rules: str) -> None:
    driven = join(rules=rules, outer=outer)
    driven.rows((1,), (5,))
    driven.rows((1,), (9,), edge=1)
    assert (driven.complete(), driven.size) == (([padded], 0) if rules == "sound" else ([], 4))


def test_watermarks_over_all_edges_and_of_other_keys_are_ignored(rules: str) -> None:
    driven = join(rules=rules)
    before = driven.processor.snapshot()
    assert driven.wm(50, key=0) == []
    assert driven.edge_wm(0, 50, 7) == []
    assert driven.state == before


Sides = tuple[list[tuple], list[tuple]]
Drawn = tuple[Sides, list[int]]


@st.composite
def side(draw: st.DrawFn) -> list[tuple]:
    """Rows ("row", time, number) and watermarks ("wm", value) of one side, no row below the watermark before it."""
    items: list[tuple] = []
    watermark = draw(st.integers(0, 3))
    for number in range(draw(st.integers(0, 6))):
        items.append(("row", watermark + draw(st.integers(0, 3)), number))
        if draw(st.booleans()):
            watermark += draw(st.integers(1, 4))
            items.append(("wm", watermark))
    return items


@st.composite
def interleaved(draw: st.DrawFn) -> Drawn:
    sides = (draw(side()), draw(side()))
    return sides, draw(st.permutations([0] * len(sides[0]) + [1] * len(sides[1])))


def play(driven: Driven, sides: Sides, order: list[int]) -> Driven:
    queues = [iter(side) for side in sides]
    for side in order:
        match next(queues[side]):
            case ("row", time, number):
                driven.row(time, number, edge=side)
            case ("wm", value):
                driven.edge_wm(side, value, side)
    return driven


def numbered(back: int, ahead: int, **options: Any) -> Driven:
    """As `join`, with rows (time, number)."""
    return join(back, ahead, widths=(2, 2), condition=lambda row: row[0] - back <= row[2] <= row[0] + ahead, **options)


def batch(sides: Sides, outer: int | None, back: int, ahead: int) -> Counter:
    left, right = ([item[1:] for item in side if item[0] == "row"] for side in sides)
    pairs = [(one, other) for one in left for other in right if one[0] - back <= other[0] <= one[0] + ahead]
    if outer == LEFT:
        pairs += [(one, (None, None)) for one in left if one not in [pair[0] for pair in pairs]]
    if outer == RIGHT:
        pairs += [((None, None), other) for other in right if other not in [pair[1] for pair in pairs]]
    return Counter((*one, *other) for one, other in pairs)


OUTER = st.sampled_from([None, LEFT, RIGHT])
AMOUNTS = st.integers(-3, 5)
OUTPUTS = st.sampled_from(["state", "buffer"])


@given(
    interleaved(),
    st.one_of(st.tuples(OUTER, st.just("sound")), st.just((None, "implementation"))),
    AMOUNTS,
    AMOUNTS,
    OUTPUTS,
)
def test_edge_case_46_rows_on_time_are_joined_as_in_a_batch_and_as_shipped_in_inner_joins(
    drawn: Drawn, outer_and_rules: tuple[int | None, str], back: int, ahead: int, output: str
) -> None:
    outer, rules = outer_and_rules
    driven = play(numbered(back, ahead, outer=outer, output=output, rules=rules), *drawn)
    driven.complete()
    assert driven.drops == []
    assert Counter(rows(driven.out)) == batch(drawn[0], outer, back, ahead)


@given(interleaved(), OUTER, AMOUNTS, AMOUNTS, OUTPUTS)
def test_no_result_is_below_a_watermark_before_it(
    drawn: Drawn, outer: int | None, back: int, ahead: int, output: str
) -> None:
    driven = play(numbered(back, ahead, outer=outer, output=output), *drawn)
    last = {0: START, 1: START}
    for item in driven.out:
        if item[0] == "wm":
            assert item[2] > last[item[1]]
            last[item[1]] = item[2]
        else:
            times = {0: item[0], 1: item[2]}
            assert all(time >= last[key] for key, time in times.items() if time is not None)


@given(interleaved(), OUTER, AMOUNTS, AMOUNTS)
def test_final_watermarks_and_state_do_not_depend_on_the_interleaving(
    drawn: Drawn, outer: int | None, back: int, ahead: int
) -> None:
    sides, order = drawn
    mixed, one_by_one = (play(numbered(back, ahead, outer=outer), sides, taken) for taken in (order, sorted(order)))
    assert mixed.state.emitted == one_by_one.state.emitted
    assert list(map(Counter, kept(mixed))) == list(map(Counter, kept(one_by_one)))


PLACES = {"left.t": 0, "x": 1, "right.t": 2, "y": 3}


def bounds(condition: str) -> dict[int, dict[int, int]]:
    return join_time_bounds(condition, PLACES, {0}, {2})


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
    "changed",
    [
        {"keys": ({0: 0}, {0: 0})},
        {"keys": ({}, {1: 0})},
        {"bounds": {0: {1: 1}, 1: {}}},
        {"bounds": {1: {0: 1}}},
        {"bounds": {0: {1: 1}, 1: {0: 1, 7: 1}}},
    ],
    ids=str,
)
def test_edge_case_37_a_join_that_cannot_run_is_refused(changed: dict) -> None:
    with pytest.raises(ModelError, match="needs different keys on its two sides and a bound in each direction"):
        join(**changed)


def test_the_spread_is_that_of_the_tightest_bounds() -> None:
    given_bounds = {0: {3: 10}, 1: {4: 12}, 2: {5: 15}, 3: {0: 6}, 4: {1: 13}, 5: {2: 7}}
    assert minimum_spread(given_bounds, range(3)) == 16
    assert minimum_spread({0: {1: -5}, 1: {0: 2}}, [0]) == 1


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


def test_bounds_within_one_side_mean_nothing_to_a_join() -> None:
    both = join(keys=({0: 0, 2: 1}, {1: 0}), bounds={0: {1: 1, 2: 5}, 1: {0: 1}, 2: {0: 5}}).processor
    assert {key: dict(bounded) for key, bounded in both.bounds.items() if bounded} == {0: {1: 1}, 1: {0: 1}}


def test_before_the_first_watermark_a_row_at_the_lowest_time_is_on_time() -> None:
    join = StreamJoin(
        keys=({0: 0}, {1: 0}), widths=(1, 1), bounds={0: {1: 0}, 1: {0: 0}}, condition=lambda row: row[0] == row[1]
    )
    join.row((MIN,), LEFT)
    assert (join.drops, join.size) == ([], 1)
    join.row((MIN,), RIGHT)
    assert join.out == [(MIN, MIN)]
