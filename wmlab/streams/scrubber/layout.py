"""From a recording to its frames: where each panel lies, its axis, and what never changes in it, as SVG.

The panels have axes of their own and two stand side by side, so they are no `wmlab.core.charts.scene.Scene`, which has
one axis across; they share its axes, ticks and SVG elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wmlab.core.charts import svg
from wmlab.core.charts.axis import Axis, OverTime, Tick, bulk_of_first, duration_unit, time_words
from wmlab.core.charts.scene import Value, staircases, thinned
from wmlab.core.charts.style import spread, text_width
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import is_instant
from wmlab.streams.scrubber import panels
from wmlab.streams.scrubber.frames import FrameItem, FramePanel, Incident, ScrubberFrames, changes_of
from wmlab.streams.scrubber.panels import KEY_UNITS, ScrubbedRun, read_run

_WIDTH, _RIGHT, _KEYS_RIGHT, _SEGMENTS_LEFT, _SEGMENTS_RIGHT = 960.0, 770.0, 420.0, 500.0, 852.0
_TITLE, _NOW, _AXIS, _GAP, _CURVES = 24.0, 14.0, 40.0, 8.0, 84.0
_LANE, _LOW = 21.0, 15.0
_MOST_POINTS, _LABEL_PX = 400, 13.0


_Curve = tuple[str, list[int], list[Value]]
"""Its name, and its clock and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """What all panels share."""

    run: ScrubbedRun
    clock: Axis
    event: Axis
    incidents: tuple[Incident, ...]
    left: float
    reader: str | None

    @property
    def words(self) -> panels.Words:
        """Writes an event time as the chart of bounds does."""
        return time_words([self.event.low, self.event.high], clock=[self.clock.low])


def frames_of(
    recording: Recording,
    *,
    stream: str,
    group: str | None = None,
    reader: str | None = None,
    bounds: Any = None,
    violations: Iterable[tuple[int, str]] = (),
) -> ScrubberFrames:
    """The frames of one stream as one group read it, by default the first group by name.

    `bounds` is a table of `recording.time_bounds` for that group; its perfect watermark is drawn in the readers'
    windows. `reader` is whose bounds the overview draws, by default the one that knew a lower bound for longest.
    `violations` are (moment, in words). Raises `ChartError` for a group that did not read the stream, a reader that it
    does not have, bounds of another stream or group, or a stream in which nothing happened.
    """
    run = read_run(recording, stream=stream, group=group, bounds=bounds)
    layout = _layout(run, panels.incidents_of(run, violations), panels.reader_of_overview(run, reader))
    low_ms = layout.clock.low
    keys = _keys(layout)
    known = panels.time_items(run, low_ms, layout.words)
    published = [row["at_ms"] for row in run.rows["positions"]]
    moments = sorted({*changes_of((keys.items, known), layout.incidents, low_ms), *published})
    beside = [] if run.group is None else [_segments(layout, moments)]
    times = _times(layout, known, max(panel.bottom for panel in (keys, *beside)) + _AXIS + _GAP)
    top = times.bottom + _AXIS + _GAP
    whole = _whole(layout, top)
    seen = {name: _whole(replace(layout, reader=name), top).still for name in run.readers[: panels.MOST_READERS]}
    drawn = (keys, *beside, times, whole)
    return ScrubberFrames(
        title=recording.name,
        low_ms=low_ms,
        high_ms=layout.clock.high,
        instants=layout.clock.instants,
        width=_WIDTH,
        height=whole.bottom + _AXIS + 4,
        panels=drawn,
        kinds=tuple(panels.kinds_of(layout.incidents)),
        incidents=layout.incidents,
        changes=changes_of((panel.items for panel in drawn), layout.incidents, low_ms),
        overviews=seen | {layout.reader or "": whole.still},
        reader=layout.reader,
    )


