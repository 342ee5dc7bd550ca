"""Packed numbers: what is encoded is decoded, in Python, over arrays, and by the SQL made of the declaration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from pyspark.sql import SparkSession

from wmlab.streams.bounds import layout
from wmlab.streams.bounds.layout import PackedNumber

DECLARED = {name: value for name, value in vars(layout).items() if isinstance(value, PackedNumber)}


def values_of(packed: PackedNumber, data: st.DataObject) -> dict[str, int]:
    """Any value of each field, the extremes often."""
    numbers = {name: (1 << width) - 1 for name, width in packed.widths.items()}
    return {
        name: data.draw(st.one_of(st.sampled_from([0, most]), st.integers(0, most))) for name, most in numbers.items()
    }


@pytest.mark.parametrize("packed", DECLARED.values(), ids=DECLARED)
@given(data=st.data())
def test_what_is_encoded_is_decoded(packed: PackedNumber, data: st.DataObject) -> None:
    rows = [values_of(packed, data) for _ in range(3)]
    numbers = [packed.encode(**row) for row in rows]
    assert [packed.decode(number) for number in numbers] == rows
    assert all(0 <= number < 2**63 for number in numbers)
    arrays = packed.encode(**{name: np.array([row[name] for row in rows], np.int64) for name in packed.widths})
    assert arrays.dtype == np.int64
    assert arrays.tolist() == numbers


@pytest.mark.parametrize("packed", DECLARED.values(), ids=DECLARED)
def test_the_sql_of_a_field_gives_it(spark: SparkSession, packed: PackedNumber) -> None:
    most = {name: (1 << width) - 1 for name, width in packed.widths.items()}
    rows = [dict.fromkeys(most, 0), most, *(dict.fromkeys(most, 0) | {name: value} for name, value in most.items())]
    numbers = spark.createDataFrame([(packed.encode(**row),) for row in rows], "number long")
    found = numbers.selectExpr(*(f"{packed.sql(name, 'number')} AS {name}" for name in most)).collect()
    assert [row.asDict() for row in found] == rows
