"""What became of a window of a dataflow by a moment, from the tables alone; and whether a row releases it, by a run.

Nothing of `wmlab.dataflow.answers` is used. A window is out when results of it have left the vertex. Else it waits if
rows of it were taken and not dropped. The rows that release it are tried: the script ends at the moment, and goes on
with these rows alone.

Source: "Keyed watermark support", WM rules and Changes to window aggregation processors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.oracles.dataflow import DataflowOracle
from wmlab import dataflow as flow

Row = Mapping[str, Any]


class WindowOracle:
    """The windows of one vertex with one instance, of a recording of one execution."""

    def __init__(self, recording: Any, vertex: str) -> None:
        self._recording, self._vertex = recording, vertex
        self._levels = DataflowOracle(recording)
        queues = recording.table("queues").to_pylist()
        items = recording.table("items").to_pylist()
        rows = [item for item in items if item["kind"] == "event"]
        into, out_of = ({q["queue"] for q in queues if q[side] == vertex} for side in ("target", "source"))
        self._into = [row for row in rows if row["queue"] in into]
        self._out = [{**row, **json.loads(row["row"])} for row in rows if row["queue"] in out_of]
        self._drops = [drop for drop in recording.table("drops").to_pylist() if drop["vertex"] == vertex]
        self._window = next(each for each in recording.dataflow.vertices if each.name == vertex)

    def facts(self, end: int, at_ms: int) -> dict[str, Any]:
        """The facts that an answer about the window with this end has to say."""
        begin = end - self._window.size_ms
        mine = [row for row in self._into if begin <= row["time"] < end and row["put_ms"] <= at_ms]
        taken = [row for row in mine if row["taken_ms"] is not None and row["taken_ms"] <= at_ms]
        lost = [drop for drop in self._drops if begin <= drop["time"] < end and drop["at_ms"] <= at_ms]
        results = [row for row in self._out if row["end"] == end and row["put_ms"] <= at_ms]
        if results:
            passed = (each for each in self._levels.history(self._vertex, 0, 0) if each[1].watermark >= end)
            since_ms, coalesced, _ = next(passed)
            out = {"came out at": results[-1]["put_ms"], "results": len(results)}
            return {"cause": "came out", "since": since_ms, "watermark": coalesced.watermark, **out}
        if len(taken) > len(lost):
            return {"cause": "waiting", "rows": len(taken) - len(lost), "needed": end}
        waiting = len(mine) - len(taken)
        return {"cause": "empty", "lost rows": len(lost) or None, "on a queue": waiting or None}

    def is_hit(self, source: str, partition: int, at_ms: int) -> bool:
        """Whether a fault keeps back a row of a partition that comes at a moment; it stays behind late ones."""
        return any(
            (fault.source, fault.partition) == (source, partition)
            and fault.at_ms <= at_ms < fault.at_ms + fault.for_ms + getattr(fault, "by_ms", 0)
            for fault in self._recording.dataflow.faults
        )

    def is_released(self, end: int, at_ms: int, rows: Sequence[tuple[str, int, int]]) -> bool:
        """Whether the window is out a millisecond after a moment at which each of these rows comes.

        A row is a source, a partition, and an event time. What the script has after the moment does not come.
        """
        vertices = []
        for vertex in self._recording.dataflow.vertices:
            if isinstance(vertex, flow.Source):
                known = [row for row in vertex.rows if row[1] <= at_ms]
                more = [(time, at_ms + 1, number, "more") for name, number, time in rows if name == vertex.name]
                vertices.append(replace(vertex, rows=(*known, *more)))
            else:
                vertices.append(vertex)
        script = self._recording.dataflow
        faults = tuple(fault for fault in script.faults if fault.at_ms <= at_ms)
        run = script.replace(vertices=vertices, faults=faults, duration_ms=at_ms + 3).record()
        every, _ = DataflowOracle(run).levels(self._vertex, 0, 0, at_ms + 2)
        return every.watermark >= end
