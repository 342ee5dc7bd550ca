"""A recorded dataflow, indexed: who feeds whom, and what stood where at a moment, as far as was known by then.

Source: "Keyed watermark support", Description of current behavior; upstream classes `KeyedWatermarkCoalescer`,
`EventTimeMapper`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording

Row = Mapping[str, Any]
Level = Literal["edge", "global", "partition"]
WAITING: Final = ("window", "session window", "join", "stateful map")
"""The kinds of vertices that hold something until a watermark comes."""
FIRST_STAGE: Final = "first stage"
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

    active: tuple[int, ...]
    idle: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    marks: Mapping[int, Mapping[int, tuple[int, int]]]
    emitted: Mapping[int, tuple[int, int]]

    def mark(self, place: int, key: int) -> int | None:
        """The last watermark of an input; None: none yet."""
        found = self.marks.get(place, {}).get(key)
        return None if found is None else found[0]

    def since_ms(self, place: int, key: int) -> int | None:
        """When that watermark came; None: none yet."""
        found = self.marks.get(place, {}).get(key)
        return None if found is None else found[1]


class Run:
    """The tables of the one dataflow of a recording; raises `RecordingError` if it has none."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.name = recording.name
        self.vertices: dict[str, Row] = {row["vertex"]: _keyed(row) for row in recording.table("vertices").to_pylist()}
        if not self.vertices:
            raise RecordingError(
                f"{recording.name!r} is no recording of a dataflow.",
                remedy="ask a recording that Dataflow.record made.",
            )
        self.stream = str(next(iter(self.vertices.values()))["stream"])
        self.queues: list[Row] = [_keyed(row) for row in recording.table("queues").to_pylist()]
        self.executions: list[Row] = recording.table("executions").to_pylist()

    @cached_property
    def end_ms(self) -> int:
        """The last moment of which anything is known."""
        found = [
            at
            for table, clock in _CLOCKS.items()
            for at in self._recording.table(table)[clock].to_pylist()
            if at is not None
        ]
        return max([*found, *(row["started_ms"] for row in self.executions)], default=0)

    @cached_property
    def steps(self) -> dict[tuple[str, int], list[Row]]:
        """The steps of merging by vertex and instance, in their order."""
        return _grouped(self._rows("coalescing"), "vertex", "instance")

    @cached_property
    def items(self) -> dict[tuple[int], list[Row]]:
        """The items by queue, in their order."""
        return _grouped(self._rows("items"), "queue")

    @cached_property
    def source_rows(self) -> dict[tuple[str, int], list[Row]]:
        """The rows that sources read, by vertex and instance."""
        return _grouped(self._rows("source_rows"), "vertex", "instance")

    @cached_property
    def sizes(self) -> dict[tuple[str, int], list[Row]]:
        """The changes of size by vertex and instance."""
        return _grouped(self._rows("state"), "vertex", "instance")

    @cached_property
    def drops(self) -> list[Row]:
        """The rows that were left out, in the order of the clock."""
        return self._rows("drops")

    @cached_property
    def sunk(self) -> list[Row]:
        """The rows that came out, in the order of the clock."""
        return self._rows("sunk")

    @cached_property
    def calls(self) -> dict[tuple[str, int], list[Row]]:
        """The asynchronous calls by vertex and instance."""
        return _grouped(self._rows("calls"), "vertex", "instance")

    def _rows(self, table: str) -> list[Row]:
        return self._recording.table(table).to_pylist()  # type: ignore[no-any-return]

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
        """The queues into an instance, of one edge or of all, by edge and place."""
        found = [
            row
            for row in self.queues
            if row["target"] == vertex and row["target_instance"] == instance and edge in {None, row["edge"]}
        ]
        return sorted(found, key=lambda row: (row["edge"], row["input"]))

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
        for item in self.items.get((queue["queue"],), ()):
            if item["execution"] == execution and item["put_ms"] <= at_ms:
                yield item

    def merging(
        self, vertex: str, instance: int, level: Level, execution: int, at_ms: int, edge: int | None = None
    ) -> Merging:
        """One level of merging of an instance at a moment."""
        found = _Merging(self._inputs(vertex, instance, level, edge))
        for row in self.steps.get((vertex, instance), ()):
            if (
                row["execution"] == execution
                and row["at_ms"] <= at_ms
                and row["level"] == level
                and row["edge"] == edge
            ):
                found.take(row)
        return found.merging()

    def _inputs(self, vertex: str, instance: int, level: Level, edge: int | None) -> list[int]:
        if level == "edge":
            return [queue["input"] for queue in self.into(vertex, instance, edge)]
        if level == "global":
            return sorted({queue["edge"] for queue in self.into(vertex, instance)})
        return sorted({row["partition"] for row in self.source_rows.get((vertex, instance), ())})


class _Merging:
    """A level of merging while its steps are followed."""

    def __init__(self, inputs: list[int]) -> None:
        self.active, self.idle, self.done = inputs, list[int](), list[int]()
        self.marks: dict[int, dict[int, tuple[int, int]]] = {}
        self.emitted: dict[int, tuple[int, int]] = {}

    def take(self, row: Row) -> None:
        self.active, self.idle, self.done = row["active"], row["idle"], row["done"]
        if row["input"] is not None and row["key"] is not None and row["value"] is not None:
            known = self.marks.setdefault(row["input"], {})
            if known.get(row["key"], (None, 0))[0] != row["value"]:
                known[row["key"]] = (row["value"], row["at_ms"])
        self.emitted |= {key: (value, row["at_ms"]) for key, value in row["emitted"]}

    def merging(self) -> Merging:
        return Merging(
            active=tuple(self.active),
            idle=tuple(self.idle),
            done=tuple(self.done),
            marks=self.marks,
            emitted=self.emitted,
        )


def read(row: str) -> dict[str, Any]:
    """A row of a table as column to value."""
    found: dict[str, Any] = json.loads(row)
    return found


def _keyed(row: Row) -> Row:
    return {**row, "keys": dict(row["keys"])}


def _grouped(rows: list[Row], *names: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found
