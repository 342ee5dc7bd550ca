"""What became of a window of a dataflow by a moment, from the tables alone; and whether a row releases it, by a run.

Nothing of `wmlab.dataflow.answers` is used. A window is out when results of it have left the vertex. Else it waits if
rows of it were taken and not dropped. The rows that release it are tried: the script ends at the moment, and goes on
with these rows alone.

Source: "Keyed watermark support", WM rules and Changes to window aggregation processors.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.oracles.dataflow import LOWEST, DataflowOracle
from wmlab import dataflow as flow

Row = Mapping[str, Any]


class WindowOracle:
    """The windows of one vertex of a recording."""

    def __init__(self, recording: Any, vertex: str) -> None:
        self._recording, self._vertex = recording, vertex
        self._executions = recording.table("executions").to_pylist()
        self._snapshots = [row for row in recording.table("snapshots").to_pylist() if row["vertex"] == vertex]
        queues = recording.table("queues").to_pylist()
        items = recording.table("items").to_pylist()
        into, out_of = (
            {q["queue"]: q[f"{side}_instance"] for q in queues if q[side] == vertex} for side in ("target", "source")
        )
        self._copies = sorted(set(into.values()))
        self._into = [{**item, "instance": into[item["queue"]]} for item in items if item["queue"] in into]
        out = {item["queue"]: item for item in items if item["queue"] in out_of}
        self._out = [
            {**item, **json.loads(item["row"]), "instance": out_of[item["queue"]]}
            for item in items
            if item["queue"] in out and item["kind"] == "event"
        ]
        self._drops = [drop for drop in recording.table("drops").to_pylist() if drop["vertex"] == vertex]
        self._window = next(each for each in recording.dataflow.vertices if each.name == vertex)

    def facts(self, end: int, at_ms: int) -> dict[str, Any]:
        """The facts that an answer about the window with this end has to say."""
        begin = end - self._window.size_ms
        execution = max(row["execution"] for row in self._executions if row["started_ms"] <= at_ms)
        rows = {number: self._rows(number, execution, begin, end, at_ms) for number in self._copies}
        results = {number: self._results(number, execution, end, at_ms) for number in self._copies}
        left = sum(map(len, results.values()))
        if holding := [number for number in self._copies if rows[number] and not results[number]]:
            judge, held = DataflowOracle(self._recording, execution), sum(rows[number] for number in holding)
            every = (judge.levels(self._vertex, number, 0, at_ms)[0] for number in holding)
            lowest = min(every, key=lambda coalesced: coalesced.watermark)
            watermark = None if lowest.watermark == LOWEST else lowest.watermark
            of_lowest = {"watermark": watermark, "since": lowest.since_ms}
            return {"cause": "waiting", "rows": held, "needed": end, "results": left or None, **of_lowest}
        if left:
            # It is out when the last of its instances has let it out.
            last = max((each[0]["put_ms"], number) for number, each in results.items() if each)
            of_last = results[last[1]][0]["execution"]
            judge = DataflowOracle(self._recording, of_last)
            # Without such a watermark the end of the inputs let it out.
            passing = judge.passing(self._vertex, last[1], 0, end)
            since_ms, watermark, source, message = (None,) * 4 if passing is None else passing
            out = {"came out at": last[0], "results": left, "let out by": source, "message": message}
            return {"cause": "came out", "since": since_ms, "watermark": watermark, **out}
        drops = [drop for drop in self._drops if begin <= drop["time"] < end and drop["at_ms"] <= at_ms]
        waiting = [
            item
            for item in self._into
            if item["execution"] == execution and item["kind"] == "event" and begin <= item["time"] < end
            and item["put_ms"] <= at_ms and (item["taken_ms"] is None or item["taken_ms"] > at_ms)
        ]  # fmt: skip
        return {"cause": "empty", "lost rows": len(drops) or None, "on a queue": len(waiting) or None}

    def let_out_apart(self, ends: Iterable[int], at_ms: int) -> list[int]:
        """The ends of the windows that instances have let out at different moments."""
        execution = max(row["execution"] for row in self._executions if row["started_ms"] <= at_ms)
        of_each = {end: [self._results(number, execution, end, at_ms) for number in self._copies] for end in ends}
        return [end for end, results in of_each.items() if len({each[0]["put_ms"] for each in results if each}) > 1]

    def _before(self, number: int, execution: int) -> tuple[int, int, int] | None:
        """What an execution goes on from: the execution, its snapshot, and when the instance had saved it (ms)."""
        snapshot = self._executions[execution - 1]["snapshot"]
        if snapshot is None:
            return None
        (row,) = (each for each in self._snapshots if (each["snapshot"], each["instance"]) == (snapshot, number))
        return row["execution"], snapshot, row["saved_ms"]

    def _rows(self, number: int, execution: int, begin: int, end: int, at_ms: int, until: float = float("inf")) -> int:
        """How many rows of a window an instance took until it took the item of a position, and did not drop."""
        mine = [each for each in self._into if (each["instance"], each["execution"]) == (number, execution)]
        taken = [
            each
            for each in mine
            if each["kind"] == "event" and begin <= each["time"] < end
            and each["taken"] is not None and each["taken_ms"] <= at_ms and each["taken"] < until
        ]  # fmt: skip
        lost = Counter((drop["row"], drop["at_ms"]) for drop in self._drops
                       if (drop["instance"], drop["execution"]) == (number, execution))  # fmt: skip
        held = len(taken) - sum(lost[each["row"], each["taken_ms"]] > 0 for each in taken)
        if (before := self._before(number, execution)) is not None:
            saved_in, snapshot, saved_ms = before
            barriers = (each for each in self._into if (each["instance"], each["execution"]) == (number, saved_in)
                        and (each["kind"], each["value"]) == ("barrier", snapshot))  # fmt: skip
            held += self._rows(number, saved_in, begin, end, saved_ms, max(each["taken"] for each in barriers))
        return held

    def _results(self, number: int, execution: int, end: int, at_ms: int) -> list[Row]:
        """The results of a window that had left an instance, and that a restart has not taken back."""
        mine = [
            each
            for each in self._out
            if (each["instance"], each["execution"], each["end"]) == (number, execution, end)
            and each["put_ms"] <= at_ms
        ]
        before = self._before(number, execution)
        earlier = [] if before is None else self._results(number, before[0], end, before[2])
        once = {(each["put_ms"], each["row"]): each for each in [*earlier, *mine]}
        return [*once.values()]

    def is_hit(self, source: str, partition: int, at_ms: int) -> bool:
        """Whether a fault keeps back a row of a partition that comes at a moment; it does so behind late ones, too."""
        return any(
            (isinstance(fault, flow.Stall) or (fault.source, fault.partition) == (source, partition))
            and fault.at_ms <= at_ms < fault.at_ms + fault.for_ms + getattr(fault, "by_ms", 0)
            for fault in self._recording.dataflow.faults
        )

    def released_ms(self, end: int, at_ms: int, until_ms: int) -> int | None:
        """When the watermark reaches the end of a window if no row comes after a moment; None: not until then (ms)."""
        script = self._recording.dataflow
        vertices = [
            replace(vertex, rows=self._come_by(vertex, at_ms)) if isinstance(vertex, flow.Source) else vertex
            for vertex in script.vertices
        ]
        faults = tuple(fault for fault in script.faults if fault.at_ms <= at_ms)
        run = script.replace(vertices=vertices, faults=faults, duration_ms=until_ms + 1).record()
        steps = DataflowOracle(run).history(self._vertex, 0, 0)
        return next((ms for ms, every, _ in steps if every.watermark >= end), None)

    def _come_by(self, source: flow.Source, at_ms: int) -> tuple[Any, ...]:
        """The rows of a source that were read by a moment, by their last column."""
        reads = self._recording.table("source_rows").to_pylist()
        names = {json.loads(r["row"])["id"] for r in reads if r["vertex"] == source.name and r["at_ms"] <= at_ms}
        return tuple(row for row in source.rows if row[-1] in names)

    def has_late_rows(self, at_ms: int) -> bool:
        """Whether rows that a fault delayed come after a moment."""
        return any(getattr(fault, "by_ms", 0) and fault.at_ms <= at_ms for fault in self._recording.dataflow.faults)

    def is_released(self, end: int, at_ms: int, rows: Sequence[tuple[str, int, int]]) -> bool:
        """Whether the window is out a millisecond after a moment at which each of these rows comes.

        A row is a source, a partition, and an event time. What the script has after the moment does not come.
        """
        script = self._recording.dataflow
        vertices = []
        for vertex in script.vertices:
            if isinstance(vertex, flow.Source):
                more = [(time, at_ms + 1, number, "more") for name, number, time in rows if name == vertex.name]
                vertices.append(replace(vertex, rows=(*self._come_by(vertex, at_ms), *more)))
            else:
                vertices.append(vertex)
        faults = tuple(fault for fault in script.faults if fault.at_ms <= at_ms)
        run = script.replace(vertices=vertices, faults=faults, duration_ms=at_ms + 3).record()
        judge = DataflowOracle.at(run, at_ms + 2)
        every = [judge.levels(self._vertex, number, 0, at_ms + 2)[0].watermark for number in self._copies]
        return min(every) >= end
