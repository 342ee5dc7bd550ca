"""The check of progress by origin, sequence and chunk: one verdict for each invariant N1 to N11, from tables alone.

What an operator believed after each buffer is recorded (`completed`, `reached_prefix`, `reached_local`, `reached`) and
compared with what the buffers themselves say. A recording that was made under the literal rule, or by an engine that
forgets fired windows, is found out here.

Source: "Watermarking and Progress"; wmlab's own list of what it guarantees.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers import Verdicts
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.core.spark.verdict import BatchInvariant
from wmlab.progress.checks import invariants
from wmlab.progress.checks.progress import progress
from wmlab.progress.model.tracker import LocalRule
from wmlab.progress.scenario import rules_of

INVARIANTS: Final[Mapping[str, BatchInvariant]] = {
    "N1": invariants.prefix_decides,
    "N2": invariants.gap_blocks,
    "N3": invariants.complete_by_the_set,
    "N4": invariants.count_is_set,
    "N5": invariants.largest_of_its_chunks,
    "N6": invariants.smallest_of_the_origins,
    "N7": invariants.head_below_maximum,
    "N8": invariants.fires_once,
    "N9": invariants.outputs_carry_the_start,
    "N10": invariants.chunks_in_order,
    "N11": invariants.windows_are_their_slices,
}
"""What progress in a recording has to keep, by name."""
TABLES: Final = ("buffers", "windows_fired")
"""The tables of a recording that this takes."""


def inputs_of(tables: Mapping[str, DataFrame], *, local: LocalRule = "running_max") -> dict[str, Any]:
    """What the invariants take, from the tables of a recording and the rule under which it was made."""
    made = cache(partial(progress, tables["buffers"]))  # Two of them are the same under the rule by default.
    return {
        **tables,
        "tracked": partial(made, local=local),
        "counted": partial(made, local=local, complete="count"),
        "head": partial(made, local="head"),
        "running_max": partial(made, local="running_max"),
    }


def check(recording: Recording, spark: SparkSession, *only: str) -> Verdicts:
    """One verdict per invariant, N1 to N11, with the rows that prove a violation; from the tables, by Spark.

    `only` names those that are judged; without names, all are. Raises `ModelError` for a name that is none.
    """
    rules = rules_of(recording)
    tables = {name: recording.spark(spark, name) for name in TABLES}
    inputs = inputs_of(tables, local="running_max" if rules is None else rules.local)
    return verdict.check(spark, recording.name, INVARIANTS, inputs, only)
