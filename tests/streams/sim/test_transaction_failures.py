"""What transactions can do to the bounds: one test for each known failure of a transaction."""

import pytest

from tests.streams.sim.claims import assert_sound, held, late_events, outcomes
from tests.streams.sim.worlds import rows, run, stored_marks
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream, TransactionalWriter

STREAM = Stream(timestamp_aggregation_timeout_ms=3_000)
BUSY = EventWriter("w", rate_per_s=50)


def txn_writer(name="t", **fields):
    return TransactionalWriter(name, **({"rate_per_s": 50, "every_ms": 1_000} | fields))


def txns(world, **where):
    return {row["txn"]: row for row in rows(world, "transactions", **where)}


def commit(at_ms, transaction=None, time="policy", writer="t"):
    return script.CommitTransaction(at_ms=at_ms, writer=writer, transaction=transaction, time=time)


def test_t1_a_transaction_open_beyond_the_timeout_arrives_behind_the_watermark_with_its_old_time():
    slow = script.SlowTransaction(at_ms=4_500, writer="t", hold_ms=8_000)
    first_event = commit(12_000, "t-5", time=4_000)
    calm, late = (run(writers=[txn_writer(), BUSY], stream=STREAM, script=s) for s in ([], [slow, first_event]))
    assert late_events(calm) == late_events(run(writers=[txn_writer(), BUSY], stream=STREAM))
    removed = [row["at_ms"] for row in rows(late, "cycles") if row["removed"] == ["t"]]
    assert 7_000 < removed[0] < 9_000
    merged_ms = txns(late)["t-5"]["committed_ms"]
    lower = max(row["lower"] for row in rows(late, "watermarks") if row["emitted_ms"] < merged_ms)
    assert lower > 10_000
    (mark,) = rows(late, "writer_marks", txn="t-5")
    assert (mark["outcome"], mark["time"]) == ("success", 4_000)
    assert late_events(late) - late_events(calm) > 200
    # Its mark is a first mark again: it lies behind the previous lower bound and holds the next watermark.
    held_by = [row["lagging"] for row in rows(late, "cycles") if merged_ms < row["at_ms"] < merged_ms + 900]
    assert all("t" in lagging for lagging in held_by)


def test_t2_of_overlapping_commits_with_inverted_times_the_smaller_time_is_refused_and_its_end_is_not_kept():
    actions = [commit(9_000, "t-2", time=9_000), commit(9_900, "t-1", time=5_000)]
    writer = txn_writer(every_ms=3_000, open_ms=18_000)
    world = run(writers=[writer], stream=STREAM, script=actions)
    found = txns(world)
    assert found["t-2"]["committed_ms"] < found["t-1"]["committed_ms"]
    assert [(row["txn"], row["outcome"]) for row in rows(world, "writer_marks")[:2]] == [
        ("t-2", "success"),
        ("t-1", "invalid time"),
    ]
    assert found["t-1"]["position"][0] > found["t-2"]["position"][0]
    cut = rows(world, "watermarks")[0]["cut"]
    assert cut == found["t-2"]["position"]


@pytest.mark.parametrize("point", ["before_merge", "after_merge", "after_noting"])
def test_t3_after_a_crash_of_the_handler_the_batch_notes_where_the_segments_end_by_then(point):
    crash = script.CrashCommitHandler(at_ms=3_100, point=point, restart_after_ms=1_500)
    writers = [txn_writer(commit_latency_ms=100), BUSY]
    calm, crashed = (run(writers=writers, stream=STREAM, script=actions) for actions in ([], [crash]))
    before, after = txns(calm)["t-3"], txns(crashed)["t-3"]
    assert after["committed_ms"] >= before["committed_ms"] + 1_500
    assert after["position"][0] > before["position"][0]
    expected = ["success", "success"] if point == "after_noting" else ["success"]
    assert [row["outcome"] for row in rows(crashed, "writer_marks", txn="t-3")] == expected
    written = (crashed.journal.events(("t", "w")).writer == 0).sum()
    assert written == sum(row["events"] for row in txns(crashed, state="committed").values())
    assert_sound(crashed)
    assert [row["detail"] for row in rows(crashed, "incidents")] == [
        f"the commit handler crashes {point.replace('_', ' ')}"
    ]


