"""Upstream class `CommitRequestHandler`: committing a transaction that was begun before a scale."""

from __future__ import annotations

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.segment import parse_segment

SCALED = StreamHistory.create(2).scale(["0@0"], into=2)


def test_one_copies_the_epoch_of_the_transaction_and_one_the_active_epoch() -> None:
    rolled = SCALED.roll(0)
    copies = [[segment.name for segment in epoch.segments] for epoch in rolled.epochs[2:]]
    assert copies == [["0@2", "1@2"], ["1@3", "2@3", "3@3"]]
    assert [(epoch.kind, epoch.reference) for epoch in rolled.epochs[2:]] == [("rolling", 0), ("rolling", 1)]
    assert repr(rolled.epochs[2]) == "Epoch(2 rolling of 0: 0@2, 1@2)"


def test_the_duplicates_follow_on_what_they_replace() -> None:
    rolled = SCALED.roll(0)
    assert [s.name for s in rolled.successors(parse_segment("2@1"))] == ["0@2"]
    assert [s.name for s in rolled.successors(parse_segment("0@2"))] == ["2@3", "3@3"]


def test_a_duplicate_of_a_duplicate_refers_to_the_original() -> None:
    again = SCALED.roll(0).scale(["1@3"], into=1).roll(2)
    assert [epoch.reference for epoch in again.epochs] == [None, None, 0, 1, None, 0, 4]


def test_new_numbers_continue_after_those_of_the_active_epoch() -> None:
    assert [s.name for s in SCALED.roll(0).scale(["1@3"], into=1).active.segments] == ["2@3", "3@3", "4@4"]


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_transaction_of_the_active_ranges_needs_no_rolling(epoch: int) -> None:
    with pytest.raises(ModelError, match="needs no rolling"):
        SCALED.roll(0).roll(epoch)


def test_an_unknown_epoch_is_refused() -> None:
    with pytest.raises(ModelError, match="no epoch 9"):
        SCALED.roll(9)
