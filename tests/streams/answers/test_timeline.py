from __future__ import annotations

import json

import pytest

from tests.streams.answers.runs import crash, cycle, mark, owned, position, row, segment, watermark, written
from wmlab.core.errors import RecordingError
from wmlab.core.words import grouped
from wmlab.streams.answers.timeline import Timeline, timeline
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream


@pytest.fixture(scope="module")
def run() -> Timeline:
    return timeline(crash())


def told(found: Timeline) -> list[tuple[int, int, str, str, str]]:
    return [(m.at_ms, m.to_ms, m.who, m.what, m.effect) for m in found]


def test_a_run_reads_as_a_story(run: Timeline) -> None:
    assert repr(run.between(20_000, 45_000)).splitlines() == [
        "Timeline of orders: 8 moments.",
        " 2.0 s – 33.0 s  controller-0  emits 32 watermarks; lower bound 89 ms → 28.9 s",
        "         20.0 s  orders        scales: 0@0 → 2@1, 3@1; epoch 1: 1@0, 2@1, 3@1",
        "         20.0 s  orders        seals 0@0",
        "         21.0 s  readers-0     finishes 0@0 at 277 236 bytes; 2@1, 3@1 can be read",
        "         30.0 s  w2            crashes",
        "34.0 s – 43.0 s  controller-0  begins 10 cycles (waits for w2); lower bound stays at 28.9 s",
        "         44.0 s  controller-0  begins a cycle that drops w2",
        "44.0 s – 50.0 s  controller-0  emits 7 watermarks; lower bound 41.5 s → 47.4 s",
    ]


def test_the_beginning_and_the_return_of_a_writer_are_told(run: Timeline) -> None:
    assert told(run)[:3] == [
        (0, 0, "orders", "is created", "with 0@0, 1@0"),
        (1_005, 1_005, "w1", "notes the time 89 ms", "is on record"),
        (1_005, 1_005, "w2", "notes the time 970 ms", "is on record"),
    ]
    assert told(run.about("w2"))[-2:] == [
        (55_000, 55_000, "w2", "restarts", ""),
        (56_005, 56_005, "w2", "notes the time 55.9 s", "is on record again"),
    ]
    assert (3_000, 3_000, "readers-1", "saw its first lower bound", "89 ms") in told(run)


def test_the_last_epoch_is_the_one_with_the_largest_number() -> None:
    """A log of the outside world may have its epochs in another order; 0@0 is replaced by 1@1, so it has successors."""
    created = row("epochs", epoch=0, kind="create", at_ms=0, segment_ids=[0])
    scaled = row("epochs", epoch=1, kind="scale", at_ms=100, segment_ids=[2**32 + 1])
    finished = position(50, 1, 200) | {"finished": True}
    found = timeline(written(segments=[segment(), segment(1, 1)], epochs=[scaled, created], positions=[finished]))
    assert [(m.what, m.effect) for m in found.between(200)] == [
        ("finishes 0@0 at 50 bytes", "its successors wait for other segments")
    ]


def test_a_party_is_followed_through_all_tables(run: Timeline) -> None:
    whats = [m.what for m in run.about("0@0")]
    assert whats == ["scales: 0@0 → 2@1, 3@1", "seals 0@0", "finishes 0@0 at 277 236 bytes"]
    assert {m.who for m in run.about("w2")} == {"w2", "controller-0"}
    assert len(run.about("nobody")) == 0


def test_a_moment_that_lasts_is_found_anywhere_in_its_span(run: Timeline) -> None:
    assert [m.what for m in run.between(35_000, 36_000)] == ["begins 10 cycles (waits for w2)"]
    assert run.between() == run
    assert run.between("35 s", "36 s") == run.between(35_000, 36_000)
    with pytest.raises(RecordingError, match="from_ms is 'soon'"):
        run.between("soon")
    with pytest.raises(RecordingError, match=r"'36 s' is after '35 s': the ends are swapped"):
        run.between("36 s", "35 s")


def test_refused_notes_are_one_row_per_reason() -> None:
    refused = [mark("w1", 5, at, "invalid time") for at in (200, 300)]
    found = timeline(written(writer_marks=[mark("w1", 10, 100), *refused, mark("w1", 9, 400, "invalid position")]))
    assert told(found) == [
        (100, 100, "w1", "notes the time 10 ms", "is on record"),
        (200, 300, "w1", "notes a time, 2 times", "refused: invalid time"),
        (400, 400, "w1", "notes the time 9 ms", "refused: invalid position"),
    ]


