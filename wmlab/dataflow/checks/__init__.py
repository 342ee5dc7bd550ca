"""The check of a recorded dataflow: the invariants K1 to K15, from the tables of its recording.

What merging let through, what was dropped and what came out is recorded, and compared with what stood on the queues:
the coalesced watermarks are asked of the model as the documents have it, windows and joins of batch queries over the
on-time rows. So a recording of mode `hz` shows its defects where they had an effect.

Source: "Keyed watermark support"; "Stream-to-stream join"; wmlab's own list of what they guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers import Verdicts
from wmlab.core.errors import RecordingError
from wmlab.core.invariants import Derived, Invariant, TableRows
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.core.spark.verdict import BatchInvariant
from wmlab.dataflow.checks import rows, watermarks
from wmlab.dataflow.checks.batch import joins_equal_batch, windows_equal_batch
from wmlab.dataflow.checks.watermarks import coalesced_steps, coalescing_items
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.sim.rules import DataflowRules, rules_of

INVARIANTS: Final[Mapping[str, Invariant | BatchInvariant]] = {
    "K1": watermarks.watermarks_increase,
    "K2": watermarks.idle_once,
    "K3": watermarks.watermarks_coalesced,
    "K4": watermarks.idle_when_all_are,
    "K5": watermarks.reaches_the_instance,
    "K6": watermarks.leaves_the_instance,
    "K7": rows.on_time_stays_on_time,
    "K8": rows.late_stays_late,
    "K9": rows.drops_by_rule,
    "K10": windows_equal_batch,
    "K11": joins_equal_batch,
    "K12": rows.within_limits,
    "K13": rows.calls_consistent,
    "K14": rows.idle_overtakes_no_call,
    "K15": watermarks.leaves_at_once,
}
"""What a recording of a dataflow has to keep, by name."""
UNKNOWN_DATAFLOW: Final = {
    name: replace(invariant, no_data="the recording does not tell its dataflow")
    if {"rules", "limits"} & {*invariant.inputs}
    else invariant
    for name, invariant in INVARIANTS.items()
}
"""The same, where nobody knows the rules of the dataflow."""
TABLES: Final = ("items", "queues", "coalescing", "vertices", "executions", "drops", "state", "calls")
"""The tables of a recording that this takes."""


def inputs_of(tables: Mapping[str, DataFrame], rules: DataflowRules | None) -> dict[str, Any]:
    """What the invariants take, from the tables of a recording and what they do not say of its dataflow."""
    rules = rules or DataflowRules()
    specials = coalescing_items(tables["items"]).drop("row")
    made = {"specials": specials, "due": Derived(_due), "limits": _limits(rules), "rules": rules}
    return {**tables, **made}


def _due(specials: TableRows, queues: TableRows, coalescing: TableRows) -> list[dict[str, Any]]:
    return coalesced_steps(specials, queues, coalescing)


def check(recording: Recording, spark: SparkSession, *only: str) -> Verdicts:
    """One verdict per invariant, K1 to K15, with the rows that prove a violation; from the tables, by Spark.

    `only` names those that are judged; without names, all are. Raises `ModelError` for a name that is none.
    """
    tables = {name: recording.spark(spark, name) for name in TABLES}
    try:
        rules = rules_of(dataflow_of(recording, DataflowScenario, stand_ins=True))
    except RecordingError:
        return verdict.check(spark, recording.name, UNKNOWN_DATAFLOW, inputs_of(tables, None), only)
    return verdict.check(spark, recording.name, INVARIANTS, inputs_of(tables, rules), only)


def _limits(rules: DataflowRules) -> dict[str, int]:
    known = [(rule, rule.limit) for rule in rules.results.values()]
    return {name: limit for rule, limit in known if limit is not None for name in {rule.vertex, rule.entry}}
