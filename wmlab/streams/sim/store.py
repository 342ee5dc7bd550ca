"""The stores: segments of bytes, and the records of streams and writers.

An event occupies 8 header bytes and its payload (upstream wire format). A sealed segment refuses appends. All
controllers share the metadata store; it answers at once, and how long the way there takes is a matter of the network.
The owner of a bucket is notified of every stream that joins or leaves it.

Source: PDP-33, "Metadata" and "Future Possibilities"; upstream classes `PersistentStreamBase` and `BucketStore`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from wmlab.core.errors import ModelError
from wmlab.streams.model.coordination import bucket_of
from wmlab.streams.model.marks import MarkTable, NoteOutcome, StoreOutcome, Versioned, WriterMark
from wmlab.streams.scenario.units import METADATA_STORE

if TYPE_CHECKING:
    from wmlab.streams.sim.client import Note
    from wmlab.streams.sim.controller import Controller
    from wmlab.streams.sim.world import World


@dataclass(slots=True)
class StoredSegment:
    """One segment: when it was created and sealed, its length in bytes, and where its events end.

    Events of one append have one size, so an append is kept as (events before it, bytes before it, event size), and
    appends in a row of the same size as one.
    """

    created_ms: int
    sealed_ms: int | None = None
    length: int = 0
    events: int = 0
    truncated_events: int = 0
    _events_before: list[int] = field(default_factory=list)
    _appends: list[tuple[int, int]] = field(default_factory=list)

    def append(self, count: int, event_size: int) -> int:
        """Add `count` events of `event_size` bytes each; returns the length before them."""
        before = self.length
        if not self._appends or self._appends[-1][1] != event_size:
            self._events_before.append(self.events)
            self._appends.append((before, event_size))
        self.events += count
        self.length += count * event_size
        return before

    def truncate(self, offset: int) -> int:
        """Drop the events that end at or before an offset in bytes; returns where the segment starts now."""
        index = bisect_right(self._appends, offset, key=lambda append: append[0]) - 1
        if index >= 0:
            before, size = self._appends[index]
            kept = self._events_before[index] + (min(offset, self.length) - before) // size
            self.truncated_events = max(self.truncated_events, kept)
        return self.end_of(self.truncated_events)

    def end_of(self, events: int) -> int:
        """The offset after the first `events` events."""
        if events == 0:
            return 0
        index = bisect_right(self._events_before, events - 1) - 1
        before, size = self._appends[index]
        return before + (events - self._events_before[index]) * size

    def events_at(self, offset: int) -> int:
        """How many events end at or before an offset."""
        index = bisect_right(self._appends, offset, key=lambda append: append[0]) - 1
        if index < 0:
            return 0
        before, size = self._appends[index]
        following = self._events_before[index + 1] if index + 1 < len(self._appends) else self.events
        return min(self._events_before[index] + (offset - before) // size, following)


NO_SUCH_STREAM = "no such stream"
"""The answer to a note for a stream that was deleted."""


class UnavailableError(ModelError):
    """A store that refuses to answer, or that a partition keeps out of reach."""

    def __init__(self, what: str) -> None:
        super().__init__(f"The {what} is unavailable.", remedy="Wait until it is back.")
        self.reason = f"{what} unavailable"


class StreamRecord:
    """What the store holds about one stream."""

    def __init__(self) -> None:
        self.marks = MarkTable()
        self.noted_ms: dict[str, int] = {}


class MetadataStore:
    """The records of all streams."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._buckets = world.scenario.controllers.buckets
        self._records: dict[str, StreamRecord] = {}
        self._members: dict[str, int] = {}
        self._refusals: Counter[str] = Counter()

    def create(self, stream: str) -> None:
        """Begin the records of a stream anew; with unconditional cycles it is in its bucket from now on."""
        self._records[stream] = StreamRecord()
        if self._world.streams[stream].part.cycles == "unconditional":
            self._enter(stream)

    def delete(self, stream: str) -> None:
        """Delete the records of a stream, which also leaves its bucket."""
        del self._records[stream]
        self.leave(stream)

    def refuse(self, what: str, for_ms: int) -> None:
        """Let a part of the store refuse everything for a while."""
        self._refusals[what] += 1
        self._world.after(for_ms, self._refusals.subtract, [what])

    def require(self, what: str) -> None:
        """Nothing, or `UnavailableError` while that part refuses."""
        if self._refusals[what]:
            raise UnavailableError(what.replace("_", " "))

    def bucket(self, stream: str, buckets: int | None = None) -> int:
        """The bucket a stream belongs to, of all buckets or of that many; it follows from the stream's full name."""
        return bucket_of(f"scope/{stream}", self._buckets if buckets is None else buckets)

    def members(self, bucket: int) -> tuple[str, ...]:
        """The streams in a bucket, in the order in which they came."""
        return tuple(stream for stream, home in self._members.items() if home == bucket)

    def join(self, stream: str) -> None:
        """Put a stream into its bucket, if the stream exists and is not there. Raises `UnavailableError`."""
        if self.record(stream) is not None and stream not in self._members:
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
        for controller in world.fleet.members:
            if bucket in controller.buckets:
                news = (world.streams[stream].title, METADATA_STORE, controller.name, "bucket changed", bucket)
                world.network.notify(*news, partial(act, controller))

    def record(self, stream: str) -> StreamRecord | None:
        """The records of a stream, None when it is deleted. Raises `UnavailableError`."""
        self.require("writer_marks")
        return self._records.get(stream)

    def read(self, stream: str, writer: str) -> Versioned | None:
        """The mark of a writer with its version. Raises `UnavailableError`."""
        record = self.record(stream)
        return None if record is None else record.marks.records.get(writer)

    def note(self, note: Note, read: Versioned | None, shown_ms: int) -> str:
        """Judge a note against the record read before, and store it if that has not changed; returns the outcome.

        `shown_ms` is the controller's clock. Raises `UnavailableError`.
        """
        record = self.record(note.stream)
        if record is None:
            return NO_SUCH_STREAM
        stream = self._world.streams[note.stream]
        record.marks, outcome = record.marks.note(
            note.writer,
            note.time,
            note.position,
            rule=stream.part.note_rule,
            read=read,
            segments=stream.history.segments,
        )
        if outcome is NoteOutcome.SUCCESS:
            record.noted_ms[note.writer] = shown_ms
        return outcome.value

    def shut_down(self, stream: str, writer: str, read: Versioned | None) -> str:
        """Mark a writer as no longer alive if its record is as it was read; the outcome. Raises `UnavailableError`."""
        record = self.record(stream)
        if record is None:
            return NO_SUCH_STREAM
        if read is None:
            return StoreOutcome.UNKNOWN_WRITER.value
        record.marks, outcome = record.marks.shutdown(writer, version=read.version)
        return outcome.value

    def remove(self, stream: str, writer: str, mark: WriterMark) -> StoreOutcome:
        """Remove a writer if its mark is unchanged. Raises `UnavailableError`."""
        record = self.record(stream)
        if record is None:
            return StoreOutcome.DATA_NOT_FOUND
        record.marks, outcome = record.marks.remove(writer, mark)
        return outcome
