"""What never changes in the panels of a scrubber: titles, axes, lanes and the curves of the whole run, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wmlab.core.charts import svg
from wmlab.core.charts.axis import Axis, Tick, Unit, duration_ticks, duration_unit
from wmlab.core.charts.layout import spread
from wmlab.core.charts.steps import Value, last_known, staircases, thin
from wmlab.streams.scrubber.film import Panel
from wmlab.streams.scrubber.tables import Run
from wmlab.streams.scrubber.times import Truth, readers_of

_CAP: Final = 400
_QUARTERS: Final = ("0", "¼", "½", "¾", "1")
_LABEL_PX: Final = 13.0


def keys_axis(panel: Panel) -> Panel:
    """The panel with an axis over the key space."""
    ticks = [Tick(panel.low + (panel.high - panel.low) * i / 4, label) for i, label in enumerate(_QUARTERS)]
    return replace(panel, still=_joined(panel, ticks, "key space"))


def bytes_axis(panel: Panel, *, more: bool) -> Panel:
    """The panel with an axis of bytes before and after the group's position; `more`: not all segments have a lane."""
    places = (panel.low, panel.low // 2, 0, panel.high)
    ticks = [Tick(at, f"{'−' if at < 0 else '+'}{_bytes(abs(at))}" if at else "0") for at in places]
    note = f"; the first {panel.lanes} segments" if more else ""
    middle = _plane(panel).x(0)
    here = svg.line([(middle, panel.lanes_top), (middle, panel.bottom)], "mark")
    return replace(panel, still=_joined(panel, ticks, f"bytes from the group's position{note}", here))


def time_axis(panel: Panel, axis: Axis, *, more: int) -> Panel:
    """The panel with an axis of event time; `more` writers have no lane."""
    note = f"; {more} more writers are not drawn" if more else ""
    if not panel.relative:
        return replace(panel, still=_joined(panel, axis.ticks(8), axis.title + note))
    unit = duration_unit(panel.high - panel.low)
    ticks = [Tick(t.value, t.label if t.value <= 0 else f"+{t.label}") for t in _durations(panel, unit)]
    return replace(panel, still=_joined(panel, ticks, f"event time, from the clock on ({unit.symbol}){note}"))


def _durations(panel: Panel, unit: Unit) -> list[Tick]:
    return duration_ticks(panel.low, panel.high, count=8, unit=unit)


def history(panel: Panel, clock: Axis, event: Axis, run: Run, truth: Truth | None, *, curves_px: float) -> Panel:
    """The panel with an axis of the clock and, above the lanes, the bounds over the whole run.

    The bounds are those of the first reader by name, or of the watermarks if nobody read.
    """
    plane = replace(
        _plane(panel),
        top=panel.lanes_top - curves_px,
        height=curves_px - 6,
        y_low=event.low,
        y_high=event.high,
    )
    who, curves = _curves(run, truth, clock.high)
    parts = svg.y_axis(plane, event.ticks(3), title=event.name, offset=panel.left - 14)
    ends: dict[str, float] = {}
    for role, (xs, ys) in curves.items():
        kept = thin([ys], _CAP) if ys else []
        for stair in staircases([xs[i] for i in kept], [ys[i] for i in kept]):
            parts.append(svg.line([(plane.x(x), plane.y(y)) for x, y in stair], role))
        if (end := last_known(xs, ys) if xs else None) is not None:
            ends[role] = plane.y(end[1])
    places = spread(list(ends.values()), gap=_LABEL_PX, low=plane.top + 4, high=plane.bottom)
    for role, y in zip(ends, places, strict=True):
        said = "truth" if role == "truth" else f"{role}, {who}"
        parts.append(svg.text(plane.right + 8, y + 4, said, role, size=11))
    return replace(panel, still=_joined(panel, clock.ticks(8), clock.title, *parts, top=plane.top))


def _curves(run: Run, truth: Truth | None, end_ms: int) -> tuple[str, dict[str, tuple[list[int], list[Value]]]]:
    readers = readers_of(run)
    if readers:
        rows, clock, who = [row for row in run.rows["windows"] if row["reader"] == readers[0]], "at_ms", readers[0]
    else:
        rows, clock, who = list(run.rows["watermarks"]), "emitted_ms", "watermark"
    found: dict[str, tuple[list[int], list[Value]]] = {}
    for role in ("lower", "upper"):
        found[role] = _held([row[clock] for row in rows], [row[role] for row in rows], end_ms)
    if truth is not None:
        found["truth"] = _held(list(truth.at_ms), list(truth.values), end_ms)
    return who, found


def _held(xs: list[int], ys: list[Value], end_ms: int) -> tuple[list[int], list[Value]]:
    """The curve with its last value held to the end of the run."""
    return ([*xs, end_ms], [*ys, ys[-1]]) if xs and xs[-1] < end_ms else (xs, ys)


def _plane(panel: Panel) -> svg.PlotArea:
    return svg.PlotArea(
        left=panel.left,
        top=panel.lanes_top,
        width=panel.width,
        height=panel.lanes * panel.lane_px,
        x_low=panel.low,
        x_high=panel.high,
        y_low=0,
        y_high=1,
    )


def _joined(panel: Panel, ticks: Sequence[Tick], title: str, *parts: str, top: float | None = None) -> str:
    """Title, axis, the lines between lanes, and further parts."""
    plane = _plane(panel)
    upper = panel.lanes_top if top is None else top
    grid = replace(plane, top=upper, height=panel.bottom - upper)
    lanes = [panel.lanes_top + lane * panel.lane_px for lane in range(panel.lanes + 1)]
    lines = [svg.line([(panel.left, y), (plane.right, y)], "grid") for y in lanes]
    heading = svg.text(panel.left, panel.top + 14, panel.title, "title", size=13, bold=True)
    return "\n".join([heading, *svg.x_axis(grid, ticks, title=title, below=panel.bottom - 2), *lines, *parts])


def _bytes(size: int) -> str:
    for unit, name in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"
