"""PDP-33, Metadata; upstream class `PersistentStreamBase`: the two rules that judge a noted time and position."""

from __future__ import annotations

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.marks import NoteOutcome, NoteRule, WriterMark, behind_at_a_key, judge_note, positions_ordered
from wmlab.streams.model.position import Position

HISTORY = StreamHistory.create(2).scale(["0@0", "1@0"], into=1)
SUCCESS, TIME, POSITION = NoteOutcome.SUCCESS, NoteOutcome.INVALID_TIME, NoteOutcome.INVALID_POSITION
STORED = WriterMark(10, Position({"0@0": 5, "1@0": 5}))


@pytest.mark.parametrize(
    ("time", "position", "implementation", "design"),
    [
        (11, {"0@0": 6, "1@0": 6}, SUCCESS, SUCCESS),
        (11, {"0@0": 5, "1@0": 5}, SUCCESS, SUCCESS),
        (10, {"0@0": 6, "1@0": 6}, SUCCESS, TIME),
        (9, {"0@0": 4, "1@0": 6}, TIME, TIME),
        (11, {"0@0": 4, "1@0": 6}, POSITION, POSITION),
        (11, {"0@0": None, "1@0": 6}, POSITION, POSITION),
        (11, {"0@0": 6}, SUCCESS, SUCCESS),
        (11, {}, SUCCESS, SUCCESS),
        (11, {"2@1": 0}, SUCCESS, SUCCESS),
        (11, {"9@4": 0}, SUCCESS, POSITION),
    ],
)
def test_after_a_stored_mark(time: int, position, implementation: NoteOutcome, design: NoteOutcome) -> None:
    assert judge_note(STORED, time, Position(position)) is implementation
    assert judge_note(STORED, time, Position(position), rule="design", segments=HISTORY.segments) is design


@pytest.mark.parametrize("rule", ["implementation", "design"])
def test_a_first_note_is_always_accepted(rule: NoteRule) -> None:
    assert judge_note(None, -(2**63), Position({"9@4": None}), rule=rule) is SUCCESS


def test_only_the_design_compares_across_epochs() -> None:
    stored, back = WriterMark(10, Position({"2@1": 5})), Position({"0@0": 9, "1@0": 9})
    assert judge_note(stored, 11, back) is SUCCESS
    assert judge_note(stored, 11, back, rule="design", segments=HISTORY.segments) is POSITION


def test_of_a_predecessor_and_its_successor_only_the_successor_counts() -> None:
    both = Position({"0@0": 9, "2@1": 5})
    assert not behind_at_a_key(both, Position({"0@0": 9, "2@1": 6}), HISTORY.segments)
    assert not behind_at_a_key(both, Position({"2@1": 5}), HISTORY.segments)
    assert behind_at_a_key(both, Position({"0@0": 9}), HISTORY.segments)
    assert behind_at_a_key(both, Position({"0@0": 9, "2@1": 4}), HISTORY.segments)


def test_the_design_cannot_be_judged_without_key_ranges() -> None:
    with pytest.raises(ModelError, match="compares positions by key"):
        judge_note(STORED, 11, Position({"0@0": 9}), rule="design")


def test_positions_without_a_common_segment_are_ordered() -> None:
    assert positions_ordered(Position({"2@1": 100}), Position({"0@0": 1}))
    assert not positions_ordered(Position({"2@1": 100, "1@0": 1}), Position({"1@0": 0}))
    assert positions_ordered(Position({"0@0": None}), Position({"0@0": 0}))
    assert not positions_ordered(Position({"0@0": 0}), Position({"0@0": None}))
