"""The days in the life: what each of the files says is what its recording shows."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.scenario_files import files, late_reads, recording, rows
from wmlab.streams.model.segment import segment_name


def emitted(name: str) -> list[int]:
    return [row["emitted_ms"] for row in rows(recording(f"days/{name}"), "watermarks")]


@pytest.mark.parametrize("name", [name for name in files("days") if name != "days/partitioned_writer"])
def test_no_reader_gets_an_event_below_a_bound_it_was_shown(name: str) -> None:
    assert any(row["lower"] is not None for row in rows(recording(name), "reads"))
    assert late_reads(recording(name)) == 0


def test_under_load_cuts_are_of_several_epochs() -> None:
    run = recording("days/split_under_load")
    epochs = [{segment >> 32 for segment, _ in row["cut"]} for row in rows(run, "watermarks")]
    assert {0} in epochs
    assert {0, 1} in epochs
    assert epochs[-1] == {0, 1, 2}
    assert rows(run, "windows")[-1]["lower"] > 20_000


def test_a_slow_transaction_holds_the_bound_until_it_is_committed() -> None:
    run = recording("days/slow_transaction")
    slow = max(rows(run, "transactions"), key=lambda row: (row["committed_ms"] or 0) - row["begun_ms"])
    assert slow["committed_ms"] - slow["begun_ms"] > 8_000
    waits = [row["at_ms"] for row in rows(run, "cycles") if row["lagging"] == ["t1"]]
    assert waits[-1] <= slow["committed_ms"] <= waits[-1] + 1_000
    assert not [at for at in emitted("slow_transaction") if waits[0] <= at <= waits[-1]]
    assert not [row for row in rows(run, "cycles") if row["removed"]]
    assert rows(run, "watermarks")[-1]["lower"] > 25_000


def test_the_heir_of_a_controller_counts_the_timeout_from_its_own_first_cycle() -> None:
    run = recording("days/fail_over_in_a_timeout")
    waits = [row for row in rows(run, "cycles") if row["lagging"] == ["w2"]]
    heir = next(row for row in waits if row["controller"] != waits[0]["controller"])
    (removal,) = [row for row in rows(run, "cycles") if row["removed"]]
    assert removal["controller"] == heir["controller"]
    assert removal["at_ms"] - heir["at_ms"] == 8_000
    assert removal["at_ms"] - waits[0]["at_ms"] > 8_000
    assert not [at for at in emitted("fail_over_in_a_timeout") if waits[0]["at_ms"] <= at < removal["at_ms"]]


def test_a_replaced_writer_is_refused_when_it_is_back_and_its_last_events_are_late() -> None:
    run = recording("days/partitioned_writer")
    back = [row for row in rows(run, "writer_marks", process="w1") if row["received_ms"] >= 18_000]
    assert back
    assert {row["outcome"] for row in back} == {"invalid time", "invalid position"}
    assert {row["outcome"] for row in rows(run, "writer_marks", process="w1/2")} == {"success"}
    waits = [row["at_ms"] for row in rows(run, "cycles") if row["lagging"] == ["w1"]]
    assert 8_000 < min(waits) <= max(waits) < 12_000
    late = [row for row in rows(run, "events", writer="w1") if row["event_time"] < 10_000 <= row["append_ms"]]
    assert min(row["append_ms"] for row in late) >= 18_000
    assert 0 < late_reads(run) <= len(late)


def test_the_slowest_clock_is_the_lower_bound() -> None:
    for mark in rows(recording("days/clock_skew"), "watermarks"):
        times = dict(mark["writers"])
        assert mark["lower"] == times["behind"] == times["exact"] - 3_000
        assert mark["upper"] == times["ahead"] == times["exact"] + 2_000


def test_a_rolling_transaction_adds_two_epochs_of_copies() -> None:
    run = recording("days/rolling_transaction")
    assert [row["kind"] for row in rows(run, "epochs")] == ["create", "scale", "rolling", "rolling"]
    (mark,) = rows(run, "writer_marks", txn="t1-1")
    assert {segment >> 32 for segment, _ in mark["position"]} == {2}
    assert {segment >> 32 for segment, _ in rows(run, "watermarks")[-1]["cut"]} == {3}


def test_after_a_merge_the_successor_is_read_when_both_predecessors_are_finished() -> None:
    run = recording("days/merge_and_split")
    finished = {row["segment_id"]: row["at_ms"] for row in rows(run, "positions", finished=True)}
    (merged,) = [row["segment_id"] for row in rows(run, "segments", epoch=1)]
    first_read = min(row["at_ms"] for row in rows(run, "reads", segment_id=merged))
    assert first_read >= max(finished[0], finished[1]) > 6_000
    assert [row["keys"] for row in rows(run, "segments", epoch=2)] == ["0..1/5", "1/5..1/2", "1/2..1"]
    assert {segment >> 32 for segment, _ in rows(run, "watermarks")[-1]["cut"]} == {2}


def test_a_reader_that_stands_still_holds_the_bound_of_the_other() -> None:
    run = recording("days/lagging_reader")
    windows = rows(run, "windows", reader="readers-0")
    during = {row["lower"] for row in windows if 9_000 <= row["at_ms"] <= 16_000}
    (held,) = during
    assert held < 8_000
    assert [at for at in emitted("lagging_reader") if 9_000 <= at < 16_000]
    assert windows[-1]["lower"] > 20_000


def test_a_writer_that_returns_counts_again() -> None:
    run = recording("days/returning_writer")
    (removal,) = [row["at_ms"] for row in rows(run, "cycles") if row["removed"] == ["w2"]]
    assert 8_000 < removal < 20_000
    counted = {row["emitted_ms"]: "w2" in dict(row["writers"]) for row in rows(run, "watermarks")}
    assert not [at for at, by in counted.items() if by and removal <= at < 20_000]
    assert all(by for at, by in counted.items() if at > 22_000)
    assert not [row for row in rows(run, "cycles") if row["lagging"] and row["at_ms"] > removal]


def test_of_many_streams_only_those_of_the_crashed_controller_wait() -> None:
    run = recording("days/many_streams")
    orphans = {stream for row in rows(run, "ownership", controller="controller-1") for stream in row["streams"]}
    logs: dict[str, list[int]] = defaultdict(list)
    for row in rows(run, "watermarks"):
        logs[row["stream"]].append(row["emitted_ms"])
    waiting = {name for name, times in logs.items() if not [at for at in times if 11_000 < at < 13_000]}
    assert len(logs) == 8
    assert waiting == orphans
    assert 0 < len(orphans) < 8
    assert all(times[-1] > 20_000 for times in logs.values())


def test_a_flaky_network_costs_notes_and_time_but_nobody_is_dropped() -> None:
    run = recording("days/flaky_network")
    marks = rows(run, "writer_marks")
    assert {row["outcome"] for row in marks} == {"success", "invalid time"}
    heard = {(row["writer"], row["noted_ms"]) for row in marks}
    assert len(heard) < len(marks)
    assert len(heard) < 2 * 29
    assert [row for row in rows(run, "cycles") if row["lagging"]]
    assert not [row for row in rows(run, "cycles") if row["removed"]]


def test_while_the_marks_are_out_of_reach_nothing_happens_and_then_time_goes_on() -> None:
    run = recording("days/store_outage")
    failed = rows(run, "cycles", reason="cycle failed: writer marks unavailable")
    assert [row["at_ms"] for row in failed] == list(range(8_005, 14_000, 1_000))
    assert not [at for at in emitted("store_outage") if 8_000 <= at < 14_000]
    assert rows(run, "writer_marks", outcome="unavailable")
    assert rows(run, "watermarks")[-1]["lower"] > 20_000


def test_the_design_as_it_is_written_creates_contests_and_starts_in_the_middle() -> None:
    run = recording("days/as_pdp_33_is_written")
    assert not [row for row in rows(run, "cycles", stream="orders") if row["at_ms"] < 2_000]
    clicks = rows(run, "writer_marks", stream="clicks")
    assert {(row["writer"], row["time"] == row["noted_ms"]) for row in clicks if row["process"]} == {("c1", True)}
    assert {row["writer"] for row in clicks} == {"c1", "c2"}
    first = rows(run, "cycles", stream="clicks")[0]
    assert (first["at_ms"], first["reason"]) == (6_000, "no active writer")
    leaders = {row["controller"] for row in rows(run, "cycles", stream="orders")}
    assert {row["controller"] for row in rows(run, "writer_marks", writer="t1")} == leaders
    assert len(leaders) == 2
    names = [segment_name(segment) for segment, _ in rows(run, "writer_marks", writer="o2")[-1]["position"]]
    assert names[0] == "1@0"
    assert len(names) > 1
    begun = {
        group: {(row["segment_id"], row["offset"]) for row in rows(run, "positions", group=group, version=0)}
        for group in ("at-a-time", "at-a-cut")
    }
    (cut,) = rows(run, "checkpoints", checkpoint="noon")
    assert begun["at-a-cut"] == set(cut["cut"])
    assert cut["marks_offset"] > 0
    marks = [row for row in rows(run, "watermarks", stream="orders") if row["lower"] <= 12_000]
    assert begun["at-a-time"] == set(marks[-1]["cut"])
    for group in ("first", *begun):
        windows = rows(run, "windows", group=group)
        assert sum(None not in (row["lower"], row["upper"]) for row in windows) > 0.4 * len(windows), group
