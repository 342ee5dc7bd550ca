"""One stream of a run: its segments, its epochs, its marks log, and the rows of its tables.

Writers and readers know the world only through their stream. A stream that is deleted and created again is another
stream of the same name: its tables are called `name#2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from wmlab.core.journal import Journal
from wmlab.streams.model import cycle
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.index import MarksIndex
from wmlab.streams.model.log import LeaderView, MarksLog, NoSuchLogError, Watermark, open_view, settle_pointer
from wmlab.streams.model.segment import Segment
from wmlab.streams.scenario.parts import Stream
from wmlab.streams.sim.controller import Memory
from wmlab.streams.sim.store import IndexSegment, SegmentStore, UnavailableError
from wmlab.streams.sim.transactions import Transactions

if TYPE_CHECKING:
    from wmlab.streams.sim.world import World


class StreamWorld:
    """A stream as its writers, its readers and the controllers see it; `title` is what the tables call it."""

    def __init__(self, world: World, part: Stream, *, generation: int = 1, first_number: int = 0) -> None:
        self.world = world
        self.part = part
        self.name = part.name
        self.generation = generation
        self.title = part.name if generation == 1 else f"{part.name}#{generation}"
        self.scenario = world.scenario
        self.env = world.env
        self.end_ms = world.end_ms
        self.network = world.network
        # Send a message about this stream: one that stands alone, and one on a connection.
        self.send_rpc = partial(world.network.send_rpc, self.title)
        self.send = partial(world.network.send, self.title)
        self.after = world.after
        self.later = world.later
        self.journal = Journal()
        self.store = SegmentStore()
        # Pravega computes even ranges in doubles, which is what makes 49 segments fail there.
        doubles = part.cut_algorithm == "pravega"
        self.history = StreamHistory.create(
            part.segments, first_number=first_number, arithmetic="double" if doubles else "exact"
        )
        self.log: MarksLog[Watermark] = MarksLog(number=generation - 1)
        self.marks_index = IndexSegment(self.journal)
        self.log_missing = False
        self.deleted = False
        self.head = {segment.id: 0 for segment in self.history.active.segments}
        self.rules = part.rules
        self._created_ms: dict[int, int] = {}
        self._sealed_ms: dict[int, int] = {}
        self._appended = 0
        self.transactions = Transactions(self)

    @property
    def now_ms(self) -> int:
        """The simulated clock."""
        return int(self.env.now)

    def open(self) -> None:
        """Begin the stream: its records, its first epoch, its segments."""
        self.world.metadata.create(self.name)
        self.open_epoch(self.history.active.segments)

    def open_epoch(self, created: Iterable[Segment]) -> None:
        """Open the new segments of the active epoch and write both down."""
        self.open_segments(created)
        self.write_epoch(self.history.active)

    def open_segments(self, created: Iterable[Segment]) -> None:
        """Open new segments."""
        for segment in created:
            if segment.id in self.store:
                continue
            self.store.open(segment.id)
            self._created_ms[segment.id] = self.now_ms

    def write_epoch(self, epoch: Epoch) -> None:
        """Write an epoch down."""
        self.journal.write(
            "epochs",
            epoch=epoch.number,
            kind=epoch.kind,
            at_ms=self.now_ms,
            segment_ids=sorted(segment.id for segment in epoch.segments),
        )

    def seal(self, segment_id: int) -> None:
        """Seal a segment in the store."""
        if segment_id not in self._sealed_ms:
            self.store.seal(segment_id)
            self._sealed_ms[segment_id] = self.now_ms

    def truncate(self, cut: Mapping[int, int]) -> None:
        """Drop what lies before a cut, at event boundaries; the marks stay, and `head` is the cut."""
        for segment_id in cut:
            for ancestor in self.history.ancestors(segment_id):
                self.store[ancestor.id].truncate(self.store[ancestor.id].length)
        self.head = {segment_id: self.store[segment_id].truncate(offset) for segment_id, offset in cut.items()}

    def delete(self) -> None:
        """End the stream: nobody reaches its records and its bytes any more, its tables are kept."""
        self.deleted = True
        self.world.metadata.delete(self.name)
        self.world.past.append(self)

    def read_history(self) -> StreamHistory:
        """The epochs and segments, as a cycle reads them. Raises `UnavailableError`."""
        self.world.metadata.require("segment_metadata")
        return self.history

    def new_memory(self) -> Memory:
        """What a controller that meets this stream for the first time remembers of it."""
        return Memory(self.log.number)

    def open_log(self, number: int) -> LeaderView[Watermark]:
        """What a cycle reads of the marks segment with that number. Raises as `open_view`, and `UnavailableError`."""
        self.world.metadata.require("marks_segment")
        if self.log_missing or self.deleted:
            raise NoSuchLogError("The marks segment is missing.", remedy="Wait until it is back.")
        self.log, view = open_view(self.log, number=number)
        return view

    def append_mark(self, view: LeaderView[Watermark], watermark: Watermark, controller: str) -> int | None:
        """Append a watermark if the log has not grown; its revision, or None when another leader was first."""
        self.open_log(self.log.number)
        self.log, revision = self.log.append_if(view.expected_end, watermark)
        if revision is not None:
            self._write_watermark(watermark, controller, revision)
        return revision

    @property
    def index(self) -> MarksIndex:
        """The index of the marks segment."""
        return self.marks_index.content

    def open_cycle(self, number: int, controller: str) -> LeaderView[Watermark]:
        """What `open_log` reads; what the index lacks is written in passing. Raises as `open_log`."""
        view = self.open_log(number)
        self.write_index(controller)
        return view

    def write_index(self, controller: str, appended: Watermark | None = None) -> None:
        """Write what the index lacks; `appended` is the watermark that this controller has just appended."""
        emitted = None if appended is None else appended.lower
        self.marks_index.catch_up(self.log, controller, self.now_ms, emitted=emitted)

    def settle(self, view: LeaderView[Watermark]) -> None:
        """Move the mark pointer to the entry before the newest, unless another leader has moved it."""
        self.log = settle_pointer(self.log, view)

    @staticmethod
    def lost_race(decision: cycle.Decision) -> cycle.Decision:
        """The decision of a cycle whose append came too late."""
        return replace(decision, outcome="held", reason="conflict: another leader appended first")

    @property
    def readable_log(self) -> MarksLog[Watermark] | None:
        """The log as a reader gets it now; None while it cannot be read."""
        try:
            self.world.metadata.require("marks_segment")
        except UnavailableError:
            return None
        return None if self.log_missing or self.deleted else self.log

    def _write_watermark(self, watermark: Watermark, controller: str, revision: int) -> None:
        self.journal.write(
            "watermarks",
            seq=self._appended,
            lower=watermark.lower,
            upper=watermark.upper,
            cut=dict(watermark.cut),
            writers=dict(watermark.writers),
            controller=controller,
            emitted_ms=self.now_ms,
            revision=revision,
        )
        self._appended += 1

    def refuse(self, process: str, call: str, problem: str) -> None:
        """Write down that a call was refused."""
        self.journal.write("errors", at_ms=self.now_ms, process=process, call=call, problem=problem)

    def happened(self, kind: str, target: str, detail: str) -> None:
        """Write down what happened to whom, in one short phrase."""
        self.journal.write("incidents", at_ms=self.now_ms, kind=kind, target=target, detail=detail)

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
                created_ms=self._created_ms[segment.id],
                sealed_ms=self._sealed_ms.get(segment.id),
            )
