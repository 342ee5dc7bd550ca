"""What a run of streams came to: the lower bound of a stream, and its measures."""

from __future__ import annotations

from typing import Final

from wmlab.core.recording import Recording
from wmlab.core.run_measures import RunMeasures
from wmlab.streams.answers.history import events_of, late_events, of_stream, rows_of_stream, the_stream, without_ends
from wmlab.streams.answers.measures import BoundSteps, Measures, bounds_of, lags
from wmlab.streams.charts.lag import lag_spread, seen_windows
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.tables import end_ms

MEASURES: Final = {
    "events": "events",
    "watermarks": "watermarks",
    "stalls": "cycles that were held",
    "refused": "refused marks",
    "lag_ms": "mean lag of the lower bound (ms)",
    "worst_lag_ms": "worst lag of the lower bound (ms)",
    "seen_worst_lag_ms": "worst lag of the lower bound that readers saw (ms)",
    "uncertainty_ms": "mean upper − lower (ms)",
    "late": "events below a lower bound given before",
}
"""The measures of a run and how they are written. Lag is clock minus lower bound of the newest watermark, averaged over
the time from the first watermark to the end of the run in which a bound is known; upper minus lower is averaged over
the same time. What readers saw is behind that by what they had still to read, and by the time between two of their
looks; it is the lag that `wm.chart.lag` draws."""


def measured_run(recording: Recording, stream: str | None) -> tuple[BoundSteps, Measures]:
    """The bounds of one stream of a recording, and its measures by the keys of `MEASURES`.

    Raises `RecordingError` if the stream is unknown, or there are several and none is named.
    """
    name = the_stream(recording, stream)
    marks = without_ends(rows_of_stream(recording, "watermarks", name))
    cycles = rows_of_stream(recording, "cycles", name)
    outcomes = of_stream(recording.table("writer_marks"), name)["outcome"].to_pylist()
    events = late = 0
    for part in events_of(recording, name, "append_ms", "event_time"):
        events += part.num_rows
        late += late_events(part, marks).num_rows
    bounds = bounds_of(marks, end_ms(recording) or 0)
    seen = lag_spread(seen_windows(recording, name))
    return bounds, {
        "events": events,
        "watermarks": len(marks),
        "stalls": sum(row["outcome"] != "emitted" for row in cycles),
        "refused": sum(outcome != "success" for outcome in outcomes),
        **lags(bounds),
        "seen_worst_lag_ms": None if seen is None else seen.largest,
        "late": late,
    }


def measures(recording: Recording, stream: str | None = None) -> RunMeasures:
    """What a stream came to in the run: its lower bound over the clock, its lag, events, watermarks, and late events.

    `stream` is needed when there are several. Raises `RecordingError` for one that is not there.
    """
    bounds, figures = measured_run(recording, stream)
    lag_ms = figures["lag_ms"]
    scenario = recording.scenario_as(StreamScenario)
    return RunMeasures(
        name=recording.name,
        bound="lower bound",
        steps=tuple((at_ms, lower) for at_ms, lower, _ in bounds),
        lag_ms=lag_ms,
        settings=None if scenario is None else scenario.settings,
        measures={words: figures[name] for name, words in MEASURES.items()},
    )
