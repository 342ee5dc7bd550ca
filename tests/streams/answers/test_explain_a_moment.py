from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.streams.answers.runs import RULES, crash, cycle, fault, mark, segment, until, watermark, written
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.answers.explain import Explanation
from wmlab.streams.answers.history import Rules
from wmlab.streams.answers.reader import explain
from wmlab.streams.model.replay import Configuration


@pytest.fixture(scope="module")
def run() -> Recording:
    return crash()


def at(recording: Recording, at_ms: int, rules: Rules = RULES) -> Explanation:
    found = explain(recording, at_ms=at_ms, rules=rules)
    assert isinstance(found, Explanation)
    return found


def test_a_crashed_writer_holds_the_bound_until_it_times_out(run: Recording) -> None:
    found = at(run, 36_000)
    assert repr(found) == (
        "lower bound held at 28 922 ms since 34 005 ms by writer w2: crashed, last mark 28 922 ms noted at 29 000 ms, "
        "4 037 ms behind the others; it times out at 44 005 ms"
    )
    (writer,) = found.writers
    assert (found.lower, found.cause, found.since_ms, found.by_ms) == (28_922, "lagging", 34_005, 4_037)
    assert (writer.writer, writer.state, writer.time, writer.noted_ms) == ("w2", "crashed", 28_922, 29_000)


def test_the_predicted_release_is_the_cycle_that_drops_the_writer(run: Recording) -> None:
    dropped = [row["at_ms"] for row in run.table("cycles").to_pylist() if "w2" in row["removed"]]
    assert {at(run, at_ms).release_ms for at_ms in range(34_005, dropped[0], 97)} == set(dropped)


def test_the_predicted_rise_is_what_the_next_cycle_emits(run: Recording) -> None:
    for watermark_row in run.table("watermarks").to_pylist()[1:]:
        found = at(run, watermark_row["emitted_ms"] - 1)
        if found.cause == "slowest":
            assert found.release_ms in (None, watermark_row["emitted_ms"])
        if found.release_ms is not None and found.cause == "slowest":
            assert f"raises it to {watermark_row['lower']:,} ms".replace(",", " ") in found.sentence


@pytest.mark.parametrize("at_ms", [0, 900, 1_500, 2_004, 2_005, 17_000, 34_004, 36_000, 44_004, 56_000, 60_000])
def test_only_what_was_known_by_then_is_used(run: Recording, at_ms: int) -> None:
    assert at(run, at_ms) == at(until(run, at_ms), at_ms)


@pytest.mark.parametrize(
    ("at_ms", "sentence"),
    [
        (
            500,
            "no lower bound yet: no writer has noted a time, though w1 and w2 have written; it waits for a noted time",
        ),
        (
            1_500,
            "no lower bound yet: w1 and w2 have noted a time, but no cycle has run; the first cycle runs at 2 005 ms",
        ),
        (
            5_000,
            "lower bound is 1 688 ms since 4 005 ms, the time that w1 had noted, 2 214 ms behind what the others have "
            "noted since; the next cycle, at 5 005 ms, raises it to 2 728 ms",
        ),
    ],
)
def test_no_bound_and_a_moving_bound_are_explained_too(run: Recording, at_ms: int, sentence: str) -> None:
    assert at(run, at_ms).sentence == sentence


def test_refused_notes_leave_no_bound() -> None:
    found = at(written(writer_marks=[mark("w1", 5, 100, "invalid position")]), 200)
    assert found.sentence == (
        "no lower bound yet: no noted time was accepted, those of w1 (invalid position) were refused; "
        "it waits for a noted time"
    )
    assert (found.cause, found.lower) == ("no mark", None)


def test_a_stream_in_which_nothing_is_written_is_told_so() -> None:
    assert "no writer has noted a time or written an event" in at(written(), 200).sentence


def test_a_failed_cut_is_told_with_its_reason_and_the_next_try() -> None:
    failed = cycle(1_100, None, reason="cut failed: unknown segment 9@4", participating=["w1"])
    found = at(written(writer_marks=[mark("w1", 5, 100)], cycles=[failed]), 1_500)
    assert found.cause == "cut failed: unknown segment 9@4"
    assert found.sentence == (
        "no lower bound yet: the cycles end with: cut failed: unknown segment 9@4; "
        "the next cycle tries again at 2 100 ms"
    )


@pytest.mark.parametrize("at_ms", [-1, 60_001])
def test_a_moment_outside_the_run_is_refused(run: Recording, at_ms: int) -> None:
    with pytest.raises(RecordingError, match="outside the run, which lasts from 0 ms to 60 000 ms"):
        run.explain(at_ms=at_ms)


def emitted(**rows: Any) -> dict[str, Any]:
    """One watermark of w1 (10), w2 (20) and w3 (30) at 1 100 ms, then the given rows."""
    noted = [mark("w1", 10, 90), mark("w2", 20, 95), mark("w3", 30, 100)]
    first = cycle(1_100, None, outcome="emitted", participating=["w1", "w2", "w3"])
    tables = {"writer_marks": noted, "cycles": [first], "watermarks": [watermark(0, 1_100, w1=10, w2=20, w3=30)]}
    return {name: [*tables.get(name, []), *rows.get(name, [])] for name in {*tables, *rows}}


