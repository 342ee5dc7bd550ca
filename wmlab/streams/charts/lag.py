"""The charts of lag and uncertainty: how far the bounds of readers are behind the clock and from each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.charts.axis import Numbers, nice_step, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES, faults, one_stream
from wmlab.core.charts.scene import Blocks, Box, Panel, Scene, Steps, joined
from wmlab.core.charts.steps import thinned
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import counted, rounded
from wmlab.streams.answers.explain import causes, longest_stall
from wmlab.streams.answers.history import of_stream

_MOST: Final = 500
_BINS: Final = 40


def lag(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for each reader the lag (its clock minus lower bound) and the uncertainty (upper minus lower bound).

    Four readers at most have a curve of their own, those with the largest mean lag. Raises `ChartError` if there are
    several streams and none is chosen, or no windows.
    """
    name = one_stream(recording, stream, "windows")
    windows = _windows(recording, name)
    names = windows["reader"].unique().to_pylist()
    readers = {reader: windows.filter(pc.equal(windows["reader"], reader)) for reader in names}
    order = sorted(readers, key=lambda reader: -fmean(_known(readers[reader], "lag_ms") or [0]))
    shown = [readers[reader] for reader in order[: len(SERIES)]]
    drawn = pa.concat_tables(shown)
    sentence = _sentence(recording, name, windows)
    left_out = f" Of {len(order)} readers the {len(shown)} with most lag are drawn." if len(shown) < len(order) else ""
    panels = []
    for column, what, height in (("lag_ms", "lag", 190.0), ("uncertainty_ms", "uncertainty", 130.0)):
        known = _known(drawn, column)
        if known or column == "lag_ms":
            curves = [_curve(rows, role, column) for rows, role in zip(shown, SERIES, strict=False)]
            up = time_axis(what, [0, *known], pad_percent=5)
            panels.append(Panel(up=up, layers=joined(curves), height=height))
    scene = Scene(
        title=title or f"How far behind the clock were the bounds of {name}, and how far apart?",
        subtitle=sentence + left_out,
        across=time_axis("reader's clock", drawn["at_ms"].to_pylist()),
        panels=panels,
        rules=faults(recording, name),
    )
    return Chart(sentence=sentence, data=windows.to_pydict(), scene=scene)


def lag_distribution(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw how often which lag and which uncertainty occurred, over all windows that readers saw.

    Raises `ChartError` if there are several streams and none is chosen, no windows, or no known bound in any of them.
    """
    name = one_stream(recording, stream, "windows")
    windows = _windows(recording, name)
    lags, widths = _known(windows, "lag_ms"), _known(windows, "uncertainty_ms")
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
    return Chart(sentence=sentence, data=windows.to_pydict(), scene=scene)


def _windows(recording: Recording, name: str) -> pa.Table:
    """The windows by reader and clock: by how much the lower bound lagged, and the uncertainty; the charts' data."""
    seen = of_stream(recording.table("windows"), name).sort_by([("reader", "ascending"), ("at_ms", "ascending")])
    lags, widths = pc.subtract(seen["at_ms"], seen["lower"]), pc.subtract(seen["upper"], seen["lower"])
    return pa.table({"reader": seen["reader"], "at_ms": seen["at_ms"], "lag_ms": lags, "uncertainty_ms": widths})


def _known(windows: pa.Table, column: str) -> list[int]:
    known: list[int] = windows[column].drop_null().to_pylist()
    return known


def _curve(windows: pa.Table, role: str, column: str) -> Steps:
    xs, ys = thinned(windows["at_ms"].to_pylist(), windows[column].to_pylist(), _MOST)
    return Steps(name=windows["reader"][0].as_py(), role=role, xs=xs, ys=ys)


def _histogram(what: str, role: str, values: Sequence[int], step: int) -> Panel:
    counts = Counter(value // step * step for value in values)
    boxes = []
    for low, count in sorted(counts.items()):
        words = f"{what} from {rounded(low)} to {rounded(low + step)}: {counted(count, 'window')}"
        boxes.append(Box(low, low + step, 0, count, "", words))
    blocks = Blocks(name=what, role=role, boxes=boxes, opacity=0.6)
    return Panel(up=Numbers(f"windows by {what}", 0, max(counts.values())), layers=[blocks], height=140.0)


def _sentence(recording: Recording, name: str, windows: pa.Table) -> str:
    lags, widths = (sorted(_known(windows, column)) for column in ("lag_ms", "uncertainty_ms"))
    if not lags:
        return f"No reader of {name} ever knew a lower bound."
    text = (
        f"In half of the windows of {name} the lower bound stood at most {rounded(lags[len(lags) // 2])} "
        f"behind the clock, and {rounded(lags[-1])} at worst"
    )
    apart = f"where both bounds were known they were {rounded(widths[len(widths) // 2])} apart" if widths else ""
    clock = windows["at_ms"].to_pylist()
    stall = longest_stall(causes(recording, name, start_ms=min(clock), end_ms=max(clock)))
    return f"{text}; {apart or 'an upper bound was never known'}{stall}."
