"""A finished picture: its data, a plotly figure, an SVG and the sentence that states what it shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import resvg_py

from wmlab.core.charts.scene import Scene
from wmlab.core.charts.style import ROLES
from wmlab.core.charts.svg import draw_svg
from wmlab.core.errors import ChartError
from wmlab.core.files import as_path

if TYPE_CHECKING:
    import plotly.graph_objects as go  # type: ignore[import-untyped]

T = TypeVar("T")

_PNG_ZOOM = 2.0
_CONFIG = {"displaylogo": False, "responsive": False}
"""A notebook redraws a chart itself; a plot that is responsive as well loses its height while it is scrolled out."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Chart:
    """An answer as a picture.

    `sentence` states the answer, `data` holds what was drawn as plain lists (before any thinning), and `scene` is what
    is drawn. Nothing is drawn before it is needed: `figure()` gives the interactive picture, `svg` the still one, which
    viewers without plotly show (GitHub among them).
    """

    sentence: str
    data: dict[str, list[Any]]
    scene: Scene

    @property
    def svg(self) -> str:
        """The still picture as SVG text, in light and dark colours."""
        return draw_svg(self.scene)

    def figure(self) -> go.Figure:
        """The interactive picture, a new `plotly.graph_objects.Figure` at each call.

        It belongs to the caller: add traces, change the layout or export it; the chart stays as it is.

        >>> figure = chart.figure()                                        # doctest: +SKIP
        >>> figure.add_hline(y=30, line_dash="dot").update_layout(width=600)  # doctest: +SKIP
        """
        from wmlab.core.charts.plotly import draw_plotly  # plotly takes half a second to load

        return draw_plotly(self.scene)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """What a notebook stores: the same JSON, SVG and text for the same data, in every process."""
        return {
            "application/vnd.plotly.v1+json": json.loads(self.figure().to_json()) | {"config": _CONFIG},
            "image/svg+xml": self.svg,
            "text/plain": self.sentence,
        }

    def save(self, path: str | Path) -> Path:
        """Write the chart and return where to; the suffix decides what.

        `.html`: the interactive picture, on its own and offline; `.svg`: the still one; `.png`: the same in light
        colours at twice its size; `.json`: sentence and data; `.txt`: the sentence. Raises `ChartError` for any other
        suffix.
        """
        return save_as(path, "chart", self, _WRITERS)


def template() -> go.layout.Template:
    """The plotly template of all charts, readable on light and dark pages, for figures of your own."""
    from wmlab.core.charts.plotly import TEMPLATE  # plotly takes half a second to load

    return TEMPLATE


def _html(chart: Chart) -> bytes:
    config = _CONFIG | {"responsive": True}
    page: str = chart.figure().to_html(include_plotlyjs=True, config=config, div_id="wmlab-chart")
    return page.encode()


def _png(chart: Chart) -> bytes:
    return bytes(resvg_py.svg_to_bytes(svg_string=chart.svg, zoom=_PNG_ZOOM, background=ROLES["paper"].light))


def _json(chart: Chart) -> bytes:
    text = json.dumps({"sentence": chart.sentence, "data": chart.data}, ensure_ascii=False, indent=1)
    return f"{text}\n".encode()


_WRITERS: dict[str, Callable[[Chart], bytes]] = {
    ".html": _html,
    ".svg": lambda chart: chart.svg.encode(),
    ".png": _png,
    ".json": _json,
    ".txt": lambda chart: f"{chart.sentence}\n".encode(),
}


def save_as(path: str | Path, noun: str, value: T, writers: Mapping[str, Callable[[T], bytes]]) -> Path:
    """Write what the writer of the path's suffix makes of the value; raises `ChartError` without, or if it cannot."""
    target = as_path(path, ChartError)
    write = writers.get(target.suffix.lower())
    if write is None:
        raise ChartError(
            f"A {noun} cannot be saved as {target.name!r}: its suffix is {target.suffix!r}.",
            remedy=f"Choose one of {', '.join(writers)}.",
        )
    content = write(value)
    try:
        target.write_bytes(content)
    except OSError as wrong:
        problem = f"A {noun} cannot be saved as {str(target)!r}: {wrong.strerror}."
        raise ChartError(problem, remedy="Choose a file that you may write to.") from None
    return target
