"""Writer marks: what each writer last noted, from which position, and when a new note is accepted.

A writer notes a time together with its position: the acknowledged offset in every segment that it has open. Nothing is
flushed, so events in flight are not covered. In automatic mode the wall clock is noted at a fixed period and the
application may not note. The metadata store keeps one record per writer, with a version for compare-and-set. Any
controller may take the note, and two processes may use one writer id.

Two rules judge a note. "implementation" is what Pravega does: the time must not be smaller, and no segment common to
both positions may have a smaller offset. "design" is what the design text asks for: the time must be larger, and the
position must not lie behind the recorded one at any key, compared as `position.behind_at_a_key` states.

Source: PDP-33, Metadata, PDP-33, Writer Marks, PDP-33, Client Changes, PDP-33, Config Changes
(automaticallyNoteTime), and PDP-33, Event Writer API Changes; upstream classes `PersistentStreamBase` (noteWriterMark,
compareWriterPositions, shutdownWriter, removeWriter), `WriterMark`, `WriterTimestampResult`, `VersionedMetadata`,
`StoreException`, `EventStreamWriterImpl`, `SegmentOutputStreamImpl` and `SegmentSelector`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import EllipsisType
from typing import Final, Literal

from wmlab.core.errors import ModelError
from wmlab.streams.model.position import Position, behind_at_a_key, is_less
from wmlab.streams.model.segment import Segment


def add_segments(position: Position, segments: Iterable[int]) -> Position:
    """The position after the writer has opened segments: nothing is acknowledged there yet."""
    opened = {segment: None for segment in segments if segment not in position}
    return Position({**position, **opened}) if opened else position


def acknowledge(position: Position, segment: int, length: int) -> Position:
    """The position after an acknowledgement that carries the segment's length in bytes; offsets never go back.

    One for a segment that the writer does not hold changes nothing. Raises `ModelError` for a negative length.
    """
    before = position.get(segment, length)
    return position if before is not None and before >= length else position.moved({segment: length})


def remove_segment(position: Position, segment: int) -> Position:
    """The position after the writer has dealt with the seal of a segment."""
    return position.moved({segment: None})


def automatic_notes_ms(start_ms: int, until_ms: int, *, period_ms: int) -> range:
    """The clock times in [start_ms, until_ms] at which a writer in automatic mode notes, from one period on."""
    return range(start_ms + period_ms, until_ms + 1, period_ms)


EXPLICIT_NOTE: Final = "A writer that notes time automatically cannot note it explicitly."


def refuse_explicit_note(*, automatic: bool) -> None:
    """Nothing, or `ModelError` in automatic mode."""
    if automatic:
        raise ModelError(EXPLICIT_NOTE, remedy="Leave automatic mode off for a writer that notes its own time.")


NoteRule = Literal["implementation", "design"]


@dataclass(frozen=True, slots=True)
class WriterMark:
    """What a writer last noted: time, position, and whether it is alive (not shut down)."""

    time: int
    position: Position
    alive: bool = True


class NoteOutcome(StrEnum):
    """The answer to a note, and to other changes of a writer's mark: a note is a SUCCESS, another change is OK."""

    SUCCESS = "success"
    INVALID_TIME = "invalid time"
    INVALID_POSITION = "invalid position"
    OK = "ok"
    DATA_EXISTS = "data exists"
    WRITE_CONFLICT = "write conflict"
    DATA_NOT_FOUND = "data not found"
    UNKNOWN_WRITER = "unknown writer"


def judge_note(
    stored: WriterMark | None,
    time: int,
    position: Position,
    *,
    rule: NoteRule = "implementation",
    segments: Mapping[int, Segment] | None = None,
) -> NoteOutcome:
    """SUCCESS, INVALID_TIME or INVALID_POSITION, tested in this order; a first note is always accepted.

    `segments` (the stream's, by id) is needed for the rule "design" only, which compares across epochs. Raises
    `ModelError` when it is missing there.
    """
    if stored is None:
        return NoteOutcome.SUCCESS
    if time < stored.time or (rule == "design" and time == stored.time):
        return NoteOutcome.INVALID_TIME
    if not positions_ordered(stored.position, position):
        return NoteOutcome.INVALID_POSITION
    if rule == "design":
        if segments is None:
            raise ModelError("The rule 'design' compares positions by key.", remedy="Pass the stream's segments.")
        if behind_at_a_key(stored.position, position, segments):
            return NoteOutcome.INVALID_POSITION
    return NoteOutcome.SUCCESS


