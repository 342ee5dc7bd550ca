"""The measures of a dataflow run: the coalesced watermark where results wait for it, and further numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from wmlab.core.errors import RecordingError
from wmlab.core.late import Late, Span, covered_ms
from wmlab.core.recording import Recording
from wmlab.core.run_measures import BoundSteps, Lag, RunMeasures, with_lag
from wmlab.core.scenario_words import Vocabulary, words_of
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow, read, run_of
from wmlab.dataflow.answers.sentences import failure_sentence
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of

BOUND: Final = "watermark"
ACTING: Final = ("window", "session window", "join", "late drop", "stateful map")
"""The kinds of vertices that compare a row with the watermark they were given."""


def measures(recording: Recording, stream: str | None = None) -> RunMeasures:
    """The measures of the run: the coalesced watermark over the clock, and the rows that were read, late, and emitted.

    The watermark is that of the lowest key, the smallest over the instances, at the last vertex that waits for
    watermarks, or else at the sink; after a restart it is unknown. The delay of a result counts from its event time.
    Raises `RecordingError` for a stream, which no dataflow has.
    """
    if stream is not None:
        raise RecordingError("a stream is named; dataflows have none.", remedy="leave the stream out.")
    run = run_of(recording)
    vertex = run.last_waiting
    steps = coalesced_steps(run, vertex)
    lag = Lag.of(steps)
    sunk, late = run.rows("sunk"), late_in(run)
    scenario = None if recording.scenario is None else dataflow_of(recording, DataflowScenario, stand_ins=True)
    results = sum(row["committed"] for row in sunk)
    return RunMeasures(
        name=recording.name,
        bound=BOUND,
        steps=steps,
        lag_ms=lag.mean_ms,
        scenario=None if scenario is None else words_of(scenario, Vocabulary()),
        late=late,
        failure=failure_sentence(run),
        results=results,
        measures={
            "rows read": sum(row["passed"] for row in run.rows("source_rows")),
            f"watermarks at {vertex}": len({value for _, value in steps if value is not None}),
            **with_lag(BOUND, lag),
            "results": results,
            "results taken back by a restart": sum(not row["committed"] for row in sunk),
            "most rows of state": max((row["size"] for row in run.rows("state")), default=0),
        }
        | late.measures,
    )


def coalesced_steps(run: DataflowRun, vertex: str) -> BoundSteps:
    """The watermark of the lowest key that a vertex has over the clock: the least over its instances."""
    key = min(run.keys(vertex), default=0)
    instances = range(run.vertex(vertex)["parallelism"])
    levels = {number: _level(run, vertex, number) for number in instances}
    rises = [
        (row["at_ms"], row["execution"], row["instance"], dict(row["emitted"])[key])
        for row in run.rows("coalescing")
        if row["vertex"] == vertex and row["level"] == levels[row["instance"]] and key in dict(row["emitted"])
    ]
    begins = [(row["started_ms"], row["execution"], None, None) for row in run.executions]
    reached: dict[int, int] = {}
    steps: list[tuple[int, int | None]] = []
    for at_ms, _, instance, value in sorted([*begins, *rises], key=itemgetter(1, 0)):
        if instance is None:
            reached = {}
        else:
            reached[instance] = value
        steps.append((at_ms, min(reached.values()) if len(reached) == len(instances) else None))
    if all(value is None for _, value in steps):
        return ()
    return (*steps, (max(run.end_ms, steps[-1][0]), steps[-1][1]))


def _level(run: DataflowRun, vertex: str, instance: int) -> str:
    """The level of coalescing whose watermarks an instance acts on; a join takes those of each edge."""
    several = len({queue["edge"] for queue in run.into(vertex, instance)}) > 1
    return "global" if several and run.vertices[vertex]["kind"] != "join" else "edge"


class WatermarksGot(NamedTuple):
    """The watermarks of one key that an instance was given: values that rise, after how many items, and when (ms)."""

    values: Sequence[int]
    taken: Sequence[int]
    at_ms: Sequence[int]

    def late(self, row: RecordedRow, time: int) -> tuple[int, Span] | None:
        """By how much, and from when to when, the watermark was above the time of a row; None: it was not."""
        last = bisect_right(self.taken, row["taken"]) - 1
        if last < 0 or self.values[last] <= time:
            return None
        return self.values[last] - time, (self.at_ms[bisect_right(self.values, time)], row["taken_ms"])


def late_in(run: DataflowRun) -> Late:
    """The rows that came to a vertex below the watermark that it had been given; the dropped ones are left out.

    A row counts once for each vertex that acts on watermarks. What an instance had been given is part of a snapshot.
    """
    late = list(_late_rows(run))
    return Late.of(
        "rows",
        f"the {BOUND}",
        late=len(late),
        at_most_ms=max((by_ms for by_ms, _ in late), default=None),
        for_ms=covered_ms([span for _, span in late]),
        left_out=Counter(f"by the {row['rule']} rule of {row['vertex']}" for row in run.rows("drops")),
    )


def _late_rows(run: DataflowRun) -> Iterator[tuple[int, Span]]:
    """Of each late row by how much it was below the watermark, and from when to when that waited for it."""
    queues = {queue["queue"]: queue for queue in run.queues if run.vertices[queue["target"]]["kind"] in ACTING}
    watermarks: dict[tuple[int, str, int, int], WatermarksGot] = {}
    for execution in run.executions:
        for vertex, instance, key in {
            (queue["target"], queue["target_instance"], key) for queue in queues.values() for key in queue["keys"]
        }:
            where = (execution["execution"], vertex, instance)
            watermarks[*where, key] = _watermarks_got(run, watermarks, execution, vertex, instance, key)
    for (number, name), items in run.indexed("items").items():
        if name not in queues:
            continue
        queue = queues[name]
        for row in items:
            if row["kind"] == "event" and row["taken"] is not None:
                amounts = [
                    watermarks[number, queue["target"], queue["target_instance"], key].late(row, time)
                    for key, time in _times(row, queue["keys"]).items()
                ]
                if above := [each for each in amounts if each is not None]:
                    yield max(by_ms for by_ms, _ in above), min(span for _, span in above)


def _times(row: RecordedRow, keys: Mapping[int, str]) -> Mapping[int, int]:
    """The times of a row by the keys of its queue."""
    if len(keys) == 1:
        return {key: row["time"] for key in keys if row["time"] is not None}
    values = read(row["row"])
    return {key: values[column] for key, column in keys.items() if values.get(column) is not None}


def _watermarks_got(
    run: DataflowRun,
    watermarks: Mapping[tuple[int, str, int, int], WatermarksGot],
    execution: RecordedRow,
    vertex: str,
    instance: int,
    key: int,
) -> WatermarksGot:
    """What an instance was given in an execution, and before that in the snapshot from which this began."""
    steps = run.emitted_watermarks.get(
        (execution["execution"], vertex, instance, _level(run, vertex, instance), key), ((), ())
    )
    values, taken = list(steps[0]), [step["taken"] for step in steps[1]]
    at_ms = [step["at_ms"] for step in steps[1]]
    saved = [
        row
        for row in run.rows("snapshots")
        if (row["snapshot"], row["vertex"], row["instance"]) == (execution["snapshot"], vertex, instance)
        and row["saved_ms"] is not None
        and row["execution"] < execution["execution"]
    ]
    for row in saved[-1:] if execution["snapshot"] is not None else ():
        before = watermarks[row["execution"], vertex, instance, key]
        kept = bisect_right(before.at_ms, row["saved_ms"])
        if kept:
            restored = before.values[kept - 1]
            values = [restored, *(max(restored, value) for value in values)]
            taken, at_ms = [0, *taken], [execution["started_ms"], *at_ms]
    return WatermarksGot(values, taken, at_ms)
