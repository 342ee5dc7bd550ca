"""A group that shares times and reads two streams has a minimum for each: PDP-33, "Client Changes"."""

from tests.streams.sim.worlds import run
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules

FAR_MS = 10_000_000
"""How far the times of the second stream are ahead of those of the first."""


def test_the_window_is_the_minimum_of_the_map_for_each_stream_and_never_that_of_another():
    world = run(
        stream=Stream(),
        streams=[Stream("near", segments=4), Stream("far", segments=4)],
        writers=[
            EventWriter("a", rate_per_s=100, keys="0..1/2", stream="near"),
            EventWriter("b", rate_per_s=100, keys="0..1/2", stream="far", event_time=f"clock + {FAR_MS}"),
        ],
        readers=ReaderGroup(readers=3, rate_per_s=60.0, streams=["near", "far"]),
        rules=Rules(read_side="document"),
    )
    for name, ahead_ms in (("near", 0), ("far", FAR_MS)):
        updates = [row for row in world.rows("group_updates", of=name) if row["lowers"]]
        assert any(len(row["lowers"]) == 2 and len(set(row["lowers"].values())) == 2 for row in updates)
        for row in updates:
            times = row["lowers"].values()
            assert row["lower"] == (None if None in times else min(times))
        known = [lower for lower in world.column("windows", "lower", of=name) if lower is not None]
        assert len(known) > 10
        assert all(ahead_ms <= lower < ahead_ms + 20_000 for lower in known)
        assert set(known) <= {row["lower"] for row in updates}
