"""A dataflow through the simulator: traces and recorded streams in, the tables of a recording out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core import traces
from wmlab.core.grouping import rows_by
from wmlab.core.recording import the_only
from wmlab.core.values import Problem, Problems
from wmlab.core.words import moment
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.sim.job import Job
from wmlab.dataflow.sim.source_instance import Reading
from wmlab.streams.answers.history import the_stream
from wmlab.streams.model.segment import segment_name
from wmlab.streams.recording import StreamRecording, record
from wmlab.streams.scenario.scenario import StreamScenario

_OFFSET: Final = itemgetter("offset")


Readings = Mapping[str, Reading]
"""What each source of a dataflow reads, by its name."""


def simulate(dataflow: DataflowScenario, readings: Readings) -> dict[str, pa.Table]:
    """The tables of a run of a dataflow, whose sources read `readings`."""
    return Job(dataflow, readings).run()


def readings_of(dataflow: DataflowScenario) -> Readings:
    """What every source reads; raises `Problems` if nothing of a trace or a recorded stream comes in the time."""
    sources = {number: vertex for number, vertex in enumerate(dataflow.vertices) if isinstance(vertex, Source)}
    readings = {source.name: _reading(dataflow, source) for source in sources.values()}
    silent = [(n, source) for n, source in sources.items() if source.rows is None and not readings[source.name].rows]
    if silent:
        first, last = moment(dataflow.start_ms), moment(dataflow.start_ms + dataflow.duration_ms)
        stretch = f"from {first} to {last}; set start_ms"
        problems = [Problem(("vertices", n), f"nothing of {source.detail} arrives {stretch}") for n, source in silent]
        raise Problems(f"the dataflow {dataflow.name!r}", problems)
    return readings


def _reading(dataflow: DataflowScenario, source: Source) -> Reading:
    if source.rows is not None:
        return _listed(dataflow, source)
    return _traced(dataflow, source) if source.trace is not None else _streamed(source)


def _listed(dataflow: DataflowScenario, source: Source) -> Reading:
    begin_ms = dataflow.start_ms + source.starts_ms
    rows = source.rows or ()
    if source.arrival is None:
        after_ms = [number * source.every_ms for number in range(len(rows))]
    else:
        index = source.columns.index(source.arrival)
        after_ms = [row[index] for row in rows]
    return Reading([(begin_ms + ms, None, row) for ms, row in zip(after_ms, rows, strict=True)], (), source.partitions)


def _traced(dataflow: DataflowScenario, source: Source) -> Reading:
    """The rows of a trace that arrive during the dataflow; its writers are dealt out to the partitions."""
    assert source.trace is not None
    trace = traces.load(source.trace)
    if source.writers:
        trace = trace.writers(*source.writers)
    arrivals = trace.table["arrival_ms"]
    end_ms = dataflow.start_ms + dataflow.duration_ms
    inside = pc.and_(pc.greater_equal(arrivals, dataflow.start_ms), pc.less(arrivals, end_ms))
    numbers = {name: number % source.partitions for number, name in enumerate(trace.writer_names)}
    rows = [
        (row["arrival_ms"], numbers[row["writer"]], (row["event_time"], row["writer"], row["key"]))
        for row in trace.table.filter(inside).to_pylist()
    ]
    return Reading(rows, (), source.partitions)


def _streamed(source: Source) -> Reading:
    """The events of a recorded stream with the lower bounds promised to its readers.

    With a reader group, each reader is a partition: its events when it read them, its lower bound when it saw it.
    Without one, events count when they were appended, and the lower bound of a watermark when it was emitted. Raises
    `RecordingError` if it is not said which one of several streams, or of several groups, is read.
    """
    if isinstance(source.stream, StreamScenario):
        recording = record(source.stream, progress=False)
    else:
        assert source.stream is not None
        recording = StreamRecording.read(source.stream)
    name = the_stream(recording, source.stream_name, option="stream_name")
    events, reads, windows, watermarks = (
        recording.table(table).filter(pc.equal(recording.table(table)["stream"], name)).to_pylist()
        for table in ("events", "reads", "windows", "watermarks")
    )
    groups = sorted({read["group"] for read in reads})
    if not groups and source.group is None:
        appended = [(event["append_ms"], None, _row(event)) for event in events]
        emitted = [(mark["emitted_ms"], None, mark["lower"]) for mark in watermarks]
        return Reading(appended, emitted, source.partitions)
    group = the_only(recording, source.group, groups, "reader group", "reader groups", option="group")
    reads = [read for read in reads if read["group"] == group]
    partition = {reader: number for number, reader in enumerate(sorted({read["reader"] for read in reads}))}
    by_segment = rows_by(sorted(events, key=_OFFSET), itemgetter("segment_id"))
    rows = []
    for read in reads:
        written = by_segment.get(read["segment_id"], [])
        first, end = (bisect_right(written, read[name], key=_OFFSET) for name in ("from_offset", "to_offset"))
        rows += [(read["at_ms"], partition[read["reader"]], _row(event)) for event in written[first:end]]
    bounds = [
        (window["at_ms"], partition[window["reader"]], window["lower"])
        for window in windows
        if window["group"] == group and window["lower"] is not None and window["reader"] in partition
    ]
    return Reading(sorted(rows, key=lambda row: row[0]), bounds, len(partition))


def _row(event: Mapping[str, Any]) -> tuple[Any, ...]:
    return event["event_time"], event["writer"], segment_name(event["segment_id"]), event["offset"]
