"""The dataflow: what to run, as one validated value with YAML both ways, that draws itself."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import Field

from wmlab.core import mermaid, traces
from wmlab.core.errors import RecordingError, ScenarioError
from wmlab.core.estimate import Cost
from wmlab.core.recording import Recording
from wmlab.core.rules import OrName
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import MeanMs, Period, Problem, Start, is_function, value
from wmlab.core.words import exactly, in_mermaid
from wmlab.dataflow.rules import Rules
from wmlab.dataflow.scenario.faults import AnyFault, problems_of_faults
from wmlab.dataflow.scenario.plan import Plan, plan_of
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import AnyStep, Edge, Edges, Joining, Sink, Size, Window

AnyVertex = Annotated[Source | AnyStep, Field(discriminator="kind")]
"""Any vertex of a dataflow."""

_ROW_BYTES: Final = 500
_STEP_US: Final = 75
_WINDOW_US: Final = 1.5
"""Microseconds that an item at a vertex or on a queue, and a row of a window take, as `growth` measured them."""
_FUNCTIONS: Final = ("function", "where", "policy")
"""The fields of vertices and their times that can hold Python functions."""


@value
class DataflowScenario(ScenarioFile, only_field="vertices", users_call_it="wm.dataflow.Dataflow"):
    """Vertices, the edges between them, and the faults.

    `rules` is a set of rules, "design", "implementation" or "sound", or `Rules` with other options; `options` shows
    what is in effect. `guarantee` says what a restart keeps, snapshots are taken every `snapshot_every_ms`. A queue
    holds `queue_size` items, then its producer waits. Each run of an instance begins up to `jitter_ms` after it has
    something to do, drawn from `seed`; with 0 the instances that can run do so in a random order. `duration_ms` is
    simulated time after `start_ms`, zero or, for a real trace, a moment in milliseconds since 1970. The same dataflow
    always gives the same recording.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """The dataflow's name, which its recordings and charts show."""
    _: dataclasses.KW_ONLY
    vertices: Annotated[tuple[AnyVertex, ...], Field(min_length=1, max_length=10_000)]
    """The vertices, sources and sinks among them."""
    edges: Edges
    """The edges, as values or as texts such as "a -> b -> c"."""
    duration_ms: Period = 120_000
    faults: tuple[AnyFault, ...] = ()
    """What goes wrong in the run."""
    guarantee: Literal["none", "at_least_once", "exactly_once"] = "none"
    snapshot_every_ms: Period | None = None
    start_ms: Start = 0
    queue_size: Size = 1_024
    jitter_ms: MeanMs = 2.0
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0
    rules: OrName[Rules] = Rules()
    rule_set = Rules
    noun = "the dataflow"

    def _problems(self) -> Iterator[Problem]:
        yield from self.plan.problems
        if self.guarantee == "none" and self.snapshot_every_ms is not None:
            yield Problem(("snapshot_every_ms",), "without a guarantee there are no snapshots; choose a guarantee")
        has_snapshots = self.guarantee != "none"
        yield from problems_of_faults(
            self.faults, self.vertices, duration_ms=self.duration_ms, has_snapshots=has_snapshots
        )

    @property
    def plan(self) -> Plan:
        """The columns and watermark keys on every edge, and the keys that can get stuck."""
        return plan_of(self.vertices, self.edges)

    def vertex(self, name: str) -> Any:
        """The vertex with that name; raises `ScenarioError` if there is none."""
        for vertex in self.vertices:
            if vertex.name == name:
                return vertex
        known = ", ".join(vertex.name for vertex in self.vertices)
        raise ScenarioError(f"no vertex is called {name!r}.", remedy=f"name one of: {known}.")

    def _costs(self) -> Iterator[Cost]:
        """Rows at all vertices, windows, polls, queues and snapshots; a join is taken to have one partner for a row."""
        copies = {vertex.name: vertex.parallelism for vertex in self.vertices}
        queues = sum(copies.get(edge.source, 1) * copies.get(edge.target, 1) for edge in self.edges)
        yield Cost("queues", "parallelism", queues, _ROW_BYTES, _STEP_US)
        total = 0
        sources = [(index, vertex) for index, vertex in enumerate(self.vertices) if isinstance(vertex, Source)]
        logs = traces.load_each(source.trace for _, source in sources)
        for index, source in sources:
            field = f"vertices[{index}]"
            if source.stream is not None and not isinstance(source.stream, str):
                rows, named = (read := source.stream.estimate()).events, "stream"
                yield Cost("steps", f"{field}.stream", read.steps, _ROW_BYTES, _STEP_US)
            elif source.trace is not None:
                rows, named = logs[source.trace].rows, "trace"
            else:
                rows, named = len(source.rows or ()), "rows"
            total += rows
            # A row passes each vertex behind its source, and its watermark each queue.
            behind = self._behind(source.name)
            edges = (edge for edge in self.edges if edge.source in behind)
            passed = len(behind) + sum(copies[edge.source] * copies[edge.target] for edge in edges)
            yield Cost("rows", f"{field}.{named}", rows * passed, _ROW_BYTES, _STEP_US)
            if any(time.policy == "real_time" for time in source.times):
                polls = self.duration_ms // source.poll_ms * source.parallelism
                yield Cost("polls", f"{field}.poll_ms", polls * (1 + queues), _ROW_BYTES, _STEP_US)
        for index, window in enumerate(self.vertices):
            if isinstance(window, Window):
                results = total * (window.size_ms // window.step_ms)
                yield Cost("windows", f"vertices[{index}].slide_ms", results, _ROW_BYTES, _WINDOW_US)
        if self.snapshot_every_ms is not None:
            snapshots = self.duration_ms // self.snapshot_every_ms
            yield Cost("snapshots", "snapshot_every_ms", snapshots * sum(copies.values()), _ROW_BYTES, _STEP_US)

    def _behind(self, source: str) -> set[str]:
        """The vertex and all those that its rows can reach."""
        reached, ahead = set[str](), [source]
        while ahead:
            name = ahead.pop()
            if name not in reached:
                reached.add(name)
                ahead += [edge.target for edge in self.edges if edge.source == name]
        return reached

    def mermaid(self) -> str:
        """The dataflow as the text of a Mermaid flowchart, with the watermark keys on its edges."""
        return "\n".join([mermaid.head(_depth(self)), *_mermaid_lines(self, self.plan)]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """The dataflow as dicts, lists and scalars; defaults are left out, a Python function is its name."""
        made = super().to_dict()
        made["edges"] = [
            f"{edge['source']} -> {edge['target']}" if edge.keys() == {"source", "target"} else edge
            for edge in made["edges"]
        ]
        return made

    def _require_text(self) -> None:
        for vertex, function in self.functions:
            raise ScenarioError(
                f"{vertex!r} has a Python function as {function}, which no file can hold.",
                remedy="write it as an expression over the columns.",
            )
        super()._require_text()

    @property
    def functions(self) -> list[tuple[str, str]]:
        """The Python functions that it has, as (vertex, field)."""
        return [
            (vertex.name, name)
            for vertex in self.vertices
            for name in _FUNCTIONS
            for part in (vertex, *getattr(vertex, "times", ()))
            if is_function(getattr(part, name, None))
        ]

    def __repr__(self) -> str:
        guarantee = self.guarantee.replace("_", " ")
        lines = [f"Dataflow {self.name!r} ({self.rules}, {guarantee}, {exactly(self.duration_ms)})"]
        plan = self.plan
        for vertex in self.vertices:
            inputs = ", ".join(edge.source for edge in plan.inputs[vertex.name])
            copies = f" x{vertex.parallelism}" if vertex.parallelism > 1 else ""
            keys = [f"key {key}: {column or 'no column'}" for key, column in plan.outputs[vertex.name].keys]
            says = f"; {', '.join(keys)}" if keys and not isinstance(vertex, Sink) else ""
            kind = vertex.kind.replace("_", " ")
            lines.append(f"  {vertex.name}{copies}: {kind}{f' of {inputs}' if inputs else ''} ({vertex.detail}){says}")
        for name, key, without in plan.stuck:
            state = f"while {', '.join(without)}, which does not carry it, is neither idle nor done"
            lines.append(f"  note: key {key} is stuck at {name} {state}")
        lines += [f"  fault: {fault!r}" for fault in self.faults]
        return "\n".join(lines)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": repr(self), mermaid.MIME: self.mermaid()}


AnyDataflow = TypeVar("AnyDataflow", bound=DataflowScenario)


def dataflow_of(recording: Recording, made: type[AnyDataflow], *, stand_ins: bool = False) -> AnyDataflow:
    """The dataflow that was recorded, as a value of class `made`, or the one that this process ran.

    With `stand_ins` Python functions of one from files are replaced by one that is never called. Raises
    `RecordingError` if it was not a dataflow, or had Python functions.
    """
    ran = getattr(recording, "ran", None)
    if ran is not None:
        return cast("AnyDataflow", ran.dataflow)
    scenario = recording.scenario
    if scenario is None or made.only_field not in scenario:
        raise no_dataflow(recording)
    if stand_ins:
        scenario = json.loads(json.dumps(scenario), object_hook=_with_stand_ins)
    try:
        return cast("AnyDataflow", recording.scenario_as(made, scenario))
    except RecordingError:
        if "function " not in str(scenario):
            raise
        raise RecordingError(
            f"the dataflow of {recording.name!r} has Python functions, which a recording does not keep.",
            remedy="keep the dataflow itself, or write its functions as expressions.",
        ) from None


def no_dataflow(recording: Recording) -> RecordingError:
    """The error of a recording of anything else."""
    return RecordingError(
        f"{recording.name!r} is not a recording of a dataflow.", remedy="ask a recording that Dataflow.record made."
    )


def _with_stand_ins(fields: dict[str, Any]) -> dict[str, Any]:
    lost = {name for name in _FUNCTIONS if str(fields.get(name)).startswith("function ")}
    return fields | dict.fromkeys(lost, _stand_in)


def _stand_in(*_: Any) -> Any:
    raise NotImplementedError("A recording does not keep the Python functions of its dataflow.")


_SHAPES: Final = {
    "source": mermaid.ROUND,
    "sink": mermaid.SUBROUTINE,
    "join": mermaid.HEXAGON,
    "hash_join": mermaid.HEXAGON,
    "window": mermaid.SLANTED,
    "session_window": mermaid.SLANTED,
}
_LONGEST: Final = 90


def _depth(dataflow: DataflowScenario) -> int:
    """How many vertices lie one behind the other at most."""
    depths: dict[str, int] = {}
    for name in dataflow.plan.outputs:  # in the order of the flow
        depths[name] = 1 + max((depths[edge.source] for edge in dataflow.plan.inputs[name]), default=0)
    return max(depths.values(), default=0)


def _mermaid_lines(dataflow: DataflowScenario, plan: Plan) -> Iterator[str]:
    ids = {vertex.name: f"v{number}" for number, vertex in enumerate(dataflow.vertices)}
    for vertex in dataflow.vertices:
        copies = f" ×{vertex.parallelism}" if vertex.parallelism > 1 else ""
        detail = vertex.detail if len(vertex.detail) <= _LONGEST else vertex.detail[: _LONGEST - 1] + "…"
        lines = [vertex.kind.replace("_", " "), detail]
        lines += [f"key {key} is not on {', '.join(those)}" for name, key, those in plan.stuck if name == vertex.name]
        shape = _SHAPES.get(vertex.kind, mermaid.RECTANGLE)
        yield mermaid.node(ids[vertex.name], vertex.name, lines, shape=shape, beside=copies)
    for edge in dataflow.edges:
        yield mermaid.edge(ids[edge.source], ids[edge.target], _edge_words(edge, dataflow.vertex(edge.target), plan))


def _edge_words(edge: Edge, target: Any, plan: Plan) -> Iterator[str]:
    if isinstance(target, Joining) and len(plan.inputs[edge.target]) == 2:
        yield ("left", "right")[plan.inputs[edge.target].index(edge)]
    keys = plan.outputs[edge.source].keys
    yield from [f"key {key}: {column or '–'}" for key, column in keys] or ["no watermark"]
    if edge.routing is not None:
        by = f" by {', '.join(edge.by)}" if edge.by else ""
        yield in_mermaid(edge.routing.replace("_", " ") + by)
