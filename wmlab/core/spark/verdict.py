"""Invariants, the findings on each, and the verdict: what the checks of all models share.

A finding is one row for everything that could be decided about an invariant: good (`ok` true), bad (`ok` false) or not
decided (`ok` null). A bad one carries its evidence: the rows of the recording's tables, cut down to the columns that
matter, each as (table, row), the row as JSON. A verdict is "violated" with the first proof, "ok" when everything that
could be decided was in order, or "unknown" when nothing could be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from inspect import signature
from string import Formatter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.answers.verdicts import Verdicts, unknown_invariant
from wmlab.core.spark.schemas import spark_schema

FINDINGS_IN_ARROW: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("at_ms", pa.int64()),
        ("ok", pa.bool_()),
        ("judged", pa.int64()),
        ("what", pa.string()),
        ("evidence", pa.list_(pa.field("element", pa.struct([("table", pa.string()), ("row", pa.string())])))),
    ]
)
FINDINGS: Final = spark_schema(FINDINGS_IN_ARROW)
"""stream; at_ms: when it happened; ok; judged: how many single things this row stands for; what: the violation, or why
nothing could be decided, in one phrase; evidence."""

SO_FAR: Final = (Window.unboundedPreceding, Window.currentRow)
BEFORE: Final = (Window.unboundedPreceding, -1)
"""Rows of a window in its order: up to the current one, and those before it."""

_AT_ONCE: Final = 3


@dataclass(frozen=True, slots=True)
class Invariant:
    """One statement, the function that gives its `FINDINGS`, and why there may be none.

    The parameters of the function are called as what they take: tables of a recording, and what is made of them.
    """

    statement: str
    findings: Callable[..., DataFrame]
    no_data: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the function takes, by name."""
        return tuple(signature(self.findings).parameters)

    def found(self, inputs: Mapping[str, Any]) -> DataFrame:
        """The findings in these inputs; one may be a function that makes it, which is called only if it is taken."""
        given = {name: inputs[name] for name in self.inputs}
        return self.findings(**{name: one() if callable(one) else one for name, one in given.items()})


def invariant(statement: str, no_data: str) -> Callable[[Callable[..., DataFrame]], Invariant]:
    """Makes the function that it stands above an invariant."""
    return lambda findings: Invariant(statement, findings, no_data)


def check(
    recording: str, invariants: Mapping[str, Invariant], inputs: Mapping[str, Any], only: Sequence[str] = ()
) -> Verdicts:
    """One verdict per invariant on the recording with this name; `inputs` are what their functions take, by name.

    `only` names the invariants that are judged; without names, all are. Raises `ModelError` for one that is none.
    """
    if unknown := [name for name in only if name not in invariants]:
        raise unknown_invariant(unknown[0], invariants)
    frames = [verdict(name, invariants[name], inputs) for name in invariants if name in only or not only]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        rows = list(pool.map(DataFrame.first, frames))
    return Verdicts.of(recording, [row.asDict(recursive=True) for row in rows if row is not None])


def violations(invariants: Mapping[str, Invariant], inputs: Mapping[str, Any]) -> DataFrame:
    """How often any of the invariants is violated in each stream: stream, count; without streams where none is."""
    found = (entry.found(inputs) for entry in invariants.values())
    return reduce(DataFrame.unionByName, found).where(~F.col("ok")).groupBy("stream").count()


