"""The numbers on tuple buffers: identifiers and watermark timestamps.

Every source and every blocking operator of a query plan is an origin, numbered from 1 inside its plan. So other plans
use the same numbers. An origin numbers its buffers from 1 without a gap. A pipeline whose output outgrows its input
keeps origin and sequence and numbers chunks. The design text counts chunks from 0, the engine from 1: the base is part
of a trace, and one trace has one base.

By event time the watermark of a buffer is the largest time among its records, in the unit of the field times a
multiplier. A buffer without a record carries 0, because the engine starts its maximum there; a tracker that reads the
value of the last complete sequence is thrown back by it. By ingestion time it is the creation time of the buffer.

Source: "Watermarking and Progress", OriginId, SequenceNumber, ChunkNumber and Watermark Timestamp; upstream type
`ChunkNumber` (INITIAL) and classes `EventTimeFunction` and `IngestionTimeFunction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from wmlab.core.errors import ModelError

ChunkBase = Literal[0, 1]
"""The number of a sequence's first chunk: 0 as documented, 1 as in the engine."""

FIRST_ORIGIN: Final = 1
FIRST_SEQUENCE: Final = 1

INITIAL: Final = 0
"""The watermark that NebulaStream writes while it knows none."""
UNBOUNDED: Final = 2**64 - 1
"""The watermark of an operator that has no origins: nothing can come."""


@dataclass(frozen=True, slots=True)
class TupleBuffer:
    """The identifiers of one buffer; `watermark` is in the unit of the event times.

    Raises `ModelError` for an origin or a sequence below 1, and for a negative chunk.
    """

    origin: int
    sequence: int
    chunk: int
    last: bool
    watermark: int

    def __post_init__(self) -> None:
        if self.origin < FIRST_ORIGIN or self.sequence < FIRST_SEQUENCE or self.chunk < 0:
            raise ModelError(
                f"No buffer has origin {self.origin}, sequence {self.sequence}, chunk {self.chunk}.",
                remedy="Number origins and sequences from 1, chunks from 0 or 1.",
            )


def stamp_of(row: Mapping[str, Any]) -> TupleBuffer:
    """The identifiers of a row of the table `buffers`."""
    return TupleBuffer(row["origin"], row["sequence"], row["chunk"], row["last"], row["watermark"])


def assign_origins(emitters: Sequence[str]) -> Mapping[str, int]:
    """The origin id of each emitter of one query plan: 1, 2, ... in the order of registration.

    Sources come first, blocking operators after them. Raises `ModelError` if a name occurs twice.
    """
    twice = sorted({name for name in emitters if emitters.count(name) > 1})
    if twice:
        raise ModelError(f"Two emitters are called {twice[0]!r}.", remedy="Give each emitter a name of its own.")
    return {name: FIRST_ORIGIN + index for index, name in enumerate(emitters)}


def by_event_time(times: Iterable[int], *, unit: int = 1, allowed_lateness: int = 0) -> int:
    """The largest of `times` times `unit`, minus `allowed_lateness` (same unit as the result), never below 0.

    `unit` is 1 for a field in milliseconds, 1000 for one in seconds. The slack existed until 2025 and is 0 since.
    Raises `ModelError` for a unit below 1 or a negative slack.
    """
    if unit < 1 or allowed_lateness < 0:
        raise ModelError(
            f"A unit of {unit} with a slack of {allowed_lateness} gives no watermark.",
            remedy="Give a unit of at least 1 and a slack of at least 0.",
        )
    return max(INITIAL, max(times, default=INITIAL) * unit - allowed_lateness)


def by_ingestion_time(created: int, carried: int | None = None) -> int:
    """The creation time of the buffer, or what it carries already if that is later."""
    return created if carried is None else max(created, carried)
