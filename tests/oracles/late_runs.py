"""Random runs of the three models in which events, rows or buffers may come late, and some in which none does."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import wmlab as wm
from tests.streams.answers.fault_runs import scenario_of
from wmlab.streams.scenario import noting

flow, plan = wm.dataflow, wm.progress


def streams(seed: int) -> wm.Scenario:
    """A run of `scenario_of`, shorter, with writers that may break promises, and a time noted far ahead."""
    draw = Random(f"late {seed}")
    base = scenario_of(seed)
    policies = [noting.EarliestOpen(), noting.EarliestOpen(), noting.WallClock(), noting.MaxMinusSlack(300)]
    writers = [replace(writer, noting=draw.choice(policies)) for writer in base.writers]
    script = list(base.script)
    if draw.random() < 0.4:
        at_ms = draw.randrange(4_000, 20_000, 500)
        script.append(
            wm.script.NoteTime(at_ms=at_ms, writer=writers[-1].name, time=at_ms + draw.choice([2_000, 60_000]))
        )
    timeout_ms = draw.choice([0, 1_000, 4_000, 15_000])
    return base.replace(
        stream=replace(base.stream, timestamp_aggregation_timeout_ms=timeout_ms),
        writers=writers,
        readers=[*base.groups, *([wm.ReaderGroup("other")] if draw.random() < 0.3 else [])],
        script=[act for act in script if act.at_ms < 22_000],
        rules=draw.choice(["sound", "design", "implementation"]),
        duration_ms=25_000,
    )


def dataflows(seed: int) -> Any:
    """One or two sources in disorder, into one or two vertices that act on watermarks, with faults and restarts."""
    draw = Random(f"late rows {seed}")
    shape = draw.choice(["line", "merge", "join", "drop", "session", "map"])
    sources, names = [], ("web", "app") if shape in ("merge", "join") else ("web",)
    for key, name in enumerate(names):
        back_ms = draw.choice([0, 300, 2_500])
        partitions = draw.choice([1, 2, 3])
        rows = [(n, max(0, 100 * n - draw.randint(0, back_ms)), draw.randrange(partitions)) for n in range(150)]
        times = [flow.EventTime("t", key=key if shape == "join" else 0, lag_ms=draw.choice([0, 200]))]
        sources.append(
            flow.Source(
                name, columns=["id", "t", "p"], rows=rows, times=times, every_ms=100,
                partitions=partitions, partition_by="p" if partitions > 1 else None,
                idle_timeout_ms=draw.choice([0, 400, 2_000]),
            )
        )  # fmt: skip
    window = flow.Window(
        "count", 2_000, slide_ms=draw.choice([None, 1_000]), column="t", aggregates={"n": "count()"},
        parallelism=draw.choice([1, 2]), by="id",
    )  # fmt: skip
    middle: list[Any] = {
        "line": [window],
        "merge": [flow.Merge("both"), window],
        "join": [flow.Join("join", "left.t - 500 <= right.t and right.t <= left.t + 500")],
        "drop": [flow.LateDrop("fresh", "t"), window],
        "session": [flow.SessionWindow("visits", 700, column="t", aggregates={"n": "count()"})],
        "map": [flow.StatefulMap("seen", "t", aggregates={"n": "count()"}, ttl_ms=1_000)],
    }[shape]
    path = " -> ".join([*(vertex.name for vertex in middle), "out"])
    faults: list[Any] = []
    for _ in range(draw.choice([0, 1, 2])):
        source = draw.choice(sources)
        at_ms, for_ms = draw.randrange(2_000, 8_000, 500), draw.choice([1_500, 4_000])
        partition = draw.randrange(source.partitions)
        faults.append(
            draw.choice(
                [
                    flow.SilentPartition(source.name, partition, at_ms=at_ms, for_ms=for_ms),
                    flow.LatePartition(source.name, partition, at_ms=at_ms, for_ms=for_ms, by_ms=3_000),
                    flow.Stall(middle[-1].name, at_ms=at_ms, for_ms=for_ms),
                ]
            )
        )
    snapshots = draw.choice([None, 2_000])
    if draw.random() < 0.3:
        faults.append(flow.Restart(draw.randrange(4_000, 12_000, 500)))
    return flow.Dataflow(
        f"{shape} {seed}",
        vertices=[*sources, *middle, flow.Sink("out")],
        edges=[f"{source.name} -> {path}" for source in sources],
        faults=faults,
        guarantee="none" if snapshots is None else draw.choice(["exactly_once", "at_least_once"]),
        snapshot_every_ms=snapshots,
        rules=draw.choice(["sound", "implementation", "design"]),
        duration_ms=17_000,
        queue_size=draw.choice([1_024, 4]),
        seed=seed,
    )


def plans(seed: int) -> Any:
    """Two sources in some disorder into windows, some into further windows, with buffers that are hit by faults."""
    draw = Random(f"late buffers {seed}")
    sources = [
        plan.Source(
            name, rate_per_s=draw.choice([40, 150]), disorder_ms=draw.choice([0, 0, 400, 2_000]),
            buffer_records=draw.choice([5, 20]), stamp=draw.choice(["event_time", "event_time", "ingestion_time"]),
            delay_mean_ms=draw.choice([0.0, 500.0]),
            operators=draw.choice([[], [plan.Projection(2.0), plan.Emit()]]),
        )
        for name in ("a", "b")
    ]  # fmt: skip
    size = {"size_ms": draw.choice([500, 1_000]), "slide_ms": draw.choice([None, 200, 250])}
    size["slide_ms"] = None if size["slide_ms"] == 200 and size["size_ms"] == 500 else size["slide_ms"]
    windows: list[Any] = [draw.choice([plan.Join, plan.Aggregate])(**size)]
    if draw.random() < 0.4:
        windows.append(plan.Aggregate(1_000))
    script = [
        draw.choice(
            [
                plan.LoseBuffer(draw.choice("ab"), draw.randint(1, 40)),
                plan.DelayBuffer(draw.choice("ab"), draw.randint(1, 40), by_ms=draw.choice([300, 2_000])),
                plan.DuplicateBuffer(draw.choice("ab"), draw.randint(1, 40), after_ms=draw.choice([0, 1_500])),
                plan.StallWorker(1, at_ms=draw.randrange(0, 4_000, 500), for_ms=1_000),
                plan.SilenceSource(draw.choice("ab"), at_ms=4_000),
            ]
        )
        for _ in range(draw.choice([0, 1, 3]))
    ]
    return plan.PlanScenario(
        f"plan {seed}",
        queries=[plan.Query("q", sources=sources, operators=windows)],
        workers=plan.Workers(draw.choice([1, 4]), service_mean_ms=20),
        script=script,
        duration_ms=6_000,
        rules=plan.Rules(
            draw.choice(["sound", "sound", "implementation", "diagram"]), local=draw.choice([None, "literal"])
        ),
        seed=seed,
    )
