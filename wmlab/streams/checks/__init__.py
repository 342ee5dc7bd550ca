"""The check of streams: one verdict for each invariant I1 to I13, from a recording alone.

It shares no state with the simulator: what it knows is what a recording holds, which is its tables, and for I13 the
options of its scenario that say how readers look.

Source: PDP-33, Watermark Computation and Watermarking in the Reader; wmlab's own list of what both guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers import Verdicts
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.core.spark.schemas import dataframe
from wmlab.core.spark.verdict import BatchInvariant
from wmlab.streams.checks import log, readers, windows
from wmlab.streams.tables import TABLES as RECORDED

INVARIANTS: Final[Mapping[str, BatchInvariant]] = {
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
    "I13": windows.windows_are_bounds,
}
"""What a recording has to keep, by name."""
_INPUTS: Final = {name for invariant in INVARIANTS.values() for name in invariant.inputs}
TABLES: Final = tuple(sorted(_INPUTS & RECORDED.keys()))
"""The tables of a recording that this takes."""


def inputs_of(recording: Recording) -> dict[str, pa.Table]:
    """What the invariants take, by name: `TABLES`, and what is made of the scenario."""
    return {name: recording.table(name) for name in TABLES} | {"compared_groups": windows.compared_groups(recording)}


def check(recording: Recording, spark: SparkSession, *only: str) -> Verdicts:
    """One verdict per invariant, I1 to I13, with the rows that prove a violation; from the tables, by Spark.

    `only` names those that are judged; without names, all are. Raises `ModelError` for a name that is none.
    """
    inputs: dict[str, Callable[[], DataFrame]] = {name: cache(partial(recording.spark, spark, name)) for name in TABLES}
    inputs["compared_groups"] = lambda: dataframe(spark, windows.compared_groups(recording))
    return verdict.check(spark, recording.name, INVARIANTS, inputs, only)
