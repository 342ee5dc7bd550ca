"""What holds the lower bound at the position of a group, and the one that a reader saw."""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.answers.runs import crash, cycle, fault, mark, position, segment, until, watermark, window, written
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.answers.explain import BoundExplanation, explain
from wmlab.streams.answers.vocabulary import CauseKind
from wmlab.streams.model.segment import segment_name
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import ReaderGroup
from wmlab.streams.scenario.rules import Rules

Row = dict[str, Any]


def at(recording: Recording, at_ms: int, reader: str = "r-0") -> BoundExplanation:
    explained = explain(recording, at_ms=at_ms, reader=reader)
    assert isinstance(explained, BoundExplanation)
    return explained


@pytest.fixture(scope="module")
def slow() -> Recording:
    return crash(readers=ReaderGroup("r", readers=2, rate_per_s=100, publish_every_ms=900, starts_ms=3_000))


def test_a_segment_that_is_not_read_yet_holds_the_reader(slow: Recording) -> None:
    explained = at(slow, 5_000)
    assert explained.headline == "Group r has not read up to the next cut."
    facts = {"saw": 89, "at position": 89, "newest watermark": 1_688, "read by": ("r-0", "r-1")}
    assert {label: explained.facts[label] for label in facts} == facts
    assert (explained.facts["segment"], explained.facts["bytes left"]) == (("0@0", "1@0"), (2_052, 1_188))
    assert [(s.name, s.reader, s.offset, s.needed) for s in explained.cause.parties] == [
        ("0@0", "r-0", 19_440, 21_492),
        ("1@0", "r-1", 19_440, 20_628),
    ]
    assert (explained.cause.kind, explained.value, explained.cause.newest) == (CauseKind.UNREAD, 89, 1_688)


@pytest.mark.parametrize("at_ms", [4_000, 5_000, 20_500, 30_500, 59_000])
def test_only_what_was_known_by_then_is_used(slow: Recording, at_ms: int) -> None:
    then = at(until(slow, at_ms), at_ms)
    assert (then.cause.kind, then.cause.names, then.value) == (
        at(slow, at_ms).cause.kind,
        at(slow, at_ms).cause.names,
        at(slow, at_ms).value,
    )


def test_the_bound_moves_only_after_the_named_segments_are_read_so_far(slow: Recording) -> None:
    looks = [row for row in slow.table("windows").to_pylist() if row["reader"] == "r-0"]
    read = slow.table("positions").to_pylist()
    unread = [explained for row in looks if (explained := at(slow, row["at_ms"])).cause.kind is CauseKind.UNREAD]
    assert len(unread) > 10
    for explained in unread:
        lower = -1 if explained.value is None else explained.value
        higher = [row["at_ms"] for row in looks if (row["lower"] or -1) > lower]
        for party in explained.cause.parties if higher else ():
            reached = [r for r in read if segment_name(r["segment_id"]) == party.name and r["at_ms"] <= higher[0]]
            assert any(r["finished"] or (party.needed is not None and r["offset"] >= party.needed) for r in reached)


def logged(positions: list[Row], *windows: Row, **tables: list[Row]) -> Recording:
    """A log with the watermarks 10 at 1 100 ms and 20 at 2 100 ms, and the positions of a group and its reader."""
    marks: dict[str, list[Row]] = {
        "writer_marks": [mark("w1", 10, 90)],
        "cycles": [cycle(1_100, None, outcome="emitted", participating=["w1"])],
        "watermarks": [watermark(n, 1_100 + 1_000 * n, w1=10 * (n + 1)) for n in range(2)],
    }
    return written(**(marks | tables), positions=positions, windows=list(windows))


def test_a_reader_before_the_first_cut_has_bytes_to_read() -> None:
    explained = at(logged([position(40, 1, 1_500)], window(None, 2_300)), 2_500)
    assert dict(explained.facts) == {
        "moment": 2_500,
        "reader": "r-0",
        "group": "r",
        "polled at": 2_300,
        "newest watermark": 20,
        "cause": "unread",
        "segment": "0@0",
        "read by": "r-0",
        "bytes left": 60,
        "position holder": "r-0",
        "log holder": "w1",
    }
    unpublished = at(logged([position(0, 1, 1_500, None)], window(None, 2_300)), 2_500)
    assert (unpublished.cause.kind, unpublished.facts["position holder"]) == (CauseKind.UNREAD, "unread segments")


def test_a_segment_that_was_released_has_no_reader_until_it_is_read_again() -> None:
    released = [position(20, 1, 1_500), position(20, 2, 1_800, None)]
    unowned = at(logged(released, window(None, 2_300)), 2_500)
    assert unowned.cause.kind is CauseKind.ASSIGNMENT
    assert unowned.headline == "No reader of r has taken segment 0@0 since its release."
    assert (unowned.facts["read before by"], unowned.facts["position holder"]) == ("r-0", "r-0")
    read = {"stream": "orders", "group": "r", "reader": "r-1", "segment_id": 0, "again": False, "lower": None}
    reads = [read | {"from_offset": 20, "to_offset": 40, "at_ms": 2_200}]
    assert at(logged(released, window(None, 2_300), reads=reads), 2_500).cause.kind is CauseKind.UNREAD


