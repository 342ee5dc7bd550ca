"""What is drawn of a table of time bounds, before any library draws it: rows, ranges, the lower panel, the words.

The main panel is the plane of the field: the reader's clock to the right, event time upwards. There both bounds rise
along the diagonal and their distance is hard to see, so a second panel shows it: bound minus perfect watermark, or
bound minus clock if the truth is not known and both are measured alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wmlab.core.charts.axis import Axis
from wmlab.core.charts.steps import Value, last_known, minus, thin, unknown_spans
from wmlab.core.charts.ticks import (
    SECOND_MS,
    duration_unit,
    is_instant,
)
from wmlab.streams.charts.bounds_facts import BoundsFacts
from wmlab.streams.charts.bounds_table import BoundsTable, Happening

CAP: Final = 800
"""Rows drawn at most, about: more than a notebook is wide in pixels, and few enough to store."""

SYMBOL: Final = {"scale": "diamond", "crash": "cross", "restart": "triangle", "silence": "cross", "speak": "triangle"}
"""Marker shape by kind of happening; any other kind is a circle."""

CURVE_NAMES: Final = {"upper": "upper bound", "truth": "perfect watermark", "lower": "lower bound"}
NOTHING: Final = "no bound is known"
"""What the main panel says if it has no curves."""

_MOST_ALARMS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """The lower panel: each bound minus the reference, which is the line at 0."""

    axis: Axis
    reference: str
    lower: list[Value]
    upper: list[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsPicture:
    """All that is drawn; the curves have one entry per entry of `at_ms`."""

    title: str
    subtitle: str
    clock: Axis
    event: Axis
    at_ms: list[int]
    curves: dict[str, list[Value]]
    distance: Distance | None
    happened: list[Happening]
    alarms: list[tuple[int, int, int]]
    """First positions of every stretch with lower above the truth: (clock, lower, lower minus truth)."""

    def ends(self) -> dict[str, tuple[int, int]]:
        """The last known point of each curve that has one."""
        found = {name: last_known(self.at_ms, values) for name, values in self.curves.items()}
        return {name: end for name, end in found.items() if end is not None}

    def unknown(self) -> dict[str, list[tuple[int, int]]]:
        """The stretches of the clock in which the lower or the upper bound is unknown."""
        found = {name: unknown_spans(self.at_ms, self.curves[name]) for name in ("lower", "upper")}
        return {name: spans for name, spans in found.items() if spans}


def compose(table: BoundsTable, facts: BoundsFacts, sentence: str, title: str | None) -> BoundsPicture:
    """Choose rows, ranges and words."""
    truth = table.perfect_watermark or [None] * len(table.at_ms)
    slack = minus(table.lower, truth)
    rows = thin([table.lower, table.upper, truth, slack, minus(table.upper, truth)], CAP)
    at_ms = [table.at_ms[i] for i in rows]
    curves = {"lower": _pick(table.lower, rows), "upper": _pick(table.upper, rows)}
    if table.perfect_watermark is not None:
        curves["truth"] = _pick(truth, rows)
    clock_axis, event_axis = _axes(table, curves)
    return BoundsPicture(
        title=title or _question(table),
        subtitle=f"{sentence} {_thinned(len(rows), facts.positions)}".strip(),
        clock=clock_axis,
        event=event_axis,
        at_ms=at_ms,
        curves=curves,
        distance=_distance(at_ms, curves, comparable=clock_axis.instants == event_axis.instants),
        happened=table.happened,
        alarms=_alarms(table, slack),
    )


def _question(table: BoundsTable) -> str:
    reader = f"reader group “{table.group}”" if table.group else "the reader"
    return f"What time has {reader} reached in stream “{table.stream}”?"


def strip_label(spans: Sequence[tuple[int, int]], clock: Axis) -> tuple[int, str]:
    """Where the strip of unknown stretches carries its label: a place on the clock, and on which side of it.

    "after" or "before" the longest stretch, or "beside" the panel if the stretches leave no room.
    """
    begin, end = max(spans, key=lambda span: span[1] - span[0])
    room = (clock.high - clock.low) * 2 // 10
    free_after = min((left for left, _ in spans if left >= end), default=clock.high) - end
    free_before = begin - max((right for _, right in spans if right <= begin), default=clock.low)
    if free_after >= room:
        return end, "after"
    return (begin, "before") if free_before >= room else (clock.high, "beside")


def _thinned(drawn: int, positions: int) -> str:
    return "" if drawn == positions else f"Drawn are {drawn:,} of {positions:,} positions."


def _pick(values: Sequence[Value], rows: Sequence[int]) -> list[Value]:
    return [values[i] for i in rows]


def _axes(table: BoundsTable, curves: dict[str, list[Value]]) -> tuple[Axis, Axis]:
    clocks = [*table.at_ms, *(happening.at_ms for happening in table.happened)]
    events = [value for values in curves.values() for value in values if value is not None]
    clock_low, clock_high = _range(clocks, pad_percent=0)
    event_low, event_high = _range(events, pad_percent=4)
    unit = duration_unit(max(clock_high - clock_low, event_high - event_low))
    return (
        Axis("reader's clock", clock_low, clock_high, is_instant(clocks), unit),
        Axis("event time", event_low, event_high, is_instant(events), unit),
    )


def _range(values: Sequence[int], *, pad_percent: int) -> tuple[int, int]:
    if not values:
        return 0, 1
    low, high = min(values), max(values)
    pad = (high - low) * pad_percent // 100 if low < high else SECOND_MS
    return low - pad, high + pad


def _distance(at_ms: list[int], curves: dict[str, list[Value]], *, comparable: bool) -> Distance | None:
    truth = curves.get("truth", [])
    if any(value is not None for value in truth):
        name, reference, words = "bound − truth", truth, "perfect watermark"
    elif comparable:
        name, reference, words = "bound − clock", list(at_ms), "clock"
    else:
        return None
    lower, upper = minus(curves["lower"], reference), minus(curves["upper"], reference)
    known = [value for value in (*lower, *upper) if value is not None]
    if not known:
        return None
    low, high = _range([*known, 0], pad_percent=8)
    return Distance(
        axis=Axis(name, low, high, False, duration_unit(high - low)), reference=words, lower=lower, upper=upper
    )


def _alarms(table: BoundsTable, slack: Sequence[Value]) -> list[tuple[int, int, int]]:
    found = []
    before: Value = None
    for at, lower, above in zip(table.at_ms, table.lower, slack, strict=True):
        if lower is not None and above is not None and above > 0 and not (before is not None and before > 0):
            found.append((at, lower, above))
        before = above
    return found[:_MOST_ALARMS]
