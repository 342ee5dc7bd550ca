"""The charts of lag and uncertainty: how far the bounds of readers stand behind the clock and from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wmlab.core.charts.axis import Counts, format_duration, nice_step, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES, faults, one_stream, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Panel, Scene, Steps
from wmlab.core.charts.steps import Value, thin
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording

_MOST: Final = 500
_BINS: Final = 40


def lag(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for each reader the lag (its clock minus lower bound) and the uncertainty (upper minus lower bound).

    Four readers at most have a curve of their own, those with the largest mean lag. Raises `ChartError` if there are
    several streams and none is chosen, or no windows.
    """
    name = one_stream(recording, stream, "windows")
    readers = _readers(recording, name)
    order = sorted(readers, key=lambda reader: (-_mean([lag for _, lag, _ in readers[reader]]), reader))
    shown = order[: len(SERIES)]
    sentence = _sentence(name, readers)
    left_out = f" Of {len(order)} readers the {len(shown)} with most lag are drawn." if len(shown) < len(order) else ""
    lags = [lag for reader in shown for _, lag, _ in readers[reader]]
    widths = [width for reader in shown for _, _, width in readers[reader]]
    scene = Scene(
        title=title or f"How far behind the clock were the bounds of {name}, and how far apart?",
        subtitle=sentence + left_out,
        across=time_axis("reader's clock", [at for reader in shown for at, _, _ in readers[reader]]),
        panels=[
            Panel(up=time_axis(what, [0, *values], pad_percent=5), layers=_curves(readers, shown, place), height=height)
            for what, values, place, height in (("lag", lags, 1, 190.0), ("uncertainty", widths, 2, 130.0))
            if what == "lag" or any(value is not None for value in values)
        ],
        rules=faults(recording, name),
    )
    return Chart(sentence=sentence, data=_data(readers), scene=scene)


def lag_distribution(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw how often which lag and which uncertainty occurred, over all windows that readers saw.

    Raises `ChartError` if there are several streams and none is chosen, no windows, or no known bound in any of them.
    """
    name = one_stream(recording, stream, "windows")
    readers = _readers(recording, name)
    lags = [lag for rows in readers.values() for _, lag, _ in rows if lag is not None]
    widths = [width for rows in readers.values() for _, _, width in rows if width is not None]
    if not lags:
        raise ChartError(
            f"No reader of {name} ever knew a lower bound.", remedy="Ask recording.explain() what held it back."
        )
    sentence = _sentence(name, readers)
    low, high = min([0, *lags, *widths]), max([*lags, *widths, 1])
    step = nice_step(high - low, _BINS)
    panels = [
        Panel(up=Counts(f"windows by {what}", 0, top), layers=[blocks], height=140.0)
        for what, role, values in (("lag", "lower", lags), ("uncertainty", "upper", widths))
        if values
        for blocks, top in [_bars(what, role, values, step)]
    ]
    scene = Scene(
        title=title or f"How often did which lag and uncertainty occur in {name}?",
        subtitle=sentence,
        across=time_axis("lag, uncertainty", [low // step * step, (high // step + 1) * step]),
        panels=panels,
    )
    return Chart(sentence=sentence, data=_data(readers), scene=scene)


def _readers(recording: Recording, name: str) -> dict[str, list[tuple[int, Value, Value]]]:
    """Of each reader, by clock: (clock, lag, uncertainty), unknown where a bound is."""
    found: dict[str, list[tuple[int, Value, Value]]] = {}
    for row in sorted(stream_rows(recording, "windows", name), key=lambda row: row["at_ms"]):
        lower, upper = row["lower"], row["upper"]
        behind = None if lower is None else row["at_ms"] - lower
        apart = None if lower is None or upper is None else upper - lower
        found.setdefault(row["reader"], []).append((row["at_ms"], behind, apart))
    return found


def _curves(readers: Mapping[str, list[tuple[int, Value, Value]]], shown: Sequence[str], column: int) -> list[Steps]:
    curves = []
    for reader, role in zip(shown, SERIES, strict=False):
        rows = readers[reader]
        values: list[Value] = [row[column] for row in rows]
        kept = thin([values], _MOST)
        curves.append(Steps(name=reader, role=role, xs=[rows[i][0] for i in kept], ys=[values[i] for i in kept]))
    return curves


def _bars(what: str, role: str, values: Sequence[int], step: int) -> tuple[Blocks, int]:
    counts: dict[int, int] = {}
    for value in values:
        counts[value // step] = counts.get(value // step, 0) + 1
    boxes = [
        Box(
            place * step,
            (place + 1) * step,
            0,
            count,
            "",
            f"{what} from {format_duration(place * step)} to {format_duration((place + 1) * step)}: {count:,} windows",
        )
        for place, count in sorted(counts.items())
    ]
    return Blocks(name=what, role=role, boxes=boxes, opacity=0.6), max(counts.values())


def _data(readers: Mapping[str, list[tuple[int, Value, Value]]]) -> dict[str, list[Any]]:
    rows = [(reader, *row) for reader, entries in sorted(readers.items()) for row in entries]
    return {
        name: [row[place] for row in rows] for place, name in enumerate(("reader", "at_ms", "lag_ms", "uncertainty_ms"))
    }


def _mean(values: Sequence[Value]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def _sentence(name: str, readers: Mapping[str, list[tuple[int, Value, Value]]]) -> str:
    lags = sorted(lag for rows in readers.values() for _, lag, _ in rows if lag is not None)
    widths = sorted(width for rows in readers.values() for _, _, width in rows if width is not None)
    if not lags:
        return f"No reader of {name} ever knew a lower bound."
    text = (
        f"In half of the windows of {name} the lower bound stood at most {format_duration(lags[len(lags) // 2])} "
        f"behind the clock, and {format_duration(lags[-1])} at worst"
    )
    if not widths:
        return f"{text}; an upper bound was never known."
    return f"{text}; where both bounds were known they were {format_duration(widths[len(widths) // 2])} apart."
