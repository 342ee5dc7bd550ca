"""The charts of lag and uncertainty: how far the bounds of readers are behind the clock and from each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Final, NamedTuple

from wmlab.core.charts.axis import Numbers, nice_step, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES, faults, one_stream, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Panel, Scene, Steps, joined
from wmlab.core.charts.steps import Value, thinned
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import counted, rounded
from wmlab.streams.answers.explain import longest_stall, recorded_causes

_MOST: Final = 500
_BINS: Final = 40


class Window(NamedTuple):
    """What a reader saw: at which clock, its lag and the uncertainty, unknown where a bound is; the data's columns."""

    reader: str
    at_ms: int
    lag_ms: Value
    uncertainty_ms: Value


def lag(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for each reader the lag (its clock minus lower bound) and the uncertainty (upper minus lower bound).

    Four readers at most have a curve of their own, those with the largest mean lag. Raises `ChartError` if there are
    several streams and none is chosen, or no windows.
    """
    name = one_stream(recording, stream, "windows")
    windows = _windows(recording, name)
    readers = {reader: [w for w in windows if w.reader == reader] for reader in sorted({w.reader for w in windows})}
    order = sorted(readers, key=lambda reader: -fmean(_known(readers[reader])[0] or [0]))
    shown = {reader: readers[reader] for reader in order[: len(SERIES)]}
    drawn = [window for rows in shown.values() for window in rows]
    sentence = _sentence(recording, name, windows)
    left_out = f" Of {len(order)} readers the {len(shown)} with most lag are drawn." if len(shown) < len(order) else ""
    panels = []
    for column, what, height in (("lag_ms", "lag", 190.0), ("uncertainty_ms", "uncertainty", 130.0)):
        known = [value for window in drawn if (value := getattr(window, column)) is not None]
        if known or column == "lag_ms":
            curves = [_curve(rows, role, column) for rows, role in zip(shown.values(), SERIES, strict=False)]
            up = time_axis(what, [0, *known], pad_percent=5)
            panels.append(Panel(up=up, layers=joined(curves), height=height))
    scene = Scene(
        title=title or f"How far behind the clock were the bounds of {name}, and how far apart?",
        subtitle=sentence + left_out,
        across=time_axis("reader's clock", [window.at_ms for window in drawn]),
        panels=panels,
        rules=faults(recording, name),
    )
    return Chart(sentence=sentence, data=_data(windows), scene=scene)


def lag_distribution(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw how often which lag and which uncertainty occurred, over all windows that readers saw.

    Raises `ChartError` if there are several streams and none is chosen, no windows, or no known bound in any of them.
    """
    name = one_stream(recording, stream, "windows")
    windows = _windows(recording, name)
    lags, widths = _known(windows)
    if not lags:
        raise ChartError(
            f"No reader of {name} ever knew a lower bound.", remedy="Ask recording.explain() what held it back."
        )
    low, high = min([0, *lags, *widths]), max([*lags, *widths, 1])
    step = nice_step(high - low, _BINS)
    sentence = _sentence(recording, name, windows)
    scene = Scene(
        title=title or f"How often did which lag and uncertainty occur in {name}?",
        subtitle=sentence,
        across=time_axis("lag, uncertainty", [low // step * step, (high // step + 1) * step]),
        panels=[
            _histogram(what, role, values, step)
            for what, role, values in (("lag", "lower", lags), ("uncertainty", "upper", widths))
            if values
        ],
    )
    return Chart(sentence=sentence, data=_data(windows), scene=scene)


def _windows(recording: Recording, name: str) -> list[Window]:
    """The windows of all readers by clock."""
    windows = []
    for row in stream_rows(recording, "windows", name, by="at_ms"):
        at_ms, lower, upper = row["at_ms"], row["lower"], row["upper"]
        behind = None if lower is None else at_ms - lower
        apart = None if lower is None or upper is None else upper - lower
        windows.append(Window(row["reader"], at_ms, behind, apart))
    return windows


def _known(windows: Sequence[Window]) -> tuple[list[int], list[int]]:
    """The lags and the uncertainties that are known."""
    lags = [window.lag_ms for window in windows if window.lag_ms is not None]
    return lags, [window.uncertainty_ms for window in windows if window.uncertainty_ms is not None]


def _curve(windows: Sequence[Window], role: str, column: str) -> Steps:
    values: list[Value] = [getattr(window, column) for window in windows]
    xs, ys = thinned([window.at_ms for window in windows], values, _MOST)
    return Steps(name=windows[0].reader, role=role, xs=xs, ys=ys)


def _histogram(what: str, role: str, values: Sequence[int], step: int) -> Panel:
    counts = Counter(value // step * step for value in values)
    boxes = []
    for low, count in sorted(counts.items()):
        words = f"{what} from {rounded(low)} to {rounded(low + step)}: {counted(count, 'window')}"
        boxes.append(Box(low, low + step, 0, count, "", words))
    blocks = Blocks(name=what, role=role, boxes=boxes, opacity=0.6)
    return Panel(up=Numbers(f"windows by {what}", 0, max(counts.values())), layers=[blocks], height=140.0)


def _data(windows: Sequence[Window]) -> dict[str, list[Value | str]]:
    by_reader = sorted(windows, key=lambda window: window.reader)
    return {column: [getattr(window, column) for window in by_reader] for column in Window._fields}


def _sentence(recording: Recording, name: str, windows: Sequence[Window]) -> str:
    lags, widths = (sorted(values) for values in _known(windows))
    if not lags:
        return f"No reader of {name} ever knew a lower bound."
    text = (
        f"In half of the windows of {name} the lower bound stood at most {rounded(lags[len(lags) // 2])} "
        f"behind the clock, and {rounded(lags[-1])} at worst"
    )
    apart = f"where both bounds were known they were {rounded(widths[len(widths) // 2])} apart" if widths else ""
    stall = longest_stall(recorded_causes(recording, name, start_ms=windows[0].at_ms, end_ms=windows[-1].at_ms))
    return f"{text}; {apart or 'an upper bound was never known'}{stall}."
