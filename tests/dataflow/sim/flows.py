"""Small dataflows, their recordings, and questions to the tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wmlab import dataflow as flow
from wmlab.core.recording import Recording

Row = dict[str, Any]
Times = Sequence[int]


def source(name: str, moments: Times, **fields: Any) -> flow.Source:
    """A source of rows `t` that arrive at their times, with key 0 on `t`."""
    given: dict[str, Any] = {"columns": ["t"], "rows": [[t] for t in moments], "arrival": "t", "times": "t"}
    return flow.Source(name, **(given | fields))


def count(name: str = "count", size_ms: int = 100, **fields: Any) -> flow.Window:
    """A tumbling window that counts by `t`."""
    return flow.Window(name, size_ms, **({"column": "t", "aggregates": {"n": "count()"}} | fields))


def recorded(vertices: Iterable[Any], edges: Iterable[Any], **fields: Any) -> Recording:
    """The recording of a dataflow with a sink called `out`."""
    given: dict[str, Any] = {"duration_ms": 10_000, "seed": 1}
    dataflow = flow.Dataflow("test", vertices=[*vertices, flow.Sink("out")], edges=list(edges), **(given | fields))
    return dataflow.record()


def line(*vertices: Any, **fields: Any) -> Recording:
    """The recording of vertices one behind the other, the sink at last."""
    return recorded(vertices, [" -> ".join([*(vertex.name for vertex in vertices), "out"])], **fields)


def rows(run: Recording, table: str, **where: object) -> list[Row]:
    """The rows of a table that have the given values."""
    return [row for row in run.table(table).to_pylist() if all(row[name] == value for name, value in where.items())]


def results(run: Recording, **where: object) -> list[Row]:
    """The rows that came out, in their order, as dicts."""
    return [json.loads(row["row"]) for row in rows(run, "sunk", **where)]


def times(run: Recording) -> list[int]:
    """The times of the rows that came out, in their order."""
    return [row["t"] for row in results(run)]


def multiset(found: Iterable[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Rows as a multiset of their values."""
    return Counter(tuple(row.values()) for row in found)


def outcome(run: Recording) -> str:
    """How the last execution ended."""
    return str(rows(run, "executions")[-1]["outcome"])


def failure(run: Recording) -> str:
    """Why the only execution failed."""
    (row,) = rows(run, "executions")
    assert row["outcome"] == "failed"
    return str(row["reason"])


def queue_between(run: Recording, source_: str, target: str, instance: int = 0) -> list[Row]:
    """The items on the queue from the first instance of one vertex to an instance of another, in order."""
    numbers = {q["queue"] for q in rows(run, "queues", source=source_, target=target, target_instance=instance)}
    return [row for row in rows(run, "items") if row["queue"] in numbers]


def marks(run: Recording, source_: str, target: str, key: int = 0) -> list[int]:
    """The watermarks of a key between two vertices, in order."""
    return [row["value"] for row in queue_between(run, source_, target) if row["key"] == key]


def kinds(run: Recording, source_: str, target: str, instance: int = 0) -> list[str]:
    """The kinds of the items between two vertices, in order."""
    return [row["kind"] for row in queue_between(run, source_, target, instance)]
