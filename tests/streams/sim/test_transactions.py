"""Transactions: invisible until committed, committed in order, merged once, rolled across a scale; rows T1 to T6."""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from tests.streams.sim.worlds import Run, clocked, commit, run, scenario, txn_writer
from wmlab.core.simulation import Fixed
from wmlab.core.values import Problems
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import Rules


def test_events_are_invisible_until_their_transaction_is_merged():
    world = run(writers=[txn_writer()], stream=Stream(segments=2))
    events, found = world.events, world.rows("transactions", state="committed")
    assert set(events.append_ms) == {row["committed_ms"] for row in found}
    for row in found:
        mine = events.append_ms == row["committed_ms"]
        assert mine.sum() == row["events"]
        for segment_id, end in row["position"].items():
            here = mine & (events.segment_id == segment_id)
            assert not here.any() or events.offset[here].max() == end


def test_a_transaction_per_period_is_committed_one_latency_after_its_request():
    world = run(writers=[txn_writer(every_ms=2_000, commit_latency_ms=400)])
    done = world.rows("transactions", state="committed")
    assert [row["commit_requested_ms"] for row in done] == [at + 5 for at in range(2_000, 20_000, 2_000)]
    assert {row["committed_ms"] - row["commit_requested_ms"] for row in done} == {400}
    assert world.column("transactions", "state") == ["committed"] * 9 + ["open"]


def test_the_mark_of_a_commit_names_its_transaction_and_covers_every_segment():
    world = run(writers=[txn_writer(keys="0..1/2")], stream=Stream(segments=2))
    for row in world.rows("writer_marks"):
        txn = world.txns()[row["txn"]]
        marked = (row["process"], row["time"], row["position"], row["received_ms"])
        assert marked == (None, txn["time"], txn["position"], txn["committed_ms"])
        assert (set(row["position"]), row["position"][1]) == ({0, 1}, 0)


@pytest.mark.parametrize("open_ms", [None, 700, 2_000])
def test_transactions_that_do_not_overlap_are_begun_after_the_commit_before(open_ms):
    found = run(writers=[txn_writer(open_ms=open_ms)]).rows("transactions")
    for earlier, later in pairwise(found):
        assert later["begun_ms"] > earlier["commit_requested_ms"]
        assert open_ms is None or earlier["commit_requested_ms"] <= earlier["begun_ms"] + open_ms
        assert later["committed_ms"] is None or later["committed_ms"] > earlier["committed_ms"]


def test_one_commit_takes_all_that_wait_up_to_the_size_of_a_batch():
    writers = [TransactionalWriter(f"t{n}", rate_per_s=5, commit_latency_ms=100 * n + 50) for n in range(5)]
    together, by_two = (run(writers=writers, stream=Stream(commit_batch=size)) for size in (100, 2))
    batches = [Counter(world.column("transactions", "batch", state="committed")) for world in (together, by_two)]
    assert set(batches[0].values()) == {5}
    assert max(batches[1].values()) == 2


@pytest.mark.parametrize(("rule", "marks_per_batch"), [("per_batch", 1), ("per_transaction", 3)])
def test_a_batch_notes_one_time_for_each_writer_or_one_for_each_transaction(rule, marks_per_batch):
    writer = txn_writer(every_ms=1_000, open_ms=500, commit_latency_ms=3_000)
    slow = script.CrashCommitHandler(at_ms=0, point="before_merge", restart_after_ms=2_400)
    world = run(writers=[writer], stream=Stream(), rules=Rules(txn_marks=rule), script=[slow])
    first = world.column("transactions", "txn", batch=1)
    assert len(first) == 3
    assert [txn for txn in world.column("writer_marks", "txn") if txn in first] == first[-marks_per_batch:]


def errors(world):
    return [(row["at_ms"], row["call"], row["problem"]) for row in world.rows("errors")]


def test_committing_what_is_not_open_is_an_error():
    actions = [commit(3_500, "t-1"), commit(3_600, "t-9"), commit(3_700), commit(3_800)]
    world = run(writers=[txn_writer(every_ms=2_000)], script=actions)
    assert errors(world) == [
        (3_500, "commit", "t-1: Cannot commit a transaction that is committed."),
        (3_600, "commit", "There is no transaction t-9."),
        (3_800, "commit", "No transaction is open."),
    ]
    assert world.txns()["t-2"]["commit_requested_ms"] == 3_705


