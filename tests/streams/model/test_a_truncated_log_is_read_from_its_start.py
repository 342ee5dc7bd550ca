"""A marks log that was truncated: who was behind goes on at its start, who was not goes on where it was."""

import pytest

from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import LeaderView, MarksLog, TruncatedError, Watermark, open_view, settle_pointer
from wmlab.streams.model.position import Position, ReaderPosition
from wmlab.streams.model.window import Tracker

HISTORY = StreamHistory.create(1)
LOG: MarksLog[Watermark] = MarksLog()
for time in range(1, 6):
    LOG, _ = LOG.append(Watermark(time, time, Position({0: 10 * time})))
REVISIONS = [revision for revision, _ in LOG.entries]


def read(tracker: Tracker, log: MarksLog[Watermark], offset: int) -> Tracker:
    return tracker.skip_truncated(log).advance(ReaderPosition({0: offset}), log, HISTORY.segments)


def test_a_reader_behind_the_start_goes_on_there():
    early = read(Tracker.start(), LOG, 10)
    assert early.window.lower == 1
    shorter = LOG.truncate(REVISIONS[3])
    with pytest.raises(TruncatedError):
        early.advance(ReaderPosition({0: 50}), shorter, HISTORY.segments)
    assert read(early, shorter, 50).window.lower == 5


@pytest.mark.parametrize("kept", [0, 1, 2, 5])
def test_a_reader_at_or_beyond_the_start_notices_nothing(kept):
    late = read(Tracker.start(), LOG, 50)
    shorter = LOG.truncate(REVISIONS[4 - kept]) if kept < 5 else LOG
    assert read(late, shorter, 50) == late
    assert read(Tracker.start(), shorter, 50).window.lower == (5 if kept else None)


def test_the_pointer_goes_to_the_entry_before_unless_another_moved_it():
    log, view = open_view(LOG)
    assert view.previous is not None
    assert settle_pointer(log, view).pointer == view.previous[0]
    elsewhere, _ = log.move_pointer(log.pointer, REVISIONS[1])
    assert settle_pointer(elsewhere, view).pointer == REVISIONS[1]
    assert settle_pointer(log, LeaderView(0, None)) == log
