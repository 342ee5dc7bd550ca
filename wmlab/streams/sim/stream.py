"""One stream of a run: its segments, its epochs, its log of watermarks, and the rows of its tables.

A stream that is deleted and created again is another
stream of the same name: its tables are called `name#2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from wmlab.core.simulation import Journal
from wmlab.streams.model.coordination import bucket_of, qualified_name
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.index import MarksIndex, missing
from wmlab.streams.model.log import LeaderView, MarksLog, NoSuchLogError, Watermark, open_view, settle_pointer
from wmlab.streams.model.segment import Segment
from wmlab.streams.scenario.parts import Stream, created_history
from wmlab.streams.sim.store import StoredSegment, UnavailableError
from wmlab.streams.sim.world import World


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
        self.history = created_history(part, first_number)
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
