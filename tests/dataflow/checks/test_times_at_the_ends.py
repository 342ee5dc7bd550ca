"""Times next to -2^63 and 2^63, where windows and the bounds of joins reach beyond 64 bits, are judged too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.repetitions import repetitions
from wmlab import dataflow as flow

END = 2**63
COUNTED: dict[str, Any] = {"column": "t", "aggregates": {"n": "count()"}}
LOWEST = [-END, -END + 5, -END + 3_000, -END + 6_000]
HIGHEST = [END - 3_000, END - 2_000, END - 10, END - 1]


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
