"""Upstream classes `RevisionedStreamClientImpl` and `WatermarkClient`: the log of watermarks and its mark pointer."""

from __future__ import annotations

import pytest

from tests.streams.model.leaders import emit
from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import (
    LeaderView,
    MarksLog,
    NoSuchLogError,
    TruncatedError,
    Watermark,
    entry_bytes,
    open_view,
    settle_pointer,
)
from wmlab.streams.model.position import Position, ReaderPosition
from wmlab.streams.model.window import Tracker


def filled(*entries: str) -> tuple[MarksLog[str], dict[str, int]]:
    log: MarksLog[str] = MarksLog()
    revisions = {}
    for entry in entries:
        log, revisions[entry] = log.append(entry)
    return log, revisions


LOG, AT = filled("a", "b", "c")


@pytest.mark.parametrize("revision", [1, AT["a"] + 1, LOG.end + 16])
def test_a_number_that_is_no_revision_is_refused(revision: int) -> None:
    with pytest.raises(ModelError, match="not a revision"):
        LOG.read_after(revision)


def test_a_range_has_to_be_the_right_way_round() -> None:
    with pytest.raises(ModelError, match="lies before"):
        LOG.read_range(AT["b"], AT["a"])


def test_a_truncated_log_cannot_be_read_from_before_its_start() -> None:
    log = LOG.truncate(AT["a"])
    assert (log.oldest, [entry for _, entry in log.read_after(AT["a"])]) == (AT["a"], ["b", "c"])
    assert log.truncate(0) is log
    with pytest.raises(TruncatedError, match="before the start"):
        log.read_after(0)
    with pytest.raises(ModelError, match="not a revision"):
        LOG.truncate(AT["a"] + 1)


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


HISTORY = StreamHistory.create(1)
MARKED: MarksLog[Watermark] = MarksLog()
for time in range(1, 6):
    MARKED, _ = MARKED.append(Watermark(time, time, Position({0: 10 * time})))
REVISIONS = [revision for revision, _ in MARKED.entries]


def read(tracker: Tracker, log: MarksLog[Watermark], offset: int) -> Tracker:
    return tracker.skip_truncated(log).advance(ReaderPosition({0: offset}), log, HISTORY.segments)


def test_a_reader_behind_the_start_goes_on_there():
    early = read(Tracker(), MARKED, 10)
    assert early.window.lower == 1
    shorter = MARKED.truncate(REVISIONS[3])
    with pytest.raises(TruncatedError):
        early.advance(ReaderPosition({0: 50}), shorter, HISTORY.segments)
    assert read(early, shorter, 50).window.lower == 5


@pytest.mark.parametrize("kept", [0, 1, 2, 5])
def test_a_reader_at_or_beyond_the_start_notices_nothing(kept):
    late = read(Tracker(), MARKED, 50)
    shorter = MARKED.truncate(REVISIONS[4 - kept]) if kept < 5 else MARKED
    assert read(late, shorter, 50) == late
    assert read(Tracker(), shorter, 50).window.lower == (5 if kept else None)


def test_the_pointer_goes_to_the_entry_before_unless_another_moved_it():
    log, view = open_view(MARKED)
    assert view.previous is not None
    assert settle_pointer(log, view).pointer == view.previous[0]
    elsewhere, _ = log.move_pointer(log.pointer, REVISIONS[1])
    assert settle_pointer(elsewhere, view).pointer == REVISIONS[1]
    assert settle_pointer(log, LeaderView(0, None)) == log
