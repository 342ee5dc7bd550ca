"""What a dataflow costs to run, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wmlab.core import traces
from wmlab.core.estimate import Cost
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import Window

if TYPE_CHECKING:
    from wmlab.dataflow.scenario.dataflow import DataflowScenario

_ROW = 500


def costs(dataflow: DataflowScenario) -> Iterator[Cost]:
    """Rows at all vertices, windows, polls, queues and snapshots; a join is taken to have one partner for a row."""
    copies = {vertex.name: vertex.parallelism for vertex in dataflow.vertices}
    queues = sum(copies.get(edge.source, 1) * copies.get(edge.target, 1) for edge in dataflow.edges)
    yield Cost("queues", "parallelism", queues, _ROW)
    total = 0
    sources = [(index, vertex) for index, vertex in enumerate(dataflow.vertices) if isinstance(vertex, Source)]
    logs = traces.load_each(source.trace for _, source in sources)
    for index, source in sources:
        field = f"vertices[{index}]"
        if source.stream is not None and not isinstance(source.stream, str):
            rows, named = (read := source.stream.estimate()).events, "stream"
            yield Cost("steps", f"{field}.stream", read.steps, _ROW)
        elif source.trace is not None:
            rows, named = logs[source.trace].rows, "trace"
        else:
            rows, named = len(source.rows or ()), "rows"
        total += rows
        yield Cost("rows", f"{field}.{named}", rows * (len(dataflow.vertices) + queues), _ROW)
        if any(time.policy == "real_time" for time in source.times):
            polls = dataflow.duration_ms // source.poll_ms * source.parallelism
            yield Cost("polls", f"{field}.poll_ms", polls * (1 + queues), _ROW)
    for index, window in enumerate(dataflow.vertices):
        if isinstance(window, Window):
            yield Cost("windows", f"vertices[{index}].slide_ms", total * (window.size_ms // window.step_ms), _ROW)
    if dataflow.snapshot_every_ms is not None:
        snapshots = dataflow.duration_ms // dataflow.snapshot_every_ms
        yield Cost("snapshots", "snapshot_every_ms", snapshots * sum(copies.values()), _ROW)
