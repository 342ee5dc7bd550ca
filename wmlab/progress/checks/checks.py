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

from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.core.spark.verdict import Invariant
from wmlab.progress.checks import invariants
from wmlab.progress.checks.progress import progress
from wmlab.progress.model.tracker import LocalRule
from wmlab.progress.scenario import rules_of

_NO_BUFFER: Final = "no buffer came to an operator"
_NO_WINDOW: Final = "no window fired"

INVARIANTS: Final[Mapping[str, Invariant]] = {
    "N1": Invariant(
        "prefix and local watermark are those of the longest complete prefix", invariants.prefix_decides, _NO_BUFFER
    ),
    "N2": Invariant("a missing sequence blocks the prefix until it comes", invariants.gap_blocks, _NO_BUFFER),
    "N3": Invariant(
        "a sequence is complete exactly when all its chunks have come", invariants.complete_by_the_set, _NO_BUFFER
    ),
    "N4": Invariant(
        "counting chunks finds the same as their set where none is repeated",
        invariants.count_is_set,
        "every sequence has a repeated chunk",
    ),
    "N5": Invariant(
        "the watermark of a sequence is the largest of its chunks'",
        invariants.largest_of_its_chunks,
        "no prefix grew by one sequence",
    ),
    "N6": Invariant(
        "the global watermark is the smallest local one, unknown while an origin has none",
        invariants.smallest_of_the_origins,
        _NO_BUFFER,
    ),
    "N7": Invariant(
        "the local watermark is between that at the head of the prefix and its running maximum",
        invariants.head_below_maximum,
        "no origin has a local watermark",
    ),
    "N8": Invariant(
        "windows fire once, in order of end, numbered without a gap, not before time has come to their end",
        invariants.fires_once,
        _NO_WINDOW,
    ),
    "N9": Invariant(
        "outputs carry the start of their window, which never goes back", invariants.outputs_carry_the_start, _NO_WINDOW
    ),
    "N10": Invariant(
        "no chunk comes twice, and only the one with the highest number is the last",
        invariants.chunks_in_order,
        _NO_BUFFER,
    ),
    "N11": Invariant("a window holds the records of its slices", invariants.windows_are_their_slices, _NO_WINDOW),
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
    return verdict.check(recording.name, INVARIANTS, inputs, only)
