"""The measures of a run of streams: the lower bound of a stream, and further numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.late import Late
from wmlab.core.recording import Recording
from wmlab.core.run_measures import RunMeasures
from wmlab.core.scenario_words import words_of
from wmlab.core.times import Int64Array
from wmlab.streams.answers.history import events_of, late_events, of_stream, rows_of_stream, the_stream, without_ends
from wmlab.streams.answers.lag import lag_spread, seen_windows
from wmlab.streams.answers.measures import BoundSteps, Measures, bounds_of, lags
from wmlab.streams.scenario.options import WORDS
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import end_ms

if TYPE_CHECKING:
    from wmlab.streams.checks import LateReads

MEASURES: Final = {
    "events": "events",
    "watermarks": "watermarks",
    "stalls": "cycles that were held",
    "refused": "refused marks",
    "lag_ms": "mean lag of the lower bound (ms)",
    "worst_lag_ms": "worst lag of the lower bound (ms)",
    "seen_worst_lag_ms": "worst lag of the lower bound that readers saw (ms)",
    "uncertainty_ms": "mean upper − lower (ms)",
}
"""The measures of a run besides what is late, and how they are written. Lag is clock minus lower bound of the newest
watermark. It is averaged over the time from the first watermark to the end of the run in which a bound is known; upper
minus lower is averaged over the same time. What readers saw is behind that by what they had still to read. Add the time
that reading takes, and that between two of their looks; it is the lag that `wm.chart.lag` draws.
"""


def measured_run(recording: Recording, stream: str | None) -> tuple[BoundSteps, Measures]:
    """The bounds of one stream of a recording, and its measures by the keys of `MEASURES`.

    Raises `RecordingError` if the stream is unknown, or there are several and none is named.
    """
    name = the_stream(recording, stream)
    marks = without_ends(rows_of_stream(recording, "watermarks", name))
    cycles = rows_of_stream(recording, "cycles", name)
    outcomes = of_stream(recording.table("writer_marks"), name)["outcome"].to_pylist()
    bounds = bounds_of(marks, end_ms(recording) or 0)
    steps = np.array(
        [(at, lower, to) for (at, lower, _), (to, _, _) in pairwise(bounds) if lower is not None], np.int64
    )
    from_ms, lowers, to_ms = steps.reshape(-1, 3).T
    last_below_ms, events, late, at_most_ms = from_ms, 0, 0, 0
    for part in events_of(recording, name, "append_ms", "event_time"):
        events += part.num_rows
        below = late_events(part, marks)
        late += below.num_rows
        at_most_ms = max(at_most_ms, pc.max(below["below_ms"]).as_py() or 0)
        last_below_ms = np.maximum(last_below_ms, _last_below_ms(below, lowers))
    seen = lag_spread(seen_windows(recording, name))
    return bounds, {
        "events": events,
        "watermarks": len(marks),
        "stalls": sum(row["outcome"] != "emitted" for row in cycles),
        "refused": sum(outcome != "success" for outcome in outcomes),
        **lags(bounds),
        "seen_worst_lag_ms": None if seen is None else seen.largest,
        "late": late,
        "late_at_most_ms": at_most_ms or None,
        "late_for_ms": int(np.maximum(np.minimum(last_below_ms, to_ms) - from_ms, 0).sum()),
    }


def _last_below_ms(events: pa.Table, lowers: Int64Array) -> Int64Array:
    """For each lower bound when the last of these events below it was appended; the smallest number if none was."""
    event_time, append_ms = (events[name].to_numpy() for name in ("event_time", "append_ms"))
    order = np.argsort(event_time)
    # With the smallest number before, for the bounds that no event is below.
    last_ms = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, append_ms[order]))
    last_below_ms: Int64Array = last_ms[np.searchsorted(event_time[order], lowers)]
    return last_below_ms


def measures(recording: Recording, stream: str | None = None) -> RunMeasures:
    """The measures of the run: the lower bound of a stream over the clock, its lag, events, watermarks and late events.

    `stream` is needed when there are several. Raises `RecordingError` for one that is not there.
    """
    from wmlab.streams.checks import late_reads_of

    bounds, figures = measured_run(recording, stream)
    scenario = recording.scenario_as(StreamScenario)
    late = _late(figures, late_reads_of(recording, the_stream(recording, stream)))
    return RunMeasures(
        name=recording.name,
        bound="lower bound",
        steps=tuple((at_ms, lower) for at_ms, lower, _ in bounds),
        lag_ms=figures["lag_ms"],
        width_ms=figures["uncertainty_ms"],
        scenario=None if scenario is None else words_of(scenario, WORDS),
        late=late,
        measures={words: figures[name] for name, words in MEASURES.items()} | late.measures,
    )


def late_in(recording: Recording, stream: str, reads: LateReads) -> Late:
    """What is late in one stream of a recording, of which the late reads are known."""
    return _late(measured_run(recording, stream)[1], reads)


def _late(figures: Measures, reads: LateReads) -> Late:
    at_most_ms = figures["late_at_most_ms"]
    return Late.of(
        "events",
        "the lower bound in the log",
        late=int(figures["late"] or 0),
        at_most_ms=None if at_most_ms is None else int(at_most_ms),
        for_ms=int(figures["late_for_ms"] or 0),
        read=reads.read,
        left_out=reads.left_out,
    )
