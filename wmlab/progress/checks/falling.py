"""The smallest of the origins' values after every arrival, where these values may fall.

An origin's value holds until its next arrival. The arrivals are cut into blocks; into each block every origin brings
the value it has at its start, and the block is answered on its own: one pass over its arrivals per origin.

Source: "Watermarking and Progress", Reasoning about progress; upstream class `MultiOriginWatermarkProcessor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    import pyarrow as pa

_UNKNOWN = -(2**63)


def smallest_of_all(rows: DataFrame, operators: DataFrame, *, bits: int) -> DataFrame:
    """Adds `global_watermark`, null while one of the declared origins has no `local_watermark`.

    `rows` needs stream, operator, arrival, origins, origin, local_watermark and `next`, the origin's next arrival;
    `operators` has `end`, the last arrival of each. A block has 2^`bits` arrivals.
    """
    block, until = F.shiftright("arrival", bits), F.shiftright(F.coalesce("next", "end"), bits)
    placed = rows.join(F.broadcast(operators.select("stream", "operator", "end")), ["stream", "operator"])
    blocked = placed.withColumn("_block", F.explode(F.sequence(block, F.greatest(block, until)))).drop("end")
    schema = T.StructType([*blocked.schema.fields, T.StructField("global_watermark", T.LongType())])

    def answer(table: pa.Table) -> pa.Table:
        return _answered(table, bits)

    return blocked.groupBy("_block", "stream", "operator").applyInArrow(answer, schema).drop("_block")


def _answered(table: pa.Table, bits: int) -> pa.Table:
    """The arrivals of one block with the smallest value after each; runs on an executor."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    table = table.sort_by("arrival")
    arrival = table["arrival"].to_numpy()
    values = pc.fill_null(table["local_watermark"], _UNKNOWN).to_numpy()
    origins, of = np.unique(table["origin"].to_numpy(), return_inverse=True)
    smallest = np.full(len(arrival), _UNKNOWN)
    if len(origins) == table["origins"][0].as_py():
        smallest[:] = np.iinfo(np.int64).max
        ends = np.cumsum(np.bincount(of))
        for mine in np.split(np.argsort(of, kind="stable"), ends[:-1]):
            begun = mine[0]
            smallest[:begun] = _UNKNOWN
            held = np.repeat(values[mine], np.diff(mine, append=len(arrival)))
            np.minimum(smallest[begun:], held, out=smallest[begun:])
    answered = table.append_column("global_watermark", pa.array(smallest, mask=smallest == _UNKNOWN))
    # What an origin brought into the block belongs to an earlier one.
    return answered.filter(pa.array(arrival >> bits == table["_block"][0].as_py()))
