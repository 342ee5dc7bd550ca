"""What a check returns: one row for everything it judged, with the rows that prove a violation.

A finding is judged good (`ok` true), bad (`ok` false) or not at all (`ok` null). A bad one carries its evidence: the
rows of the recording's tables, cut down to the columns that matter, each as (table, row), the row as JSON.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

EVIDENCE: Final = T.ArrayType(
    T.StructType([T.StructField("table", T.StringType()), T.StructField("row", T.StringType())])
)
FINDINGS: Final = T.StructType(
    [
        T.StructField("stream", T.StringType()),
        T.StructField("at_ms", T.LongType()),
        T.StructField("ok", T.BooleanType()),
        T.StructField("judged", T.LongType()),
        T.StructField("what", T.StringType()),
        T.StructField("evidence", EVIDENCE),
    ]
)
"""stream; at_ms: when it happened; ok; judged: how many single things this row stands for; what: the violation, or why
nothing could be judged, in one phrase; evidence."""


def row_of(table: str, *columns: Column | str) -> Column:
    """One row of evidence: the named columns of a row of `table`."""
    text = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    return F.struct(F.lit(table).alias("table"), text.alias("row"))


def findings(frame: DataFrame, *, ok: Column, at_ms: Column, what: Column, evidence: list[Column]) -> DataFrame:
    """A row of `FINDINGS` for each row of `frame`, which needs the column `stream`; `ok` must not be null."""
    bad = ~ok
    return frame.select(
        "stream",
        at_ms.cast("long").alias("at_ms"),
        ok.alias("ok"),
        F.lit(1).cast("long").alias("judged"),
        F.when(bad, what).alias("what"),
        F.when(bad, F.array(*evidence)).alias("evidence"),
    )


def unjudged(frame: DataFrame, why: Column) -> DataFrame:
    """A row of `FINDINGS` that says why nothing was judged, for each row of `frame`, which needs `stream`."""
    return frame.select(
        "stream",
        F.lit(None).cast("long").alias("at_ms"),
        F.lit(None).cast("boolean").alias("ok"),
        F.lit(0).cast("long").alias("judged"),
        why.alias("what"),
        F.lit(None).cast(EVIDENCE).alias("evidence"),
    )


def say(*parts: Column | str) -> Column:
    """A phrase from texts and columns; an unknown value is written as "unknown"."""
    return F.concat(
        *(F.lit(p) if isinstance(p, str) else F.coalesce(p.cast("string"), F.lit("unknown")) for p in parts)
    )


def ms(column: Column) -> Column:
    """A number of milliseconds as people read it: "29 400 ms"."""
    return F.concat(F.regexp_replace(F.format_number(column, 0), ",", " "), F.lit(" ms"))


def segment_name(column: Column) -> Column:
    """A segment id as "number@epoch"."""
    number = column.bitwiseAND(F.lit(2**32 - 1).cast("long"))
    return F.concat(number.cast("string"), F.lit("@"), F.shiftright(column, 32).cast("string"))
