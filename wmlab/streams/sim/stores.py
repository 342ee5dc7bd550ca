"""The stores of a run: the segments, epochs and log of each stream, the marks of writers, and the buckets.

A sealed segment refuses appends, and an event occupies 8 header bytes and its payload (upstream wire format). A stream
that is deleted and created again is another stream of the same name: its tables are called `name#2`. The metadata store
is shared by all controllers. It answers at once; how long the way there takes is a matter of the network. The owner of
a bucket is notified of every stream that joins or leaves it.

Source: PDP-33, "Metadata" and "Future Possibilities"; upstream classes `PersistentStreamBase`, `BucketStore`,
`ZKBucketManager`, `BucketManager` and `BucketService`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Final

from wmlab.core.simulation import Journal
from wmlab.streams.model.coordination import bucket_of, qualified_name
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.index import MarksIndex, missing
from wmlab.streams.model.log import LeaderView, MarksLog, NoSuchLogError, Watermark, open_view, settle_pointer
from wmlab.streams.model.marks import MarkTable, NoteOutcome, Versioned, WriterMark
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.wire import Lengths, Note
from wmlab.streams.scenario.parts import METADATA_STORE, Stream
from wmlab.streams.scenario.rules import configuration, created_history
from wmlab.streams.sim.coordinator import BucketOwner
from wmlab.streams.sim.network import Message
from wmlab.streams.sim.world import UnavailableError, World

NO_SUCH_STREAM: Final = "no such stream"
"""The answer to a note for a stream that was deleted."""


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


class StreamWorld:
    """A stream as its writers, its readers and the controllers see it.

    `title` is what the tables call it, `bucket` is the bucket that its full name falls into.
    """

    def __init__(self, world: World, part: Stream, *, generation: int = 1, first_number: int = 0) -> None:
        self.world = world
        self.part = part
        self.name = part.name
        self.generation = generation
        self.title = part.name if generation == 1 else f"{part.name}#{generation}"
        self.bucket = bucket_of(qualified_name(part.name), world.scenario.controllers.buckets)
        taken = world.take_events and partial(world.take_events, self.title)
        self.journal = world.journals[part.name] = Journal(common={"stream": self.title}, take_events=taken)
        self.store: dict[int, StoredSegment] = {}
        self.cycles = configuration(part, world.scenario.controllers, world.rules)
        self.history = created_history(part, world.rules, first_number)
        self.log: MarksLog[Watermark] = MarksLog(number=generation - 1)
        self.index: MarksIndex = ()
        self.log_missing = False
        self.deleted = False
        self.head = {segment.id: 0 for segment in self.history.active.segments}

    def open_epoch(self, created: Iterable[Segment]) -> None:
        """Open the new segments of the active epoch and write both down."""
        self.open_segments(created)
        self.write_epoch(self.history.active)

    def open_segments(self, created: Iterable[Segment]) -> None:
        """Open those segments that are new."""
        for segment in created:
            if segment.id not in self.store:
                self.store[segment.id] = StoredSegment(self.world.now_ms)

    def write_epoch(self, epoch: Epoch) -> None:
        """Write an epoch down."""
        ids = sorted(segment.id for segment in epoch.segments)
        self.journal.write("epochs", epoch=epoch.number, kind=epoch.kind, at_ms=self.world.now_ms, segment_ids=ids)

    def seal(self, segments: Iterable[int]) -> None:
        """Seal segments in the store, so that they refuse appends."""
        for segment_id in segments:
            if self.store[segment_id].sealed_ms is None:
                self.store[segment_id].sealed_ms = self.world.now_ms

    def lengths(self, segments: Iterable[int]) -> Lengths:
        """How long segments are."""
        return Lengths({segment_id: self.store[segment_id].length for segment_id in segments})

    def truncate(self, cut: Mapping[int, int]) -> None:
        """Drop what lies before a cut, at event boundaries; the marks stay, and `head` is the cut."""
        for segment_id in cut:
            for ancestor in self.history.ancestors(segment_id):
                self.store[ancestor.id].truncate(self.store[ancestor.id].length)
        self.head = {segment_id: self.store[segment_id].truncate(offset) for segment_id, offset in cut.items()}

    def read_history(self) -> StreamHistory:
        """The epochs and segments, as a cycle reads them. Raises `UnavailableError`."""
        self.world.require("segment_metadata")
        return self.history

    def open_log(self, number: int) -> LeaderView[Watermark]:
        """What a cycle reads of the marks segment with that number. Raises as `open_view`, and `UnavailableError`."""
        self.world.require("marks_segment")
        if self.log_missing or self.deleted:
            raise NoSuchLogError("The marks segment is missing.", remedy="Wait until it is back.")
        self.log, view = open_view(self.log, number=number)
        return view

    @property
    def readable_log(self) -> MarksLog[Watermark] | None:
        """The log as a reader gets it now; None while it cannot be read."""
        try:
            self.world.require("marks_segment")
        except UnavailableError:
            return None
        return None if self.log_missing or self.deleted else self.log

    def append_watermark(
        self,
        view: LeaderView[Watermark],
        watermark: Watermark,
        *,
        controller: str,
        cycle_ms: int,
        received_ms: Mapping[str, int],
    ) -> bool:
        """Append a watermark; False when the log has grown, since another leader was first.

        `cycle_ms` is when its cycle began, `received_ms` when the mark that it read of each writer had been stored.
        """
        self.open_log(self.log.number)
        self.log, revision = self.log.append_if(view.expected_end, watermark)
        if revision is not None:
            self.journal.write(
                "watermarks",
                seq=len(self.journal.rows.get("watermarks", ())),
                lower=watermark.lower,
                upper=watermark.upper,
                cut=dict(watermark.cut),
                writers=dict(watermark.writers),
                counted={writer: received_ms[writer] for writer in watermark.writers},
                controller=controller,
                cycle_ms=cycle_ms,
                emitted_ms=self.world.now_ms,
                revision=revision,
            )
        return revision is not None

    def write_index(self, controller: str, appended: Watermark | None = None) -> None:
        """Append a record for every entry of the log that has none; `appended` is the watermark appended just now.

        Records of other watermarks are marked as recovered: a leader stopped before it could write them.
        """
        records, first = missing(self.index, self.log), len(self.index)
        self.index += records
        for index, record in enumerate(records, first):
            self.journal.write(
                "watermark_index",
                place=index,
                time=record.time,
                offset=record.offset,
                controller=controller,
                appended_ms=self.world.now_ms,
                recovered=appended is None or record.time != appended.lower,
            )

    def advance_mark_pointer(self, view: LeaderView[Watermark]) -> None:
        """Move the mark pointer to the entry before the newest, unless another leader has moved it."""
        self.log = settle_pointer(self.log, view)

    def refuse(self, process: str, call: str, problem: str) -> None:
        """Write down that a call was refused."""
        self.journal.write("errors", at_ms=self.world.now_ms, process=process, call=call, problem=problem)

    def write_segments(self) -> None:
        """Write down all segments, at the end of the run."""
        for segment in sorted(self.history.segments.values(), key=lambda segment: segment.id):
            self.journal.write(
                "segments",
                segment_id=segment.id,
                number=segment.number,
                epoch=segment.epoch,
                low=float(segment.keys.low),
                high=float(segment.keys.high),
                keys=segment.keys.text,
                created_ms=self.store[segment.id].created_ms,
                sealed_ms=self.store[segment.id].sealed_ms,
            )


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
        if stream.world.rules.cycles == "unconditional":
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
        segments, rule = stream.history.segments, stream.cycles.note_rule
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
        marks.table, outcome = marks.table.shutdown(writer, read=read)
        return outcome.value

    def remove(self, stream: str, writer: str, mark: WriterMark) -> NoteOutcome:
        """Remove a writer if its mark is unchanged. Raises `UnavailableError`."""
        marks = self.marks(stream)
        if marks is None:
            return NoteOutcome.DATA_NOT_FOUND
        marks.table, outcome = marks.table.remove(writer, mark)
        return outcome
