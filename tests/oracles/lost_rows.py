"""Why a row of a dataflow was lost, from the table `source_rows`, the drops, the script, and further runs of it.

Nothing of `wmlab.dataflow.answers` is used. A row is named by its column `id`. Its partition made it late by itself if
a row before it, less the lag, was so far. Otherwise the watermark did not wait for the partition, which was idle: then
the row is not lost without an idle timeout.

Source: "Keyed watermark support", WM generation and Handling of keyed idle messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from tests.oracles.dataflow import HIGHEST, DataflowOracle
from wmlab import dataflow as flow

Row = Mapping[str, Any]


class Lost(NamedTuple):
    """A lost row: its partition, why it was lost, when that had a row before it was idle (ms), and its timeout."""

    source: str
    partition: int
    because: str
    row_before_ms: int
    idle_timeout_ms: int


class LostRows:
    """The rows that a window of a dataflow of one execution dropped, by their `id`."""

    def __init__(self, recording: Any) -> None:
        self._recording = recording
        self._script = recording.dataflow
        self._read = [{**row, **json.loads(row["row"])} for row in recording.table("source_rows").to_pylist()]

    def rows(self) -> Iterator[tuple[str, Lost]]:
        """Every lost row."""
        for drop in self._recording.table("drops").to_pylist():
            name = json.loads(drop["row"])["id"]
            yield name, self._lost(name, drop)

    def is_lost(self, name: str, **fields: Any) -> bool:
        """Whether a row is lost when its source has other fields."""
        source = next(row["vertex"] for row in self._read if row["id"] == name)
        return name in self._lost_with(source, **fields)

    def is_idle_before(self, name: str, *, since_ms: int, idle_timeout_ms: int) -> bool:
        """Whether with a timeout the partition of a row is idle at some time between a moment and when it is read."""
        row = next(row for row in self._read if row["id"] == name)
        where = row["vertex"], row["instance"], "partition"
        steps = self._run_with(row["vertex"], idle_timeout_ms=idle_timeout_ms).table("coalescing").to_pylist()
        return any(
            row["partition"] in step["idle"]
            for step in steps
            if (step["vertex"], step["instance"], step["level"]) == where and since_ms < step["at_ms"] <= row["at_ms"]
        )

    def is_passed_before_it_was_added(self, name: str) -> bool:
        """Whether the script adds the partition of a row after a watermark by which the row is late had passed."""
        row = next(row for row in self._read if row["id"] == name)
        added = [fault.at_ms for fault in self._script.faults if isinstance(fault, flow.AddPartition)
                 and (fault.source, fault.partition) == (row["vertex"], row["partition"])]  # fmt: skip
        (drop,) = (d for d in self._recording.table("drops").to_pylist() if json.loads(d["row"])["id"] == name)
        window = next(vertex for vertex in self._script.vertices if vertex.name == drop["vertex"])
        late_from = drop["time"] // window.step_ms * window.step_ms + window.step_ms
        return added != [] and self._passed_ms(drop, row["vertex"], row["instance"], late_from) <= added[0]

    def not_waited_for(self, drop: Row, join: str) -> dict[str, int]:
        """The partitions of both sides of a join for which the watermark that passed a row did not wait, since when.

        That is so where the merge behind the join had it as an idle input then; else it is empty.
        """
        judge = DataflowOracle(self._recording)
        every = judge.history(drop["vertex"], drop["instance"], drop["key"])
        passed_ms = next(at_ms for at_ms, coalesced, _ in every if coalesced.watermark >= drop["limit"])
        queues = self._recording.table("queues").to_pylist()
        edge = next(q["edge"] for q in queues if q["target"] == "all" and q["source"] in {join, "plain"})
        if not judge.levels("all", 0, drop["key"], passed_ms)[0].inputs[edge].idle:
            return {}
        idle = {}
        for key in (0, 1):
            idle |= judge.not_waited_for(passed_ms, HIGHEST, key)
        sides = {queue["source"] for queue in queues if queue["target"] == join}
        return {name: since_ms for name, since_ms in idle.items() if name.split()[-1] in sides}

    def without_idleness(self, source: str) -> list[str]:
        """The rows that windows drop when no partition of a source is ever idle."""
        return sorted(d["row"] for d in self._run_with(source, idle_timeout_ms=0).table("drops").to_pylist())

    def _run_with(self, source: str, **fields: Any) -> Any:
        vertices = [replace(vertex, **fields) if vertex.name == source else vertex for vertex in self._script.vertices]
        return self._script.replace(vertices=vertices).record()

    def _lost_with(self, source: str, **fields: Any) -> set[str]:
        drops = self._run_with(source, **fields).table("drops").to_pylist()
        return {json.loads(drop["row"])["id"] for drop in drops}

    @cached_property
    def _kept_without_idleness(self) -> Mapping[str, set[str]]:
        """By source, what is lost when none of its partitions is ever idle."""
        sources = [vertex.name for vertex in self._script.vertices if isinstance(vertex, flow.Source)]
        return {name: self._lost_with(name, idle_timeout_ms=0) for name in sources}

    def _before(self, number: int) -> list[Row]:
        """The rows of a partition that were read before a row of it."""
        row = self._read[number]
        return [
            other
            for other in self._read[:number]
            if (other["vertex"], other["partition"]) == (row["vertex"], row["partition"])
        ]

    def own_watermark(self, name: str) -> int:
        """The watermark that the rows of its partition before a row let out, if nothing else held it."""
        (number,) = (number for number, row in enumerate(self._read) if row["id"] == name)
        source = next(vertex for vertex in self._script.vertices if vertex.name == self._read[number]["vertex"])
        mark = max((other["t"] - source.times[0].lag_ms for other in self._before(number)), default=-(2**63))
        return mark // source.frame_ms * source.frame_ms

    def passed_ms(self, name: str) -> int:
        """When the window that dropped a row got the watermark by which it still took no lower time (ms)."""
        (drop,) = (d for d in self._recording.table("drops").to_pylist() if json.loads(d["row"])["id"] == name)
        every = DataflowOracle(self._recording).history(drop["vertex"], drop["instance"], drop["key"])
        return next(at_ms for at_ms, coalesced, _ in every if coalesced.watermark >= drop["limit"])

    def _lost(self, name: str, drop: Row) -> Lost:
        (number,) = (number for number, row in enumerate(self._read) if row["id"] == name)
        row = self._read[number]
        source = next(vertex for vertex in self._script.vertices if vertex.name == row["vertex"])
        window = next(vertex for vertex in self._script.vertices if vertex.name == drop["vertex"])
        slide = window.step_ms if isinstance(window, flow.Window) else 1
        late_from = drop["time"] // slide * slide + slide
        mine = self._before(number)
        because = "not known"
        if self.own_watermark(name) >= late_from:
            because = "own rows"
        elif name not in self._kept_without_idleness[source.name]:
            because = "idle"
        return Lost(
            source.name,
            row["partition"],
            because,
            self._row_before_ms(drop, source, row["instance"], late_from, mine),
            source.idle_timeout_ms,
        )

    def _row_before_ms(self, drop: Row, source: Any, instance: int, late_from: int, mine: list[Row]) -> int:
        """When a row of the partition was read before it was idle, as a watermark passed the lost one; or the begin."""
        idle_ms = self._passed_ms(drop, source.name, instance, late_from)
        before = [row["at_ms"] for row in mine if row["at_ms"] + source.idle_timeout_ms <= idle_ms]
        return max(before, default=0)

    def _passed_ms(self, drop: Row, source: str, instance: int, late_from: int) -> int:
        """When the first watermark by which a row is late had passed its source, or what is behind that (ms)."""
        judge, queues = DataflowOracle(self._recording), self._recording.table("queues").to_pylist()
        every = judge.history(drop["vertex"], drop["instance"], drop["key"])
        passed_ms = [next(at_ms for at_ms, coalesced, _ in every if coalesced.watermark >= late_from)]
        behind = [q for q in queues if (q["source"], q["source_instance"]) == (source, instance)]
        numbers = {queue["queue"] for queue in behind}
        passed_ms += [
            item["put_ms"]
            for item in self._recording.table("items").to_pylist()
            if item["queue"] in numbers and item["kind"] == "watermark" and item["value"] >= late_from
        ]
        # Where the instance itself let nothing so high out, what its vertex coalesced of all instances counts.
        for queue in behind:
            steps = judge.history(queue["target"], queue["target_instance"], drop["key"])
            passed_ms += [at_ms for at_ms, _, levels in steps if levels[queue["edge"]].watermark >= late_from]
        return min(passed_ms)
