from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.streams.answers.runs import RULES, crash, cycle, fault, mark, segment, until, watermark, written
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.answers import history
from wmlab.streams.answers.explain import explain
from wmlab.streams.answers.history import PredictionRules, events_of
from wmlab.streams.answers.stream_bound import BoundExplanation, sentences
from wmlab.streams.api import Scenario
from wmlab.streams.model.replay import Configuration
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream


@pytest.fixture(scope="module")
def run() -> Recording:
    return crash()


def at(recording: Recording, at_ms: int, rules: PredictionRules = RULES) -> BoundExplanation:
    found = explain(recording, at_ms=at_ms, rules=rules)
    assert isinstance(found, BoundExplanation)
    return found


def test_a_crashed_writer_holds_the_bound_until_it_times_out(run: Recording) -> None:
    found = at(run, 36_000)
    assert " ".join(repr(found).splitlines()) == found.sentence
    assert found.sentence == (
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


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"reason": "cut failed: unknown segment 9@4"}, "cut failed: unknown segment 9@4"),
        ({"outcome": "emitted"}, "the watermark was not appended"),
    ],
)
def test_a_failed_cycle_is_told_with_its_reason_and_the_next_try(columns: dict[str, str], reason: str) -> None:
    failed = cycle(1_100, None, participating=["w1"], **columns)
    found = at(written(writer_marks=[mark("w1", 5, 100)], cycles=[failed]), 1_500)
    again = "the next cycle tries again at 2 100 ms"
    assert found.cause == reason
    assert found.sentence == f"no lower bound yet: the cycles end with: {reason}; {again}"