def _layout(run: ScrubbedRun, incidents: tuple[Incident, ...], reader: str | None) -> _Layout:
    clocks = [*run.times(), *(incident.at_ms for incident in incidents)]
    if not clocks or min(clocks) == max(clocks):
        raise ChartError(
            f"Nothing happened in the stream {run.stream!r}.", remedy="Record a run in which somebody writes or notes."
        )
    times = panels.known_times(run) or clocks
    unit = duration_unit(max(max(clocks) - min(clocks), max(times) - min(times)))
    names = [*panels.lane_names(run), *panels.kinds_of(incidents)]
    return _Layout(
        run=run,
        clock=Axis("clock", min(clocks), max(clocks), is_instant(clocks), unit),
        event=Axis("event time", min(times), max(max(times), min(times) + 1), is_instant(times, clock=clocks), unit),
        incidents=incidents,
        left=max(text_width(panels.shortened(name), 12) for name in names) + 16,
        reader=reader,
    )


def _keys(layout: _Layout) -> FramePanel:
    group = layout.run.group
    panel = FramePanel(
        title="Which segments are at work?",
        left=layout.left,
        width=(_RIGHT if group is None else _KEYS_RIGHT) - layout.left,
        lanes=len(panels.key_lanes(layout.run)),
        low=0,
        high=KEY_UNITS,
        items=panels.key_items(layout.run, layout.clock.low),
    )
    ticks = [Tick(KEY_UNITS * quarter / 4, label) for quarter, label in enumerate(("0", "¼", "½", "¾", "1"))]
    return _with_axis(panel, ticks, "key space")


