"""Random dataflows: one or two sources of up to three partitions into a merge and a window, with faults."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from wmlab import dataflow as flow


def random_dataflow(seed: int) -> flow.Dataflow:
    """A dataflow of twelve seconds."""
    rng = Random(seed)
    sources = [_source(name, rng) for name in ("a", "b")[: rng.choice((1, 2, 2))]]
    window = flow.Window(
        "count", rng.choice((500, 1_000, 2_500)), column="t", by=("user",), aggregates={"n": "count()"}
    )
    faults: list[flow.SilentPartition | flow.LatePartition] = []
    for source in sources:
        at_ms, for_ms, partition = (
            rng.randrange(1_000, 6_000),
            rng.randrange(500, 5_000),
            rng.randrange(source.partitions),
        )
        faults += rng.sample(
            [
                flow.SilentPartition(source.name, partition, at_ms=at_ms, for_ms=for_ms),
                flow.LatePartition(source.name, partition, at_ms=at_ms, for_ms=for_ms, by_ms=rng.randrange(500, 4_000)),
            ],
            rng.choice((0, 1, 1)),
        )
    edges: Any = [f"{sources[0].name} -> both -> count -> out", *(f"{source.name} -> both" for source in sources[1:])]
    return flow.Dataflow(
        f"random {seed}",
        vertices=(*sources, flow.Merge("both"), window, flow.Sink("out")),
        edges=edges,
        duration_ms=12_000,
        faults=tuple(faults),
        seed=seed,
    )


def with_instances(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same, with one or two instances of each vertex, of a source no more than it has partitions."""
    rng = Random(seed)
    vertices = [
        replace(vertex, parallelism=rng.choice((1, 2)) if getattr(vertex, "partitions", 2) > 1 else 1)
        for vertex in dataflow.vertices
    ]
    return dataflow.replace(vertices=vertices)


def with_join(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same with two sources of other keys, that are joined instead of merged."""
    rng = Random(seed)
    left, *others = (vertex for vertex in dataflow.vertices if isinstance(vertex, flow.Source))
    right = replace(others[0] if others else _source("b", rng), name="b")
    right = replace(right, times=(replace(right.times[0], key=1),))
    window = next(vertex for vertex in dataflow.vertices if isinstance(vertex, flow.Window))
    below, above = rng.choice((0, 400, 1_500)), rng.choice((0, 700, 2_000))
    condition = f"left.user == right.user and left.t - {below} <= right.t and right.t <= left.t + {above}"
    vertices = (left, right, flow.Join("both", condition), window, flow.Sink("out"))
    edges: Any = ["a -> both -> count -> out", "b -> both"]
    return dataflow.replace(vertices=vertices, edges=edges, rules=flow.Rules(emit="state"))


def with_restart(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same, and the job restarts from a snapshot."""
    rng = Random(seed)
    restart = flow.Restart(at_ms=rng.randrange(2_000, 9_000))
    snapshots: Any = {
        "guarantee": rng.choice(("at_least_once", "exactly_once")),
        "snapshot_every_ms": rng.choice((500, 2_000)),
    }
    return dataflow.replace(faults=(*dataflow.faults, restart), **snapshots)


def with_coarse_times(dataflow: flow.Dataflow) -> flow.Dataflow:
    """The same with times of half seconds, at which windows begin, and rows that arrive at the same moments."""
    vertices = [
        replace(vertex, rows=tuple((t // 500 * 500, at // 100 * 100, *others) for t, at, *others in vertex.rows))
        if isinstance(vertex, flow.Source)
        else vertex
        for vertex in dataflow.vertices
    ]
    return dataflow.replace(vertices=vertices)


def shaped(seed: int) -> flow.Dataflow:
    """A random dataflow: of eight every other one restarts, two in a row have several instances, and four a join."""
    dataflow = random_dataflow(seed)
    if seed % 8 >= 4:
        dataflow = with_join(dataflow, seed)
    if seed % 4 >= 2:
        dataflow = with_instances(dataflow, seed)
    return with_restart(dataflow, seed) if seed % 2 else dataflow


def with_another_fault(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same, and a partition is added late, or the job restarts from a snapshot."""
    rng = Random(seed)
    source = next(vertex for vertex in dataflow.vertices if isinstance(vertex, flow.Source))
    if seed % 2:
        added = flow.AddPartition(source.name, rng.randrange(source.partitions), at_ms=rng.randrange(1_000, 8_000))
        return dataflow.replace(faults=(*dataflow.faults, added))
    return with_restart(dataflow, seed)


def _source(name: str, rng: Random) -> flow.Source:
    partitions, every_ms, lag_ms = rng.choice((1, 2, 3)), rng.choice((100, 250, 400)), rng.choice((0, 300, 900))
    until_ms = rng.choice((5_000, 9_000))
    rows = tuple((t, t + rng.randint(0, 500), rng.randrange(3), f"{name}{t}") for t in range(0, until_ms, every_ms))
    return flow.Source(
        name,
        columns=("t", "at", "user", "id"),
        rows=rows,
        arrival="at",
        times=(flow.EventTime("t", lag_ms=lag_ms),),
        partitions=partitions,
        partition_by="user",
        frame_ms=rng.choice((1, 1, 100)),
        idle_timeout_ms=rng.choice((800, 1_500, 3_000, 60_000)),
    )
