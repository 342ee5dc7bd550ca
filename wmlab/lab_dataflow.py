"""Where the rooms meet for dataflows: a dataflow reads traces and recorded streams, and runs into a recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

import wmlab.traces as traces
from wmlab.errors import RecordingError
from wmlab.model.dataflow import deviations
from wmlab.model.segment import segment_name
from wmlab.recording import Recording
from wmlab.scenario import Problem, Problems, Scenario
from wmlab.scenario.flow_dataflow import Dataflow
from wmlab.scenario.flow_source import Reading, Source
from wmlab.scenario.flow_vertices import AsyncMap
from wmlab.scenario.flow_windows import Join, SessionWindow, Window
from wmlab.sim.dataflow.layout import FRAMES, Layout, Node
from wmlab.sim.dataflow.ledger import Ledger
from wmlab.sim.dataflow.processors import processor_of
from wmlab.sim.dataflow.world import Choose, DataflowWorld
from wmlab.tables import TABLES
from wmlab.tables_dataflow import DATAFLOW_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from wmlab.spark.dataflow_checks import Recorded

_WRITTEN = {**DATAFLOW_TABLES, "faults": TABLES["faults"]}


def record_dataflow(dataflow: Dataflow, path: str | Path | None = None, *, choose: Choose | None = None) -> Recording:
    """Run a dataflow and return everything that happened; with `path`, keep it there.

    `choose` replaces chance in who takes the next turn: it gets the names of those that are due, and returns a place.
    """
    world = DataflowWorld(dataflow, readings(dataflow), choose=choose)
    recording = Recording.from_tables(
        dataflow_tables(dataflow, world.layout, world.run()),
        name=dataflow.name,
        scenario=dataflow.to_dict(),
        seed=dataflow.seed,
    )
    return recording if path is None else recording.save(path)


def dataflow_of(recording: Recording) -> Dataflow:
    """The dataflow that was recorded; raises `RecordingError` if it was none, or had Python functions."""
    told = recording.scenario
    if told is None or "vertices" not in told:
        raise _no_dataflow(recording)
    try:
        return TypeAdapter(Dataflow).validate_python(told)
    except (ValidationError, Problems):
        raise RecordingError(
            f"the dataflow of {recording.name!r} has Python functions, which a recording does not keep.",
            remedy="keep the dataflow itself, or write its functions as expressions.",
        ) from None


def _no_dataflow(recording: Recording) -> RecordingError:
    return RecordingError(
        f"{recording.name!r} is no recording of a dataflow.", remedy="ask a recording that Dataflow.record made."
    )


def of_dataflow(recording: Recording) -> bool:
    """Whether a recording is one of a dataflow."""
    return bool(recording.counts["vertices"]) or "vertices" in (recording.scenario or {})


def coalesced(recording: Recording, spark: SparkSession) -> DataFrame:
    """What merging had come to after every step of a recorded dataflow; see `wmlab.spark.dataflow.coalesced`.

    With the deviations of the dataflow, so that a recording of mode `hz` is followed as it was. Raises `RecordingError`
    if it was no dataflow.
    """
    from wmlab import spark as questions
    from wmlab.lab import dataframe

    told = recording.scenario
    if not of_dataflow(recording) or told is None:
        raise _no_dataflow(recording)
    named = told.get("deviations")
    chosen = None if named is None else deviations.Deviations(**dict.fromkeys(named, True))
    rules = chosen or deviations.deviations(told.get("mode", "design"))
    tables = [dataframe(recording, spark, name) for name in ("items", "queues", "coalescing")]
    return questions.coalesced(*tables, deviations=rules)


def judge_of(recording: Recording, spark: SparkSession) -> tuple[Sequence[str], Callable[[str], DataFrame]]:
    """The promises of a dataflow by name, and what judges one of them over a recording."""
    from wmlab.lab import dataframe
    from wmlab.spark.dataflow_checks import DATAFLOW_INVARIANTS, JUDGED, dataflow_verdict

    tables = {name: dataframe(recording, spark, name) for name in JUDGED}
    try:
        told = recorded_rules(dataflow_of(recording))
    except RecordingError:
        told = None
    return list(DATAFLOW_INVARIANTS), lambda name: dataflow_verdict(name, tables, told)


def recorded_rules(dataflow: Dataflow) -> Recorded:
    """The windows, joins and capacities of a dataflow, which the tables of its recording do not tell."""
    from wmlab.spark.dataflow_checks import Recorded
    from wmlab.spark.dataflow_rows import RecordedRule

    plan = dataflow.plan
    rules = [
        RecordedRule(
            vertex=vertex.name,
            entry=vertex.name + FRAMES if isinstance(vertex, Window) and vertex.stages == 2 else vertex.name,
            rule=processor_of(dataflow, plan, Node(vertex.name, vertex, plan.outputs[vertex.name]), lambda: True),  # type: ignore[arg-type]
            inputs=tuple(plan.outputs[edge.source].columns for edge in plan.inputs[vertex.name]),
            columns=plan.outputs[vertex.name].columns,
        )
        for vertex in dataflow.vertices
        if isinstance(vertex, Window | SessionWindow | Join)
    ]
    capacities = {vertex.name: vertex.capacity for vertex in dataflow.vertices if isinstance(vertex, AsyncMap)}
    return Recorded(rules=tuple(rules), capacities=capacities)


def dataflow_tables(dataflow: Dataflow, layout: Layout, ledger: Ledger) -> dict[str, pa.Table]:
    """The rows of a run as the tables of `wmlab.tables_dataflow`, and `faults`."""
    written = {**ledger.tables, **_topology(dataflow, layout)}
    return {name: _table(dataflow.name, written.get(name, []), schema) for name, schema in _WRITTEN.items()}


def _table(stream: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    arrays = [
        pa.repeat(pa.scalar(stream, pa.string()), len(rows))
        if field.name == "stream"
        else pa.array([row[field.name] for row in rows], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _topology(dataflow: Dataflow, layout: Layout) -> dict[str, list[dict[str, Any]]]:
    outputs = {node.name: node.output for node in layout.nodes}
    vertices = [
        {
            "vertex": node.name,
            "kind": node.kind,
            "parallelism": node.parallelism,
            "columns": [] if node.kind == "sink" else list(node.output.columns),
            "keys": [] if node.kind == "sink" else list(node.output.keys),
            "detail": "first stage" if node.stage == 1 else node.vertex.detail,
        }
        for node in layout.nodes
    ]
    queues = [
        {
            "queue": lane.number,
            "source": lane.link.source,
            "source_instance": lane.source_instance,
            "target": lane.link.target,
            "target_instance": lane.target_instance,
            "edge": lane.link.edge,
            "input": lane.place,
            "priority": lane.link.priority,
            "routing": lane.link.words,
            "capacity": dataflow.queue_size,
            "keys": list(outputs[lane.link.source].keys),
        }
        for lane in layout.lanes
    ]
    return {"vertices": vertices, "queues": queues}


def readings(dataflow: Dataflow) -> dict[str, Reading]:
    """What every source reads that replays a trace or a recorded stream."""
    found: dict[str, Reading] = {}
    problems: list[Problem] = []
    for number, source in enumerate(dataflow.vertices):
        if not isinstance(source, Source) or source.rows is not None:
            continue
        found[source.name] = _traced(dataflow, source) if source.trace is not None else _streamed(source)
        if not found[source.name].rows:
            end_ms = dataflow.start_ms + dataflow.duration_ms
            message = f"nothing of {source.detail} arrives from {dataflow.start_ms} to {end_ms} ms; set start_ms"
            problems.append(Problem(("vertices", number), message))
    if problems:
        raise Problems(f"the dataflow {dataflow.name!r}", problems)
    return found


def _traced(dataflow: Dataflow, source: Source) -> Reading:
    """The rows of a trace that arrive during the dataflow; its writers are dealt out to the partitions."""
    assert source.trace is not None
    trace = traces.load(source.trace)
    if source.writers:
        trace = trace.writers(*source.writers)
    arrivals = trace.table["arrival_ms"]
    end_ms = dataflow.start_ms + dataflow.duration_ms
    inside = trace.table.filter(
        pc.and_(pc.greater_equal(arrivals, dataflow.start_ms), pc.less(arrivals, end_ms))
    ).to_pydict()
    numbers = {name: number % source.partitions for number, name in enumerate(trace.writer_names)}
    rows = tuple(
        (arrival, numbers[writer], (happened, writer, key))
        for happened, arrival, writer, key in zip(
            inside["event_time"], inside["arrival_ms"], inside["writer"], inside["key"], strict=True
        )
    )
    return Reading(rows, (), source.partitions)


def _streamed(source: Source) -> Reading:
    """The events of a recorded stream with the lower bounds promised to whoever reads it.

    With a reader group, each reader is a partition: its events when it read them, its lower bound when it saw it.
    Without one, events count when they were appended, and the lower bound of a watermark when it was emitted.
    """
    recording = _recording(source)
    name = recording.table("events")["stream"][0].as_py() if recording.counts["events"] else ""
    tables = {
        table: recording.table(table).filter(pc.equal(recording.table(table)["stream"], name)).to_pylist()
        for table in ("events", "reads", "windows", "watermarks")
    }
    events = tables["events"]
    if not tables["reads"]:
        appended = tuple((event["append_ms"], None, _row(event)) for event in events)
        emitted = tuple((mark["emitted_ms"], None, mark["lower"]) for mark in tables["watermarks"])
        return Reading(appended, emitted, source.partitions)
    group = tables["reads"][0]["group"]
    reads = [read for read in tables["reads"] if read["group"] == group]
    windows = [w for w in tables["windows"] if w["group"] == group and w["lower"] is not None]
    partition = {reader: number for number, reader in enumerate(sorted({read["reader"] for read in reads}))}
    by_segment: dict[int, list[Mapping[str, Any]]] = {}
    for event in events:
        by_segment.setdefault(event["segment_id"], []).append(event)
    rows = [
        (read["at_ms"], partition[read["reader"]], _row(event))
        for read in reads
        for event in by_segment.get(read["segment_id"], [])
        if read["from_offset"] < event["offset"] <= read["to_offset"]
    ]
    bounds = [(w["at_ms"], partition[w["reader"]], w["lower"]) for w in windows if w["reader"] in partition]
    return Reading(tuple(sorted(rows, key=lambda row: row[0])), tuple(bounds), len(partition))


def _row(event: Mapping[str, Any]) -> tuple[Any, ...]:
    return event["event_time"], event["writer"], segment_name(event["segment_id"]), event["offset"]


def _recording(source: Source) -> Recording:
    if isinstance(source.stream, Scenario):
        return source.stream.record(progress=False)
    assert source.stream is not None
    return Recording.read(source.stream)
