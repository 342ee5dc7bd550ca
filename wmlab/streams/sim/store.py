"""What all nodes of a run share: a stored segment, and the metadata store of writers and streams.

An event occupies 8 header bytes and its payload (upstream wire format). A sealed segment refuses appends. All
controllers share the metadata store; it answers at once, and how long the way there takes is a matter of the network.
The owner of a bucket is notified of every stream that joins or leaves it.

Source: PDP-33, "Metadata" and "Future Possibilities"; upstream classes `PersistentStreamBase`, `BucketStore`,
`ZKBucketManager`, `BucketManager` and `BucketService`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from wmlab.core.errors import ModelError
from wmlab.streams.model.coordination import bucket_of, qualified_name
from wmlab.streams.model.marks import MarkTable, NoteOutcome, Versioned, WriterMark
from wmlab.streams.model.wire import Note
from wmlab.streams.scenario.parts import METADATA_STORE
from wmlab.streams.sim.network import Message

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller
    from wmlab.streams.sim.world import World


@dataclass(slots=True)
class StoredSegment:
    """One segment: when it was created and sealed, its length in bytes, and where its events end.

    Events of one append have one size, so appends in a row of the same event size are kept as one run: (events before
    it, bytes before it, event size).
    """

    created_ms: int
    sealed_ms: int | None = None
    length: int = 0
    events: int = 0
    truncated_events: int = 0
    _runs: list[tuple[int, int, int]] = field(default_factory=list)

    def append(self, count: int, event_size: int) -> int:
        """Add `count` events of `event_size` bytes each; returns the length before them."""
        before = self.length
        if not self._runs or self._runs[-1][2] != event_size:
            self._runs.append((self.events, before, event_size))
        self.events += count
        self.length += count * event_size
        return before

    def truncate(self, offset: int) -> int:
        """Drop the events that end at or before an offset in bytes; returns where the segment starts now."""
        self.truncated_events = max(self.truncated_events, self.events_at(offset))
        return self.end_of(self.truncated_events)

    def end_of(self, events: int) -> int:
        """The offset after the first `events` events."""
        if events == 0:
            return 0
        events_before, before, size = self._runs[bisect_right(self._runs, events - 1, key=itemgetter(0)) - 1]
        return before + (events - events_before) * size

    def events_at(self, offset: int) -> int:
        """How many events end at or before an offset."""
        if not self._runs:
            return 0
        events_before, before, size = self._runs[bisect_right(self._runs, offset, key=itemgetter(1)) - 1]
        return events_before + (min(offset, self.length) - before) // size


NO_SUCH_STREAM: Final = "no such stream"
"""The answer to a note for a stream that was deleted."""
UNAVAILABLE: Final = "unavailable"
"""The answer of a controller that is not there, or that cannot reach its store."""


class UnavailableError(ModelError):
    """A store that refuses to answer, or that a partition keeps out of reach."""

    def __init__(self, store: str) -> None:
        super().__init__(f"The {store} is unavailable.", remedy="Wait until it is back.")
        self.reason = f"{store} unavailable"


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
    """The writer marks of all streams that are there, and the streams in each bucket."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._buckets = world.scenario.controllers.buckets
        self._marks: dict[str, WriterMarks] = {}
        self._members: dict[str, int] = {}
        self._refusals: Counter[str] = Counter()

    def create(self, stream: str) -> None:
        """A stream is there, without marks; with unconditional cycles it is in its bucket at once."""
        self._marks[stream] = WriterMarks()
        if self._world.streams[stream].part.cycles == "unconditional":
            self._enter(stream)

    def delete(self, stream: str) -> None:
        """A stream is gone, and its marks with it."""
        self.leave(stream)
        del self._marks[stream]

    def refuse(self, store: str, for_ms: int) -> None:
        """Let a part of the store refuse everything for a while."""
        self._refusals[store] += 1
        self._world.after(for_ms, self._refusals.subtract, [store])

    def require(self, store: str) -> None:
        """Nothing, or `UnavailableError` while that part refuses."""
        if self._refusals[store]:
            raise UnavailableError(store.replace("_", " "))

    def bucket(self, stream: str, buckets: int | None = None) -> int:
        """The bucket a stream belongs to, of all buckets or of that many; it follows from the stream's full name."""
        return bucket_of(qualified_name(stream), self._buckets if buckets is None else buckets)

    def members(self, bucket: int) -> tuple[str, ...]:
        """The streams in a bucket, in the order in which they came."""
        return tuple(stream for stream, home in self._members.items() if home == bucket)

    def join(self, stream: str) -> None:
        """Put a stream into its bucket, if the stream exists and is not there. Raises `UnavailableError`."""
        if self.marks(stream) is not None and stream not in self._members:
            self._enter(stream)

    def _enter(self, stream: str) -> None:
        self._members[stream] = self.bucket(stream)
        self._notify(stream, lambda owner: owner.add_work(stream))

    def leave(self, stream: str) -> None:
        """Take a stream out of its bucket, if it is there."""
        if self._members.pop(stream, None) is not None:
            self._notify(stream, lambda owner: owner.drop_work(stream))

    def _notify(self, stream: str, act: Callable[[Controller], None]) -> None:
        """A change notification to whoever works on the bucket."""
        bucket, world = self.bucket(stream), self._world
        for controller in world.controllers.members:
            if bucket in controller.buckets:
                title = world.streams[stream].title
                news = Message(title, METADATA_STORE, controller.name, "bucket changed", bucket)
                world.network.notify(news, partial(act, controller))

    def marks(self, stream: str) -> WriterMarks | None:
        """The marks of a stream, None when it is not there. Raises `UnavailableError`."""
        self.require("writer_marks")
        return self._marks.get(stream)

    def read(self, stream: str, writer: str) -> Versioned | None:
        """The mark of a writer with its version. Raises `UnavailableError`."""
        marks = self.marks(stream)
        return None if marks is None else marks.table.records.get(writer)

    def note(self, note: Note, read: Versioned | None, clock_ms: int) -> str:
        """Judge a note against the record read before, and store it if that has not changed; returns the outcome.

        `clock_ms` is the controller's clock. Raises `UnavailableError`.
        """
        marks, stream = self.marks(note.stream), self._world.streams[note.stream]
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
