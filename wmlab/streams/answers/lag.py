"""Lag: of the bounds that readers saw, of events behind their time, and of runs against their late events.

A window holds until the reader's next one, so between two of them the lag grows with the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.charts.scene import Value, minus
from wmlab.core.facts import Head
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.run_measures import Lag, lag_pieces
from wmlab.core.words import exactly
from wmlab.streams.answers.head_labels import head_of
from wmlab.streams.answers.history import events_of, late_events, of_stream
from wmlab.streams.answers.measures import bounds_of, lags
from wmlab.streams.answers.step_curves import Spread, lengths_ms
from wmlab.streams.tables import end_ms

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
    spread = lag_spread(windows)
    return head_of("lag", {} if spread is None else {"median lag": spread.median, "worst lag": spread.largest})


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """The delays from event time to arrival that occur, in ms and ascending, and how many events have each."""

    delay_ms: npt.NDArray[np.int64]
    events: npt.NDArray[np.int64]

    @classmethod
    def of(cls, parts: Iterable[pa.Table]) -> Delays:
        """From events, part by part, with the columns append_ms and event_time."""
        counts = pa.table({"delay": pa.array([], pa.int64()), "count": pa.array([], pa.int64())})
        for part in parts:
            delay = pc.subtract(part["append_ms"], part["event_time"])
            counts = pa.concat_tables([counts, pa.table([delay, pa.repeat(1, len(delay))], counts.schema)])
            counts = counts.group_by("delay").aggregate([("count", "sum")]).rename_columns(counts.column_names)
        counts = counts.sort_by("delay")
        return cls(counts["delay"].to_numpy(), counts["count"].to_numpy())

    @property
    def count(self) -> int:
        """How many events there are."""
        return int(self.events.sum())

    @property
    def median_ms(self) -> int:
        """The delay that half of the events do not exceed."""
        return int(self.delay_ms[self.events.cumsum().searchsorted(self.count // 2, side="right")])


def arrival_head(delays: Delays) -> Head:
    """How long events took from their time to their arrival."""
    return head_of("arrivals", {"median delay": delays.median_ms, "longest delay": int(delays.delay_ms[-1])})


def extremes(parts: Iterable[pa.Table]) -> list[TableRow]:
    """The first event that arrived soonest after its time, and the first that arrived latest."""
    extremes: list[TableRow] = []
    for part in parts:
        if part.num_rows:
            delay = pc.subtract(part["append_ms"], part["event_time"]).to_numpy()
            extremes += part.take([int(delay.argmin()), int(delay.argmax())]).to_pylist()
            extremes.sort(key=lambda row: row["append_ms"] - row["event_time"])
            extremes = [extremes[0], extremes[-1]]
    return extremes


RunFigures = tuple[Any, int, float]
"""A value or configuration, the mean lag of the lower bound in ms, and the late events, a share of all."""


def replayed_figures(recording: Recording, stream: str, logs: Mapping[str, Sequence[TableRow]]) -> list[RunFigures]:
    """The figures of the watermarks of each configuration, by its label; those with the least lag first.

    A watermark without bounds has None. An event is late if it was appended after a watermark above its time.
    """
    late, events = dict.fromkeys(logs, 0), 0
    for part in events_of(recording, stream, "append_ms", "event_time"):
        events += part.num_rows
        for config, log in logs.items():
            late[config] += late_events(part, log).num_rows
    runs: list[RunFigures] = []
    for config, log in logs.items():
        lag_ms = lags(bounds_of(log, max(end_ms(recording) or 0, log[-1]["emitted_ms"] + 1)))["lag_ms"] or 0
        runs.append((config, round(lag_ms), late[config] / events))
    return sorted(runs, key=lambda run: (run[1], run[0]))


def replay_head(runs: Sequence[RunFigures]) -> Head:
    """Which configuration has the least lag of those with the fewest late events; `runs` ascend by their lag."""
    fewest = min(share for _, _, share in runs)
    best, lag_ms, _ = next(run for run in runs if run[2] == fewest)
    return head_of("replay", {"best": best, "best lag": lag_ms})


def sweep_head(by: str, runs: Sequence[RunFigures]) -> Head:
    """How the mean lag of the median run changes with a field; `runs` ascend by its value."""
    named = [value_words(by, value) for value in (runs[0][0], runs[-1][0])]
    lag_ms, _ = medians(runs)
    return head_of(
        "sweep",
        {
            "field": field_words(by),
            "first value": named[0],
            "last value": named[-1],
            "lag of the first": round(lag_ms[0]),
            "lag of the last": round(lag_ms[-1]),
        },
    )


def medians(runs: Sequence[RunFigures]) -> tuple[list[float], list[float]]:
    """The medians of both measures by value, in the order of the runs."""
    by_value = [list(same) for _, same in groupby(runs, key=lambda run: run[0])]
    lags_ms = [median(lag for _, lag, _ in same) for same in by_value]
    return lags_ms, [median(share for _, _, share in same) for same in by_value]


def value_words(by: str, value: Any) -> str:
    """A value of a field in words: of milliseconds, as a duration."""
    if not (by.endswith("_ms") and isinstance(value, int)):
        return str(value)
    return exactly(value)


def field_words(by: str) -> str:
    """A field in words, without its unit, which its values have."""
    return "configuration" if by == "config" else by.removesuffix("_ms").replace("_", " ")
