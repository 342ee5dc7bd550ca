"""From a recording to a film: the key space, the tape, event time and the whole run, as panels that move together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from wmlab.core.charts.axis import Axis, duration_unit, format_duration, format_instant, is_instant
from wmlab.core.charts.layout import text_width
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.streams.charts.bounds_facts import read_bounds
from wmlab.streams.scrubber.axes import bytes_axis, history, keys_axis, time_axis
from wmlab.streams.scrubber.board import changes_of
from wmlab.streams.scrubber.film import Film, Happened, Item, Panel
from wmlab.streams.scrubber.happened import happened_items, happenings, kinds_of
from wmlab.streams.scrubber.keys import KEYS, key_items
from wmlab.streams.scrubber.tables import Run, read_run
from wmlab.streams.scrubber.tape import MOST_LANES, reach, stays_of, tape_items
from wmlab.streams.scrubber.times import (
    MOST_WRITERS,
    Truth,
    Words,
    around_clock,
    known_times,
    lane_names,
    shortened,
    time_items,
)

WIDTH: Final = 960.0
_RIGHT: Final = 770.0
_TITLE, _NOW, _AXIS, _GAP = 24.0, 14.0, 40.0, 8.0
_TALL, _LANE, _LOW = 30.0, 21.0, 15.0
_CURVES: Final = 84.0
_KEYS_RIGHT, _TAPE_LEFT, _TAPE_RIGHT = 420.0, 500.0, 852.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """What all panels of a film share."""

    run: Run
    clock: Axis
    event: Axis
    truth: Truth | None
    left: float

    @property
    def words(self) -> Words:
        """Writes an event time as the chart of bounds does."""
        span_ms = self.event.high - self.event.low
        return (lambda time: format_instant(time, span_ms=span_ms)) if self.event.instants else format_duration


def film_of(
    recording: Recording,
    *,
    stream: str,
    group: str | None = None,
    bounds: Any = None,
    violations: Iterable[tuple[int, str]] = (),
) -> Film:
    """The film of one stream as one group read it, by default the first group by name.

    `bounds` is a table of `recording.time_bounds` for that group; its perfect watermark is drawn in the readers'
    windows. `violations` are (moment, in words). Raises `ChartError` for a group that did not read the stream, bounds
    of another stream or group, or a stream in which nothing happened.
    """
    run = read_run(recording, stream=stream, group=group)
    truth = _truth(bounds, run)
    happened = happenings(run, violations)
    frame = _frame(run, truth, happened)
    panels, height = _panels(frame, happened)
    return Film(
        title=recording.name,
        low_ms=frame.clock.low,
        high_ms=frame.clock.high,
        instants=frame.clock.instants,
        width=WIDTH,
        height=height,
        panels=panels,
        kinds=tuple(kinds_of(happened)),
        happened=happened,
        changes=changes_of((panel.items for panel in panels), happened, frame.clock.low),
    )


def _truth(bounds: Any, run: Run) -> Truth | None:
    if bounds is None:
        return None
    table = read_bounds(bounds)
    if (table.stream, table.group) != (run.stream, run.group):
        raise ChartError(
            f"The bounds are of stream {table.stream!r}, group {table.group!r}; "
            f"the scrubber shows {run.stream!r}, {run.group!r}.",
            remedy="Pass recording.time_bounds(spark) with the rows of that stream and group.",
        )
    return None if table.perfect_watermark is None else Truth(table.at_ms, table.perfect_watermark)


def _frame(run: Run, truth: Truth | None, happened: tuple[Happened, ...]) -> _Frame:
    clocks = [*run.times(), *(h.at_ms for h in happened)]
    if not clocks or min(clocks) == max(clocks):
        raise ChartError(
            f"Nothing happened in the stream {run.stream!r}.", remedy="Record a run in which somebody writes or notes."
        )
    times = known_times(run, truth) or clocks
    unit = duration_unit(max(max(clocks) - min(clocks), max(times) - min(times)))
    names = [*lane_names(run), *kinds_of(happened)]
    return _Frame(
        run=run,
        clock=Axis("clock", min(clocks), max(clocks), is_instant(clocks), unit),
        event=Axis("event time", min(times), max(max(times), min(times) + 1), is_instant(times), unit),
        truth=truth,
        left=max(text_width(shortened(name), 12) for name in names) + 16,
    )


def _panels(frame: _Frame, happened: tuple[Happened, ...]) -> tuple[tuple[Panel, ...], float]:
    """The panels from top to bottom, and the height of all."""
    keys = _keys(frame)
    known = time_items(frame.run, frame.clock.low, frame.truth, frame.words)
    others = chain(changes_of((keys.items, known), happened, frame.clock.low), _publishes(frame.run))
    tape = _tape(frame, sorted(set(others)))
    top = max(keys.bottom, tape.bottom if tape else 0) + _AXIS + _GAP
    times = _times(frame, known, top)
    whole = _whole(frame, happened, times.bottom + _AXIS + _GAP)
    panels = [keys, *([tape] if tape else []), times, whole]
    return tuple(panels), whole.bottom + _AXIS + 4


def _publishes(run: Run) -> list[int]:
    return [row["at_ms"] for row in run.rows["positions"]]


def _keys(frame: _Frame) -> Panel:
    lanes = 2 if frame.run.group is None else 3
    right = _RIGHT if frame.run.group is None else _KEYS_RIGHT
    return keys_axis(
        Panel(
            title="Which segments are at work?",
            left=frame.left,
            top=0,
            width=right - frame.left,
            head_px=_TITLE,
            lanes=lanes,
            lane_px=_TALL,
            low=0,
            high=KEYS,
            items=key_items(frame.run, frame.clock.low),
        )
    )


def _tape(frame: _Frame, moments: list[int]) -> Panel | None:
    if frame.run.group is None:
        return None
    stays = stays_of(frame.run)
    before, after = reach(frame.run, stays)
    lanes = min(max((stay.lane + 1 for stay in stays), default=1), MOST_LANES)
    return bytes_axis(
        Panel(
            title=f"Which stream cuts has group {frame.run.group} passed?",
            left=_TAPE_LEFT,
            top=0,
            width=_TAPE_RIGHT - _TAPE_LEFT,
            head_px=_TITLE,
            lanes=lanes,
            lane_px=_TALL,
            low=-before,
            high=after,
            items=tape_items(frame.run, stays, moments, frame.words),
        ),
        more=any(stay.lane >= MOST_LANES for stay in stays),
    )


def _times(frame: _Frame, known: tuple[Item, ...], top: float) -> Panel:
    relative = frame.clock.instants == frame.event.instants
    low, high = around_clock(frame.run, frame.truth) if relative else (frame.event.low, frame.event.high)
    panel = Panel(
        title="What have the writers noted, and what does a reader know?",
        left=frame.left,
        top=top,
        width=_RIGHT - frame.left,
        head_px=_TITLE + (_NOW if relative else 0),
        lanes=len(lane_names(frame.run)),
        lane_px=_LANE,
        low=low,
        high=high,
        relative=relative,
        cursor=relative,
        items=known,
    )
    return time_axis(panel, frame.event, more=max(len(frame.run.writers) - MOST_WRITERS, 0))


def _whole(frame: _Frame, happened: tuple[Happened, ...], top: float) -> Panel:
    panel = Panel(
        title="Where in the run is this?",
        left=frame.left,
        top=top,
        width=_RIGHT - frame.left,
        head_px=_TITLE + _NOW + _CURVES,
        lanes=len(kinds_of(happened)),
        lane_px=_LOW,
        low=frame.clock.low,
        high=frame.clock.high,
        cursor=True,
        items=happened_items(happened, frame.clock.low),
    )
    return history(panel, frame.clock, frame.event, frame.run, frame.truth, curves_px=_CURVES)
