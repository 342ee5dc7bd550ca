"""The measures of a query plan run: the global watermark of a query, and further numbers."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from wmlab.core.recording import Recording
from wmlab.core.run_measures import BrokenPromises, Lag, RunMeasures, with_lag
from wmlab.core.scenario_words import Vocabulary, words_of
from wmlab.progress.answers import operator_of
from wmlab.progress.scenario import ProgressScenario, is_build

BOUND: Final = "global watermark"


def measures(recording: Recording, stream: str | None = None, *, operator: str | None = None) -> RunMeasures:
    """The measures of the run: the global watermark of a query over the clock, its buffers, windows and late records.

    The watermark and the windows are those at `operator`, by default the build of the last windows or, without windows,
    the sink. The delay of a buffer counts from its first record, or from the window that emitted it, to that operator.
    `stream` names the query and is needed when there are several. Results are the records that these windows counted
    or, at any other operator, the records that arrived there. Raises `RecordingError` for a query or an operator that
    is not there.
    """
    query, operator, arrivals = operator_of(recording, stream, operator)
    fired = [
        row
        for row in recording.table("windows_fired").to_pylist()
        if row["stream"] == query and row["operator"] == operator
    ]
    incidents = [row["kind"] for row in recording.table("incidents").to_pylist() if row["stream"] == query]
    steps = [(row["arrived_ms"], row["reached"]) for row in arrivals]
    lag = Lag.of(steps)
    on_way_ms = [row["arrived_ms"] - row["created_ms"] for row in arrivals]
    scenario = recording.scenario_as(ProgressScenario)
    counting = is_build(operator)
    return RunMeasures(
        name=recording.name,
        bound=BOUND,
        steps=tuple(steps),
        lag_ms=lag.mean_ms,
        scenario=None if scenario is None else words_of(scenario, Vocabulary()),
        results=sum(row["records"] for row in (fired if counting else arrivals)),
        result_noun="counted record" if counting else "result",
        broken=BrokenPromises(count=incidents.count("late"), noun="buffer", below="with late records"),
        measures={
            f"buffers at {operator}": len(arrivals),
            "mean time of a buffer on its way (ms)": round(fmean(on_way_ms), 1) if on_way_ms else None,
            "longest time of a buffer on its way (ms)": max(on_way_ms, default=None),
            **with_lag(BOUND, lag),
            "windows fired by the watermark": sum(row["cause"] == "watermark" for row in fired),
            "windows fired by the end of the stream": sum(row["cause"] != "watermark" for row in fired),
            "records counted in windows": sum(row["records"] for row in fired),
            "buffers with late records": incidents.count("late"),
            "buffers that came twice, or after their sequence was complete": incidents.count("breach"),
        },
    )
