"""A small builder of SVG text for step charts: panels with axes, lines, areas, points and texts.

Every function returns a piece of text and depends on its arguments alone, so equal data give equal bytes. An element
carries its light colour as an attribute and its role as a class; the document adds the dark colours for readers who
prefer them. No scripts, no ids, no outside fonts or files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from wmlab.core.charts.style import FONT, ROLES
from wmlab.core.charts.ticks import Tick

_CLASS: Final = re.compile(r'class="wmlab-(fill|stroke)-(\w+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A rectangle in pixels with an x range along it and a y range up it, both in data units."""

    left: float
    top: float
    width: float
    height: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        """The pixel column of a data value."""
        return self.left + (value - self.x_low) / (self.x_high - self.x_low) * self.width

    def y(self, value: float) -> float:
        """The pixel row of a data value; rows count downwards."""
        return self.top + (self.y_high - value) / (self.y_high - self.y_low) * self.height

    @property
    def right(self) -> float:
        """The last pixel column."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The last pixel row."""
        return self.top + self.height


def document(width: float, height: float, *, title: str, desc: str, parts: Iterable[str]) -> str:
    """The whole picture; `title` and `desc` are what a screen reader says."""
    size = f'width="{_px(width)}" height="{_px(height)}" viewBox="0 0 {_px(width)} {_px(height)}"'
    look = f'role="img" font-family="{escape(FONT)}" style="max-width:100%;height:auto"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {look}>'
    paper = f'<rect width="{_px(width)}" height="{_px(height)}" rx="4" {_fill("paper")}/>'
    drawn = [paper, *parts]
    lines = [head, f"<title>{escape(title)}</title>", f"<desc>{escape(desc)}</desc>", _dark_style(drawn), *drawn]
    return "\n".join(line for line in [*lines, "</svg>"] if line)


def text(
    x: float, y: float, words: str, role: str, *, size: float = 12, anchor: str = "start", bold: bool = False
) -> str:
    """One line of text; `y` is its baseline and `anchor` is start, middle or end."""
    place = f'x="{_px(x)}" y="{_px(y)}" font-size="{_px(size)}"'
    extra = ("" if anchor == "start" else f' text-anchor="{anchor}"') + (' font-weight="600"' if bold else "")
    return f"<text {place}{extra} {_fill(role)}>{escape(words)}</text>"


def upright_text(x: float, y: float, words: str, role: str, *, size: float = 12) -> str:
    """A line of text that reads upwards, centred at the place: the title of a y axis."""
    turn = f'transform="rotate(-90 {_px(x)} {_px(y)})"'
    place = f'x="{_px(x)}" y="{_px(y)}" font-size="{_px(size)}" text-anchor="middle"'
    return f"<text {place} {turn} {_fill(role)}>{escape(words)}</text>"


def line(points: Sequence[tuple[float, float]], role: str) -> str:
    """A polyline through pixel points, in the role's width and dash."""
    look = ROLES[role]
    dash = f' stroke-dasharray="{look.dash}"' if look.dash else ""
    return (
        f'<path d="{_path(points)}" fill="none" {_stroke(role)} stroke-width="{_px(look.width)}"{dash}'
        ' stroke-linejoin="round"/>'
    )


def area(points: Sequence[tuple[float, float]], role: str, *, opacity: float) -> str:
    """A filled polygon through pixel points."""
    return f'<path d="{_path(points)}Z" {_fill(role)} fill-opacity="{_px(opacity, 2)}"/>'


def point(x: float, y: float, shape: str, role: str, *, size: float = 4) -> str:
    """A marker centred at the pixel: circle, diamond, triangle or cross; `size` is half its width."""
    if shape == "circle":
        return f'<circle cx="{_px(x)}" cy="{_px(y)}" r="{_px(size)}" {_fill(role)}/>'
    if shape == "cross":
        strokes = [[(x - size, y - size), (x + size, y + size)], [(x - size, y + size), (x + size, y - size)]]
        crossing = "".join(_path(stroke) for stroke in strokes)
        return f'<path d="{crossing}" fill="none" {_stroke(role)} stroke-width="2"/>'
    corners = {
        "diamond": [(x, y - size), (x + size, y), (x, y + size), (x - size, y)],
        "triangle": [(x, y - size), (x + size, y + size), (x - size, y + size)],
    }[shape]
    return f'<path d="{_path(corners)}Z" {_fill(role)}/>'


def x_axis(panel: Panel, ticks: Sequence[Tick], *, title: str, below: float | None) -> list[str]:
    """Vertical grid lines and, below the pixel row `below`, the tick labels and the title; None leaves them out."""
    parts = [line([(panel.x(t.value), panel.top), (panel.x(t.value), panel.bottom)], "grid") for t in ticks]
    if below is not None:
        parts += [text(panel.x(t.value), below + 17, t.label, "text", anchor="middle") for t in ticks]
        parts.append(text(panel.left + panel.width / 2, below + 37, title, "text", size=13, anchor="middle"))
    return parts


def y_axis(panel: Panel, ticks: Sequence[Tick], *, title: str, offset: float) -> list[str]:
    """Horizontal grid lines and, left of the panel, the tick labels and the title `offset` pixels away."""
    parts = [line([(panel.left, panel.y(t.value)), (panel.right, panel.y(t.value))], "grid") for t in ticks]
    parts += [text(panel.left - 8, panel.y(t.value) + 4, t.label, "text", anchor="end") for t in ticks]
    return [*parts, upright_text(panel.left - offset, panel.top + panel.height / 2, title, "text", size=13)]


def _path(points: Sequence[tuple[float, float]]) -> str:
    (first_x, first_y), *rest = points
    pieces = [f"M{_px(first_x)} {_px(first_y)}"]
    at = (_px(first_x), _px(first_y))
    for x, y in rest:
        to = (_px(x), _px(y))
        if to[1] == at[1] and to[0] != at[0]:
            pieces.append(f"H{to[0]}")
        elif to[0] == at[0] and to[1] != at[1]:
            pieces.append(f"V{to[1]}")
        elif to != at:
            pieces.append(f"L{to[0]} {to[1]}")
        at = to
    return "".join(pieces)


def _px(value: float, digits: int = 1) -> str:
    short = f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
    return "0" if short in ("-0", "") else short


def _fill(role: str) -> str:
    return f'class="wmlab-fill-{role}" fill="{ROLES[role].light}"'


def _stroke(role: str) -> str:
    return f'class="wmlab-stroke-{role}" stroke="{ROLES[role].light}"'


def _dark_style(drawn: Sequence[str]) -> str:
    """The dark colours of the roles that are drawn."""
    used = {(found[1], found[2]) for part in drawn for found in _CLASS.finditer(part)}
    rules = "".join(
        f".wmlab-{kind}-{name}{{{kind}:{role.dark}}}"
        for name, role in ROLES.items()
        for kind in ("fill", "stroke")
        if (kind, name) in used
    )
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