def test_cycles_that_fail_alike_are_one_row_and_one_that_lost_its_place_in_the_log_appended_nothing() -> None:
    failed = [cycle(at, None, reason="cut failed: no positions") for at in (1_000, 2_000, 3_000)]
    others = [cycle(4_000, None, reason="no active writer"), cycle(5_000, None, outcome="emitted")]
    assert told(timeline(written(cycles=[*failed, *others]))) == [
        (1_000, 3_000, "c1", "begins 3 cycles (cut failed: no positions)", "no lower bound yet"),
        (4_000, 4_000, "c1", "begins 1 cycle (no active writer)", "no lower bound yet"),
    ]


def test_after_an_end_of_known_time_there_is_no_bound() -> None:
    none = watermark(1, 5_000, w1=800) | {"writers": {}}
    held = [cycle(at_ms, 800, reason=reason) for at_ms, reason in ((5_000, "no active writer"), (6_000, "cut failed"))]
    recording = written(
        cycles=[cycle(2_000, None, outcome="emitted"), cycle(3_000, 800, lagging=["w1"]), *held],
        watermarks=[watermark(0, 2_000, w1=800), none],
    )
    effects = [moment.effect for moment in timeline(recording) if moment.who == "c1"]
    assert effects == ["lower bound 800 ms", "lower bound stays at 800 ms", *["no lower bound since 5.0 s"] * 2]


def test_a_cycle_that_ends_known_time_itself_leaves_no_bound() -> None:
    end = watermark(1, 5_005, w1=800) | {"writers": {}, "cycle_ms": 5_000}
    cycles = [cycle(5_000, 800, reason="no active writer")]
    found = timeline(written(cycles=cycles, watermarks=[watermark(0, 2_000, w1=800), end]))
    assert [moment.effect for moment in found][1:] == ["no lower bound since 5.0 s"]


def test_a_lost_log_and_a_sealed_stream_are_told_as_they_are() -> None:
    """A cycle that finds no log is not the first one, and the last segments of a stream have no successors."""
    run = Scenario(
        "sealed",
        streams=[Stream("orders", segments=1)],
        writers=[EventWriter("w", rate_per_s=20)],
        readers=[ReaderGroup("readers")],
        script=[
            script.TruncateMarks(at_ms=25_000, keep=1),
            script.LoseMarksSegment(at_ms=28_000, for_ms=9_000),
            script.SealStream(at_ms=40_000),
        ],
        duration_ms=45_000,
    ).record(progress=False)
    found = timeline(run)
    assert "the marks segment keeps 1 watermark" in [moment.what for moment in found]
    assert {m.effect for m in found if "(cycle failed" in m.what} == {"lower bound stays at 20.0 s"}
    assert [m.effect for m in found if m.what.startswith("finishes 0@0")] == ["it has no successors"]


def test_segments_that_a_reset_takes_from_a_group_are_not_finished() -> None:
    run = Scenario(
        "taken back",
        streams=[Stream("orders", segments=1)],
        writers=[EventWriter("w", rate_per_s=20)],
        readers=[ReaderGroup("readers")],
        script=[
            script.Checkpoint(at_ms=5_000, name="c"),
            script.Scale(at_ms=8_000, seal=["0@0"]),
            script.ResetToCheckpoint(at_ms=15_000, checkpoint="c"),
        ],
        duration_ms=20_000,
    ).record(progress=False)
    left = run.to_pandas("positions").query("finished and reset")
    assert list(left["segment_id"] > 0) == [True, True]
    finished = [(m.at_ms, m.what.split(" at ")[0]) for m in timeline(run) if m.what.startswith("finishes")]
    assert finished == [(9_000, "finishes 0@0"), (15_000, "finishes 0@0")]
    (reset,) = (m for m in timeline(run) if m.what == "is taken back")
    (cut,) = (dict(row["cut"]) for row in run.table("checkpoints").to_pylist())
    assert (reset.at_ms, reset.who, reset.effect) == (15_000, "readers", f"reads on in 0@0 at {grouped(cut[0])} bytes")