@pytest.mark.parametrize("empty", [False, True])
def test_t3_a_second_attempt_after_a_rolling_transaction_notes_an_empty_position_only_as_implemented(empty):
    scale = script.Scale(at_ms=2_500, seal=["0@0"])
    crash = script.CrashCommitHandler(at_ms=2_600, point="after_merge")
    world = run(
        writers=[txn_writer(every_ms=2_000)],
        stream=Stream(empty_mark_after_roll=empty, timestamp_aggregation_timeout_ms=60_000),
        script=[scale, crash],
        controllers=Controllers(period_ms=1_000),
    )
    mark = rows(world, "writer_marks", txn="t-2")[-1]
    assert mark["outcome"] == "success"
    assert (mark["position"] == {}) is empty
    assert ("cut failed: no positions" in held(world)) is empty
    assert set(txns(world)["t-1"]["position"]) == {0}


def test_t4_an_abort_notes_nothing_and_the_writer_looks_silent():
    aborts = [script.AbortTransaction(at_ms=at, writer="t") for at in range(3_500, 9_000, 1_000)]
    world = run(writers=[txn_writer(), BUSY], stream=STREAM, script=aborts)
    aborted = txns(world, state="aborted")
    assert len(aborted) == len(aborts)
    assert all(row["position"] is None and row["commit_requested_ms"] is None for row in aborted.values())
    assert not [row for row in rows(world, "writer_marks", writer="t") if row["txn"] in aborted]
    assert "t" in [writer for row in rows(world, "cycles") for writer in row["removed"]]
    events = world.journal.events(("t", "w"))
    assert not [t for t in events.event_time[events.writer == 0].tolist() if 3_000 < t < 8_400]


def test_t4_an_aborted_transaction_whose_events_are_kept_is_written_again():
    abort = script.AbortTransaction(at_ms=3_500, writer="t", backlog="kept")
    worlds = [run(writers=[txn_writer()], stream=STREAM, script=script_) for script_ in ([], [abort])]
    before, after = (sorted(world.journal.events(("t",)).event_time.tolist()) for world in worlds)
    assert before == after
    assert late_events(worlds[1]) == 0


def test_t5_of_equal_times_in_a_batch_the_first_in_commit_order_gives_the_mark():
    times = noting.MaxMinusSlack(0)
    writer = txn_writer(every_ms=500, commit_latency_ms=5_000, rate_per_s=0, noting=times)
    actions = [commit(at, f"t-{n}", time=42) for n, at in enumerate((400, 800, 1_200), start=1)]
    world = run(writers=[writer, BUSY], stream=STREAM, script=actions)
    found = txns(world)
    assert found["t-1"]["batch"] == found["t-2"]["batch"] == found["t-3"]["batch"] == 0
    (mark,) = [row for row in rows(world, "writer_marks", writer="t") if row["time"] == 42]
    assert mark["txn"] == "t-1"
    assert mark["position"] == found["t-1"]["position"]


@pytest.mark.parametrize("commit_batch", [100, 1])
def test_3420_sequential_transactions_that_are_committed_out_of_order_arrive_behind_a_mark(commit_batch):
    wait = script.CrashCommitHandler(at_ms=3_100, point="before_merge", restart_after_ms=3_000)
    sound, by_id = (
        run(
            writers=[txn_writer(), BUSY],
            stream=Stream(commit_order=order, commit_batch=commit_batch, timestamp_aggregation_timeout_ms=60_000),
            script=[wait],
        )
        for order in ("requested", "by_id")
    )
    ends = {name: row["position"][0] for name, row in txns(sound, state="committed").items()}
    assert sorted(ends, key=lambda name: ends[name]) == list(ends)
    assert (late_events(sound), set(outcomes(sound, "t"))) == (0, {"success"})
    found = txns(by_id)
    assert found["t-6"]["commit_requested_ms"] > found["t-5"]["commit_requested_ms"]
    assert found["t-6"]["position"][0] < found["t-4"]["position"][0] < found["t-5"]["position"][0]
    # The mark of t-6 covers its own end only; what the other two have written comes behind it.
    assert late_events(by_id) == found["t-4"]["events"] + found["t-5"]["events"]
    assert ("invalid time" in outcomes(by_id, "t")) is (commit_batch == 1)


def test_t6_event_writers_and_transactional_writers_share_one_table_and_its_rules():
    world = run(
        writers=[txn_writer(writer_id="shared"), EventWriter("w", rate_per_s=50, writer_id="shared")], stream=STREAM
    )
    marks = rows(world, "writer_marks", writer="shared")
    assert {row["process"] for row in marks} == {None, "w"}
    assert set(outcomes(world, "shared")) == {"success", "invalid time"}
    assert list(stored_marks(world)) == ["shared"]
    mixed = run(writers=[txn_writer(), BUSY], stream=STREAM)
    assert set(rows(mixed, "watermarks")[-1]["writers"]) == {"t", "w"}
    assert_sound(mixed)
