"""A windowed join: every match once per window, slices kept as long as a window may still be probed and no longer."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from wmlab.progress.model.windows import CollectedSlice, JoinTables, Windows

SHAPES = st.builds(Windows, st.integers(1, 12), st.integers(1, 12))
RECORDS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.sampled_from([0, 1])), max_size=15)


def built(windows: Windows, records) -> JoinTables:
    tables = JoinTables(windows)
    for time, key, side in records:
        tables.build([time], [key], side)
    return tables


@given(SHAPES, RECORDS)
def test_the_pairs_of_slices_have_every_match_of_a_window_once(windows: Windows, records) -> None:
    tables = built(windows, records)
    for number in range(windows.ended_before(60)):
        start, end = windows.span(number)
        inside = [(key, side) for time, key, side in records if start <= time < end]
        wanted = sum(one == (other[0], 1 - other[1]) and other[1] == 1 for one in inside for other in inside)
        assert sum(tables.matches(*pair) for pair in tables.pairs(start, end)) == wanted


@given(SHAPES, RECORDS, st.randoms(use_true_random=False))
def test_the_order_of_building_changes_nothing(windows: Windows, records, order) -> None:
    other = list(records)
    order.shuffle(other)
    assert built(windows, records).slices == built(windows, other).slices


@given(SHAPES, RECORDS, st.integers(0, 70))
def test_a_slice_is_kept_while_a_window_from_the_watermark_on_holds_it(windows: Windows, records, mark: int) -> None:
    tables = built(windows, records)
    counts = Counter((windows.slice_of(time), side) for time, _, side in records)
    slices = sorted({piece for piece, _ in counts})
    wanted = [piece for piece in slices if piece[1] + windows.size < mark]
    gone = [CollectedSlice(*piece, counts[piece, 0], counts[piece, 1]) for piece in wanted]
    assert list(tables.collect(mark)) == gone
    for start, _ in wanted:
        assert all(windows.span(number)[0] < mark for number in windows.windows_of(start))
    assert sorted(tables.slices) == [start for start, _ in slices[len(wanted) :]]


@given(SHAPES, RECORDS, st.integers(0, 40))
def test_the_largest_time_of_two_slices_is_that_of_the_records_in_them(windows: Windows, records, mark: int) -> None:
    tables = built(windows, records)
    tables.collect(mark)
    for left, right in tables.pairs(0, 60):
        inside = [time for time, _, side in records if windows.slice_of(time)[0] == (left, right)[side]]
        assert tables.largest(left, right) == max(inside)