def test_a_commit_notes_the_time_that_the_application_gives():
    action = script.CommitTransaction(at_ms=3_500, writer="t", time=3_000)
    world = run(writers=[txn_writer(every_ms=2_000)], script=[action])
    (committed,) = world.rows("transactions", time=3_000)
    (mark,) = world.rows("writer_marks", txn=committed["txn"])
    assert committed["commit_requested_ms"] == 3_505
    assert (mark["time"], mark["outcome"]) == (3_000, "success")


def test_a_commit_without_an_id_has_no_time_and_is_recorded():
    world = run(writers=[txn_writer(writer_id=None)])
    assert not world.rows("writer_marks")
    assert not world.rows("watermarks")
    assert set(world.column("transactions", "state")) == {"committed", "open"}
    assert set(world.column("errors", "call")) == {"commit"}


def test_a_lost_merge_reply_is_replaced_by_the_length_of_the_segment():
    lose = script.LoseMergeReply(at_ms=2_100, count=1, noticed_after_ms=800)
    busy = EventWriter("w", rate_per_s=200, note_every_ms=None)
    calm, lossy = (run(writers=[busy, txn_writer()], stream=Stream(), script=actions) for actions in ([], [lose]))
    first, late = calm.txns()["t-1"], lossy.txns()["t-1"]
    assert late["committed_ms"] == first["committed_ms"] + 800
    assert late["position"][0] > first["position"][0]
    for world, txn in ((calm, first), (lossy, late)):
        assert [row["position"] for row in world.rows("writer_marks", txn="t-1")] == [txn["position"]]
        world.assert_merged_once()
        assert world.late_events() == 0


@pytest.mark.parametrize("carry", [True, False])
def test_the_answer_to_a_merge_shows_the_offset_or_the_length_is_asked_for(carry):
    lose = script.LoseMergeReply(at_ms=2_100, noticed_after_ms=800)
    case = {"stream": Stream(acks_carry_offset=carry), "network": Network(keep_messages=True), "duration_ms": 5_500}
    world = run(writers=[txn_writer()], script=[lose], **case)
    said = [row for row in world.rows("messages") if "merge" in row["kind"] or "get lengths" in row["kind"]]
    known = {name: row["position"][0] for name, row in world.txns(state="committed").items()}
    first, second = f"{{0@0: {known['t-1']}}}", f"{{0@0: {known['t-2']}}}"
    told = first if carry else "{0@0: –}"
    assert [(row["kind"], row["content"], row["received_ms"] is None) for row in said[:6]] == [
        ("merge transaction", "t-1: {0@0: –}", False),
        ("merge transaction: answer", f"t-1: {told}", True),
        ("merge transaction", "t-1: {0@0: –}", False),
        ("merge transaction: answer", "t-1 was merged before: {0@0: –}", False),
        ("get lengths", "{0@0: –}", False),
        ("get lengths: answer", first, False),
    ]
    of_the_second = [(row["content"], row["bytes"]) for row in said[6:] if row["kind"].endswith("answer")]
    assert of_the_second == ([(f"t-2: {second}", 34)] if carry else [("t-2: {0@0: –}", 26), (second, 29)])


@pytest.mark.parametrize(
    ("fields", "says", "more_bytes"),
    [
        ({"writer_id": "shop"}, "writer shop, time {time}", 6 + 8),
        ({"noting": noting.Never()}, "writer t, no time", 3),
        ({"writer_id": None}, "no writer id, no time", 0),
    ],
)
def test_the_request_to_commit_carries_the_writer_id_and_the_time(fields, says, more_bytes):
    world = run(writers=[txn_writer(**fields)], network=Network(keep_messages=True), duration_ms=9_500)
    requests, replies = (world.rows("messages", kind=kind) for kind in ("commit transaction", "commit requested"))
    for row, (name, txn) in zip(requests, world.txns(state="committed").items(), strict=False):
        assert row["content"] == f"{name}: {says.format(time=txn['time'])}"
        assert row["bytes"] == 8 + 8 + 5 + more_bytes
        assert txn["writer"] == "t"
    assert [row["content"] for row in replies] == [row["content"].partition(":")[0] for row in requests] != []


