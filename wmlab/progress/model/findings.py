"""What the tracker reports besides its state: progress, and buffers that break the protocol.

NebulaStream aborts on some of these and miscounts on others. A bench names them and goes on; under the set rule a
buffer with a finding leaves the state as it was.

Source: "Watermarking and Progress", SequenceNumber and ChunkNumber; upstream classes `ChunkCollector` and
`NonBlockingMonotonicSeqQueue` (preconditions and invariants).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wmlab.progress.model.chunks import Chunks, CompletenessRule
from wmlab.progress.model.identifiers import TupleBuffer


class Breach(StrEnum):
    """How a buffer breaks the protocol. Source: as the module."""

    REPEATED = "repeated buffer"
    FINISHED = "buffer of a finished sequence"
    SECOND_LAST = "second last chunk"
    BEYOND_LAST = "chunk beyond the last"


@dataclass(frozen=True, slots=True)
class Completed:
    """Effect: all chunks of a sequence have come; the watermark is the largest of theirs. Source: as the module."""

    origin: int
    sequence: int
    watermark: int


@dataclass(frozen=True, slots=True)
class Moved:
    """Effect: the longest complete prefix of an origin has grown, with its local watermark. Source: as the module."""

    origin: int
    prefix: int
    local: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Effect: a buffer broke the protocol and was left out (under the set rule). Source: as the module."""

    breach: Breach
    buffer: TupleBuffer

    @property
    def sentence(self) -> str:
        """What was wrong with which buffer. Source: as the module."""
        buffer = self.buffer
        return f"{self.breach}: origin {buffer.origin}, sequence {buffer.sequence}, chunk {buffer.chunk}"


Effect = Completed | Moved | Finding


def breach(chunks: Chunks, buffer: TupleBuffer, rule: CompletenessRule) -> Breach | None:
    """How the buffer contradicts what has come of its sequence, None if it does not.

    Only the set rule looks; the others count what they are given. Source: as the module.
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
