from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.repetitions import repetitions
from wmlab.core.charts.scene import (
    bands,
    constant_spans,
    longest_known,
    minus,
    staircases,
    stairs_until_unknown,
    thin,
    thinned,
    unknown_spans,
)


@pytest.mark.parametrize(
    ("rule", "columns", "expected"),
    [
        (staircases, ([0, 1, 2], [5, 7, 7]), [[(0, 5), (1, 5), (1, 7), (2, 7)]]),
        (staircases, ([0, 1, 2, 3], [5, None, None, 8]), [[(0, 5), (1, 5)], [(3, 8)]]),
        (staircases, (range(100), [3] * 100), [[(0, 3), (99, 3)]]),
        (stairs_until_unknown, ([0, 1, 2, 3], [None, 5, None, None]), ([0, 1, 2, 2, 3], [None, 5, 5, None, None])),
        (bands, ([0, 1, 2], [1, 2, 2], [4, 4, None]), [[(0, 1), (1, 1), (1, 2), (2, 2), (2, 4), (0, 4)]]),
        (bands, ([0, 1, 2], [None, 1, None], [4, None, 4]), []),
        (unknown_spans, ([0, 2, 5, 9], [None, 1, None, None]), [(0, 2), (5, 9)]),
        (minus, ([5, None, 3], [2, 1, None]), [3, None, None]),
        (thin, ([[1, 1, 1]], 3), [0, 1, 2]),
        (thin, ([[0] * 500 + [1] * 500], 10), [0, 500, 999]),
    ],
    ids=[
        "a value holds until the next row",
        "and until the unknown begins",
        "a repeated value adds no corner",
        "hold adds the end of the last known value",
        "a band runs along one curve and back along the other",
        "there is none where one bound is unknown",
        "unknown spans end where the value is known again",
        "a difference is unknown where either side is",
        "few rows are all kept",
        "rows that change nothing go first",
    ],
)
def test_what_is_drawn_of_steps(rule: Callable[..., Any], columns: tuple[Any, ...], expected: Any) -> None:
    assert rule(*columns) == expected


CAP = 60


def column(random: Random, rows: int) -> list[int | None]:
    """Values of one curve: they change at each row or seldom, and are always known, seldom unknown, or never known."""
    changing, unknown = random.choice([1.0, 0.05]), random.choice([0.0, 0.1, 1.0])
    values: list[int | None] = []
    for row in range(rows):
        if row == 0 or random.random() < changing:
            values.append(None if random.random() < unknown else random.randint(-50, 50))
        else:
            values.append(values[-1])
    return values


def test_thinning_keeps_ends_extremes_and_gaps_under_the_cap() -> None:
    shapes: set[tuple[int, bool, bool]] = set()
    for seed in range(repetitions(100, long=400)):
        random = Random(seed)
        rows = random.randint(200, 600)
        columns = [column(random, rows) for _ in range(random.randint(1, 3))]
        kept_rows = thin(columns, CAP)
        assert kept_rows == sorted(set(kept_rows))
        assert len(kept_rows) <= CAP
        assert (kept_rows[0], kept_rows[-1]) == (0, rows - 1)
        for values in columns:
            known = [value for value in values if value is not None]
            kept = [values[row] for row in kept_rows]
            assert not known or {min(known), max(known)} <= set(kept)
            assert (None in kept) == (None in values)
            shapes.add((len(columns), bool(known), None in values))
    assert shapes == {(of, *known) for of in (1, 2, 3) for known in ((True, False), (True, True), (False, True))}


def test_a_thinned_curve_is_off_by_a_few_pixels_at_most() -> None:
    """At any time it shows a value that the curve has close by, also where rows are far apart."""
    for seed in range(repetitions(40, long=200)):
        random = Random(seed)
        gaps = [random.randint(*random.choice([(1, 3), (1_000, 3_000)])) for _ in range(random.randint(61, 200))]
        xs, ys = list(accumulate(gaps)), [random.randint(0, 99) for _ in gaps]
        kept_xs, kept_ys = thinned(xs, ys, CAP)
        assert len(kept_xs) <= CAP
        near = (xs[-1] - xs[0]) / (CAP // 5)
        for at in range(xs[0], xs[-1], max(1, (xs[-1] - xs[0]) // 200)):
            first = max(bisect_right(xs, at - near) - 1, 0)
            shown = kept_ys[bisect_right(kept_xs, at) - 1]
            assert shown in ys[first : bisect_right(xs, at + near)]


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=30))
def test_staircases_and_unknown_spans_cover_the_clock_once(ys: list[int | None]) -> None:
    xs = list(range(0, 2 * len(ys), 2))
    known = sum(line[-1][0] - line[0][0] for line in staircases(xs, ys))
    unknown = sum(end - begin for begin, end in unknown_spans(xs, ys))
    assert known + unknown == xs[-1]


def test_a_standstill_lasts_until_the_row_that_changes_it_or_to_the_last_row() -> None:
    spans = constant_spans([0, 10, 20, 30, 50], [None, 5, 5, 7, 7])
    assert [(s.value, s.from_ms, s.to_ms, s.length_ms) for s in spans] == [
        (None, 0, 10, 10),
        (5, 10, 30, 20),
        (7, 30, 50, 20),
    ]
    assert [(list(s.rows), s.ended) for s in spans] == [([0], True), ([1, 2], True), ([3, 4], False)]


def test_the_longest_stop_is_of_a_known_value_and_lasts() -> None:
    """That it was unknown for longer does not count, nor does a value that is known at the end alone."""
    longest = longest_known([0, 50, 60, 90, 100, 110], [None, 5, None, 5, 5, 7])
    assert longest is not None
    assert (longest.value, longest.from_ms, longest.to_ms) == (5, 90, 110)
    first = longest_known([0, 10, 20, 30], [5, 6, None, None])
    assert first is not None
    assert (first.value, first.from_ms, first.to_ms) == (5, 0, 10)
    assert longest_known([0, 50], [None, 5]) is None
