"""When all chunks of a sequence have been seen: four rules, of which one always tells the truth.

With base b and last chunk L, known once a chunk with the last flag has come:

    rule      complete when                   wrong when
    set       the chunks b..L have all come   never; a repeat changes nothing
    count     L - b + 1 buffers have come     a chunk comes twice: too early
    literal   L buffers have come             b is 0: never for one chunk, one chunk too early or never for more
    balance   -1 for each chunk without the   the last chunk comes twice: never
              flag, L - b for it, sum is 0

`literal` is the text's own snippet, `balance` what the engine does since 2025.

Of buffers that break the protocol NebulaStream aborts on some and miscounts others. Here they are named; under the set
rule a buffer with a finding leaves the state as it was.

Source: "Watermarking and Progress", SequenceNumber and ChunkNumber; upstream classes `ChunkCollector` and
`NonBlockingMonotonicSeqQueue` (preconditions and invariants).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Literal

from wmlab.progress.model.numbers import ChunkBase, NumberMap, TupleBuffer

CompletenessRule = Literal["set", "count", "literal", "balance"]


@dataclass(frozen=True, slots=True)
class NumberSet:
    """A set of numbers as a gapless run from its base, `run` long, and what lies beyond a gap.

    Adding in order costs O(1), in any order O(log n).
    """

    base: int
    run: int = 0
    beyond: NumberMap[None] = field(default_factory=NumberMap)

    def __contains__(self, number: int) -> bool:
        return self.base <= number < self.base + self.run or number in self.beyond

    def add(self, number: int) -> NumberSet:
        """The set with `number`."""
        if number in self:
            return self
        if number != self.base + self.run:
            return replace(self, beyond=self.beyond.put(number, None))
        run, beyond = self.run + 1, self.beyond
        while beyond and self.base + run in beyond:
            beyond = beyond.without(self.base + run)
            run += 1
        return NumberSet(self.base, run, beyond)

    @property
    def largest(self) -> int | None:
        """The largest number, None if there is none."""
        last = self.beyond.last()
        if last is not None:
            return last[0]
        return self.base + self.run - 1 if self.run else None


@dataclass(frozen=True, slots=True)
class Chunks:
    """What has come of one sequence: the chunks, how many buffers, the last chunk's number, the largest watermark."""

    seen: NumberSet
    buffers: int = 0
    last: int | None = None
    balance: int = 0
    watermark: int = 0

    @classmethod
    def none(cls, base: ChunkBase) -> Chunks:
        """A sequence of which nothing has come."""
        return cls(NumberSet(base))

    @property
    def base(self) -> int:
        """The number of the first chunk."""
        return self.seen.base

    def add(self, chunk: int, last: bool, watermark: int) -> Chunks:
        """The sequence after one more buffer."""
        return Chunks(
            self.seen.add(chunk),
            self.buffers + 1,
            chunk if last else self.last,
            self.balance + (chunk - self.base if last else -1),
            watermark if self.buffers == 0 else max(self.watermark, watermark),
        )

    def complete(self, rule: CompletenessRule = "set") -> bool:
        """Whether the sequence is complete by the rule; see the table above."""
        if rule == "balance":
            return self.buffers > 0 and self.balance == 0
        if self.last is None:
            return False
        if rule == "set":
            return self.base + self.seen.run > self.last
        return self.buffers == (self.last if rule == "literal" else self.last - self.base + 1)

    def missing(self) -> tuple[int, ...]:
        """The chunks that are known to be missing, ascending; at most the first 10."""
        end = self.last if self.last is not None else self.seen.largest
        if end is None:
            return ()
        gap = (number for number in range(self.base + self.seen.run, end + 1) if number not in self.seen)
        return tuple(islice(gap, 10))


class Breach(StrEnum):
    """How a buffer breaks the protocol."""

    REPEATED = "repeated buffer"
    FINISHED = "buffer of a finished sequence"
    SECOND_LAST = "second last chunk"
    BEYOND_LAST = "chunk beyond the last"


@dataclass(frozen=True, slots=True)
class Completed:
    """Effect: all chunks of a sequence have come; the watermark is the largest of theirs."""

    origin: int
    sequence: int
    watermark: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Effect: a buffer broke the protocol and was left out (under the set rule)."""

    breach: Breach
    buffer: TupleBuffer

    @property
    def sentence(self) -> str:
        """What was wrong with which buffer."""
        buffer = self.buffer
        return f"{self.breach}: origin {buffer.origin}, sequence {buffer.sequence}, chunk {buffer.chunk}"


Effect = Completed | Finding


def breach(chunks: Chunks, buffer: TupleBuffer, rule: CompletenessRule) -> Breach | None:
    """How the buffer contradicts what has come of its sequence, None if it does not.

    Only the set rule looks; the others count what they are given.
    """
    if rule != "set" or not chunks.buffers:
        return None
    if buffer.chunk in chunks.seen:
        return Breach.REPEATED
    if chunks.last is not None and buffer.chunk > chunks.last:
        return Breach.BEYOND_LAST
    largest = chunks.seen.largest
    if buffer.last and (chunks.last is not None or (largest is not None and largest > buffer.chunk)):
        return Breach.SECOND_LAST
    return None
