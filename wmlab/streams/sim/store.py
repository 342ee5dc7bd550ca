"""What all nodes of a run share: the stores of segments, streams and writers, and the coordination service.

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
from wmlab.streams.model.coordination import Coordination, Session, bucket_of, qualified_name
from wmlab.streams.model.marks import MarkTable, NoteOutcome, StoreOutcome, Versioned, WriterMark
from wmlab.streams.model.wire import Note
from wmlab.streams.scenario.parts import COORDINATOR, METADATA_STORE
from wmlab.streams.sim.network import Message, Way

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
        for controller in world.fleet.members:
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
            return StoreOutcome.UNKNOWN_WRITER.value
        marks.table, outcome = marks.table.shutdown(writer, version=read.version)
        return outcome.value

    def remove(self, stream: str, writer: str, mark: WriterMark) -> StoreOutcome:
        """Remove a writer if its mark is unchanged. Raises `UnavailableError`."""
        marks = self.marks(stream)
        if marks is None:
            return StoreOutcome.DATA_NOT_FOUND
        marks.table, outcome = marks.table.remove(writer, mark)
        return outcome


class Coordinator:
    """One service for all controllers, and the table `ownership`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._part = world.scenario.controllers
        self.state = Coordination(self._part.buckets)
        self._next_ms = world.scenario.start_ms
        self._planned_ms: int | None = None
        self._blocked_buckets: Counter[int] = Counter()
        self._homes = {part.name: world.metadata.bucket(part.name) for part in world.scenario.all_streams}
        self._open_rows: dict[int, dict[str, object]] = {}

    def open(self, session: Session) -> None:
        """A controller is there: the buckets are distributed anew, not at once but soon."""
        self.state = self.state.open(session)
        self.plan()
        self._wake_committers()

    def close(self, session: Session) -> None:
        """A session ends: its nodes vanish, and others may take their buckets."""
        if session not in self.state.sessions:
            return
        lost = [bucket for bucket, owner in self.state.nodes.items() if owner == session]
        elected = self.state.distributor
        self.state = self.state.close(session)
        for bucket in lost:
            self._end(bucket)
        if self.state.distributor != elected:
            # A new distributor has not distributed yet, so it need not wait.
            self._next_ms = self._world.now_ms
        self.plan()
        for bucket in lost:
            self._announce(bucket)
        self._wake_committers()

    def _wake_committers(self) -> None:
        """Sessions have changed: commits that waited for a controller may have one."""
        for stream in self._world.streams.values():
            stream.transactions.wake()

    def plan(self) -> None:
        """Distribute at the next moment that is allowed; all joins of this very moment count.

        In a contest nobody distributes: everybody looks for free buckets at once.
        """
        if self._part.distribution == "contest":
            self._announce()
            return
        at_ms = max(self._next_ms, self._world.now_ms)
        if self._planned_ms is None or at_ms < self._planned_ms:
            self._planned_ms = at_ms
            self._world.after(at_ms - self._world.now_ms, self._distribute, at_ms)

    def _distribute(self, planned_ms: int) -> None:
        if planned_ms != self._planned_ms:
            return
        self._planned_ms = None
        elected = self.state.distributor
        distributor = None if elected is None else self._world.fleet[elected.controller]
        if distributor is None or distributor.session != elected or not distributor.is_working:
            return
        if self._world.network.is_separated(distributor.name, COORDINATOR):
            return
        self._next_ms = self._world.now_ms + self._part.redistribute_every_ms
        self.state = self.state.distribute()
        request = Message(None, distributor.name, COORDINATOR, "distribute", self._part.buckets)
        self._world.network.carry(request, lambda: None, way=Way.INSIDE)
        self._announce()

    def _announce(self, bucket: int | None = None) -> None:
        """The shares have changed, or the node of a bucket has gone: whoever ought to own it tries again."""
        anybody = bucket is None or self._part.distribution == "contest"
        for controller in self._world.fleet.members:
            if anybody or bucket in self.state.share(controller.name):
                news = Message(None, COORDINATOR, controller.name, "shares changed")
                self._world.network.notify(news, controller.rebalance_buckets)

    def take(self, bucket: int, session: Session) -> bool:
        """Create the node of a bucket, if there is none and nobody holds it back."""
        if self._blocked_buckets[bucket]:
            return False
        had = self.state.nodes.get(bucket)
        self.state, owns = self.state.take(bucket, session)
        if owns and had != session:
            self._open_rows[bucket] = self._world.shared.write(
                "ownership",
                bucket=bucket,
                controller=session.controller,
                streams=[name for name, home in self._homes.items() if home == bucket],
                from_ms=self._world.now_ms,
                to_ms=None,
            )
        return owns

    def release(self, bucket: int, session: Session) -> None:
        """Delete the node of a bucket if the session has it."""
        if self.state.nodes.get(bucket) == session:
            self.state = self.state.release(bucket, session)
            self._end(bucket)
            self._announce(bucket)

    def hold_back(self, bucket: int, for_ms: int) -> None:
        """Take a bucket's node away and let nobody create it for a while."""
        self._blocked_buckets[bucket] += 1
        owner = self.state.nodes.get(bucket)
        if owner is not None:
            self._world.fleet[owner.controller].release_bucket(bucket)
            self.release(bucket, owner)
        self._world.after(for_ms, self._let_go, bucket)

    def _let_go(self, bucket: int) -> None:
        self._blocked_buckets[bucket] -= 1
        if not self._blocked_buckets[bucket]:
            self._announce(bucket)

    def _end(self, bucket: int) -> None:
        self._open_rows.pop(bucket)["to_ms"] = self._world.now_ms

    def finish(self) -> None:
        """At the end of a run: one controller that had everything all the time is not worth a row for every bucket."""
        rows = self._world.shared.rows.get("ownership", [])
        owners = {row["controller"] for row in rows}
        start_ms = self._world.scenario.start_ms
        if len(owners) == 1 and all(row["from_ms"] == start_ms and row["to_ms"] is None for row in rows):
            rows.clear()
