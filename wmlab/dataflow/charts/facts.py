"""What a chart of a dataflow needs of its tables: one level of merging, its inputs by name, and what each did when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from wmlab.core.charts.rows import one_stream, stream_rows
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording

Row = Mapping[str, Any]
State = Literal["active", "idle", "done"]
_FIRST: Final[State] = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of merging of one instance: `names` of its inputs by number, `steps` of it in their order.

    `begun_ms` and `end_ms` are the clock of the execution that is shown, `drops` the rows left out there.
    """

    stream: str
    vertex: str
    names: Mapping[int, str]
    steps: Sequence[Row]
    drops: Sequence[Row]
    begun_ms: int
    end_ms: int

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys whose watermarks came in."""
        return tuple(sorted({row["key"] for row in self.steps if row["key"] is not None}))

    def marks(self, place: int, key: int) -> tuple[list[int], list[int | None]]:
        """The watermark of an input over the clock, from the beginning to the end; None before the first."""
        points = [
            (row["at_ms"], row["value"])
            for row in self.steps
            if row["input"] == place and row["key"] == key and row["value"] is not None
        ]
        return self._curve(points)

    def merged(self, key: int) -> tuple[list[int], list[int | None]]:
        """What came out over the clock."""
        found = [(row["at_ms"], dict(row["emitted"])[key]) for row in self.steps if key in dict(row["emitted"])]
        return self._curve(found)

    def _curve(self, points: Sequence[tuple[int, int]]) -> tuple[list[int], list[int | None]]:
        """One value for each moment, the last one that it had there."""
        xs, ys = [self.begun_ms], list[int | None]([None])
        for at_ms, value in points:
            if at_ms == xs[-1]:
                ys[-1] = value
            else:
                xs.append(at_ms)
                ys.append(value)
        if xs[-1] < self.end_ms:
            xs.append(self.end_ms)
            ys.append(ys[-1])
        return xs, ys

    def stretches(self, place: int) -> list[tuple[int, int, State]]:
        """What an input was from when to when."""
        found: list[tuple[int, int, State]] = []
        since, state = self.begun_ms, _FIRST
        for row in self.steps:
            now: State = "done" if place in row["done"] else "idle" if place in row["idle"] else "active"
            if now != state and (place in row["active"] or now != "active"):
                found.append((since, row["at_ms"], state))
                since, state = row["at_ms"], now
        found.append((since, self.end_ms, state))
        return [one for one in found if one[0] < one[1]]


def the_dataflow(recording: Recording) -> str:
    """The name of the recorded dataflow; raises `ChartError` if there is none."""
    return one_stream(recording, None, "vertices")


def level_of(recording: Recording, vertex: str | None, instance: int) -> Level:
    """The level of merging that has the most to show at an instance: its edges, its queues, or its partitions.

    Without `vertex` it is the first one that merges several inputs. The last execution is shown. Raises `ChartError`
    for a vertex or instance that is not there, or that merged nothing.
    """
    stream = the_dataflow(recording)
    vertices = {row["vertex"]: row for row in stream_rows(recording, "vertices", stream)}
    queues = stream_rows(recording, "queues", stream)
    steps = stream_rows(recording, "coalescing", stream)
    name = chosen(vertices, vertex if vertex is not None else _merging(vertices, steps))
    if not 0 <= instance < vertices[name]["parallelism"]:
        raise ChartError(
            f"{name!r} has no instance {instance}.", remedy=f"Choose one below {vertices[name]['parallelism']}."
        )
    execution = max((row["execution"] for row in stream_rows(recording, "executions", stream)), default=1)
    mine = [row for row in steps if (row["vertex"], row["instance"], row["execution"]) == (name, instance, execution)]
    into = [row for row in queues if row["target"] == name and row["target_instance"] == instance]
    names, level = _inputs(into, mine)
    drops = [
        row
        for row in stream_rows(recording, "drops", stream)
        if (row["vertex"], row["instance"], row["execution"]) == (name, instance, execution)
    ]
    shown = [row for row in mine if row["level"] == level]
    if not shown:
        raise ChartError(f"{name!r} has merged nothing.", remedy="Choose a vertex that watermarks have reached.")
    begun_ms, end_ms = clock_of(recording, stream, execution)
    return Level(stream=stream, vertex=name, names=names, steps=shown, drops=drops, begun_ms=begun_ms, end_ms=end_ms)


def chosen(vertices: Mapping[str, Row], vertex: str | None) -> str:
    """The vertex, if there is one of that name."""
    if vertex in vertices:
        return str(vertex)
    raise ChartError(f"There is no vertex {vertex!r}.", remedy=f"Choose one of {', '.join(vertices)}.")


def _merging(vertices: Mapping[str, Row], steps: Sequence[Row]) -> str | None:
    """The first vertex that merges several inputs, or the first that merges at all."""
    several = {row["vertex"] for row in steps if len(row["active"]) + len(row["idle"]) + len(row["done"]) > 1}
    some = {row["vertex"] for row in steps}
    return next((name for name in vertices if name in several), next((name for name in vertices if name in some), None))


def _inputs(queues: Sequence[Row], steps: Sequence[Row]) -> tuple[dict[int, str], str]:
    """The inputs of the level to show, by number, and the level."""
    if not queues:
        places = sorted({place for row in steps for place in (*row["active"], *row["idle"])})
        return {place: f"partition {place}" for place in places}, "partition"
    edges = {row["edge"]: row["source"] for row in queues}
    if len(edges) > 1:
        return edges, "global"
    return {row["input"]: _queue_name(row, queues) for row in queues}, "edge"


def _queue_name(queue: Row, queues: Sequence[Row]) -> str:
    return str(queue["source"]) if len(queues) == 1 else f"{queue['source']}[{queue['source_instance']}]"


def clock_of(recording: Recording, stream: str, execution: int | None = None) -> tuple[int, int]:
    """When an execution began and ended (None: all of them); one that was running ends with the run."""
    rows = [row for row in stream_rows(recording, "executions", stream) if execution in {None, row["execution"]}]
    told = recording.scenario or {}
    planned = told.get("start_ms", 0) + told["duration_ms"] if "duration_ms" in told else None
    last = rows[-1]["ended_ms"] if rows else None
    seen = [
        row["at_ms"]
        for table in ("coalescing", "source_rows", "sunk", "state")
        for row in stream_rows(recording, table, stream, ("at_ms",))
    ]
    end_ms = last if last is not None else planned if planned is not None else max(seen, default=0)
    begun_ms = rows[0]["started_ms"] if rows else min(seen, default=0)
    return begun_ms, max(end_ms, begun_ms + 1)