def test_several_writers_that_lag_are_all_named() -> None:
    held = cycle(2_100, 10, lagging=["w1", "w2"], participating=["w3"], reason="waits")
    found = at(written(**emitted(cycles=[held], incidents=[fault("silence", "w2", 1_500)])), 2_500)
    assert found.sentence == (
        "lower bound held at 10 ms since 2 100 ms by writers w1 (last mark 10 ms noted at 85 ms) and w2 (silent, last "
        "mark 20 ms noted at 90 ms, beyond the bound, not yet seen by a cycle), 20 ms behind the others; the last of "
        "them times out at 12 100 ms"
    )


def test_a_writer_that_has_caught_up_is_seen_by_the_next_cycle() -> None:
    held = cycle(2_100, 10, lagging=["w1"], participating=["w2", "w3"], reason="waits")
    found = at(written(**emitted(cycles=[held], writer_marks=[mark("w1", 40, 2_200)])), 2_500)
    assert found.release_ms == 3_100
    assert found.sentence.endswith("beyond the bound, not yet seen by a cycle, 10 ms behind the others; "
                                   "the next cycle sees it at 3 100 ms")  # fmt: skip


def test_a_later_note_that_was_refused_is_part_of_the_story() -> None:
    held = cycle(2_100, 10, lagging=["w1"], participating=["w2", "w3"], reason="waits")
    found = at(written(**emitted(cycles=[held], writer_marks=[mark("w1", 3, 2_200, "invalid time")])), 2_500)
    assert "a later note was refused (invalid time)" in found.sentence


def test_a_new_leader_starts_the_inactivity_clock_again() -> None:
    held = [
        cycle(2_100, 10, lagging=["w1"], reason="waits"),
        cycle(3_100, 10, lagging=["w1"], reason="waits", controller="c2"),
    ]
    found = at(written(**emitted(cycles=held)), 3_500)
    assert found.writers[0].behind_since_ms == 3_100
    assert (found.since_ms, found.release_ms) == (2_100, 13_100)


def test_a_timeout_from_the_last_note_is_predicted_from_there() -> None:
    held = cycle(2_100, 10, lagging=["w1"], reason="waits")
    rules = Rules(cycles=Configuration(period_ms=1_000, timeout_ms=5_000, timeout_from="last_note"))
    assert at(written(**emitted(cycles=[held])), 2_500, rules).release_ms == 5_100


def test_nobody_left_waits_for_a_noted_time() -> None:
    last = cycle(2_100, 10, removed=["w1", "w2", "w3"], reason="no active writer")
    found = at(written(**emitted(cycles=[last])), 9_000)
    assert found.sentence == (
        "lower bound held at 10 ms since 2 100 ms because no active writer is left; it waits for a noted time"
    )
    assert found.release_ms is None


def test_without_rules_nothing_is_predicted(run: Recording) -> None:
    found = at(run, 36_000, Rules())
    assert found.release_ms is None
    assert found.sentence.endswith("4 037 ms behind the others")


def test_an_explanation_is_data(run: Recording) -> None:
    found = at(run, 36_000)
    assert json.loads(found.to_json()) == json.loads(json.dumps(found.to_dict()))
    assert found.to_dict()["writers"][0]["dropped_ms"] == 44_005
    assert found._repr_html_() == f"<p>{found.sentence}</p>"


def test_times_since_1970_are_written_as_dates(run: Recording) -> None:
    start = 1_388_757_600_000
    found = at(written(writer_marks=[mark("w1", start, start + 100)]), start + 200)
    assert found.sentence.endswith("the first cycle runs at 2014-01-03 14:00:01.100 UTC")


def test_a_stream_must_be_clear() -> None:
    two = written(segments=[segment() | {"stream": "a"}, segment() | {"stream": "b"}])
    with pytest.raises(RecordingError, match="several streams; its streams: a, b"):
        explain(two, at_ms=0)
    with pytest.raises(RecordingError, match="no stream 'c'"):
        explain(two, at_ms=0, stream="c")
    assert explain(two, at_ms=0, stream="b").stream == "b"


def test_a_moment_may_come_from_a_table(run: Recording) -> None:
    assert at(run, np.int64(36_000)) == at(run, 36_000)


@pytest.mark.parametrize("at_ms", [1.5, "now", True])
def test_a_moment_is_whole_milliseconds(run: Recording, at_ms: Any) -> None:
    with pytest.raises(RecordingError, match="no moment"):
        explain(run, at_ms=at_ms)


def test_the_only_writer_that_is_counted_holds_the_bound_at_an_unknown_price() -> None:
    found = at(written(writer_marks=[mark("a", 500, 600)], **only_a()), 1_500)
    assert [writer.writer for writer in found.writers] == ["a"]
    assert (found.cause, found.lower, found.by_ms) == ("slowest", 500, None)


def only_a() -> dict[str, Any]:
    return {
        "cycles": [cycle(1_000, None, outcome="emitted", participating=["a"])],
        "watermarks": [watermark(0, 1_000, a=500)],
    }
