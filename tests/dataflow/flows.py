"""The dataflows of answers and charts: two sources merged, two joined, and one source in a line of vertices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wmlab import dataflow as flow

ROWS = [(n, 10 * n) for n in range(40)]
WINDOW = flow.Window("w", 40, column="t", aggregates={"n": "count()"})


def source(name: str, rows: Any = ROWS, **fields: Any) -> flow.Source:
    """A source of rows (id, t), one every 10 ms."""
    return flow.Source(name, **({"columns": ["id", "t"], "rows": rows, "times": "t"} | fields))


def merged(*vertices: Any, **fields: Any) -> flow.Dataflow:
    """Two sources into a window over a merge; partition 1 of `a` sends nothing from 80 ms on.

    Of `vertices`, each stands for the one of its name; with some of them no partition is silent.
    """
    usual = [
        source("a", partitions=2, idle_timeout_ms=300),
        source("b", ROWS[:15], idle_timeout_ms=500),
        flow.Merge("both"),
        replace(WINDOW, name="count"),
        flow.Sink("out"),
    ]
    named = {vertex.name: vertex for vertex in (*usual, *vertices)}
    given: dict[str, Any] = {
        "vertices": list(named.values()),
        "edges": ["a -> both -> count -> out", "b -> both"],
        "faults": [] if vertices else [flow.SilentPartition("a", partition=1, at_ms=80)],
        "duration_ms": 1_500,
        "jitter_ms": 0.0,
    }
    return flow.Dataflow("two sources", **(given | fields))


def joined(deliveries: int = 50, *, duration_ms: int = 900, **fields: Any) -> flow.Dataflow:
    """Orders and, for each second one, a delivery 5 ms later; `deliveries` of them come."""
    rows = [(n, 10 * n + 5) for n in range(0, 100, 2)][:deliveries]
    condition = "left.id == right.id and left.t <= right.t and right.t <= left.t + 20"
    return flow.Dataflow(
        "orders and deliveries",
        vertices=[
            source("orders", [(n, 10 * n) for n in range(100)], times=[flow.EventTime("t", key=0, lag_ms=10)]),
            source("deliveries", rows, every_ms=20, times=[flow.EventTime("t", key=1)], idle_timeout_ms=300),
            flow.Join("join", condition, outer="left", **fields),
            flow.Sink("out"),
        ],
        edges=["orders -> join -> out", "deliveries -> join"],
        duration_ms=duration_ms,
        jitter_ms=0.0,
    )


def line(rows: Any, *vertices: Any, **fields: Any) -> flow.Dataflow:
    """One source into the given vertices, one after the other."""
    first = source("s", rows) if not isinstance(rows, flow.Source) else rows
    names = " -> ".join([first.name, *(vertex.name for vertex in vertices), "out"])
    given: dict[str, Any] = {"edges": [names], "duration_ms": 2_000, "jitter_ms": 0.0}
    return flow.Dataflow("line", vertices=[first, *vertices, flow.Sink("out")], **(given | fields))
