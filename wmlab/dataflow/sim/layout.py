"""What a dataflow becomes when it runs: nodes with instances, links between them, and one queue per pair of instances.

A window in two stages is two nodes, the first of them called `NAME.frames`.

Source: "Keyed watermark support", Terminology; upstream classes `Vertex`, `Edge` and `ConcurrentConveyor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.edges import Edge
from wmlab.dataflow.scenario.join import rule_of
from wmlab.dataflow.scenario.plan import Output, Plan
from wmlab.dataflow.scenario.vertices import Join, SessionWindow, StatefulMap, Window

FRAMES: Final = ".frames"
"""How the name of the first of two stages ends."""


@dataclass(frozen=True, slots=True)
class Node:
    """A vertex as it runs; `stage` is 1 or 2 of a window in two stages, otherwise None."""

    name: str
    vertex: Any
    output: Output
    stage: int | None = None

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return str(self.vertex.kind).replace("_", " ")

    @property
    def parallelism(self) -> int:
        """How many instances it has."""
        return int(self.vertex.parallelism)


@dataclass(frozen=True, slots=True)
class Link:
    """An edge as it runs: input `edge` of `target`; `by` are the places of the columns that choose the instance."""

    source: str
    target: str
    edge: int
    priority: int
    routing: str
    by: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The routing in words."""
        kind = self.routing.replace("_", " ")
        if self.routing != "partitioned":
            return kind
        return f"{kind} by {', '.join(self.columns)}" if self.columns else "all to one"


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue: number, the link it belongs to, its two instances, and its place among the queues of that input."""

    number: int
    link: Link
    source_instance: int
    target_instance: int
    place: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes in the order of the flow, the links, and the queues."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    lanes: tuple[Lane, ...]

    def node(self, name: str) -> Node:
        """The node with that name."""
        return next(node for node in self.nodes if node.name == name)

    def inputs(self, name: str) -> tuple[Link, ...]:
        """The links into a node, by the number of the input."""
        return tuple(link for link in self.links if link.target == name)


def layout(dataflow: DataflowScenario) -> Layout:
    """What a dataflow becomes when it runs."""
    plan = dataflow.plan
    nodes = tuple(node for name in plan.order for node in _nodes(dataflow.vertex(name), plan.outputs[name]))
    links = tuple(link for name in plan.order for link in _links(dataflow, plan, name))
    copies = {node.name: node.parallelism for node in nodes}
    lanes: list[Lane] = []
    for link in links:
        for target in range(copies[link.target]):
            sources = [target] if link.routing == "isolated" else range(copies[link.source])
            lanes += [Lane(len(lanes) + n, link, source, target, n) for n, source in enumerate(sources)]
    return Layout(nodes, links, tuple(lanes))


def _nodes(vertex: Any, output: Output) -> tuple[Node, ...]:
    if not isinstance(vertex, Window) or vertex.stages == 1:
        return (Node(vertex.name, vertex, output),)
    frames = Output(("end", *vertex.by, *vertex.aggregates), tuple((key, "end") for key, _ in output.keys))
    return Node(vertex.name + FRAMES, vertex, frames, 1), Node(vertex.name, vertex, output, 2)


def _links(dataflow: DataflowScenario, plan: Plan, name: str) -> Sequence[Link]:
    vertex = dataflow.vertex(name)
    two_stages = isinstance(vertex, Window) and vertex.stages == 2
    entry = name + FRAMES if two_stages else name
    links = []
    for number, edge in enumerate(plan.inputs[name]):
        given = plan.outputs[edge.source]
        routing, columns = _routing(dataflow, plan, edge, number)
        places = tuple(given.columns.index(column) for column in columns)
        links.append(Link(edge.source, entry, number, edge.priority, routing, places, columns))
    if two_stages:
        places = tuple(range(1, 1 + len(vertex.by)))
        links.append(Link(entry, name, 0, 0, "partitioned", places, vertex.by))
    return links


def _routing(dataflow: DataflowScenario, plan: Plan, edge: Edge, number: int) -> tuple[str, tuple[str, ...]]:
    """How rows of an edge are dealt out, and by which columns; what the edge does not say, the target decides."""
    target = dataflow.vertex(edge.target)
    if edge.routing is not None or edge.by:
        return edge.routing or "partitioned", edge.by
    if target.parallelism == 1:
        return "round_robin", ()
    if isinstance(target, Join):
        left, right = (plan.outputs[side.source] for side in plan.inputs[target.name])
        equal = rule_of(target, left, right).equal
        if equal:
            return "partitioned", tuple(pair[number] for pair in equal)
        stays = 1 if target.outer == "right" else 0
        return ("round_robin", ()) if number == stays else ("broadcast", ())
    if isinstance(target, SessionWindow | StatefulMap) or (isinstance(target, Window) and target.stages == 1):
        return "partitioned", target.by
    return "round_robin", ()