def test_a_reader_that_is_paused_is_named_with_its_pause() -> None:
    pause = fault("pause", "r-0", 1_600, subject="reader", until_ms=9_000)
    explained = at(logged([position(140, 1, 1_500)], window(10, 1_550), incidents=[pause]), 2_500)
    assert explained.headline == "The bound at the position of r waits for r-0, paused since 1.6 s."
    facts = {"saw": 10, "saw first at": 1_550, "holder": "r-0", "holder state": "paused", "holder until": 9_000}
    assert {label: explained.facts[label] for label in facts} == facts
    assert explained.cause.kind is CauseKind.READER


def test_events_that_are_read_wait_to_be_published() -> None:
    read = {"stream": "orders", "group": "r", "reader": "r-0", "segment_id": 0, "again": False, "lower": None}
    reads = [read | {"from_offset": 140, "to_offset": 220, "at_ms": 2_200}]
    recording = logged([position(140, 1, 1_500)], window(10, 1_550), reads=reads)
    assert at(recording, 2_150).cause.kind is CauseKind.UNREAD
    explained = at(recording, 2_500)
    assert explained.cause.kind is CauseKind.PUBLICATION
    assert explained.headline == "Group r has read up to the next cut, and its published position has not passed it."
    assert (explained.facts["read by"], explained.facts["bytes left"]) == ("r-0", 60)


def test_a_group_that_has_passed_the_cut_waits_for_the_next_look_of_its_reader() -> None:
    positions = [position(40, 1, 1_500), position(250, 2, 2_400)]
    explained = at(logged(positions, window(10, 2_300)), 2_500)
    assert explained.cause.kind is CauseKind.NEXT_LOOK
    assert explained.headline == "Reader r-0 has not polled since the bound at the position of r changed."
    assert (explained.facts["saw"], explained.facts["polled at"], explained.facts["at position"]) == (10, 2_300, 20)
    looked = at(logged(positions, window(10, 2_300), window(10, 2_450)), 2_500)
    assert looked.cause.kind is CauseKind.OTHER_POSITION


def test_a_segment_of_an_older_epoch_has_to_be_finished() -> None:
    split = [segment(), segment(1, 1, "0..1/2"), segment(2, 1, "1/2..1")]
    later = watermark(0, 1_100, w1=10) | {"cut": {2**32 + 1: 0, 2**32 + 2: 0}}
    explained = at(logged([position(40, 1, 1_500)], window(None, 2_300), watermarks=[later], segments=split), 2_500)
    assert (explained.facts["segment"], explained.facts["read by"]) == ("0@0", "r-0")
    assert "bytes left" not in explained.facts
    assert explained.cause.parties[0].needed is None


def test_at_the_end_of_the_log_the_cause_is_that_of_the_log() -> None:
    explained = at(logged([position(250, 1, 2_200)], window(20, 2_300)), 2_500)
    assert explained.cause.kind is CauseKind.NEWEST
    assert explained.cause.log == explain(logged([position(250, 1, 2_200)]), at_ms=2_500).cause
    assert explained.sentence == (
        "Reader r-0 saw the newest watermark at its last poll. No time above the watermark is accepted from w1."
    )


def test_a_reader_of_a_shared_map_waits_for_the_reader_with_the_least_time() -> None:
    recording = crash(
        readers=ReaderGroup("r", readers=2),
        rules=Rules(read_side="document"),
        script=[script.PauseReader(at_ms=20_000, reader="r-1", for_ms=15_000)],
    )
    explained = recording.explain(30_000, group="r")
    assert (explained.cause.kind, explained.cause.names) == (CauseKind.READER, ("r-1",))
    applied = [row for row in recording.table("group_updates").to_pylist() if row["outcome"] == "applied"]
    assert explained.value == [row["lower"] for row in applied if row["at_ms"] <= 30_000][-1]


def test_a_reader_and_a_group_must_exist_and_be_asked_at_a_moment(slow: Recording) -> None:
    with pytest.raises(RecordingError, match="no reader 'r-7' of orders; its readers: r-0, r-1"):
        explain(slow, at_ms=1, reader="r-7")
    with pytest.raises(RecordingError, match="no reader group 'x' of orders; its groups: r"):
        explain(slow, at_ms=1, group="x")
    with pytest.raises(RecordingError, match="Reader 'r-0' is not in group 'x', but in 'r'"):
        explain(slow, at_ms=1, reader="r-0", group="x")
    for asked in ({"reader": "r-0"}, {"group": "r"}, {"bound": "upper"}):
        with pytest.raises(RecordingError, match="no moment"):
            explain(slow, **asked)  # type: ignore[arg-type]
