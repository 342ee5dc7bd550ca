"""Upstream class `PersistentStreamBase`: what lies between two stream cuts, and the epochs a cut spans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streams.model.strategies import histories, positions
from wmlab.core.errors import ModelError
from wmlab.streams.model.cut import stream_cut
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import parse_segment, segment_name

HISTORY = StreamHistory.create(2).scale(["1@0"], into=2).scale(["0@0", "2@1"], into=1)
HEAD, TAIL = Position(), Position()


def names(segments) -> str:
    return " ".join(segment.name for segment in segments)


def test_both_ends_are_included() -> None:
    found = HISTORY.segments_between(Position({"0@0": 3, "1@0": 1}), Position({"0@0": 5, "2@1": 1, "3@1": 0}))
    assert names(found) == "0@0 1@0 2@1 3@1"


def test_an_empty_cut_is_the_head_or_the_tail() -> None:
    assert names(HISTORY.segments_between(HEAD, TAIL)) == "0@0 1@0 2@1 3@1 4@2"
    assert names(HISTORY.segments_between(Position({"3@1": 1, "4@2": 9}), TAIL)) == "3@1 4@2"
    assert names(HISTORY.segments_between(HEAD, Position({"0@0": None, "1@0": None}))) == "0@0 1@0"


@pytest.mark.parametrize("end", [{"0@0": 5, "1@0": 5}, {"0@0": 3, "2@1": 0, "3@1": 0}])
def test_the_second_cut_must_not_lie_before_the_first(end) -> None:
    with pytest.raises(ModelError, match="lies before the first"):
        HISTORY.segments_between(Position({"0@0": 4, "2@1": 1, "3@1": 1}), Position(end))


@pytest.mark.parametrize("cut", [{"0@0": 1}, {"0@0": 1, "4@2": 1, "3@1": 1}])
def test_a_position_that_does_not_cover_the_key_space_once_is_refused(cut) -> None:
    with pytest.raises(ModelError, match="is not a stream cut"):
        HISTORY.segments_between(Position(cut), TAIL)


def test_bytes_are_counted_from_offset_to_offset() -> None:
    start, end = Position({"0@0": 10, "1@0": 20}), Position({"4@2": 5, "3@1": None})
    lengths = {parse_segment(name): 100 for name in ("0@0", "1@0", "2@1")}
    assert HISTORY.bytes_between(start, end, lengths) == 90 + 80 + 100 + 5
    assert HISTORY.bytes_between(end, TAIL, {parse_segment("3@1"): 7, parse_segment("4@2"): 8}) == 7 + 3
    with pytest.raises(ModelError, match="length of 0@0 is missing"):
        HISTORY.bytes_between(start, end, {})


def test_a_cut_spans_the_last_epochs_that_its_newest_segment_admits() -> None:
    spans = HISTORY.spans(Position({"0@0": 0, "2@1": 0, "3@1": 0}))
    assert {segment_name(segment): epoch for segment, epoch in spans.items()} == {"0@0": 1, "2@1": 1, "3@1": 1}


@given(st.data())
def test_between_successive_cuts_are_only_segments_of_either_or_in_between(data: st.DataObject) -> None:
    history = data.draw(histories())
    first = stream_cut([data.draw(positions(history))], None, history)
    second = stream_cut([data.draw(positions(history))], first, history)
    found = {segment.id for segment in history.segments_between(first, second)}
    assert set(first) | set(second) <= found
    assert found == {s.id for s in history.segments_between(first, TAIL)} & {
        s.id for s in history.segments_between(HEAD, second)
    }
