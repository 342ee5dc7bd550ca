"""The check of streams: one verdict for each invariant I1 to I12, from the tables of a recording alone.

It shares no state with the simulator: what it knows is what a recording holds.

Source: PDP-33, Watermark Computation and Watermarking in the Reader; wmlab's own list of what both guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Final

from pyspark.sql import SparkSession

from wmlab.core.answers import Verdicts
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.core.spark.verdict import Invariant
from wmlab.streams.checks import log, readers

INVARIANTS: Final[Mapping[str, Invariant]] = {
    "I1": log.lower_increases,
    "I2": log.upper_never_decreases,
    "I3": log.cut_never_moves_back,
    "I4": log.cut_beyond_writers,
    "I5": log.cut_complete,
    "I6": readers.nothing_late,
    "I7": log.bounds_in_order,
    "I8": log.one_winner,
    "I9": readers.windows_monotone,
    "I10": readers.lower_rises,
    "I11": readers.upper_covers_noted,
    "I12": readers.lower_below_latest,
}
"""What a recording has to keep, by name."""
TABLES: Final = tuple(sorted({name for invariant in INVARIANTS.values() for name in invariant.inputs}))
"""The tables of a recording that this takes."""


def check(recording: Recording, spark: SparkSession, *only: str) -> Verdicts:
    """One verdict per invariant, I1 to I12, with the rows that prove a violation; from the tables, by Spark.

    `only` names those that are judged; without names, all are. Raises `ModelError` for a name that is none.
    """
    tables = {name: cache(partial(recording.spark, spark, name)) for name in TABLES}
    return verdict.check(recording.name, INVARIANTS, tables, only)