def verdict(name: str, invariant: Invariant, inputs: Mapping[str, Any]) -> DataFrame:
    """The verdict on one invariant over all streams of a recording: exactly one row.

    Columns: invariant, statement, verdict ("ok", "violated", "unknown"), judged and violations (how many single
    things), what (the first violation, or why nothing could be decided, or, when ok, the first thing that went wrong
    and does not count; else null), and evidence: the rows that prove it, an array of (table, row as JSON), else null.
    Nothing is executed here.
    """
    found = invariant.found(inputs)
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
    outcome = F.when(F.col("violations") > 0, "violated").when(F.col("good") > 0, "ok").otherwise("unknown")
    harm = F.concat(F.lit("does not count, nor do "), F.col("spared") - 1, F.lit(" others: "), F.col("harm.what"))
    because = F.when(outcome == "unknown", F.coalesce("why", F.lit(invariant.no_data))).otherwise(
        F.coalesce("proof.what", harm)
    )
    return totals.select(
        F.lit(name).alias("invariant"),
        F.lit(invariant.statement).alias("statement"),
        outcome.alias("verdict"),
        "judged",
        "violations",
        because.alias("what"),
        F.coalesce("proof.evidence", "harm.evidence").alias("evidence"),
    )


def findings(frame: DataFrame, *, ok: Column, at_ms: str, what: Column | str, evidence: Sequence[Column]) -> DataFrame:
    """A row of `FINDINGS` for each row of `frame`, which needs the column `stream`; `ok` must not be null.

    `at_ms` is a column, `what` a phrase or the template of one, see `phrase`.
    """
    said = phrase(what) if isinstance(what, str) else what
    proof = F.when(~ok, F.array(*evidence))
    return finding_rows(frame, at_ms=F.col(at_ms), ok=ok, judged=F.lit(1), what=F.when(~ok, said), evidence=proof)


def finding_rows(frame: DataFrame, **columns: Column) -> DataFrame:
    """A row of `FINDINGS` with these columns for each row of `frame`, which needs `stream`; the others are null."""
    given = {"stream": F.col("stream")} | columns
    return frame.select(*(given.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in FINDINGS))


def undecided(frame: DataFrame, why: Column) -> DataFrame:
    """A row of `FINDINGS` that says why nothing was decided, for each row of `frame`, which needs `stream`."""
    return finding_rows(frame, judged=F.lit(0), what=why)


def row_of(table: str, *columns: Column | str) -> Column:
    """One row of evidence: columns of a row of `table`; a text is a column, or one "as" another."""
    chosen = (F.expr(column) if isinstance(column, str) and " as " in column else column for column in columns)
    row = F.to_json(F.struct(*chosen), {"ignoreNullFields": "false"})
    return F.struct(F.lit(table).alias("table"), row.alias("row"))


def previous(columns: Sequence[str], *, by: Sequence[str], order: Sequence[str | Column]) -> Column:
    """Columns of the row before, in the order of the rows of a partition, as a struct; null for the first row."""
    return F.lag(F.struct(*columns)).over(Window.partitionBy(*by).orderBy(*order))


def rows_of_pair(table: str, *columns: str) -> list[Column]:
    """Two rows of evidence: the row `before`, see `previous`, and the row."""
    return [row_of(table, *(f"before.{column}" for column in columns)), row_of(table, *columns)]


def phrase(template: str, **columns: Column) -> Column:
    """A phrase with the values of columns in the place of their names in braces; null is written as "unknown".

    A name is one of `columns` or of the frame. `{lower:ms}` is a number of milliseconds as people read it, "29 400 ms",
    `{segment_id:segment}` a segment as "number@epoch".
    """
    parts = []
    for text, name, kind, _ in Formatter().parse(template):
        parts.append(F.lit(text))
        if name:
            value = columns[name] if name in columns else F.col(name)
            parts.append(F.coalesce(_WRITTEN[kind or ""](value).cast("string"), F.lit("unknown")))
    return F.concat(*parts)


def _milliseconds(column: Column) -> Column:
    return F.concat(F.regexp_replace(F.format_number(column, 0), ",", " "), F.lit(" ms"))


def _segment(column: Column) -> Column:
    number = column.bitwiseAND(F.lit(2**32 - 1).cast("long"))
    return F.concat(number.cast("string"), F.lit("@"), F.shiftright(column, 32).cast("string"))


_WRITTEN: Final[Mapping[str, Callable[[Column], Column]]] = {
    "": lambda column: column,
    "ms": _milliseconds,
    "segment": _segment,
}
