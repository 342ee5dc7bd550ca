"""Clocks: skew, drift and steps, of writers and of controllers."""

from itertools import pairwise

import numpy as np
import pytest

from tests.streams.sim.worlds import rows, run, scenario
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, Stream
from wmlab.streams.sim.load import LocalClock

STEPS = [script.StepClock(at_ms=400, party="w1", by_ms=-50), script.StepClock(at_ms=200, party="w1", by_ms=1_000)]


def test_a_clock_shows_time_plus_skew_drift_and_steps():
    case = scenario(start_ms=10_000, script=[*STEPS, script.StepClock(at_ms=1, party="w2", by_ms=7)])
    clock = LocalClock.of(case, "w1", Clock(skew_ms=5, drift_ppm=10_000))
    expected = {10_000: 10_005, 10_199: 10_205, 10_200: 11_207, 10_399: 11_407, 10_400: 11_359, 11_000: 11_965}
    assert {now: clock.read(now) for now in expected} == expected
    assert clock.read_all(np.array(list(expected), np.int64)).tolist() == list(expected.values())


@pytest.mark.parametrize("ppm", [-300, 0, 1_000_000])
def test_many_times_are_read_like_one(ppm):
    clock = LocalClock.of(scenario(script=STEPS), "w1", Clock(skew_ms=-3, drift_ppm=ppm))
    times = np.arange(0, 5_000, 7, dtype=np.int64)
    assert clock.read_all(times).tolist() == [clock.read(int(now)) for now in times]


def test_w20_the_slowest_clock_gives_the_lower_bound():
    """Row W20: in automatic mode lower is the slowest clock's; the slack is its lag plus the noting period."""
    writers = [
        EventWriter("fast", rate_per_s=100, noting=noting.WallClock(), clock=Clock(skew_ms=800)),
        EventWriter("slow", rate_per_s=100, noting=noting.WallClock(), clock=Clock(skew_ms=-700)),
    ]
    for watermark in rows(run(writers=writers), "watermarks"):
        assert watermark["lower"] == watermark["writers"]["slow"]
        assert watermark["upper"] - watermark["lower"] == 1_500
        assert 700 <= watermark["emitted_ms"] - watermark["lower"] <= 700 + 1_000 + 500


def test_a_drifting_writer_falls_behind():
    slow = EventWriter("w", rate_per_s=10, noting=noting.WallClock(), clock=Clock(drift_ppm=-100_000))
    marks = rows(run(writers=[slow]), "writer_marks")
    assert [row["time"] for row in marks[:3]] == [900, 1_800, 2_700]


def test_a_writer_whose_clock_is_set_back_is_refused_until_it_has_caught_up():
    writer = EventWriter("w", rate_per_s=10, noting=noting.WallClock())
    world = run(writers=[writer], script=[script.StepClock(at_ms=5_500, party="w", by_ms=-3_000)])
    refused = [row["noted_ms"] for row in rows(world, "writer_marks", outcome="invalid time")]
    assert refused == [6_000, 7_000]
    assert rows(world, "incidents")[0]["detail"] == "clock of w set back by 3000 ms"


@pytest.mark.parametrize(("by_ms", "waited_ms"), [(0, 5_000), (2_500, 2_500), (-6_000, 11_000)])
def test_c7_a_controllers_clock_measures_the_timeout(by_ms, waited_ms):
    """Row C7: a wall clock set forward times a writer out early, one set back late."""
    world = run(
        stream=Stream(timestamp_aggregation_timeout_ms=5_000),
        controllers=Controllers(period_ms=500, clocks=[Clock(skew_ms=123)]),
        script=[
            script.CrashWriter(at_ms=4_000, writer="w2"),
            script.StepClock(at_ms=5_800, party="controller-0", by_ms=by_ms),
        ],
    )
    waits = [row["at_ms"] for row in rows(world, "cycles") if row["lagging"] == ["w2"] and row["at_ms"] > 4_000]
    removal = next(row["at_ms"] for row in rows(world, "cycles") if row["removed"] == ["w2"])
    assert waits[0] < 5_800
    assert removal - waits[0] == waited_ms


def test_c7_periods_jitter_within_their_limit():
    world = run(controllers=Controllers(period_ms=500, period_jitter_ms=300))
    at = [row["at_ms"] for row in rows(world, "cycles")]
    gaps = {later - earlier for earlier, later in pairwise(at)}
    assert len(gaps) > 10
    assert min(gaps) >= 500
    assert max(gaps) <= 800
