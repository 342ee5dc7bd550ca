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
from wmlab.streams.checks.log import (
    bounds_in_order,
    cut_beyond_writers,
    cut_complete,
    cut_never_moves_back,
    lower_increases,
    one_winner,
    upper_never_decreases,
)
from wmlab.streams.checks.readers import (
    lower_below_latest,
    lower_rises,
    nothing_late,
    upper_covers_noted,
    windows_monotone,
)

_TOO_SHORT: Final = "the log has fewer than two watermarks"
_EMPTY: Final = "the log has no watermarks"

INVARIANTS: Final[Mapping[str, Invariant]] = {
    "I1": Invariant("the lower bound strictly increases along the log", lower_increases, _TOO_SHORT),
    "I2": Invariant("the upper bound never decreases along the log (single leader)", upper_never_decreases, _TOO_SHORT),
    "I3": Invariant("the cut never moves back at any key", cut_never_moves_back, _TOO_SHORT),
    "I4": Invariant("the cut is at or beyond every counted writer at every key", cut_beyond_writers, _EMPTY),
    "I5": Invariant("the cut covers the key space once and can be passed by a reader", cut_complete, _EMPTY),
    "I6": Invariant(
        "no event of a well-behaved writer is read behind a lower bound that was shown",
        nothing_late,
        "nothing was read after a window had shown a lower bound",
    ),
    "I7": Invariant(
        "the lower bound is at or below the upper bound",
        bounds_in_order,
        "there are no watermarks and no windows with two bounds",
    ),
    "I8": Invariant("every revision of the log has one winner", one_winner, _EMPTY),
    "I9": Invariant(
        "the windows of a reader only move forward", windows_monotone, "no reader looked at its window twice"
    ),
    "I10": Invariant(
        "the lower bound rises within one timeout of a cycle that found a writer beyond it",
        lower_rises,
        "no cycle with a recorded timeout found a writer beyond the lower bound",
    ),
    "I11": Invariant(
        "the upper bound is at or above every time noted before an event that the cut covers",
        upper_covers_noted,
        "nothing was noted before an event that a cut covers",
    ),
    "I12": Invariant(
        "the lower bound is at or below the latest time of every writer on record", lower_below_latest, _EMPTY
    ),
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
