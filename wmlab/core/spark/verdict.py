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

from wmlab.core.answers import Verdicts, unknown_invariant
from wmlab.core.spark.schemas import spark_schema
from wmlab.core.words import TIME_MARK

FINDINGS_IN_ARROW: Final = pa.schema(
    {"stream": pa.string(), "at_ms": pa.int64(), "ok": pa.bool_(), "judged": pa.int64(), "what": pa.string()}
    | {"evidence": pa.list_(pa.field("element", pa.struct({"table": pa.string(), "row": pa.string()})))}
)
FINDINGS: Final = spark_schema(FINDINGS_IN_ARROW)
"""stream; at_ms: when it happened; ok; judged: how many single things this row stands for; what: the violation, or why
nothing could be decided, in one phrase; evidence."""

SO_FAR: Final = (Window.unboundedPreceding, Window.currentRow)
BEFORE: Final = (Window.unboundedPreceding, -1)
"""Rows of a window in its order: up to the current one, and those before it."""


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
    with ThreadPoolExecutor(max_workers=3) as pool:
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
    # SQL text: PySpark builds the same of columns with some two hundred calls of the JVM.
    totals = invariant.found(inputs).selectExpr(
        "CAST(COALESCE(SUM(judged), 0) AS LONG) AS judged",
        "COUNT_IF(NOT ok) AS violations",
        "COUNT_IF(ok) AS good",
        f"MIN(CASE WHEN NOT ok THEN {_PROOF} END) AS proof",
        "COUNT_IF(ok AND what IS NOT NULL) AS spared",
        f"MIN(CASE WHEN ok AND what IS NOT NULL THEN {_PROOF} END) AS harm",
        "MIN(CASE WHEN ok IS NULL THEN what END) AS why",
    )
    outcome = "CASE WHEN violations > 0 THEN 'violated' WHEN good > 0 THEN 'ok' ELSE 'unknown' END"
    harm = "CONCAT('does not count, nor do ', spared - 1, ' others: ', harm.what)"
    return totals.selectExpr(
        f"{_text(name)} AS invariant",
        f"{_text(invariant.statement)} AS statement",
        f"{outcome} AS verdict",
        "judged",
        "violations",
        f"IF(violations + good > 0, COALESCE(proof.what, {harm}), COALESCE(why, {_text(invariant.no_data)})) AS what",
        "COALESCE(proof.evidence, harm.evidence) AS evidence",
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
    kinds = {field.name: field.dataType.simpleString() for field in FINDINGS}
    return frame.select(*(given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()))


def undecided(frame: DataFrame, why: Column) -> DataFrame:
    """A row of `FINDINGS` that says why nothing was decided, for each row of `frame`, which needs `stream`."""
    return finding_rows(frame, judged=F.lit(0), what=why)


def row_of(table: str, *columns: str) -> Column:
    """One row of evidence: columns of a row of `table`, each the name of a column, or one "as" another."""
    chosen = ", ".join(" AS ".join(map(_name, column.split(" as "))) for column in columns)
    row = f"TO_JSON(STRUCT({chosen}), MAP('ignoreNullFields', 'false'))"
    return F.expr(f"STRUCT({_text(table)} AS table, {row} AS row)")


def previous(columns: Sequence[str], *, by: Sequence[str], order: Sequence[str | Column]) -> Column:
    """Columns of the row before, in the order of the rows of a partition, as a struct; null for the first row."""
    return F.lag(F.struct(*columns)).over(Window.partitionBy(*by).orderBy(*order))


def rows_of_pair(table: str, *columns: str) -> list[Column]:
    """Two rows of evidence: the row `before`, see `previous`, and the row."""
    return [row_of(table, *(f"before.{column}" for column in columns)), row_of(table, *columns)]


def phrase(template: str, **columns: Column) -> Column:
    """A phrase with the values of columns in the place of their names in braces; null is written as "unknown".

    A name is one of `columns` or of the frame. `{segment_id:segment}` is a segment as "number@epoch", `{lower:ms}` a
    time, "29 400 ms" between two marks by which `words.with_moments` tells it from the same words in a name, and
    `{timeout_ms:span}` a duration.
    """
    parts = []
    for text, name, kind, _ in Formatter().parse(template):
        parts.append(F.lit(text))
        if name in columns:
            parts.append(F.coalesce(columns[name].cast("string"), F.lit("unknown")))
        elif name:
            value = _WRITTEN[kind or ""].format(_name(name))
            parts.append(F.expr(f"COALESCE(CAST({value} AS STRING), 'unknown')"))
    return F.concat(*parts)


def _name(column: str) -> str:
    """A column, or a field of one, in SQL."""
    return ".".join(f"`{part}`" for part in column.split("."))


def _text(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("\\", r"\\").replace("'", r"\'") + "'"


_PROOF: Final = "STRUCT(at_ms, stream, what, evidence)"
_WRITTEN: Final = {
    "span": "CONCAT(REPLACE(FORMAT_NUMBER({}, 0), ',', ' '), ' ms')",
    "": f"REPLACE({{}}, '{TIME_MARK}', '')",
    "ms": f"CONCAT('{TIME_MARK}', REPLACE(FORMAT_NUMBER({{}}, 0), ',', ' '), ' ms{TIME_MARK}')",
    "segment": "CONCAT(CAST({0} & 4294967295L AS STRING), '@', CAST(SHIFTRIGHT({0}, 32) AS STRING))",
}
"""How a phrase writes a column, by kind, in SQL."""
