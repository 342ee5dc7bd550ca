"""A recorded dataflow, indexed: who feeds whom, and the state of each level of merging at a moment, as known by then.

Source: "Keyed watermark support", Description of current behavior; upstream classes `KeyedWatermarkCoalescer`,
`EventTimeMapper`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording

Row = Mapping[str, Any]
Level = Literal["edge", "global", "partition"]
WAITING: Final = ("window", "session window", "join", "stateful map")
"""The kinds of vertices that hold something until a watermark comes."""
_CLOCKS: Final = {
    "executions": "ended_ms",
    "source_rows": "at_ms",
    "items": "put_ms",
    "coalescing": "at_ms",
    "state": "at_ms",
    "sunk": "at_ms",
    "incidents": "at_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """One level of merging at a moment: which inputs count, are idle, have ended, and what each brought.

    `marks`: input to key to (watermark, clock ms at which it came). `emitted`: key to the same for what came out.
    """

    active: Sequence[int]
    idle: Sequence[int] = ()
    done: Sequence[int] = ()
    marks: Mapping[int, Mapping[int, tuple[int, int]]]
    emitted: Mapping[int, tuple[int, int]]

    def mark(self, number: int, key: int) -> int | None:
        """The last watermark of an input; None: none yet."""
        entry = self.marks.get(number, {}).get(key)
        return None if entry is None else entry[0]


class Run:
    """The tables of the one dataflow of a recording; raises `RecordingError` if it has none."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._tables: dict[str, list[Row]] = {}
        self._indexed: dict[str, dict[tuple[Any, ...], list[Row]]] = {}
        self.vertices: dict[str, Row] = {row["vertex"]: _keyed(row) for row in self.rows("vertices")}
        if not self.vertices:
            raise RecordingError(
                f"{recording.name!r} is no recording of a dataflow.",
                remedy="ask a recording that Dataflow.record made.",
            )
        self.stream = str(next(iter(self.vertices.values()))["stream"])
        self.queues: list[Row] = [_keyed(row) for row in self.rows("queues")]
        self.executions = self.rows("executions")

    @cached_property
    def end_ms(self) -> int:
        """The last moment of which anything is known."""
        columns = (self._recording.table(table)[clock].to_pylist() for table, clock in _CLOCKS.items())
        known = [at_ms for column in columns for at_ms in column if at_ms is not None]
        return max([*known, *(row["started_ms"] for row in self.executions)], default=0)

    def rows(self, table: str) -> list[Row]:
        """The rows of a table, in their order."""
        if table not in self._tables:
            self._tables[table] = self._recording.table(table).to_pylist()
        return self._tables[table]

    def indexed(self, table: str, *names: str) -> Mapping[tuple[Any, ...], Sequence[Row]]:
        """The rows of a table by the columns `names`, by default vertex and instance; each in their order."""
        if table not in self._indexed:
            index = self._indexed[table] = {}
            for row in self.rows(table):
                index.setdefault(tuple(row[name] for name in names or ("vertex", "instance")), []).append(row)
        return self._indexed[table]

    def vertex(self, name: str) -> Row:
        """The vertex; raises `RecordingError` if there is none with that name."""
        if name not in self.vertices:
            raise RecordingError(
                f"no vertex of {self.stream!r} is called {name!r}.", remedy=f"name one of: {', '.join(self.vertices)}."
            )
        return self.vertices[name]

    def execution(self, at_ms: int) -> Row | None:
        """The execution at a moment, the last one that had begun; None: none had."""
        begun = [row for row in self.executions if row["started_ms"] <= at_ms]
        return begun[-1] if begun else None

    def into(self, vertex: str, instance: int, edge: int | None = None) -> list[Row]:
        """The queues into an instance, of one edge or of all, by edge and number."""
        queues = [
            row
            for row in self.queues
            if row["target"] == vertex and row["target_instance"] == instance and edge in {None, row["edge"]}
        ]
        return sorted(queues, key=lambda row: (row["edge"], row["input"]))

    def out_of(self, vertex: str, instance: int) -> list[Row]:
        """The queues out of an instance."""
        return [row for row in self.queues if row["source"] == vertex and row["source_instance"] == instance]

    def keys(self, vertex: str) -> tuple[int, ...]:
        """The keys whose watermarks leave a vertex; of a sink, those that come."""
        own = self.vertices[vertex]["keys"]
        return tuple(
            sorted(own or {key for queue in self.queues if queue["target"] == vertex for key in queue["keys"]})
        )

    def on_queue(self, queue: Row, execution: int, at_ms: int) -> Iterator[Row]:
        """What had been put on a queue by a moment."""
        for item in self.indexed("items", "queue").get((queue["queue"],), ()):
            if item["execution"] == execution and item["put_ms"] <= at_ms:
                yield item

    def steps(self, vertex: str, instance: int, execution: int, at_ms: int) -> Iterator[Row]:
        """The steps of merging of an instance by a moment, at all levels, in their order."""
        for row in self.indexed("coalescing").get((vertex, instance), ()):
            if row["execution"] == execution and row["at_ms"] <= at_ms:
                yield row

    def merging(
        self, vertex: str, instance: int, level: Level, execution: int, at_ms: int, edge: int | None = None
    ) -> Merging:
        """One level of merging of an instance at a moment."""
        active, idle, done = self._inputs(vertex, instance, level, edge), list[int](), list[int]()
        marks: dict[int, dict[int, tuple[int, int]]] = {}
        emitted: dict[int, tuple[int, int]] = {}
        for row in self.steps(vertex, instance, execution, at_ms):
            if row["level"] != level or row["edge"] != edge:
                continue
            active, idle, done = row["active"], row["idle"], row["done"]
            if row["input"] is not None and row["key"] is not None and row["value"] is not None:
                known = marks.setdefault(row["input"], {})
                if known.get(row["key"], (None, 0))[0] != row["value"]:
                    known[row["key"]] = (row["value"], row["at_ms"])
            emitted |= {key: (value, row["at_ms"]) for key, value in row["emitted"]}
        return Merging(active=active, idle=idle, done=done, marks=marks, emitted=emitted)

    def _inputs(self, vertex: str, instance: int, level: Level, edge: int | None) -> list[int]:
        if level == "edge":
            return [queue["input"] for queue in self.into(vertex, instance, edge)]
        if level == "global":
            return sorted({queue["edge"] for queue in self.into(vertex, instance)})
        return sorted({row["partition"] for row in self.indexed("source_rows").get((vertex, instance), ())})


def read(row: str) -> dict[str, Any]:
    """A row of a table as column to value."""
    values: dict[str, Any] = json.loads(row)
    return values


def _keyed(row: Row) -> Row:
    return {**row, "keys": dict(row["keys"])}
