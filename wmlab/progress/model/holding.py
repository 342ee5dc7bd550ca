"""What holds the global watermark: the origin, the sequence and the chunks that it waits for.

Source: "Watermarking and Progress", Reasoning about progress; upstream class `MultiOriginWatermarkProcessor`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.core.words import grouped
from wmlab.progress.model.chunks import Chunks
from wmlab.progress.model.tracker import OriginProgress, Progress


@dataclass(frozen=True, slots=True)
class Hold:
    """An origin at the global watermark, and what has to come before it moves on.

    `sequence` is the first one that is not complete. `chunks` are those of it known to be missing (the first ten);
    `started` tells whether any has come, `ended` whether the last one has. `waiting` counts the buffers that came
    beyond the prefix, `since_ms` is the clock time since which the global watermark stands (None: it never moved).
    Source: as the module.
    """

    origin: int
    watermark: int | None
    sequence: int
    started: bool
    chunks: tuple[int, ...]
    waiting: int
    since_ms: int | None
    ended: bool = False

    @property
    def sentence(self) -> str:
        """The hold in words. Source: as the module."""
        at = "unknown" if self.watermark is None else f"at {grouped(self.watermark)}"
        since = "from the start" if self.since_ms is None else f"since {grouped(self.since_ms)} ms"
        return f"The global watermark is {at} {since}: origin {self.origin} {self.cause}; {self._behind()}."

    @property
    def cause(self) -> str:
        """What the origin lacks, as a phrase that follows its name. Source: as the module."""
        if not self.started and not self.waiting:
            return "has sent nothing" if self.sequence == 1 else f"has sent nothing after sequence {self.sequence - 1}"
        if not self.started:
            return f"lacks sequence {self.sequence}"
        if not self.chunks:
            lacking = f"lacks the last chunk of sequence {self.sequence}"
            return f"has all chunks of sequence {self.sequence}, but not by the rule" if self.ended else lacking
        word = "chunk" if len(self.chunks) == 1 else "chunks"
        return f"lacks {word} {', '.join(map(str, self.chunks))} of sequence {self.sequence}"

    def _behind(self) -> str:
        return {0: "no buffer waits behind it", 1: "1 buffer waits behind it"}.get(
            self.waiting, f"{grouped(self.waiting)} buffers wait behind it"
        )


def explain(state: Progress) -> tuple[Hold, ...]:
    """Every origin whose local watermark is the global one, in the order declared; empty without origins.

    Source: as the module.
    """
    return tuple(
        _hold(state, origin, local)
        for origin, local in zip(state.origins, state.locals, strict=True)
        if local.local == state.watermark
    )


def _hold(state: Progress, origin: int, local: OriginProgress) -> Hold:
    sequence = local.prefix + 1
    chunks = local.beyond.get(sequence)
    started = isinstance(chunks, Chunks)
    missing = chunks.missing() if isinstance(chunks, Chunks) else ()
    ended = isinstance(chunks, Chunks) and chunks.last is not None
    return Hold(origin, state.watermark, sequence, started, missing, local.waiting, state.moved_ms, ended)
