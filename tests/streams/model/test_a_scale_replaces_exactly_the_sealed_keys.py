"""PDP-33, Watermark Computation; upstream classes `RecordHelper` and `EpochRecord`: how a stream changes."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given

from tests.streams.model.strategies import by_key, histories
from wmlab.core.errors import ModelError
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.segment import KeyRange, Segment, gaps, parse_segment


def names(segments) -> str:
    return " ".join(segment.name for segment in segments)


def test_a_split_continues_the_numbers_of_the_active_epoch() -> None:
    history = StreamHistory.create(2).scale(["0@0"], into=2)
    assert names(history.active.segments) == "1@0 2@1 3@1"
    assert names(history.successors(parse_segment("0@0"))) == "2@1 3@1"
    assert names(history.predecessors(parse_segment("3@1"))) == "0@0"
    assert history.successors(parse_segment("1@0")) == ()
    assert history.predecessors(parse_segment("1@0")) == ()


def test_a_merge_has_several_predecessors() -> None:
    history = StreamHistory.create(2).scale(["0@0", "1@0"], into=1).scale(["2@1"], into=2)
    assert names(history.predecessors(parse_segment("2@1"))) == "0@0 1@0"
    assert names(history.ancestors(parse_segment("4@2"))) == "0@0 1@0 2@1"


def test_the_ranges_may_be_given_one_by_one() -> None:
    ranges = [KeyRange.of("1/8", "1/2"), KeyRange.of(0, "1/8")]
    history = StreamHistory.create(2).scale(["0@0"], ranges)
    assert [segment.keys.text for segment in by_key(history.active.segments)] == ["0..1/8", "1/8..1/2", "1/2..1"]


def test_a_recreated_stream_continues_the_numbers() -> None:
    assert names(StreamHistory.create(2, first_number=2).active.segments) == "2@0 3@0"


WHOLE, HALF = KeyRange.of(0, 1), KeyRange.of(0, "1/2")
ONE, THREE = StreamHistory.create(1), StreamHistory.create(3)
SCALED = StreamHistory.create(2).scale(["0@0"], into=2)
DOUBLES = StreamHistory.create([KeyRange.of(0, 0.3), KeyRange.of(0.3, 1)])
"""The first range ends at 0.3, not at the double after it."""


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (lambda: ONE.epoch(1), "no epoch"),
        (lambda: ONE.epoch(-1), "no epoch"),
        (lambda: ONE.roll(1), "no epoch"),
        (lambda: ONE.roll(-1), "no epoch"),
        (lambda: ONE.segment(7), "never had a segment 7@0"),
        (lambda: ONE.append(Epoch(2, "scale", (Segment(1, 1, WHOLE),))), "numbered"),
        (lambda: ONE.append(Epoch(1, "scale", (Segment(1, 1, HALF),))), "do not cover"),
        (lambda: ONE.append(Epoch(1, "scale", (Segment(0, 0, WHOLE), Segment(1, 1, HALF)))), "do not cover"),
        (lambda: ONE.append(Epoch(1, "scale", (Segment(1, 0, WHOLE),))), "first appears"),
        (lambda: ONE.append(Epoch(1, "scale", (Segment(1, 2, WHOLE),))), "before its creation"),
        (lambda: ONE.append(Epoch(1, "scale", ())), "no segments"),
        (lambda: ONE.scale(["0@0"], into=1).append(Epoch(2, "scale", (Segment(0, 0, WHOLE),))), "sealed before"),
        (lambda: StreamHistory.create([HALF]), r"covers only 0\.\.1/2"),
        (lambda: StreamHistory(()), "numbered"),
        (lambda: SCALED.roll(0).roll(1), "needs no rolling"),
        (lambda: SCALED.roll(0).roll(3), "needs no rolling"),
        (lambda: THREE.scale(["5@1"], 2), "not active"),
        (lambda: THREE.scale([], 2), "Cannot seal nothing"),
        (lambda: THREE.scale(["0@0", "2@0"], 1), "do not adjoin"),
        (lambda: THREE.scale(["0@0"], 0), "0 segments"),
        (lambda: THREE.scale(["0@0"], [KeyRange.of(0, "1/4")]), "do not cover exactly"),
        (lambda: THREE.scale(["0@0"], [HALF]), "do not cover exactly"),
        (lambda: THREE.scale(["0@0"], [KeyRange.of(0, "1/4"), KeyRange.of("1/8", "1/3")]), "do not cover exactly"),
        (lambda: THREE.scale(["0@0", "2@0"], [WHOLE]), "do not cover exactly"),
        (lambda: DOUBLES.scale(["0@0"], [KeyRange.of(0, 0.30000000000000004)]), "do not cover exactly"),
    ],
)
def test_what_no_history_has_or_admits_is_refused(asked, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        asked()


@given(histories())
def test_epochs_cover_the_key_space_once_and_successors_and_predecessors_mirror_each_other(
    history: StreamHistory,
) -> None:
    for epoch in history.epochs:
        assert gaps(segment.keys for segment in epoch.segments) == ()
        assert sum(segment.keys.high - segment.keys.low for segment in epoch.segments) == 1
    for segment in history.segments.values():
        assert all(segment in history.predecessors(s.id) for s in history.successors(segment.id))
        assert all(segment in history.successors(p.id) for p in history.predecessors(segment.id))
        assert all(p.id < segment.id for p in history.ancestors(segment.id))
    assert list(history.segments) == sorted(history.segments)


@given(histories())
def test_a_history_can_be_stored_is_a_value_and_follows_from_its_segments(history: StreamHistory) -> None:
    stored = pickle.loads(pickle.dumps(history))
    assert stored == history
    assert stored.segments == history.segments
    assert "object at" not in repr(history)
    made = StreamHistory.of(reversed(history.segments.values()))
    assert [epoch.ids for epoch in made.epochs] == [epoch.ids for epoch in history.epochs]


def test_one_copies_the_epoch_of_the_transaction_and_one_the_active_epoch() -> None:
    rolled = SCALED.roll(0)
    assert [names(epoch.segments) for epoch in rolled.epochs[2:]] == ["0@2 1@2", "1@3 2@3 3@3"]
    assert [(epoch.kind, epoch.reference) for epoch in rolled.epochs[2:]] == [("rolling", 0), ("rolling", 1)]
    assert repr(rolled.epochs[2]) == "Epoch(2 rolling of 0: 0@2, 1@2)"
    scaled = rolled.scale(["1@3"], into=1)
    assert names(scaled.active.segments) == "2@3 3@3 4@4", "new numbers continue after those of the active epoch"
    assert [epoch.reference for epoch in scaled.roll(2).epochs] == [None, None, 0, 1, None, 0, 4]
