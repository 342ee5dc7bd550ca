"""The chart of idle timeouts: the losses of a short one, against how long the watermark stalls with a long one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log10
from typing import Any, Final

import numpy as np

from wmlab.core.charts.axis import Numbers, Tick
from wmlab.core.charts.chart import Chart, chart_of, drawn_words
from wmlab.core.charts.scene import Panel, Path
from wmlab.core.errors import ChartError
from wmlab.core.words import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, exactly, grouped, shown
from wmlab.strategies.idle_timeouts import Idleness

_CAP: Final = 400
"""Timeouts at most at which the curves are drawn."""
_FEWEST: Final = 2
"""Ticks that an axis has at least; where fewer lengths are round, its ends are marked."""
_MARKS: Final = (
    *((1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (SECOND_MS, "1 s"), (10 * SECOND_MS, "10 s")),
    *((MINUTE_MS, "1 min"), (10 * MINUTE_MS, "10 min"), (HOUR_MS, "1 h"), (DAY_MS, "1 d"), (10 * DAY_MS, "10 d")),
    *((100 * DAY_MS, "100 d"), (1_000 * DAY_MS, "1 000 d"), (10_000 * DAY_MS, "10 000 d")),
)
"""Lengths at which the axes of durations, which are logarithmic, have a tick."""


def idleness(answer: Idleness, *, title: str | None = None) -> Chart:
    """Draw the answer of `wm.strategy.idleness`: for every idle timeout, its losses and how long the watermark stalls.

    The upper part shows how often an input is declared idle although it returns, and how many records this makes late.
    The lower part shows how long silent inputs hold the watermark: in total, and the longest single time. All axes are
    logarithmic, with a line for none. Of very many timeouts some are drawn, each at its exact height; `data` has all.
    Raises `ChartError` for anything else, and if no input has two records at different times.
    """
    if not isinstance(answer, Idleness):
        remedy = "Give what wm.strategy.idleness(log) returns."
        raise ChartError(f"{shown(answer)} is not an answer about idleness.", remedy=remedy)
    if not len(answer.silences_ms) or not answer.silences_ms[-1]:
        raise ChartError(f"No {answer.by} of {answer.name!r} is ever silent.", remedy="Take a longer log.")
    table = answer.to_pandas()
    data: dict[str, list[Any]] = {name: table[name].tolist() for name in table.columns}
    drawn = _drawn(data["timeout_ms"])
    timeouts = [data["timeout_ms"][row] for row in drawn]
    across = _lengths("idle timeout", timeouts)
    xs = [log10(timeout) for timeout in timeouts]
    # The first row of the table is that of the timeout 0, which has no place on the axis.
    counts = {name: [_height(data[name][row]) for row in (0, *drawn)] for name in ("false_idles", "late")}
    top = max(max(heights) for heights in counts.values())
    losses = Panel(
        up=Numbers("how many", -0.1, top + 0.2, _counts(top)),
        layers=[
            _stairs("false idles", "lower", [across.low, *xs], counts["false_idles"]),
            _stairs("late because of it", "upper", [across.low, *xs], counts["late"]),
        ],
        height=240,
    )
    # Between two timeouts of the table the times grow with the timeout, so they are lines and have no steps.
    lengths = {name: [max(1, data[name][row]) for row in drawn] for name in ("held_ms", "longest_hold_ms")}
    waiting = Panel(
        up=_lengths("held", [length for of in lengths.values() for length in of]),
        layers=[
            _line("held in all", "fourth", xs, lengths["held_ms"]),
            _line("longest hold", "third", xs, lengths["longest_hold_ms"]),
        ],
        height=200,
    )
    count = len(table) - 1
    note = drawn_words((len(drawn), count, "timeouts"))
    title = title or f"Which idle timeout should {answer.name} have?"
    head, panels = answer.headline, [losses, waiting]
    return chart_of(head, data, facts=answer.facts, title=title, note=note, across=across, panels=panels)


def _drawn(timeouts: Sequence[int]) -> list[int]:
    """The rows that are drawn, without the timeout 0: all, or those next to some lengths a constant factor apart."""
    if len(timeouts) <= _CAP:
        return list(range(1, len(timeouts)))
    apart = np.floor(np.geomspace(timeouts[1], timeouts[-1], _CAP)).astype(np.int64)
    return sorted({*np.searchsorted(timeouts, apart, side="left").tolist(), len(timeouts) - 1})


def _stairs(name: str, role: str, xs: Sequence[float], heights: Sequence[float]) -> Path:
    """A curve that holds each height until the next x."""
    corners = [(x, height) for n, x in enumerate(xs) for height in (heights[max(0, n - 1)], heights[n])]
    return Path(name=name, role=role, xs=[x for x, _ in corners], ys=[y for _, y in corners])


def _line(name: str, role: str, xs: Sequence[float], lengths_ms: Iterable[int]) -> Path:
    return Path(name=name, role=role, xs=xs, ys=[log10(length) for length in lengths_ms])


def _height(count: int) -> float:
    """Where a count stands: none at 0, one at 1, and ten times as many is one step up."""
    return log10(count) + 1 if count else 0.0


def _counts(top: float) -> tuple[Tick, ...]:
    return (Tick(0, "none"), *(Tick(n + 1, grouped(10**n)) for n in range(int(top) + 1) if n + 1 <= top + 0.2))


def _lengths(name: str, lengths_ms: Iterable[int]) -> Numbers:
    """A logarithmic axis of durations over the given ones."""
    known = sorted(lengths_ms)
    low, high = log10(known[0]), log10(known[-1])
    pad = max(0.05, (high - low) / 20)
    marks = [Tick(log10(ms), label) for ms, label in _MARKS if low - pad <= log10(ms) <= high + pad]
    if len(marks) < _FEWEST:
        marks = [Tick(log10(ms), exactly(ms)) for ms in sorted({known[0], known[-1]})]
    return Numbers(name, low - pad, high + pad, tuple(marks))
