"""Calls as users write them, which mypy checks: what it must refuse has an ignored error, and an unused one fails."""

from __future__ import annotations

import wmlab as wm

SCENARIO = wm.Scenario(
    "typed",
    stream=wm.Stream("orders", segments=2, timestamp_aggregation_timeout_ms="1 min"),
    writers=(wm.EventWriter("w", rate_per_s=5, delay_mean_ms="200ms"),),
    script=(wm.script.CrashWriter(at_ms="5 s", writer="w", restart_after_ms=10),),
    duration_ms="60 s",
    start_ms="2013-07-15",
)
WINDOW = wm.dataflow.Window("window", size_ms="5 s", column="t", aggregates={"n": "count()"})
SOURCE = wm.progress.Source("source", rate_per_s=5, lag_ms="1 s")
BOUND = wm.strategy.BoundedOutOfOrderness("35 d")


def mistakes() -> None:
    """What a type checker finds before it is run."""
    wm.EventWriter("w", rate=5)  # type: ignore[call-arg]
    wm.Stream(segments="two")  # type: ignore[arg-type]
    run = SCENARIO.record()
    run.explan()  # type: ignore[attr-defined]
    run.panel()  # type: ignore[attr-defined]
    SCENARIO.scrub()  # type: ignore[attr-defined]
    SCENARIO.stream.segment  # type: ignore[attr-defined]  # noqa: B018
    wm.chart.time_bound  # type: ignore[attr-defined]  # noqa: B018
    wm.dataflow.Sorce  # type: ignore[attr-defined]  # noqa: B018
    wm.strategy.Flinc  # type: ignore[attr-defined]  # noqa: B018
    wm.trace.load("dengue").row  # type: ignore[attr-defined]  # noqa: B018
