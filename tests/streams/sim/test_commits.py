"""Transactions in a fleet: who commits, what a fail-over does to a batch, several streams, and the way there."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams.sim.worlds import (
    assert_sound,
    drawn,
    first_reads_are_complete,
    late_events,
    rows,
    run,
    run_of,
    scenario,
    times_of,
    txn_writer,
    txns,
)
from wmlab.core.simulation import Fixed, Uniform
from wmlab.core.values import Problems
from wmlab.streams.scenario import script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter

FLEET = {"period_ms": 500, "session_timeout_ms": 2_000, "redistribute_every_ms": 1_000, "start_delay_ms": 2_000}
THREE = Controllers(3, buckets=4, **FLEET)
STREAM = Stream(segments=2, timestamp_aggregation_timeout_ms=60_000)


def frequent(name="t", **fields):
    return txn_writer(name, **({"every_ms": 1_000, "commit_latency_ms": 100} | fields))


BUSY = EventWriter("w", rate_per_s=50, note_every_ms=300)


def assert_merged_once(world):
    """Every committed event is in the stream, and none of them twice."""
    names = tuple(part.name for part in world.scenario.writers)
    events = world.stream().journal.events(names)
    for index, name in enumerate(names):
        committed = [row for row in rows(world, "transactions", writer=name) if row["state"] == "committed"]
        if isinstance(world.scenario.writers[index], TransactionalWriter):
            written, known = (events.writer == index).sum(), sum(row["events"] for row in committed)
            merged_late = sum(row["events"] for row in txns(world, writer=name, state="committing").values())
            assert known <= written <= known + merged_late


def test_the_controller_that_commits_stays_the_same_while_its_session_lasts():
    world = run(writers=[frequent(), BUSY], stream=STREAM, controllers=THREE)
    assert len({row["controller"] for row in rows(world, "writer_marks", writer="t")}) == 1
    assert len({row["controller"] for row in rows(world, "writer_marks", writer="w")}) == 3


def in_turn(found):
    """The names without immediate repetition."""
    return [name for name, before in zip(found, [None, *found], strict=False) if name != before]


def committers(world):
    return in_turn([row["controller"] for row in rows(world, "writer_marks", writer="t")])


def leaders(world):
    return in_turn([row["controller"] for row in world.shared.rows["ownership"] if row["streams"]])


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
    case = {"writers": [frequent(), BUSY], "controllers": THREE, "script": [happens]}
    apart, world = run(stream=stream, **case), run(stream=replace(stream, committer="leader"), **case)
    assert committers(apart) != leaders(apart)
    assert committers(world) == leaders(world)
    assert txns(world)["t-18"]["state"] == "committed"
    assert_merged_once(world)
    assert_sound(world)


@pytest.mark.parametrize("point", ["before_merge", "after_merge", "after_noting"])
def test_another_controller_finishes_the_batch_when_the_session_of_the_first_has_ended(point):
    crash = script.CrashController(at_ms=5_500, controller="committer", point=point)
    calm, world = (
        run(writers=[frequent(), BUSY], stream=STREAM, controllers=THREE, script=actions) for actions in ([], [crash])
    )
    (fault,) = rows(world, "incidents", kind="crash")
    assert fault["detail"].endswith(f"crashes {point.replace('_', ' ')}")
    batch = [row for row in txns(world).values() if row["commit_requested_ms"] and row["committed_ms"]]
    late = [row for row in batch if row["committed_ms"] == fault["at_ms"] + 2_000]
    assert late
    assert not [row for row in batch if fault["at_ms"] <= row["committed_ms"] < fault["at_ms"] + 2_000]
    before, after = (
        {row["controller"] for row in rows(world, "writer_marks", writer="t") if when(row["received_ms"])}
        for when in (lambda at: at < fault["at_ms"], lambda at: at > fault["at_ms"])
    )
    assert before == {fault["target"]} != after
    noted = Counter(row["txn"] for row in rows(world, "writer_marks", writer="t"))
    assert max(noted[row["txn"]] for row in late) == (2 if point == "after_noting" else 1)
    assert len(txns(world, state="committed")) == len(txns(calm, state="committed"))
    assert late_events(world) == 0
    assert_sound(world)
    assert_merged_once(world)


def test_a_controller_without_session_stops_when_it_finds_its_batch_done():
    """Two controllers commit the same batch: the one whose session ended, and its successor."""
    actions = [
        script.PauseController(at_ms=5_500, controller="committer", point="after_merge", for_ms=6_000),
        script.Scale(at_ms=9_500, seal=["0@0"]),
    ]
    world = run(writers=[frequent(), BUSY], stream=STREAM, controllers=THREE, script=actions)
    paused = rows(world, "incidents", kind="pause")[0]
    resumed = rows(world, "incidents", kind="resume")[0]["at_ms"]
    stale = rows(world, "writer_marks", writer="t", controller=paused["target"])
    assert not [row for row in stale if row["received_ms"] >= resumed]
    done = [row["committed_ms"] for row in txns(world, state="committed").values()]
    assert done == sorted(done)
    assert late_events(world) == 0
    assert_sound(world)
    assert_merged_once(world)


def test_without_a_controller_nothing_is_committed_and_nothing_is_lost():
    crash = script.CrashController(at_ms=5_050, controller="controller-0", restart_after_ms=3_000)
    calm, world = (
        run(writers=[frequent()], stream=STREAM, controllers=Controllers(**FLEET), script=actions)
        for actions in ([], [crash])
    )
    assert not [at for row in txns(world).values() if 5_050 < (at := row["committed_ms"] or 0) < 8_050]
    before, after = times_of(calm, "t"), times_of(world, "t")
    assert [time for time in before if time < 17_000] == [time for time in after if time < 17_000]


def test_transactions_are_begun_and_committed_over_the_network():
    kept = Network(inside=Fixed(3), keep_messages=True)
    world = run(writers=[frequent()], stream=STREAM, controllers=THREE, network=kept, duration_ms=5_000)
    messages = world.shared.rows["messages"]
    sent = {(row["sender"][:10], row["kind"]) for row in messages if row["receiver"].startswith("controller")}
    assert {("t", "begin transaction"), ("t", "commit transaction")} <= sent
    inside = {row["kind"] for row in messages if row["receiver"] in ("segment-store", "metadata-store")}
    assert {"create transaction", "record commit", "next batch", "merge transaction", "write mark",
            "record committed", "append to index"} <= inside  # fmt: skip
    assert ("committed", "t") in {(row["kind"], row["receiver"]) for row in messages}


def test_a_partitioned_writer_commits_when_it_is_back():
    cut = script.Partition(at_ms=4_500, a="t", b="controllers", for_ms=3_000)
    world = run(writers=[frequent(), BUSY], stream=STREAM, controllers=THREE, script=[cut])
    requested = [row["commit_requested_ms"] for row in txns(world).values() if row["commit_requested_ms"]]
    assert not [at for at in requested if 4_510 < at < 7_500]
    assert [at for at in requested if 7_500 <= at < 7_700]
    held = [row for row in rows(world, "cycles") if row["lagging"] == ["t"]]
    assert [row for row in held if 5_000 < row["at_ms"] < 7_500]
    assert late_events(world) == 0


def test_an_abort_is_carried_through_by_another_controller_when_the_first_goes_down():
    actions = [
        script.AbortTransaction(at_ms=5_500, writer="t"),
        *(script.PauseController(at_ms=5_400, controller=f"controller-{n}", for_ms=400) for n in range(3)),
        *(script.CrashController(at_ms=5_600, controller=f"controller-{n}", restart_after_ms=1_000) for n in range(3)),
    ]
    world = run(writers=[frequent(), BUSY], stream=STREAM, controllers=THREE, script=actions)
    (aborted,) = txns(world, state="aborted").values()
    assert aborted["aborted_ms"] > 6_600


def test_what_a_dead_writer_left_is_aborted_even_if_no_controller_is_there_when_the_lease_ends():
    actions = [
        script.CrashWriter(at_ms=5_500, writer="t"),
        script.CrashController(at_ms=7_000, controller="controller-0", restart_after_ms=4_000),
    ]
    writer = frequent(lease_ms=2_000)
    world = run(writers=[writer, BUSY], stream=STREAM, controllers=Controllers(**FLEET), script=actions)
    (aborted,) = txns(world, state="aborted").values()
    assert aborted["aborted_ms"] > 11_000


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
    a, b = (world.streams[name].journal.rows for name in "ab")
    assert {row["writer"] for row in a["transactions"]} == {"ta"}
    assert {row["writer"] for row in b["transactions"]} == {"tb"}
    assert [row["kind"] for row in a["epochs"]] == ["create", "scale", "rolling", "rolling"]
    assert [row["kind"] for row in b["epochs"]] == ["create"]
    late = [row["committed_ms"] - row["commit_requested_ms"] for row in b["transactions"] if row["committed_ms"]]
    assert max(late) >= 2_500
    assert max(r["committed_ms"] - r["commit_requested_ms"] for r in a["transactions"] if r["committed_ms"]) == 1_000
    for tables in (a, b):
        lowers = [row["lower"] for row in tables["windows"] if row["lower"] is not None]
        assert max(lowers) > 15_000


def test_sealing_a_stream_aborts_what_is_open_and_commits_what_was_requested():
    world = run(writers=[frequent(commit_latency_ms=700), BUSY], stream=STREAM, script=[script.SealStream(at_ms=8_200)])
    states = Counter(row["state"] for row in txns(world).values())
    assert states == {"committed": 8, "aborted": 1}
    sealed = {row["sealed_ms"] for row in rows(world, "segments")}
    assert sealed == {max(row["committed_ms"] or 0 for row in txns(world).values()) + 5}
    assert [(row["call"], row["process"]) for row in rows(world, "errors")] == [("commit", "t"), ("begin", "t")]
    assert_merged_once(world)


def test_a_stream_created_again_has_transactions_of_its_own():
    anew = script.DeleteStream(at_ms=8_200, recreate_after_ms=1_000)
    world = run(writers=[frequent(commit_latency_ms=700), BUSY], stream=STREAM, script=[anew])
    old, new = world.past[0].journal.rows, world.streams["stream"].journal.rows
    assert Counter(row["state"] for row in old["transactions"]) == {"committed": 7, "committing": 1, "open": 1}
    assert min(row["begun_ms"] for row in new["transactions"]) > 9_200
    assert all(row["position"] is None or min(row["position"]) > 1 for row in new["transactions"])
    assert new["watermarks"]


def test_a_process_that_has_not_started_yet_cannot_be_crashed():
    twin = script.DuplicateWriter(at_ms=5_000, writer="w")
    with pytest.raises(Problems, match="starts at 5000"):
        run(writers=[BUSY], script=[script.CrashWriter(at_ms=4_000, writer="w/2"), twin])
    assert run(writers=[BUSY], script=[twin, script.CrashWriter(at_ms=6_000, writer="w/2")])


times, points = st.integers(1_500, 12_000), ["before_merge", "after_merge", "after_noting"]
disasters = st.one_of(
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
          b=["coordinator", "segment-store", "metadata-store"]),
    drawn(script.StoreUnavailable, at_ms=times, for_ms=st.integers(1, 3_000),
          store=["writer_marks", "segment_metadata", "marks_segment"]),
    drawn(script.Scale, at_ms=times, seal=st.just(["0@0"]), into=st.integers(1, 3)),
    drawn(script.SilenceWriter, at_ms=times, writer=["t", "w"], for_ms=st.integers(1, 3_000)),
    drawn(script.SlowTransaction, at_ms=times, writer="t", hold_ms=st.integers(1, 4_000)),
    drawn(script.LoseMergeReply, at_ms=times, noticed_after_ms=300),
    drawn(script.AbortTransaction, at_ms=times, writer="u", backlog="kept"),
    drawn(script.CrashCommitHandler, at_ms=times, restart_after_ms=200, point=st.sampled_from(points)),
)  # fmt: skip
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
def runs(draw):
    """Random runs in which everybody has noted before the first cycle, and nobody is lost or times out."""
    spread = draw(st.booleans())
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
        script=draw(st.lists(disasters, max_size=6, unique_by=lambda action: action.kind)),
        duration_ms=26_000,
        latency_ms=draw(st.sampled_from([0, 5, 60])),
        seed=draw(st.integers(0, 2**32)),
    )


@settings(max_examples=120)
@given(runs())
def test_whatever_happens_every_claim_holds_no_event_is_merged_twice_and_no_bucket_has_two_owners(case):
    """`tests/machine` judges the invariants of the log in many more runs, whoever is lost."""
    world = run_of(case)
    assert_sound(world)
    assert_merged_once(world)
    assert late_events(world) == 0
    first_reads_are_complete(world)
    assert [row for row in txns(world, state="committed").values() if row["committed_ms"] > 20_000]
    for bucket in range(2):
        spans = [(r["from_ms"], r["to_ms"]) for r in world.shared.rows.get("ownership", ()) if r["bucket"] == bucket]
        assert all(to is not None and to <= later for (_, to), (later, _) in pairwise(spans))
