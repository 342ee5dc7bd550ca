"""Random transactions, scales and faults: what watermarks claim holds whatever happens to the commits."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams.sim.claims import assert_sound, late_events
from tests.streams.sim.worlds import rows, scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.sim.world import World


@st.composite
def runs(draw):
    writers = [
        TransactionalWriter(
            name,
            rate_per_s=draw(st.sampled_from([0, 5, 60])),
            delay_mean_ms=draw(st.sampled_from([0, 200])),
            every_ms=draw(st.sampled_from([300, 900])),
            open_ms=draw(st.sampled_from([None, 100, 2_500])),
            commit_latency_ms=draw(st.sampled_from([0, 90, 700])),
        )
        for name in ("t", "u")
    ]
    scales = [
        script.Scale(at_ms=draw(st.integers(0, 9_000)), seal=["0@0"], into=draw(st.integers(1, 3))),
        script.SlowTransaction(at_ms=draw(st.integers(0, 9_000)), writer="t", hold_ms=draw(st.integers(1, 4_000))),
        script.LoseMergeReply(at_ms=draw(st.integers(0, 9_000)), noticed_after_ms=300),
        script.CrashCommitHandler(
            at_ms=draw(st.integers(0, 9_000)),
            point=draw(st.sampled_from(["before_merge", "after_merge", "after_noting"])),
            restart_after_ms=200,
        ),
        script.AbortTransaction(at_ms=draw(st.integers(1_000, 9_000)), writer="u", backlog="kept"),
    ]
    return scenario(
        stream=Stream(segments=draw(st.integers(1, 3)), timestamp_aggregation_timeout_ms=100_000),
        writers=[*writers, EventWriter("w", rate_per_s=40, note_every_ms=300)],
        readers=ReaderGroup(publish_every_ms=300),
        controllers=Controllers(period_ms=9_000),
        script=draw(st.lists(st.sampled_from(scales), unique=True)),
        duration_ms=30_000,
        seed=draw(st.integers(0, 2**32)),
        latency_ms=draw(st.sampled_from([0, 5, 40])),
    )


@settings(max_examples=40, deadline=None)
@given(runs())
def test_whatever_happens_to_transactions_the_claims_of_all_watermarks_hold(case):
    """Everybody has noted before the first cycle and nobody times out, so no event may come behind a cut."""
    world = World(case, {})
    world.run()
    assert_sound(world)
    assert late_events(world) == 0
    events = world.journal.events(("t", "u", "w"))
    for index, name in enumerate(("t", "u")):
        merged = sum(row["events"] for row in rows(world, "transactions", writer=name, state="committed"))
        assert (events.writer == index).sum() >= merged
