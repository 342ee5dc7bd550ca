"""A scene as SVG text, 900 px wide, and the elements that SVG pictures are made of.

Every function returns text and depends on its arguments alone, so equal data give equal bytes. An element carries its
light colour as an attribute and its role as a class; the document adds the dark colours for readers who prefer them.
No scripts, no ids, no outside fonts or files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, pairwise
from typing import Final

from wmlab.core.charts.axis import Tick
from wmlab.core.charts.scene import (
    TITLE,
    Between,
    Blocks,
    Box,
    Dots,
    Layer,
    Named,
    Panel,
    Path,
    Scene,
    Steps,
    bands,
    legend_rows,
    staircases,
)
from wmlab.core.charts.style import (
    FONT,
    LABEL_PX,
    ROLES,
    TEXT_PX,
    THIN_PX,
    TICK_PX,
    TITLE_PX,
    RuleLabels,
    jupyter_style,
    text_width,
)
from wmlab.core.words import joined

_CLASS: Final = re.compile(r'class="wmlab-(fill|stroke)-(\w+)"')
_WIDTH, _MARGIN = 900.0, 20.0
_NARROW: Final = 560.0
_BY_COLUMN: Final = (
    "<div class='wmlab-page' style='container-type:inline-size'><style>@container (max-width:820px){"
    f".wmlab-wide{{display:none}}.wmlab-narrow{{display:block!important}}}}{jupyter_style('.wmlab-page')}</style>"
)
_LEVEL, _GAP, _AXIS, _LEGEND, _TITLE_LINE = 19.0, 18.0, 50.0, 22.0, 22.0
_SWATCH: Final = 26.0
_LABEL_LINE: Final = 15.0


def draw_svg(scene: Scene, width: float = _WIDTH, *, headed: bool = True, hover: bool = False) -> str:
    """The scene as SVG text, `width` px wide: title and subtitle, the legend, the labels of the rules, the panels.

    Without the first two if it is not `headed`: where they stand above the picture. With `hover` a browser shows the
    words of a marker or a rectangle next to the pointer.
    """
    plot, text_px = width - scene.left - scene.right, width - 2 * _MARGIN
    labels = scene.rule_labels(plot, gap=14, beside=(scene.left - _MARGIN, scene.right - _MARGIN))
    head = scene.subtitle_lines(width=text_px) if headed else []
    title = scene.title_lines(width=text_px) if headed else []
    head_top = (29.0 if headed else 10.0) + _TITLE_LINE * len(title)
    legend = legend_rows(scene.legend, text_px, beside=_SWATCH + 22)
    legend_top = head_top - 5 + 19 * len(head)
    labels_bottom = legend_top + _LEGEND * len(legend) + labels.rows * _LEVEL
    areas = _areas(scene, labels_bottom + 10, plot)
    titles = ((30 + _TITLE_LINE * n, line) for n, line in enumerate(title))
    parts = [text(_MARGIN, y, line, "title", size=TITLE_PX, bold=True) for y, line in titles]
    parts += [text(_MARGIN, head_top + 19 * n, line, "text", size=TEXT_PX) for n, line in enumerate(head)]
    parts += [*_legend(legend, legend_top), *_axes(scene, areas), *_rules(scene, labels, labels_bottom, areas)]
    for panel, area in zip(scene.panels, areas, strict=True):
        for layer in panel.drawn:
            parts += _inside(layer, area, hover=hover)
        parts += _panel_title(panel, area, width)
        if panel.note:
            middle = area.left + area.width / 2, area.top + area.height / 2
            parts.append(text(*middle, panel.note, "text", size=15, anchor="middle"))
    return document(
        width,
        areas[-1].bottom + _AXIS,
        title=scene.title,
        desc=joined(scene.subtitle, scene.left_out(labels)),
        parts=parts,
    )


def svg_for_page(scene: Scene) -> str:
    """The scene as HTML, drawn in two widths; a page shows the one that fits its column.

    In a narrow column the texts of the wide one would be too small to read. In JupyterLab it has the colours of the
    theme. Where styles are stripped, as on GitHub,
    the wide one is shown.
    """
    wide, narrow = draw_svg(scene), draw_svg(scene, _NARROW)
    both = f"<div class='wmlab-wide'>{wide}</div><div class='wmlab-narrow' style='display:none'>{narrow}</div>"
    return f"{_BY_COLUMN}{both}</div>"


def _panel_title(panel: Panel, area: PlotArea, width: float) -> list[str]:
    paragraphs = panel.title_lines(width=width - _MARGIN - area.left)
    lines = [(words, number == 0) for number, paragraph in enumerate(paragraphs) for words in paragraph]
    return [
        text(area.left, area.top - 6 - TITLE * above, words, "title", size=LABEL_PX, bold=bold)
        for above, (words, bold) in enumerate(reversed(lines))
    ]


def _areas(scene: Scene, top: float, width: float) -> list[PlotArea]:
    areas = []
    for panel in scene.panels:
        top += TITLE * sum(map(len, panel.title_lines(width=width + scene.right - _MARGIN)))
        x, y = scene.across, panel.up
        box = {"left": scene.left, "top": top, "width": width, "height": panel.height}
        areas.append(PlotArea(**box, x_low=x.low, x_high=x.high, y_low=y.low, y_high=y.high))
        top = areas[-1].bottom + _GAP
    return areas


def _legend(rows: list[list[tuple[float, Named]]], top: float) -> list[str]:
    parts = []
    for number, row in enumerate(rows):
        y = top + _LEGEND * number + 14
        for column, layer in row:
            x = _MARGIN + column
            parts += [*_swatch(layer, x, y - 4), text(x + _SWATCH + 6, y, layer.name, "text")]
    return parts


def _swatch(layer: Named, x: float, y: float) -> list[str]:
    if isinstance(layer, Steps | Path):
        return [line([(x, y), (x + _SWATCH, y)], layer.role)]
    if isinstance(layer, Dots):
        return [point(x + _SWATCH / 2, y, layer.shape, layer.role, size=max(layer.size, 3.5))]
    return _rectangle(layer, x, x + _SWATCH, y - 6, y + 6)


def _rectangle(layer: Blocks, left: float, right: float, top: float, bottom: float) -> list[str]:
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    outline = [line([*corners, corners[0]], layer.role)] if layer.outlined else []
    return [polygon(corners, layer.role, opacity=layer.opacity), *outline]


def _axes(scene: Scene, areas: list[PlotArea]) -> list[str]:
    columns = scene.across.ticks(6 if scene.across.instants else 8)
    parts = []
    for panel, area in zip(scene.panels, areas, strict=True):
        below = area.bottom if area is areas[-1] else None
        rows = [] if panel.note else panel.up.ticks(8 if panel.height > 200 else 4)
        parts += x_axis(area, columns, title=scene.across.title, below=below)
        parts += y_axis(area, rows, title=panel.up.title, offset=area.left - _MARGIN - 6)
    return parts


def _rules(scene: Scene, labels: RuleLabels, labels_bottom: float, areas: list[PlotArea]) -> list[str]:
    parts = []
    for rule, label, lines in zip(scene.rules, labels.places, labels.texts, strict=True):
        x = areas[0].x(rule.x)
        top = labels_bottom - label.middle * _LEVEL if label else labels_bottom + 4
        parts.append(line([(x, areas[-1].bottom), (x, top)], "mark"))
        parts.append(point(x, top, rule.shape, "text", size=4))
        if label:
            side, anchor = (-8, "end") if label.before else (8, "start")
            first = top + 4 - _LABEL_LINE * (len(lines) - 1) / 2
            parts += [
                text(x + side, first + _LABEL_LINE * number, words, "text", size=LABEL_PX, anchor=anchor)
                for number, words in enumerate(lines)
            ]
    return parts


def _inside(layer: Layer, area: PlotArea, *, hover: bool) -> list[str]:
    """The layer, of which nothing is drawn above or below the plot."""
    if isinstance(layer, Blocks):
        return _layer(layer, area, hover=hover)
    values = (*layer.lows, *layer.highs) if isinstance(layer, Between) else layer.ys
    if all(value is None or area.has(value) for value in values):
        return _layer(layer, area, hover=hover)
    if isinstance(layer, Dots):
        rows = [row for row, y in enumerate(layer.ys) if area.has(y)]
        xs, ys = [layer.xs[row] for row in rows], [layer.ys[row] for row in rows]
        words = [layer.hover[row] for row in rows] if layer.hover else []
        return _layer(replace(layer, xs=xs, ys=ys, hover=words), area, hover=hover)
    # What is drawn in a picture of its own ends at the rim of that.
    box = " ".join(map(_px, (area.left, area.top, area.width, area.height)))
    names = dict(zip(("x", "y", "width", "height"), box.split(), strict=True))
    return [_begin("svg", names | {"viewBox": box}), *_layer(layer, area, hover=hover), "</svg>"]


def _layer(layer: Layer, area: PlotArea, *, hover: bool) -> list[str]:
    if isinstance(layer, Steps):
        return _stairs(layer, area)
    if isinstance(layer, Path):
        runs = groupby(zip(layer.xs, layer.ys, strict=True), key=lambda point: None not in point)
        lines = [[(area.x(x), area.y(y)) for x, y in run if x is not None and y is not None] for _, run in runs]
        return [line(pixels, layer.role, thin=layer.thin) for pixels in lines if len(pixels) > 1]
    if isinstance(layer, Dots):
        middles = zip(layer.xs, layer.ys, strict=True)
        markers = [point(area.x(x), area.y(y), layer.shape, layer.role, size=layer.size) for x, y in middles]
        return [_titled(*pair) for pair in zip(markers, layer.hover, strict=True)] if hover and layer.hover else markers
    if isinstance(layer, Blocks):
        boxes = [(_box(layer, box, area), (box.hover or box.label) if hover else "") for box in layer.boxes]
        return [part for parts, words in boxes for part in ([_titled("".join(parts), words)] if words else parts)]
    outlines = bands(layer.xs, layer.lows, layer.highs)
    return [polygon([(area.x(x), area.y(y)) for x, y in outline], "band", opacity=0.14) for outline in outlines]


def _titled(part: str, words: str) -> str:
    """A part of the picture with the words that a browser shows next to the pointer."""
    return _element("g", {}, _element("title", {}, escape(words)) + part)


def _stairs(layer: Steps, area: PlotArea) -> list[str]:
    """The known stretches; one of no length is a point if it is the last row, and nothing within the curve."""
    parts = []
    for corners in staircases(layer.xs, layer.ys):
        pixels = [(area.x(x), area.y(y)) for x, y in corners]
        if len(pixels) > 1:
            parts.append(line(pixels, layer.role))
        elif corners[0][0] == layer.xs[-1]:
            parts.append(point(*pixels[0], "circle", layer.role, size=3.5))
    return parts


def _box(layer: Blocks, box: Box, area: PlotArea) -> list[str]:
    left, right = area.x(box.x_low), area.x(box.x_high)
    top, bottom = sorted((area.y(box.y_low), area.y(box.y_high)))
    parts = _rectangle(layer, left, right, top, bottom)
    if layer.beside:
        drawn = parts if right > left else []
        return [*drawn, text(right + 8, (top + bottom) / 2 + 4, box.label, "text")]
    if box.label and text_width(box.label, LABEL_PX) + 6 < right - left and bottom - top > 13:
        parts.append(text(left + 5, min((top + bottom) / 2 + 4, top + 15), box.label, "title", size=LABEL_PX))
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotArea:
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

    def has(self, value: float) -> bool:
        """Whether a value lies in the y range."""
        return min(self.y_low, self.y_high) <= value <= max(self.y_low, self.y_high)

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
    size = {"width": _px(width), "height": _px(height)}
    look = {"role": "img", "font-family": escape(FONT), "style": "max-width:100%;height:auto"}
    where = {"xmlns": "http://www.w3.org/2000/svg", **size, "viewBox": f"0 0 {_px(width)} {_px(height)}"}
    drawn = [_element("rect", size | {"rx": "4"} | _fill("paper")), *parts]
    said = [_element(name, {}, escape(words)) for name, words in (("title", title), ("desc", desc))]
    return "\n".join(
        line for line in [_begin("svg", where | look), *said, _dark_style(drawn), *drawn, "</svg>"] if line
    )


def _begin(name: str, attributes: Mapping[str, str]) -> str:
    """The tag with which an element begins."""
    return " ".join([f"<{name}", *(f'{key}="{value}"' for key, value in attributes.items())]) + ">"


def _element(name: str, attributes: Mapping[str, str], content: str = "") -> str:
    """An element, whose content is SVG already."""
    begin = _begin(name, attributes)
    return f"{begin}{content}</{name}>" if content else f"{begin[:-1]}/>"


def text(
    x: float, y: float, words: str, role: str, *, size: float = TICK_PX, anchor: str = "start", bold: bool = False
) -> str:
    """One line of text; `y` is its baseline and `anchor` is start, middle or end."""
    extra = ({} if anchor == "start" else {"text-anchor": anchor}) | ({"font-weight": "600"} if bold else {})
    place = {"x": _px(x), "y": _px(y), "font-size": _px(size)}
    return _begin("text", place | extra | _fill(role)) + f"{escape(words)}</text>"


def line(points: Sequence[tuple[float, float]], role: str, *, thin: bool = False) -> str:
    """A polyline through pixel points, in the role's width, or thin, and dash."""
    look = ROLES[role]
    dash = {"stroke-dasharray": look.dash} if look.dash else {}
    stroke = _stroke(role, THIN_PX if thin else look.width) | dash | {"stroke-linejoin": "round"}
    return _element("path", {"d": _path(points)} | stroke)


