"""A frame of a film as SVG: the same drawing that `static/draw.js` makes in a browser, item by item.

Both draw from the same items and sizes; a test in the browser holds them together.
"""

from __future__ import annotations

from collections.abc import Iterator

from wmlab.core.charts import svg
from wmlab.core.charts.layout import text_width, wrap
from wmlab.core.charts.style import ROLES
from wmlab.streams.scrubber.film import STYLES, Film, Item, Panel, Style

_MARGIN, _SMALL, _SIZE = 16.0, 10.5, 11.5
_MARKER, _NOW_PX = 4.5, 32.0


def still_picture(film: Film, at_ms: int, notice: str = "") -> str:
    """The frame at a moment as a document, with the sentence above it."""
    sentence = film.sentence(at_ms)
    said = [f"{sentence[0].upper()}{sentence[1:]}." if sentence else "", f"{notice}." if notice else ""]
    lines = [line for part in said if part for line in wrap(part, width=film.width - 2 * _MARGIN, size=13)]
    head_px = 34.0 + 19 * len(lines) + 12
    parts = [svg.text(_MARGIN, 26, film.heading(at_ms), "title", size=17, bold=True)]
    parts += [svg.text(_MARGIN, 48 + 19 * place, line, "text", size=13) for place, line in enumerate(lines)]
    body = "\n".join(frame_parts(film, at_ms))
    parts.append(f'<g transform="translate(0 {head_px:g})">{body}</g>')
    return svg.document(
        film.width, film.height + head_px, title=film.heading(at_ms), desc=film.text(at_ms), parts=parts
    )


def frame_parts(film: Film, at_ms: int) -> Iterator[str]:
    """What is drawn at a moment: of each panel what never changes, its items, and the cursor."""
    for panel in film.panels:
        yield panel.still
        there = panel.there(at_ms)
        clock = at_ms if panel.relative else 0
        origins = {item.lane: item.low for item in there if STYLES[item.style].shape == "origin"}
        for item in there:
            yield from _drawn(panel, item, origins.get(item.lane, clock))
        if panel.cursor:
            x = _x(panel, at_ms - clock)
            yield svg.line([(x, panel.top + _NOW_PX + 3), (x, panel.bottom)], "title")
            yield svg.text(x, panel.top + _NOW_PX, "now", "title", size=_SMALL, anchor="middle")


def _x(panel: Panel, value: float) -> float:
    return panel.left + (value - panel.low) / (panel.high - panel.low) * panel.width


def _drawn(panel: Panel, item: Item, origin: int) -> Iterator[str]:
    style = STYLES[item.style]
    top = panel.lanes_top + (item.lane or 0) * panel.lane_px
    middle = top + panel.lane_px / 2
    if style.shape == "name":
        yield svg.text(panel.left - 8, middle + 4, item.label, style.role, size=_SIZE, anchor="end")
    elif style.shape == "value":
        yield svg.text(panel.left + panel.width + 8, middle + 4, item.label, style.role, size=_SIZE)
    elif style.shape in ("block", "bar"):
        yield from _area(panel, item, style, origin, top)
    elif style.shape != "origin" and panel.low <= item.low - origin <= panel.high:
        yield from _point(panel, item, style, _x(panel, item.low - origin), middle)


def _area(panel: Panel, item: Item, style: Style, origin: int, top: float) -> Iterator[str]:
    low, high = (min(max(value - origin, panel.low), panel.high) for value in (item.low, item.high))
    left, right = _x(panel, low), _x(panel, high)
    if right <= left:
        return
    inset = 2.0 if style.shape == "block" else panel.lane_px * 0.36
    bottom = top + panel.lane_px - inset
    corners = [(left, top + inset), (right, top + inset), (right, bottom), (left, bottom)]
    yield svg.polygon(corners, style.role, opacity=style.opacity)
    if style.shape == "block":
        yield svg.line([*corners, corners[0]], style.role)
        if label := fitting(item.label, right - left):
            middle = top + panel.lane_px / 2
            yield svg.text((left + right) / 2, middle + 4, label, "title", size=_SMALL, anchor="middle")


def fitting(label: str, width: float) -> str:
    """The label if it fits into the width, else its first word if that does, else nothing."""
    wishes = (label, label.partition(" ")[0], "")
    return next(wish for wish in wishes if text_width(wish, _SMALL) + 6 <= width or not wish)


def _stands_before(panel: Panel, label: str, role: str, x: float) -> bool:
    """Whether a flag's label stands left of its pole: that of a lower bound does, unless it would leave the panel."""
    wide = text_width(label, _SMALL) + 4
    if role == "lower":
        return x - wide >= panel.left
    return x + wide > panel.left + panel.width


def _point(panel: Panel, item: Item, style: Style, x: float, middle: float) -> Iterator[str]:
    half = panel.lane_px / 2
    if style.shape == "line":
        yield svg.line([(x, panel.lanes_top), (x, panel.bottom)], style.role)
    elif style.shape == "tick":
        long = 0.62 if ROLES[style.role].width > 1 else 0.4
        yield svg.line([(x, middle - half * long), (x, middle + half * long)], style.role)
    elif style.shape == "flag":
        yield svg.line([(x, middle - half + 2), (x, middle + half - 2)], style.role)
        before = _stands_before(panel, item.label, style.role, x)
        side, anchor = (-4, "end") if before else (4, "start")
        # Of two labels the lower bound's stands above the bar and the upper bound's below it, so they never meet.
        y = middle - half + 9 if style.role == "lower" else middle + half - 2.5
        yield svg.text(x + side, y, item.label, style.role, size=_SMALL, anchor=anchor)
    else:
        yield svg.point(x, middle, style.shape, style.role, size=_MARKER)
