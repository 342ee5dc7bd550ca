"""PDP-33, Metadata; upstream class `PersistentStreamBase`: the store of writer marks and its versions."""

from __future__ import annotations

import pytest

from wmlab.streams.model.marks import MarkTable, NoteOutcome, StoreOutcome, WriterMark
from wmlab.streams.model.position import Position

AT_1, AT_2 = Position({"0@0": 1}), Position({"0@0": 2})
NOTED, _ = MarkTable().note("w", 1, AT_1)


def test_an_accepted_note_replaces_the_whole_mark() -> None:
    table, outcome = NOTED.note("w", 2, Position({"1@0": 7}))
    assert outcome is NoteOutcome.SUCCESS
    assert table.marks == {"w": WriterMark(2, Position({"1@0": 7}))}


def test_a_refused_note_changes_nothing() -> None:
    assert NOTED.note("w", 0, AT_2) == (NOTED, NoteOutcome.INVALID_TIME)


def test_a_note_on_a_record_that_changed_meanwhile_is_a_conflict() -> None:
    table, _ = NOTED.note("w", 2, AT_2)
    assert table.note("w", 3, AT_2, read=NOTED.records["w"]) == (table, NoteOutcome.WRITE_CONFLICT)


def test_a_note_that_missed_a_new_record_is_a_conflict() -> None:
    assert NOTED.note("w", 3, AT_2, read=None) == (NOTED, NoteOutcome.WRITE_CONFLICT)


def test_a_note_on_a_record_that_is_gone_finds_nothing() -> None:
    table, _ = NOTED.remove("w", NOTED.marks["w"])
    assert table.note("w", 3, AT_2, read=NOTED.records["w"]) == (table, NoteOutcome.DATA_NOT_FOUND)


def test_shutdown_keeps_time_and_position_and_a_later_note_revives() -> None:
    table, outcome = NOTED.shutdown("w")
    assert (table.marks["w"], outcome) == (WriterMark(1, AT_1, alive=False), StoreOutcome.OK)
    assert table.note("w", 1, AT_1)[0].marks["w"].alive


def test_shutdown_of_an_unknown_writer_changes_nothing() -> None:
    assert NOTED.shutdown("x") == (NOTED, StoreOutcome.UNKNOWN_WRITER)


def test_shutdown_of_a_record_that_changed_is_a_conflict() -> None:
    table, _ = NOTED.note("w", 2, AT_2)
    assert table.shutdown("w", version=NOTED.records["w"].version) == (table, StoreOutcome.WRITE_CONFLICT)


@pytest.mark.parametrize("mark", [WriterMark(2, AT_1), WriterMark(1, AT_2), WriterMark(1, AT_1, alive=False)])
def test_removal_needs_the_whole_mark_as_it_was_read(mark: WriterMark) -> None:
    assert NOTED.remove("w", mark) == (NOTED, StoreOutcome.WRITE_CONFLICT)


def test_a_removed_writer_may_come_back_with_an_older_time() -> None:
    table, outcome = NOTED.remove("w", WriterMark(1, AT_1))
    assert (table.marks, outcome) == ({}, StoreOutcome.OK)
    assert table.remove("w", WriterMark(1, AT_1)) == (table, StoreOutcome.DATA_NOT_FOUND)
    back, outcome = table.note("w", 0, AT_1)
    assert outcome is NoteOutcome.SUCCESS
    assert back.records["w"].version not in (NOTED.records["w"].version, None)


def test_create_and_update_say_why_they_failed() -> None:
    mark = WriterMark(5, AT_2)
    assert NOTED.create("w", mark) == (NOTED, StoreOutcome.DATA_EXISTS)
    assert NOTED.update("x", mark, 0) == (NOTED, StoreOutcome.DATA_NOT_FOUND)
    assert NOTED.update("w", mark, 99) == (NOTED, StoreOutcome.WRITE_CONFLICT)
    table, outcome = NOTED.update("w", mark, NOTED.records["w"].version)
    assert (table.marks["w"], outcome) == (mark, StoreOutcome.OK)


def test_marks_are_listed_in_the_order_of_first_notes() -> None:
    table = MarkTable()
    for writer in ("b", "a", "b", "c"):
        table, _ = table.note(writer, 1, AT_1)
    assert list(table.marks) == ["b", "a", "c"]
