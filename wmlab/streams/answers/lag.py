"""What the readers of a stream saw of its watermarks: how far the bounds were behind their clocks, and how far apart.

A window holds until the reader's next one, so between two of them the lag grows with the clock.
"""

from __future__ import annotations

import pyarrow.compute as pc

from wmlab.core.charts.scene import Value, minus
from wmlab.core.facts import Head, Value as FactValue
from wmlab.core.recording import Recording
from wmlab.core.run_measures import Lag, lag_pieces
from wmlab.streams.answers.head_labels import head_of
from wmlab.streams.answers.history import of_stream
from wmlab.streams.answers.step_curves import Spread, lengths_ms

SeenWindow = tuple[list[int], list[Value], list[Value]]
SeenWindows = dict[str, SeenWindow]
"""Of each reader the clock, ascending, and the lower and upper bound that it saw then; None: unknown."""


def seen_windows(recording: Recording, stream: str) -> SeenWindows:
    """The windows that the readers of a stream saw."""
    seen = of_stream(recording.table("windows"), stream).sort_by([("reader", "ascending"), ("at_ms", "ascending")])
    windows: SeenWindows = {}
    for reader in seen["reader"].unique().to_pylist():
        rows = seen.filter(pc.equal(seen["reader"], reader))
        at_ms, lower, upper = (rows[column].to_pylist() for column in ("at_ms", "lower", "upper"))
        windows[reader] = at_ms, lower, upper
    return windows


def lag_spread(windows: SeenWindows) -> Spread | None:
    """For how long the readers saw a lower bound so far behind their clock; None if they never saw one."""
    pieces = [piece for seen in windows.values() for piece in lag_pieces(_steps(seen))]
    return Spread.of(*zip(*pieces, strict=True)) if pieces else None


def uncertainty_spread(windows: SeenWindows) -> Spread | None:
    """For how long the bounds that the readers saw were so far apart; None if they never saw both."""
    pieces = [
        (width, width, length)
        for at_ms, lower, upper in windows.values()
        for width, length in zip(minus(upper, lower), lengths_ms(at_ms), strict=True)
        if width is not None
    ]
    return Spread.of(*zip(*pieces, strict=True)) if pieces else None


def by_mean_lag(windows: SeenWindows) -> list[str]:
    """The readers, first those with the largest mean lag over time."""
    return sorted(windows, key=lambda reader: -(Lag.of(_steps(windows[reader])).mean_ms or 0))


def _steps(seen: SeenWindow) -> list[tuple[int, Value]]:
    """The lower bound by row; the last one holds for no time."""
    at_ms, lower, _ = seen
    return [*zip(at_ms, lower, strict=True), (at_ms[-1], None)]


def lag_head(windows: SeenWindows) -> Head:
    """How far the bounds that readers saw were behind their clocks."""
    lags = lag_spread(windows)
    values: dict[str, FactValue] = {
        "median lag": None if lags is None else lags.median,
        "worst lag": None if lags is None else lags.largest,
    }
    return head_of("lag", values)
