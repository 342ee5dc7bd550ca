"""Upstream class `NameUtils`: the 64-bit id of a segment and its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.streams.model.segment import WHOLE, Segment, as_segment_id, parse_segment, segment_id, segment_name, split_id

PARTS = st.integers(0, 2**31 - 1)


@given(PARTS, PARTS)
def test_name_and_id_say_the_same(number: int, epoch: int) -> None:
    identifier = segment_id(number, epoch)
    assert split_id(identifier) == (number, epoch)
    assert parse_segment(segment_name(identifier)) == identifier == as_segment_id(f"{number}@{epoch}")


def test_of_two_segments_the_later_has_the_larger_id() -> None:
    assert parse_segment("0@1") > parse_segment("2147483647@0")


def test_a_segment_shows_its_name_and_range() -> None:
    assert repr(Segment(3, 1, WHOLE)) == "Segment(3@1 0..1)"
    assert Segment(3, 1, WHOLE).id == 4294967299


@pytest.mark.parametrize("text", ["", "1", "@1", "-1@0", "1@-1", "1@2@3", "2147483648@0", "a@b"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="is not a segment"):
        parse_segment(text)


@pytest.mark.parametrize("identifier", [-1, 2**31, 2**63])
def test_other_numbers_are_refused(identifier: int) -> None:
    with pytest.raises(ModelError, match="is not a segment"):
        as_segment_id(identifier)


def test_a_segment_with_a_negative_number_is_refused() -> None:
    with pytest.raises(ModelError, match="-1@0"):
        Segment(-1, 0, WHOLE)
