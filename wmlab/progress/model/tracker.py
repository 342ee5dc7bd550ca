"""How far event time has advanced: the local watermark of every origin and the global one, buffer by buffer.

The local watermark follows from the longest consecutive sequence 1..k of complete sequences of an origin: the value of
k (`head`, as the engine does) or the largest value up to k (`running_max`). They differ only if values go back. The
text has another sentence, `literal`: the value of the largest sequence i for which all chunks of the sequences up to i
- 1 have come. So the first chunk of k + 1 counts before the others are there, and their records can be late.

The global watermark is the smallest local one of the declared origins; it is unknown while one of them has none. There
is no idleness and no timeout: an origin that never sends holds it for ever.

Two sources: the second one is late, and the first one loses sequence 2 for a while. What a buffer completes, how far
its origin has come, and the global watermark:

>>> tracker = ProgressTracker([1, 2])
>>> for number, sequence, watermark in ((1, 1, 10), (1, 3, 30), (2, 1, 20), (1, 2, 25), (2, 2, 40)):
...     effects = tracker.step(TupleBuffer(number, sequence, chunk=0, last=True, watermark=watermark))
...     origin = tracker.origins[number]
...     print(*effects, origin.prefix, origin.local, origin.waiting, tracker.watermark)
Completed(origin=1, sequence=1, watermark=10) 1 10 0 None
Completed(origin=1, sequence=3, watermark=30) 1 10 1 None
Completed(origin=2, sequence=1, watermark=20) 1 20 0 10
Completed(origin=1, sequence=2, watermark=25) 3 30 0 20
Completed(origin=2, sequence=2, watermark=40) 2 40 0 30

The tracker is changed in place; to branch, take a `copy.deepcopy`. Per origin it holds the sequences that have
come beyond the first gap, and nothing else.

Source: "Watermarking and Progress", Reasoning about progress; upstream class `MultiOriginWatermarkProcessor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Literal, NamedTuple

from wmlab.core.errors import ModelError
from wmlab.progress.model.chunks import (
    Chunks,
    Completed,
    CompletenessRule,
    ProtocolViolation,
    TrackerEffect,
    ViolationKind,
)
from wmlab.progress.model.numbers import FIRST_ORIGIN, UNBOUNDED, ChunkBase, TupleBuffer

LocalRule = Literal["running_max", "head", "literal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRules:
    """How progress is read: the trace's chunk base, when a sequence is complete, and the local watermark."""

    chunk_base: ChunkBase = 0
    complete: CompletenessRule = "set"
    local: LocalRule = "running_max"


@dataclass(slots=True)
class OriginProgress:
    """One origin: its longest consecutive sequence, its local watermark, and what has come beyond it.

    `prefix` is the number of the last sequence up to which all are complete, `local` is None before the first one.
    `beyond` has the chunks of every later sequence of which any has come, complete or not.
    """

    rules: ProgressRules = field(default_factory=ProgressRules)
    prefix: int = 0
    local: int | None = None
    beyond: dict[int, Chunks] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """How many buffers have come beyond the longest consecutive sequence."""
        return sum(chunks.buffers for chunks in self.beyond.values())

    def step(self, buffer: TupleBuffer) -> tuple[TrackerEffect, ...]:
        """Take one buffer of this origin; what it brought about. One that breaks the protocol changes nothing."""
        sequence, rule = buffer.sequence, self.rules.complete
        if sequence <= self.prefix:
            return (ProtocolViolation(ViolationKind.FINISHED, buffer),)
        chunks = self.beyond.get(sequence)
        if chunks is None:
            chunks = self.beyond[sequence] = Chunks(self.rules.chunk_base)
        elif (violation := chunks.violation(buffer, rule)) is not None:
            return (ProtocolViolation(violation, buffer),)
        chunks.add(buffer.chunk, buffer.last, buffer.watermark)
        chunks.done = chunks.complete(rule)
        if chunks.done and sequence == self.prefix + 1:
            self._grow()
        if self.rules.local == "literal" and (following := self.beyond.get(self.prefix + 1)) is not None:
            self.local = following.watermark
        return (Completed(buffer.origin, sequence, chunks.watermark),) if chunks.done else ()

    def _grow(self) -> None:
        """Go on over the next sequence, which is complete, and over all complete ones that follow it."""
        keeps_largest = self.rules.local == "running_max"
        while (following := self.beyond.get(self.prefix + 1)) is not None and following.done:
            self.prefix += 1
            del self.beyond[self.prefix]
            if self.local is None or not keeps_largest or following.watermark > self.local:
                self.local = following.watermark


