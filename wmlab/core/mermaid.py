"""Flowcharts as Mermaid text: nodes with a bold name and lines below it, edges with lines on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wmlab.core.words import in_mermaid

MIME: Final = "text/vnd.mermaid"
"""What JupyterLab draws as a diagram."""

RECTANGLE: Final = ("[", "]")
ROUND: Final = ("([", "])")
SUBROUTINE: Final = ("[[", "]]")
HEXAGON: Final = ("{{", "}}")
SLANTED: Final = ("[/", "/]")


_ABREAST: Final = 3
"""Nodes that have room one behind the other from left to right: the text of more would be small in a narrow column."""
_BELOW: Final = 5
"""Nodes that have room one below the other: a picture of more would be higher than a screen of 900 px."""


def head(depth: int) -> str:
    """The first line of a flowchart with so many nodes one behind the other: they go down where that alone has room."""
    return f"flowchart {'TB' if _ABREAST < depth <= _BELOW else 'LR'}"


def node(
    identifier: str, name: str, lines: Iterable[object] = (), *, shape: tuple[str, str] = RECTANGLE, beside: str = ""
) -> str:
    """The line of a node; `beside` stands after its name as it is."""
    opening, closing = shape
    label = "<br/>".join([f"<b>{in_mermaid(name)}</b>{beside}", *map(in_mermaid, lines)])
    return f'    {identifier}{opening}"{label}"{closing}'


def edge(source: str, target: str, lines: Iterable[str]) -> str:
    """The line of an edge between two nodes; `lines` stand on it as they are, without any it is bare."""
    label = "<br/>".join(lines)
    return f'    {source} -->|"{label}"| {target}' if label else f"    {source} --> {target}"
