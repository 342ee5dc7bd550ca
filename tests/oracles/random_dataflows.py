"""Random dataflows: one or two sources of up to three partitions into a merge and a window, with faults."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from random import Random
from typing import Any

from wmlab import dataflow as flow

BEATS = range(500, 12_000, 500)
"""The moments at which rows come in dataflows `on_a_beat` (ms)."""


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
    """The same with two sources of other keys, that are joined instead of merged, by either rule of what they send."""
    rng = Random(seed)
    left, *others = (vertex for vertex in dataflow.vertices if isinstance(vertex, flow.Source))
    right = replace(others[0] if others else _source("b", rng), name="b")
    right = replace(right, times=(replace(right.times[0], key=1),))
    window = next(vertex for vertex in dataflow.vertices if isinstance(vertex, flow.Window))
    below, above = rng.choice((0, 400, 1_500)), rng.choice((0, 700, 2_000))
    condition = f"left.user == right.user and left.t - {below} <= right.t and right.t <= left.t + {above}"
    vertices = (left, right, flow.Join("both", condition), window, flow.Sink("out"))
    edges: Any = ["a -> both -> count -> out", "b -> both"]
    rules = flow.Rules(emit=rng.choice((None, "state", "buffer")), bounds_only=rng.choice((None, True)))
    return dataflow.replace(vertices=vertices, edges=edges, rules=rules)


def over_a_join(seed: int, *, mapped: bool) -> flow.Dataflow:
    """A merge of a join with a third source; rows of both sides come so late that the join is idle meanwhile.

    With `mapped` the rows behind the join are those of its left side.
    """
    rng = Random(seed)
    dataflow = with_join(random_dataflow(seed), seed)
    left, right, join, window, out = dataflow.vertices
    sides = [replace(side, idle_timeout_ms=rng.choice((800, 1_500))) for side in (left, right)]
    other = replace(_source("c", rng), idle_timeout_ms=60_000)
    way: list[Any] = [join]
    if mapped:
        way.append(flow.Map("plain", select={name: name for name in left.columns}))
    else:
        rows = [(*row, *row[:3], f"right {row[3]}") for row in other.rows]
        columns = [*left.columns, *(f"right_{name}" for name in left.columns)]
        other = replace(other, columns=columns, rows=rows)
    late = [
        flow.LatePartition(side.name, number, at_ms=2_000, for_ms=3_000, by_ms=3_000)
        for side in sides
        for number in range(side.partitions)
    ]
    edges = [" -> ".join(["a", *(each.name for each in way), "all -> count -> out"]), "b -> both", "c -> all"]
    vertices = (*sides, other, *way, flow.Merge("all"), window, out)
    return dataflow.replace(vertices=vertices, edges=edges, faults=late, jitter_ms=0)


def with_restart(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same, and the job restarts from a snapshot."""
    rng = Random(seed)
    restart = flow.Restart(at_ms=rng.randrange(2_000, 9_000))
    snapshots: Any = {
        "guarantee": rng.choice(("at_least_once", "exactly_once")),
        "snapshot_every_ms": rng.choice((500, 2_000)),
    }
    return dataflow.replace(faults=(*dataflow.faults, restart), **snapshots)


def without_merge(dataflow: flow.Dataflow) -> flow.Dataflow:
    """The same, and the window itself has all sources as its inputs."""
    vertices = [vertex for vertex in dataflow.vertices if not isinstance(vertex, flow.Merge)]
    names = [vertex.name for vertex in vertices if isinstance(vertex, flow.Source)]
    return dataflow.replace(vertices=vertices, edges=["count -> out", *(f"{name} -> count" for name in names)])


def with_second_window(dataflow: flow.Dataflow) -> flow.Dataflow:
    """The same with another window `again` behind the window, twice its size, over the ends of its results."""
    window = next(vertex for vertex in dataflow.vertices if isinstance(vertex, flow.Window))
    again = flow.Window("again", 2 * window.size_ms, column="end", aggregates={"m": "count()"})
    edges = [edge for edge in dataflow.edges if edge.source != "count"]
    return dataflow.replace(vertices=(*dataflow.vertices, again), edges=[*edges, "count -> again -> out"])


