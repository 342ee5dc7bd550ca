from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.charts.scene import bands, hold, minus, staircases, standstills, thin, unknown_spans


def test_a_value_holds_until_the_next_row() -> None:
    assert staircases([0, 1, 2], [5, 7, 7]) == [[(0, 5), (1, 5), (1, 7), (2, 7)]]


def test_a_value_holds_until_the_unknown_begins() -> None:
    assert staircases([0, 1, 2, 3], [5, None, None, 8]) == [[(0, 5), (1, 5)], [(3, 8)]]


def test_a_repeated_value_adds_no_corner() -> None:
    assert staircases(range(100), [3] * 100) == [[(0, 3), (99, 3)]]


def test_hold_adds_the_end_of_the_last_known_value() -> None:
    assert hold([0, 1, 2, 3], [None, 5, None, None]) == ([0, 1, 2, 2, 3], [None, 5, 5, None, None])


def test_a_band_runs_along_one_curve_and_back_along_the_other() -> None:
    assert bands([0, 1, 2], [1, 2, 2], [4, 4, None]) == [[(0, 1), (1, 1), (1, 2), (2, 2), (2, 4), (0, 4)]]


def test_there_is_no_band_where_one_bound_is_unknown() -> None:
    assert bands([0, 1, 2], [None, 1, None], [4, None, 4]) == []


def test_unknown_spans_end_where_the_value_is_known_again() -> None:
    assert unknown_spans([0, 2, 5, 9], [None, 1, None, None]) == [(0, 2), (5, 9)]


def test_minus_is_unknown_where_either_side_is() -> None:
    assert minus([5, None, 3], [2, 1, None]) == [3, None, None]


def test_few_rows_are_all_kept() -> None:
    assert thin([[1, 1, 1]], 3) == [0, 1, 2]


def test_rows_that_change_nothing_go_first() -> None:
    column = [0] * 500 + [1] * 500
    assert thin([column], 10) == [0, 500, 999]


columns = st.integers(200, 600).flatmap(
    lambda rows: st.lists(
        st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=rows, max_size=rows), min_size=1, max_size=3
    )
)


@given(columns)
def test_thinning_keeps_ends_extremes_and_gaps_under_the_cap(columns: list[list[int | None]]) -> None:
    rows = thin(columns, 60)
    assert rows == sorted(set(rows))
    assert len(rows) <= 60
    assert rows[0] == 0
    assert rows[-1] == len(columns[0]) - 1
    for column in columns:
        known = [value for value in column if value is not None]
        kept = [column[i] for i in rows]
        assert not known or {min(known), max(known)} <= set(kept)
        assert (None in kept) == (None in column)


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=30))
def test_staircases_and_unknown_spans_cover_the_clock_once(ys: list[int | None]) -> None:
    xs = list(range(0, 2 * len(ys), 2))
    known = sum(line[-1][0] - line[0][0] for line in staircases(xs, ys))
    unknown = sum(end - begin for begin, end in unknown_spans(xs, ys))
    assert known + unknown == xs[-1]


def test_a_standstill_lasts_until_the_row_that_changes_it_or_to_the_last_row() -> None:
    found = standstills([0, 10, 20, 30, 50], [None, 5, 5, 7, 7])
    assert [(s.value, s.from_ms, s.to_ms, s.length_ms) for s in found] == [
        (None, 0, 10, 10),
        (5, 10, 30, 20),
        (7, 30, 50, 20),
    ]
    assert [(list(s.rows), s.ended) for s in found] == [([0], True), ([1, 2], True), ([3, 4], False)]