def test_an_older_server_is_asked_how_long_the_segment_is_after_a_merge():
    busy = EventWriter("w", rate_per_s=2_000, batch_ms=3, note_every_ms=None)
    far = Network(inside=Fixed(5))
    new, old = (
        run(writers=[busy, txn_writer()], stream=Stream(acks_carry_offset=carry), network=far)
        for carry in (True, False)
    )
    carried, asked = new.txns(state="committed"), old.txns(state="committed")
    assert list(carried) == list(asked)
    assert all(asked[name]["position"][0] > row["position"][0] for name, row in carried.items())
    assert old.late_events() == 0


def test_a_rolling_transaction_goes_into_a_sealed_copy_of_its_epoch_between_two_active_ones():
    scale = script.Scale(at_ms=1_000, seal=["0@0"], into=2)
    world = run(writers=[txn_writer(), EventWriter("w", rate_per_s=100)], script=[scale])
    copies = world.rows("segments", epoch=2)
    assert {row["number"] for row in copies} == {0, 1}
    assert all((row["sealed_ms"] is None) is (row["epoch"] == 3) for row in world.rows("segments"))
    in_copies = np.isin(world.events.segment_id, [row["segment_id"] for row in copies])
    assert set(world.events.writer[in_copies].tolist()) == {0}
    assert in_copies.sum() == world.txns()["t-1"]["events"]
    world.assert_sound()


def test_no_event_is_lost_or_written_twice_by_rolling_and_readers_get_them_all():
    scales = [script.Scale(at_ms=1_000, seal=["0@0"], into=2), script.Scale(at_ms=7_100, seal=["1@0", "3@1"], into=3)]
    writers = [txn_writer(), EventWriter("w", rate_per_s=100)]
    calm, rolled = (run(writers=writers, script=actions, duration_ms=30_000) for actions in ([], scales))
    for writer in ("t", "w"):
        before, after = ([time for time in world.times_of(writer) if time < 27_000] for world in (calm, rolled))
        assert before == after
    finished = set(rolled.column("positions", "segment_id", finished=True))
    assert finished == {row["segment_id"] for row in rolled.rows("segments") if row["sealed_ms"] is not None}


def test_a_scale_waits_for_the_batch_that_is_being_committed():
    scale = script.Scale(at_ms=2_420, seal=["0@0"], into=2)
    world = run(writers=[txn_writer()], script=[scale], network=Network(inside=Fixed(5)))
    assert world.rows("incidents", kind="scale")[0]["at_ms"] == world.txns()["t-1"]["committed_ms"] > 2_440


def test_what_a_dead_writer_left_open_is_aborted_when_its_lease_ends():
    crash = script.CrashWriter(at_ms=5_000, writer="t")
    world = run(writers=[txn_writer(lease_ms=3_000)], script=[crash])
    assert world.column("transactions", "state") == ["committed", "committed", "aborted"]
    assert world.txns()["t-3"]["aborted_ms"] == 8_000
    assert max(world.times_of("t")) < 4_000


@pytest.mark.parametrize("backlog", ["lost", "kept"])
def test_what_was_not_committed_is_lost_with_the_process_or_written_again(backlog):
    crash = script.CrashWriter(at_ms=5_000, writer="t", restart_after_ms=2_000, backlog=backlog)
    before, after = (run(writers=[txn_writer()], script=actions).times_of("t") for actions in ([], [crash]))
    gap = [[time for time in times if 4_000 < time < 6_900] for times in (before, after)]
    assert gap[1] == ([] if backlog == "lost" else gap[0])
    assert not Counter(time for time in after if time < 17_900) - Counter(before)


def test_a_graceful_shutdown_commits_what_is_open_and_says_goodbye_when_that_is_done():
    shut_down = script.ShutDownWriter(at_ms=5_050, writer="t")
    world = run(writers=[txn_writer(), EventWriter("w", rate_per_s=10)], script=[shut_down])
    assert set(world.column("transactions", "state")) == {"committed"}
    (departure,) = world.rows("writer_shutdowns")
    assert (departure["sent_ms"], departure["outcome"]) == (world.txns()["t-3"]["committed_ms"] + 5, "ok")
    assert "t" not in world.stored_marks()