def positions_ordered(first: Position, second: Position) -> bool:
    """Whether `second` is acceptable after `first`: no segment common to both has a smaller offset in `second`.

    Positions without a common segment are always ordered, even if the second one lies before the first.
    """
    recorded = dict(first.items())
    return not any(is_less(offset, recorded.get(segment)) for segment, offset in second.items())


@dataclass(frozen=True, slots=True)
class Versioned:
    """A stored mark with the version that a compare-and-set has to name."""

    mark: WriterMark
    version: int


@dataclass(frozen=True, slots=True)
class MarkTable:
    """The writer marks of one stream: an immutable, versioned store. Versions are never used twice."""

    records: Mapping[str, Versioned] = field(default_factory=dict)
    next_version: int = 0

    def note(
        self,
        writer: str,
        time: int,
        position: Position,
        *,
        rule: NoteRule = "implementation",
        read: Versioned | EllipsisType | None = ...,
        segments: Mapping[int, Segment] | None = None,
    ) -> tuple[MarkTable, NoteOutcome]:
        """The table after a note, and its outcome; an accepted note makes the writer alive and replaces its position.

        `read` is the record as the controller read it; by default it reads now. If the record has changed since,
        the outcome is WRITE_CONFLICT, if it has gone DATA_NOT_FOUND. Raises `ModelError` as `judge_note`.
        """
        seen = self.records.get(writer) if read is ... else read
        outcome = judge_note(seen.mark if seen else None, time, position, rule=rule, segments=segments)
        if outcome is not NoteOutcome.SUCCESS:
            return self, outcome
        mark = WriterMark(time, position)
        if seen is None:
            # Another controller was faster to create the first mark of this writer.
            table, outcome = self.create(writer, mark)
            outcome = NoteOutcome.WRITE_CONFLICT if outcome is NoteOutcome.DATA_EXISTS else outcome
        else:
            table, outcome = self.update(writer, mark, seen.version)
        return table, NoteOutcome.SUCCESS if outcome is NoteOutcome.OK else outcome

    def create(self, writer: str, mark: WriterMark) -> tuple[MarkTable, NoteOutcome]:
        """Store a first mark: OK, or DATA_EXISTS."""
        if writer in self.records:
            return self, NoteOutcome.DATA_EXISTS
        return self._put(writer, mark), NoteOutcome.OK

    def update(self, writer: str, mark: WriterMark, version: int) -> tuple[MarkTable, NoteOutcome]:
        """Replace a mark of that version: OK, WRITE_CONFLICT or DATA_NOT_FOUND."""
        if writer not in self.records:
            return self, NoteOutcome.DATA_NOT_FOUND
        if self.records[writer].version != version:
            return self, NoteOutcome.WRITE_CONFLICT
        return self._put(writer, mark), NoteOutcome.OK

    def shutdown(self, writer: str, *, read: Versioned | EllipsisType | None = ...) -> tuple[MarkTable, NoteOutcome]:
        """Mark the writer as no longer alive, keeping time and position: OK, UNKNOWN_WRITER or WRITE_CONFLICT.

        `read` is the record as the controller read it; by default it reads now.
        """
        seen = self.records.get(writer) if read is ... else read
        if seen is None or writer not in self.records:
            return self, NoteOutcome.UNKNOWN_WRITER
        return self.update(writer, replace(seen.mark, alive=False), seen.version)

    def remove(self, writer: str, mark: WriterMark) -> tuple[MarkTable, NoteOutcome]:
        """Delete a record if its whole mark still equals `mark`: OK, WRITE_CONFLICT or DATA_NOT_FOUND."""
        if writer not in self.records:
            return self, NoteOutcome.DATA_NOT_FOUND
        if self.records[writer].mark != mark:
            return self, NoteOutcome.WRITE_CONFLICT
        others = {name: record for name, record in self.records.items() if name != writer}
        return replace(self, records=others), NoteOutcome.OK

    @property
    def marks(self) -> Mapping[str, WriterMark]:
        """The marks without versions, in the order in which the writers were first noted."""
        return {writer: record.mark for writer, record in self.records.items()}

    def _put(self, writer: str, mark: WriterMark) -> MarkTable:
        return MarkTable({**self.records, writer: Versioned(mark, self.next_version)}, self.next_version + 1)
