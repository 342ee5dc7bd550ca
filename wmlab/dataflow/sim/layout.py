"""What a dataflow becomes when it runs: its nodes, the edges between them, and the channels of each edge.

A channel leads from one instance of a node to one instance of another.

Source: "Keyed watermark support", Terminology; upstream classes `Vertex`, `Edge`, `ConcurrentConveyor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from wmlab.dataflow.model.join import RIGHT
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.plan import Output, Plan
from wmlab.dataflow.scenario.vertices import Custom, Edge, HashJoin, SessionWindow, StatefulMap, Window

OWN_BY_INPUT: Final = "custom by input"
"""The kind of a processor of your own that gets the watermarks of each input by itself."""


@dataclass(frozen=True)
class Node:
    """A vertex as it runs."""

    name: str
    vertex: Any
    output: Output

    @property
    def kind(self) -> str:
        """What it is, in words."""
        if isinstance(self.vertex, Custom) and self.vertex.by_input:
            return OWN_BY_INPUT
        return str(self.vertex.kind).replace("_", " ")

    @property
    def parallelism(self) -> int:
        """How many instances it has."""
        return int(self.vertex.parallelism)

    def instance(self, number: int) -> str:
        """What an instance is called."""
        return self.name if self.parallelism == 1 else f"{self.name}[{number}]"

    def time(self, values: tuple[Any, ...]) -> int | None:
        """The time of a row that leaves it; None if it has none."""
        time = None if self.time_column is None else values[self.time_column]
        return time if type(time) is int else None

    @cached_property
    def time_column(self) -> int | None:
        """The index of the column that counts as the time of a row; None: it has none."""
        return None if self.output.time is None else self.output.columns.index(self.output.time)


@dataclass(frozen=True, slots=True)
class NodeEdge:
    """An edge as it runs: input edge `number` of `target`; `columns` choose the instance."""

    source: str
    target: str
    number: int
    priority: int
    routing: str
    columns: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The routing in words."""
        kind = self.routing.replace("_", " ")
        if self.routing != "partitioned":
            return kind
        return f"{kind} by {', '.join(self.columns)}" if self.columns else "all to one"


@dataclass(frozen=True, slots=True)
class Channel:
    """From one instance to another: its number, its edge, and its index among the channels into that input."""

    number: int
    edge: NodeEdge
    source_instance: int
    target_instance: int
    index: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes by name in the order of the flow, the edges, and the channels."""

    nodes: dict[str, Node]
    edges: tuple[NodeEdge, ...]
    channels: tuple[Channel, ...]


def layout(dataflow: DataflowScenario) -> Layout:
    """What a dataflow becomes when it runs."""
    plan = dataflow.plan
    nodes: dict[str, Node] = {}
    edges: list[NodeEdge] = []
    for name, output in plan.outputs.items():
        vertex = dataflow.vertex(name)
        for number, planned in enumerate(plan.inputs[name]):
            routing = _routing(vertex, plan, planned, number)
            edges.append(NodeEdge(planned.source, name, number, _priority(vertex, number), *routing))
        nodes[name] = Node(name, vertex, output)
    channels: list[Channel] = []
    for edge in edges:
        for target in range(nodes[edge.target].parallelism):
            sources = [target] if edge.routing == "isolated" else range(nodes[edge.source].parallelism)
            channels += [Channel(len(channels) + n, edge, source, target, n) for n, source in enumerate(sources)]
    return Layout(nodes, tuple(edges), tuple(channels))


def _priority(target: Any, number: int) -> int:
    """The priority of an input edge: the batch of a join is read first."""
    return -1 if isinstance(target, HashJoin) and number == RIGHT else 0


def _routing(target: Any, plan: Plan, edge: Edge, number: int) -> tuple[str, tuple[str, ...]]:
    """How rows of an edge are dealt out, and by which columns; what the edge does not say, the target decides."""
    if edge.routing is not None or edge.by:
        return edge.routing or "partitioned", edge.by
    if target.parallelism == 1:
        return "round_robin", ()
    if target.name in plan.joins:
        equal = plan.joins[target.name].equal
        if equal:
            return "partitioned", tuple(pair[number] for pair in equal)
        stays = 1 if target.outer == "right" else 0
        return ("round_robin" if number == stays else "broadcast"), ()
    if isinstance(target, HashJoin):
        return ("broadcast" if number == RIGHT else "round_robin"), ()
    if isinstance(target, SessionWindow | StatefulMap | Window):
        return "partitioned", target.by
    return "round_robin", ()
