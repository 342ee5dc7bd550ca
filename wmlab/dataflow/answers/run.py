"""A recorded dataflow, indexed: its vertices, who feeds whom, the rules by which it ran, and the rows of its tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from operator import itemgetter
from typing import Any, Final

from wmlab.core.errors import RecordingError, WmlabError
from wmlab.core.recording import Recording
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of, no_dataflow
from wmlab.dataflow.sim.rules import DataflowRules, rules_of

Row = Mapping[str, Any]
BEGINS: Final = {"items": "put_ms", "calls": "began_ms"}
"""The column with the clock of a row where it is not `at_ms`."""
_TIMED: Final = ("source_rows", "items", "coalescing", "state", "sunk", "incidents")


class Run:
    """The tables of the one dataflow of a recording; raises `RecordingError` if it has none."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.rows: Callable[[str], list[Row]] = cache(lambda table: recording.table(table).to_pylist())
        """The rows of a table, in their order."""
        self.indexed = cache(self._indexed)
        """The rows of a table by vertex and instance, of `items` by queue; each in their order."""
        self.vertices: dict[str, Row] = {row["vertex"]: _keyed(row) for row in self.rows("vertices")}
        if not self.vertices:
            raise no_dataflow(recording)
        self.stream = str(next(iter(self.vertices.values()))["stream"])
        self.queues: list[Row] = [_keyed(row) for row in self.rows("queues")]
        self.executions = self.rows("executions")

    @cached_property
    def rules(self) -> DataflowRules:
        """The rules of the vertices; none where the recording has no scenario."""
        if self._recording.scenario is None:
            return DataflowRules()
        return rules_of(dataflow_of(self._recording, DataflowScenario, stand_ins=True))

    @cached_property
    def end_ms(self) -> int:
        """The end of the run: of its duration, if it was running then, otherwise the last moment recorded."""
        moments = [row[BEGINS.get(table, "at_ms")] for table in _TIMED for row in self.rows(table)]
        moments += [row[clock] for row in self.executions for clock in ("started_ms", "ended_ms")]
        if self.executions and self.executions[-1]["ended_ms"] is None:
            moments.append(self.rules.end_ms)
        return max((at_ms for at_ms in moments if at_ms is not None), default=0)

    def _indexed(self, table: str) -> Mapping[tuple[Any, ...], Sequence[Row]]:
        index: dict[tuple[Any, ...], list[Row]] = {}
        names = ("queue",) if table == "items" else ("vertex", "instance")
        for row in self.rows(table):
            index.setdefault(tuple(row[name] for name in names), []).append(row)
        return index

    def vertex(self, name: str | None, error: type[WmlabError] = RecordingError) -> Row:
        """The vertex; raises `error` if there is none with that name."""
        if name is None or name not in self.vertices:
            raise error(
                f"no vertex of {self.stream!r} is called {name!r}.", remedy=f"name one of: {', '.join(self.vertices)}."
            )
        return self.vertices[name]

    def into(self, vertex: str, instance: int, edge: int | None = None) -> list[Row]:
        """The queues into an instance, of one edge or of all, by edge and number."""
        mine = [row for row in self.queues if row["target"] == vertex and row["target_instance"] == instance]
        return sorted((row for row in mine if edge in {None, row["edge"]}), key=itemgetter("edge", "input"))

    def out_of(self, vertex: str, instance: int) -> list[Row]:
        """The queues out of an instance."""
        return [row for row in self.queues if row["source"] == vertex and row["source_instance"] == instance]

    def keys(self, vertex: str) -> tuple[int, ...]:
        """The keys whose watermarks leave a vertex; of a sink, those that come."""
        come = {key for queue in self.queues if queue["target"] == vertex for key in queue["keys"]}
        return tuple(sorted(self.vertices[vertex]["keys"] or come))


def read(row: str) -> dict[str, Any]:
    """A row of a table as column to value."""
    values: dict[str, Any] = json.loads(row)
    return values


def listing(values: Mapping[str, Any]) -> str:
    """A row as one reads it: "id 1, t 10"."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _keyed(row: Row) -> Row:
    return {**row, "keys": dict(row["keys"])}
