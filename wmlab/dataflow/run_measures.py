"""The measures of a dataflow run: the coalesced watermark where results wait for it, and further numbers."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.run_measures import BoundSteps, BrokenPromises, Lag, RunMeasures, with_lag
from wmlab.core.scenario_words import Vocabulary, words_of
from wmlab.dataflow.answers.run import DataflowRun
from wmlab.dataflow.answers.sentences import failure_sentence
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of

BOUND: Final = "watermark"


def measures(recording: Recording, stream: str | None = None) -> RunMeasures:
    """The measures of the run: the coalesced watermark over the clock, and the rows that were read, late, and emitted.

    The watermark is that of the lowest key, the smallest over the instances, at the last vertex that waits for
    watermarks, or else at the sink; after a restart it is unknown. The delay of a result counts from its event time.
    Raises `RecordingError` for a stream, which no dataflow has.
    """
    if stream is not None:
        raise RecordingError("a stream is named; dataflows have none.", remedy="leave the stream out.")
    run = DataflowRun(recording)
    vertex = run.last_waiting
    steps = coalesced_steps(run, vertex)
    lag = Lag.of(steps)
    sunk, dropped = run.rows("sunk"), run.rows("drops")
    scenario = None if recording.scenario is None else dataflow_of(recording, DataflowScenario, stand_ins=True)
    results = sum(row["committed"] for row in sunk)
    return RunMeasures(
        name=recording.name,
        bound=BOUND,
        steps=steps,
        lag_ms=lag.mean_ms,
        scenario=None if scenario is None else words_of(scenario, Vocabulary()),
        broken=BrokenPromises(count=len(dropped), noun="row", below="dropped as late"),
        failure=failure_sentence(run.end),
        results=results,
        measures={
            "rows read": sum(row["passed"] for row in run.rows("source_rows")),
            f"watermarks at {vertex}": len({value for _, value in steps if value is not None}),
            **with_lag(BOUND, lag),
            "rows dropped as late": len(dropped),
            "results": results,
            "results taken back by a restart": sum(not row["committed"] for row in sunk),
            "most rows of state": max((row["size"] for row in run.rows("state")), default=0),
        },
    )


def coalesced_steps(run: DataflowRun, vertex: str) -> BoundSteps:
    """The watermark of the lowest key that a vertex has over the clock: the least over its instances."""
    key = min(run.keys(vertex), default=0)
    instances = range(run.vertex(vertex)["parallelism"])
    levels = {
        number: "global" if len({queue["edge"] for queue in run.into(vertex, number)}) > 1 else "edge"
        for number in instances
    }
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
