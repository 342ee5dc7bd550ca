"""PDP-33, Watermark Computation: what a stream cut promises, for any history and any positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streams.model.strategies import histories, positions, writers
from wmlab.streams.model.cut import CutError, stream_cut
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position, behind_at_a_key, is_lineage_valid, is_valid_cut


def covers(cut: Position, position: Position, history: StreamHistory) -> bool:
    """Whether the cut is nowhere behind: at every key of every segment of the position."""
    return not any(
        history.segments[other].keys.overlaps(history.segments[segment].keys)
        and (other, cut[other] or 0) < (segment, (offset or 0) if other == segment else 0)
        for segment, offset in position.items()
        for other in cut
    )


@given(writers())
def test_it_is_at_or_beyond_every_writer_at_every_key(given_writers: tuple[StreamHistory, list[Position]]) -> None:
    history, noted = given_writers
    cut = stream_cut(noted, None, history)
    assert all(covers(cut, position, history) for position in noted)


@given(writers())
def test_it_covers_every_key_once_and_can_be_read(given_writers: tuple[StreamHistory, list[Position]]) -> None:
    history, noted = given_writers
    cut = stream_cut(noted, None, history)
    assert is_valid_cut(cut, history)
    assert is_lineage_valid(cut, history)
    assert None not in cut.values()


@given(st.data())
def test_it_is_never_behind_the_previous_cut(data: st.DataObject) -> None:
    history = data.draw(histories())
    previous = None
    for _ in range(3):
        noted = data.draw(st.lists(positions(history), min_size=1, max_size=3))
        cut = stream_cut(noted, previous, history)
        if previous is not None:
            assert covers(cut, previous, history)
            assert not behind_at_a_key(previous, cut, history.segments)
            assert is_lineage_valid(cut, history)
        previous = cut


@given(writers(), st.randoms())
def test_the_order_of_the_writers_does_not_matter(given_writers, random) -> None:
    history, noted = given_writers
    shuffled = random.sample(noted, len(noted))
    assert stream_cut(noted, None, history) == stream_cut(shuffled, None, history)


@given(writers())
def test_a_cut_that_is_good_already_stays_as_it_is(given_writers: tuple[StreamHistory, list[Position]]) -> None:
    history, noted = given_writers
    cut = stream_cut(noted, None, history)
    assert stream_cut([cut], cut, history) == cut


@pytest.mark.parametrize("algorithm", ["sound", "pravega"])
@pytest.mark.parametrize(
    ("noted", "reason"),
    [([Position()], "no positions"), ([], "no positions"), ([Position({"9@4": 1})], "unknown segment 9@4")],
)
def test_without_a_usable_position_there_is_no_cut(noted: list[Position], reason: str, algorithm) -> None:
    with pytest.raises(CutError) as refused:
        stream_cut(noted, Position({"0@0": 1}), StreamHistory.create(1), algorithm=algorithm)
    assert refused.value.reason == reason