def test_a_writer_that_starts_again_before_its_commits_are_done_says_no_goodbye_in_its_new_life():
    shut_down = script.ShutDownWriter(at_ms=4_450, writer="t", restart_after_ms=100)
    world = run(writers=[txn_writer(open_ms=500)], script=[shut_down])
    assert world.txns()["t-3"]["committed_ms"] > 4_550
    assert not world.rows("writer_shutdowns")


def test_a_shutdown_between_transactions_begins_one_more_for_what_waits():
    world = run(writers=[txn_writer(open_ms=500)], script=[script.ShutDownWriter(at_ms=3_550, writer="t")])
    assert world.column("transactions", "state") == ["committed"] * 3
    assert 3_450 < max(world.times_of("t")) <= 3_550


def test_a_conflict_while_noting_fails_the_batch_which_is_tried_again(monkeypatch):
    world = Run(scenario(writers=[txn_writer()], stream=Stream()))
    write, asked = world.metadata.note, []

    def conflict_once(note, read, clock_ms):
        asked.append(note.txn)
        return NoteOutcome.WRITE_CONFLICT.value if len(asked) == 1 else write(note, read, clock_ms)

    monkeypatch.setattr(world.metadata, "note", conflict_once)
    world.to_end()
    assert asked[:3] == ["t-1", "t-1", "t-2"]
    assert "t-1" in world.txns(state="committed")
    world.assert_merged_once()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (script.CommitTransaction(at_ms=1, writer="w"), "only a TransactionalWriter has transactions"),
        (script.NoteTime(at_ms=1, writer="t", time=1), "use CommitTransaction"),
        (script.ShutDownWriter(at_ms=1, writer="t", last_note=True), "use CommitTransaction"),
        (script.DuplicateWriter(at_ms=1, writer="t"), "only an EventWriter can be duplicated"),
        (script.DuplicateWriter(at_ms=1, writer="w/2"), "not one of its processes"),
        (script.CrashWriter(at_ms=1, writer="w/3"), "there are: t, w, w/2"),
    ],
)
def test_what_a_writer_cannot_do_is_refused(action, message):
    with pytest.raises(Problems, match=message):
        scenario(writers=[txn_writer(), EventWriter("w", rate_per_s=1, processes=2)], script=[action])


def test_silent_transactional_writers_commit_without_a_time():
    silence = script.SilenceWriter(at_ms=5_000, writer="t", for_ms=6_000)
    times = run(writers=[txn_writer()], script=[silence]).column("transactions", "time", state="committed")
    assert [time is None for time in times] == [False, False, True, True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (noting.WallClock(), lambda row, mine: row["commit_requested_ms"] - 5),
        (noting.LastEventTime(), lambda row, mine: mine[-1]),
        (noting.MaxMinusSlack(100), lambda row, mine: max(mine) - 100),
    ],
)
def test_a_commit_notes_what_the_policy_chooses(policy, expected):
    world = run(writers=[txn_writer(noting=policy)], stream=Stream())
    events = world.events
    for row in world.rows("transactions", state="committed"):
        mine = events.event_time[events.append_ms == row["committed_ms"]].tolist()
        assert row["time"] == expected(row, mine)


def test_writing_in_what_is_not_open_is_an_error_and_the_events_go_into_the_next_transaction():
    write = partial(script.WriteInTransaction, writer="t")
    actions = [write(at_ms=3_550, transaction="t-1"), write(at_ms=3_600, transaction="t-9")]
    world, calm = (run(writers=[txn_writer(every_ms=2_000, batch_ms=500)], script=taken) for taken in (actions, []))
    assert errors(world) == [
        (3_550, "write in", "t-1: Cannot write in a transaction that is committed."),
        (3_600, "write in", "There is no transaction t-9."),
    ]
    assert world.column("transactions", "events") == calm.column("transactions", "events")


def test_writing_in_a_transaction_takes_what_its_batch_would_have_taken_later():
    write = script.WriteInTransaction(at_ms=5_800, writer="t", transaction="t-1")
    writer = txn_writer(every_ms=3_000, open_ms=6_000, batch_ms=2_000)
    world, calm = (run(writers=[writer], script=taken) for taken in ([write], []))
    gained = world.txns()["t-1"]["events"] - calm.txns()["t-1"]["events"]
    assert gained == sum(4_000 < time <= 5_800 for time in world.times_of("t")) > 0
    assert world.txns()["t-2"]["events"] < calm.txns()["t-2"]["events"]


