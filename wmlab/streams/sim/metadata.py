"""The metadata store that all controllers share: the streams, the marks of their writers, and who is in which bucket.

It answers at once; how long the way there takes is a matter of the network. The owner of a bucket is notified of every
stream that joins or leaves it.

Source: PDP-33, "Metadata" and "Future Possibilities"; upstream classes `PersistentStreamBase`, `BucketStore`,
`ZKBucketManager`, `BucketManager` and `BucketService`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from wmlab.streams.model.marks import MarkTable, NoteOutcome, Versioned, WriterMark
from wmlab.streams.model.wire import Note
from wmlab.streams.scenario.parts import METADATA_STORE
from wmlab.streams.sim.coordinator import BucketOwner
from wmlab.streams.sim.network import Message
from wmlab.streams.sim.stream import StreamWorld
from wmlab.streams.sim.world import World

NO_SUCH_STREAM: Final = "no such stream"
"""The answer to a note for a stream that was deleted."""


@dataclass(slots=True)
class WriterMarks:
    """The writer marks of one stream, when each was noted by the clock of the controller that judged it, and when it
    was stored in truth, which only the tables of the run know; both in ms.
    """

    table: MarkTable = field(default_factory=MarkTable)
    noted_ms: dict[str, int] = field(default_factory=dict)
    received_ms: dict[str, int] = field(default_factory=dict)

    def copy(self) -> WriterMarks:
        """The same in an object of its own."""
        return WriterMarks(self.table, dict(self.noted_ms), dict(self.received_ms))


class MetadataStore:
    """The writer marks of all streams that are there, and the streams in each bucket.

    `streams` are those of the scenario by name, as they are now; `owners` the controllers that are notified.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.streams: dict[str, StreamWorld] = {}
        self.owners: Sequence[BucketOwner] = ()
        self._marks: dict[str, WriterMarks] = {}
        self._members: dict[str, int] = {}

    def create(self, stream: StreamWorld) -> None:
        """A stream is there, without marks; with unconditional cycles it is in its bucket at once."""
        self._marks[stream.name] = WriterMarks()
        if stream.part.cycles == "unconditional":
            self._enter(stream.name)

    def delete(self, stream: str) -> None:
        """A stream is gone, and its marks with it."""
        self.leave(stream)
        del self._marks[stream]

    def members(self, bucket: int) -> tuple[str, ...]:
        """The streams in a bucket, in the order in which they came."""
        return tuple(stream for stream, home in self._members.items() if home == bucket)

    def join(self, stream: str) -> None:
        """Put a stream into its bucket, if the stream exists and is not there. Raises `UnavailableError`."""
        if self.marks(stream) is not None and stream not in self._members:
            self._enter(stream)

    def _enter(self, stream: str) -> None:
        self._members[stream] = self.streams[stream].bucket
        self._notify(stream, lambda owner: owner.add_work(stream))

    def leave(self, stream: str) -> None:
        """Take a stream out of its bucket, if it is there."""
        if self._members.pop(stream, None) is not None:
            self._notify(stream, lambda owner: owner.drop_work(stream))

    def _notify(self, stream: str, act: Callable[[BucketOwner], None]) -> None:
        """A change notification to the controllers that work on the bucket."""
        bucket, title = self.streams[stream].bucket, self.streams[stream].title
        for controller in self.owners:
            if bucket in controller.buckets:
                news = Message(title, METADATA_STORE, controller.name, "bucket changed", bucket)
                self._world.network.notify(news, partial(act, controller))

    def marks(self, stream: str) -> WriterMarks | None:
        """The marks of a stream, None when it is not there. Raises `UnavailableError`."""
        self._world.require("writer_marks")
        return self._marks.get(stream)

    def read(self, stream: str, writer: str) -> Versioned | None:
        """The mark of a writer with its version. Raises `UnavailableError`."""
        marks = self.marks(stream)
        return None if marks is None else marks.table.records.get(writer)

    def note(self, note: Note, read: Versioned | None, clock_ms: int) -> str:
        """Judge a note against the record read before, and store it if that has not changed; returns the outcome.

        `clock_ms` is the controller's clock. Raises `UnavailableError`.
        """
        marks, stream = self.marks(note.stream), self.streams[note.stream]
        if marks is None:
            return NO_SUCH_STREAM
        segments, rule = stream.history.segments, stream.part.note_rule
        marks.table, outcome = marks.table.note(
            note.writer, note.time, note.position, rule=rule, read=read, segments=segments
        )
        if outcome is NoteOutcome.SUCCESS:
            marks.noted_ms[note.writer] = clock_ms
            marks.received_ms[note.writer] = self._world.now_ms
        return outcome.value

    def shut_down(self, stream: str, writer: str, read: Versioned | None) -> str:
        """Mark a writer as no longer alive if its record is as it was read; the outcome. Raises `UnavailableError`."""
        marks = self.marks(stream)
        if marks is None:
            return NO_SUCH_STREAM
        if read is None:
            return NoteOutcome.UNKNOWN_WRITER.value
        marks.table, outcome = marks.table.shutdown(writer, version=read.version)
        return outcome.value

    def remove(self, stream: str, writer: str, mark: WriterMark) -> NoteOutcome:
        """Remove a writer if its mark is unchanged. Raises `UnavailableError`."""
        marks = self.marks(stream)
        if marks is None:
            return NoteOutcome.DATA_NOT_FOUND
        marks.table, outcome = marks.table.remove(writer, mark)
        return outcome
