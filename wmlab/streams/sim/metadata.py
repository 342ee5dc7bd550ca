"""The metadata store: writer marks with versions, and which streams are in their watermark bucket.

All controllers share it. It answers at once; how long the way there takes is a matter of the network. Whoever owns a
bucket hears of every stream that comes into it or leaves it.

Source: PDP-33, "Metadata"; upstream classes `PersistentStreamBase` and `BucketStore`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wmlab.core.errors import ModelError
from wmlab.streams.model.bucket import bucket_of
from wmlab.streams.model.marks import MarkTable, NoteOutcome, StoreOutcome, Versioned, WriterMark
from wmlab.streams.scenario.units import METADATA_STORE

if TYPE_CHECKING:
    from wmlab.streams.sim.notes import Note
    from wmlab.streams.sim.world import World

NO_SUCH_STREAM = "no such stream"
"""The answer to a note for a stream that was deleted."""
SCOPE = "scope"
"""The scope that all streams are in; a stream's bucket follows from "scope/name"."""


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
        self._refusals: dict[str, int] = {}

    def create(self, stream: str) -> None:
        """Begin the records of a stream anew."""
        self._records[stream] = StreamRecord()

    def delete(self, stream: str) -> None:
        """Delete the records of a stream, which also leaves its bucket."""
        del self._records[stream]
        self.leave(stream)

    def refuse(self, what: str, for_ms: int) -> None:
        """Let a part of the store refuse everything for a while."""
        self._refusals[what] = self._refusals.get(what, 0) + 1
        self._world.after(for_ms, self._relent, what)

    def _relent(self, what: str) -> None:
        self._refusals[what] -= 1

    def require(self, what: str) -> None:
        """Nothing, or `UnavailableError` while that part refuses."""
        if self._refusals.get(what):
            raise UnavailableError(what.replace("_", " "))

    def bucket(self, stream: str) -> int:
        """The bucket a stream belongs to."""
        return bucket_of(self.scoped(stream), self._buckets)

    @staticmethod
    def scoped(stream: str) -> str:
        """The full name of a stream, which its places are hashed from."""
        return f"{SCOPE}/{stream}"

    def members(self, bucket: int) -> tuple[str, ...]:
        """The streams in a bucket, in the order in which they came."""
        return tuple(stream for stream, home in self._members.items() if home == bucket)

    def join(self, stream: str) -> None:
        """Put a stream into its bucket; nothing happens if it is there."""
        if stream not in self._members:
            self._members[stream] = self.bucket(stream)
            self._tell(stream, lambda owner: owner.add_work(stream))

    def join_known(self, stream: str) -> None:
        """Put a stream into its bucket if it is there at all. Raises `UnavailableError`."""
        if self.record(stream) is not None:
            self.join(stream)

    def leave(self, stream: str) -> None:
        """Take a stream out of its bucket, if it is there."""
        if self._members.pop(stream, None) is not None:
            self._tell(stream, lambda owner: owner.drop_work(stream))

    def _tell(self, stream: str, act: Callable[..., None]) -> None:
        """A change notification to whoever works on the bucket."""
        bucket = self.bucket(stream)
        for controller in self._world.fleet.members:
            if bucket in controller.buckets and not self._world.network.is_cut(METADATA_STORE, controller.name):
                title = self._world.streams[stream].title
                delay_ms = self._world.network.inside(title, METADATA_STORE, controller.name, "bucket changed", bucket)
                if delay_ms:
                    self._world.after(delay_ms, act, controller)
                else:
                    act(controller)

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