def test_a_merge_tells_once_of_each_segment_that_a_group_finishes() -> None:
    run = Scenario(
        "merged",
        streams=[Stream("orders", segments=2)],
        writers=[EventWriter("w", rate_per_s=60, keys="0..1/2"), EventWriter("v", rate_per_s=5)],
        readers=[ReaderGroup("readers", readers=2, rate_per_s=40.0)],
        script=[script.Scale(at_ms=4_000, seal=["0@0", "1@0"], into=1)],
        duration_ms=12_000,
    ).record(progress=False)
    finished = [(m.what.split(" at ")[0], m.effect) for m in timeline(run) if m.what.startswith("finishes")]
    assert finished == [
        ("finishes 1@0", "its successors wait for other segments"),
        ("finishes 0@0", "2@1 can be read"),
    ]


def txn(number: int, begun_ms: int, **columns: object) -> dict[str, object]:
    given = {"state": "open", "events": 12} | columns
    return row("transactions", txn=f"t1-{number}", writer="t1", begun_ms=begun_ms, **given)


def test_the_life_of_a_transaction_is_one_row() -> None:
    lives = [
        txn(2, 20, state="aborted", aborted_ms=90, events=1),
        txn(1, 10, state="committed", commit_requested_ms=50, committed_ms=80, time=1_040),
        txn(3, 30, state="committing", commit_requested_ms=95),
        txn(4, 40),
    ]
    requested = "asks to commit it at 50 ms with the time 1.0 s", "asks to commit it at 95 ms without a time"
    found = timeline(written(transactions=lives))
    assert [m.what for m in found.about("t1-4")] == ["begins transaction t1-4"]
    assert told(found) == [
        (10, 80, "t1", f"begins transaction t1-1, {requested[0]}", "committed at 80 ms, events: 12"),
        (20, 90, "t1", "begins transaction t1-2", "aborted at 90 ms, events: 1"),
        (
            30,
            95,
            "t1",
            f"begins transaction t1-3, {requested[1]}",
            "committing to the end, events: 12",
        ),
        (40, 40, "t1", "begins transaction t1-4", "open to the end, events: 12"),
    ]


def test_the_owners_of_the_streams_bucket_are_told_also_when_it_is_created_again() -> None:
    rows = [owned(3, "c1", 0, 700, "orders"), owned(3, "c2", 900, None, "orders"), owned(4, "c1", 0, None, "other")]
    for name in ("orders", "orders#2"):
        assert told(timeline(written(segments=[segment() | {"stream": name}], ownership=rows))) == [
            (0, 700, "c1", "owns bucket 3", ""),
            (900, 900, "c2", "owns bucket 3", ""),
        ]


def test_a_timeline_is_a_table_and_data(run: Timeline) -> None:
    frame = run.to_pandas()
    assert list(frame.columns) == ["stream", "at_ms", "to_ms", "who", "what", "effect"]
    assert len(frame) == len(run) == len(json.loads(run.to_json())["moments"])
    assert "<td style='text-align:left'>begins 10 cycles (waits for w2)</td>" in run._repr_html_()


def test_over_days_a_timeline_has_days_and_no_milliseconds() -> None:
    day = 86_400_000
    recording = written(writer_marks=[mark("w1", 5, 2 * day + 3_600_123), mark("w1", 5, 3 * day, "invalid time")])
    found = timeline(recording)
    assert [line.strip().split("  ")[0] for line in repr(found).splitlines()[-2:]] == ["2 d 1 h", "3 d"]
    assert ">at<" in found._repr_html_()


def test_a_stream_created_during_the_run_is_created_once() -> None:
    late = Stream("late", timestamp_aggregation_timeout_ms=9_000)
    run = Scenario(
        "two",
        streams=[Stream("first"), late],
        writers=[EventWriter("w", rate_per_s=5, stream="first")],
        script=[script.CreateStream(at_ms=1_000, stream="late")],
        duration_ms=3_000,
    ).record(progress=False)
    assert [(m.at_ms, m.what) for m in timeline(run, stream="late") if "created" in m.what] == [(1_000, "is created")]


def test_times_in_sentences_are_rounded_and_those_of_the_table_are_exact() -> None:
    start_ms = 1_357_365_600_000
    moments = timeline(written(writer_marks=[mark("w1", start_ms + 9_250, start_ms + 10_005)]))
    (noted,) = [moment for moment in moments if moment.who == "w1"]
    assert (noted.at_ms, noted.what) == (start_ms + 10_005, "notes the time 2013-01-05 06:00:09 UTC")
    assert repr(moments).splitlines() == [
        "Timeline of orders (UTC): 1 moment.",
        "2013-01-05 06:00:10  w1  notes the time 2013-01-05 06:00:09; is on record",
    ]
