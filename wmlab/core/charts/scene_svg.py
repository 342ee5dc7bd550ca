"""A scene as SVG text, 900 px wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmlab.core.charts import svg
from wmlab.core.charts.axis import unlabelled
from wmlab.core.charts.labels import Placed, spread, stagger, text_width, wrap
from wmlab.core.charts.scene import Blocks, Box, Dots, Lanes, Layer, Panel, Path, Scene, Steps
from wmlab.core.charts.steps import bands, staircases

_WIDTH, _MARGIN, _RIGHT, _BARE_RIGHT = 900.0, 20.0, 132.0, 34.0
_LEVEL, _GAP, _AXIS, _LEGEND, _SMALL = 19.0, 18.0, 50.0, 22.0, 11.5
_SWATCH = 26.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Where everything stands, in pixels."""

    head: list[str]
    legend_top: float
    labels: list[Placed | None]
    lane_bottom: float
    panels: list[svg.Panel]


def draw_svg(scene: Scene) -> str:
    """The scene as SVG text."""
    frame = _arrange(scene)
    parts = [svg.text(_MARGIN, 30, scene.title, "title", size=17, bold=True)]
    parts += [svg.text(_MARGIN, 51 + 19 * n, line, "text", size=13) for n, line in enumerate(frame.head)]
    parts += _legend(scene, frame)
    parts += _axes(scene, frame)
    parts += _rules(scene, frame)
    for panel, place in zip(scene.panels, frame.panels, strict=True):
        for layer in panel.layers:
            parts += _layer(layer, place)
        parts += _end_labels(panel, place)
    bottom = frame.panels[-1].bottom + _AXIS
    return svg.document(_WIDTH, bottom, title=scene.title, desc=scene.subtitle, parts=parts)


def _arrange(scene: Scene) -> _Frame:
    left = max(_left(panel) for panel in scene.panels)
    right = _RIGHT if scene.labelled else _BARE_RIGHT
    width = _WIDTH - left - right
    span = scene.across.high - scene.across.low
    places = [(rule.x - scene.across.low) / span * width for rule in scene.rules]
    widths = [text_width(rule.label, _SMALL) + 9 for rule in scene.rules]
    levels, labels = stagger(places, widths, limit=_WIDTH - _MARGIN - left)
    without = labels.count(None)
    more = unlabelled(labels)
    head = wrap(scene.subtitle + more, width=_WIDTH - 2 * _MARGIN, size=13)
    legend_top = 46.0 + 19 * len(head)
    lane_bottom = legend_top + _LEGEND * len(_legend_rows(scene)) + levels * _LEVEL + (_LEVEL if without else 0)
    top = lane_bottom + 10
    panels = []
    for panel in scene.panels:
        place = svg.Panel(
            left=left,
            top=top,
            width=width,
            height=panel.height,
            x_low=scene.across.low,
            x_high=scene.across.high,
            y_low=panel.up.low,
            y_high=panel.up.high,
        )
        panels.append(place)
        top = place.bottom + _GAP
    return _Frame(head=head, legend_top=legend_top, labels=labels, lane_bottom=lane_bottom, panels=panels)


def _left(panel: Panel) -> float:
    widest = max((text_width(tick.label, 12) for tick in panel.up.ticks(6)), default=0.0)
    return _MARGIN + widest + (14 if isinstance(panel.up, Lanes) and not panel.up.title else 36)


def _legend_rows(scene: Scene) -> list[list[tuple[float, Path | Dots | Blocks]]]:
    """The legend's entries with their columns, in as many rows as they need."""
    rows: list[list[tuple[float, Path | Dots | Blocks]]] = []
    x = _WIDTH
    for layer in scene.legend:
        width = _SWATCH + 6 + text_width(layer.name, 12) + 16
        if x + width > _WIDTH - _MARGIN:
            rows.append([])
            x = _MARGIN
        rows[-1].append((x, layer))
        x += width
    return rows


def _legend(scene: Scene, frame: _Frame) -> list[str]:
    parts = []
    for number, row in enumerate(_legend_rows(scene)):
        y = frame.legend_top + _LEGEND * number + 14
        for x, layer in row:
            parts += _swatch(layer, x, y - 4)
            parts.append(svg.text(x + _SWATCH + 6, y, layer.name, "text"))
    return parts


