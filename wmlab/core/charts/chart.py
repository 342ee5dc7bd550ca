"""A finished picture: its data, a plotly figure, an SVG and the sentence that states what it shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
import resvg_py

from wmlab.core.charts.mime import asked_for
from wmlab.core.charts.style import ROLES
from wmlab.core.errors import ChartError

_PNG_ZOOM = 2.0
_CONFIG = {"displaylogo": False, "responsive": True}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Chart:
    """An answer as a picture.

    `sentence` states the answer, `data` holds what was drawn as plain lists (before any thinning), `figure` is the
    interactive picture and `svg` the still one, which viewers without plotly show (GitHub among them).
    """

    sentence: str
    data: dict[str, list[Any]]
    figure: go.Figure
    svg: str

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """What a notebook stores: the same JSON, SVG and text for the same data, in every process."""
        bundle = {
            "application/vnd.plotly.v1+json": json.loads(self.figure.to_json()) | {"config": _CONFIG},
            "image/svg+xml": self.svg,
            "text/plain": self.sentence,
        }
        return asked_for(bundle, include, exclude)

    def save(self, path: str | Path) -> Path:
        """Write the chart and return where to; the suffix decides what.

        `.html`: the interactive picture, on its own and offline; `.svg`: the still one; `.png`: the same in light
        colours at twice its size; `.json`: sentence and data; `.txt`: the sentence. Raises `ChartError` for any other
        suffix.
        """
        target = Path(path)
        write = _WRITERS.get(target.suffix.lower())
        if write is None:
            raise ChartError(
                f"A chart cannot be saved as {target.name!r}: its suffix is {target.suffix!r}.",
                remedy=f"Choose one of {', '.join(_WRITERS)}.",
            )
        target.write_bytes(write(self))
        return target


def _html(chart: Chart) -> bytes:
    page: str = chart.figure.to_html(include_plotlyjs=True, config=_CONFIG, div_id="wmlab-chart")
    return page.encode()


def _json(chart: Chart) -> bytes:
    text = json.dumps({"sentence": chart.sentence, "data": chart.data}, ensure_ascii=False, indent=1)
    return f"{text}\n".encode()


def _png(chart: Chart) -> bytes:
    return bytes(resvg_py.svg_to_bytes(svg_string=chart.svg, zoom=_PNG_ZOOM, background=ROLES["paper"].light))


_WRITERS: dict[str, Callable[[Chart], bytes]] = {
    ".html": _html,
    ".svg": lambda chart: chart.svg.encode(),
    ".png": _png,
    ".json": _json,
    ".txt": lambda chart: f"{chart.sentence}\n".encode(),
}
