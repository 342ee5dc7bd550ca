"""Transactions in a fleet: who commits, what a fail-over does to a batch, several streams, and the way there."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from tests.repetitions import repetitions
from tests.streams.sim.worlds import drawn, run, run_of, scenario, txn_writer
from wmlab.core.simulation import Fixed, Uniform
from wmlab.core.values import Problems
from wmlab.streams.scenario import script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules

FLEET = {"period_ms": 500, "session_timeout_ms": 2_000, "redistribute_every_ms": 1_000, "start_delay_ms": 2_000}
THREE = Controllers(3, buckets=4, **FLEET)
ONE = Controllers(**FLEET)
STREAM = Stream(segments=2, timestamp_aggregation_timeout_ms=60_000)


def frequent(name="t", **fields):
    return txn_writer(name, **({"every_ms": 1_000, "commit_latency_ms": 100} | fields))


BUSY = EventWriter("w", rate_per_s=50, note_every_ms=300)
SLOW = [frequent(commit_latency_ms=700), BUSY]


def fleet(*actions, **fields):
    """A run with a frequent transactional writer, a busy event writer, and three controllers."""
    case = {"writers": [frequent(), BUSY], "stream": STREAM, "controllers": THREE, "script": actions}
    return run(**(case | fields))


def test_the_controller_that_commits_stays_the_same_while_its_session_lasts():
    world = fleet()
    assert len(set(world.column("writer_marks", "controller", writer="t"))) == 1
    assert len(set(world.column("writer_marks", "controller", writer="w"))) == 3


def assert_safe(world):
    world.assert_sound()
    world.assert_merged_once()
    assert world.late_events() == 0


def in_turn(found):
    """The names without immediate repetition."""
    return [name for name, before in zip(found, [None, *found], strict=False) if name != before]


def committers(world):
    return in_turn(world.column("writer_marks", "controller", writer="t"))


def leaders(world):
    return in_turn([row["controller"] for row in world.rows("ownership") if row["streams"]])


@pytest.mark.parametrize(
    "happens",
    [
        script.CrashController(at_ms=6_050, controller="leader"),
        script.RemoveController(at_ms=6_050, controller="leader"),
        script.ExpireSession(at_ms=6_050, notice_after_ms=6_000),
        script.LoseBucketOwner(at_ms=6_050, for_ms=3_000),
        script.CrashController(at_ms=5_900, controller="leader", point="after_merge"),
    ],
)
def test_the_leader_of_a_stream_can_be_its_committer_and_hands_that_over_with_the_bucket(happens):
    stream = Stream("orders", segments=2, timestamp_aggregation_timeout_ms=60_000)
    apart, world = fleet(happens, stream=stream), fleet(happens, stream=stream, rules=Rules(committer="leader"))
    assert committers(apart) != leaders(apart)
    assert committers(world) == leaders(world)
    assert world.txns()["t-18"]["state"] == "committed"
    world.assert_merged_once()
    world.assert_sound()


@pytest.mark.parametrize("point", ["before_merge", "after_merge", "after_noting"])
def test_another_controller_finishes_the_batch_when_the_session_of_the_first_has_ended(point):
    crash = script.CrashController(at_ms=5_500, controller="committer", point=point)
    calm, world = fleet(), fleet(crash)
    (fault,) = world.rows("incidents", kind="crash")
    assert fault["detail"].endswith(f"crashes {point.replace('_', ' ')}")
    late = world.column("transactions", "txn", committed_ms=fault["at_ms"] + 2_000)
    committed = world.column("transactions", "committed_ms", state="committed")
    assert min(at for at in committed if at >= fault["at_ms"]) == fault["at_ms"] + 2_000
    before, after = set(), set()
    for row in world.rows("writer_marks", writer="t"):
        (before if row["received_ms"] < fault["at_ms"] else after).add(row["controller"])
    assert before == {fault["target"]} != after
    noted = Counter(world.column("writer_marks", "txn", writer="t"))
    assert max(noted[txn] for txn in late) == (2 if point == "after_noting" else 1)
    assert len(committed) == len(calm.txns(state="committed"))
    assert_safe(world)


def test_a_controller_without_session_stops_when_it_finds_its_batch_done():
    """Two controllers commit the same batch: the one whose session ended, and its successor."""
    actions = [
        script.PauseController(at_ms=5_500, controller="committer", point="after_merge", for_ms=6_000),
        script.Scale(at_ms=9_500, seal=["0@0"]),
    ]
    world = fleet(*actions)
    paused, resumed = (world.rows("incidents", kind=kind)[0] for kind in ("pause", "resume"))
    stale = world.column("writer_marks", "received_ms", writer="t", controller=paused["target"])
    assert max(stale) < resumed["at_ms"]
    done = world.column("transactions", "committed_ms", state="committed")
    assert done == sorted(done)
    assert_safe(world)


def test_without_a_controller_nothing_is_committed_and_nothing_is_lost():
    crash = script.CrashController(at_ms=5_050, controller="controller-0", restart_after_ms=3_000)
    calm, world = (fleet(*actions, writers=[frequent()], controllers=ONE) for actions in ([], [crash]))
    assert not [at for at in world.column("transactions", "committed_ms") if at and 5_050 < at < 8_050]
    before, after = ([time for time in each.times_of("t") if time < 17_000] for each in (calm, world))
    assert before == after


def test_transactions_are_begun_and_committed_over_the_network():
    kept = Network(inside=Fixed(3), keep_messages=True)
    messages = fleet(network=kept, duration_ms=5_000).rows("messages")
    sent = {(row["sender"][:10], row["kind"]) for row in messages if row["receiver"].startswith("controller")}
    assert {("t", "begin transaction"), ("t", "commit transaction")} <= sent
    inside = {row["kind"] for row in messages if row["receiver"] in ("segment-store", "metadata-store")}
    assert {"create transaction", "record commit", "next batch", "merge transaction", "write mark",
            "record committed", "append to index"} <= inside  # fmt: skip
    assert ("committed", "t") in {(row["kind"], row["receiver"]) for row in messages}


def test_a_partitioned_writer_commits_when_it_is_back():
    cut = script.Partition(at_ms=4_500, a="t", b="controllers", for_ms=3_000)
    world = fleet(cut)
    requested = [at for at in world.column("transactions", "commit_requested_ms") if at]
    assert 7_500 <= min(at for at in requested if at > 4_510) < 7_700
    assert world.rows("cycles", 5_000, 7_500, lagging=["t"])
    assert world.late_events() == 0


def test_an_abort_is_carried_through_by_another_controller_when_the_first_goes_down():
    actions = [
        script.AbortTransaction(at_ms=5_500, writer="t"),
        *(script.PauseController(at_ms=5_400, controller=f"controller-{n}", for_ms=400) for n in range(3)),
        *(script.CrashController(at_ms=5_600, controller=f"controller-{n}", restart_after_ms=1_000) for n in range(3)),
    ]
    (aborted_ms,) = fleet(*actions).column("transactions", "aborted_ms", state="aborted")
    assert aborted_ms > 6_600


def test_what_a_dead_writer_left_is_aborted_even_if_no_controller_is_there_when_the_lease_ends():
    actions = [
        script.CrashWriter(at_ms=5_500, writer="t"),
        script.CrashController(at_ms=7_000, controller="controller-0", restart_after_ms=4_000),
    ]
    world = fleet(*actions, writers=[frequent(lease_ms=2_000), BUSY], controllers=ONE)
    (aborted_ms,) = world.column("transactions", "aborted_ms", state="aborted")
    assert aborted_ms > 11_000


def test_transactions_of_several_streams_are_committed_apart():
    world = run(
        stream=Stream(),
        streams=[Stream("a", segments=2), Stream("b")],
        writers=[frequent("ta", stream="a"), frequent("tb", stream="b"), EventWriter("w", rate_per_s=9, stream="b")],
        readers=ReaderGroup(streams=["a", "b"]),
        controllers=Controllers(5, buckets=7, **FLEET),
        script=[
            script.Scale(at_ms=4_300, seal=["0@0"], stream="a"),
            script.CrashCommitHandler(at_ms=8_000, stream="b", restart_after_ms=2_500),
            script.LoseMergeReply(at_ms=12_000, stream="a", noticed_after_ms=900),
        ],
    )
    for name, kinds in (("a", ["create", "scale", "rolling", "rolling"]), ("b", ["create"])):
        assert set(world.column("transactions", "writer", of=name)) == {f"t{name}"}
        assert world.column("epochs", "kind", of=name) == kinds
        assert max(lower or 0 for lower in world.column("windows", "lower", of=name)) > 15_000
    late_a, late_b = (
        max(
            row["committed_ms"] - row["commit_requested_ms"]
            for row in world.rows("transactions", of=name, state="committed")
        )
        for name in "ab"
    )
    assert (late_a, late_b >= 2_500) == (1_000, True)


def test_sealing_a_stream_aborts_what_is_open_and_commits_what_was_requested():
    world = fleet(script.SealStream(at_ms=8_200), writers=SLOW, controllers=Controllers(period_ms=500))
    assert Counter(world.column("transactions", "state")) == {"committed": 8, "aborted": 1}
    committed = world.column("transactions", "committed_ms", state="committed")
    assert set(world.column("segments", "sealed_ms")) == {max(committed) + 5}
    assert [(row["call"], row["process"]) for row in world.rows("errors")] == [("commit", "t"), ("begin", "t")]
    world.assert_merged_once()


def test_a_stream_created_again_has_transactions_of_its_own():
    reset = script.DeleteStream(at_ms=8_200, recreate_after_ms=1_000)
    world = fleet(reset, writers=SLOW, controllers=Controllers(period_ms=500))
    states = Counter(world.column("transactions", "state", of="stream"))
    assert states == {"committed": 7, "committing": 1, "open": 1}
    new = world.rows("transactions", of="stream#2")
    assert min(row["begun_ms"] for row in new) > 9_200
    assert all(row["position"] is None or min(row["position"]) > 1 for row in new)
    assert world.rows("watermarks", of="stream#2")


def test_a_process_that_has_not_started_yet_cannot_be_crashed():
    twin = script.DuplicateWriter(at_ms=5_000, writer="w")
    with pytest.raises(Problems, match="starts at 5 s"):
        run(writers=[BUSY], script=[script.CrashWriter(at_ms=4_000, writer="w/2"), twin])
    assert run(writers=[BUSY], script=[twin, script.CrashWriter(at_ms=6_000, writer="w/2")])


times, points = st.integers(1_500, 12_000), ["before_merge", "after_merge", "after_noting"]
DISASTERS = (
    drawn(script.CrashController, at_ms=times, controller=["leader", "committer", "controller-1"],
          restart_after_ms=st.integers(1, 4_000), point=st.none() | st.sampled_from([*points, "after_append"])),
    drawn(script.PauseController, at_ms=times, for_ms=st.integers(1, 4_000), controller="committer",
          point=st.none() | st.sampled_from(points)),
    drawn(script.ExpireSession, at_ms=times, controller="committer",
          notice_after_ms=st.integers(0, 4_000)),
    drawn(script.AddController, at_ms=times),
    drawn(script.RemoveController, at_ms=times, controller=["controller-0", "controller-2"]),
    drawn(script.LoseBucketOwner, at_ms=times, for_ms=st.integers(1, 4_000)),
    drawn(script.Partition, at_ms=times, for_ms=st.integers(1, 3_000), a=["t", "u", "controllers"],
          b=["segment-store"]),
    drawn(script.Partition, at_ms=times, for_ms=st.integers(1, 3_000), a=["controllers"],
          b=["coordinator", "metadata-store"]),
    drawn(script.StoreUnavailable, at_ms=times, for_ms=st.integers(1, 3_000),
          store=["writer_marks", "segment_metadata", "marks_segment"]),
    drawn(script.Scale, at_ms=times, seal=st.just(["0@0"]), into=st.integers(1, 3)),
    drawn(script.SilenceWriter, at_ms=times, writer=["t", "w"], for_ms=st.integers(1, 3_000)),
    drawn(script.SlowTransaction, at_ms=times, writer="t", hold_ms=st.integers(1, 4_000)),
    drawn(script.LoseMergeReply, at_ms=times, noticed_after_ms=300),
    drawn(script.AbortTransaction, at_ms=times, writer="u", backlog="kept"),
    drawn(script.CrashCommitHandler, at_ms=times, restart_after_ms=200, point=st.sampled_from(points)),
)  # fmt: skip
KINDS = {
    *("crash_controller", "pause_controller", "expire_session", "add_controller", "remove_controller"),
    *("lose_bucket_owner", "partition", "store_unavailable", "scale", "silence_writer", "slow_transaction"),
    *("lose_merge_reply", "abort_transaction", "crash_commit_handler"),
}
LOAD = {"rate_per_s": st.sampled_from([0, 5, 60]), "delay_mean_ms": st.sampled_from([0, 30, 900])}
EVENT_WRITERS = st.fixed_dictionaries(LOAD | {
    "keys": st.sampled_from(["0..1", "0..1/3"]),
    "batch_ms": st.sampled_from([100, 1, 900]),
    "flush_before_note": st.booleans(),
    "note_every_ms": st.sampled_from([300, 100, 900]),
})  # fmt: skip
TXN_WRITERS = st.fixed_dictionaries(LOAD | {
    "every_ms": st.sampled_from([500, 900]),
    "open_ms": st.sampled_from([None, 100, 2_500]),
    "commit_latency_ms": st.sampled_from([0, 90, 700]),
})  # fmt: skip


@st.composite
def runs(draw, disaster):
    """Random runs with this disaster and others. Nobody times out; most have noted before the first cycle."""
    spread, first = draw(st.booleans()), draw(disaster)
    further = st.one_of(DISASTERS).filter(lambda action: action.kind != first.kind)
    others = draw(st.lists(further, min_size=1, max_size=5, unique_by=lambda action: action.kind))
    return scenario(
        stream=Stream(
            segments=draw(st.integers(1, 5)),
            timestamp_aggregation_timeout_ms=10**6,
            acks_carry_offset=draw(st.booleans()),
        ),
        writers=[
            *(txn_writer(name, **draw(TXN_WRITERS)) for name in "tu"),
            *(EventWriter(name, **draw(EVENT_WRITERS)) for name in "vw"),
        ],
        readers=ReaderGroup(publish_every_ms=300, state_latency_ms=None),
        controllers=Controllers(3, buckets=2, **{**FLEET, "period_ms": 1_900, "start_delay_ms": 14_000}),
        network=Network(
            inside=Fixed(draw(st.sampled_from([0, 4, 10]))),
            delay=Uniform(1, 40) if spread else None,
            loss=0.03 * spread,
        ),
        script=[first, *others],
        duration_ms=26_000,
        latency_ms=draw(st.sampled_from([0, 5, 60])),
        seed=draw(st.integers(0, 2**32)),
    )


def test_whatever_happens_every_claim_holds_no_event_is_merged_twice_and_no_bucket_has_two_owners():
    """`tests/machine` judges the invariants of the log in many more runs, whoever is lost."""
    happened, networks, all_noted = Counter(), Counter(), Counter()

    for disaster in DISASTERS:

        @settings(max_examples=repetitions(4, long=9))
        @given(runs(disaster))
        def holds(case):
            happened.update(action.kind for action in case.script)
            networks[case.network.delay is None] += 1
            all_noted[assert_claims_hold(case)] += 1

        holds()
    assert happened.keys() == KINDS
    assert min(networks.values()) > 5
    assert all_noted[True] > 4 * all_noted[False]


def assert_claims_hold(case):
    """Whether no first watermark lacks a writer; a request that is tried again may come after it."""
    world = run_of(case)
    world.assert_sound()
    world.assert_merged_once()
    all_noted = all(len(row["writers"]) == len(case.writers) for row in world.rows("watermarks")[:1])
    assert not all_noted or world.late_events() == 0
    world.first_reads_are_complete()
    assert [row for row in world.txns(state="committed").values() if row["committed_ms"] > 20_000]
    for bucket in range(2):
        spans = [(r["from_ms"], r["to_ms"]) for r in world.rows("ownership") if r["bucket"] == bucket]
        assert all(to is not None and to <= later for (_, to), (later, _) in pairwise(spans))
    return all_noted
