"""The check finds each invariant violated in a doctored recording, and says what it cannot decide."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.streams.checks.runs import recorded
from wmlab.core.invariants import verdicts_of
from wmlab.core.recording import Recording
from wmlab.core.words import counted, number_at_epoch
from wmlab.streams.bounds.recorded import bounds_of_recording
from wmlab.streams.checks import DERIVED, INVARIANTS, inputs_of, with_reduced_events
from wmlab.streams.checks.events import EventReduction
from wmlab.streams.checks.facts import DROPPED, NOT_NOTED
from wmlab.streams.checks.lateness import WRITER_BROKE_PROMISE
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules
from wmlab.streams.tables import TABLES

Rows = list[dict[str, Any]]
Change = Callable[[Rows], Rows]
Check = Callable[..., dict[str, Any]]
Cuts = list[dict[int, int]]


def record(**fields: Any) -> Recording:
    split = [script.Scale(at_ms=3_000, seal=["0@0"])]
    return recorded("judged", **({"script": split, "duration_ms": 10_000} | fields))


@pytest.fixture(scope="module")
def sound() -> Recording:
    return record()


@pytest.fixture(scope="module")
def cuts(sound: Recording) -> Cuts:
    return [dict(cut) for cut in sound.table("watermarks")["cut"].to_pylist()]


def check(recording: Recording, name: str, **changes: Change) -> dict[str, Any]:
    """The verdict on one invariant after the rows of some tables were altered."""
    tables = inputs_of(recording) | {"events": recording.table("events")} | altered(recording, **changes)
    tables = with_reduced_events(tables, [tables.pop("events")])
    (found,) = verdicts_of("sound", {name: INVARIANTS[name]}, [("orders", tables)], DERIVED)
    return {name: getattr(found, name) for name in found.__dataclass_fields__}


@pytest.fixture
def judged(sound: Recording) -> Check:
    """`check` of the sound run."""
    return partial(check, sound)


def altered(recording: Recording, **changes: Change) -> dict[str, pa.Table]:
    tables = {}
    for name, change in changes.items():
        rows = change(recording.table(name).to_pylist(maps_as_pydicts="strict"))
        listed = [{key: list(v.items()) if isinstance(v, dict) else v for key, v in row.items()} for row in rows]
        tables[name] = pa.Table.from_pylist(listed, schema=TABLES[name])
    return tables


def proof(row: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(entry.table, entry.row) for entry in row["evidence"]]


def entry(seq: int, **columns: Any) -> Change:
    """Change some columns of the watermark with this seq."""
    return lambda rows: [row | columns if row["seq"] == seq else row for row in rows]


def test_a_sound_run_keeps_every_invariant(sound: Recording) -> None:
    verdicts = sound.check()
    assert [(v.invariant, v.verdict, v.what, v.evidence) for v in verdicts] == [(n, "ok", None, ()) for n in INVARIANTS]
    assert all(verdict.judged > 0 and verdict.violations == 0 for verdict in verdicts)


def test_an_empty_recording_leaves_every_invariant_unknown() -> None:
    verdicts = StreamRecording.from_tables({}, name="empty").check()
    assert [(v.verdict, v.judged, v.what, v.evidence) for v in verdicts] == [
        ("unknown", 0, invariant.no_data, ()) for invariant in INVARIANTS.values()
    ]


@pytest.mark.parametrize(("name", "bound", "step"), [("I1", "lower", 0), ("I2", "upper", -1)])
def test_i1_and_i2_find_a_bound_that_does_not_rise(
    judged: Check, sound: Recording, name: str, bound: str, step: int
) -> None:
    before = sound.table("watermarks")[bound].to_pylist()[2]
    found = judged(name, watermarks=entry(3, **{bound: before + step}))
    assert (found["verdict"], found["violations"]) == ("violated", 1)
    rows = [(row["stream"], row["seq"], row[bound]) for _, row in proof(found)]
    assert rows == [("orders", 2, before), ("orders", 3, before + step)]


def last(**columns: Any) -> Change:
    """Change some columns of the last row."""
    return lambda rows: [*rows[:-1], rows[-1] | columns]


def every(**columns: Any) -> Change:
    """Change some columns of all rows."""
    return lambda rows: [row | columns for row in rows]


def second_leader(rows: Rows) -> Rows:
    return [*rows, rows[3] | {"controller": "controller-1"}]


UNDECIDED: dict[str, tuple[str, dict[str, Change], str | None]] = {
    "two leaders": (
        "I2",
        {"watermarks": entry(3, upper=0), "cycles": second_leader},
        "not promised: controller-0 and controller-1 both led orders for a while",
    ),
    "no marks": (
        "I4",
        {"writer_marks": lambda _: []},
        "no accepted mark of the writers that watermark 0 counted is recorded",
    ),
    "no history": (
        "I5",
        {"epochs": lambda rows: rows[1:]},
        "segments and epochs are not a history: The epochs are numbered [1].",
    ),
    "no bound shown": ("I6", {"windows": every(lower=None)}, None),
    "no timeouts": ("I10", {"cycles": every(timeout_ms=None)}, None),
}


@pytest.mark.parametrize(("name", "changes", "why"), UNDECIDED.values(), ids=UNDECIDED)
def test_what_cannot_be_decided_is_unknown(
    judged: Check, name: str, changes: dict[str, Change], why: str | None
) -> None:
    found = judged(name, **changes)
    assert (found["verdict"], found["judged"], found["what"]) == ("unknown", 0, why or INVARIANTS[name].no_data)


def test_i3_finds_a_cut_that_moves_back_inside_a_segment(judged: Check, cuts: Cuts) -> None:
    found = judged("I3", watermarks=entry(1, cut=cuts[1] | {1: cuts[0][1] - 1}))
    assert (found["verdict"], found["violations"]) == ("violated", 1)
    (_, before), (_, after), (table, segment) = proof(found)
    assert (before["seq"], before["cut"]) == (0, {"1@0": cuts[0][1]})
    assert (after["seq"], after["cut"]) == (1, {"1@0": cuts[0][1] - 1})
    assert (table, segment["segment_id"], segment["keys"]) == ("segments", 1, "1/2..1")


def test_i3_finds_a_cut_that_moves_back_to_a_predecessor(judged: Check, cuts: Cuts) -> None:
    found = judged("I3", watermarks=last(cut={0: 10**9, 1: cuts[-1][1]}))
    (_, before), (_, after), *segments = proof(found)
    assert after["cut"] == {"0@0": 10**9}
    assert list(before["cut"].items()) == [("3@1", cuts[-2][2**32 + 3])]
    assert [row["keys"] for _, row in segments] == ["1/4..1/2", "0..1/2"]


def test_i3_takes_an_unknown_offset_for_the_end_of_the_segment(judged: Check, cuts: Cuts) -> None:
    found = judged("I3", watermarks=entry(0, cut=cuts[0] | {1: None}))
    assert found["what"] == f"the cut of watermark 1 moves back, from 1@0 at its end to 1@0 at {cuts[1][1]}"


def test_i4_finds_a_cut_behind_a_counted_writer(judged: Check, sound: Recording) -> None:
    watermark = sound.table("watermarks").to_pylist(maps_as_pydicts="strict")[1]
    found = judged("I4", watermarks=entry(1, cut=watermark["cut"] | {1: 1}))
    assert (found["verdict"], found["violations"]) == ("violated", 1)
    (_, cut), (table, mark), (_, segment) = proof(found)
    assert cut["cut"] == {"1@0": 1}
    assert cut["writers"] == {mark["writer"]: mark["time"]}
    assert table == "writer_marks"
    assert mark["position"]["1@0"] > 1
    assert mark["received_ms"] <= cut["emitted_ms"]
    assert segment["segment_id"] == 1


def test_i4_takes_no_mark_that_was_noted_again_before_the_cycle(judged: Check, cuts: Cuts) -> None:
    def twice(rows: Rows) -> Rows:
        return [*rows, *(row | {"received_ms": row["received_ms"] - 1, "position": {0: 0, 1: 0}} for row in rows)]

    behind = entry(1, cut=cuts[1] | {1: 1})
    assert judged("I4", watermarks=behind, writer_marks=twice)["verdict"] == "violated"


def test_i4_takes_the_last_mark_that_the_very_cycle_of_a_watermark_can_have_read(
    judged: Check, sound: Recording
) -> None:
    """A leader that was held up may append what it computed long ago in the moment in which its next cycle runs."""
    log = sound.table("watermarks").to_pylist(maps_as_pydicts="strict")
    held_up, following = log[1], log[2]

    def noted_again(received_ms: int) -> Change:
        far = {"received_ms": received_ms, "position": {0: 10**9, 1: 10**9}}
        counted = ("w1", held_up["writers"]["w1"])
        return lambda rows: [*rows, *(row | far for row in rows if (row["writer"], row["time"]) == counted)]

    assert judged("I4", writer_marks=noted_again(9_999))["verdict"] == "ok"
    at_once = entry(1, emitted_ms=following["emitted_ms"])
    meanwhile = noted_again(held_up["emitted_ms"] + 1)
    assert judged("I4", watermarks=at_once, writer_marks=meanwhile)["verdict"] == "ok"


@pytest.mark.parametrize(
    ("cut", "what", "segments"),
    [
        ({0: 5}, "does not cover the keys 1/2..1", ["0..1/2"]),
        ({0: 5, 1: 5, 2**32 + 2: 5}, "covers keys twice, in 0@0 and 2@1", ["0..1/2", "0..1/4"]),
        ({0: 5, 9: 5}, "names 9@0, which the stream never had", []),
    ],
)
def test_i5_finds_an_incomplete_cut(judged: Check, cut: dict[int, int], what: str, segments: list[str]) -> None:
    found = judged("I5", watermarks=entry(0, cut=cut))
    assert (found["verdict"], found["violations"]) == ("violated", 1)
    assert found["what"] == f"the cut of watermark 0 {what}"
    (_, watermark), *rest = proof(found)
    assert watermark["cut"] == {number_at_epoch(segment): offset for segment, offset in cut.items()}
    assert [row["keys"] for _, row in rest] == segments


def test_i5_finds_a_cut_that_no_reader_can_be_at() -> None:
    merged = record(
        script=[script.Scale(at_ms=2_000, seal=["0@0", "1@0"], into=1), script.Scale(at_ms=4_000, seal=["2@1"], into=2)]
    )
    found = check(merged, "I5", watermarks=entry(6, cut={1: 4, 2 * 2**32 + 3: 7}))
    assert found["what"] == "the cut of watermark 6 is passed before 2@1, which its segments wait for, is read"
    assert [row["segment_id"] for table, row in proof(found) if table == "segments"] == [2**32 + 2, 1, 2 * 2**32 + 3]


def shown_from_the_start(lower: int) -> Change:
    return lambda rows: [rows[0] | {"lower": lower}, *rows[1:]]


def test_i6_finds_an_event_behind_a_bound_that_was_shown(judged: Check, sound: Recording) -> None:
    lower = sound.table("watermarks")["lower"].to_pylist()[3]
    found = judged("I6", windows=shown_from_the_start(lower))
    assert found["verdict"] == "violated"
    assert 0 < found["violations"] < found["judged"]
    (first, window), (second, event), (third, read) = proof(found)
    assert (first, second, third) == ("windows", "events", "reads")
    assert event["event_time"] < window["lower"] == lower
    assert window["at_ms"] < read["at_ms"]
    assert read["segment_id"] == event["segment_id"]
    assert read["from_offset"] < event["offset"] <= read["to_offset"]


def test_i6_holds_for_first_delivery_only(judged: Check) -> None:
    def read_again(rows: Rows) -> Rows:
        last_ms = max(row["at_ms"] for row in rows)
        return [*rows, *(row | {"again": True, "at_ms": last_ms + 1} for row in rows)]

    def read_late(rows: Rows) -> Rows:
        return [row | {"again": False} for row in read_again(rows)[len(rows) :]]

    assert judged("I6", reads=read_again)["verdict"] == "ok"
    assert judged("I6", reads=read_late)["verdict"] == "violated"


def test_i15_judges_events_with_the_time_of_the_bound_and_i6_does_not() -> None:
    """PDP-33 has both "everything before a timestamp" and "all events with timestamp T or earlier"."""

    def run(below_ms: int) -> StreamRecording:
        noted = [script.NoteTime(at_ms=at + 100, writer="w", time=at - below_ms) for at in range(1_000, 10_000, 1_000)]
        return record(
            stream=Stream("orders"),
            writers=[EventWriter("w", rate_per_s=10, event_time="1000 * (clock // 1000)", note_every_ms=None)],
            readers=ReaderGroup("g", publish_every_ms=100),
            controllers=Controllers(period_ms=200),
            script=noted,
        )

    def raised(recording: StreamRecording, by_ms: int) -> dict[str, str]:
        """What the two say when windows show bounds that are later."""
        shown = altered(
            recording, windows=lambda rows: [row | {"lower": row["lower"] and row["lower"] + by_ms} for row in rows]
        )
        wrong = StreamRecording.from_tables(dict(recording.tables) | shown, name="wrong")
        return {row.invariant: row.verdict for row in wrong.check("I6", "I15")}

    kept, broken = run(below_ms=1), run(below_ms=0)
    assert [(row.verdict, row.exceptions) for row in kept.check("I6", "I15")] == [("ok", None), ("ok", None)]
    before, included = broken.check("I6")["I6"], broken.check("I15")["I15"]
    assert (before.verdict, before.exceptions) == ("ok", None)
    assert (included.verdict, included.judged) == ("ok", before.judged)
    assert re.fullmatch(r"\d+ late events of a writer that had noted its time", included.exceptions or "")
    assert raised(kept, 1) == {"I6": "ok", "I15": "violated"}
    assert raised(broken, 1_000) == {"I6": "violated", "I15": "violated"}


@pytest.mark.parametrize("table", ["watermarks", "windows"])
def test_i7_finds_a_lower_above_the_upper(judged: Check, table: str) -> None:
    found = judged("I7", **{table: last(lower=9, upper=8)})
    assert (found["verdict"], found["violations"]) == ("violated", 1)
    assert [(name, row["lower"], row["upper"]) for name, row in proof(found)] == [(table, 9, 8)]


def test_i8_finds_two_winners_of_one_revision(judged: Check, sound: Recording) -> None:
    revisions = sound.table("watermarks")["revision"].to_pylist()
    found = judged("I8", watermarks=entry(2, revision=revisions[1], controller="controller-1"))
    assert (found["verdict"], found["violations"]) == ("violated", 1)
    assert found["what"] == f"watermarks 1 and 2 both end at revision {revisions[1]}"
    assert [(row["seq"], row["controller"]) for _, row in proof(found)] == [(1, "controller-0"), (2, "controller-1")]


@pytest.mark.parametrize(("bound", "others"), [("lower", {}), ("upper", {"lower": 1_000})])
def test_i9_finds_a_window_that_goes_back(judged: Check, bound: str, others: dict[str, int]) -> None:
    def two_windows(rows: Rows) -> Rows:
        reader = rows[0] | others
        return [reader | {bound: 9_000, "at_ms": 1_000}, reader | {bound: 8_000, "at_ms": 2_000}]

    found = judged("I9", windows=two_windows)
    assert (found["verdict"], found["judged"], found["violations"]) == ("violated", 1, 1)
    assert [(row[bound], row["at_ms"]) for _, row in proof(found)] == [(9_000, 1_000), (8_000, 2_000)]
    assert found["what"] == f"{bound} of readers-0 goes from 9.0 s to 8.0 s"


def test_i9_compares_upper_bounds_over_windows_without_one(judged: Check) -> None:
    def with_a_gap(rows: Rows) -> Rows:
        return [rows[0] | {"lower": 1, "upper": upper, "at_ms": at} for at, upper in enumerate([9_000, None, 8_000])]

    def falls(rows: Rows) -> Rows:
        return [rows[0], rows[1] | {"upper": rows[0]["upper"] - 1}]

    found = judged("I9", windows=with_a_gap)
    assert [row["upper"] for _, row in proof(found)] == [9_000, 8_000]
    assert judged("I9", windows=with_a_gap, watermarks=falls)["verdict"] == "ok"


def test_i9_compares_lower_bounds_over_windows_without_one(judged: Check) -> None:
    """The document allows null; it is a violation that the bound comes back with an earlier time."""

    def with_a_gap(rows: Rows) -> Rows:
        return [rows[0] | {"lower": low, "upper": None, "at_ms": at} for at, low in enumerate([9, None, None, 8])]

    found = judged("I9", windows=with_a_gap)
    assert (found["judged"], found["violations"]) == (3, 1)
    assert [row["lower"] for _, row in proof(found)] == [9, 8]


def test_i9_does_not_count_a_lower_bound_that_becomes_unknown(judged: Check) -> None:
    found = judged("I9", windows=last(lower=None))
    assert (found["verdict"], found["violations"]) == ("ok", 0)
    assert found["judged"] == judged("I9")["judged"]


def read_late(run: Recording) -> list[Any]:
    """The late events of a run, each with `because`, before they are counted."""
    reduction, late = EventReduction(inputs_of(run)), []
    for (stream, segment), readings in reduction.of_segment.items():
        events = run.table("events")
        events = events.filter(pc.and_(pc.equal(events["stream"], stream), pc.equal(events["segment_id"], segment)))
        for of_group in readings:
            late += [SimpleNamespace(**row) for row in reduction.judged(reduction.delivered(events, of_group)[1])]
    return late


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        ({"script": [script.SilenceWriter(at_ms=2_000, writer="w1")]}, {DROPPED}),
        ({"writers": [EventWriter("w1", rate_per_s=40, delay_mean_ms=3_000, noting=noting.Never()),
                      EventWriter("w2", rate_per_s=40)]}, {NOT_NOTED}),
        ({"writers": [EventWriter("w1", rate_per_s=40, delay_mean_ms=3_000, noting=noting.WallClock())]},
         {WRITER_BROKE_PROMISE}),
    ],
    ids=["dropped", "never noted", "broke its word"],
)  # fmt: skip
def test_late_events_that_nobody_promised_are_listed_but_do_not_count(
    fields: dict[str, Any], because: set[str]
) -> None:
    run = record(**fields)
    late = read_late(run)
    assert {row.because for row in late} == because
    assert {row.writer for row in late} == {"w1"}
    assert all(row.event_time < row.shown_lower and row.shown_ms < row.read_ms for row in late)
    found = check(run, "I6")
    assert (found["verdict"], found["violations"]) == ("ok", 0)
    (why,) = because
    exceptions = f"{counted(len(late), 'late event')} {why}"
    assert (found["left_out"], found["exceptions"]) == (len(late), exceptions)
    assert found["what"].startswith(f"left out: {exceptions}; the first: an event of w1 with time ")
    (_, window), (_, event), (_, read) = proof(found)
    assert event["event_time"] < window["lower"]
    assert window["at_ms"] < read["at_ms"]


def test_late_events_are_those_that_a_plain_loop_finds() -> None:
    run = record(
        writers=[EventWriter("w1", rate_per_s=30, delay_mean_ms=800, noting=noting.WallClock()),
                 EventWriter("w2", rate_per_s=30, noting=noting.MaxMinusSlack(100))],
        readers=ReaderGroup(readers=2, publish_every_ms=300, rate_per_s=25),
    )  # fmt: skip
    windows = run.table("windows").to_pylist()
    expected = set()
    for row in run.table("reads").to_pylist():
        shown = [w["lower"] for w in windows if w["lower"] is not None and w["at_ms"] < row["at_ms"]]
        for event in run.table("events").to_pylist() if shown and not row["again"] else ():
            inside = row["from_offset"] < event["offset"] <= row["to_offset"]
            if event["segment_id"] == row["segment_id"] and inside and event["event_time"] < max(shown):
                segment, offset, time = (event[name] for name in ("segment_id", "offset", "event_time"))
                expected.add((segment, offset, time, max(shown), row["at_ms"]))
    late = read_late(run)
    assert {(r.segment_id, r.offset, r.event_time, r.shown_lower, r.read_ms) for r in late} == expected
    assert len(late) == len(expected) > 20


def test_an_end_of_known_time_is_null_to_spark_breaks_nothing_and_is_explained(spark: SparkSession) -> None:
    silence = [script.SilenceWriter(at_ms=3_000, writer=name, for_ms=6_000) for name in ("w1", "w2")]
    stream = Stream("orders", segments=2, timestamp_aggregation_timeout_ms=1_000)
    recording = record(stream=stream, rules=Rules(null_without_writers=True), script=silence, duration_ms=14_000)
    (end,) = [row for row in recording.table("watermarks").to_pylist() if not row["writers"]]
    shown = {(row["at_ms"], row["lower"] is None) for row in recording.table("windows").to_pylist()}
    bounds = bounds_of_recording(recording, spark, visible="then").select("at_ms", "lower", "change").collect()
    assert [row["lower"] for row in bounds if row["at_ms"] == end["emitted_ms"]] == [None]
    # A reader looks when it publishes, and not when a watermark becomes visible.
    found = {(row["at_ms"], row["lower"] is None) for row in bounds if row["change"] == "position"}
    assert {at for at, unknown in found if unknown and at > 3_000} <= {at for at, unknown in shown if unknown}
    assert [at for at, unknown in sorted(found) if unknown and end["emitted_ms"] < at < 9_000]
    assert {row["violations"] for row in recording.check().to_pandas().to_dict("records")} == {0}
    facts = recording.explain(at_ms=8_000).facts
    assert facts["cause"] == "no writer left"
    assert "watermark" not in facts
    cut = {segment: offset + 1 for segment, offset in dict(end["cut"]).items()}
    assert recording.time_at(cut).lower is None


def catching_up(timeout_from: str) -> Recording:
    """A writer that comes with old times and notes ever newer ones, each of them below the bound."""
    notes = [script.NoteTime(at_ms=at_ms, writer="w3", time=at_ms // 10) for at_ms in range(3_000, 10_000, 500)]
    return record(
        stream=Stream("orders", segments=2, timestamp_aggregation_timeout_ms=2_000),
        rules=Rules(timeout_from=timeout_from),
        writers=[EventWriter("w1", rate_per_s=40), EventWriter("w3", rate_per_s=0, note_every_ms=None)],
        script=notes,
    )


def test_i10_a_timeout_counted_from_the_last_note_may_never_come() -> None:
    found = check(catching_up("last_note"), "I10")
    assert found["verdict"] == "violated"
    assert found["what"].startswith("the lower bound stands at 2.0 s at 7.0 s, more than the timeout of 2 s")
    assert found["violations"] == 3
    first, last = (row for _, row in proof(found))
    assert (first["at_ms"], last["at_ms"]) == (4_005, 7_005)
    assert first["lagging"] == last["lagging"] == ["w3"]


@pytest.mark.parametrize("timeout_from", ["first_behind", "earlier"])
def test_i10_a_writer_that_comes_back_with_old_times_is_waited_for_anew_and_does_not_count(timeout_from: str) -> None:
    """Counted from the first cycle that saw it behind, it is removed, and comes back with its next note."""
    run = catching_up(timeout_from)
    found = check(run, "I10")
    assert (found["verdict"], found["violations"]) == ("ok", 0)
    assert max(run.table("watermarks")["emitted_ms"].to_pylist()) > 8_000


def test_i10_writers_that_note_no_position_do_not_count() -> None:
    run = record(
        writers=[EventWriter("w1", rate_per_s=40, note_every_ms=None)],
        script=[script.NoteTime(at_ms=1_500, writer="w1", time=100, position={})],
    )
    found = check(run, "I10")
    assert (found["verdict"], found["judged"]) == ("ok", 8)
    assert found["exceptions"] == "5 overdue cycles for want of usable positions"
    assert found["what"].endswith("cut failed: no positions")


def test_i10_new_owners_have_no_clocks() -> None:
    """A bucket that changes hands more often than the timeout stands still, which nobody promised against."""
    crashes = [script.CrashController(at_ms=at_ms, restart_after_ms=100) for at_ms in range(4_000, 10_000, 1_500)]
    run = record(
        controllers=Controllers(period_ms=300, session_timeout_ms=200, redistribute_every_ms=0),
        script=[script.CrashWriter(at_ms=3_000, writer="w1"), *crashes],
    )
    held = [row for row in run.table("cycles").to_pylist() if row["lagging"]]
    assert held[-1]["at_ms"] - held[0]["at_ms"] > 4_000
    assert check(run, "I10")["verdict"] == "ok"
    assert check(run, "I10", ownership=lambda _: [])["verdict"] == "violated"


def test_i11_readers_take_a_null_for_the_end_of_a_segment_in_which_more_was_noted_later() -> None:
    """Issue 6510 upstream: such a cut covers events that were appended after later times had been noted."""
    idle = [EventWriter("w1", rate_per_s=4, note_every_ms=200)]
    run = record(stream=Stream("orders", segments=4), rules=Rules(bug_6510=True), writers=idle, script=[])
    found = check(run, "I11")
    assert found["verdict"] == "violated"
    entry, mark, event = (row for _, row in proof(found))
    assert mark["time"] > entry["upper"]
    assert mark["received_ms"] < event["append_ms"]


@pytest.mark.parametrize("goes", [script.CrashWriter, script.ShutDownWriter])
def test_i11_and_i2_break_when_a_writer_is_forgotten_that_is_ahead(goes: Any) -> None:
    """PDP-33, Config Changes and Internal Changes ("forgotten") against Event Reader API Changes (upper bound)."""
    ahead = EventWriter("w", rate_per_s=20, note_every_ms=None)
    case = {
        "writers": [EventWriter("v", rate_per_s=40), ahead],
        "script": [script.NoteTime(at_ms=3_000, writer="w", time=30_000), goes(at_ms=5_000, writer="w")],
    }
    forgets, counts = (
        record(stream=Stream("orders", timestamp_aggregation_timeout_ms=2_000), rules=Rules(forgets=forgets), **case)
        for forgets in ("all", "behind")
    )
    assert {name: check(forgets, name)["verdict"] for name in ("I2", "I11")} == dict.fromkeys(("I2", "I11"), "violated")
    assert {name: check(counts, name)["verdict"] for name in ("I2", "I11")} == dict.fromkeys(("I2", "I11"), "ok")
    found = check(forgets, "I11")
    assert "but w had noted 30 s at 3.005 s" in found["what"]
    assert found["what"].endswith("; its writer had been dropped")


def test_i12_without_a_timeout_a_stale_leader_passes_over_a_writer_that_has_noted_meanwhile() -> None:
    """The leader reads the marks when w2 has noted 100, and goes on after w2 has noted 150."""
    notes = {1_500: {"w1": 100, "w2": 100}, 3_100: {"w1": 200, "w2": 100}, 3_900: {"w2": 150}}
    given = [script.NoteTime(at_ms=at, writer=w, time=t) for at, each in notes.items() for w, t in each.items()]
    run = record(
        stream=Stream("orders", segments=2, timestamp_aggregation_timeout_ms=0),
        writers=[EventWriter(name, rate_per_s=10, note_every_ms=None) for name in ("w1", "w2")],
        controllers=Controllers(2, period_ms=1_000),
        script=[*given, script.PauseController(at_ms=2_600, for_ms=1_000, point="after_marks")],
    )
    found = check(run, "I12")
    assert found["verdict"] == "violated"
    bound, latest = (row for _, row in proof(found))
    assert (bound["lower"], latest["writer"], latest["time"]) == (200, "w2", 150)