def _segments(layout: _Layout, moments: list[int]) -> FramePanel:
    spans = panels.ownership_spans(layout.run)
    before, after = panels.reach(layout.run, spans)
    lanes = max((span.lane + 1 for span in spans), default=1)
    panel = FramePanel(
        title=f"Which stream cuts has group {layout.run.group} passed?",
        left=_SEGMENTS_LEFT,
        width=_SEGMENTS_RIGHT - _SEGMENTS_LEFT,
        lanes=min(lanes, panels.MOST_SEGMENTS),
        low=-before,
        high=after,
        items=panels.segment_items(layout.run, spans, moments, layout.words),
    )
    labelled = (panel.low, panel.low // 2, 0, panel.high)
    ticks = [Tick(at, f"{'−' if at < 0 else '+'}{panels.size_words(abs(at))}" if at else "0") for at in labelled]
    note = f"; the first {panel.lanes} segments" if lanes > panels.MOST_SEGMENTS else ""
    mark = svg.line([(panel.x(0), panel.lanes_top), (panel.x(0), panel.bottom)], "mark")
    return _with_axis(panel, ticks, f"bytes from the group's position{note}", mark)


def _times(layout: _Layout, known: tuple[FrameItem, ...], top: float) -> FramePanel:
    relative = layout.clock.instants == layout.event.instants
    event = layout.event
    low, high = panels.around_clock(layout.run) if relative else (event.low, event.high)
    panel = FramePanel(
        title="What have the writers noted, and what does a reader know?",
        left=layout.left,
        top=top,
        width=_RIGHT - layout.left,
        head_px=_TITLE + (_NOW if relative else 0),
        lanes=len(panels.lane_names(layout.run)),
        lane_px=_LANE,
        low=low,
        high=high,
        relative=relative,
        cursor=relative,
        items=known,
    )
    more = len(layout.run.writers) - panels.MOST_WRITERS
    note = f"; {more} more writers are not drawn" if more > 0 else ""
    if not relative:
        return _with_axis(panel, event.ticks(8), event.title + note)
    distance = Axis("event time, from the clock on", low, high, False, duration_unit(high - low))
    ticks = [Tick(tick.value, "+" * (tick.value > 0) + tick.label) for tick in distance.ticks(8)]
    return _with_axis(panel, ticks, distance.title + note)


def _whole(layout: _Layout, top: float) -> FramePanel:
    """The whole run: above the incidents, the bounds of one reader, or of the watermarks if nobody read."""
    whose = f"{layout.reader} of group {layout.run.group} sees" if layout.reader else "the watermarks have"
    clock, curves = layout.clock, _curves(layout)
    event, said = _overview_axis(layout, curves)
    panel = FramePanel(
        title=f"Where in the run is this? The bounds that {whose}",
        left=layout.left,
        top=top,
        width=_RIGHT - layout.left,
        head_px=_TITLE + _NOW + _CURVES,
        lanes=len(panels.kinds_of(layout.incidents)),
        lane_px=_LOW,
        low=clock.low,
        high=clock.high,
        cursor=True,
        items=panels.incident_items(layout.incidents, clock.low),
    )
    plane = _plane(panel, panel.lanes_top - _CURVES, _CURVES - 6, event.low, event.high)
    several = (ticks for most in (3, 4, 5, 6, 8, 10) if len(ticks := event.ticks(most)) > 1)
    parts = svg.y_axis(plane, next(several, event.ticks(10)), title=event.title, offset=panel.left - 14)
    ends: list[tuple[str, str, float]] = []
    for role, (name, xs, times) in curves.items():
        xs, ys = thinned(xs, [event.at_rim(time) for time in times], _MOST_POINTS)
        for stair in staircases(xs, ys):
            parts.append(svg.line([(plane.x(x), plane.y(y)) for x, y in stair], role))
        ends += [(role, name, plane.y(y)) for y in ys if y is not None][-1:]
    rows = spread([y for _, _, y in ends], gap=_LABEL_PX, low=plane.top + 4, high=plane.bottom)
    for (role, name, _), y in zip(ends, rows, strict=True):
        parts.append(svg.text(plane.right + 8, y + 4, name, role, size=11))
    title = f"{clock.title}. {said}" if said else clock.title
    return _with_axis(panel, clock.ticks(8), title, *parts, top=plane.top)


def _overview_axis(layout: _Layout, curves: Mapping[str, _Curve]) -> tuple[Axis, str]:
    """The event times of the overview, over the bulk of those of its curves, and what is said of the others."""
    every = {role: OverTime.steps(xs, ys) for role, (_, xs, ys) in curves.items()}
    lower, *others = every.values()
    clock_ms = layout.clock.high - layout.clock.low
    low, high = bulk_of_first(lower, others, least_ms=clock_ms)
    high = max(high, low + 1)
    axis = replace(layout.event, low=low, high=high, unit=duration_unit(max(clock_ms, high - low)))
    return axis, axis.said_beyond(every)


def _curves(layout: _Layout) -> dict[str, _Curve]:
    """By role: its name and the curve, with the last value held to the end of the run."""
    run, end_ms = layout.run, layout.clock.high
    whose, clock, rows = "watermark", "emitted_ms", run.rows["watermarks"]
    if layout.reader is not None:
        whose, clock = layout.reader, "at_ms"
        rows = [row for row in run.rows["windows"] if row["reader"] == whose]
    curves: dict[str, _Curve] = {
        role: (f"{role}, {whose}", [row[clock] for row in rows], [row[role] for row in rows])
        for role in ("lower", "upper")
    }
    if run.perfect:
        curves["perfect"] = "perfect watermark", [at for at, _ in run.perfect], [time for _, time in run.perfect]
    for _, xs, ys in curves.values():
        if xs and xs[-1] < end_ms:
            xs.append(end_ms)
            ys.append(ys[-1])
    return curves


def _plane(panel: FramePanel, top: float, height: float, low: float = 0.0, high: float = 1.0) -> svg.PlotArea:
    return svg.PlotArea(
        left=panel.left,
        top=top,
        width=panel.width,
        height=height,
        x_low=panel.low,
        x_high=panel.high,
        y_low=low,
        y_high=high,
    )


def _with_axis(
    panel: FramePanel, ticks: Sequence[Tick], title: str, *parts: str, top: float | None = None
) -> FramePanel:
    """The panel with its title, its axis, the lines between lanes, and further parts; the grid begins at `top`."""
    upper = panel.lanes_top if top is None else top
    grid = _plane(panel, upper, panel.bottom - upper)
    rows = [panel.lanes_top + lane * panel.lane_px for lane in range(panel.lanes + 1)]
    lines = [svg.line([(panel.left, y), (grid.right, y)], "grid") for y in rows]
    heading = svg.text(panel.left, panel.top + 14, panel.title, "title", size=13, bold=True)
    axis = svg.x_axis(grid, ticks, title=title, below=panel.bottom - 2)
    return replace(panel, still="\n".join([heading, *axis, *lines, *parts]))
