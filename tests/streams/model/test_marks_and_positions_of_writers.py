"""PDP-33, Metadata, Client Changes; upstream `PersistentStreamBase`, `EventStreamWriterImpl`: notes and their store."""

from __future__ import annotations

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.marks import (
    MarkTable,
    NoteOutcome,
    NoteRule,
    WriterMark,
    acknowledge,
    add_segments,
    automatic_notes_ms,
    judge_note,
    refuse_explicit_note,
    remove_segment,
)
from wmlab.streams.model.position import Position, behind_at_a_key

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


@pytest.mark.parametrize(
    ("stored", "noted", "behind"),
    [
        ({"2@1": 5}, {"0@0": 9, "1@0": 9}, True),
        # Of a predecessor and its successor only the successor counts.
        ({"0@0": 9, "2@1": 5}, {"0@0": 9, "2@1": 6}, False),
        ({"0@0": 9, "2@1": 5}, {"2@1": 5}, False),
        ({"0@0": 9, "2@1": 5}, {"0@0": 9}, True),
        ({"0@0": 9, "2@1": 5}, {"0@0": 9, "2@1": 4}, True),
    ],
)
def test_positions_are_compared_across_epochs(stored, noted, behind: bool) -> None:
    assert behind_at_a_key(Position(stored), Position(noted), HISTORY.segments) is behind


def test_the_design_cannot_be_judged_without_key_ranges() -> None:
    with pytest.raises(ModelError, match="compares positions by key"):
        judge_note(STORED, 11, Position({"0@0": 9}), rule="design")


def test_a_segment_is_opened_acknowledged_and_dealt_with_when_it_is_sealed() -> None:
    before = add_segments(Position({"0@0": 3, "0@1": 7}), [1])
    assert before == Position({"0@0": 3, "1@0": None, "0@1": 7})
    assert add_segments(before, [0]) is before
    after = acknowledge(before, 1, 9)
    assert after == acknowledge(after, 1, 4) == Position({"0@0": 3, "1@0": 9, "0@1": 7})
    assert (list(after), hash(after)) == (list(before), hash(Position(dict(after))))
    assert before == Position({"0@0": 3, "1@0": None, "0@1": 7})
    assert remove_segment(before, 0) == Position({"1@0": None, "0@1": 7})
    with pytest.raises(ModelError, match="negative"):
        acknowledge(before, 1, -1)
    assert acknowledge(before, 2, 4) is before


def test_automatic_notes_come_every_period() -> None:
    assert list(automatic_notes_ms(1_000, 16_000, period_ms=5_000)) == [6_000, 11_000, 16_000]
    with pytest.raises(ModelError, match="automatically"):
        refuse_explicit_note(automatic=True)
    assert refuse_explicit_note(automatic=False) is None


AT_1, AT_2 = Position({"0@0": 1}), Position({"0@0": 2})
NOTED, _ = MarkTable().note("w", 1, AT_1)


def test_an_accepted_note_replaces_the_whole_mark_and_a_refused_one_nothing() -> None:
    table, outcome = NOTED.note("w", 2, Position({"1@0": 7}))
    assert outcome is NoteOutcome.SUCCESS
    assert table.marks == {"w": WriterMark(2, Position({"1@0": 7}))}
    assert NOTED.note("w", 0, AT_2) == (NOTED, NoteOutcome.INVALID_TIME)


def test_shutdown_keeps_time_and_position_and_a_later_note_revives() -> None:
    table, outcome = NOTED.shutdown("w")
    assert (table.marks["w"], outcome) == (WriterMark(1, AT_1, alive=False), NoteOutcome.OK)
    assert table.note("w", 1, AT_1)[0].marks["w"].alive
    assert NOTED.shutdown("x") == NOTED.shutdown("w", read=None) == (NOTED, NoteOutcome.UNKNOWN_WRITER)
    changed, _ = NOTED.note("w", 2, AT_2)
    assert changed.shutdown("w", read=NOTED.records["w"]) == (changed, NoteOutcome.WRITE_CONFLICT)


def test_a_removed_writer_may_come_back_with_an_older_time() -> None:
    table, outcome = NOTED.remove("w", WriterMark(1, AT_1))
    assert (table.marks, outcome) == ({}, NoteOutcome.OK)
    assert table.remove("w", WriterMark(1, AT_1)) == (table, NoteOutcome.DATA_NOT_FOUND)
    back, outcome = table.note("w", 0, AT_1)
    assert outcome is NoteOutcome.SUCCESS
    assert back.records["w"].version not in (NOTED.records["w"].version, None)


def test_marks_are_listed_in_the_order_of_first_notes() -> None:
    table = MarkTable()
    for writer in ("b", "a", "b", "c"):
        table, _ = table.note(writer, 1, AT_1)
    assert list(table.marks) == ["b", "a", "c"]
