"""The check of a recorded dataflow, and its merged watermarks."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.spark.judge import judged
from wmlab.dataflow.checks.checks import DATAFLOW_INVARIANTS, JUDGED, dataflow_verdict
from wmlab.dataflow.checks.coalesced import coalesced as merged
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.sim.rules import rules_of


def check(recording: Recording, spark: SparkSession) -> Verdicts:
    """One verdict per invariant, K1 to K14, with the rows that prove a violation; judged by Spark from the tables."""
    tables = {name: recording.spark(spark, name) for name in JUDGED}
    try:
        rules = rules_of(dataflow_of(recording, DataflowScenario))
    except RecordingError:
        rules = None
    return judged(recording.name, DATAFLOW_INVARIANTS, lambda name: dataflow_verdict(name, tables, rules))


def coalesced(recording: Recording, spark: SparkSession) -> DataFrame:
    """What merging had come to after every step of a recorded dataflow; see
    `wmlab.dataflow.checks.coalesced.coalesced`.

    With the deviations of the dataflow, so that a recording of mode `hz` is followed as it was. Raises `RecordingError`
    if it was no dataflow.
    """
    dataflow = dataflow_of(recording, DataflowScenario, stand_ins=True)
    tables = [recording.spark(spark, name) for name in ("items", "queues", "coalescing")]
    return merged(*tables, deviations=dataflow.rules)
