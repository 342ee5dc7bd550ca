"""How a column of a recording is written down: its name, type, meaning and unit, and the types that occur."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

LONG: Final = pa.int64()
TEXT: Final = pa.string()
REAL: Final = pa.float64()
FLAG: Final = pa.bool_()
OFFSETS: Final = pa.map_(LONG, LONG)


def column(name: str, kind: pa.DataType, about: str, *, unit: str = "", nullable: bool = False) -> pa.Field:
    """A field whose metadata carries `about` and, if it has one, its `unit`."""
    metadata = {"about": about} | ({"unit": unit} if unit else {})
    return pa.field(name, kind, nullable=nullable, metadata=metadata)
