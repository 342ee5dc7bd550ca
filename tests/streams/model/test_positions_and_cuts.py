"""PDP-33, Controller Changes; upstream `PersistentStreamBase`: positions, cuts, and what lies between two of them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, strategies as st

from tests.streams.model.strategies import histories, positions
from wmlab.core.errors import ModelError
from wmlab.streams.model.cut import stream_cut
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import (
    Position,
    is_lineage_valid,
    is_valid_cut,
    segment_bytes_between,
    segments_between,
)
from wmlab.streams.model.segment import parse_segment, segment_name

HISTORY = StreamHistory.create(2).scale(["1@0"], into=2).scale(["0@0", "2@1"], into=1)
HEAD, TAIL = Position(), Position()


@pytest.mark.parametrize(
    ("frm", "to", "problem"),
    [
        ({"0@0": 4, "2@1": 1, "3@1": 1}, {"0@0": 5, "1@0": 5}, "lies before the first"),
        ({"0@0": 4, "2@1": 1, "3@1": 1}, {"0@0": 3, "2@1": 0, "3@1": 0}, "lies before the first"),
        ({"0@0": 1}, {}, "is not a stream cut"),
        ({"0@0": 1, "4@2": 1, "3@1": 1}, {}, "is not a stream cut"),
    ],
)
def test_cuts_that_are_none_or_in_the_wrong_order_are_refused(frm, to, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        segments_between(Position(frm), Position(to), HISTORY)


def test_bytes_are_counted_from_offset_to_offset() -> None:
    start, end = Position({"0@0": 10, "1@0": 20}), Position({"4@2": 5, "3@1": None})
    lengths = {parse_segment(name): 100 for name in ("0@0", "1@0", "2@1")}
    found = segment_bytes_between(start, end, HISTORY, lengths)
    assert {segment_name(s): n for s, n in found.items()} == {"0@0": 90, "1@0": 80, "2@1": 100, "3@1": 0, "4@2": 5}
    rest = segment_bytes_between(end, TAIL, HISTORY, {parse_segment("3@1"): 7, parse_segment("4@2"): 8})
    assert sum(rest.values()) == 7 + 3
    with pytest.raises(ModelError, match="length of 0@0 is missing"):
        segment_bytes_between(start, end, HISTORY, {})


@given(st.data())
def test_between_successive_cuts_are_only_segments_of_either_or_in_between(data: st.DataObject) -> None:
    history = data.draw(histories())
    first = stream_cut([data.draw(positions(history))], None, history)
    second = stream_cut([data.draw(positions(history))], first, history)
    found = {segment.id for segment in segments_between(first, second, history)}
    assert set(first) | set(second) <= found
    assert found == {s.id for s in segments_between(first, TAIL, history)} & {
        s.id for s in segments_between(HEAD, second, history)
    }


def test_unknown_is_none_and_order_does_not_matter() -> None:
    position = Position({"1@0": None, "0@0": 10})
    assert position == Position({0: 10, 1: None}) == {0: 10, 1: None}
    assert hash(position) == hash(Position({0: 10, 1: None}))
    assert list(position) == [0, 1]
    assert repr(position) == "{0@0: 10, 1@0: –}"
    assert pickle.loads(pickle.dumps(position)) == position


def test_a_position_does_not_change() -> None:
    position = Position({"1@0": 5})
    with pytest.raises(AttributeError):
        position.offsets = {}


def test_a_segment_that_moves_keeps_the_others_as_they_are() -> None:
    position = Position({0: None, 1: 5})
    assert position.moved({1: 6}) == {0: None, 1: 6}
    assert position.moved({1: None}) == {0: None}
    assert list(position.moved({3: 1, 2: 0})) == [0, 1, 2, 3]
    with pytest.raises(ModelError, match="Offset -1 of segment 1@0 is negative"):
        position.moved({1: -1})


def test_what_is_no_position_is_refused() -> None:
    with pytest.raises(ModelError, match="Offset -1 of segment 0@0 is negative"):
        Position({"0@0": -1})
    for offered in (5, {"0@0": "5"}):
        with pytest.raises(ModelError, match="is not a position"):
            Position(offered)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"0\.5 is not a segment"):
        Position({0.5: 5})  # type: ignore[dict-item]


MERGED_AND_SPLIT = StreamHistory.create(2).scale(["0@0", "1@0"], into=1).scale(["2@1"], into=2)


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
    assert is_valid_cut(Position(cut), MERGED_AND_SPLIT) is valid
    if readable is None:
        with pytest.raises(ModelError, match="never had"):
            is_lineage_valid(Position(cut), MERGED_AND_SPLIT)
    else:
        assert is_lineage_valid(Position(cut), MERGED_AND_SPLIT) is readable
