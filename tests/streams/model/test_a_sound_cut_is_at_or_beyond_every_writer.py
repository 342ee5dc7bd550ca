"""PDP-33, Watermark Computation: what a stream cut promises, for any history and any positions.

That of the upstream class `WatermarkWorkflow` depends on the order, moves backwards, and can be unreadable.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.streams.model.strategies import histories, positions, writers
from wmlab.streams.model.cut import CutError, CutRules, stream_cut
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position, behind_at_a_key, is_lineage_valid, is_valid_cut
from wmlab.streams.model.segment import KeyRange


def covers(cut: Position, position: Position, history: StreamHistory) -> bool:
    """Whether the cut is nowhere behind: at every key of every segment of the position."""
    return not any(
        history.segments[other].keys.overlaps(history.segments[segment].keys)
        and (other, cut[other] or 0) < (segment, (offset or 0) if other == segment else 0)
        for segment, offset in position.items()
        for other in cut
    )


@given(writers(), st.randoms())
def test_it_is_beyond_every_writer_covers_every_key_once_can_be_read_and_does_not_depend_on_the_order(
    given_writers: tuple[StreamHistory, list[Position]], random
) -> None:
    history, noted = given_writers
    cut = stream_cut(noted, None, history)
    assert all(covers(cut, position, history) for position in noted)
    assert is_valid_cut(cut, history)
    assert is_lineage_valid(cut, history)
    assert None not in cut.values()
    assert stream_cut(random.sample(noted, len(noted)), None, history) == cut
    assert stream_cut([cut], cut, history) == cut, "a cut that is good already stays as it is"


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


@pytest.mark.parametrize("algorithm", ["sound", "pravega"])
@pytest.mark.parametrize(
    ("noted", "reason"),
    [([Position()], "no positions"), ([], "no positions"), ([Position({"9@4": 1})], "unknown segment 9@4")],
)
def test_without_a_usable_position_there_is_no_cut(noted: list[Position], reason: str, algorithm) -> None:
    with pytest.raises(CutError) as refused:
        stream_cut(noted, Position({"0@0": 1}), StreamHistory.create(1), CutRules(algorithm=algorithm))
    assert refused.value.reason == reason


MERGED_AND_SPLIT = StreamHistory.create(2).scale(["0@0", "1@0"], into=1).scale(["2@1"], into=2)
ORDERS = ("as_noted", "newest_first", "oldest_first")
PRAVEGA = CutRules(algorithm="pravega")


def test_the_order_of_the_visits_decides_about_the_cut() -> None:
    noted = [Position({"4@2": 5}), Position({"2@1": 50}), Position({"0@0": 10})]
    history = MERGED_AND_SPLIT
    cuts = {
        order: stream_cut(noted, None, history, CutRules(algorithm="pravega", visit_order=order)) for order in ORDERS
    }
    assert cuts["as_noted"] == cuts["newest_first"] == Position({"0@0": 10, "4@2": 5})
    assert cuts["oldest_first"] == stream_cut(noted, None, MERGED_AND_SPLIT) == Position({"3@2": 0, "4@2": 5})
    assert not covers(cuts["newest_first"], noted[1], MERGED_AND_SPLIT)


def test_the_cut_moves_backwards_past_the_previous_one() -> None:
    noted, previous = [Position({"4@2": 5}), Position({"0@0": 10})], Position({"2@1": 50})
    assert stream_cut(noted, previous, MERGED_AND_SPLIT, PRAVEGA) == Position({"0@0": 10, "4@2": 5})
    assert stream_cut(noted, previous, MERGED_AND_SPLIT) == Position({"3@2": 0, "4@2": 5})


def test_the_cut_names_segments_that_no_reader_can_read_together() -> None:
    noted = [Position({"3@2": 7}), Position({"1@0": 4})]
    cut = stream_cut(noted, None, MERGED_AND_SPLIT, PRAVEGA)
    assert cut == Position({"3@2": 7, "1@0": 4})
    assert is_valid_cut(cut, MERGED_AND_SPLIT)
    assert not is_lineage_valid(cut, MERGED_AND_SPLIT)
    assert stream_cut(noted, None, MERGED_AND_SPLIT) == Position({"3@2": 7, "4@2": 0})


@pytest.mark.parametrize("algorithm", ["pravega", "document"])
@given(given_writers=writers(), order=st.sampled_from(ORDERS))
def test_it_and_the_cut_of_the_document_cover_every_key_all_the_same(
    algorithm, given_writers: tuple[StreamHistory, list[Position]], order
) -> None:
    history, noted = given_writers
    assert is_valid_cut(stream_cut(noted, None, history, CutRules(algorithm=algorithm, visit_order=order)), history)


@pytest.mark.parametrize("count", [49, 98, 103])
def test_it_never_ends_for_ranges_that_stop_short_of_one(count: int) -> None:
    history = StreamHistory.create(count, arithmetic="double")
    with pytest.raises(CutError) as refused:
        stream_cut([Position({"0@0": 1})], None, history, PRAVEGA)
    assert refused.value.reason == "did not terminate"


def test_the_cut_of_the_document_is_that_of_its_example() -> None:
    history = StreamHistory.create(2).scale(["0@0", "1@0"], into=[KeyRange.parse("0..3/5"), KeyRange.parse("3/5..1")])
    noted = [Position({"1@0": 7, "2@1": 5})]
    assert stream_cut(noted, None, history, CutRules(algorithm="document")) == Position({"2@1": 5, "3@1": 0})


def test_only_the_cut_of_the_document_forgets_the_previous_one() -> None:
    history, noted, previous = StreamHistory.create(1), [Position({"0@0": 10})], Position({"0@0": 90})
    cuts = [
        stream_cut(noted, previous, history, CutRules(algorithm=name))[0] for name in ("document", "pravega", "sound")
    ]
    assert cuts == [10, 90, 90]


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        ([{"0@0": 40}, {"0@0": 90, "1@0": 3}], {"0@0": 90, "1@0": 3}),
        ([{"2@1": 8, "3@1": 1, "1@0": 5}, {"0@0": 70}], {"2@1": 8, "3@1": 1, "1@0": 5}),
        ([{"0@0": 70, "1@0": 5}, {"2@1": 8, "3@1": 1}], {"2@1": 8, "3@1": 1, "1@0": 5}),
    ],
    ids=["of two offsets the larger counts", "a successor is there already", "a segment replaces its predecessor"],
)
def test_the_upper_bound_of_the_document_is_built_by_its_three_rules(noted, expected) -> None:
    """PDP-33, `addToUpperBound`: writers are visited in the order in which they are given."""
    history = StreamHistory.create(2).scale(["0@0"], into=2)
    positions = [Position(offsets) for offsets in noted]
    assert stream_cut(positions, None, history, CutRules(algorithm="document")) == Position(expected)
