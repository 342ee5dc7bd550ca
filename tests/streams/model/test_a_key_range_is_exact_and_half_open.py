"""PDP-33, Watermark Computation; upstream class `SegmentWithRange`: ranges [low, high) of the key space."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.streams.model.segment import WHOLE, KeyRange, even_ranges, gaps, joined, overlap_free, same_space


def ranges(*bounds: str) -> list[KeyRange]:
    return [KeyRange.parse(text) for text in bounds]


def test_text_is_exact_both_ways() -> None:
    keys = KeyRange.of("1/3", "2/3")
    assert keys.text == "1/3..2/3"
    assert KeyRange.parse(keys.text) == keys
    assert repr(keys) == "KeyRange(1/3..2/3)"


def test_a_double_is_taken_exactly() -> None:
    assert KeyRange.of(0, 0.1).high == Fraction(0.1) != Fraction(1, 10)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (0.5, 0.25), (-0.1, 1), (0, 1.1), (2, 1), ("a", 1), (0, float("inf")), (0, "1/0")]
)
def test_other_bounds_are_refused(low, high) -> None:
    with pytest.raises(ModelError, match="not a"):
        KeyRange.of(low, high)


def test_other_text_is_refused() -> None:
    with pytest.raises(ModelError, match="not a key range"):
        KeyRange.parse("1/3-2/3")


def test_touching_ranges_do_not_overlap() -> None:
    left, right = ranges("0..1/2", "1/2..1")
    assert not left.overlaps(right)
    assert left.overlaps(WHOLE)
    assert right.contains(Fraction(1, 2))
    assert not left.contains(Fraction(1, 2))


@given(st.integers(1, 200))
def test_exact_even_ranges_cover_the_key_space(count: int) -> None:
    assert len(even_ranges(count)) == count
    assert gaps(even_ranges(count)) == ()


def test_double_even_ranges_may_stop_short_of_one() -> None:
    short = [n for n in range(1, 1001) if even_ranges(n, arithmetic="double")[-1].high != 1]
    assert short[:5] == [49, 98, 103, 107, 161]
    assert len(short) == 82
    assert gaps(even_ranges(49, arithmetic="double")) == (KeyRange.of(0.9999999999999999, 1),)


def test_no_segment_at_all_is_refused() -> None:
    with pytest.raises(ModelError, match="0 segments"):
        even_ranges(0)


def test_gaps_are_what_no_range_covers() -> None:
    assert gaps(ranges("1/8..1/4", "1/4..1/2", "3/8..5/8", "3/4..7/8")) == tuple(ranges("0..1/8", "5/8..3/4", "7/8..1"))
    assert gaps(ranges("0..3/4", "1/4..1/2", "7/8..1")) == tuple(ranges("3/4..7/8"))
    assert gaps([]) == (WHOLE,)
    assert gaps(ranges("0..1/2"), within=KeyRange.of(0, "1/2")) == ()
    assert gaps(ranges("3/4..1"), within=KeyRange.of(0, "1/2")) == (KeyRange.of(0, "1/2"),)


def test_the_same_space_may_be_divided_differently() -> None:
    assert same_space(ranges("0..1/2"), ranges("0..1/3", "1/3..1/2"))
    assert not same_space(ranges("0..1/2"), ranges("0..1/3"))
    assert not same_space(ranges("0..1/2"), ranges("0..1/3", "1/4..1/2"))
    assert not same_space([KeyRange.of(0, 0.3)], [KeyRange.of(0, 0.30000000000000004)])
    assert joined(ranges("1/2..1", "0..1/4")) == tuple(ranges("0..1/4", "1/2..1"))
    assert not overlap_free(ranges("0..1/2", "1/3..1"))
