"""When all chunks of a sequence have been seen: four rules, of which only one is always right.

With base b and last chunk L, known once a chunk with the last flag has come:

    rule      complete when                   wrong when
    set       the chunks b..L have all come   never; a repeat changes nothing
    count     L - b + 1 buffers have come     a chunk comes twice: too early
    literal   L buffers have come             b is 0: never for one chunk, one chunk too early or never for more
    balance   -1 for each chunk without the   the last chunk comes twice: never
              flag, L - b for it, sum is 0

`literal` is the document's own code snippet, `balance` is the engine's rule since 2025. The snippet counts chunks from
1 ("example: ChunkNumbers{1,2,3,4}"), the rest of the text and its diagram count them from 0. With base 0 a buffer that
is the only chunk of its sequence, number 0 and the last, never completes it, and no window fires in the text's diagram.

Of buffers that break the protocol NebulaStream aborts on some and miscounts others. Here they are named; under the set
rule such a buffer leaves the state as it was.

Source: "Watermarking and Progress", SequenceNumber and ChunkNumber; upstream classes `ChunkCollector` and
`NonBlockingMonotonicSeqQueue` (preconditions and invariants).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final, Literal, TypeAlias

from wmlab.progress.model.numbers import TupleBuffer

CompletenessRule = Literal["set", "count", "literal", "balance"]
LITERALLY: Final = (
    "as many buffers have come as the number of the last chunk says (for chunks from 0 that is one too few, and never "
    "the case for a single one)"
)
"""When a sequence is complete by the rule `literal`, in words."""


class ViolationKind(StrEnum):
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
class ProtocolViolation:
    """Effect: a buffer broke the protocol and was left out."""

    kind: ViolationKind
    buffer: TupleBuffer

    @property
    def sentence(self) -> str:
        """What was wrong with which buffer."""
        buffer = self.buffer
        return f"{self.kind}: origin {buffer.origin}, sequence {buffer.sequence}, chunk {buffer.chunk}"


TrackerEffect: TypeAlias = Completed | ProtocolViolation


@dataclass(slots=True)
class Chunks:
    """What has come of one sequence: the chunks, how many buffers, the last chunk's number, the largest watermark.

    `highest` is the largest number among the chunks, `balance` the sum of the rule of that name. `done` is set by the
    tracker once the sequence is complete; from then on every buffer of it breaks the protocol.

    The last of three chunks comes first, then the first one, twice; by the count the sequence is complete, by the set
    it lacks a chunk:

    >>> chunks = Chunks(base=0)
    >>> for chunk, last in ((2, True), (0, False), (0, False)):
    ...     chunks.add(chunk, last, watermark=10 * chunk)
    ...     print(chunks.complete("count"), chunks.complete("set"), chunks.missing())
    False False (0, 1)
    False False (1,)
    True False (1,)
    """

    base: int
    seen: set[int] = field(default_factory=set)
    highest: int = -1
    buffers: int = 0
    last: int | None = None
    balance: int = 0
    watermark: int = 0
    done: bool = False

    def violation(self, buffer: TupleBuffer, rule: CompletenessRule) -> ViolationKind | None:
        """How a buffer contradicts what has come of its sequence, None if it does not.

        Only the set rule looks at the chunks; the others count what they are given until the sequence is done.
        """
        if self.done:
            return ViolationKind.FINISHED
        if rule != "set" or not self.buffers:
            return None
        if buffer.chunk in self.seen:
            return ViolationKind.REPEATED
        if self.last is not None and buffer.chunk > self.last:
            return ViolationKind.BEYOND_LAST
        if buffer.last and (self.last is not None or self.highest > buffer.chunk):
            return ViolationKind.SECOND_LAST
        return None

    def add(self, chunk: int, last: bool, watermark: int) -> None:
        """Count one more buffer."""
        self.watermark = max(self.watermark, watermark) if self.buffers else watermark
        self.buffers += 1
        self.seen.add(chunk)
        self.highest = max(self.highest, chunk)
        if last:
            self.last = chunk
            self.balance += chunk - self.base
        else:
            self.balance -= 1

    def complete(self, rule: CompletenessRule = "set") -> bool:
        """Whether the sequence is complete by the rule; see the table above."""
        if rule == "balance":
            return self.buffers > 0 and self.balance == 0
        if self.last is None:
            return False
        if rule == "literal":
            return self.buffers == self.last
        return (len(self.seen) if rule == "set" else self.buffers) == self.last - self.base + 1

    def missing(self) -> tuple[int, ...]:
        """The chunks that are known to be missing, ascending; at most the first 10."""
        end = self.highest if self.last is None else self.last
        return tuple(islice((chunk for chunk in range(self.base, end + 1) if chunk not in self.seen), 10))
