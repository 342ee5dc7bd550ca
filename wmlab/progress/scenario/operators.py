"""The operators of a query plan that stand between its sources, its windows and its sink.

A chain of them is cut into pipelines: `Emit`, `Renumber` and `InOrder` end one, and what they hand on is a task of
its own for the workers. Every pipeline begins with a scan and, unless it feeds windows, ends with an emission, written
down or not.

Source: "Watermarking and Progress", the diagram of pipelines, and ChunkNumber.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.core.values import Name, value

Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


@value
class Scan:
    """Opens a pipeline: it reads the records of one buffer and leaves them as they are."""

    kind: Literal["scan"] = "scan"


@value
class Filter:
    """Keeps each record with probability `keep`; chance goes with the record, whatever the workers do.

    A buffer of which nothing is left is handed on empty, or its sequence would never be complete downstream.
    """

    keep: Annotated[float, Field(ge=0, le=1, strict=True)]
    _: KW_ONLY
    kind: Literal["filter"] = "filter"


@value
class Map:
    """A projection: each record becomes `growth` times as large, 2.0 when it doubles its fields."""

    growth: Annotated[float, Field(gt=0, le=1_000, strict=True)]
    _: KW_ONLY
    kind: Literal["map"] = "map"


@value
class Emit:
    """Ends a pipeline without waiting: origin and sequence stay, chunks are numbered as they are made.

    A buffer that has outgrown `buffer_records` records of the size they had at the source becomes several. None: as
    many as the source's buffers hold; behind windows: any number. Exactly one chunk of a sequence carries the last
    flag, that with the highest number: the one that closes the last missing input (upstream `EmitOperatorHandler`).
    """

    _: KW_ONLY
    buffer_records: Count | None = None
    kind: Literal["emit"] = "emit"


@value
class Renumber:
    """A blocking operator: it gives new sequence numbers, under an origin of its own called `name`.

    It hands a sequence on, in one buffer, once that lies in the longest complete prefix of its origin; what comes
    beyond a gap that never closes is never handed on. The watermark is the smallest local one of all inputs, and
    nothing goes out while one of them is silent ("Watermarking and Progress", ChunkNumber).
    """

    name: Name
    _: KW_ONLY
    kind: Literal["renumber"] = "renumber"


@value
class InOrder:
    """Restores the order of each origin: buffers go on one at a time, by sequence and chunk, identifiers unchanged.

    `policy`: `keep` parks what comes too early; `drop` parks only the newest and forgets what is older than what was
    handled, so that sequences are missing downstream (upstream `Sequencer`).
    """

    name: Name
    _: KW_ONLY
    policy: Literal["keep", "drop"] = "keep"
    kind: Literal["in_order"] = "in_order"


Operator = Annotated[Scan | Filter | Map | Emit | Renumber | InOrder, Field(discriminator="kind")]
"""Any operator between the sources and the windows or the sink."""
OutputOperator = Annotated[Scan | Map | Emit | Renumber | InOrder, Field(discriminator="kind")]
"""Any operator behind windows."""
Breaker = Emit | Renumber | InOrder
"""What ends a pipeline."""
