"""Upstream classes `RevisionedStreamClientImpl` and `WatermarkClient`: the log of watermarks, its pointer, its readers.

What a reader knows at each position is compared with Spark in `tests/streams/bounds`.
"""

from __future__ import annotations

import pytest

from tests.streams.model.leaders import emit
from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import (
    LeaderView,
    MarksLog,
    TruncatedError,
    Watermark,
    entry_bytes,
    open_view,
    settle_pointer,
)
from wmlab.streams.model.position import Position
from wmlab.streams.model.window import TimeWindow, Tracker, compare_with_cut

LOG: MarksLog[str] = MarksLog()
for entry in "abc":
    LOG, _ = LOG.append(entry)
A, B, C = (revision for revision, _ in LOG.entries)


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda: LOG.read_after(1), "not a revision"),
        (lambda: LOG.read_after(A + 1), "not a revision"),
        (lambda: LOG.read_after(C + 16), "not a revision"),
        (lambda: LOG.truncate(A + 1), "not a revision"),
        (lambda: LOG.read_range(B, A), "lies before"),
        (lambda: LOG.truncate(A).read_after(0), "before the start"),
        (lambda: open_view(MarksLog[str](number=1), number=0), "Marks segment 0 was deleted"),
        (lambda: Watermark(2, 1, Position()), "lower 2 above upper 1"),
    ],
)
def test_what_is_no_revision_no_log_or_no_watermark_is_refused(ask, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        ask()


def test_a_log_is_truncated_forward_only() -> None:
    log = LOG.truncate(A)
    assert (log.oldest, [entry for _, entry in log.read_after(A)]) == (A, ["b", "c"])
    assert log.truncate(0) is log


def test_a_truncated_log_knows_how_many_entries_went_before() -> None:
    assert [LOG.truncated, LOG.truncate(A).truncated, LOG.truncate(A).truncate(C).truncated] == [0, 1, 3]
    grown, _ = LOG.truncate(B).append("d")
    assert (grown.truncated, [entry for _, entry in grown.entries]) == (2, ["c", "d"])


def test_a_watermark_takes_sixteen_bytes_sixteen_for_each_segment_and_the_ids_of_its_writers() -> None:
    """PDP-33, Internal Changes: a record has a timestamp, a set of writer ids and a streamCut."""
    cut = Position({"0@0": 1, "1@0": None})
    assert entry_bytes(Watermark(1, 2, cut)) == 48
    # An id takes 2 bytes for its length and those of its text.
    assert entry_bytes(Watermark(1, 2, cut, {"w1": 1, "Köln": 2})) == 48 + (2 + 2) + (2 + 5)
    assert entry_bytes("a") == 16


HISTORY = StreamHistory.create(1)
MARKED: MarksLog[Watermark] = MarksLog()
for time in range(1, 6):
    MARKED, _ = MARKED.append(Watermark(time, time, Position({0: 10 * time})))
REVISIONS = [revision for revision, _ in MARKED.entries]


def read(tracker: Tracker, log: MarksLog[Watermark], offset: int) -> Tracker:
    return tracker.skip_truncated(log).advance(Position({0: offset}), log, HISTORY.segments)


def test_a_finished_segment_is_passed_at_its_end():
    finished = Position({"0@0": 10**9})
    assert compare_with_cut(finished, Position({"0@0": 10**9}), HISTORY.segments) == 1
    assert compare_with_cut(finished, Position({"4@2": 0}), HISTORY.segments) == -1


def test_a_reader_behind_the_start_goes_on_there():
    early = read(Tracker(), MARKED, 10)
    assert early.window.lower == 1
    shorter = MARKED.truncate(REVISIONS[3])
    with pytest.raises(TruncatedError):
        early.advance(Position({0: 50}), shorter, HISTORY.segments)
    assert read(early, shorter, 50).window.lower == 5


@pytest.mark.parametrize("kept", [1, 2, 3, 4, 5])
def test_the_places_of_watermarks_in_the_log_stay_when_it_is_truncated(kept: int) -> None:
    """Also for one that begins to read then, and one that goes on after a revision."""
    shorter = MARKED.truncate(REVISIONS[4 - kept]) if kept < 5 else MARKED
    early = read(Tracker(), MARKED, 10)
    for tracker, passed in ((Tracker(), None), (early, 1), (Tracker.resume(shorter, REVISIONS[2]), None)):
        window = read(tracker, shorter, 40).window
        assert (window.lower_seq, window.upper_seq) == (passed if kept == 1 else 3, 4)
        assert read(tracker, shorter, 50).window.lower_seq == 4


def test_a_reader_reads_no_further_than_it_needs_and_goes_on_from_there() -> None:
    tracker = read(Tracker(), MARKED, 10)
    assert (tracker.fetched, tracker.cursor) == (2, REVISIONS[1])
    assert [watermark.lower for _, watermark in tracker.pending] == [2]
    rest = tracker.advance(Position({0: 50}), MARKED.read_after(tracker.cursor), HISTORY.segments)
    assert rest == read(tracker, MARKED, 50)
    assert rest.window == TimeWindow(5, None)


@pytest.mark.parametrize("kept", [0, 1, 2, 5])
def test_a_reader_at_or_beyond_the_start_notices_nothing(kept):
    late = read(Tracker(), MARKED, 50)
    shorter = MARKED.truncate(REVISIONS[4 - kept]) if kept < 5 else MARKED
    assert read(late, shorter, 50) == late
    assert read(Tracker(), shorter, 50).window.lower == (5 if kept else None)


def test_the_pointer_goes_to_the_entry_before_unless_another_moved_it():
    log, view = open_view(MARKED)
    assert view.previous == MARKED.entries[-1]
    appended, revision = emit(log, view, view.previous[1])
    assert (revision, appended.pointer) == (MARKED.end + 32, view.previous[0])
    elsewhere, _ = log.move_pointer(log.pointer, REVISIONS[1])
    assert settle_pointer(elsewhere, view).pointer == REVISIONS[1]
    assert settle_pointer(log, LeaderView(0, None)) == log
