"""PDP-33, Event Reader API Changes; upstream class `WatermarkReaderImpl`: comparing and following the log."""

from __future__ import annotations

import pytest

from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import MarksLog, TruncatedError, Watermark
from wmlab.streams.model.position import Position, ReaderPosition
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.model.window import TimeWindow, Tracker, compare

HISTORY = StreamHistory.create(2).scale(["0@0"], into=2).scale(["2@1", "3@1", "1@0"], into=1)
SEGMENTS = HISTORY.segments


def test_a_finished_segment_is_past_every_offset_and_at_its_end() -> None:
    assert compare(ReaderPosition({}, ["0@0"]), Position({"0@0": 10**9, "1@0": 0}), SEGMENTS) == 1
    assert compare(ReaderPosition({}, ["0@0"]), Position({"0@0": None, "1@0": 0}), SEGMENTS) == 1
    assert compare(ReaderPosition({}, ["0@0"]), Position({"4@2": 0}), SEGMENTS) == -1


def test_a_segment_of_unknown_range_overlaps_everything() -> None:
    known = {i: segment for i, segment in SEGMENTS.items() if i != parse_segment("2@1")}
    position, cut = ReaderPosition({"2@1": 5}), Position({"3@1": 0, "1@0": 0})
    assert compare(position, Position({"1@0": 0}), SEGMENTS) == 1
    assert compare(position, cut, known) == 0


def log_of(*marks: tuple[int, int, dict[str, int]]) -> MarksLog[Watermark]:
    log: MarksLog[Watermark] = MarksLog()
    for lower, upper, cut in marks:
        log, _ = log.append(Watermark(lower, upper, Position(cut)))
    return log


LOG = log_of((10, 19, {"0@0": 5, "1@0": 5}), (20, 29, {"0@0": 9, "1@0": 9}), (30, 39, {"0@0": 12, "1@0": 12}))


def advanced(tracker: Tracker, log=LOG, **offsets: int) -> Tracker:
    position = ReaderPosition({f"{name[1:]}@0": offset for name, offset in offsets.items()})
    return tracker.advance(position, log, SEGMENTS)


@pytest.mark.parametrize(
    ("left", "right", "window", "seqs"),
    [
        (0, 0, TimeWindow(None, 19), (None, 0)),
        (5, 5, TimeWindow(10, 29), (0, 1)),
        (10, 5, TimeWindow(10, 39), (0, 2)),
        (9, 9, TimeWindow(20, 39), (1, 2)),
        (99, 10, TimeWindow(20, 39), (1, 2)),  # neither passed nor ahead, and the last one
        (99, 99, TimeWindow(30, None), (2, None)),
    ],
)
def test_lower_is_the_last_passed_and_upper_the_first_ahead(left, right, window: TimeWindow, seqs) -> None:
    tracker = advanced(Tracker(), s0=left, s1=right)
    assert tracker.window == window
    assert (tracker.lower_seq, tracker.upper_seq) == seqs


def test_it_reads_no_further_than_it_needs_and_goes_on_from_there() -> None:
    tracker = advanced(Tracker(), s0=5, s1=5)
    assert (tracker.fetched, tracker.cursor) == (2, LOG.entries[1][0])
    assert [watermark.lower for _, watermark in tracker.pending] == [20]
    rest = tracker.advance(ReaderPosition({"0@0": 12, "1@0": 12}), LOG.read_after(tracker.cursor), SEGMENTS)
    assert rest == advanced(tracker, s0=12, s1=12)
    assert rest.window == TimeWindow(30, None)


def test_watermarks_in_flight_are_passed_in_their_order() -> None:
    across = advanced(Tracker(), s0=10, s1=4)
    assert [watermark.lower for _, watermark in across.pending] == [10, 20, 30]
    assert advanced(across, s0=9, s1=9).passed == 20


def test_a_later_watermark_can_be_passed_while_an_earlier_one_is_in_flight() -> None:
    log = log_of((10, 19, {"0@0": 5, "1@0": 5}), (20, 29, {"0@0": 0, "1@0": 4}))
    tracker = advanced(Tracker(), log, s0=4, s1=6)
    assert tracker.window == TimeWindow(20, 19)


def test_a_log_truncated_past_the_cursor_cannot_be_followed() -> None:
    with pytest.raises(TruncatedError):
        advanced(advanced(Tracker(), s0=0, s1=0), LOG.truncate(LOG.entries[1][0]), s0=99, s1=99)
