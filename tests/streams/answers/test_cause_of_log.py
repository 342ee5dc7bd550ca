"""What holds the lower bound of the log: each kind of cause from rows written by hand, and its sentence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.streams.answers import runs
from tests.streams.answers.runs import crash, fault, mark, owned, segment, until, watermark, written
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.words import unbroken
from wmlab.streams.answers import history
from wmlab.streams.answers.cause import Cause, CauseKind
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.explain import BoundExplanation, explain, explain_curve, stretch_words
from wmlab.streams.answers.history import events_of
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream

Row = dict[str, Any]


@pytest.fixture(scope="module")
def run() -> Recording:
    return crash()


def at(recording: Recording, at_ms: int, **asked: Any) -> BoundExplanation:
    explained = explain(recording, at_ms=at_ms, **asked)
    assert isinstance(explained, BoundExplanation)
    return explained


def cycle(at_ms: int, previous_lower: int | None, **columns: Any) -> Row:
    """A cycle of a controller that runs one a second."""
    return runs.cycle(at_ms, previous_lower, **({"due_ms": at_ms + 1_000} | columns))


def emitted(*cycles: Row, **rows: list[Row]) -> Recording:
    """One watermark of w1 (1 s), w2 (2 s) and w3 (3 s) at 11 s, then the given rows."""
    tables = {
        "writer_marks": [mark("w1", 1_000, 10_900), mark("w2", 2_000, 10_950), mark("w3", 3_000, 11_000)],
        "cycles": [cycle(11_000, None, outcome="emitted", participating=["w1", "w2", "w3"]), *cycles],
        "watermarks": [watermark(0, 11_000, w1=1_000, w2=2_000, w3=3_000)],
        "incidents": [],
    }
    return written(**{name: [*tables.get(name, []), *rows.get(name, [])] for name in tables.keys() | rows.keys()})


def waits(at_ms: int, *lagging: str, controller: str = "c1") -> Row:
    return cycle(at_ms, 1_000, lagging=list(lagging), reason="waits", controller=controller)


SENTENCES: list[tuple[str, Recording, int, CauseKind, tuple[str, ...], str]] = [
    (
        "nothing is written",
        written(),
        200,
        CauseKind.NO_MARK,
        (),
        "There is no watermark yet. No writer has noted a time or written an event.",
    ),
    (
        "refused",
        written(writer_marks=[mark("w1", 5, 100, "invalid position")]),
        200,
        CauseKind.NO_MARK,
        ("w1",),
        "There is no watermark yet. No noted time was accepted: those of w1 (invalid position) were refused.",
    ),
    (
        "first cycle",
        written(writer_marks=[mark("w1", 5, 100)]),
        200,
        CauseKind.FIRST_CYCLE,
        (),
        "There is no watermark yet. A time is noted, and no cycle has run yet.",
    ),
    (
        "slowest",
        emitted(writer_marks=[mark("w2", 4_000, 11_200), mark("w3", 5_000, 11_300)]),
        11_500,
        CauseKind.SLOWEST,
        ("w1",),
        "The watermark is 1.0 s, made at 11.0 s. w1 set it, and has noted no later time; the others are 3.0 s ahead.",
    ),
    (
        "period",
        emitted(writer_marks=[mark("w1", 4_000, 11_200)]),
        11_500,
        CauseKind.PERIOD,
        (),
        "The watermark is 1.0 s, made at 11.0 s. Every writer has noted a later time. "
        "The cycle due at 12.0 s can raise the watermark to at least 2.0 s.",
    ),
    (
        "lagging",
        emitted(waits(12_000, "w1"), incidents=[fault("silence", "w1", 11_500, until_ms=30_000)]),
        12_500,
        CauseKind.LAGGING,
        ("w1",),
        "The watermark has been 1.0 s since 11.0 s. It waits for w1, silent since 11.5 s. The last noted time of w1 is "
        "1.0 s, noted at 10.9 s; the others are 1.0 s ahead. "
        "If nothing newer comes, w1 is given up at 22.0 s at the earliest.",
    ),
    (
        "lagging, back before the timeout",
        emitted(waits(12_000, "w1"), incidents=[fault("crash", "w1", 11_500, until_ms=15_000)]),
        12_500,
        CauseKind.LAGGING,
        ("w1",),
        "The watermark has been 1.0 s since 11.0 s. It waits for w1, down since 11.5 s. The last noted time of w1 is "
        "1.0 s, noted at 10.9 s; the others are 1.0 s ahead. w1 goes on at 15.0 s at the earliest.",
    ),
    (
        "lagging, refused, and another that has caught up",
        emitted(waits(12_000, "w1", "w2"), writer_marks=[mark("w1", 500, 12_100, "invalid time")]),
        12_500,
        CauseKind.LAGGING,
        ("w1",),
        "The watermark has been 1.0 s since 11.0 s. It waits for w1. The last noted time of w1 is 1.0 s, noted at "
        "10.9 s; the others are 1.0 s ahead. A later note was refused: older than the time on record. "
        "If nothing newer comes, w1 is given up at 22.0 s at the earliest.",
    ),
    (
        "the controller is down before the next cycle is due",
        emitted(
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[fault("crash", "c1", 11_300, subject="controller", until_ms=20_000)],
        ),
        11_500,
        CauseKind.PERIOD,
        (),
        "The watermark is 1.0 s, made at 11.0 s. Every writer has noted a later time. "
        "c1, which runs the cycles, has been down since 11.3 s, until 20.0 s at the earliest.",
    ),
    (
        "the controller is down and the cycle overdue",
        emitted(
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[fault("crash", "c1", 11_300, subject="controller", until_ms=20_000)],
        ),
        13_000,
        CauseKind.CONTROLLER,
        ("c1",),
        "The watermark has been 1.0 s since 11.0 s. The cycle due at 12.0 s has not run: "
        "c1 has been down since 11.3 s and goes on at 20.0 s at the earliest.",
    ),
    (
        "the controller is back and has not run a cycle yet",
        emitted(
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[
                fault(kind, "c1", at_ms, subject="controller")
                for kind, at_ms in (("crash", 11_300), ("restart", 12_500))
            ],
        ),
        13_000,
        CauseKind.CONTROLLER,
        ("c1",),
        "The watermark has been 1.0 s since 11.0 s. The cycle due at 12.0 s has not run: "
        "c1 has been back since 12.5 s and has not run it yet.",
    ),
    (
        "nobody owns the bucket, and a writer is behind as well",
        emitted(ownership=[owned(0, "c1", 0, 11_100, "orders")]),
        13_000,
        CauseKind.CONTROLLER,
        ("the bucket of the stream", "w1"),
        "The watermark has been 1.0 s since 11.0 s. The cycle due at 12.0 s has not run: "
        "nobody owns the bucket of the stream. w1 has noted no later time either.",
    ),
    (
        "a store",
        emitted(
            cycle(12_000, None, cause="cycle failed", reason="cycle failed: writer marks"),
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[fault("unavailable", "writer marks", 11_900, subject="store", until_ms=15_000)],
        ),
        12_500,
        CauseKind.STORE,
        ("writer marks",),
        "The watermark has been 1.0 s since 11.0 s. The last cycle made no watermark: "
        "the store of writer marks has been unavailable since 11.9 s, until 15.0 s at the earliest. "
        "The next cycle is due at 13.0 s.",
    ),
    (
        "a cut",
        emitted(
            cycle(12_000, 1_000, cause="unknown segment", reason="cut failed: unknown segment 9@4"),
            writer_marks=[mark("w1", 4_000, 11_200)],
        ),
        12_500,
        CauseKind.CUT_FAILED,
        (),
        "The watermark has been 1.0 s since 11.0 s. The last cycle made no watermark: cut failed: unknown "
        "segment 9@4. The next cycle is due at 13.0 s.",
    ),
    (
        "positions",
        emitted(
            cycle(12_000, 1_000, cause="no positions", reason="cut failed: no positions"),
            writer_marks=[mark("w1", 4_000, 11_200)],
        ),
        12_500,
        CauseKind.NO_POSITION,
        (),
        "The watermark has been 1.0 s since 11.0 s. The last cycle made no watermark: cut failed: no positions. "
        "The next cycle is due at 13.0 s.",
    ),
    (
        "nobody is left",
        emitted(cycle(12_000, 1_000, removed=["w1", "w2", "w3"], cause="no active writer", reason="no active writer")),
        19_000,
        CauseKind.NO_WRITER_LEFT,
        (),
        "The watermark has been 1.0 s since 11.0 s. No active writer is left: the watermark waits for a noted time.",
    ),
]


@pytest.mark.parametrize(
    ("recording", "at_ms", "kind", "names", "sentence"),
    [case[1:] for case in SENTENCES],
    ids=[case[0] for case in SENTENCES],
)
def test_each_cause_has_its_parties_and_its_sentence(
    recording: Recording, at_ms: int, kind: CauseKind, names: tuple[str, ...], sentence: str
) -> None:
    explained = at(recording, at_ms)
    assert (explained.cause.kind, explained.cause.names, explained.sentence) == (kind, names, sentence)


def test_a_partition_names_the_other_side() -> None:
    begin = fault("partition", "w1 and c", 11_500, subject="network", sides=[["w1"], ["c1", "c2"]], until_ms=14_000)
    explained = at(emitted(waits(12_000, "w1"), incidents=[begin]), 12_500)
    assert "It waits for w1, cut off from c1 and c2 since 11.5 s." in explained.sentence
    assert explained.cause.blocked_by is None, "the controllers can run their cycles"


def test_a_writer_that_was_behind_before_its_fault_is_not_held_by_it() -> None:
    late = fault("crash", "w1", 12_300)
    (writer,) = at(emitted(waits(12_000, "w1"), incidents=[late]), 12_500).cause.parties
    assert (writer.was_behind, writer.is_held_by_fault) == (True, False)
    (writer,) = at(emitted(waits(12_000, "w1"), incidents=[late | {"at_ms": 11_900}]), 12_500).cause.parties
    assert (writer.was_behind, writer.is_held_by_fault) == (False, True)


def test_a_mark_that_arrives_as_the_writer_is_removed_stays() -> None:
    removes = cycle(12_000, 1_000, outcome="emitted", removed=["w1"], participating=["w2", "w3"])
    again = mark("w1", 4_000, 12_000)
    recording = emitted(removes, writer_marks=[again], watermarks=[watermark(1, 12_000, w2=2_000, w3=3_000)])
    assert at(recording, 12_500).cause.names == ("w2",)
    assert Curves(recording, "orders").state_at(12_500).on_record.keys() == {"w1", "w2", "w3"}


@pytest.mark.parametrize("at_ms", [900, 1_500, 2_004, 2_005, 17_000, 34_004, 36_000, 44_004, 56_000, 60_000])
def test_only_what_was_known_by_then_is_used(run: Recording, at_ms: int) -> None:
    def seen(recording: Recording) -> Cause:
        return Curves(recording, "orders").cause(LOG, at_ms)

    known = seen(run)
    whole = [party.open_until_ms for party in known.parties]
    assert seen(until(run, at_ms)).kind is known.kind
    assert seen(until(run, at_ms)).names == known.names
    assert whole == [None] * len(whole), "no event of a run without a log is open for long"


@pytest.mark.parametrize(
    ("at_ms", "words"),
    [(t, "outside the run, which lasts from 0 ms to 60 s") for t in (-1, 60_001)]
    + [(t, "not a moment") for t in (1.5, "now", True)],
)
def test_what_is_no_moment_of_the_run_is_refused(run: Recording, at_ms: Any, words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        run.explain(at_ms=at_ms)


def test_many_moments_read_the_events_once(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = crash(writers=[EventWriter("w1", rate_per_s=9, note_every_ms=None)], script=[], duration_ms=9_000)
    read = []
    monkeypatch.setattr(history, "events_of", lambda *asked: read.append(asked) or events_of(*asked))
    curves = Curves(silent, "orders")
    sentences = [explain_curve(curves, LOG, "orders", at_ms).sentence for at_ms in range(0, 9_000, 100)]
    assert list(dict.fromkeys(sentences)) == [
        "There is no watermark yet. No writer has noted a time or written an event.",
        "There is no watermark yet. No writer has noted a time, though w1 has written.",
    ]
    assert len(read) == 1


def test_an_explanation_is_data(run: Recording) -> None:
    explained = at(run, np.int64(36_000))
    assert explained == at(run, 36_000), "a moment may come from a table"
    assert json.loads(explained.to_json()) == json.loads(json.dumps(explained.to_dict()))
    assert explained.to_dict()["cause"]["parties"][0]["name"] == "w2"
    assert explained._repr_html_() == f"<p>{unbroken(explained.sentence)}</p>"
    assert " ".join(repr(explained).splitlines()) == explained.sentence


def test_times_since_1970_are_written_as_dates() -> None:
    start = 1_388_757_600_000
    explained = at(
        written(writer_marks=[mark("w1", start, start + 100)], cycles=[cycle(start + 1_000, None)]), start + 1_200
    )
    assert explained.sentence.endswith("The next cycle is due at 2014-01-03 14:00:02 UTC.")


def test_the_upper_bound_is_the_latest_time_of_a_counted_writer() -> None:
    recording = emitted(writer_marks=[mark("w1", 4_000, 11_200)])
    explained = at(recording, 11_500, bound="upper")
    assert (explained.value, explained.cause) == (3_000, at(recording, 11_500).cause)
    assert explained.sentence.startswith("The upper bound is 3.0 s. It is the latest time that w3 had noted.")
    assert at(written(), 200, bound="upper").sentence.startswith("There is no upper bound. There is no watermark yet.")


def test_a_stream_must_be_clear() -> None:
    two = written(segments=[segment() | {"stream": "a"}, segment() | {"stream": "b"}])
    with pytest.raises(RecordingError, match="several streams; its streams: a, b"):
        explain(two, at_ms=0)
    with pytest.raises(RecordingError, match="no stream 'c'"):
        explain(two, at_ms=0, stream="c")
    assert explain(two, at_ms=0, stream="b").stream == "b"


def test_the_first_watermark_waits_for_expected_writers() -> None:
    scenario = Scenario(
        "expected",
        stream=Stream("orders", expected_writers=3, timestamp_aggregation_timeout_ms=6_000),
        writers=[EventWriter("a", rate_per_s=20), EventWriter("b", rate_per_s=20, starts_ms=2_000)],
        controllers=Controllers(period_ms=2_000),
        duration_ms=14_000,
    )
    recording = scenario.record(progress=False)
    explained = at(recording, 6_000)
    assert explained.cause.kind is CauseKind.EXPECTED
    first_ms = recording.table("watermarks")["emitted_ms"][0].as_py()
    assert explained.cause.earliest_ms == first_ms == 9_005
    assert explained.sentence == (
        "There is no watermark yet. The first watermark waits for 1 more of 3 expected writers. "
        "From 9.0 s on, a cycle can make it without waiting."
    )
    (holder,) = [holder for holder in recording.explain() if holder.why == "expected"]
    assert holder.who == "expected writers"


def test_what_is_planned_for_after_the_end_is_said_to_be_so() -> None:
    slow = crash(controllers=Controllers(period_ms=10_000), script=[])
    assert at(slow, 50_000).sentence.endswith("can raise the watermark to at least 47.4 s.")
    assert at(slow, 60_000).sentence.endswith("The run ends before the next cycle, due at 61.0 s.")
    dead = crash(script=[script.CrashWriter(at_ms=55_000, writer="w2", restart_after_ms=9_000)])
    assert at(dead, 60_000).sentence.endswith("w2 goes on at 64.0 s, after the end of the run.")
    short = crash(duration_ms=500, script=[])
    assert "No watermark cycle ran before the run ended at 500 ms." in short.explain().sentence


def test_a_stretch_names_who_kept_the_cycles_from_running() -> None:
    paused = crash(script=[script.PauseController(at_ms=20_000, for_ms=15_000)])
    assert at(paused, 33_000).sentence.endswith(
        "The cycle due at 20.0 s has not run: nobody owns the bucket of the stream. "
        "controller-0, its last owner, has been paused since 20.0 s."
    )
    assert "to 35.0 s: controller-0 was paused." in paused.explain().sentence
    without_store = crash(script=[script.StoreUnavailable(at_ms=20_000, for_ms=15_000)])
    assert "the store of writer marks was unavailable." in without_store.explain().sentence
    back = Curves(crash(script=[script.CrashController(at_ms=20_000, restart_after_ms=1_000)]), "orders")
    assert stretch_words(back, LOG, 22_000, 24_000) == "controller-0 was back, but had run no cycle yet"
