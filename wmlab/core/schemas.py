"""Schemas of tables: columns with their types, their units, and what they are about."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

LONG: Final = pa.int64()
TEXT: Final = pa.string()
REAL: Final = pa.float64()
FLAG: Final = pa.bool_()
OFFSETS: Final = pa.map_(LONG, LONG)
ROW_GROUP = 1_048_576
"""How many rows of a table are written to disk at once; no more are held of one that leaves memory as it grows."""


def column(name: str, kind: pa.DataType, about: str, *, unit: str = "", nullable: bool = False) -> pa.Field:
    """A field whose metadata carries `about` and, if it has one, its `unit`."""
    return pa.field(name, kind, nullable=nullable, metadata={"about": about} | ({"unit": unit} if unit else {}))


def table(*columns: pa.Field) -> pa.Schema:
    """The schema of a table of these columns."""
    return pa.schema(columns)


NEVER_HAPPENED: Final = "never happened"
"""The kind of an incident, or its outcome, if what a script asks for never happened in the run."""
INCIDENTS: Final = table(
    column("stream", TEXT, "the stream's name"),
    column("at_ms", LONG, "when it happened", unit="ms"),
    column("kind", TEXT, "what happened, in one word: scale, crash, restart, silence, speak and so on"),
    column("target", TEXT, "what it happened to: a node or process, the sealed segments, a store"),
    column("detail", TEXT, "one short phrase for a chart, for example '0@0 → 2@1, 3@1'"),
)
"""The table `incidents`, which recordings of all kinds have."""