def polygon(points: Sequence[tuple[float, float]], role: str, *, opacity: float) -> str:
    """A filled polygon through pixel points."""
    return _element("path", {"d": f"{_path(points)}Z"} | _fill(role) | {"fill-opacity": _px(opacity, 2)})


def point(x: float, y: float, shape: str, role: str, *, size: float = 4) -> str:
    """A marker centred at the pixel: circle, diamond, triangle or cross; `size` is half its width."""
    if shape == "circle":
        return _element("circle", {"cx": _px(x), "cy": _px(y), "r": _px(size)} | _fill(role))
    if shape == "cross":
        strokes = [[(x - size, y - size), (x + size, y + size)], [(x - size, y + size), (x + size, y - size)]]
        return _element("path", {"d": "".join(map(_path, strokes))} | _stroke(role, 2))
    corners = {
        "diamond": [(x, y - size), (x + size, y), (x, y + size), (x - size, y)],
        "triangle": [(x, y - size), (x + size, y + size), (x - size, y + size)],
    }[shape]
    return _element("path", {"d": f"{_path(corners)}Z"} | _fill(role))


def x_axis(area: PlotArea, ticks: Sequence[Tick], *, title: str, below: float | None) -> list[str]:
    """Vertical grid lines and, below the pixel row `below`, the tick labels and the title; None leaves them out."""
    parts = [line([(area.x(t.value), area.top), (area.x(t.value), area.bottom)], "grid") for t in ticks]
    if below is not None:
        parts += [text(area.x(t.value), below + 17, t.label, "text", anchor="middle") for t in ticks]
        parts.append(text(area.left + area.width / 2, below + 37, title, "text", size=TEXT_PX, anchor="middle"))
    return parts


