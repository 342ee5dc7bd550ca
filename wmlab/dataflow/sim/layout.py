"""What a dataflow becomes when it runs: nodes with instances, links between them, and one queue per pair of instances.

A window in two stages is two nodes, the first of them called `NAME.frames`.

Source: "Keyed watermark support", Terminology; upstream classes `Vertex`, `Edge` and `ConcurrentConveyor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.plan import Output, Plan
from wmlab.dataflow.scenario.vertices import Edge, SessionWindow, StatefulMap, Window

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

    def instance(self, number: int) -> str:
        """What an instance is called."""
        return self.name if self.parallelism == 1 else f"{self.name}[{number}]"


@dataclass(frozen=True, slots=True)
class Link:
    """An edge as it runs: input `edge` of `target`; `columns` choose the instance."""

    source: str
    target: str
    edge: int
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
class Lane:
    """A queue: number, the link it belongs to, its two instances, and its index among the queues of that input."""

    number: int
    link: Link
    source_instance: int
    target_instance: int
    index: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes by name in the order of the flow, the links, and the queues."""

    nodes: dict[str, Node]
    links: tuple[Link, ...]
    lanes: tuple[Lane, ...]


def layout(dataflow: DataflowScenario) -> Layout:
    """What a dataflow becomes when it runs."""
    plan = dataflow.plan
    nodes: dict[str, Node] = {}
    links: list[Link] = []
    for name, output in plan.outputs.items():
        vertex = dataflow.vertex(name)
        two_stages = isinstance(vertex, Window) and vertex.stages == 2
        entry = name + FRAMES if two_stages else name
        for number, edge in enumerate(plan.inputs[name]):
            links.append(Link(edge.source, entry, number, edge.priority, *_routing(vertex, plan, edge, number)))
        if two_stages:
            frames = Output(("end", *vertex.by, *vertex.aggregates), tuple((key, "end") for key, _ in output.keys))
            nodes[entry] = Node(entry, vertex, frames, 1)
            links.append(Link(entry, name, 0, 0, "partitioned", vertex.by))
        nodes[name] = Node(name, vertex, output, 2 if two_stages else None)
    lanes: list[Lane] = []
    for link in links:
        for target in range(nodes[link.target].parallelism):
            sources = [target] if link.routing == "isolated" else range(nodes[link.source].parallelism)
            lanes += [Lane(len(lanes) + n, link, source, target, n) for n, source in enumerate(sources)]
    return Layout(nodes, tuple(links), tuple(lanes))


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
    if isinstance(target, SessionWindow | StatefulMap) or (isinstance(target, Window) and target.stages == 1):
        return "partitioned", target.by
    return "round_robin", ()
