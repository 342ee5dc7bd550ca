"""The check of a recorded dataflow, and its merged watermarks."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.spark.judge import judged
from wmlab.dataflow.checks.checks import DATAFLOW_INVARIANTS, JUDGED, Recorded, dataflow_verdict
from wmlab.dataflow.checks.coalesced import coalesced as merged
from wmlab.dataflow.checks.recorded_rows import RecordedRule
from wmlab.dataflow.model import deviations
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.recorded import dataflow_of, not_a_dataflow
from wmlab.dataflow.scenario.vertices import AsyncMap
from wmlab.dataflow.scenario.windows import Join, SessionWindow, Window
from wmlab.dataflow.sim.layout import FRAMES, Node
from wmlab.dataflow.sim.processors import processor_of


def check(recording: Recording, spark: SparkSession) -> Verdicts:
    """One verdict per invariant, K1 to K14, with the rows that prove a violation; judged by Spark from the tables."""
    tables = {name: recording.spark(spark, name) for name in JUDGED}
    try:
        told = recorded_rules(dataflow_of(recording, DataflowScenario))
    except RecordingError:
        told = None
    return judged(recording.name, DATAFLOW_INVARIANTS, lambda name: dataflow_verdict(name, tables, told))


def coalesced(recording: Recording, spark: SparkSession) -> DataFrame:
    """What merging had come to after every step of a recorded dataflow; see
    `wmlab.dataflow.checks.coalesced.coalesced`.

    With the deviations of the dataflow, so that a recording of mode `hz` is followed as it was. Raises `RecordingError`
    if it was no dataflow.
    """
    told = recording.scenario
    if told is None:
        raise not_a_dataflow(recording)
    named = told.get("deviations")
    chosen = None if named is None else deviations.Deviations(**dict.fromkeys(named, True))
    rules = chosen or deviations.deviations(told.get("mode", "design"))
    tables = [recording.spark(spark, name) for name in ("items", "queues", "coalescing")]
    return merged(*tables, deviations=rules)


def recorded_rules(dataflow: DataflowScenario) -> Recorded:
    """The windows, joins and capacities of a dataflow, which the tables of its recording do not tell."""
    plan = dataflow.plan
    rules = [
        RecordedRule(
            vertex=vertex.name,
            entry=vertex.name + FRAMES if isinstance(vertex, Window) and vertex.stages == 2 else vertex.name,
            rule=processor_of(dataflow, plan, Node(vertex.name, vertex, plan.outputs[vertex.name]), lambda: True),  # type: ignore[arg-type]
            inputs=tuple(plan.outputs[edge.source].columns for edge in plan.inputs[vertex.name]),
            columns=plan.outputs[vertex.name].columns,
        )
        for vertex in dataflow.vertices
        if isinstance(vertex, Window | SessionWindow | Join)
    ]
    capacities = {vertex.name: vertex.capacity for vertex in dataflow.vertices if isinstance(vertex, AsyncMap)}
    return Recorded(rules=tuple(rules), capacities=capacities)
