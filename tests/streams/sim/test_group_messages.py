"""The shared state of a reader group is at the other end of the network."""

from tests.streams.sim.test_readers import first_reads_are_complete, late_first_reads
from tests.streams.sim.worlds import only, rows, run
from wmlab.core.delays import Fixed, Uniform
from wmlab.streams.scenario import script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import ReaderGroup, Stream, TransactionalWriter

FOUR = Stream(segments=4, timestamp_aggregation_timeout_ms=5_000)


def group(**fields):
    return ReaderGroup(**({"readers": 3, "publish_every_ms": 500} | fields))


def test_updates_are_messages_to_the_segment_store_and_back():
    world = run(stream=FOUR, readers=group(), network=Network(keep_messages=True), duration_ms=6_000)
    sent = [row for row in world.shared.rows["messages"] if row["sender"] == "readers-1"]
    assert {row["receiver"] for row in sent} == {"segment-store"}
    assert {"fetch state", "acquire", "publish"} <= {row["kind"] for row in sent}
    assert all(row["received_ms"] == row["sent_ms"] for row in sent)
    answers = {row["kind"] for row in world.shared.rows["messages"] if row["receiver"] == "readers-1"}
    assert {"state", "publish: applied"} <= answers


def test_keeping_them_changes_nothing_else():
    calm, kept = (run(stream=FOUR, readers=group(), network=Network(keep_messages=k)) for k in (False, True))
    for table in ("positions", "windows", "reads", "group_updates"):
        assert rows(calm, table) == rows(kept, table)


def test_they_take_what_the_network_takes():
    network = Network(delay=Uniform(1, 60), keep_messages=True)
    world = run(stream=FOUR, readers=group(state_latency_ms=None), network=network)
    took = {r["received_ms"] - r["sent_ms"] for r in world.shared.rows["messages"] if r["kind"] == "publish"}
    assert len(took) > 20
    assert {row["outcome"] for row in rows(world, "group_updates")} == {"applied", "conflict"}
    first_reads_are_complete(world)
    assert late_first_reads(world) == 0


def test_an_update_under_way_when_a_partition_begins_arrives_when_it_ends():
    cut = script.Partition(at_ms=6_050, a="readers-1", b="segment-store", for_ms=4_000)
    world = run(stream=FOUR, readers=group(state_latency_ms=100), script=[cut])
    mine = [row["at_ms"] for row in rows(world, "group_updates", reader="readers-1")]
    # The state asked for at 6,000 ms is sent back at 6,100 ms, waits, and arrives at 10,150 ms.
    assert min(at for at in mine if at > 6_050) == 10_250
    first_reads_are_complete(world)
    assert late_first_reads(world) == 0


def test_readers_of_a_stream_with_transactions_get_every_event_once():
    actions = [
        script.Scale(at_ms=2_500, seal=["0@0"]),
        script.CrashReader(at_ms=6_100, reader="readers-0", restart_after_ms=900),
        script.Checkpoint(at_ms=5_000, name="c"),
        script.CrashController(at_ms=8_000, controller="committer", point="after_merge", restart_after_ms=300),
    ]
    world = run(
        stream=FOUR,
        writers=[TransactionalWriter("t", rate_per_s=80, every_ms=900)],
        readers=group(state_latency_ms=7),
        network=Network(inside=Fixed(2)),
        script=actions,
        duration_ms=30_000,
    )
    assert [row["kind"] for row in rows(world, "epochs")][:4] == ["create", "scale", "rolling", "rolling"]
    ends = first_reads_are_complete(world)
    finished = {row["segment_id"] for row in rows(world, "segments") if row["sealed_ms"] is not None}
    written = {
        row["segment_id"] for row in rows(world, "segments") if world.stream(None).store[row["segment_id"]].events
    }
    assert set(ends) == written
    assert all(ends[s] == world.stream(None).store[s].length for s in finished & written)
    assert sorted(only(world).shared.value.readers) == ["readers-0", "readers-1", "readers-2"]
