"""The edges of a dataflow: which vertex feeds which, where a row goes, and which input is drained first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from wmlab.core.values import Problem, Problems, value
from wmlab.dataflow.scenario.parts import Grouping

Routing = Literal["round_robin", "isolated", "broadcast", "partitioned"]
"""Where a row goes among the instances of the target."""


@value
class Edge:
    """Rows and watermarks flow from `source` to `target`; the order of a target's edges is that of its inputs.

    `routing` of a row: `round_robin` in turn, `isolated` to the instance of the same number, `broadcast` to all,
    `partitioned` to the one that the columns `by` choose. None: partitioned where the target groups or joins by
    columns, otherwise round robin. Watermarks and idle messages go to all instances that the edge reaches. An edge of
    a lower `priority` number is drained to its end before the others of its target are looked at.
    Source: upstream class `Edge`.
    """

    source: str
    target: str
    _: KW_ONLY
    routing: Routing | None = None
    by: Grouping = ()
    priority: Annotated[int, Field(ge=-1_000, le=1_000, strict=True)] = 0

    def __post_init__(self) -> None:
        if self.by and self.routing not in {None, "partitioned"}:
            message = f"only a partitioned edge has columns (got routing {self.routing!r})"
            raise Problems(f"Edge {self.source!r} to {self.target!r}", [Problem(("by",), message)])
        if self.routing == "partitioned" and not self.by:
            message = "a partitioned edge needs the columns that choose the instance"
            raise Problems(f"Edge {self.source!r} to {self.target!r}", [Problem(("by",), message)])

    def __repr__(self) -> str:
        marks = [f"routing={self.routing!r}"] if self.routing else []
        marks += [f"by={list(self.by)}"] if self.by else []
        marks += [f"priority={self.priority}"] if self.priority else []
        return f"Edge({', '.join([repr(self.source), repr(self.target), *marks])})"


def _edges(offered: object) -> object:
    """Edges among which texts such as `a -> b -> c` stand for plain ones."""
    if isinstance(offered, str):
        offered = (offered,)
    if not isinstance(offered, list | tuple):
        return offered
    return tuple(edge for entry in offered for edge in _of(entry))


def _of(entry: Any) -> Iterator[Edge | Mapping[str, object]]:
    if not isinstance(entry, str):
        yield entry
        return
    names = [name.strip() for name in entry.split("->")]
    if len(names) < 2 or not all(names):
        raise ValueError(f"write an edge as 'source -> target' (got {entry!r})")
    for source, target in pairwise(names):
        yield Edge(source, target)


Edges = Annotated[tuple[Edge, ...], BeforeValidator(_edges), Field(max_length=10_000)]
"""Edges as values, or as texts such as `orders -> join -> out`."""
