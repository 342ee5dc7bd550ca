"""The judge: one verdict for each invariant I1 to I9, from the tables of a recording alone.

A verdict is "violated" with the first proof, "ok" when everything that could be judged was in order, or "unknown"
when nothing could be judged. The judge shares no state with the simulator: what it knows is what a recording holds.

Source: PDP-33, Watermark Computation and Watermarking in the Reader; wmlab's own list of what both promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.errors import ModelError
from wmlab.core.recording import Recording
from wmlab.core.spark.judge import Invariant, judged, summed
from wmlab.streams.checks.cuts import cut_beyond_writers, cut_complete, cut_never_moves_back
from wmlab.streams.checks.log import bounds_in_order, lower_increases, one_winner, upper_never_decreases
from wmlab.streams.checks.readers import nothing_late, windows_monotone

INVARIANTS: Final[Mapping[str, Invariant]] = {
    "I1": Invariant(
        "the lower bound strictly increases along the log",
        lower_increases,
        ("watermarks",),
        "the log has fewer than two watermarks",
    ),
    "I2": Invariant(
        "the upper bound never decreases along the log (single leader)",
        upper_never_decreases,
        ("watermarks", "cycles"),
        "the log has fewer than two watermarks",
    ),
    "I3": Invariant(
        "the cut never moves back at any key",
        cut_never_moves_back,
        ("watermarks", "segments", "epochs"),
        "the log has fewer than two watermarks",
    ),
    "I4": Invariant(
        "the cut is at or beyond every counted writer at every key",
        cut_beyond_writers,
        ("watermarks", "writer_marks", "cycles", "segments", "epochs"),
        "the log has no watermarks",
    ),
    "I5": Invariant(
        "the cut covers the key space once and can be passed by a reader",
        cut_complete,
        ("watermarks", "segments", "epochs"),
        "the log has no watermarks",
    ),
    "I6": Invariant(
        "no event of a well-behaved writer is read behind a lower bound that was shown",
        nothing_late,
        ("reads", "windows", "events", "watermarks", "writer_marks", "cycles", "segments"),
        "nothing was read after a window had shown a lower bound",
    ),
    "I7": Invariant(
        "the lower bound is at or below the upper bound",
        bounds_in_order,
        ("watermarks", "windows"),
        "there are no watermarks and no windows with two bounds",
    ),
    "I8": Invariant(
        "every revision of the log has one winner", one_winner, ("watermarks",), "the log has no watermarks"
    ),
    "I9": Invariant(
        "the windows of a reader only move forward",
        windows_monotone,
        ("windows", "watermarks", "incidents"),
        "no reader looked at its window twice",
    ),
}
"""What a recording has to keep, by name."""


def verdict(name: str, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The verdict on one invariant, "I1" to "I9", over all streams of a recording: exactly one row.

    `tables` are the recording's tables by name. Columns: invariant, statement, verdict ("ok", "violated", "unknown"),
    judged and violations (how many single things), what (the first violation, or why nothing could be judged, or, when
    ok, the first thing that went wrong and does not count; else null), and evidence: the rows that prove it, an array
    of (table, row as JSON), else null.
    Nothing is executed here. Raises `ModelError` for another name, or when a table is missing.
    """
    if name not in INVARIANTS:
        raise ModelError(f"There is no invariant {name!r}.", remedy=f"Ask for one of {', '.join(INVARIANTS)}.")
    rule = INVARIANTS[name]
    if missing := [table for table in rule.tables if table not in tables]:
        raise ModelError(
            f"{name} is judged from the table {missing[0]!r}, which is not given.",
            remedy=f"Give the tables {', '.join(rule.tables)}.",
        )
    return summed(name, rule, rule.judge(*(tables[table] for table in rule.tables)))


def check(recording: Recording, spark: SparkSession) -> Verdicts:
    """One verdict per invariant, I1 to I9, with the rows that prove a violation; judged by Spark from the tables."""
    names = {table for rule in INVARIANTS.values() for table in rule.tables}
    tables = {name: recording.spark(spark, name) for name in names}
    return judged(recording.name, INVARIANTS, lambda name: verdict(name, tables))
