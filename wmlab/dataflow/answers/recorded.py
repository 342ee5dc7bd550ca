"""Where the rooms meet for questions to dataflows: rules for the answers, and runs in every order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import TypeAdapter

from wmlab.core.answers.stragglers import Stragglers
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.dataflow.answers.ask import explain_flow, flow_drops
from wmlab.dataflow.answers.explanation import Drops, FlowExplanation
from wmlab.dataflow.answers.rules import FlowRules, JoinRules, SourceRules, WindowRules
from wmlab.dataflow.model.frames import Frames
from wmlab.dataflow.scenario.dataflow import DataflowScenario, Vertex
from wmlab.dataflow.scenario.join import rule_of
from wmlab.dataflow.scenario.plan import Output
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.windows import Join, SessionWindow, Window
from wmlab.dataflow.sim.layout import FRAMES
from wmlab.dataflow.sim.mappers import frame_ms

MergeRule = Literal["hazelcast", "no flush"]
_FREE = {"function": None, "where": None}


def explain_dataflow(recording: Recording, **options: Any) -> FlowExplanation | Stragglers:
    """Why a vertex, a window or a row of a dataflow waits; see `wmlab.dataflow.answers.ask.explain_flow`.

    Raises `RecordingError` for a question that only other recordings answer.
    """
    for name in ("reader", "stream"):
        if options.pop(name, None) is not None:
            raise RecordingError(f"a {name} is named; dataflows have none.", remedy=f"leave the {name} out.")
    return explain_flow(recording, rules=rules_of_dataflow(recording), **options)


def why_dropped(recording: Recording, row: Mapping[str, Any] | None = None, *, vertex: str | None = None) -> Drops:
    """The rows that were left out; see `wmlab.dataflow.answers.ask.flow_drops`."""
    return flow_drops(recording, row, vertex=vertex)


def rules_of_dataflow(recording: Recording) -> FlowRules:
    """What the recorded dataflow says about times to come; Python functions in it do not matter."""
    told = recording.scenario
    if told is None or "vertices" not in told:
        return FlowRules()
    outputs = {
        row["vertex"]: Output(tuple(row["columns"]), tuple(sorted(row["keys"])))
        for row in recording.table("vertices").to_pylist()
    }
    inputs: dict[str, list[str]] = {}
    for queue in sorted(recording.table("queues").to_pylist(), key=lambda row: row["edge"]):
        known = inputs.setdefault(queue["target"], [])
        if queue["source"] not in known:
            known.append(queue["source"])
    given = {name: [outputs[source] for source in sources] for name, sources in inputs.items()}
    vertices = [_vertex(vertex) for vertex in told["vertices"] if vertex["kind"] in _NEEDED]
    windows = [vertex for vertex in vertices if isinstance(vertex, Window | SessionWindow)]
    joins = {v.name: _join(v, *given[v.name]) for v in vertices if isinstance(v, Join)}
    end_ms = told.get("start_ms", 0) + told.get("duration_ms", 120_000)
    return FlowRules(
        sources={v.name: _source(v, told) for v in vertices if isinstance(v, Source)},
        windows={
            v.name: _window(v, given[v.name + FRAMES if v.name + FRAMES in outputs else v.name][0]) for v in windows
        },
        joins=joins,
        limits={v.name: v.limit for v in vertices if isinstance(v, Window | Join) and v.limit is not None},
        end_ms=end_ms,
    )


_NEEDED = ("source", "window", "session_window", "join")


def _vertex(told: Mapping[str, Any]) -> Any:
    known = {name: value for name, value in told.items() if name not in _FREE}
    return TypeAdapter(Vertex).validate_python(known)


def _window(vertex: Window | SessionWindow, given: Output) -> WindowRules:
    key = given.key_of(vertex.column)
    assert key is not None
    if isinstance(vertex, SessionWindow):
        return WindowRules(column=vertex.column, key=key, size_ms=vertex.timeout_ms, slide_ms=None, by=vertex.by)
    return WindowRules(column=vertex.column, key=key, size_ms=vertex.size_ms, slide_ms=vertex.step_ms, by=vertex.by)


def _join(vertex: Join, left: Output, right: Output) -> JoinRules:
    sides = tuple(tuple(key for key, column in side.keys if column is not None) for side in (left, right))
    rule = rule_of(vertex, left, right)
    return JoinRules(bounds=rule.bounds, sides=(sides[0], sides[1]), outer=vertex.outer, emit=vertex.emit)


def _source(source: Source, told: Mapping[str, Any]) -> SourceRules:
    frame = _frame_ms(source, told)
    fixed = source.rows is not None or source.trace is not None
    deviations = told.get("deviations")
    silent = told.get("mode") == "hz" if deviations is None else "rejected_rows_silent" in deviations
    return SourceRules(
        lags_ms={time.key: time.lag_ms for time in source.times},
        policies={time.key: time.policy for time in source.times},
        frames=None if frame == 0 else Frames(frame, source.frame_offset_ms if frame > source.frame_offset_ms else 0),
        idle_timeout_ms=source.idle_timeout_ms or None,
        partitions=source.partitions if fixed else None,
        parallelism=source.parallelism,
        rejected_count=not silent,
    )


def _frame_ms(source: Source, told: Mapping[str, Any]) -> int:
    """The frame as a number; where the recorded dataflow cannot be built again, the finest."""
    if isinstance(source.frame_ms, int):
        return source.frame_ms
    try:
        return frame_ms(TypeAdapter(DataflowScenario).validate_python(told), source)
    except ValueError:
        return 1
