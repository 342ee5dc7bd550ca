"""The designs of the read side on a history of a few notes, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.index import extended_attributes, ingestion_time, marks_segment, segment_index
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.replay import Received
from wmlab.streams.model.window import TimeWindow

SEGMENTS = StreamHistory.create(2).segments
LOG = [
    (1_000, Watermark(10, 20, Position({"0@0": 100, "1@0": 50}))),
    (2_000, Watermark(30, 40, Position({"0@0": 300, "1@0": 80}))),
]
NOTES = [
    Received(500, "a", 10, Position({"0@0": 100, "1@0": None})),
    Received(600, "b", 20, Position({"0@0": 90, "1@0": 50})),
    Received(1_500, "a", 30, Position({"0@0": 300, "1@0": 60})),
]


def at(first: int, second: int) -> Position:
    return Position({"0@0": first, "1@0": second})


def test_a_watermark_counts_once_it_is_known_in_both_designs_that_store_watermarks() -> None:
    for design in (marks_segment, extended_attributes):
        window = design(LOG, 4, SEGMENTS).window
        assert window(at(100, 50), 999) == TimeWindow(None, None)
        assert window(at(100, 50), 1_999) == TimeWindow(10, None)
        assert window(at(100, 50), 2_000) == TimeWindow(10, 40)
        assert window(at(300, 80), 2_000) == TimeWindow(30, None)


def test_attributes_find_a_time_with_one_request_and_take_more_bytes() -> None:
    marks, attributes = (design(LOG, 4, SEGMENTS) for design in (marks_segment, extended_attributes))
    assert extended_attributes([], 0, SEGMENTS).find_next_attribute_following(0) is None
    assert (marks.requests, marks.bytes_stored, marks.search) == (4 + 2 * 2, 2 * (48 + 16), 2 + 1)
    assert (attributes.requests, attributes.bytes_stored, attributes.search) == (4 + 2, 2 * 3 * 24, 1)


def test_the_ids_of_the_writers_are_stored_in_both_designs_and_attributes_are_less_compact() -> None:
    """PDP-33, "Using extended attributes instead of a index segment": "less compact in terms of storage"."""
    ids = ("w1", "a-writer-of-orders")
    log = [(at_ms, replace(watermark, writers=dict.fromkeys(ids, 10))) for at_ms, watermark in LOG]
    marks, attributes = (design(log, 4, SEGMENTS) for design in (marks_segment, extended_attributes))
    assert marks.bytes_stored == 2 * (48 + (2 + 2) + (2 + 18) + 16)
    assert attributes.bytes_stored == 2 * (3 + len(ids)) * 24
    assert marks.bytes_stored < attributes.bytes_stored


def test_an_end_of_known_time_has_no_index_record() -> None:
    end = Watermark(30, 40, Position({"0@0": 400, "1@0": 90}), known=False)
    marks = marks_segment([*LOG, (3_000, end)], 4, SEGMENTS)
    assert (marks.requests, marks.bytes_stored, marks.search) == (4 + 3 + 2, 3 * 48 + 2 * 16, 2 + 1)
    assert marks.window(at(400, 90), 3_000) == TimeWindow(None, None)


def test_a_segment_joins_what_is_noted_in_it() -> None:
    index = segment_index(NOTES, SEGMENTS, timeout_ms=60_000)
    assert index.window(at(100, 0), 500) == TimeWindow(10, None)
    assert index.window(at(99, 0), 500) == TimeWindow(None, None)
    assert index.window(at(99, 60), 600) == TimeWindow(None, None)
    assert index.window(at(300, 60), 1_500) == TimeWindow(20, None)
    assert index.window(at(200, 55), 1_500) == TimeWindow(10, 30)
    # Three notes of two segments each; each segment has an entry at 500 and one at 1 500 ms.
    assert (index.requests, index.bytes_stored, index.search) == (6, 4 * 24, 2 + 2)


def test_a_writer_that_is_silent_for_the_timeout_counts_no_more_in_a_segment() -> None:
    assert segment_index(NOTES, SEGMENTS, timeout_ms=900).window(at(300, 60), 1_500) == TimeWindow(30, None)
    assert segment_index(NOTES, SEGMENTS, timeout_ms=0).window(at(300, 60), 1_500) == TimeWindow(30, None)


def test_ingestion_time_is_known_without_any_writer() -> None:
    first, second = SEGMENTS
    stored = ingestion_time({first: [(100, 10), (200, 20), (300, 35)]}, {first: None, second: 40}, SEGMENTS)
    assert stored.window(at(0, 0), 5) == TimeWindow(5, None)
    assert stored.window(at(0, 0), 50) == TimeWindow(10, None)
    assert stored.window(at(100, 0), 50) == TimeWindow(20, 10)
    assert stored.window(at(300, 0), 38) == TimeWindow(38, 35)
    assert stored.window(at(300, 0), 50) == TimeWindow(40, 35)
    assert stored.window(Position(), 50) == TimeWindow(None, None)
    assert (stored.requests, stored.bytes_stored, stored.search) == (0, 3 * 16, 2)


def test_a_design_is_shown_with_its_costs() -> None:
    shown = "ReadSide(name='ingestion time', requests=0, bytes_stored=0, search=0)"
    assert repr(ingestion_time({}, {}, {})) == shown
