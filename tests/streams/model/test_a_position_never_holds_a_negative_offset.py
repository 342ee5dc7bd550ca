"""PDP-33, Controller Changes: positions; upstream issue 6510 is what comes of a number for the unknown."""

from __future__ import annotations

import pickle

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Order, Position, ReaderPosition, compare_cuts, is_lineage_valid, is_valid_cut


def test_unknown_is_none_and_order_does_not_matter() -> None:
    position = Position({"1@0": None, "0@0": 10})
    assert position == Position({0: 10, 1: None}) == {0: 10, 1: None}
    assert hash(position) == hash(Position({0: 10, 1: None}))
    assert list(position) == [0, 1]
    assert repr(position) == "{0@0: 10, 1@0: –}"
    assert pickle.loads(pickle.dumps(position)) == position


def test_a_finished_segment_has_no_offset() -> None:
    position = ReaderPosition({"1@0": 5}, ["0@0"])
    assert repr(position) == "{0@0: end, 1@0: 5}"
    assert pickle.loads(pickle.dumps(position)) == position != ReaderPosition({"1@0": 5})
    assert len({position, ReaderPosition({1: 5}, [0])}) == 1
    with pytest.raises(ModelError, match="0@0 is finished and has an offset"):
        ReaderPosition({"0@0": 5}, ["0@0"])
    with pytest.raises(AttributeError):
        position.offsets = {}


@pytest.mark.parametrize("make", [Position, ReaderPosition])
def test_a_negative_offset_is_refused(make) -> None:
    with pytest.raises(ModelError, match="Offset -1 of segment 0@0 is negative"):
        make({"0@0": -1})


HISTORY = StreamHistory.create(2).scale(["0@0", "1@0"], into=1).scale(["2@1"], into=2)


@pytest.mark.parametrize(
    ("first", "second", "order"),
    [
        ({"0@0": 1, "1@0": 1}, {"0@0": 1, "1@0": 1}, Order.EQUAL_OR_AFTER),
        ({"2@1": 0}, {"0@0": 9, "1@0": 9}, Order.EQUAL_OR_AFTER),
        ({"0@0": 9, "1@0": 9}, {"2@1": 0}, Order.BEFORE),
        ({"0@0": 9, "1@0": 0}, {"0@0": 0, "1@0": 9}, Order.OVERLAPS),
        ({"0@0": None, "1@0": 0}, {"0@0": 0, "1@0": 0}, Order.EQUAL_OR_AFTER),
    ],
)
def test_cuts_are_ordered_key_by_key(first, second, order: Order) -> None:
    assert compare_cuts(Position(first), Position(second), HISTORY) is order


@pytest.mark.parametrize(
    ("cut", "valid", "readable"),
    [
        ({"0@0": 1, "1@0": 1}, True, True),
        ({"2@1": 1}, True, True),
        ({"3@2": 1, "1@0": 1}, True, False),
        ({"3@2": 1, "4@2": 1}, True, True),
        ({"3@2": 1}, False, True),
        ({"2@1": 1, "3@2": 1, "4@2": 1}, False, False),
        ({"9@9": 1}, False, None),
    ],
)
def test_a_cut_covers_each_key_once_and_nothing_before_it_is_unread(cut, valid: bool, readable: bool | None) -> None:
    assert is_valid_cut(Position(cut), HISTORY) is valid
    if readable is None:
        with pytest.raises(ModelError, match="never had"):
            is_lineage_valid(Position(cut), HISTORY)
    else:
        assert is_lineage_valid(Position(cut), HISTORY) is readable
