"""Lag against late events, of the runs of a sweep or of the configurations of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from wmlab.core.facts import Head, Value
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import exactly
from wmlab.streams.answers.head_labels import head_of
from wmlab.streams.answers.history import events_of, late_events
from wmlab.streams.answers.measures import bounds_of, lags
from wmlab.streams.tables import end_ms

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
    values: dict[str, Value] = {
        "field": field_words(by),
        "first value": named[0],
        "last value": named[-1],
        "lag of the first": round(lag_ms[0]),
        "lag of the last": round(lag_ms[-1]),
    }
    return head_of("sweep", values)


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
