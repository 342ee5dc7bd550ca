"""A cycle that was due and has not run: `explain`, the stragglers and the charts name the controller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.streams.answers.runs import crash
from wmlab.core.answers import Stragglers
from wmlab.core.charts.chart import Chart
from wmlab.core.recording import Recording
from wmlab.streams.answers.stream_bound import BoundExplanation
from wmlab.streams.charts import lag, watermark_cycles, writer_marks
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter


def run(writers: int, *, jitter_ms: int = 0, controller: str = "leader", count: int = 2) -> Recording:
    """The leader crashes at 10 s and is back at 20 s, when its session times out."""
    return crash(
        writers=[EventWriter(f"w{n}", rate_per_s=50, delay_mean_ms=200) for n in range(1, writers + 1)],
        controllers=Controllers(count, period_ms=1_000, period_jitter_ms=jitter_ms, session_timeout_ms=10_000),
        script=[script.CrashController(at_ms=10_000, controller=controller, restart_after_ms=10_000)],
        duration_ms=30_000,
    )


@pytest.fixture(scope="module", params=[1, 3])
def stalled(request: pytest.FixtureRequest) -> Recording:
    return run(request.param)


def at(recording: Recording, at_ms: int) -> BoundExplanation:
    found = recording.explain(at_ms=at_ms)
    assert isinstance(found, BoundExplanation)
    return found


@pytest.mark.parametrize("at_ms", [10_005, 10_500, 19_000])
def test_a_crashed_leader_is_the_cause(stalled: Recording, at_ms: int) -> None:
    found = at(stalled, at_ms)
    assert (found.cause, found.since_ms, found.writers, found.release_ms) == ("no cycle", 10_005, (), None)
    assert found.sentence.endswith(
        "since 10 005 ms because no cycle has run since 9 005 ms: controller-1, owner of the bucket, crashed at "
        "10 000 ms"
    )


def test_the_only_controller_pauses_before_1970() -> None:
    script_ = [script.PauseController(at_ms=10_000, for_ms=8_000)]
    recording = crash(start_ms=-100_000, controllers=Controllers(period_ms=1_000), script=script_, duration_ms=30_000)
    assert at(recording, -85_000).sentence.endswith("controller-0, owner of the bucket, paused at -90 000 ms")


def test_the_new_owner_and_its_first_cycle_are_told(stalled: Recording) -> None:
    first = next(row["at_ms"] for row in stalled.table("cycles").to_pylist() if row["at_ms"] > 10_000)
    found = at(stalled, 20_500)
    assert found.release_ms == first
    assert found.sentence.endswith("owner of the bucket, restarted at 20 000 ms; the next one is due at 21 000 ms")


def test_no_cycle_is_predicted_of_a_leader_that_is_down(stalled: Recording) -> None:
    found = at(stalled, 10_002)
    assert found.release_ms is None
    assert "10 005" not in found.sentence


def test_the_stall_is_charged_to_the_controller(stalled: Recording) -> None:
    found = stalled.explain()
    assert isinstance(found, Stragglers)
    first = next(iter(found))
    assert (first.who, first.why, first.stretches, first.held_ms) == ("controller-1", "no cycle", 1, 10_995)
    assert found.sentence.startswith(
        "Over 30 000 ms the lower bound of orders was held back most by controller-1 (no cycle): for 10 995 ms"
    )


def test_the_price_grows_with_the_marks_that_nobody_reads(stalled: Recording) -> None:
    prices = [at(stalled, at_ms).by_ms or 0 for at_ms in (11_100, 15_100, 19_100)]
    assert prices[0] < prices[1] < prices[2]


@pytest.mark.parametrize("chart", [writer_marks, watermark_cycles, lag])
def test_the_charts_say_so_too(stalled: Recording, chart: Callable[[Recording], Chart]) -> None:
    assert chart(stalled).sentence.endswith(
        "; for 11.0 s from 10.0 s no cycle ran: controller-1, owner of the bucket, crashed at 10.0 s."
    )


def test_a_controller_without_the_bucket_is_no_cause() -> None:
    recording = run(1, controller="controller-0")
    assert at(recording, 15_000).cause != "no cycle"
    assert "no cycle ran" not in writer_marks(recording).sentence


def test_a_cycle_that_jitter_delays_is_not_missing() -> None:
    recording = run(1, jitter_ms=400, controller="controller-0", count=3)
    assert len(recording.table("cycles")) > 15
    assert {at(recording, at_ms).cause for at_ms in range(5_000, 30_000, 173)} <= {"slowest", "lagging", "failed"}


def test_a_bucket_without_an_owner_is_told() -> None:
    recording = crash(script=[script.LoseBucketOwner(at_ms=10_000, for_ms=10_000)], duration_ms=30_000)
    assert at(recording, 15_000).sentence.endswith(
        "no cycle has run since 9 005 ms: nobody owns the bucket since 10 000 ms"
    )
