"""Upstream classes `RevisionedStreamClientImpl` and `WatermarkClient`: the log of watermarks and its mark pointer."""

from __future__ import annotations

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.log import MarksLog, NoSuchLogError, TruncatedError, Watermark, emit, entry_bytes, open_view
from wmlab.streams.model.position import Position


def filled(*entries: str) -> tuple[MarksLog[str], dict[str, int]]:
    log: MarksLog[str] = MarksLog()
    revisions = {}
    for entry in entries:
        log, revisions[entry] = log.append(entry)
    return log, revisions


LOG, AT = filled("a", "b", "c")


def test_reading_from_a_revision_gives_the_entries_after_it() -> None:
    assert [entry for _, entry in LOG.read_after(LOG.oldest)] == ["a", "b", "c"]
    assert LOG.read_after(AT["a"]) == ((AT["b"], "b"), (AT["c"], "c"))
    assert LOG.read_after(LOG.end) == ()
    assert [entry for _, entry in LOG.read_range(AT["a"], AT["b"])] == ["b"]


@pytest.mark.parametrize("revision", [1, AT["a"] + 1, LOG.end + 16])
def test_a_number_that_is_no_revision_is_refused(revision: int) -> None:
    with pytest.raises(ModelError, match="not a revision"):
        LOG.read_after(revision)


def test_a_range_has_to_be_the_right_way_round() -> None:
    with pytest.raises(ModelError, match="lies before"):
        LOG.read_range(AT["b"], AT["a"])


def test_an_append_needs_the_end_that_the_writer_saw() -> None:
    log, revision = LOG.append_if(AT["c"], "d")
    assert revision == log.end > LOG.end
    assert log.append_if(AT["c"], "e") == (log, None)


def test_a_truncated_log_cannot_be_read_from_before_its_start() -> None:
    log = LOG.truncate(AT["a"])
    assert (log.oldest, [entry for _, entry in log.read_after(AT["a"])]) == (AT["a"], ["b", "c"])
    assert log.truncate(0) is log
    with pytest.raises(TruncatedError, match="before the start"):
        log.read_after(0)
    with pytest.raises(ModelError, match="not a revision"):
        LOG.truncate(AT["a"] + 1)


def test_an_iterator_ends_where_the_log_ended_when_it_was_opened() -> None:
    cursor = LOG.cursor(AT["b"])
    longer, _ = LOG.append("d")
    cursor, found = cursor.next(longer)
    assert found == (AT["c"], "c")
    assert cursor.next(longer) == (cursor, None)
    with pytest.raises(TruncatedError):
        LOG.cursor(0).next(LOG.truncate(AT["a"]))


def test_the_pointer_is_moved_by_compare_and_set_in_any_direction() -> None:
    log, moved = LOG.move_pointer(None, AT["b"])
    assert (log.pointer, moved) == (AT["b"], True)
    assert log.move_pointer(None, AT["c"]) == (log, False)
    log, _ = log.move_pointer(AT["b"], AT["a"])
    assert log.pointer == AT["a"]
    assert log.move_pointer(AT["a"], None)[0].pointer is None


def test_a_cycle_reads_only_what_the_pointer_leaves() -> None:
    log, view = open_view(MarksLog[str]())
    assert (log.pointer, view.previous, view.expected_end) == (0, None, 0)
    log, first = emit(log, view, "a")
    log, view = open_view(log)
    assert view.previous == (first, "a")
    log, second = emit(log, view, "b")
    assert (log.pointer, log.end) == (first, second)


def test_of_two_leaders_one_appends() -> None:
    log, view = open_view(MarksLog[str]())
    log, _ = emit(log, view, "a")
    log, late = emit(log, view, "late")
    assert late is None
    assert [entry for _, entry in log.entries] == ["a"]


def test_a_pointer_left_behind_only_means_more_to_read() -> None:
    log, view = open_view(LOG)
    assert view.previous == (AT["c"], "c")
    log, revision = emit(log, view, "d")
    assert revision is not None
    assert log.pointer == AT["c"]


def test_a_leader_that_remembers_a_deleted_log_is_told() -> None:
    with pytest.raises(NoSuchLogError, match="Marks segment 0 was deleted"):
        open_view(MarksLog[str](number=1), number=0)


def test_a_watermark_takes_sixteen_bytes_and_sixteen_for_each_segment() -> None:
    assert entry_bytes(Watermark(1, 2, Position({"0@0": 1, "1@0": None}))) == 48
    assert entry_bytes("a") == 16


def test_lower_must_not_exceed_upper() -> None:
    assert Watermark(1, 1, Position()).writers == {}
    with pytest.raises(ModelError, match="lower 2 above upper 1"):
        Watermark(2, 1, Position())
