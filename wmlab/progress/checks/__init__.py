"""The check of progress by origin, sequence and chunk: one verdict for each invariant, from tables alone.

What an operator believed after each buffer is recorded (`completed`, `reached_prefix`, `reached_local`, `reached`) and
compared with what the buffers themselves say. A recording that was made under a literal rule, or by an engine that
forgets fired windows, is found out here.

Source: "Watermarking and Progress"; wmlab's own list of what it guarantees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from wmlab.core.answers import Verdicts
from wmlab.core.invariants import Derived, Invariant, judged_in_memory, of_one_stream, totals_of, with_liveness
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.progress.checks import invariants
from wmlab.progress.model.chunks import CompletenessRule
from wmlab.progress.model.tracker import LocalRule, ProgressRules
from wmlab.progress.scenario import tracker_rules_of

INVARIANTS: Final[Mapping[str, Invariant]] = {
    "N1": invariants.prefix_decides,
    "N3": invariants.complete_by_the_set,
    "N6": invariants.smallest_of_the_origins,
    "N8": invariants.fires_once,
    "N9": invariants.outputs_carry_the_start,
    "N10": invariants.chunks_in_order,
    "N11": invariants.windows_are_their_slices,
}
"""What progress in a recording has to keep, by name. Numbers that are left out follow from others, see `invariants`."""
LIVENESS: Final[Mapping[str, Invariant]] = {"N12": invariants.comes_to_rest}
"""What it has to keep once everything has come to rest; judged when it is named, for most runs end before that."""
JUDGED_TABLES: Final = ("buffers", "windows_fired")
"""The tables of a recording that this takes."""


def inputs_of(
    tables: Mapping[str, pa.Table], *, local: LocalRule = "running_max", complete: CompletenessRule = "set"
) -> dict[str, Any]:
    """What the invariants take, from the tables of a recording and the rules under which it was made."""
    return {**tables, "local": local, "complete": complete, "tracked": Derived(invariants.tracked)}


def check(recording: Recording, spark: SparkSession, *only: str) -> Verdicts:
    """One verdict per invariant with the rows that prove a violation; from the tables, by Spark.

    `only` names those that are judged; without names, all are. Raises `ModelError` for a name that is none.
    """
    rules = tracker_rules_of(recording) or ProgressRules()
    tables = {name: recording.table(name) for name in JUDGED_TABLES}
    inputs = inputs_of(tables, local=rules.local, complete=rules.complete)
    return verdict.check(spark, recording.name, with_liveness(INVARIANTS, LIVENESS, only), inputs, only)


def in_memory(recording: Recording, *only: str) -> Verdicts:
    """The verdicts of `check` without Spark, for a recording that fits into memory; raises as `check` does."""
    return judged_in_memory(
        recording.name, with_liveness(INVARIANTS, LIVENESS, only), partial(_totals_in_memory, recording), only
    )


def _totals_in_memory(recording: Recording, chosen: Mapping[str, Invariant]) -> Iterator[dict[str, Any]]:
    rules = tracker_rules_of(recording) or ProgressRules()
    tables = {name: recording.table(name) for name in JUDGED_TABLES}
    inputs = inputs_of({}, local=rules.local, complete=rules.complete)
    for stream in pc.unique(tables["buffers"]["stream"]).to_pylist():
        yield from totals_of(chosen, of_one_stream(tables, stream), inputs, stream)
