"""What holds the lower bound of the log: each kind of cause from rows written by hand, and its facts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.streams.answers import runs
from tests.streams.answers.fault_runs import is_held_by_fault
from tests.streams.answers.runs import crash, fault, mark, owned, segment, until, watermark, written
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.words import unbroken
from wmlab.streams.answers.cause import Cause
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.explain import BoundExplanation, explain
from wmlab.streams.answers.stops import stop_between
from wmlab.streams.answers.vocabulary import CauseKind
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


AT_11_S: Row = {"watermark": 1_000, "made at": 11_000, "set by": "w1"}
OF_W1: Row = {"holder": "w1", "last noted": 1_000, "noted at": 10_895}
WAITED: Row = {"waited for since": 12_000, "given up at": 22_000, "next cycle": 13_000}
OF_C1: Row = {"bucket owner": "c1", "controller": "c1"}


def befallen(state: str, since_ms: int, until_ms: int) -> Row:
    """The state of the holder."""
    return {"holder state": state, "holder since": since_ms, "holder until": until_ms}


CASES: list[tuple[str, Recording, int, CauseKind, str, dict[str, Any]]] = [
    ("nothing is written", written(), 200, CauseKind.NO_MARK, "No noted time has been accepted yet.", {}),
    (
        "refused",
        written(writer_marks=[mark("w1", 5, 100, "invalid position")]),
        200,
        CauseKind.NO_MARK,
        "No noted time has been accepted yet.",
        {"refused": "w1", "refused as": "invalid position"},
    ),
    (
        "first cycle",
        written(writer_marks=[mark("w1", 5, 100)]),
        200,
        CauseKind.FIRST_CYCLE,
        "A time is accepted, and no cycle has run yet.",
        {},
    ),
    (
        "slowest",
        emitted(writer_marks=[mark("w2", 4_000, 11_200), mark("w3", 5_000, 11_300)]),
        11_500,
        CauseKind.SLOWEST,
        "No time above the watermark is accepted from w1.",
        AT_11_S | OF_W1 | {"next cycle": 12_000, "others ahead by": 3_000},
    ),
    (
        "period",
        emitted(writer_marks=[mark("w1", 4_000, 11_200)]),
        11_500,
        CauseKind.PERIOD,
        "The watermark waits for the next cycle.",
        AT_11_S | {"next cycle": 12_000},
    ),
    (
        "lagging",
        emitted(waits(12_000, "w1"), incidents=[fault("silence", "w1", 11_500, until_ms=30_000)]),
        12_500,
        CauseKind.LAGGING,
        "The watermark waits for w1, silent since 11.5 s.",
        AT_11_S | OF_W1 | WAITED | befallen("silent", 11_500, 30_000) | {"others ahead by": 1_000},
    ),
    (
        "lagging, back before the timeout",
        emitted(waits(12_000, "w1"), incidents=[fault("crash", "w1", 11_500, until_ms=15_000)]),
        12_500,
        CauseKind.LAGGING,
        "The watermark waits for w1, down since 11.5 s.",
        AT_11_S | OF_W1 | WAITED | befallen("down", 11_500, 15_000) | {"others ahead by": 1_000},
    ),
    (
        "lagging, refused, and another that has caught up",
        emitted(waits(12_000, "w1", "w2"), writer_marks=[mark("w1", 500, 12_100, "invalid time")]),
        12_500,
        CauseKind.LAGGING,
        "The watermark waits for w1.",
        AT_11_S | OF_W1 | WAITED | {"others ahead by": 1_000, "refused": "w1", "refused as": "invalid time"},
    ),
    (
        "two writers",
        emitted(waits(12_000, "w1", "w2"), watermarks=[watermark(1, 11_500, w2=2_000, w3=3_000)]),
        12_500,
        CauseKind.LAGGING,
        "The watermark waits for w1 and w2.",
        {"watermark": 2_000, "made at": 11_500, "set by": "w2", "next cycle": 13_000, "others ahead by": 1_000}
        | {"holder": ("w1", "w2"), "last noted": (1_000, 2_000), "noted at": (10_895, 10_945)}
        | {"waited for since": (12_000, 12_000), "given up at": (22_000, 22_000)},
    ),
    (
        "the controller is down before the next cycle is due",
        emitted(
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[fault("crash", "c1", 11_300, subject="controller", until_ms=20_000)],
        ),
        11_500,
        CauseKind.PERIOD,
        "The watermark waits for a cycle, and c1 owns the bucket.",
        AT_11_S | OF_C1 | {"next cycle": 12_000, "controller state": "down", "controller since": 11_300},
    ),
    (
        "the controller is down and the cycle overdue",
        emitted(
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[fault("crash", "c1", 11_300, subject="controller", until_ms=20_000)],
        ),
        13_000,
        CauseKind.CONTROLLER,
        "A cycle is overdue: c1 has been down since 11.3 s.",
        AT_11_S
        | OF_C1
        | {"controller state": "down", "controller since": 11_300, "holder": "c1"}
        | {"holder state": "down", "holder since": 11_300, "holder until": 20_000},
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
        "A cycle is overdue.",
        AT_11_S | OF_C1 | {"holder": "c1", "holder back at": 12_500},
    ),
    (
        "nobody owns the bucket, and a writer is behind as well",
        emitted(ownership=[owned(0, "c1", 0, 11_100, "orders")]),
        13_000,
        CauseKind.CONTROLLER,
        "A cycle is overdue: bucket 0 has been without an owner since 11.1 s.",
        AT_11_S
        | {"bucket owner": "nobody", "controller": "c1"}
        | {"holder": "bucket 0", "holder state": "without an owner", "holder since": 11_100},
    ),
    (
        "nobody owns the bucket, and its last owner is down",
        emitted(
            ownership=[owned(0, "c1", 0, 11_100, "orders")],
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[fault("crash", "c1", 11_040, subject="controller")],
        ),
        13_000,
        CauseKind.CONTROLLER,
        "A cycle is overdue: c1 has been down since 11.0 s.",
        AT_11_S
        | {"bucket owner": "nobody", "controller": "c1"}
        | {"controller state": "down", "controller since": 11_040}
        | {"holder": "c1", "holder state": "down", "holder since": 11_040},
    ),
    (
        "nobody may own the bucket, and its last owner is down as well",
        emitted(
            ownership=[owned(0, "c1", 0, 11_100, "orders")],
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[
                fault("unowned", "bucket 0", 11_100, subject="bucket", until_ms=15_000),
                fault("crash", "c1", 11_500, subject="controller"),
            ],
        ),
        13_000,
        CauseKind.CONTROLLER,
        "A cycle is overdue: bucket 0 has been without an owner since 11.1 s.",
        AT_11_S
        | {"bucket owner": "nobody", "controller": "c1"}
        | {"controller state": "down", "controller since": 11_500}
        | {"holder": "bucket 0", "holder state": "without an owner", "holder since": 11_100},
    ),
    (
        "another controller has taken the bucket over, and no scenario says when it runs a cycle",
        emitted(
            ownership=[owned(0, "c1", 0, 11_100, "orders"), owned(0, "c2", 11_100, None, "orders")],
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[
                fault(kind, "c2", at_ms, subject="controller")
                for kind, at_ms in (("pause", 11_020), ("resume", 11_080))
            ],
        ),
        13_000,
        CauseKind.PERIOD,
        "The watermark waits for the next cycle.",
        AT_11_S,
    ),
    (
        "a store",
        emitted(
            cycle(12_000, None, cause="cycle failed", reason="cycle failed: writer marks unavailable"),
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[fault("unavailable", "writer marks", 11_900, subject="store", until_ms=15_000)],
        ),
        12_500,
        CauseKind.STORE,
        "The last cycle made no watermark: writer marks unavailable since 11.9 s.",
        AT_11_S | {"holder": "writer marks", "next cycle": 13_000} | befallen("unavailable", 11_900, 15_000),
    ),
    (
        "a store that is back",
        emitted(
            cycle(12_000, None, cause="cycle failed", reason="cycle failed: no such marks segment"),
            writer_marks=[mark("w1", 4_000, 11_200)],
            incidents=[
                fault("lose", "marks segment", 11_900, subject="marks segment", until_ms=12_300),
                fault("find", "marks segment", 12_300, subject="marks segment"),
            ],
        ),
        12_500,
        CauseKind.STORE,
        "The last cycle made no watermark: marks segment missing from 11.9 s to 12.3 s.",
        AT_11_S
        | {"holder": "marks segment", "next cycle": 13_000, "holder back at": 12_300}
        | befallen("missing", 11_900, 12_300),
    ),
    (
        "a cut",
        emitted(
            cycle(12_000, 1_000, cause="unknown segment", reason="cut failed: unknown segment 9@4"),
            writer_marks=[mark("w1", 4_000, 11_200)],
        ),
        12_500,
        CauseKind.CYCLE_FAILED,
        "The last cycle made no watermark: cut failed: unknown segment 9@4.",
        AT_11_S | {"next cycle": 13_000, "reason": "cut failed: unknown segment 9@4"},
    ),
    (
        "nobody is left",
        emitted(cycle(12_000, 1_000, removed=["w1", "w2", "w3"], cause="no active writer", reason="no active writer")),
        19_000,
        CauseKind.NO_WRITER_LEFT,
        "No writer is on record any more.",
        AT_11_S,
    ),
    (
        "a deleted stream",
        emitted(
            writer_marks=[mark("w1", 4_000, 11_200)], incidents=[fault("delete", "orders", 11_400, subject="stream")]
        ),
        19_000,
        CauseKind.DELETED,
        "The stream was deleted at 11.4 s.",
        AT_11_S | {"deleted at": 11_400},
    ),
    (
        "a sealed stream",
        emitted(
            writer_marks=[mark("w1", 4_000, 11_200)], incidents=[fault("seal", "orders", 11_400, subject="stream")]
        ),
        11_500,
        CauseKind.PERIOD,
        "The watermark waits for the next cycle.",
        AT_11_S | {"next cycle": 12_000, "sealed at": 11_400},
    ),
]


@pytest.mark.parametrize(
    ("recording", "at_ms", "kind", "headline", "facts"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_cause_has_its_headline_and_its_facts(
    recording: Recording, at_ms: int, kind: CauseKind, headline: str, facts: dict[str, Any]
) -> None:
    explained = at(recording, at_ms)
    assert (explained.cause.kind, explained.headline) == (kind, headline)
    assert dict(explained.facts) == {"moment": at_ms, "cause": kind.value, **facts}


def test_a_partition_names_the_other_side() -> None:
    begin = fault("partition", "w1 and c", 11_500, subject="network", sides=[["w1"], ["c1", "c2"]], until_ms=14_000)
    explained = at(emitted(waits(12_000, "w1"), incidents=[begin]), 12_500)
    assert (explained.facts["holder state"], explained.facts["cut off from"]) == ("cut off", "c1, c2")
    assert explained.cause.blocked_by is None, "the controllers can run their cycles"


def test_a_writer_that_was_behind_before_its_fault_is_not_held_by_it() -> None:
    late = fault("crash", "w1", 12_300)
    cause = at(emitted(waits(12_000, "w1"), incidents=[late]), 12_500).cause
    assert not is_held_by_fault(cause, *cause.parties)
    cause = at(emitted(waits(12_000, "w1"), incidents=[late | {"at_ms": 11_900}]), 12_500).cause
    assert is_held_by_fault(cause, *cause.parties)


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
    assert seen(until(run, at_ms)).kind is known.kind
    assert seen(until(run, at_ms)).names == known.names


@pytest.mark.parametrize(
    ("at_ms", "words"),
    [(t, "outside the run, which lasts from 0 ms to 60 s") for t in (-1, 60_001)]
    + [(t, "not a moment") for t in (1.5, "now", True)],
)
def test_what_is_no_moment_of_the_run_is_refused(run: Recording, at_ms: Any, words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        run.explain(at_ms=at_ms)


def test_an_explanation_is_data(run: Recording) -> None:
    explained = at(run, np.int64(36_000))
    assert explained == at(run, 36_000), "a moment may come from a table"
    assert json.loads(explained.to_json()) == json.loads(json.dumps(explained.to_dict()))
    assert explained.to_dict()["cause"]["parties"][0]["name"] == "w2"
    assert explained.to_dict()["facts"]["holder"] == "w2"
    assert explained._repr_html_().startswith(f"<p>{unbroken(explained.sentence)}</p><details>")
    assert " ".join(repr(explained).splitlines()) == explained.sentence


def test_times_since_1970_are_written_as_dates() -> None:
    start = 1_388_757_600_000
    explained = at(
        written(writer_marks=[mark("w1", start, start + 100)], cycles=[cycle(start + 1_000, None)]), start + 1_200
    )
    assert explained.facts["next cycle"] == start + 2_000
    assert "2014-01-03 14:00:01" in explained.sentence


def test_the_upper_bound_is_the_latest_time_of_a_counted_writer() -> None:
    recording = emitted(writer_marks=[mark("w1", 4_000, 11_200)])
    explained = at(recording, 11_500, bound="upper")
    assert (explained.value, explained.cause) == (3_000, at(recording, 11_500).cause)
    assert explained.sentence == "The upper bound in the log is 3.0 s."
    assert explained.facts["upper bound"] == 3_000
    assert at(written(), 200, bound="upper").sentence == "There is no upper bound in the log."


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
    assert explained.headline == "The first watermark waits for expected writers."
    (holder,) = [holder for holder in recording.explain() if holder.why == "expected"]
    assert holder.who == "expected writers"


def test_a_stretch_names_who_kept_the_cycles_from_running() -> None:
    paused = crash(script=[script.PauseController(at_ms=20_000, for_ms=15_000)])
    facts = at(paused, 33_000).facts
    assert (facts["bucket owner"], facts["holder"], facts["holder state"]) == ("nobody", "controller-0", "paused")
    over = paused.explain().facts
    assert (over["held by"], over["holder state"], over["holder since"]) == ("controller-0", "paused", 20_000)
    without_store = crash(script=[script.StoreUnavailable(at_ms=20_000, for_ms=15_000)])
    assert without_store.explain().headline.endswith("held by writer marks (unavailable).")
    back = Curves(crash(script=[script.CrashController(at_ms=20_000, restart_after_ms=1_000)]), "orders")
    stop = stop_between(back, LOG, 22_000, 24_000, 0)
    assert stop is not None
    assert stop.held_by == ("controller-0",)
    assert stop.facts["holder state"] == (None,)
