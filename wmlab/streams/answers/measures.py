"""The measures of one run: lag, uncertainty and slack of the bounds, and how evenly buckets were owned.

Bounds are averaged over time: between two rows a bound stands still and the clock goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from wmlab.core.errors import RecordingError
from wmlab.core.facts import FactAnswer, Facts, Value
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.run_measures import Lag
from wmlab.streams.answers.head_labels import head_of
from wmlab.streams.model.coordination import bucket_of, fairness, qualified_name
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import end_ms

BoundSteps = Sequence[tuple[int, int | None, int | None]]
"""Clock, lower and upper bound by row, None from an end of known time on; the last row is the end of the run."""
Measures = dict[str, int | float | None]


def bounds_of(log: Sequence[Mapping[str, Any]], end_ms: int) -> BoundSteps:
    """The bounds that a log of watermarks gave until the end of the run; none if it is empty."""
    rows = [(row["emitted_ms"], row["lower"], row["upper"]) for row in log]
    return [*rows, *((max(end_ms, at_ms), lower, upper) for at_ms, lower, upper in rows[-1:])]


def lags(bounds: BoundSteps) -> Measures:
    """The mean and the worst lag of the lower bound behind the clock, and the mean of upper minus lower, in ms.

    They are about the time in which the bounds are known, and None if they never are.
    """
    lag = Lag.of([(at_ms, lower) for at_ms, lower, _ in bounds])
    widths = [
        (until_ms - at_ms, upper - lower)
        for (at_ms, lower, upper), (until_ms, _, _) in pairwise(bounds)
        if lower is not None and upper is not None
    ]
    known_ms = sum(length for length, _ in widths)
    uncertainty_ms = round(sum(length * width for length, width in widths) / known_ms, 1) if known_ms else None
    return {"lag_ms": lag.mean_ms, "worst_lag_ms": lag.worst_ms, "uncertainty_ms": uncertainty_ms}


def slack_ms(bounds: BoundSteps, events: pa.Table) -> float | None:
    """By how much the lower bound was below the perfect watermark on average, while it was known, up to the last event.

    The perfect watermark of a stream is the smallest time of the events that are still to be appended. Negative where
    events came below the bound. `events` has append_ms (ascending) and event_time; None without rows of both.
    """
    append_ms, event_time = (np.asarray(events[name], np.int64) for name in ("append_ms", "event_time"))
    at_ms = np.array([at for at, _, _ in bounds[:-1]], np.int64)
    if not len(at_ms) or not len(append_ms) or append_ms[-1] <= at_ms[0]:
        return None
    perfect = np.minimum.accumulate(event_time[::-1])[::-1]
    moments = np.union1d(append_ms[append_ms > at_ms[0]], at_ms[at_ms < append_ms[-1]])
    lower = np.array([lower or 0 for _, lower, _ in bounds[:-1]], np.int64)
    known = np.array([lower is not None for _, lower, _ in bounds[:-1]])
    index = np.searchsorted(at_ms, moments[:-1], side="right") - 1
    ahead = perfect[np.searchsorted(append_ms, moments[:-1], side="right")] - lower[index]
    weights = np.diff(moments) * known[index]
    return round(float(np.average(ahead, weights=weights)), 1) if weights.any() else None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ownership(FactAnswer):
    """The share of each controller in the ownership, in bucket milliseconds, and the gaps between two owners.

    `fairness` is from 1 / n (one of n controllers had everything) to 1 (all had equally much). A gap is (bucket, from,
    to), in ms of the clock; no cycle runs for a bucket in a gap, so no watermark of its streams is made.
    """

    buckets: int
    share: Mapping[str, float]
    fairness: float
    gaps: tuple[tuple[int, int, int], ...]
    facts: Facts
    templates: tuple[str, ...]


def ownership(recording: Recording) -> Ownership:
    """How the buckets of streams were spread over the controllers, according to the coordination service.

    Raises `RecordingError` for a log of the outside world that says nothing of buckets.
    """
    rows = owner_rows(recording)
    until_ms, scenario = last_ms(recording, rows), recording.scenario_as(StreamScenario)
    controllers = set(scenario.controller_names if scenario else ()) | {row["controller"] for row in rows}
    owned_ms = dict.fromkeys(sorted(controllers), 0)
    for row in rows:
        owned_ms[row["controller"]] += (until_ms if row["to_ms"] is None else row["to_ms"]) - row["from_ms"]
    total_ms = sum(owned_ms.values()) or 1
    gaps = tuple(
        (bucket, before["to_ms"], after["from_ms"])
        for bucket, of in groupby(rows, key=lambda row: row["bucket"])
        for before, after in pairwise([*of, {"from_ms": until_ms}])
        if before["to_ms"] is not None and before["to_ms"] < after["from_ms"]
    )
    share = {controller: ms / total_ms for controller, ms in owned_ms.items()}
    values: dict[str, Value] = {}
    for bucket, from_ms, to_ms in sorted(gaps, key=lambda gap: gap[1] - gap[2])[:1]:
        values |= {"longest gap": to_ms - from_ms, "bucket": str(bucket), "gap from": from_ms}
    head = head_of("owners", values)
    return Ownership(
        buckets=len({row["bucket"] for row in rows}),
        share=share,
        fairness=fairness(owned_ms.values()),
        gaps=gaps,
        facts=head.facts,
        templates=head.templates,
    )


def owner_rows(recording: Recording) -> list[TableRow]:
    """The rows of the table `ownership` by bucket and time.

    One controller that owned everything all the time has no rows in that table. Here it has one row for each bucket.
    Raises `RecordingError` as `ownership`.
    """
    rows = sorted(recording.table("ownership").to_pylist(), key=lambda row: (row["bucket"], row["from_ms"]))
    if rows:
        return rows
    scenario = recording.scenario_as(StreamScenario)
    if scenario is None:
        raise RecordingError(
            f"Recording {recording.name!r} has no ownership of buckets: its log does not say who owned them.",
            remedy="Record a scenario.",
        )
    ran: list[str] = recording.table("cycles")["controller"].to_pylist()
    controller, count = [*ran, *scenario.controller_names][0], scenario.controllers.buckets
    streams: dict[int, list[str]] = {}
    for stream in scenario.all_streams:
        streams.setdefault(bucket_of(qualified_name(stream.name), count), []).append(stream.name)
    whole_run = {"controller": controller, "from_ms": scenario.start_ms, "to_ms": None}
    return [{"bucket": bucket, "streams": streams.get(bucket, []), **whole_run} for bucket in range(count)]


def last_ms(recording: Recording, rows: Sequence[TableRow]) -> int:
    """When the run ended, or the last owner changed if that is later (clock, ms)."""
    changes: list[int] = [row[name] for row in rows for name in ("from_ms", "to_ms") if row[name] is not None]
    return max(end_ms(recording) or 0, *changes)
