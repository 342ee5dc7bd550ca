"""The index segment: fixed records, conditional append, recovery from the log, and the two searches."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, strategies as st

from wmlab.streams.model.index import (
    caught_up,
    cut_at_time,
    missing,
    start_of,
    window_at,
)
from wmlab.streams.model.log import MarksLog, TruncatedError, Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import WHOLE, Segment
from wmlab.streams.model.window import TimeWindow, Tracker

SEGMENTS = {0: Segment(0, 0, WHOLE)}


def log_of(*marks: tuple[int, int], ends: Mapping[int, int] | None = None) -> MarksLog[Watermark]:
    """A log of (lower, offset in segment 0); `ends` has an end of known time after some of them, so far beyond them."""
    log: MarksLog[Watermark] = MarksLog()
    for number, (lower, offset) in enumerate(marks):
        log, _ = log.append(mark := Watermark(lower, lower + 5, Position({0: offset})))
        if ends and number in ends:
            log, _ = log.append(replace(mark, cut=Position({0: offset + ends[number]}), known=False))
    return log


MARKS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=12).map(
    lambda steps: tuple(accumulate(steps, lambda mark, step: (mark[0] + step[0], mark[1] + step[1])))
)


@given(MARKS, st.integers(0, 12), st.integers(-1, 70))
def test_a_time_is_answered_alike_whatever_the_index_lacks(
    marks: tuple[tuple[int, int], ...], kept: int, time: int
) -> None:
    log = log_of(*marks)
    whole = caught_up((), log)
    short = whole[:kept]
    known = [offset for lower, offset in marks if lower <= time]
    for index in (whole, short, ()):
        cut = cut_at_time(index, log, time)
        assert (None if cut is None else cut[0]) == (known[-1] if known else None)
        closest = cut_at_time(index, log, time, closest=True)
        distances = [(abs(lower - time), lower, offset) for lower, offset in marks]
        assert (None if closest is None else closest[0]) == min(distances, default=(0, 0, None))[2]
    assert caught_up(short, log) == whole


@given(MARKS, st.integers(0, 12), st.integers(0, 40), st.dictionaries(st.integers(0, 12), st.integers(0, 1)))
def test_a_place_is_answered_as_a_reader_would(
    marks: tuple[tuple[int, int], ...], kept: int, offset: int, ends: dict[int, int]
) -> None:
    # The cut of an end is at or before that of the watermark after it.
    following = dict(enumerate(marks[1:]))
    ends = {
        n: min(d, following[n][1] - marks[n][1]) if n in following else d for n, d in ends.items() if n < len(marks)
    }
    log = log_of(*marks, ends=ends)
    index = caught_up((), log)[:kept]
    position = Position({0: offset})
    assert window_at(index, log, position, SEGMENTS) == Tracker().advance(position, log, SEGMENTS).window


def test_a_truncated_log_answers_for_what_is_left() -> None:
    log = log_of((1, 1), (2, 2), (3, 3), (4, 4))
    index = caught_up((), log)[:2]
    left = log.truncate(log.entries[1][0])
    assert [record.time for record in missing(index, left)] == [3, 4]
    assert cut_at_time(index, left, 3) == {0: 3}
    assert window_at(index, left, Position({0: 3}), SEGMENTS) == TimeWindow(3, 9)
    with pytest.raises(TruncatedError):
        cut_at_time(index, left, 2)


def test_an_entry_begins_where_the_one_before_it_ends_and_a_tracker_goes_on_there() -> None:
    log = log_of((1, 1), (2, 2), (3, 3), (4, 4))
    assert [start_of(log, lower) for lower in (None, 1, 2, 3, 9)] == [0, 0, 32, 64, 0]
    whole = Tracker().advance(Position({0: 3}), log, SEGMENTS)
    resumed = Tracker.resume(log, start_of(log, 3))
    assert (resumed.passed, resumed.fetched) == (None, 2)
    assert resumed.advance(Position({0: 3}), log, SEGMENTS) == whole
    assert Tracker.resume(log, 0).advance(Position({0: 3}), log, SEGMENTS) == whole