STREAM = Stream(timestamp_aggregation_timeout_ms=3_000)
BUSY = EventWriter("w", rate_per_s=50)


def per_second(**fields):
    return txn_writer(**({"every_ms": 1_000} | fields))


def test_t1_a_transaction_open_beyond_the_timeout_arrives_behind_the_watermark_with_its_old_time():
    slow = script.SlowTransaction(at_ms=4_500, writer="t", hold_ms=8_000)
    first_event = commit(12_000, "t-5", time=4_000)
    calm, late = (run(writers=[per_second(), BUSY], stream=STREAM, script=s) for s in ([], [slow, first_event]))
    assert calm.late_events() == run(writers=[per_second(), BUSY], stream=STREAM).late_events()
    assert 7_000 < late.column("cycles", "at_ms", removed=["t"])[0] < 9_000
    merged_ms = late.txns()["t-5"]["committed_ms"]
    assert max(lower for at, lower in late.emitted() if at < merged_ms) > 10_000
    (mark,) = late.rows("writer_marks", txn="t-5")
    assert (mark["outcome"], mark["time"]) == ("success", 4_000)
    assert late.late_events() - calm.late_events() > 200
    # Its mark is a first mark again: it lies behind the previous lower bound and holds the next watermark.
    assert all("t" in lagging for lagging in late.column("cycles", "lagging", merged_ms, merged_ms + 900))


def test_t2_of_overlapping_commits_with_inverted_times_the_smaller_time_is_refused_and_its_end_is_not_kept():
    actions = [commit(9_000, "t-2", time=9_000), commit(9_900, "t-1", time=5_000)]
    world = run(writers=[per_second(every_ms=3_000, open_ms=18_000)], stream=STREAM, script=actions)
    found = world.txns()
    assert found["t-2"]["committed_ms"] < found["t-1"]["committed_ms"]
    judged = [(row["txn"], row["outcome"]) for row in world.rows("writer_marks")]
    assert judged[:2] == [("t-2", "success"), ("t-1", "invalid time")]
    assert found["t-1"]["position"][0] > found["t-2"]["position"][0]
    assert world.rows("watermarks")[0]["cut"] == found["t-2"]["position"]


def test_slow_commits_add_to_the_uncertainty():
    """PDP-33, "Time window bounds may not be tight"; the other writer notes every second."""

    def least_uncertainty(commit_latency_ms):
        writers = [clocked("w"), txn_writer(every_ms=4_000, commit_latency_ms=commit_latency_ms)]
        world = run(writers=writers, controllers=Controllers(period_ms=500, start_delay_ms=8_000))
        return min(upper - lower for lower, upper in world.bounds())

    assert least_uncertainty(0) < 100
    assert 1_000 <= least_uncertainty(1_500) < 1_100
    assert 2_000 <= least_uncertainty(3_000) < 2_100


@pytest.mark.parametrize("point", ["before_merge", "after_merge", "after_noting"])
def test_t3_after_a_crash_of_the_handler_the_batch_notes_where_the_segments_end_by_then(point):
    crash = script.CrashCommitHandler(at_ms=3_100, point=point, restart_after_ms=1_500)
    writers = [per_second(commit_latency_ms=100), BUSY]
    calm, crashed = (run(writers=writers, stream=STREAM, script=actions) for actions in ([], [crash]))
    before, after = calm.txns()["t-3"], crashed.txns()["t-3"]
    assert after["committed_ms"] >= before["committed_ms"] + 1_500
    assert after["position"][0] > before["position"][0]
    expected = ["success", "success"] if point == "after_noting" else ["success"]
    assert crashed.column("writer_marks", "outcome", txn="t-3") == expected
    crashed.assert_merged_once()
    crashed.assert_sound()
    assert crashed.column("incidents", "detail") == [f"the commit handler crashes {point.replace('_', ' ')}"]


