"""PDP-33, Watermark Computation; upstream `SegmentWithRange`, `NameUtils`, `HashHelper`: ranges, names and keys."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import wmlab as wm
from wmlab.core.errors import ModelError
from wmlab.streams.model.segment import (
    WHOLE,
    KeyRange,
    Segment,
    as_segment_id,
    even_ranges,
    gaps,
    joined_ranges,
    key_of,
    parse_segment,
    same_space,
    segment_id,
    segment_name,
    split_id,
)


def ranges(*bounds: str) -> list[KeyRange]:
    return [KeyRange.parse(text) for text in bounds]


def test_text_and_doubles_are_exact() -> None:
    keys = KeyRange.of("1/3", "2/3")
    assert keys.text == "1/3..2/3"
    assert KeyRange.parse(keys.text) == keys
    assert repr(keys) == "KeyRange(1/3..2/3)"
    assert KeyRange.of(0, 0.1).high == Fraction(0.1) != Fraction(1, 10)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (0.5, 0.25), (-0.1, 1), (0, 1.1), (2, 1), ("a", 1), (0, float("inf")), (0, "1/0")]
)
def test_other_bounds_are_refused(low, high) -> None:
    with pytest.raises(ModelError, match="not a"):
        KeyRange.of(low, high)


def test_touching_ranges_do_not_overlap() -> None:
    left, right = ranges("0..1/2", "1/2..1")
    assert not left.overlaps(right)
    assert left.overlaps(WHOLE)
    assert right.low == left.high == Fraction(1, 2)


@given(st.integers(1, 200))
def test_exact_even_ranges_cover_the_key_space(count: int) -> None:
    assert len(even_ranges(count)) == count
    assert gaps(even_ranges(count)) == ()


def test_double_even_ranges_may_stop_short_of_one() -> None:
    short = [n for n in range(1, 1001) if even_ranges(n, arithmetic="double")[-1].high != 1]
    assert short[:5] == [49, 98, 103, 107, 161]
    assert len(short) == 82
    assert gaps(even_ranges(49, arithmetic="double")) == (KeyRange.of(0.9999999999999999, 1),)


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
    assert joined_ranges(ranges("1/2..1", "0..1/4")) == tuple(ranges("0..1/4", "1/2..1"))


PARTS = st.integers(0, 2**31 - 1)


@given(PARTS, PARTS)
def test_name_and_id_say_the_same(number: int, epoch: int) -> None:
    identifier = segment_id(number, epoch)
    assert split_id(identifier) == (number, epoch)
    assert parse_segment(segment_name(identifier)) == identifier == as_segment_id(f"{number}@{epoch}")
    assert repr(segment := Segment(number, epoch, WHOLE)) == f"Segment({number}@{epoch} 0..1)"
    assert segment.id == identifier


def test_of_two_segments_the_later_has_the_larger_id() -> None:
    assert parse_segment("0@1") > parse_segment("2147483647@0")


@pytest.mark.parametrize(
    ("make", "wrong", "problem"),
    [
        *((parse_segment, text, "is not a segment") for text in ["", "1", "@1", "-1@0", "1@-1", "1@2@3", "a@b"]),
        (parse_segment, f"{2**31}@0", "is not a segment"),
        *((as_segment_id, number, "is not a segment") for number in [-1, 2**31, 2**63]),
        (lambda number: Segment(number, 0, WHOLE), -1, "-1@0"),
        (KeyRange.parse, "1/3-2/3", "not a key range"),
        (even_ranges, 0, "0 segments"),
    ],
)
def test_what_is_no_segment_or_range_is_refused(make, wrong, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        make(wrong)


def test_the_key_is_the_same_in_every_process() -> None:
    assert key_of("sensor-1") == Fraction(14916834108620745361, 2**64)


def test_keys_spread_over_all_segments() -> None:
    keys = [key_of(str(i)) for i in range(2_000)]
    assert all(400 < sum(part.low <= key < part.high for key in keys) < 600 for part in even_ranges(4))


@pytest.mark.parametrize(("name", "identifier"), [("2@1", 4_294_967_298), ("0@0", 0), ("2147483647@0", 2**31 - 1)])
def test_the_public_conversion_goes_both_ways(name: str, identifier: int) -> None:
    for offered in (name, identifier, np.int64(identifier)):
        assert wm.trace.segment_id(offered) == identifier
        assert type(wm.trace.segment_id(offered)) is int
        assert wm.trace.segment_name(offered) == name


@pytest.mark.parametrize(
    "offered", ["2", "2@", "@1", "2@1@0", " 2@1", "x@1", "9" * 5_000 + "@0", "٣@1", -1, 2**63, 2.0, True, None]
)
def test_what_names_no_segment_is_refused_by_both(offered: Any) -> None:
    for convert in (wm.trace.segment_id, wm.trace.segment_name):
        with pytest.raises(ModelError, match=r"is not a segment(?s:.)*number@epoch|Give a number and an epoch"):
            convert(offered)
