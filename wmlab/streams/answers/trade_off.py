"""Lag against late events, of the runs of a sweep or of the configurations of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from statistics import median
from typing import Any

from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import exactly, rounded
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


def replay_sentences(runs: Sequence[RunFigures]) -> str:
    """Which configuration would have had the least lag without late events; `runs` ascend by their lag."""
    safe, others = [run for run in runs if not run[2]], [run for run in runs if run[2]]
    if not safe:
        least = min(runs, key=lambda run: run[2])
        fewest = f"The fewest, {percent(least[2])}, are late with {least[0]}."
        return f"The watermarks of every configuration make events late. {fewest}"
    answer = f"The watermarks of {safe[0][0]} make no event late, at a mean lag of {rounded(safe[0][1])}"
    if not others:
        return f"{answer}, the least of all."
    config, lag_ms, share = others[0]
    return f"{answer}. Those of {config} lag {rounded(lag_ms)}, and make {percent(share)} of the events late."


def sweep_sentences(by: str, runs: Sequence[RunFigures]) -> str:
    """How the mean lag and the late events of the median run change with a field; `runs` ascend by its value."""
    values = list(dict.fromkeys(value for value, _, _ in runs))
    lag, late = medians(runs)
    unclean = {value for value, _, share in runs if share}
    clean = [value_words(by, value) for value in values if value not in unclean]
    first, last = (value_words(by, values[end]) for end in (0, -1))
    several = " in the median run" if len(runs) > len(values) else ""
    sentence = (
        f"From a {field_words(by)} of {first} to {last} the mean lag of the watermark goes from "
        f"{rounded(round(lag[0]))} to {rounded(round(lag[-1]))}{several}."
    )
    if not unclean:
        return f"{sentence} No run has late events."
    without = "At every value some run has late events."
    if clean:
        without = f"The first value at which no run has any is {clean[0]}."
    return f"{sentence} Its late events go from {percent(late[0])} to {percent(late[-1])}. {without}"


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


def percent(share: float) -> str:
    """A share in words: nothing, or a percentage of two digits, never with an exponent."""
    return f"{Decimal(f'{100 * share:.2g}'):f}%" if share else "none"
