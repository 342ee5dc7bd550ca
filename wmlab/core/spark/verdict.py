"""The check of a recording by Spark: rules over the rows of one stream, all in one pass, and queries over all rows.

An `Invariant` (`wmlab.core.invariants`) is a rule in Python, which gets the rows of one stream. A `BatchInvariant` is a
query over whole tables, for what is about very many rows: windows and joins are stated as a batch query has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from inspect import signature
from string import Formatter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from wmlab.core.answers import Verdicts
from wmlab.core.invariants import EVIDENCE, TOTALS, Derived, Inputs, Invariant, chosen_of, totals_of, verdicts_of
from wmlab.core.spark.grouped import Reduced, TablesOfStream, by_stream
from wmlab.core.spark.schemas import dataframe, spark_schema
from wmlab.core.words import TIME_MARK, counted

FINDINGS: Final = spark_schema(
    pa.schema(
        {"stream": pa.string(), "at_ms": pa.int64(), "ok": pa.bool_(), "judged": pa.int64(), "what": pa.string()}
        | {"evidence": EVIDENCE}
    )
)
"""stream; at_ms: when it happened; ok; judged: how many single things this row stands for; what: the violation, or why
nothing could be decided, in one phrase; evidence."""

SO_FAR: Final = (Window.unboundedPreceding, Window.currentRow)
BEFORE: Final = (Window.unboundedPreceding, -1)
"""Rows of a window in its order: up to the current one, and those before it."""


@dataclass(frozen=True, slots=True)
class BatchInvariant:
    """One statement, the query that gives its `FINDINGS` on all streams, and why there may be none.

    The parameters of the query are called as what it takes: tables of a recording as DataFrames, and what is made of
    them.
    """

    statement: str
    findings: Callable[..., DataFrame]
    no_data: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the query takes, by name."""
        return tuple(signature(self.findings).parameters)


def batch_invariant(statement: str, no_data: str) -> Callable[[Callable[..., DataFrame]], BatchInvariant]:
    """Makes the query that it stands above an invariant."""
    return lambda findings: BatchInvariant(statement, findings, no_data)


def check(
    spark: SparkSession,
    recording: str,
    invariants: Mapping[str, Invariant | BatchInvariant],
    inputs: Inputs,
    only: Sequence[str] = (),
) -> Verdicts:
    """One verdict per invariant on the recording with this name.

    `inputs` has what rules and queries take, by name, see `Inputs`; tables of a recording may be DataFrames, too, those
    of rules `Reduced`, and for a query Arrow tables are made DataFrames. A function without arguments is called when
    its input is first taken. `only` names the invariants that are judged; without names, all are. Raises `ModelError`
    for one that is none.
    """
    chosen = chosen_of(invariants, only)
    from wmlab.core.waiting import waiting_for  # this module is loaded by Spark's workers, too, where nobody looks on

    with waiting_for(f"Spark judges {counted(len(chosen), 'invariant')}"):
        return Verdicts.of(recording, verdicts(spark, chosen, inputs))


def verdicts(
    spark: SparkSession, invariants: Mapping[str, Invariant | BatchInvariant], inputs: Inputs
) -> list[dict[str, Any]]:
    """The verdict on each invariant over all streams, in their order, as `Verdicts.of` takes it.

    Each has invariant, statement, verdict ("ok", "violated", "unknown"), judged and violations (how many single
    things), title, left_out and exceptions (how many things do not count, and which), what (the first violation, or why
    nothing could be decided, or what was left out; else None), and evidence: the rows that prove it, each with table
    and row (JSON), else None.
    """
    taken = _Taken(spark, inputs)
    rules = {name: entry for name, entry in invariants.items() if isinstance(entry, Invariant)}
    queries = {
        name: entry.findings(**{name: taken.frame(name) for name in entry.inputs})
        for name, entry in invariants.items()
        if isinstance(entry, BatchInvariant)
    }
    # In one plan, whatever they share is made once, and their stages run side by side.
    totals = ([taken.totals(rules)] if rules else []) + ([_batch_totals(queries)] if queries else [])
    rows = [row.asDict(recursive=True) for row in reduce(DataFrame.unionByName, totals).collect()] if totals else []
    return verdicts_of(invariants, rows)


def _batch_totals(queries: Mapping[str, DataFrame]) -> DataFrame:
    """A row of `TOTALS` for the `FINDINGS` of each query that has any."""
    named = [rows.selectExpr(f"{_text(name)} AS invariant", "*") for name, rows in queries.items()]
    # SQL text: PySpark builds the same of columns with some two hundred calls of the JVM.
    totals = (
        "COALESCE(SUM(judged), 0) AS judged",
        "COUNT_IF(NOT ok) AS violations",
        "COUNT_IF(ok) AS good",
        f"MIN(CASE WHEN NOT ok THEN {_PROOF} END) AS proof",
        "MIN(CASE WHEN ok IS NULL THEN what END) AS why",
    )
    of_each = reduce(DataFrame.unionByName, named).groupBy("invariant").agg(*map(F.expr, totals))
    # A query has no exemptions.
    others = ("CAST(MAP() AS MAP<STRING, BIGINT>) AS left_out", f"CAST(NULL AS {_PROOF_KIND}) AS harm")
    return of_each.selectExpr("invariant", "CAST(NULL AS STRING) AS stream", "* EXCEPT (invariant)", *others)


