"""What differs between runs: in their scenarios, value by value, and in their results, measure by measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.answers.history import late_events, of_stream, the_stream

MEASURES: Final = {
    "events": "events",
    "watermarks": "watermarks",
    "held": "cycles that were held",
    "refused": "refused marks",
    "mean_lag_ms": "mean lag of the lower bound (ms)",
    "worst_lag_ms": "worst lag of the lower bound (ms)",
    "mean_width_ms": "mean upper − lower (ms)",
    "below": "events below a lower bound given before",
}
"""The measures of a run and how they are written. Lag is clock minus lower bound, averaged over the time from the first
watermark to the last thing recorded; upper minus lower is averaged over the same time."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value of a scenario, by its dotted path, in each run; None where a run has no such value."""

    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as compared: its label, its bounds (clock, lower, upper; the last row is the end) and its measures."""

    label: str
    stream: str
    bounds: tuple[tuple[int, int, int], ...]
    measures: Mapping[str, int | float | None]


def run_of(recording: Recording, label: str, stream: str | None) -> Run:
    """The bounds and the measures of one stream of a recording.

    Raises `RecordingError` if the stream is unknown, or there are several and none is named.
    """
    name = the_stream(recording, stream)
    marks = of_stream(recording.table("watermarks"), name, "emitted_ms").to_pylist()
    events = of_stream(recording.table("events"), name, "append_ms")
    cycles = of_stream(recording.table("cycles"), name, "at_ms").to_pylist()
    outcomes = of_stream(recording.table("writer_marks"), name, "received_ms")["outcome"].to_pylist()
    ends = [mark["emitted_ms"] for mark in marks] + events["append_ms"].to_pylist()[-1:]
    ends += [row["at_ms"] for row in cycles[-1:]]
    bounds = [(mark["emitted_ms"], mark["lower"], mark["upper"]) for mark in marks]
    if bounds:
        bounds.append((max(ends), *bounds[-1][1:]))
    counts: dict[str, int | float | None] = {
        "events": len(events),
        "watermarks": len(marks),
        "held": sum(row["outcome"] != "emitted" for row in cycles),
        "refused": sum(outcome != "success" for outcome in outcomes),
    }
    measures = counts | _lags(bounds) | {"below": len(late_events(events.to_pylist(), marks))}
    return Run(label=label, stream=name, bounds=tuple(bounds), measures=measures)


def _lags(bounds: Sequence[tuple[int, int, int]]) -> dict[str, int | float | None]:
    """Averages over time: between two rows the lower bound stands still and the clock goes on."""
    area = width = 0.0
    worst: int | None = None
    for (at_ms, lower, upper), (until_ms, _, _) in pairwise(bounds):
        length = until_ms - at_ms
        area += length * ((at_ms + until_ms) / 2 - lower)
        width += length * (upper - lower)
        worst = max(until_ms - lower, worst if worst is not None else until_ms - lower)
    run_ms = bounds[-1][0] - bounds[0][0] if bounds else 0
    if not run_ms:
        return {"mean_lag_ms": None, "worst_lag_ms": None, "mean_width_ms": None}
    return {"mean_lag_ms": round(area / run_ms, 1), "worst_lag_ms": worst, "mean_width_ms": round(width / run_ms, 1)}


def differences(recordings: Sequence[Recording]) -> tuple[Difference, ...]:
    """Every value in which the scenarios differ. A part with a name is found by it, so order does not matter.

    Raises `RecordingError` for a recording without a scenario.
    """
    flat = []
    for recording in recordings:
        if recording.scenario is None:
            raise RecordingError(
                f"recording {recording.name!r} has no scenario: it came from a log.",
                remedy="compare recordings of scenarios, or only their tables.",
            )
        flat.append(dict(_leaves(recording.scenario, "")))
    paths = sorted({path for values in flat for path in values})
    found = [Difference(path, tuple(values.get(path) for values in flat)) for path in paths]
    return tuple(entry for entry in found if len({repr(value) for value in entry.values}) > 1)


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        below = {f"{path}.{key}" if path else str(key): entry for key, entry in value.items()}
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        below = {f"{path}[{_name(entry, place)}]": entry for place, entry in enumerate(value)}
    else:
        return [(path, value)]
    return [leaf for key, entry in below.items() for leaf in _leaves(entry, key)]


def _name(entry: Any, place: int) -> str:
    return str(entry["name"]) if isinstance(entry, Mapping) and "name" in entry else str(place)