class ProgressTracker:
    """The progress at one operator over its declared origins.

    `watermark` is the global one (None: unknown; without origins nothing can come and it is unbounded), `moved_ms` the
    processing time at which it last changed (None: never, or no clock). `origins` has the progress of every declared
    origin, in the order declared.

    Raises `ModelError` for an origin below 1 or one that is declared twice.
    """

    __slots__ = ("moved_ms", "origins", "rules", "watermark")

    def __init__(self, origins: Sequence[int], rules: ProgressRules | None = None) -> None:
        if len(set(origins)) < len(origins) or any(origin < FIRST_ORIGIN for origin in origins):
            raise ModelError(
                f"The origins {list(origins)} are not distinct numbers from {FIRST_ORIGIN}.",
                remedy="Declare each origin of the plan once.",
            )
        self.rules = rules or ProgressRules()
        self.origins = {origin: OriginProgress(self.rules) for origin in origins}
        self.watermark: int | None = None if self.origins else UNBOUNDED
        self.moved_ms: int | None = None

    def step(self, buffer: TupleBuffer, at_ms: int | None = None) -> tuple[TrackerEffect, ...]:
        """Take one buffer at a processing time (None: there is no clock); what it brought about.

        Raises `ModelError` for an origin that is not declared and for a chunk below the base; a buffer that breaks the
        protocol is a `ProtocolViolation` and changes nothing.
        """
        if buffer.chunk < self.rules.chunk_base:
            raise ModelError(
                f"Sequence {buffer.sequence} of origin {buffer.origin} has a chunk {buffer.chunk} in a trace "
                f"whose chunks start at {self.rules.chunk_base}.",
                remedy="Give the whole trace one base: chunk_base=0 as documented, or 1 as in the engine.",
            )
        origin = self.origin(buffer.origin)
        before = origin.local
        effects = origin.step(buffer)
        if origin.local != before:
            watermark = self._smallest(before, origin.local)
            if watermark != self.watermark:
                self.watermark, self.moved_ms = watermark, at_ms
        return effects

    def origin(self, number: int) -> OriginProgress:
        """The progress of one declared origin. Raises `ModelError` for any other."""
        if number not in self.origins:
            known = ", ".join(map(str, self.origins)) or "none"
            raise ModelError(
                f"Origin {number} is not declared; declared are: {known}.",
                remedy="Declare all origins of the plan before the first buffer comes.",
            )
        return self.origins[number]

    def _smallest(self, before: int | None, after: int | None) -> int | None:
        """The smallest local watermark, one of which has changed from `before` to `after`."""
        if self.watermark is not None and after is not None and before != self.watermark:
            return min(self.watermark, after)
        known = [origin.local for origin in self.origins.values() if origin.local is not None]
        return min(known) if len(known) == len(self.origins) else None

    def holding(self) -> list[int]:
        """The origins whose local watermark is the global one, in the order declared."""
        return [number for number, origin in self.origins.items() if origin.local == self.watermark]


class Reached(NamedTuple):
    """How far time has come after one arrival.

    `completes` tells whether the arrival completed its sequence, `prefix` and `local_watermark` are those of its origin
    (None before the first complete sequence), `global_watermark` is that of the operator (None: unknown).
    """

    completes: bool
    prefix: int
    local_watermark: int | None
    global_watermark: int | None


def follow_buffers(buffers: Iterable[TupleBuffer], origins: Sequence[int], rules: ProgressRules) -> Iterator[Reached]:
    """What a tracker that begins with the first of these buffers knows after each. Raises as `ProgressTracker`."""
    tracker = ProgressTracker(origins, rules)
    for buffer in buffers:
        effects = tracker.step(buffer)
        origin = tracker.origins[buffer.origin]
        # At most one effect, a sequence that is complete or a finding.
        completes = bool(effects) and isinstance(effects[0], Completed)
        yield Reached(completes, origin.prefix, origin.local, tracker.watermark)


def guessed_origins(arrived: Iterable[int], declared: int) -> list[int]:
    """The origins of an operator that has declared so many, where nothing tells which.

    They are those of which a buffer ever came and, up to the declared number, the smallest others, of which none did.
    """
    known = set(arrived)
    others = (origin for origin in count(FIRST_ORIGIN) if origin not in known)
    return sorted([*known, *islice(others, max(0, declared - len(known)))])
