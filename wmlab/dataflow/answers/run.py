"""A recorded dataflow: its tables, indexed, its rules, and its job, which can be run again."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from typing import Any, Final, Literal

import pyarrow.compute as pc

from wmlab.core.errors import RecordingError, WmlabError
from wmlab.core.grouping import rows_by
from wmlab.core.recording import Recording
from wmlab.core.words import is_instant, moment
from wmlab.dataflow.answers.job import Job, job_of
from wmlab.dataflow.checks.steps import all_steps
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of, no_dataflow
from wmlab.dataflow.sim.layout import OWN_BY_INPUT
from wmlab.dataflow.sim.rules import DataflowRules, rules_of

RecordedRow = Mapping[str, Any]
BEGINS: Final = {"items": "put_ms", "calls": "began_ms"}
"""The column with the clock of a row where it is not `at_ms`."""
_WAITING: Final = ("window", "session window", "join", "stateful map")
"""The kinds of vertices that hold something until a watermark comes."""
_TIMED: Final = ("source_rows", "items", "coalescing", "state", "sunk", "incidents")


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How and when (clock, ms) a job ended: "failed" with its reason, or "completed"."""

    outcome: Literal["failed", "completed"]
    at_ms: int
    reason: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether the job failed."""
        return self.outcome == "failed"


class DataflowRun:
    """The tables of the one dataflow of a recording; raises `RecordingError` if it has none."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.rows: Callable[[str], list[RecordedRow]] = cache(self._rows)
        """The rows of a table, in their order; of `coalescing` the steps of all levels, also those with one input."""
        self.indexed = cache(self._indexed)
        """The rows of a table in their order by execution, vertex and instance, `items` by execution and queue.

        They may be told apart by more columns.
        """
        self.vertices: dict[str, RecordedRow] = {row["vertex"]: _keyed(row) for row in self.rows("vertices")}
        if not self.vertices:
            raise no_dataflow(recording)
        self.stream = str(next(iter(self.vertices.values()))["stream"])
        self.queues: list[RecordedRow] = [_keyed(row) for row in self.rows("queues")]
        self.executions = self.rows("executions")

    @property
    def last_waiting(self) -> str:
        """The last vertex that waits for watermarks, or else the last one, a sink."""
        waiting = [name for name, known in self.vertices.items() if known["kind"] in _WAITING]
        return [*self.vertices, *waiting][-1]

    @cached_property
    def job(self) -> Job:
        """The job, which can be run again up to a moment."""
        return job_of(self._recording)

    @cached_property
    def rules(self) -> DataflowRules:
        """The rules of the vertices; none where the recording has no scenario."""
        if self._recording.scenario is None:
            return DataflowRules()
        return rules_of(dataflow_of(self._recording, DataflowScenario, stand_ins=True))

    def end_at(self, at_ms: int | None = None) -> JobEnd | None:
        """How the job had ended by a moment (clock, ms), or at all; None: it was running."""
        begun = [row for row in self.executions if at_ms is None or row["started_ms"] <= at_ms]
        if not begun or begun[-1]["outcome"] not in {"failed", "completed"}:
            return None
        end = JobEnd(begun[-1]["outcome"], begun[-1]["ended_ms"], begun[-1]["reason"])
        return None if at_ms is not None and end.at_ms > at_ms else end

    @cached_property
    def end_ms(self) -> int:
        """The end of the run: of its duration, if it was running then, otherwise the last moment recorded."""
        columns = (self._recording.table(table)[BEGINS.get(table, "at_ms")] for table in _TIMED)
        moments = [pc.max(column).as_py() for column in columns]
        moments += [row[clock] for row in self.executions for clock in ("started_ms", "ended_ms")]
        if self.executions and self.executions[-1]["ended_ms"] is None:
            moments.append(self.rules.end_ms)
        return max((at_ms for at_ms in moments if at_ms is not None), default=0)

    def clock_ms(self, execution: int | None = None) -> tuple[int, int]:
        """When an execution began and ended (None: all of them); one that was running ends with the run."""
        rows = [row for row in self.executions if execution in {None, row["execution"]}]
        begun_ms = rows[0]["started_ms"] if rows else 0
        ended_ms = rows[-1]["ended_ms"] if rows else None
        return begun_ms, max(self.end_ms if ended_ms is None else ended_ms, begun_ms + 1)

    @property
    def begun_ms(self) -> int:
        """When the first execution began (clock, ms)."""
        return int(self.executions[0]["started_ms"]) if self.executions else 0

    @cached_property
    def times_ms(self) -> int:
        """What says whether event times and watermarks of the run are instants, as `moment` asks of the clock.

        That is the clock of the run; or, where it begins at 0 and so has no dates, the event time in the middle.
        """
        begun = self.begun_ms
        times = sorted(time for time in self._recording.table("items")["time"].to_pylist() if time is not None)
        return int(times[len(times) // 2]) if times and not is_instant([begun]) else begun

    def time(self, time: int | None) -> str:
        """An event time or a watermark in words."""
        return moment(time, clock_ms=self.times_ms)

    @cached_property
    def emitted_watermarks(self) -> Mapping[tuple[Any, ...], tuple[Sequence[int], Sequence[RecordedRow]]]:
        """The highest watermark after each emission, and its step, by execution, vertex, instance, level and key."""
        emissions: dict[tuple[Any, ...], tuple[list[int], list[RecordedRow]]] = {}
        for of_level, steps in self.indexed("coalescing", "level").items():
            for step in steps:
                for key, value in step["emitted"]:
                    values, steps_of_key = emissions.setdefault((*of_level, key), ([], []))
                    values.append(max([value, *values[-1:]]))
                    steps_of_key.append(step)
        return emissions

    def first_step(self, of_key: tuple[Any, ...], watermark: int) -> RecordedRow | None:
        """The first step of coalescing, of an execution, vertex, instance, level and key, that emitted this or more."""
        values, steps = self.emitted_watermarks.get(of_key, ((), ()))
        index = bisect_left(values, watermark)
        return steps[index] if index < len(values) else None

    def moments(self, table: str, clock: str) -> set[int]:
        """The moments (clock, ms) that a column of a table has."""
        return {ms for ms in self._recording.table(table)[clock].unique().to_pylist() if ms is not None}

    def _rows(self, table: str) -> list[RecordedRow]:
        if table != "coalescing":
            rows: list[RecordedRow] = self._recording.table(table).to_pylist()
            return rows
        names = ("items", "queues", "coalescing")
        tables = [self._recording.table(name).to_pylist(maps_as_pydicts="strict") for name in names]
        return [{**step, "emitted": [*step["emitted"].items()]} for step in all_steps(*tables)]

    def _indexed(self, table: str, *columns: str) -> Mapping[tuple[Any, ...], Sequence[RecordedRow]]:
        names = ("execution", "queue") if table == "items" else ("execution", "vertex", "instance")
        return rows_by(self.rows(table), itemgetter(*names, *columns))

    def vertex(self, name: str | None, error: type[WmlabError] = RecordingError) -> RecordedRow:
        """The vertex; raises `error` if there is none with that name."""
        if not isinstance(name, str) or name not in self.vertices:
            raise error(
                f"no vertex of {self.stream!r} is called {name!r}.", remedy=f"name one of: {', '.join(self.vertices)}."
            )
        return self.vertices[name]

    def instance_name(self, vertex: str, instance: int | None) -> str:
        """What an instance is called: the vertex alone where there is no other, or where none is named."""
        return instance_name(vertex, instance, self.vertices[vertex]["parallelism"])

    def into(self, vertex: str, instance: int, edge: int | None = None) -> list[RecordedRow]:
        """The queues into an instance, of one edge or of all, by edge and number."""
        queues = self._queues_at["target", vertex, instance]
        return [queue for queue in queues if edge in {None, queue["edge"]}]

    def sources_of(self, vertex: str, instance: int) -> set[tuple[str, int]]:
        """The instances of sources in front of an instance; of a source itself."""
        into = self.into(vertex, instance)
        before = (self.sources_of(queue["source"], queue["source_instance"]) for queue in into)
        return set().union(*before) if into else {(vertex, instance)}

    def out_of(self, vertex: str, instance: int) -> list[RecordedRow]:
        """The queues out of an instance."""
        return self._queues_at["source", vertex, instance]

    @cached_property
    def _queues_at(self) -> Mapping[tuple[str, str, int], list[RecordedRow]]:
        """The queues of which an instance is the source, in their order, and the target, by edge and number."""
        queues: defaultdict[tuple[str, str, int], list[RecordedRow]] = defaultdict(list)
        for queue in self.queues:
            queues["source", queue["source"], queue["source_instance"]].append(queue)
        for queue in sorted(self.queues, key=itemgetter("edge", "input")):
            queues["target", queue["target"], queue["target_instance"]].append(queue)
        return queues

    def is_outwards(self, vertex: str) -> bool:
        """Whether the watermark of a vertex is the one that leaves it, and not the one coalesced of its inputs."""
        return vertex in self.rules.joins or self.vertex(vertex)["kind"] in {"source", OWN_BY_INPUT}

    def keys(self, vertex: str) -> tuple[int, ...]:
        """The keys whose watermarks leave a vertex; of a sink, those that come."""
        come = {key for queue in self.queues if queue["target"] == vertex for key in queue["keys"]}
        return tuple(sorted(self.vertices[vertex]["keys"] or come))


def run_of(recording: Recording) -> DataflowRun:
    """The run of a recording, which keeps it, so that the job goes on from one question to the next."""
    run: DataflowRun | None = getattr(recording, "_run", None)
    if run is None:
        run = DataflowRun(recording)
        object.__setattr__(recording, "_run", run)
    return run


def instance_name(vertex: str, instance: int | None, parallelism: int) -> str:
    """What an instance is called in sentences: its vertex, with its number where the vertex has several."""
    return vertex if instance is None or parallelism == 1 else f"{vertex}[{instance}]"


def read(row: str) -> dict[str, Any]:
    """A row of a table as column to value."""
    values: dict[str, Any] = json.loads(row)
    return values


def _keyed(row: RecordedRow) -> RecordedRow:
    return {**row, "keys": dict(row["keys"])}
