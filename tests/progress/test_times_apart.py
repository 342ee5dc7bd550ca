"""Joins of query plans whose sides have event times that do not overlap, and what explain says."""

from __future__ import annotations

import pytest

from wmlab import progress as plans


def joined(shift_ms: int, *, size_ms: int = 1_000, slide_ms: int | None = None) -> plans.PlanScenario:
    """Two sources that send at the same time, one with times that are so much later."""
    rows = [(time, time) for time in range(0, 5_000, 250)]
    later = [(arrival, time + shift_ms) for arrival, time in rows]
    sources = [
        plans.Source(name, columns=("arrival", "time"), arrival="arrival", event_time="time", rows=listed)
        for name, listed in (("orders", rows), ("deliveries", later))
    ]
    join = plans.Join(size_ms=size_ms, slide_ms=slide_ms)
    return plans.PlanScenario("two epochs", queries=[plans.Query("q", sources=sources, window=join)], duration_ms=6_000)


@pytest.mark.parametrize("shift_ms", [1_000_000, 5_000])
def test_a_join_of_times_that_do_not_overlap_is_explained_so(shift_ms: int) -> None:
    run = joined(shift_ms).record()
    said = "The event times of the sides of the join of q do not overlap in this run: orders from 0 ms to 4.999 s"
    (note,) = run.explain().notes
    assert note.startswith(said)
    assert sum(row["results"] for row in run.table("windows_fired").to_pylist()) == 0


@pytest.mark.parametrize(
    "plan", [joined(0), joined(4_000), joined(5_000, size_ms=2_000, slide_ms=1_000)], ids=["same", "both", "one window"]
)
def test_a_join_whose_records_may_meet_is_not(plan: plans.PlanScenario) -> None:
    run = plan.record()
    assert not [note for note in run.explain().notes if "do not overlap" in note]
