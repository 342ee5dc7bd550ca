"""Notes on their way to the store: rows W17 to W19 and W21 of the failures."""

import pytest

from tests.streams.sim.worlds import rows, run
from wmlab.core.delays import Fixed, Uniform
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream

WALL = EventWriter("w", rate_per_s=50, noting=noting.WallClock())


def outcomes(world, **where):
    return [row["outcome"] for row in rows(world, "writer_marks", **where)]


def test_w17_of_two_processes_with_one_id_the_one_behind_is_refused():
    """Row W17: partitioned, replaced, and back: its old notes are refused, and every mark is of one process whole."""
    world = run(
        writers=[WALL],
        script=[
            script.Partition(at_ms=5_500, a="w", b="controllers", for_ms=6_000, calls="held"),
            script.DuplicateWriter(at_ms=7_250, writer="w"),
        ],
    )
    stale = [row for row in rows(world, "writer_marks") if row["noted_ms"] <= 11_000 and row["received_ms"] > 11_000]
    assert len(stale) == 6
    assert {row["outcome"] for row in stale} == {"invalid time"}
    accepted = rows(world, "writer_marks", outcome="success")
    assert [row["time"] for row in accepted] == sorted(row["time"] for row in accepted)
    for watermark in rows(world, "watermarks"):
        latest = [row for row in accepted if row["received_ms"] <= watermark["emitted_ms"]][-1]
        assert watermark["writers"] == {"w": latest["time"]}
        assert watermark["cut"] == {s: offset or 0 for s, offset in latest["position"].items()}
    assert rows(world, "watermarks")[-1]["lower"] > 18_000


def test_w17_a_process_whose_position_is_behind_is_refused_too():
    ahead = EventWriter("w", rate_per_s=5, noting=noting.WallClock(), note_every_ms=1_000)
    world = run(
        writers=[ahead],
        stream=Stream(),
        script=[
            script.Partition(at_ms=4_000, a="w", b="segment-store", for_ms=9_000),
            script.DuplicateWriter(at_ms=5_500, writer="w"),
        ],
    )
    assert "invalid position" in outcomes(world)
    accepted = [row["position"][0] or 0 for row in rows(world, "writer_marks", outcome="success")]
    assert accepted == sorted(accepted)


def test_w18_notes_over_two_controllers_may_overtake_each_other():
    """Row W18: a lost note is as if never called, a doubled one succeeds again, an older one is refused."""
    writer = EventWriter("w", rate_per_s=50, noting=noting.WallClock(), note_every_ms=50)
    controllers = Controllers(2, period_ms=500)
    calm = run(writers=[writer], controllers=controllers)
    assert set(outcomes(calm)) == {"success"}
    racing = run(writers=[writer], controllers=controllers, network=Network(delay=Uniform(1, 400)))
    refused = rows(racing, "writer_marks", outcome="invalid time")
    assert len(refused) > 20
    judged = [row["time"] for row in rows(racing, "writer_marks", outcome="success")]
    assert judged == sorted(judged)


def test_w18_equal_times_out_of_order_are_refused_by_position():
    writer = EventWriter("w", rate_per_s=500, noting=noting.MaxMinusSlack(10**9), note_every_ms=20)
    slow = Network(delay=Uniform(1, 300))
    world = run(writers=[writer], controllers=Controllers(2, period_ms=500), network=slow, stream=Stream())
    assert "invalid time" in outcomes(world) or "invalid position" in outcomes(world)


@pytest.mark.parametrize(("inside_ms", "conflicts"), [(0, False), (40, True)])
def test_w19_a_conflict_of_compare_and_set_is_repeated_by_the_client(inside_ms, conflicts):
    """Row W19: the caller gets an error, and its client tries again."""
    world = run(
        writers=[WALL],
        controllers=Controllers(2, period_ms=500),
        network=Network(inside=Fixed(inside_ms)),
        script=[script.DuplicateWriter(at_ms=5_000, writer="w")],
    )
    assert ("write conflict" in outcomes(world)) is conflicts
    for conflict in rows(world, "writer_marks", outcome="write conflict"):
        again = [row for row in rows(world, "writer_marks", noted_ms=conflict["noted_ms"]) if row is not conflict]
        assert [row for row in again if row["received_ms"] > conflict["received_ms"]]
    noted = {row["noted_ms"] for row in rows(world, "writer_marks", outcome="success")}
    assert set(range(1_000, 19_000, 1_000)) <= noted


def test_w21_all_that_join_before_the_first_watermark_count_at_the_first_cycle():
    writers = [
        EventWriter(f"w{i}", rate_per_s=5, noting=noting.WallClock(), clock=Clock(skew_ms=-900 * i)) for i in range(9)
    ]
    world = run(writers=writers, controllers=Controllers(period_ms=2_000))
    first = rows(world, "watermarks")[0]
    assert set(first["writers"]) == {writer.name for writer in writers}
    assert first["lower"] == first["writers"]["w8"] < 0


def test_w21_old_times_that_join_later_hold_the_stream_until_they_time_out():
    old = [
        EventWriter(f"old{i}", rate_per_s=5, noting=noting.WallClock(), clock=Clock(skew_ms=-60_000), starts_ms=6_000)
        for i in range(3)
    ]
    world = run(writers=[WALL, *old], readers=ReaderGroup())
    held = [row for row in rows(world, "cycles") if row["reason"].startswith("waits for old0")]
    assert held[0]["lagging"] == ["old0", "old1", "old2"]
    removal = next(row for row in rows(world, "cycles") if row["removed"])
    assert removal["removed"] == ["old0", "old1", "old2"]
    assert removal["at_ms"] - held[0]["at_ms"] == 5_000
    assert not [r for r in rows(world, "watermarks") if held[0]["at_ms"] <= r["emitted_ms"] < removal["at_ms"]]
    again = [row for row in held if row["at_ms"] > removal["at_ms"]]
    assert again, "they note again, and hold the stream again"
