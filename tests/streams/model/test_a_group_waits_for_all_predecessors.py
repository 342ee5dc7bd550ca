"""PDP-33, Client Changes; upstream class `ReaderGroupState`: what a reader group shares."""

from __future__ import annotations

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.group import GroupState
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.segment import parse_segment

MERGED = parse_segment("2@1")
BOTH = {MERGED: frozenset({0, 1})}


def group() -> GroupState:
    state = GroupState.create({1: 20, 0: 10}).add_reader("r")
    return state.acquire("r", 0).acquire("r", 1)


def test_a_successor_appears_at_its_start_when_no_predecessor_is_left() -> None:
    once = group().complete("r", 0, BOTH)
    assert (dict(once.offsets), once.pending) == ({1: 20}, {MERGED: frozenset({1})})
    twice = once.complete("r", 1, BOTH)
    assert (dict(twice.offsets), twice.owners, twice.pending) == ({MERGED: 0}, {MERGED: None}, {})


def test_a_split_makes_all_successors_appear() -> None:
    left, right = parse_segment("2@1"), parse_segment("3@1")
    state = group().complete("r", 0, {left: frozenset({0}), right: frozenset({0})})
    assert dict(state.offsets) == {1: 20, left: 0, right: 0}
    assert state.unassigned == (left, right)


def test_a_release_overwrites_even_with_less() -> None:
    state = group().publish("r", {0: 50}).release("r", 0, 3)
    assert (state.offsets[0], state.owners[0]) == (3, None)


def test_publishing_never_adds_a_segment() -> None:
    assert dict(group().publish("r", {0: 50, 9: 1}).offsets) == {0: 50, 1: 20}


def test_a_reader_that_disappears_leaves_its_offsets() -> None:
    state = group().publish("r", {0: 50}).finish("r", 1).remove_reader("r")
    assert (dict(state.offsets), state.unassigned, state.readers) == ({0: 50, 1: 20}, (0, 1), frozenset())
    assert state.finished == frozenset()


def test_unassigned_segments_count_in_the_position() -> None:
    assert GroupState.create({0: 10, 1: 20}).position == ReaderPosition({0: 10, 1: 20})


def test_a_finished_segment_is_at_its_end_until_it_is_completed_or_released() -> None:
    state = group().finish("r", 0)
    assert state.position == ReaderPosition({1: 20}, [0])
    assert state.release("r", 0, 10).position == ReaderPosition({0: 10, 1: 20})
    assert state.complete("r", 0, {}).position == ReaderPosition({1: 20})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: s.add_reader("r"), "in the group already"),
        (lambda s: s.remove_reader("x"), "not in the group"),
        (lambda s: s.acquire("x", 0), "not in the group"),
        (lambda s: s.acquire("r", 0), "0@0 is not free"),
        (lambda s: s.acquire("r", 9), "9@0 is not free"),
        (lambda s: s.release("r", 9, 0), "does not own segment 9@0"),
        (lambda s: s.release("r", 0, -1), "negative"),
        (lambda s: s.add_reader("x").release("x", 0, 1), "does not own segment 0@0"),
        (lambda s: s.publish("x", {0: 1}), "not in the group"),
        (lambda s: s.publish("r", {0: -1}), "negative"),
        (lambda s: s.finish("r", 9), "does not own"),
        (lambda s: s.complete("r", 9, {}), "does not own"),
    ],
)
def test_what_a_reader_may_not_do_is_refused(change, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        change(group())