@pytest.mark.parametrize(
    ("at_ms", "words"),
    [(t, "outside the run, which lasts from 0 ms to 60 000 ms") for t in (-1, 60_001)]
    + [(t, "no moment") for t in (1.5, "now", True)],
)
def test_what_is_no_moment_of_the_run_is_refused(run: Recording, at_ms: Any, words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        run.explain(at_ms=at_ms)


def emitted(*cycles: dict[str, Any], **rows: list[dict[str, Any]]) -> Recording:
    """One watermark of w1 (10), w2 (20) and w3 (30) at 1 100 ms, then the given rows."""
    tables = {
        "writer_marks": [mark("w1", 10, 90), mark("w2", 20, 95), mark("w3", 30, 100)],
        "cycles": [cycle(1_100, None, outcome="emitted", participating=["w1", "w2", "w3"]), *cycles],
        "watermarks": [watermark(0, 1_100, w1=10, w2=20, w3=30)],
        "incidents": [],
    }
    return written(**{name: [*of, *rows.get(name, [])] for name, of in tables.items()})


def waits(at_ms: int, *lagging: str, controller: str = "c1") -> dict[str, Any]:
    return cycle(at_ms, 10, lagging=list(lagging), reason="waits", controller=controller)


def test_several_writers_that_lag_are_all_named() -> None:
    found = at(emitted(waits(2_100, "w1", "w2"), incidents=[fault("silence", "w2", 1_500)]), 2_500)
    assert found.sentence == (
        "lower bound held at 10 ms since 2 100 ms by writers w1 (last mark 10 ms noted at 85 ms) and w2 (silent, last "
        "mark 20 ms noted at 90 ms, beyond the bound, not yet seen by a cycle), 20 ms behind the others; the last of "
        "them times out at 12 100 ms"
    )


@pytest.mark.parametrize(
    ("note", "release_ms", "words"),
    [
        (mark("w1", 40, 2_200), 3_100, "beyond the bound, not yet seen by a cycle, 10 ms behind the others; the next "
         "cycle sees it at 3 100 ms"),
        (mark("w1", 3, 2_200, "invalid time"), 12_100, "a later note was refused (invalid time), 10 ms behind the "
         "others; it times out at 12 100 ms"),
    ],
    ids=["caught up", "refused"],
)  # fmt: skip
def test_what_a_lagging_writer_has_noted_since_is_told(note: dict[str, Any], release_ms: int, words: str) -> None:
    found = at(emitted(waits(2_100, "w1"), writer_marks=[note]), 2_500)
    assert found.release_ms == release_ms
    assert found.sentence.endswith(words)


def test_a_timeout_is_predicted_from_the_first_cycle_of_the_leader_or_from_the_last_note() -> None:
    found = at(emitted(waits(2_100, "w1"), waits(3_100, "w1", controller="c2")), 3_500)
    assert found.writers[0].behind_since_ms == 3_100
    assert (found.since_ms, found.release_ms) == (2_100, 13_100)
    rules = PredictionRules(cycles=Configuration(period_ms=1_000, timeout_ms=5_000, timeout_from="last_note"))
    assert at(emitted(waits(2_100, "w1")), 2_500, rules).release_ms == 5_100


def test_nobody_left_waits_for_a_noted_time() -> None:
    found = at(
        emitted(cycle(2_100, 10, removed=["w1", "w2", "w3"], reason="no active writer", cause="no active writer")),
        9_000,
    )
    assert found.sentence == (
        "lower bound held at 10 ms since 2 100 ms because no active writer is left; it waits for a noted time"
    )
    assert found.release_ms is None


def test_the_bound_is_gone_since_known_time_ended() -> None:
    gone = {"reason": "no active writer", "cause": "no active writer"}
    cycles = [cycle(2_100, 10, **gone), cycle(3_100, 10, reason="cut failed")]
    found = at(emitted(*cycles, watermarks=[watermark(1, 2_100, w1=10) | {"writers": {}}]), 3_500)
    assert found.sentence.startswith("no lower bound since 2 100 ms: the cycles end with: cut failed; ")


def test_many_sentences_read_the_events_once(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = crash(writers=[EventWriter("w1", rate_per_s=9, note_every_ms=None)], script=[], duration_ms=9_000)
    read = []
    monkeypatch.setattr(history, "events_of", lambda *asked: read.append(asked) or events_of(*asked))
    told = sentences(silent, "orders", range(0, 9_000, 100))
    first_ms = silent.table("events")["append_ms"].to_pylist()[0]
    assert told[1][0] == -(-first_ms // 100) * 100
    assert [text.split(": ")[1].split(";")[0] for _, text in told] == [
        "no writer has noted a time or written an event",
        "no writer has noted a time, though w1 has written",
    ]
    assert len(read) == 1


def test_without_rules_nothing_is_predicted(run: Recording) -> None:
    found = at(run, 36_000, PredictionRules())
    assert found.release_ms is None
    assert found.sentence.endswith("4 037 ms behind the others")


def test_an_explanation_is_data(run: Recording) -> None:
    found = at(run, np.int64(36_000))
    assert found == at(run, 36_000), "a moment may come from a table"
    assert json.loads(found.to_json()) == json.loads(json.dumps(found.to_dict()))
    assert found.to_dict()["writers"][0]["dropped_ms"] == 44_005
    assert found._repr_html_() == f"<p>{found.sentence}</p>"


def test_times_since_1970_are_written_as_dates() -> None:
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


def test_the_only_writer_that_is_counted_holds_the_bound_at_an_unknown_price() -> None:
    counted = cycle(1_000, None, outcome="emitted", participating=["a"])
    alone = written(writer_marks=[mark("a", 500, 600)], cycles=[counted], watermarks=[watermark(0, 1_000, a=500)])
    found = at(alone, 1_500)
    assert [writer.writer for writer in found.writers] == ["a"]
    assert (found.cause, found.lower, found.by_ms) == ("slowest", 500, None)


def test_the_first_watermark_waits_for_expected_writers_until_a_cycle_that_is_known() -> None:
    scenario = Scenario(
        "expected",
        stream=Stream("orders", expected_writers=3, timestamp_aggregation_timeout_ms=6_000),
        writers=[EventWriter("a", rate_per_s=20), EventWriter("b", rate_per_s=20, starts_ms=2_000)],
        controllers=Controllers(period_ms=2_000),
        duration_ms=14_000,
    )
    recording = scenario.record(progress=False)
    explained = recording.explain(at_ms=6_000)
    assert explained.cause == "expected"
    assert explained.sentence == (
        "no lower bound yet: a and b have noted a time, and the cycles end with: waits for 1 more of 3 expected "
        "writers; the cycle at 9 005 ms waits no longer"
    )
    first_ms = recording.table("watermarks")["emitted_ms"][0].as_py()
    assert explained.release_ms == first_ms == 9_005
    (holder,) = [holder for holder in recording.explain() if holder.why == "expected"]
    assert holder.who == "expected writers had not come"