def frame_of(reduced: Reduced) -> DataFrame:
    """What a reduction leaves of each batch, as a DataFrame."""
    # Spark sends this function to its workers, and could not send a DataFrame with it.
    reduce_batches = reduced.reduce
    return reduced.frame.mapInArrow(lambda batches: iter(reduce_batches(batches)), spark_schema(reduced.schema))


def collected(small: DataFrame) -> pa.Table:
    """The rows of a small query as a value, asked of Spark at once."""
    return small.toArrow()


@dataclass(frozen=True, slots=True)
class _Taken:
    """The inputs of a check, each made when it is first taken, with a session for what becomes a DataFrame."""

    spark: SparkSession
    inputs: Inputs
    _made: dict[str, Any] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """An input; one that is a function is called once."""
        if name not in self._made:
            value = self.inputs[name]
            self._made[name] = value() if callable(value) else value
        return self._made[name]

    def frame(self, name: str) -> Any:
        """An input as a query takes it."""
        value = self.value(name)
        return dataframe(self.spark, value) if isinstance(value, pa.Table) else value

    def totals(self, rules: Mapping[str, Invariant]) -> DataFrame:
        """The `TOTALS` of rules in each stream, all from one pass."""
        needed = self._needed(name for entry in rules.values() for name in entry.inputs)
        values = {name: self.value(name) for name in needed}
        tables = {name: value for name, value in values.items() if isinstance(value, pa.Table | DataFrame | Reduced)}
        others = {name: value for name, value in values.items() if name not in tables}
        return by_stream(self.spark, tables, partial(_totals_of_stream, dict(rules), others), TOTALS)

    def _needed(self, names: Iterable[str]) -> list[str]:
        """These inputs and all that they are made of."""
        needed: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed[name] = None
                value = self.value(name)
                waiting += value.inputs if isinstance(value, Derived) else ()
        return sorted(needed)


def _totals_of_stream(rules: Mapping[str, Invariant], values: Inputs, stream: str, tables: TablesOfStream) -> pa.Table:
    """The `TOTALS` of one stream; runs on an executor."""
    return pa.Table.from_pylist(totals_of(rules, tables, values, stream), schema=TOTALS)


def findings(frame: DataFrame, *, ok: Column, at_ms: str, what: Column | str, evidence: Sequence[Column]) -> DataFrame:
    """A row of `FINDINGS` for each row of `frame`, which needs the column `stream`; `ok` must not be null.

    `at_ms` is a column, `what` a phrase or the template of one, see `phrase`.
    """
    said = phrase(what) if isinstance(what, str) else what
    proof = F.when(~ok, F.array(*evidence))
    return finding_rows(frame, at_ms=F.col(at_ms), ok=ok, judged=F.lit(1), what=F.when(~ok, said), evidence=proof)


def finding_rows(frame: DataFrame, **columns: Column) -> DataFrame:
    """A row of `FINDINGS` with these columns for each row of `frame`, which needs `stream`; the others are null."""
    expressions = {"stream": F.col("stream")} | columns
    kinds = {field.name: field.dataType.simpleString() for field in FINDINGS}
    return frame.select(*(expressions.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()))


def undecided(frame: DataFrame, why: Column) -> DataFrame:
    """A row of `FINDINGS` that says why nothing was decided, for each row of `frame`, which needs `stream`."""
    return finding_rows(frame, judged=F.lit(0), what=why)


def row_of(table: str, *columns: str) -> Column:
    """One row of evidence: columns of a row of `table`, each the name of a column, or one "as" another."""
    chosen = ", ".join(" AS ".join(map(_name, column.split(" as "))) for column in columns)
    row = f"TO_JSON(STRUCT({chosen}), MAP('ignoreNullFields', 'false'))"
    return F.expr(f"STRUCT({_text(table)} AS table, {row} AS row)")


def phrase(template: str, **columns: Column) -> Column:
    """A phrase with the values of columns instead of their names in braces; null is written as "unknown".

    A name is one of `columns` or of the frame. `{lower:ms}` is a time, "29 400 ms" between two marks by which
    `words.with_moments` tells it from the same words in a name.
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
_PROOF_KIND: Final = spark_schema(TOTALS)["harm"].dataType.simpleString()
_WRITTEN: Final = {
    "": f"REPLACE({{}}, '{TIME_MARK}', '')",
    "ms": f"CONCAT('{TIME_MARK}', REPLACE(FORMAT_NUMBER({{}}, 0), ',', ' '), ' ms{TIME_MARK}')",
}
"""How a phrase writes a column, by kind, in SQL."""
