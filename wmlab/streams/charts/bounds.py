"""The chart of lower and upper time bounds: how far a reader is in event time, and how sure that is.

The main panel has the reader's clock to the right and event time upwards. There both bounds rise along the diagonal
and their distance is hard to see, so a panel below shows it: bound minus perfect watermark, or bound minus clock if the
perfect watermark is not known and both are measured alike. Between the two a strip shows where a bound is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wmlab.core.charts.axis import Axis, duration_unit, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SHAPES
from wmlab.core.charts.scene import Between, Blocks, Box, Dots, Layer, Panel, Path, Rule, Scene, Steps, lanes
from wmlab.core.charts.steps import Value, minus, thin, unknown_spans
from wmlab.streams.charts.bounds_facts import BoundsFacts, BoundsTable, describe, find_facts, read_bounds

CAP: Final = 800
"""Rows drawn at most, about: more than a notebook is wide in pixels, and few enough to store."""

_MOST_ALARMS: Final = 60
_STRIP: Final = 16.0
_NAMES: Final = {"upper": "upper bound", "truth": "perfect watermark", "lower": "lower bound"}


def time_bounds(bounds: Any, *, title: str | None = None) -> Chart:
    """Draw the lower and upper bound of one reader or group over its clock, with the perfect watermark between them.

    `bounds` is a pandas or Spark DataFrame with the columns `stream`, `at_ms` (the reader's clock, ms), `lower` and
    `upper` (event time in ms, null if unknown), one row per position. It may have `perfect_watermark` (the smallest
    event time still to come, null if nothing is) and `happened` (a list of structs `at_ms`, `kind`, `what`, drawn as
    vertical lines; `what` names who crashed, or says it: "w2" or "w2 crashes"). Rows are sorted by `at_ms` and, if
    there, by `version`. Times from 1973 on, in ms since 1970, are written as dates in UTC; smaller ones as durations.

    The panel below shows each bound minus the perfect watermark, or minus the clock if that is not known. `title`
    replaces the question above the chart; the sentence under it is the answer, computed from all rows.

    Raises `ChartError` for a missing column, no rows, a time that is no integer, or rows of several streams, groups
    or segments.
    """
    table = read_bounds(bounds)
    facts = find_facts(table)
    sentence = describe(table, facts)
    return Chart(sentence=sentence, data=_data(table), scene=_compose(table, facts, sentence, title))


def _data(table: BoundsTable) -> dict[str, list[Any]]:
    data: dict[str, list[Any]] = {"at_ms": table.at_ms, "lower": table.lower, "upper": table.upper}
    if table.perfect_watermark is not None:
        data["perfect_watermark"] = table.perfect_watermark
    happened = [{"at_ms": h.at_ms, "kind": h.kind, "what": h.what} for h in table.happened]
    return data | {"happened": happened}


def _compose(table: BoundsTable, facts: BoundsFacts, sentence: str, title: str | None) -> Scene:
    perfect = table.perfect_watermark or [None] * len(table.at_ms)
    excess = minus(table.lower, perfect)
    rows = thin([table.lower, table.upper, perfect, excess, minus(table.upper, perfect)], CAP)
    at_ms = [table.at_ms[i] for i in rows]
    curves = {
        role: [values[i] for i in rows]
        for role, values in (("upper", table.upper), ("truth", table.perfect_watermark), ("lower", table.lower))
        if values is not None
    }
    clock, event = _axes(table, curves)
    alarms = _alarms(table, excess)
    main: list[Layer] = [Between(xs=at_ms, lows=curves["lower"], highs=curves["upper"])]
    main += [Steps(name=_NAMES[role], role=role, xs=at_ms, ys=values) for role, values in curves.items()]
    main.append(_crosses([at for at, _, _ in alarms], [lower for _, lower, _ in alarms]))
    known = any(value is not None for values in curves.values() for value in values)
    reader = f"reader group “{table.group}”" if table.group else "the reader"
    fewer = "" if len(rows) == facts.positions else f" Drawn are {len(rows):,} of {facts.positions:,} positions."
    return Scene(
        title=title or f"What time has {reader} reached in stream “{table.stream}”?",
        subtitle=sentence + fewer,
        across=clock,
        panels=[
            Panel(up=event, layers=main, height=290.0, note="" if known else "no bound is known"),
            *_unknown(at_ms, curves),
            *_distance(at_ms, curves, clock, event, alarms),
        ],
        rules=[Rule(h.at_ms, h.label, SHAPES.get(h.kind, "circle")) for h in table.happened],
        together=True,
    )


def _axes(table: BoundsTable, curves: dict[str, list[Value]]) -> tuple[Axis, Axis]:
    """The clock and event time, in one unit."""
    clock = time_axis("reader's clock", [*table.at_ms, *(happening.at_ms for happening in table.happened)])
    events = [value for values in curves.values() for value in values]
    event = time_axis("event time", events, pad_percent=4)
    unit = duration_unit(max(clock.high - clock.low, event.high - event.low))
    return (
        Axis(clock.name, clock.low, clock.high, clock.instants, unit),
        Axis(event.name, event.low, event.high, event.instants, unit),
    )


def _unknown(at_ms: Sequence[int], curves: dict[str, list[Value]]) -> list[Panel]:
    """A strip with the stretches of the clock in which the lower or the upper bound is unknown."""
    spans = {role: found for role in ("lower", "upper") if (found := unknown_spans(at_ms, curves[role]))}
    if not spans:
        return []
    layers = [
        Blocks(
            name=f"{role} unknown",
            role=role,
            boxes=[Box(begin, end, row - 0.3, row + 0.3, "", f"{role} bound unknown") for begin, end in stretches],
            opacity=0.5,
            legend=False,
        )
        for row, (role, stretches) in enumerate(spans.items())
    ]
    return [lanes([f"{role} unknown" for role in spans], layers, height=_STRIP)]


def _distance(
    at_ms: list[int],
    curves: dict[str, list[Value]],
    clock: Axis,
    event: Axis,
    alarms: Sequence[tuple[int, int, int]],
) -> list[Panel]:
    """Each bound minus the reference, which is the line at 0; nothing if there is no reference or no known bound."""
    perfect = curves.get("truth", [])
    if any(value is not None for value in perfect):
        name, reference, beside = "bound − perfect", perfect, "perfect watermark"
    elif clock.instants == event.instants:
        name, reference, beside = "bound − clock", list(at_ms), "clock"
    else:
        return []
    differences = {role: minus(curves[role], reference) for role in ("upper", "lower")}
    known = [value for values in differences.values() for value in values if value is not None]
    if not known:
        return []
    up = time_axis(name, [*known, 0], pad_percent=8)
    layers: list[Layer] = [
        Between(xs=at_ms, lows=differences["lower"], highs=differences["upper"]),
        Path(name=beside, role="truth", xs=[clock.low, clock.high], ys=[0, 0], legend=False, labelled=True),
    ]
    layers += [
        Steps(name=f"{role} − {beside}", role=role, xs=at_ms, ys=values, labelled=False)
        for role, values in differences.items()
    ]
    layers.append(_crosses([at for at, _, _ in alarms], [above for _, _, above in alarms]))
    return [Panel(up=up, layers=layers, height=130.0)]


def _crosses(xs: Sequence[int], ys: Sequence[int]) -> Dots:
    words = ["lower bound above the perfect watermark"] * len(xs)
    return Dots(name="not safe", role="alarm", shape="cross", xs=xs, ys=ys, told=words, size=5.0)


def _alarms(table: BoundsTable, excess: Sequence[Value]) -> list[tuple[int, int, int]]:
    """First positions of every stretch with lower above the perfect watermark: (clock, lower, by how much)."""
    found = []
    before: Value = None
    for at, lower, above in zip(table.at_ms, table.lower, excess, strict=True):
        if lower is not None and above is not None and above > 0 and not (before is not None and before > 0):
            found.append((at, lower, above))
        before = above
    return found[:_MOST_ALARMS]
