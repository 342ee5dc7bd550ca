"""What a chart of a dataflow needs of its tables: one level of merging, its inputs by name, and what each did when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wmlab.core.charts.rows import one_stream
from wmlab.core.charts.steps import Value
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.dataflow.answers.run import Row, Run

State = Literal["active", "idle", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelHistory:
    """One level of merging of one instance over the clock: `names` of its inputs by number, its `steps` in their order.

    `begun_ms` and `end_ms` are the clock of the execution that is shown, `drops` the rows left out there.
    """

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

    def marks(self, number: int, key: int) -> tuple[list[int], list[Value]]:
        """The watermark of an input over the clock, from the beginning to the end; None before the first."""
        mine = (row for row in self.steps if row["input"] == number and row["key"] == key)
        return self._curve((row["at_ms"], row["value"]) for row in mine if row["value"] is not None)

    def merged(self, key: int) -> tuple[list[int], list[Value]]:
        """What came out over the clock."""
        emitted = ((row["at_ms"], dict(row["emitted"])) for row in self.steps)
        return self._curve((at_ms, marks[key]) for at_ms, marks in emitted if key in marks)

    def _curve(self, points: Iterable[tuple[int, int]]) -> tuple[list[int], list[Value]]:
        """One value for each moment, the last one that it had there."""
        values: dict[int, Value] = {self.begun_ms: None} | dict(points)
        last_ms = list(values)[-1]
        if last_ms < self.end_ms:
            values[self.end_ms] = values[last_ms]
        return list(values), list(values.values())

    def stretches(self, number: int) -> list[tuple[int, int, State]]:
        """What an input was from when to when."""
        result: list[tuple[int, int, State]] = []
        states: tuple[State, ...] = ("done", "idle", "active")
        since, state = self.begun_ms, states[-1]
        for row in self.steps:
            now = next((name for name in states if number in row[name]), state)
            if now != state:
                result.append((since, row["at_ms"], state))
                since, state = row["at_ms"], now
        return [stretch for stretch in [*result, (since, self.end_ms, state)] if stretch[0] < stretch[1]]


def run_of(recording: Recording) -> Run:
    """The recorded dataflow; raises `ChartError` if there is not exactly one."""
    one_stream(recording, None, "vertices")
    return Run(recording)


def level_of(recording: Recording, vertex: str | None, instance: int) -> LevelHistory:
    """The level of merging that has the most to show at an instance: its edges, its queues, or its partitions.

    Without `vertex` it is the first one that merges several inputs. The last execution is shown. Raises `ChartError`
    for a vertex or instance that is not there, or that merged nothing.
    """
    run = run_of(recording)
    known = run.vertex(vertex if vertex is not None else _merging(run), ChartError)
    name, copies = str(known["vertex"]), known["parallelism"]
    if not 0 <= instance < copies:
        raise ChartError(f"{name!r} has no instance {instance}.", remedy=f"Choose one below {copies}.")
    execution = max((row["execution"] for row in run.executions), default=1)
    steps, drops = (
        [row for row in run.indexed(table).get((name, instance), ()) if row["execution"] == execution]
        for table in ("coalescing", "drops")
    )
    names, level = _inputs(run.into(name, instance), steps)
    shown = [row for row in steps if row["level"] == level]
    if not shown:
        raise ChartError(f"{name!r} has merged nothing.", remedy="Choose a vertex that watermarks have reached.")
    begun_ms, end_ms = clock_of(run, execution)
    return LevelHistory(vertex=name, names=names, steps=shown, drops=drops, begun_ms=begun_ms, end_ms=end_ms)


def _merging(run: Run) -> str | None:
    """The first vertex that merges several inputs, or the first that merges at all."""
    most: dict[str, int] = {}
    for row in run.rows("coalescing"):
        inputs = len(row["active"]) + len(row["idle"]) + len(row["done"])
        most[row["vertex"]] = max(most.get(row["vertex"], 0), inputs)
    merging = [name for name in run.vertices if name in most]
    return next((name for name in merging if most[name] > 1), next(iter(merging), None))


def _inputs(queues: Sequence[Row], steps: Sequence[Row]) -> tuple[dict[int, str], str]:
    """The inputs of the level to show, by number, and the level."""
    if not queues:
        partitions = sorted({number for row in steps for number in (*row["active"], *row["idle"])})
        return {number: f"partition {number}" for number in partitions}, "partition"
    edges = {row["edge"]: row["source"] for row in queues}
    if len(edges) > 1:
        return edges, "global"
    if len(queues) == 1:
        return {queues[0]["input"]: queues[0]["source"]}, "edge"
    return {row["input"]: f"{row['source']}[{row['source_instance']}]" for row in queues}, "edge"


def clock_of(run: Run, execution: int | None = None) -> tuple[int, int]:
    """When an execution began and ended (None: all of them); one that was running ends with the run."""
    rows = [row for row in run.executions if execution in {None, row["execution"]}]
    begun_ms = rows[0]["started_ms"] if rows else 0
    ended_ms = rows[-1]["ended_ms"] if rows else None
    return begun_ms, max(run.end_ms if ended_ms is None else ended_ms, begun_ms + 1)
