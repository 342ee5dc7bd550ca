"""A dataflow as a Mermaid flowchart: its vertices in their shapes, the watermark keys written on the edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from wmlab.dataflow.scenario.edges import Edge
from wmlab.dataflow.scenario.plan import Output, Plan
from wmlab.dataflow.scenario.windows import Join

if TYPE_CHECKING:
    from wmlab.dataflow.scenario.dataflow import DataflowScenario

MIME: Final = "text/vnd.mermaid"
"""What JupyterLab draws as a diagram."""

_SHAPES: Final = {
    "source": ("([", "])"),
    "sink": ("[[", "]]"),
    "join": ("{{", "}}"),
    "window": ("[/", "/]"),
    "session_window": ("[/", "/]"),
}
_LONGEST: Final = 90


def mermaid(dataflow: DataflowScenario, plan: Plan) -> str:
    """The text of the chart, left to right."""
    return "\n".join(["flowchart LR", *_lines(dataflow, plan)]) + "\n"


def _lines(dataflow: DataflowScenario, plan: Plan) -> Iterator[str]:
    ids = {vertex.name: f"v{number}" for number, vertex in enumerate(dataflow.vertices)}
    for vertex in dataflow.vertices:
        opening, closing = _SHAPES.get(vertex.kind, ("[", "]"))
        copies = f" ×{vertex.parallelism}" if vertex.parallelism > 1 else ""
        lines = [vertex.kind.replace("_", " "), _short(vertex.detail)]
        lines += [
            f"key {key} is not on {', '.join(without)}" for name, key, without in plan.stuck if name == vertex.name
        ]
        label = "<br/>".join([f"<b>{_text(vertex.name)}</b>{copies}", *map(_text, lines)])
        yield f'    {ids[vertex.name]}{opening}"{label}"{closing}'
    for edge in dataflow.edges:
        label = "<br/>".join(_edge_words(edge, plan.outputs[edge.source], _side(dataflow, plan, edge)))
        yield f'    {ids[edge.source]} -->|"{label}"| {ids[edge.target]}'


def _side(dataflow: DataflowScenario, plan: Plan, edge: Edge) -> str:
    """Which side of a join an edge is; empty for other vertices."""
    joins = any(vertex.name == edge.target and isinstance(vertex, Join) for vertex in dataflow.vertices)
    return ("left", "right")[plan.inputs[edge.target].index(edge)] if joins else ""


def _edge_words(edge: Edge, output: Output, side: str) -> Iterator[str]:
    if side:
        yield side
    yield from (f"key {key}: {column or '–'}" for key, column in output.keys)
    if not output.keys:
        yield "no watermark"
    if edge.routing is not None:
        by = f" by {', '.join(edge.by)}" if edge.by else ""
        yield _text(edge.routing.replace("_", " ") + by)
    if edge.priority:
        yield f"priority {edge.priority}"


def keys_text(output: Output) -> str:
    """The keys on an edge in words: `key 0: t, key 1: no column`."""
    return ", ".join(f"key {key}: {column or 'no column'}" for key, column in output.keys)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _text(text: Any) -> str:
    """Text that Mermaid shows as it is: its own marks, and those of HTML, as numbered characters."""
    return "".join(c if c.isalnum() or c in " .,_-+*/():×…'" else f"#{ord(c)};" for c in str(text))
