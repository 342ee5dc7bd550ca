"""The texts of a plotly figure in the colours of the page that shows it.

A figure knows colours by their numbers only, so its texts have one grey. Its texts may carry CSS, however, and CSS
knows the background of the page. So what a notebook stores has each text in a span with the colour of its role; a
browser follows the theme at once, and a viewer that does not know the colour leaves the grey. `Chart.figure()` has
plain texts.

A hover box has a background of its own, and texts in it keep their colour: plotly takes the spans out of names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wmlab.core.charts.style import GREY, PAGE, ROLES, page_colour

_ROLES: Final = {role.both: name for name, role in reversed(ROLES.items())} | {GREY: "text"}
"""What a text of this colour stands for."""
_END: Final = "</span>"

PAGE_STYLE: Final = (
    f"<style>:root{{color-scheme:light dark;{PAGE}:{ROLES['paper'].light}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{PAGE}:{ROLES['paper'].dark}}}}}"
    f"body{{background:var({PAGE})}}</style>"
)
"""The background of a page of its own, which follows the desktop."""


def themed(figure: Mapping[str, Any]) -> dict[str, Any]:
    """The figure, as JSON has it, with its texts in the colours of the page; `figure` stays as it is.

    It has no title: question and answer of a stored figure stand above it, as HTML.
    """
    layout = dict(figure["layout"])
    for name, part in layout.items():
        if name.startswith(("xaxis", "yaxis")):
            layout[name] = _axis(part)
    layout["annotations"] = [
        note | {"text": _in_colour(note["text"], note.get("font", {}).get("color", GREY))}
        for note in layout.get("annotations", ())
    ]
    return {**figure, "data": [_trace(trace) for trace in figure["data"]], "layout": layout}


def _axis(axis: Mapping[str, Any]) -> dict[str, Any]:
    if axis.get("visible") is False:
        return dict(axis)
    texts: dict[str, Any] = {"tickprefix": _begin("text"), "ticksuffix": _END}
    if "title" in axis:
        texts["title"] = {**axis["title"], "text": _span(axis["title"]["text"], "text")}
    if "ticktext" in axis:
        texts["ticktext"] = [_span(text, "text") for text in axis["ticktext"]]
    return {**axis, **texts}


def _trace(trace: Mapping[str, Any]) -> dict[str, Any]:
    texts: dict[str, Any] = {}
    if trace.get("showlegend"):
        texts["name"] = _span(trace["name"], "text")
    if "text" in trace:
        inside = trace.get("textposition") == "inside"
        colour = trace.get("textfont", {}).get("color", GREY)
        texts["text"] = [_span(text, "title") if inside else _in_colour(text, colour) for text in trace["text"]]
    return {**trace, **texts}


def _in_colour(text: str, colour: str) -> str:
    return _span(text, _ROLES.get(colour, "text"))


def _span(text: str, role: str) -> str:
    return f"{_begin(role)}{text}{_END}" if text.strip() else text


def _begin(role: str) -> str:
    return f'<span style="color:{page_colour(role)}">'
