"""One grouped pass: Spark brings all tables of a stream to one task, where a rule in Python answers for that stream.

The tables of a recording are small, but for its events. As a query over seven of them, a question is dozens of stages
that move a few rows each. Here every table is cut by stream and travels as bytes, so one shuffle does for all of them.
What is large is given as a DataFrame: it is cut where it lies. It should be reduced there first, see `Reduced`, because
all rows of one stream come into the memory of one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow.compute import dictionary_encode, take
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from wmlab.core.spark.schemas import dataframe, spark_schema

TablesOfStream: TypeAlias = Mapping[str, pa.Table]
"""The tables of one stream by name, each with all its columns, possibly empty."""

Batches: TypeAlias = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Reduced:
    """A large table, with what makes fewer rows of it: called with the batches of each partition, on an executor.

    `schema` is that of the rows it makes. As a `DataFrame.mapInArrow` of its own it would be one more Python worker.
    """

    frame: DataFrame
    reduce: Callable[[Batches], Batches]
    schema: pa.Schema


PARTS: Final = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("rows", pa.binary(), nullable=False),
    ]
)
"""Some rows of one table of one stream: the stream, the table, the number of the part, and the rows as Arrow bytes."""
_ROWS_OF_A_PART: Final = 1 << 16
"""A value of Spark holds at most 2 GB."""


def by_stream(
    spark: SparkSession,
    tables: Mapping[str, pa.Table | DataFrame | Reduced],
    rule: Callable[[str, TablesOfStream], pa.Table],
    schema: pa.Schema,
) -> DataFrame:
    """What `rule` answers for each stream of these tables, as a DataFrame with the columns of `schema`.

    The text column `stream` of a table names the stream; an Arrow table without it is given whole to every stream.
    `rule` is called once for each stream, on an executor, with its name and its rows of all tables; those of an Arrow
    table are in their order, those of a DataFrame in any. Nothing is executed here, except that Arrow tables are cut.
    """
    of_all = {
        name: table
        for name, table in tables.items()
        if isinstance(table, pa.Table) and "stream" not in table.schema.names
    }
    of_one = {name: table for name, table in tables.items() if name not in of_all}
    schemas = {name: _schema_of(table) for name, table in of_one.items()}
    in_memory = [parts_of(name, table) for name, table in of_one.items() if isinstance(table, pa.Table)]
    in_spark = [_cut(name, table) for name, table in of_one.items() if not isinstance(table, pa.Table)]

    def answer(parts: pa.Table) -> pa.Table:
        stream = parts["key"][0].as_py()
        return rule(stream, of_all | tables_of(parts, schemas)).select(schema.names).cast(schema)

    parts = [dataframe(spark, pa.concat_tables([PARTS.empty_table(), *in_memory])), *in_spark]
    return reduce(DataFrame.unionByName, parts).groupBy("key").applyInArrow(answer, spark_schema(schema))


def parts_of(name: str, table: pa.Table) -> pa.Table:
    """A table cut by stream: rows of `PARTS`."""
    parts = []
    for (key,), rows in rows_by(table, "stream"):
        for number, first in enumerate(range(0, len(rows), _ROWS_OF_A_PART)):
            part = take(table, rows[first : first + _ROWS_OF_A_PART])
            parts.append({"key": key, "table": name, "number": number, "rows": _bytes_of(part)})
    return pa.Table.from_pylist(parts, schema=PARTS)


def rows_by(table: pa.Table, *names: str) -> Iterator[tuple[tuple[Any, ...], npt.NDArray[np.int64]]]:
    """The values that stand in these columns, none of them null, and the indices of the rows with them, ascending."""
    if not table.num_rows:
        return
    keys = [dictionary_encode(table[name].combine_chunks()) for name in names]
    codes = np.array([key.indices.to_numpy() for key in keys])
    order = np.lexsort(codes[::-1])
    begins = np.flatnonzero((codes[:, order][:, 1:] != codes[:, order][:, :-1]).any(axis=0)) + 1
    for rows in np.split(order, begins):
        values = (key.dictionary[code].as_py() for key, code in zip(keys, codes[:, rows[0]].tolist(), strict=True))
        yield tuple(values), rows


def tables_of(parts: pa.Table, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
    """All tables of one stream, from its rows of `PARTS`."""
    by_table: dict[str, list[pa.Table]] = {name: [] for name in schemas}
    for part in parts.sort_by("number").to_pylist():
        by_table[part["table"]].append(_rows_of(part["rows"]))
    return {
        name: pa.concat_tables([schema.empty_table(), *by_table[name]], promote_options="permissive").cast(schema)
        for name, schema in schemas.items()
    }


def _cut(name: str, table: DataFrame | Reduced) -> DataFrame:
    """Rows of `PARTS`, cut where the table lies."""
    if isinstance(table, Reduced):
        return table.frame.mapInArrow(_Cutting(name, table.reduce), spark_schema(PARTS))
    return table.mapInArrow(_Cutting(name), spark_schema(PARTS))


@dataclass(frozen=True, slots=True)
class _Cutting:
    """Cuts rows by stream, batch by batch, after they were reduced; a value, since Spark sends it to the executors."""

    name: str
    reduce: Callable[[Batches], Batches] | None = None

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches if self.reduce is None else self.reduce(batches):
            yield from parts_of(self.name, pa.Table.from_batches([batch])).to_batches()


def _schema_of(table: pa.Table | DataFrame | Reduced) -> pa.Schema:
    if isinstance(table, pa.Table | Reduced):
        return table.schema
    return to_arrow_schema(table.schema)


def _bytes_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _rows_of(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
