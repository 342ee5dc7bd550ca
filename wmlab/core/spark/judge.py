"""Invariants, and the one verdict on each: what every judge of a recording shares.

A verdict is "violated" with the first proof, "ok" when everything that could be judged was in order, or "unknown"
when nothing could be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from wmlab.core.answers.verdicts import Verdicts

VERDICT_COLUMNS: Final = ("invariant", "statement", "verdict", "judged", "violations", "what", "evidence")


@dataclass(frozen=True, slots=True)
class Invariant:
    """One promise: what it says, the function that judges it, the tables that takes, and why there may be no data."""

    statement: str
    judge: Callable[..., DataFrame]
    tables: tuple[str, ...]
    no_data: str


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


_AT_ONCE: Final = 3


def judged(name: str, invariants: Iterable[str], verdict: Callable[[str], DataFrame]) -> Verdicts:
    """One verdict per invariant over the recording called `name`."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        rows = list(pool.map(lambda invariant: verdict(invariant).first(), invariants))
    return Verdicts.of(name, [row.asDict(recursive=True) for row in rows if row is not None])
