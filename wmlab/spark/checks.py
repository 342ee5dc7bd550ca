"""The judge: one verdict for each invariant I1 to I9, from the tables of a recording alone.

A verdict is "violated" with the first proof, "ok" when everything that could be judged was in order, or "unknown"
when nothing could be judged. The judge shares no state with the simulator: what it knows is what a recording holds.

Source: PDP-33, Watermark Computation and Watermarking in the Reader; wmlab's own list of what both promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from wmlab.errors import ModelError
from wmlab.spark.checks_cuts import cut_beyond_writers, cut_complete, cut_never_moves_back
from wmlab.spark.checks_log import bounds_in_order, lower_increases, one_winner, upper_never_decreases
from wmlab.spark.checks_readers import nothing_late, windows_monotone

VERDICT_COLUMNS: Final = ("invariant", "statement", "verdict", "judged", "violations", "what", "evidence")


@dataclass(frozen=True, slots=True)
class Invariant:
    """One promise: what it says, the function that judges it, the tables that takes, and why there may be no data."""

    statement: str
    judge: Callable[..., DataFrame]
    tables: tuple[str, ...]
    no_data: str


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
        ("watermarks", "marks", "cycles", "segments", "epochs"),
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
        ("reads", "windows", "events", "watermarks", "marks", "cycles", "segments"),
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
        ("windows", "watermarks", "faults"),
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


def summed(name: str, rule: Invariant, found: DataFrame) -> DataFrame:
    """The one row of an invariant, with `VERDICT_COLUMNS`; `found` are the `FINDINGS` of its judge.

    An aggregate without groups has a row even if nothing was found.
    """
    good, bad, open_ = (F.col("ok") == F.lit(True), F.col("ok") == F.lit(False), F.col("ok").isNull())
    spared = good & F.col("what").isNotNull()
    proof = F.struct("at_ms", "stream", "what", "evidence")
    totals = found.agg(
        F.coalesce(F.sum("judged"), F.lit(0)).cast("long").alias("judged"),
        F.count_if(bad).alias("violations"),
        F.count_if(good).alias("good"),
        F.min(F.when(bad, proof)).alias("proof"),
        F.count_if(spared).alias("spared"),
        F.min(F.when(spared, proof)).alias("harm"),
        F.min(F.when(open_, F.col("what"))).alias("why"),
    )
    verdict = F.when(F.col("violations") > 0, "violated").when(F.col("good") > 0, "ok").otherwise("unknown")
    harm = F.concat(F.lit("does not count, nor do "), F.col("spared") - 1, F.lit(" others: "), F.col("harm.what"))
    because = F.when(F.col("verdict") == "unknown", F.coalesce("why", F.lit(rule.no_data))).otherwise(
        F.coalesce("proof.what", harm)
    )
    return totals.withColumn("verdict", verdict).select(
        F.lit(name).alias("invariant"),
        F.lit(rule.statement).alias("statement"),
        "verdict",
        "judged",
        "violations",
        because.alias("what"),
        F.coalesce("proof.evidence", "harm.evidence").alias("evidence"),
    )
