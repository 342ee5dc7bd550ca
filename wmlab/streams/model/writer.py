"""The writer's side of a mark: what its position is, and who decides when it is noted.

The position is what has been acknowledged, for every segment the writer holds; nothing is flushed, so events in
flight are not covered. In automatic mode the wall clock is noted at a fixed period and the application may not note.

Source: PDP-33, Client Changes, and PDP-33, Event Writer API Changes; upstream class `EventStreamWriterImpl`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.core.errors import ModelError
from wmlab.streams.model.position import Position


def hold(position: Position, segment: int) -> Position:
    """The position after the writer has opened a segment: nothing is acknowledged there yet.

    Source: upstream class `SegmentSelector`.
    """
    return position if segment in position else Position({**position, segment: None})


def acknowledge(position: Position, segment: int, length: int) -> Position:
    """The position after an acknowledgement that carries the segment's length in bytes; offsets never go back.

    Raises `ModelError` when the writer does not hold the segment or the length is negative.
    Source: PDP-33, Client Changes; upstream class `SegmentOutputStreamImpl`.
    """
    if segment not in position:
        raise ModelError(f"The writer does not hold segment {segment}.", remedy="Let it open the segment first.")
    before = position[segment]
    return position if before is not None and before >= length else position.replaced(segment, length)


def let_go(position: Position, segment: int) -> Position:
    """The position after the writer has dealt with the seal of a segment. Source: upstream class `SegmentSelector`."""
    return Position({held: offset for held, offset in position.items() if held != segment})


@dataclass(frozen=True, slots=True)
class AutomaticNotes:
    """Automatic mode: the wall clock is noted every `period_ms`, for the first time after `first_after_ms`.

    Source: PDP-33, Config Changes (automaticallyNoteTime); upstream class `EventStreamWriterImpl`.
    """

    period_ms: int = 5_000
    first_after_ms: int = 5_000

    def times_ms(self, start_ms: int, until_ms: int) -> range:
        """The clock times in [start_ms, until_ms] at which it notes. Source: as the class."""
        return range(start_ms + self.first_after_ms, until_ms + 1, self.period_ms)


def refuse_explicit_note(automatic: AutomaticNotes | None) -> None:
    """Nothing, or `ModelError` in automatic mode. Source: upstream class `EventStreamWriterImpl` (noteTime)."""
    if automatic is not None:
        raise ModelError(
            "A writer that notes time automatically cannot note it explicitly.",
            remedy="Leave automatic mode off for a writer that notes its own time.",
        )