def _swatch(layer: Path | Dots | Blocks, x: float, y: float) -> list[str]:
    if isinstance(layer, Path):
        return [svg.line([(x, y), (x + _SWATCH, y)], layer.role)]
    if isinstance(layer, Dots):
        return [svg.point(x + _SWATCH / 2, y, layer.shape, layer.role, size=max(layer.size, 3.5))]
    corners = [(x, y - 6), (x + _SWATCH, y - 6), (x + _SWATCH, y + 6), (x, y + 6)]
    return [svg.area(corners, layer.role, opacity=layer.opacity), svg.line([*corners, corners[0]], layer.role)]


def _axes(scene: Scene, frame: _Frame) -> list[str]:
    ticks = scene.across.ticks(6 if scene.across.instants else 8)
    parts = []
    for number, (panel, place) in enumerate(zip(scene.panels, frame.panels, strict=True)):
        last = number == len(scene.panels) - 1
        parts += svg.x_axis(place, ticks, title=scene.across.title, below=place.bottom if last else None)
        count = 8 if panel.height > 200 else 4
        parts += svg.y_axis(place, panel.up.ticks(count), title=panel.up.title, offset=place.left - _MARGIN - 6)
    return parts


def _rules(scene: Scene, frame: _Frame) -> list[str]:
    parts = []
    for rule, label in zip(scene.rules, frame.labels, strict=True):
        x = frame.panels[0].x(rule.x)
        top = frame.lane_bottom - (label.level + 0.5) * _LEVEL if label else frame.lane_bottom + 4
        parts.append(svg.line([(x, frame.panels[-1].bottom), (x, top)], "mark"))
        parts.append(svg.point(x, top, rule.shape, "text", size=4))
        if label:
            side, anchor = (-8, "end") if label.before else (8, "start")
            parts.append(svg.text(x + side, top + 4, rule.label, "text", size=_SMALL, anchor=anchor))
    return parts


def _layer(layer: Layer, place: svg.Panel) -> list[str]:
    if isinstance(layer, Steps):
        return [_stair(place, points, layer.role) for points in staircases(layer.xs, layer.ys)]
    if isinstance(layer, Path):
        return [svg.line(stretch, layer.role) for stretch in _stretches(layer, place)]
    if isinstance(layer, Dots):
        middles = zip(layer.xs, layer.ys, strict=True)
        return [svg.point(place.x(x), place.y(y), layer.shape, layer.role, size=layer.size) for x, y in middles]
    if isinstance(layer, Blocks):
        return [part for box in layer.boxes for part in _box(layer, box, place)]
    polygons = bands(layer.xs, layer.lows, layer.highs)
    return [svg.area([(place.x(x), place.y(y)) for x, y in polygon], "band", opacity=0.14) for polygon in polygons]


def _stair(place: svg.Panel, points: Sequence[tuple[int, int]], role: str) -> str:
    pixels = [(place.x(x), place.y(y)) for x, y in points]
    return svg.line(pixels, role) if len(pixels) > 1 else svg.point(*pixels[0], "circle", role, size=3)


def _stretches(layer: Path, place: svg.Panel) -> list[list[tuple[float, float]]]:
    stretches: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(layer.xs, layer.ys, strict=True):
        if x is None or y is None:
            stretches.append([])
        else:
            stretches[-1].append((place.x(x), place.y(y)))
    return [stretch for stretch in stretches if len(stretch) > 1]


def _box(layer: Blocks, box: Box, place: svg.Panel) -> list[str]:
    left, right = place.x(box.x_low), place.x(box.x_high)
    top, bottom = sorted((place.y(box.y_low), place.y(box.y_high)))
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    parts = [svg.area(corners, layer.role, opacity=layer.opacity), svg.line([*corners, corners[0]], layer.role)]
    if box.label and text_width(box.label, _SMALL) + 6 < right - left and bottom - top > 13:
        parts.append(svg.text(left + 5, min((top + bottom) / 2 + 4, top + 15), box.label, "title", size=_SMALL))
    return parts


def _end_labels(panel: Panel, place: svg.Panel) -> list[str]:
    known = [
        (layer, value)
        for layer in panel.layers
        if isinstance(layer, Steps) and layer.labelled and layer.ys and (value := layer.ys[-1]) is not None
    ]
    rows = spread([place.y(value) for _, value in known], gap=16, low=place.top + 6, high=place.bottom - 2)
    return [
        svg.text(place.right + 8, y + 4, layer.name, layer.role, size=12.5, bold=True)
        for (layer, _), y in zip(known, rows, strict=True)
    ]
