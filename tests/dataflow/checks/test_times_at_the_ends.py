"""Times next to -2^63 and 2^63 are judged too; where a window reaches beyond 64 bits, the job fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.repetitions import repetitions
from wmlab import dataflow as flow

END = 2**63
COUNTED: dict[str, Any] = {"column": "t", "aggregates": {"n": "count()"}}
# The outermost times whose windows, of 1 s on a grid of half seconds, and sessions fit into 64 bits.
LOWEST = [-END + 808, -END + 1_000, -END + 3_000, -END + 6_000]
HIGHEST = [END - 3_000, END - 2_000, END - 1_500, END - 1_001]


def source(name: str, times: list[int], key: int = 0, **fields: Any) -> flow.Source:
    time = flow.EventTime("t", key=key, lag_ms=5)
    return flow.Source(name, columns=["t"], rows=[[t] for t in times], times=[time], **fields)


@pytest.mark.parametrize("times", repetitions([[*LOWEST, *HIGHEST]], long=[LOWEST, HIGHEST, [*LOWEST, *HIGHEST]]))
def test_windows_sessions_and_joins_at_the_ends_are_judged(times: list[int]) -> None:
    steps = [
        flow.Window("tumbling", 1_000, **COUNTED),
        flow.Window("sliding", 1_000, slide_ms=500, **COUNTED),
        flow.SessionWindow("sessions", 1_000, **COUNTED),
        flow.Join("join", "left.t - 900 <= right.t and right.t <= left.t + 900", outer="left"),
    ]
    edges = [f"s -> {vertex.name} -> {vertex.name}-out" for vertex in steps]
    sinks = [flow.Sink(f"{vertex.name}-out") for vertex in steps]
    sources = [source("s", times), source("u", times[:2], key=1)]
    dataflow = flow.Dataflow(
        "ends", vertices=[*sources, *steps, *sinks], edges=[*edges, "u -> join"], duration_ms=3_000, jitter_ms=0.0
    )
    verdicts = {verdict.invariant: verdict for verdict in dataflow.record().check("K10", "K11")}
    assert {name: verdict.verdict for name, verdict in verdicts.items()} == {"K10": "ok", "K11": "ok"}


@pytest.mark.parametrize(
    ("step", "time"),
    [
        (flow.Window("w", 5_000, **COUNTED), END - 300),
        (flow.Window("w", 5_000, slide_ms=1_000, **COUNTED), END - 300),
        (flow.SessionWindow("w", 5_000, **COUNTED), END - 300),
        (flow.Window("w", 5_000, **COUNTED), -END + 100),
        (flow.Window("w", 5_000, slide_ms=1_000, **COUNTED), -END + 100),
    ],
)
def test_a_window_beyond_64_bits_fails_the_job_with_the_row_and_its_time(step: Any, time: int) -> None:
    dataflow = flow.Dataflow(
        "beyond", vertices=[source("s", [time]), step, flow.Sink("k")], edges=["s -> w -> k"], duration_ms=500
    )
    run = dataflow.record()
    (execution,) = run.to_pandas("executions").to_dict("records")
    assert execution["outcome"] == "failed"
    assert execution["reason"].startswith(f"w: The row ({time},) at the time {time} belongs to the window [")
    with pytest.warns(UserWarning, match="The job failed"):
        assert len(run.results()) == 0


def test_a_row_that_is_late_by_more_than_a_number_holds_is_dropped_with_the_highest() -> None:
    run = flow.Dataflow(
        "late", vertices=[source("s", [END - 10_000, -END + 10]), flow.SessionWindow("w", 1_000, **COUNTED),
        flow.Sink("k")], edges=["s -> w -> k"], duration_ms=500,
    ).record()  # fmt: skip
    (drop,) = run.to_pandas("drops").to_dict("records")
    assert (drop["time"], drop["margin"]) == (-END + 10, END - 1)