@pytest.mark.parametrize("empty", [False, True])
def test_t3_a_second_attempt_after_a_rolling_transaction_notes_an_empty_position_only_as_implemented(empty):
    actions = [script.Scale(at_ms=2_500, seal=["0@0"]), script.CrashCommitHandler(at_ms=2_600, point="after_merge")]
    world = run(
        writers=[txn_writer()],
        stream=Stream(timestamp_aggregation_timeout_ms=60_000),
        rules=Rules(empty_mark_after_roll=empty),
        script=actions,
        controllers=Controllers(period_ms=1_000),
    )
    mark = world.rows("writer_marks", txn="t-2")[-1]
    assert mark["outcome"] == "success"
    assert (mark["position"] == {}) is empty
    assert ("cut failed: no positions" in world.held()) is empty
    assert set(world.txns()["t-1"]["position"]) == {0}


def test_t4_an_abort_notes_nothing_and_the_writer_looks_silent():
    aborts = [script.AbortTransaction(at_ms=at, writer="t") for at in range(3_500, 9_000, 1_000)]
    world = run(writers=[per_second(), BUSY], stream=STREAM, script=aborts)
    aborted = world.txns(state="aborted")
    assert len(aborted) == len(aborts)
    assert all(row["position"] is None and row["commit_requested_ms"] is None for row in aborted.values())
    assert not [row for row in world.rows("writer_marks", writer="t") if row["txn"] in aborted]
    assert ["t"] in world.column("cycles", "removed")
    assert not [time for time in world.times_of("t") if 3_000 < time < 8_400]


def test_t4_an_aborted_transaction_whose_events_are_kept_is_written_again():
    abort = script.AbortTransaction(at_ms=3_500, writer="t", backlog="kept")
    calm, world = (run(writers=[per_second()], stream=STREAM, script=actions) for actions in ([], [abort]))
    assert calm.times_of("t") == world.times_of("t")
    assert world.late_events() == 0


def test_t5_of_equal_times_in_a_batch_the_first_in_commit_order_gives_the_mark():
    writer = per_second(every_ms=500, open_ms=1_500, commit_latency_ms=5_000, rate_per_s=0, noting=noting.Never())
    actions = [commit(700, "t-2", time=42), commit(800, "t-1", time=42), commit(1_200, "t-3", time=42)]
    world = run(writers=[writer, BUSY], stream=STREAM, script=actions)
    found = world.txns()
    assert found["t-1"]["batch"] == found["t-2"]["batch"] == found["t-3"]["batch"] == 0
    (mark,) = world.rows("writer_marks", writer="t", time=42)
    assert (mark["txn"], mark["position"]) == ("t-2", found["t-2"]["position"])


@pytest.mark.parametrize("commit_batch", [100, 1])
def test_3420_sequential_transactions_that_are_committed_out_of_order_arrive_behind_a_mark(commit_batch):
    wait = script.CrashCommitHandler(at_ms=3_100, point="before_merge", restart_after_ms=3_000)
    streams = (
        Stream(commit_order=order, commit_batch=commit_batch, timestamp_aggregation_timeout_ms=60_000)
        for order in ("requested", "by_id")
    )
    sound, by_id = (run(writers=[per_second(), BUSY], stream=stream, script=[wait]) for stream in streams)
    ends = {name: row["position"][0] for name, row in sound.txns(state="committed").items()}
    assert sorted(ends, key=lambda name: ends[name]) == list(ends)
    assert (sound.late_events(), set(sound.outcomes(writer="t"))) == (0, {"success"})
    found = by_id.txns()
    assert found["t-6"]["commit_requested_ms"] > found["t-5"]["commit_requested_ms"]
    assert found["t-6"]["position"][0] < found["t-4"]["position"][0] < found["t-5"]["position"][0]
    # The mark of t-6 covers its own end only; what the other two have written comes behind it.
    assert by_id.late_events() == found["t-4"]["events"] + found["t-5"]["events"]
    assert ("invalid time" in by_id.outcomes(writer="t")) is (commit_batch == 1)


def test_t6_event_writers_and_transactional_writers_share_one_table_and_its_rules():
    shared = [per_second(writer_id="shared"), replace(BUSY, writer_id="shared")]
    world = run(writers=shared, stream=STREAM)
    assert set(world.column("writer_marks", "process", writer="shared")) == {None, "w"}
    assert set(world.outcomes(writer="shared")) == {"success", "invalid time"}
    assert list(world.stored_marks()) == ["shared"]
    mixed = run(writers=[per_second(), BUSY], stream=STREAM)
    assert set(mixed.rows("watermarks")[-1]["writers"]) == {"t", "w"}
    mixed.assert_sound()
