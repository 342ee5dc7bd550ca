"""A dataflow through the simulator: traces and recorded streams in, the tables of a recording out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core import traces
from wmlab.core.journal import Journal
from wmlab.core.values import Problem, Problems
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.source import Reading, Source
from wmlab.dataflow.sim.layout import Layout
from wmlab.dataflow.sim.world import Choose, DataflowWorld
from wmlab.dataflow.tables import DATAFLOW_TABLES
from wmlab.streams.model.segment import segment_name
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario.scenario import StreamScenario


def simulate(dataflow: DataflowScenario, choose: Choose | None = None) -> dict[str, pa.Table]:
    """Run a dataflow; `choose` replaces chance in who takes the next turn."""
    world = DataflowWorld(dataflow, readings(dataflow), choose=choose)
    return dataflow_tables(dataflow, world.layout, world.run())


def dataflow_tables(dataflow: DataflowScenario, layout: Layout, journal: Journal) -> dict[str, pa.Table]:
    """The rows of a run as the tables of `wmlab.dataflow.tables`."""
    written = {**journal.rows, **_topology(dataflow, layout)}
    return {name: _table(dataflow.name, written.get(name, []), schema) for name, schema in DATAFLOW_TABLES.items()}


def _table(stream: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    arrays = [
        pa.repeat(pa.scalar(stream, pa.string()), len(rows))
        if field.name == "stream"
        else pa.array([row[field.name] for row in rows], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _topology(dataflow: DataflowScenario, layout: Layout) -> dict[str, list[dict[str, Any]]]:
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


def readings(dataflow: DataflowScenario) -> dict[str, Reading]:
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


def _traced(dataflow: DataflowScenario, source: Source) -> Reading:
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


def _recording(source: Source) -> StreamRecording:
    if isinstance(source.stream, StreamScenario):
        return record(source.stream, progress=False)
    assert source.stream is not None
    return StreamRecording.read(source.stream)