def with_ends(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same, and some of the sources end behind their last row, the first one always."""
    rng = Random(seed)
    sources = [vertex.name for vertex in dataflow.vertices if isinstance(vertex, flow.Source)]
    ending = {sources[0], *(name for name in sources if rng.random() < 0.5)}
    vertices = [replace(vertex, ends=True) if vertex.name in ending else vertex for vertex in dataflow.vertices]
    return dataflow.replace(vertices=vertices)


def on_a_beat(seed: int) -> flow.Dataflow:
    """A dataflow in which rows come at every half second only, several at once, and a partition is idle in between."""
    rng = Random(seed)
    source, copies, size_ms = _beating("a", rng), rng.choice((1, 2)), rng.choice((1_000, 2_000))
    vertices: list[Any] = [
        replace(source, parallelism=copies),
        flow.Merge("both", parallelism=1),
        flow.Window(
            "count",
            size_ms,
            slide_ms=rng.choice((500, 1_000)),
            column="t",
            by=["part"],
            aggregates={"n": "count()"},
            parallelism=rng.choice((1, 2)),
        ),
        flow.Sink("out"),
    ]
    edges = ["a -> both -> count -> out"]
    if rng.random() < 0.5:
        vertices, edges = [*vertices, _beating("b", rng)], [*edges, "b -> both"]
    silent = flow.SilentPartition("a", 0, at_ms=rng.choice(BEATS), for_ms=rng.choice((1_000, 2_000)))
    faults = (silent,) if rng.random() < 0.5 else ()
    return flow.Dataflow(
        f"beat {seed}",
        vertices=vertices,
        edges=edges,
        duration_ms=12_000,
        jitter_ms=0,
        faults=faults,
        seed=seed,
    )


def with_stall(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same, and one instance of a vertex, or every one, stands still for some beats."""
    rng = Random(seed)
    vertex, at_ms, for_ms = (
        rng.choice(("a", "both", "count", "count")),
        rng.choice(BEATS[2:14]),
        rng.choice((1_500, 3_000)),
    )
    stall = flow.Stall(vertex, at_ms=at_ms, for_ms=for_ms, instance=rng.choice((None, 0)))
    return dataflow.replace(faults=(*dataflow.faults, stall))


def with_half_stalled(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same with two instances of the window, of which one stands still for some beats."""
    rng = Random(seed)
    vertices = [replace(vertex, parallelism=2) if vertex.name == "count" else vertex for vertex in dataflow.vertices]
    stall = flow.Stall("count", at_ms=rng.choice(BEATS[2:14]), for_ms=3_000, instance=rng.choice((0, 1)))
    return dataflow.replace(vertices=vertices, faults=(*dataflow.faults, stall))


def with_barriers(dataflow: flow.Dataflow, seed: int) -> flow.Dataflow:
    """The same with barriers, of which source `a` sends none for some beats: so nothing is taken from the others."""
    rng = Random(seed)
    stall = flow.Stall("a", at_ms=rng.choice(BEATS[2:14]), for_ms=3_000, instance=rng.choice((None, 0)))
    snapshots: Any = {"guarantee": "exactly_once", "snapshot_every_ms": 500}
    return dataflow.replace(faults=(*dataflow.faults, stall), **snapshots)


def beats_of(dataflow: flow.Dataflow) -> list[int]:
    """The beats at which to ask about a run: where an instance stands still those, or else any (ms)."""
    stalls = [fault for fault in dataflow.faults if isinstance(fault, flow.Stall)]
    return [ms for ms in BEATS if all(fault.at_ms <= ms <= fault.at_ms + fault.for_ms for fault in stalls)]


def _beating(name: str, rng: Random) -> flow.Source:
    idle = range(rng.randrange(1_000, 4_000, 500), rng.randrange(5_000, 9_000, 500))
    rows = [(max(0, at - rng.randrange(0, 1_500, 500)), at, 0) for at in range(0, 10_000, 500)]
    rows += [
        (max(0, at - rng.randrange(0, 4_000, 500)), at, 1)
        for at in range(0, 10_000, 500)
        for _ in range(rng.choice((0, 1, 1, 2)))
        if at not in idle
    ]
    rng.shuffle(rows)
    return flow.Source(
        name,
        columns=("t", "at", "part", "id"),
        rows=[(*row, f"{name}{number}") for number, row in enumerate(sorted(rows, key=itemgetter(1)))],
        arrival="at",
        times=(flow.EventTime("t", lag_ms=rng.choice((0, 500, 2_000))),),
        partitions=2,
        partition_by="part",
        frame_ms=rng.choice((1, 1, 83)),
        idle_timeout_ms=rng.choice((1_000, 2_000)),
    )


def shaped(seed: int) -> flow.Dataflow:
    """A random dataflow: of eight every other one restarts, two in a row have several instances, and four a join.

    In every other eight a source ends. Of five two have no merge, of three one has a second window.
    """
    dataflow = random_dataflow(seed)
    if seed % 5 < 2:
        dataflow = without_merge(dataflow)
    if seed % 8 >= 4:
        dataflow = with_join(dataflow, seed)
    if seed % 4 >= 2:
        dataflow = with_instances(dataflow, seed)
    if seed % 3 == 0:
        dataflow = with_second_window(dataflow)
    if seed % 16 >= 8:
        dataflow = with_ends(dataflow, seed)
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
        frame_ms=rng.choice((1, 1, 100, 83)),
        idle_timeout_ms=rng.choice((800, 1_500, 3_000, 60_000)),
    )
