"""The measures of a query plan run: the global watermark of a query, and further numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any, Final

from wmlab.core.late import Late, Span, covered_ms
from wmlab.core.recording import Recording
from wmlab.core.run_measures import Lag, RunMeasures, with_lag
from wmlab.core.scenario_words import Vocabulary, words_of
from wmlab.progress.answers.recorded_query import RecordedQuery
from wmlab.progress.model.windows import Firing
from wmlab.progress.scenario import ProgressScenario, firing_rules_of, is_build, windowing_of

BOUND: Final = "global watermark"


def measures(recording: Recording, stream: str | None = None, *, operator: str | None = None) -> RunMeasures:
    """The measures of the run: the global watermark of a query over the clock, its buffers, windows and late records.

    The watermark and the windows are those at `operator`, by default the build of the last windows or, without windows,
    the sink. The delay of a buffer counts from its first record, or from the window that emitted it, to that operator.
    `stream` names the query and is needed when there are several. Results are the records that these windows counted
    or, at any other operator, the records that arrived there. Raises `RecordingError` for a query or an operator that
    is not there.
    """
    of_query = RecordedQuery.of(recording, stream)
    query, operator = of_query.name, of_query.operator(operator)
    arrivals = of_query.arrivals(operator)
    fired = [
        row
        for row in recording.table("windows_fired").to_pylist()
        if row["stream"] == query and row["operator"] == operator
    ]
    late = late_in(recording, query)
    incidents = [row["kind"] for row in recording.table("incidents").to_pylist() if row["stream"] == query]
    steps = [(row["arrived_ms"], row["reached"]) for row in arrivals]
    lag = Lag.of(steps)
    on_way_ms = [row["arrived_ms"] - row["created_ms"] for row in arrivals]
    return RunMeasures(
        name=recording.name,
        bound=BOUND,
        steps=tuple(steps),
        lag_ms=lag.mean_ms,
        scenario=None if of_query.scenario is None else words_of(of_query.scenario, Vocabulary()),
        results=sum(row["records"] for row in (fired if is_build(operator) else arrivals)),
        late=late,
        measures={
            f"buffers at {operator}": len(arrivals),
            "mean time of a buffer on its way (ms)": round(fmean(on_way_ms), 1) if on_way_ms else None,
            "longest time of a buffer on its way (ms)": max(on_way_ms, default=None),
            **with_lag(BOUND, lag),
            "windows fired by the watermark": sum(row["cause"] == "watermark" for row in fired),
            "windows fired by the end of the stream": sum(row["cause"] != "watermark" for row in fired),
            "records counted in windows": sum(row["records"] for row in fired),
            "buffers that came twice, or after their sequence was complete": incidents.count("breach"),
        }
        | ({} if late is None else late.measures),
    )


def late_in(recording: Recording, query: str) -> Late | None:
    """The buffers that came to windows of a query with records for one that had fired; None without a scenario."""
    scenario = recording.scenario_as(ProgressScenario)
    if scenario is None:
        return None
    (part,) = [part for part in scenario.queries if part.name == query]
    buffers = [row for row in recording.table("buffers").to_pylist() if row["stream"] == query]
    trigger = scenario.resolved.rules.trigger
    late = [
        each
        for operator, windows in windowing_of(part).items()
        for each in _late_buffers(
            [row for row in buffers if row["operator"] == operator], Firing(firing_rules_of(windows, trigger))
        )
    ]
    return Late.of(
        "buffers",
        f"the {BOUND}",
        late=len(late),
        at_most_ms=max((by_ms for by_ms, _ in late), default=None),
        for_ms=covered_ms([span for _, span in late]),
        left_out={"of windows that had fired": len(late)} if late else {},
    )


def _late_buffers(arrivals: Sequence[Mapping[str, Any]], firing: Firing) -> Iterator[tuple[int, Span]]:
    """Of each late buffer by how much the watermark was above the end of its first window, and since when it was."""
    watermark, closed, at_ms = 0, list[int](), list[int]()
    for row in sorted(arrivals, key=itemgetter("arrival")):
        shut = [windows.start for windows in map(firing.count, row["slices"]) if windows]
        if shut:
            _, end = firing.rules.windows.span(min(shut))
            yield watermark - end, (at_ms[bisect_right(closed, min(shut))], row["arrived_ms"])
        firing.advance(row["reached"])
        watermark = max(watermark, row["reached"] or 0)
        closed.append(firing.closed)
        at_ms.append(row["arrived_ms"])
