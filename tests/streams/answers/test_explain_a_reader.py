from __future__ import annotations

from typing import Any

import pytest

from tests.streams.answers.runs import RULES, crash, cycle, mark, position, segment, until, watermark, window, written
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.answers.explain import explain
from wmlab.streams.answers.stream_bound import BoundExplanation
from wmlab.streams.model.segment import segment_name
from wmlab.streams.scenario.parts import ReaderGroup

Row = dict[str, Any]


def at(recording: Recording, at_ms: int, reader: str = "r-0") -> BoundExplanation:
    found = explain(recording, at_ms=at_ms, reader=reader, rules=RULES)
    assert isinstance(found, BoundExplanation)
    return found


@pytest.fixture(scope="module")
def slow() -> Recording:
    return crash(readers=ReaderGroup("r", readers=2, rate_per_s=100, publish_every_ms=900, starts_ms=3_000))


def test_a_slow_segment_holds_the_reader(slow: Recording) -> None:
    found = at(slow, 5_000)
    assert found.sentence == (
        "reader r-0 sees lower bound 89 ms since 4 800 ms, held before the next cut by segment 0@0 (last read by r-0) "
        "at 19 440 of 21 492 bytes and segment 1@0 (last read by r-1) at 19 440 of 20 628 bytes, 1 599 ms behind the "
        "log; the watermark 414 ms, emitted at 3 005 ms, is passed when that is read"
    )
    assert [(s.segment, s.reader, s.offset, s.needed) for s in found.segments] == [
        ("0@0", "r-0", 19_440, 21_492),
        ("1@0", "r-1", 19_440, 20_628),
    ]
    assert (found.cause, found.lower, found.by_ms, found.release_ms) == ("segment", 89, 1_599, None)


@pytest.mark.parametrize("at_ms", [4_000, 5_000, 20_500, 30_500, 59_000])
def test_only_what_was_known_by_then_is_used(slow: Recording, at_ms: int) -> None:
    assert at(slow, at_ms) == at(until(slow, at_ms), at_ms)


def test_the_bound_moves_only_after_the_named_segments_are_read_so_far(slow: Recording) -> None:
    looks = [row for row in slow.table("windows").to_pylist() if row["reader"] == "r-0"]
    read = slow.table("positions").to_pylist()
    held = [found for row in looks if (found := at(slow, row["at_ms"])).segments]
    assert len(held) > 10
    for found in held:
        higher = [row["at_ms"] for row in looks if (row["lower"] or -1) > (-1 if found.lower is None else found.lower)]
        for place in found.segments if higher else ():
            reached = [r for r in read if segment_name(r["segment_id"]) == place.segment and r["at_ms"] <= higher[0]]
            assert any(r["finished"] or (place.needed is not None and r["offset"] >= place.needed) for r in reached)


def test_a_reader_that_has_not_looked_knows_nothing(slow: Recording) -> None:
    found = at(slow, 1_000)
    assert found.sentence == "reader r-0 knows no lower bound: it has not looked at its window yet"
    assert (found.cause, found.lower) == ("not looked", None)


def marked(positions: list[Row], *windows: Row, **tables: list[Row]) -> Recording:
    """A log with the watermarks 10 at 1 100 ms and 20 at 2 100 ms, and where a group and its reader stand."""
    marks: dict[str, list[Row]] = {
        "writer_marks": [mark("w1", 10, 90)],
        "cycles": [cycle(1_100, None, outcome="emitted", participating=["w1"])],
        "watermarks": [watermark(n, 1_100 + 1_000 * n, w1=10 * (n + 1)) for n in range(2)],
    }
    return written(**(marks | tables), positions=positions, windows=list(windows))


def test_a_reader_before_the_first_cut_is_told_so() -> None:
    assert at(marked([position(40, 1, 1_500)], window(None, 2_300)), 2_500).sentence == (
        "reader r-0 knows no lower bound, held before the first cut by segment 0@0 (last read by r-0) at 40 of 100 "
        "bytes; the watermark 10 ms, emitted at 1 100 ms, is passed when that is read"
    )
    unread = at(marked([position(0, 1, 1_500, None)], window(None, 2_300)), 2_500)
    assert "segment 0@0 (read by nobody yet) at 0 of 100 bytes" in unread.sentence


def test_a_group_that_has_passed_the_cut_waits_for_its_next_look() -> None:
    found = at(marked([position(40, 1, 1_500), position(250, 2, 2_400)], window(10, 2_300)), 2_500)
    assert found.sentence == (
        "reader r-0 sees lower bound 10 ms since 2 300 ms, for it has not looked since 2 300 ms, 10 ms behind the log: "
        "its group has passed the watermark 20 ms, emitted at 2 100 ms; it looks again at 3 300 ms"
    )
    assert (found.cause, found.release_ms) == ("not looked since", 3_300)


def test_a_segment_of_an_older_epoch_has_to_be_finished() -> None:
    split = [segment(), segment(1, 1, "0..1/2"), segment(2, 1, "1/2..1")]
    later = watermark(0, 1_100, w1=10) | {"cut": {2**32 + 1: 0, 2**32 + 2: 0}}
    found = at(marked([position(40, 1, 1_500)], window(None, 2_300), watermarks=[later], segments=split), 2_500)
    assert "segment 0@0 (last read by r-0), which has to be finished" in found.sentence
    assert found.segments[0].needed is None


def test_at_the_end_of_the_log_or_of_known_time_the_streams_own_holder_is_told() -> None:
    end = watermark(1, 2_150, w1=20) | {"writers": {}, "cut": {0: 220}}
    read = [position(250, 1, 2_200)]
    newest = at(marked(read, window(20, 2_300)), 2_500)
    ended = at(
        marked(read, window(20, 2_140), window(None, 2_300), watermarks=[watermark(0, 1_100, w1=20), end]), 2_500
    )
    for found, words in (
        (newest, " sees the newest lower bound there is: "),
        (ended, ": no lower bound since 2 150 ms"),
    ):
        assert found.cause == "no newer mark"
        assert found.log is not None
        assert found.sentence.startswith(f"reader r-0{words}")
        assert found.sentence.endswith(found.log.sentence)


def test_a_reader_must_exist_and_be_asked_at_a_moment(slow: Recording) -> None:
    with pytest.raises(RecordingError, match="no reader 'r-7' of orders; its readers: r-0, r-1"):
        explain(slow, at_ms=1, reader="r-7")
    with pytest.raises(RecordingError, match="no moment"):
        explain(slow, reader="r-0")
