"""A windowed join: every match once per window, slices kept as long as a window may still be probed and no longer."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from wmlab.progress.model.windows import Fired, FiringRules, SlidingWindows, WindowedJoin

SHAPES = st.builds(SlidingWindows, st.integers(1, 12), st.integers(1, 12))
RECORDS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.sampled_from([0, 1])), max_size=15)


def built(windows: SlidingWindows, records, **options) -> WindowedJoin:
    join = WindowedJoin(FiringRules(windows=windows), origin=3, sides={1: 0, 2: 1}, **options)
    for time, key, side in records:
        join.build(1 + side, [time], [key])
    return join


def fired(windows: SlidingWindows, number: int) -> Fired:
    return Fired(number + 1, *windows.span(number), records=0, cause="watermark")


def pairs_of(windows: SlidingWindows, records, start: int, end: int) -> list[list[tuple[int, int, int]]]:
    """The records of each pair of slices of a window in which both sides have some, by the definition."""
    inside = [record for record in records if start <= record[0] < end]
    slices = {side: sorted({windows.slice_of(time) for time, _, of in inside if of == side}) for side in (0, 1)}
    return [
        [record for record in inside if windows.slice_of(record[0]) == (left, right)[record[2]]]
        for left in slices[0]
        for right in slices[1]
    ]


@given(SHAPES, RECORDS)
def test_the_outputs_of_a_window_are_its_pairs_of_slices_with_every_match_once(
    windows: SlidingWindows, records
) -> None:
    join = built(windows, records)
    for number in range(windows.ended_before(60)):
        window = fired(windows, number)
        pairs = pairs_of(windows, records, window.start, window.end)
        outputs = join.outputs(window)
        keys = [[Counter(key for _, key, of in pair if of == side) for side in (0, 1)] for pair in pairs]
        matches = [sum(left[key] * right[key] for key in left) for left, right in keys]
        assert [sum(found.values()) for _, found in outputs] == (matches or [0])
        stamps = [stamp for stamp, _ in outputs]
        assert {(stamp.origin, stamp.sequence, stamp.watermark) for stamp in stamps} == {(3, number + 1, window.start)}
        assert [(stamp.chunk, stamp.last) for stamp in stamps] == [
            (index, index == len(stamps) - 1) for index in range(max(1, len(pairs)))
        ]


@given(SHAPES, RECORDS, st.randoms(use_true_random=False))
def test_the_order_of_building_changes_nothing(windows: SlidingWindows, records, order) -> None:
    other = list(records)
    order.shuffle(other)
    assert built(windows, records).tables == built(windows, other).tables


@given(SHAPES, RECORDS)
def test_an_output_may_carry_the_largest_time_of_the_records_of_its_slices(windows: SlidingWindows, records) -> None:
    join = built(windows, records, carries="largest")
    for number in range(windows.ended_before(60)):
        window = fired(windows, number)
        largest = [max(time for time, _, _ in pair) for pair in pairs_of(windows, records, window.start, window.end)]
        assert [stamp.watermark for stamp, _ in join.outputs(window)] == (largest or [window.start])