def y_axis(area: PlotArea, ticks: Sequence[Tick], *, title: str, offset: float) -> list[str]:
    """Horizontal grid lines and, left of the panel, the tick labels and the title `offset` pixels away."""
    parts = [line([(area.left, area.y(t.value)), (area.right, area.y(t.value))], "grid") for t in ticks]
    parts += [text(area.left - 8, area.y(t.value) + 4, t.label, "text", anchor="end") for t in ticks]
    x, y = _px(area.left - offset), _px(area.top + area.height / 2)
    turned = {"font-size": _px(TEXT_PX), "text-anchor": "middle", "transform": f"rotate(-90 {x} {y})"}
    return [*parts, _begin("text", {"x": x, "y": y} | turned | _fill("text")) + f"{escape(title)}</text>"]


def _path(points: Sequence[tuple[float, float]]) -> str:
    corners = [(_px(x), _px(y)) for x, y in points]
    moves = ["M" + " ".join(corners[0])]
    for (from_x, from_y), (x, y) in pairwise(corners):
        if x != from_x and y != from_y:
            moves.append(f"L{x} {y}")
        elif x != from_x:
            moves.append(f"H{x}")
        elif y != from_y:
            moves.append(f"V{y}")
    return "".join(moves)


def _px(value: float, digits: int = 1) -> str:
    short = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def _fill(role: str) -> dict[str, str]:
    return {"class": f"wmlab-fill-{role}", "fill": ROLES[role].light}


def _stroke(role: str, width: float) -> dict[str, str]:
    return {
        "fill": "none",
        "class": f"wmlab-stroke-{role}",
        "stroke": ROLES[role].light,
        "stroke-width": _px(width),
    }


def _dark_style(drawn: Sequence[str]) -> str:
    """The dark colours of the roles that are drawn."""
    used = {match.groups() for part in drawn for match in _CLASS.finditer(part)}
    rules = "".join(
        f".wmlab-{kind}-{name}{{{kind}:{role.dark}}}"
        for name, role in ROLES.items()
        for kind in ("fill", "stroke")
        if (kind, name) in used
    )
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
