"""Charts of progress by origin, sequence and chunk: who holds time back, and the gap that a prefix waits at."""

from __future__ import annotations

from typing import Any, Final

from wmlab.core.charts.axis import Axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.progress_picture import Counts, Curve, Dots, Picture, draw_plotly, draw_svg
from wmlab.core.charts.steps import Value, thin
from wmlab.core.charts.ticks import SECOND_MS, duration_unit, is_instant
from wmlab.core.errors import ChartError
from wmlab.progress.charts.facts import describe_prefix, describe_progress, holders, longest_standstill
from wmlab.progress.charts.table import ProgressTable, read_progress

CAP: Final = 600
"""Points drawn at most of each curve, about."""


def progress(progressed: Any, *, title: str | None = None) -> Chart:
    """Draw the local watermark of every origin under the global one.

    `progressed` is a pandas or Spark DataFrame as `wmlab.progress.checks.progress` gives it, of one query and operator;
    it needs stream, operator, arrival, arrived_ms, origin, emitter, sequence, watermark, prefix, local_watermark and
    global_watermark. The origin that held the global watermark the longest is drawn in its own colour. Raises
    `ChartError` for a missing column, no rows, or several queries or operators.
    """
    table = read_progress(progressed)
    sentence = describe_progress(table)
    held = holders(table, longest_standstill(table.at_ms, table.overall))
    curves = [_local(table, emitter, "upper" if [emitter] == held else "truth") for emitter in table.emitters]
    rows = thin([table.overall], CAP)
    overall = Curve(
        name="global", role="lower", xs=[table.at_ms[row] for row in rows], ys=[table.overall[row] for row in rows]
    )
    known = [value for curve in (*curves, overall) for value in curve.ys if value is not None]
    picture = Picture(
        title=title or f"How far has time come at {table.operator} of {table.stream}?",
        subtitle=sentence,
        clock=_time("clock", table.at_ms, pad=False),
        up=_time("watermark", known, pad=True),
        curves=[*curves, overall],
    )
    data: dict[str, list[Any]] = {
        "at_ms": table.at_ms,
        "emitter": table.emitter,
        "local_watermark": table.local,
        "global_watermark": table.overall,
    }
    return Chart(sentence=sentence, data=data, figure=draw_plotly(picture), svg=draw_svg(picture))


def prefix(progressed: Any, *, emitter: str | None = None, title: str | None = None) -> Chart:
    """Draw the longest complete prefix of one origin, the buffers that come, and the gap they wait behind.

    `progressed` is as for `progress`; `emitter` names the origin and may be left out if there is only one.
    Raises `ChartError` as `progress`, and for an origin that is not there.
    """
    table = read_progress(progressed)
    chosen = _chosen(table, emitter)
    rows = table.of(chosen)
    sentence = describe_prefix(table, chosen)
    at_ms, sequences = [table.at_ms[row] for row in rows], [table.sequence[row] for row in rows]
    reached: list[Value] = [table.prefix[row] for row in rows]
    highest: list[Value] = [max(sequences[: place + 1]) for place in range(len(rows))]
    kept = thin([reached, highest], CAP)
    xs = [at_ms[row] for row in kept]
    below = Curve(name="prefix", role="lower", xs=xs, ys=[reached[row] for row in kept])
    above = Curve(name="highest seen", role="truth", xs=xs, ys=[highest[row] for row in kept])
    picture = Picture(
        title=title or f"How long is the complete prefix of {chosen}?",
        subtitle=sentence,
        clock=_time("clock", at_ms, pad=False),
        up=Counts("sequence number", 0, max(sequences) + 1),
        curves=[above, below],
        dots=[Dots(name="arrival", role="upper", xs=at_ms, ys=sequences)],
        between=(below, above),
    )
    data: dict[str, list[Any]] = {"at_ms": at_ms, "sequence": sequences, "prefix": reached}
    return Chart(sentence=sentence, data=data, figure=draw_plotly(picture), svg=draw_svg(picture))


def _chosen(table: ProgressTable, emitter: str | None) -> str:
    if emitter is None and len(table.emitters) == 1:
        return table.emitters[0]
    if emitter not in table.emitters:
        named = "none is named" if emitter is None else f"{emitter!r} is none of them"
        raise ChartError(
            f"The table has the origins {', '.join(table.emitters)}; {named}.",
            remedy=f"Name one, for example emitter={table.emitters[0]!r}.",
        )
    return emitter


def _local(table: ProgressTable, emitter: str, role: str) -> Curve:
    """An origin's local watermark; it holds to the end of the table."""
    rows = table.of(emitter)
    xs, ys = [table.at_ms[row] for row in rows], [table.local[row] for row in rows]
    kept = thin([ys], CAP)
    return Curve(
        name=emitter,
        role=role,
        xs=[*(xs[row] for row in kept), table.at_ms[-1]],
        ys=[*(ys[row] for row in kept), ys[-1]],
    )


def _time(name: str, values: list[int], *, pad: bool) -> Axis:
    low, high = (min(values), max(values)) if values else (0, 1)
    edge = (high - low) * 4 // 100 if low < high else SECOND_MS
    low, high = (low - edge if pad else low), (high + edge if pad or low == high else high)
    return Axis(name, low, high, is_instant(values), duration_unit(high - low))
