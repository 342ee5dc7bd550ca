"""One reader of a group: it reads what it owns, publishes its position, and computes its time windows.

Two designs of time windows. "implementation": a tracker in the background compares the group's position with the
marks, one position at a time; of those that come meanwhile only the newest is kept. "document": the tracker compares
what the reader owns and what nobody owns; its window goes into the shared map, whose minimum is the lower bound.

Without a network a reader has what is in the segment store at once. Else it asks for the events of its segments and for
the marks, all at the same time. It goes on with what the store had when the requests came there.

Source: PDP-33, "Client Changes"; upstream `EventStreamReaderImpl`, `ReaderGroupStateManager` and
`WatermarkReaderImpl` with its `LatestItemSequentialProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from typing import NamedTuple

from wmlab.streams.model.group import GroupState, StreamReading, StreamSegment
from wmlab.streams.model.index import start_of
from wmlab.streams.model.log import MarksLog, Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import Segment, segment_name
from wmlab.streams.model.window import LatestItem, TimeWindow, Tracker
from wmlab.streams.scenario.parts import SEGMENT_STORE, ReaderGroup
from wmlab.streams.scenario.rules import Rules, enters_on_passing, step_ms
from wmlab.streams.sim.group import GroupChange, SharedState
from wmlab.streams.sim.network import Message
from wmlab.streams.sim.stores import StoredSegment, StreamWorld
from wmlab.streams.sim.world import Answer, Incident, Node, Reply, Steps, World


class Timers:
    """One reader's timers; with the fixed timer everything but reading is due at once, every `publish_every_ms`.

    It reads every `step_ms`, and may look from `refresh_ms` on.
    """

    def __init__(self, part: ReaderGroup, rules: Rules, now_ms: int) -> None:
        self._part = part
        self.step_ms = step_ms(part, rules)
        self._fixed = rules.publish_timer == "fixed"
        self._check_every_ms = part.publish_every_ms if self._fixed else part.group_refresh_ms
        self.refresh_ms = now_ms + (part.publish_every_ms if self._fixed else 0)
        self._acquire_ms = self.refresh_ms
        self._publish_ms = now_ms + part.publish_every_ms

    def check_due(self, now_ms: int, *, free: bool) -> bool:
        """Whether to look at the shared state now; `free`: the reader knows of segments that nobody owns."""
        due = now_ms >= self.refresh_ms or (free and now_ms >= self._acquire_ms)
        if due:
            self.refresh_ms = now_ms + self._check_every_ms
            self._acquire_ms = now_ms + self._part.publish_every_ms
        return due

    def publish_due(self, now_ms: int, readers: int, *, acquired: bool) -> bool:
        """Whether to publish at a check: after an acquisition, or (readers + 1) periods after the last time."""
        due = self._fixed or acquired or now_ms >= self._publish_ms
        if due:
            self._publish_ms = now_ms + (readers + 1) * self._part.publish_every_ms
        return due


Marks = MarksLog[Watermark] | None
"""The marks of a stream as a reader knows them; None: it cannot read them."""


class Follower:
    """The tracker of one stream, and the positions that it works on, each with the segments whose keys are known.

    `marks` gives the marks that the reader knows by now.
    """

    def __init__(self, group: SharedState, marks: Callable[[], Marks], tracker: Tracker) -> None:
        self._group = group
        self._marks = marks
        self.tracker = tracker
        self._queue: LatestItem[tuple[Position, Mapping[int, Segment]]] = LatestItem()

    def offer(self, position: Position, segments: Mapping[int, Segment]) -> None:
        """A newer position: worked on at once, or when the one before is done."""
        idle = not self._queue.working_on
        self._queue = self._queue.offer((position, segments))
        if idle:
            self._begin()

    def _begin(self) -> None:
        """Compare the position that is worked on with the marks known now; what comes of that is known later."""
        tracker = _advance(self.tracker, *self._queue.working_on[0], self._marks())
        if self._group.part.tracker_ms:
            self._group.world.after(self._group.part.tracker_ms, self._finish, tracker)
        else:
            self._finish(tracker)

    def _finish(self, tracker: Tracker) -> None:
        self.tracker, self._queue = tracker, self._queue.done()
        if self._queue.working_on:
            self._begin()


def _advance(tracker: Tracker, position: Position, segments: Mapping[int, Segment], log: Marks) -> Tracker:
    """The tracker after a position: unmoved while the marks cannot be read, past what was truncated."""
    return tracker if log is None else tracker.skip_truncated(log).advance(position, log, segments)


class ReaderWindows:
    """The windows of a reader that begins now, by stream in `last_seen`; `state` is the shared state it has seen.

    `marks` gives the marks of a stream that it knows by now.
    """

    def __init__(self, group: SharedState, reader: str, state: GroupState, marks: Callable[[str], Marks]) -> None:
        self._group = group
        self._marks = marks
        self._part = group.part
        self._reader = reader
        self._marks_offsets = {stream: reading.marks_offset for stream, reading in state.streams.items()}
        self.last_seen = dict.fromkeys(group.streams, TimeWindow(None, None))
        self._written: dict[str, TimeWindow] = {}
        self._passed = {stream: self._tracker(stream) for stream in group.streams}
        self._compared: dict[str, Set[int]] = {}
        self._followers = {
            stream: Follower(group, partial(marks, stream), self._passed[stream]) for stream in group.streams
        }

    def pass_marks(self, stream: str, reading: StreamReading, reached: Mapping[StreamSegment, int]) -> TimeWindow:
        """The document's step: the time that the reader has passed in a stream, and what is ahead.

        `reached` are the offsets that it has come to in its own segments. A segment that it did not count before may be
        far behind: then it compares from the first watermark on.
        """
        offsets = reading.share_of(self._reader).offsets
        share = Position({segment: reached.get((stream, segment), offsets[segment]) for segment in offsets})
        counted = share.offsets.keys() - reading.finished.keys()
        if not counted <= self._compared.get(stream, frozenset()):
            self._passed[stream] = self._tracker(stream)
        self._compared[stream] = counted
        known = self._known(stream, reading)
        self._passed[stream] = _advance(self._passed[stream], share, known, self._marks(stream))
        return self._passed[stream].window

    def marks_offsets(self, state: GroupState) -> Mapping[str, int]:
        """Where the reader is in the marks segments of the streams of which it owns a segment."""
        return {
            stream: start_of(self._group.streams[stream].log, self._passed[stream].passed)
            for stream, reading in state.streams.items()
            if reading.owned(self._reader)
        }

    def look(self, state: GroupState, *, due: bool) -> None:
        """Bring the windows up to date, and write them down when a check was `due` or they have changed."""
        for stream, reading in state.streams.items():
            if self._group.streams[stream].deleted:
                continue
            if self._part.time_windows:
                self.last_seen[stream] = self._bounds(stream, reading, due=due)
            window = self.last_seen[stream]
            if due or self._written.get(stream) != window:
                self._written[stream] = window
                self._group.write(
                    stream,
                    "windows",
                    reader=self._reader,
                    lower=window.lower,
                    upper=window.upper,
                    lower_seq=window.lower_seq,
                    upper_seq=window.upper_seq,
                )

    def _bounds(self, stream: str, reading: StreamReading, *, due: bool) -> TimeWindow:
        if self._group.world.rules.read_side == "document":
            return reading.window
        if due:
            self._followers[stream].offer(reading.position, self._known(stream, reading))
        return self._followers[stream].tracker.window

    def _known(self, stream: str, reading: StreamReading) -> Mapping[int, Segment]:
        """The segments whose key ranges the group knows."""
        segments = self._group.streams[stream].history.segments
        if not reading.rangeless:
            return segments
        return {segment: known for segment, known in segments.items() if segment not in reading.rangeless}

    def _tracker(self, stream: str) -> Tracker:
        offset = self._marks_offsets[stream]
        return Tracker() if offset is None else Tracker.resume(self._group.streams[stream].log, offset)


class _Progress(NamedTuple):
    """How far a reader has read in a segment: how many events, and the offset after them."""

    events: int
    offset: int


class _Stock(NamedTuple):
    """What a read found in a segment: how many events there were, and whether no more will come."""

    events: int
    sealed: bool


class ReaderProcess(Node):
    """A reader object: what it owns and has read, its copy of the shared state, and its windows."""

    def __init__(self, group: RunningGroup, name: str) -> None:
        super().__init__(group.world, name)
        self.group = group
        self.is_running = True
        self.paused_until: float = group.world.now_ms
        self._part = group.part
        # Then it reads its segments to their end only when it may take what follows: until then it stays in the map.
        self._enters_on_passing = enters_on_passing(group.part, group.world.rules)
        # Whether reading takes time and messages.
        self._is_distant = group.part.reads_over_network(group.world.network.part)
        self._known_marks: dict[str, Marks] = {}
        self._known_ends: set[StreamSegment] = set()
        self._seen = group.state
        self._generation = self._seen.generation
        self._timers = Timers(group.part, group.world.rules, group.world.now_ms)
        self._allowance = 0.0
        self._progress: dict[StreamSegment, _Progress] = {}
        self._leaving: set[StreamSegment] = set()
        self.windows = ReaderWindows(group, name, self._seen, self._marks)

    @property
    def offsets(self) -> dict[StreamSegment, int]:
        """The offset that it has reached in each segment it owns."""
        return {segment: progress.offset for segment, progress in self._progress.items()}

    def crash(self) -> None:
        """End at once, without a word to anybody."""
        super().crash()
        self.is_running = False

    def reading(self, *, join: bool) -> Steps[None]:
        """Read until stopped or taken out of the group: a poll at every step of the timers."""
        step, begun = self._timers.step_ms, self.world.now_ms
        if join:
            yield from self._change("join", lambda state: state.add_reader(self.name))
        is_member = True
        while is_member:
            yield self.world.env.timeout(step - (self.world.now_ms - begun) % step)
            if all(stream_world.deleted for stream_world in self.group.streams.values()):
                break
            # Everything that it needs is in the segment store.
            cut_off = self.world.network.is_separated(self.name, SEGMENT_STORE)
            if self.world.now_ms >= self.paused_until and not cut_off:
                is_member = yield from self._poll()
        self.is_running = False

    def give_back(self, segment: StreamSegment) -> Steps[None]:
        """Release a segment where the reader stands in it, if it is owned."""
        if (progress := self._progress.pop(segment, None)) is not None:
            self._leaving.add(segment)
            yield from self._change("release", lambda state: state.release(self.name, segment, progress.offset))
            self._leaving.discard(segment)

    def _poll(self) -> Steps[bool]:
        """Read what is there and do what is due; False when somebody has taken the reader out of the group."""
        if self._part.rate_per_s is not None:
            # What was not used lapses, but for the fraction of an event.
            self._allowance = self._allowance % 1 + self._part.rate_per_s * self._timers.step_ms / 1_000
        due = self._timers.check_due(self.world.now_ms, free=self._seen.has_unassigned)
        if due:
            self._learn((yield from self.group.fetch(self)))
            if self.name not in self._seen.readers:
                return False
        yield from self._report()
        more = True
        while more:
            acquired = due and (yield from self._acquire())
            yield from self._read(marks=due or self._enters_on_passing)
            readers = len(self._seen.readers)
            if due and self._timers.publish_due(self.world.now_ms, readers, acquired=acquired):
                yield from self._publish()
            elif self._enters_on_passing:
                yield from self._enter_times()
            more = (due or not self._enters_on_passing) and (yield from self._complete())
        if due and not self._is_bound():
            segment = self.group.balance.to_release(self._seen, self.name)
            if segment is not None:
                yield from self.give_back(segment)
        self.windows.look(self._seen, due=due)
        return True

    def _change(self, operation: str, change: GroupChange) -> Steps[None]:
        self._learn((yield from self.group.update(self._seen, self, operation, change)))

    def _learn(self, state: GroupState) -> None:
        """Take over a newer state: start again after a reset, read what is owned and nothing else."""
        self._seen = state
        if state.generation != self._generation:
            self._generation = state.generation
            self._progress = {}
            self.windows = ReaderWindows(self.group, self.name, state, self._marks)
            incident = Incident("start over", "reader", self.name, f"{self.name} starts again")
            self.world.record_incident(incident, *self.group.journals)
        owned = tuple(segment for segment in state.owned(self.name) if segment not in self._leaving)
        if tuple(self._progress) != owned:
            self._progress = {segment: self._progress.get(segment) or self._begin_in(segment) for segment in owned}

    def _begin_in(self, segment: StreamSegment) -> _Progress:
        offset = self._seen.streams[segment[0]].resume[segment[1]]
        return _Progress(self._stored(segment).events_at(offset), offset)

    def _stored(self, segment: StreamSegment) -> StoredSegment:
        return self.group.streams[segment[0]].store[segment[1]]

    def _is_bound(self) -> bool:
        """Whether it has reported for a checkpoint that others have yet to report for: then segments stay put."""
        pending = self._seen.pending
        return pending is not None and self.name not in pending.waiting

    def _acquire(self) -> Steps[bool]:
        """Take free segments; whether there were any."""
        if self._is_bound() or not self._seen.has_unassigned:
            return False
        before = len(self._progress)
        yield from self._change("acquire", lambda state: self.group.balance.acquire(state, self.name))
        return len(self._progress) > before

    def _marks(self, stream: str) -> Marks:
        """The marks of a stream that the reader knows: those that are there, or at a distance those it has read."""
        return self._known_marks.get(stream) if self._is_distant else self.group.streams[stream].readable_log

    def _fetch(self, segments: list[StreamSegment], *, marks: bool) -> Steps[dict[StreamSegment, _Stock]]:
        """Ask the store what there is in these segments, and for the marks of all streams; wait for all answers."""
        delay_ms = self._part.read_latency_ms
        of_marks = [
            (stream, self.ask(*self._marks_request(stream), delay_ms=delay_ms))
            for stream, stream_world in self.group.streams.items()
            if marks and self._part.time_windows and not stream_world.deleted
        ]
        of_events = [(segment, self.ask(*self._events_request(segment), delay_ms=delay_ms)) for segment in segments]
        for stream, answer in of_marks:
            self._known_marks[stream] = yield from answer
        stocks = {}
        for segment, answer in of_events:
            stocks[segment] = yield from answer
        return stocks

    def _marks_request(self, stream: str) -> tuple[Message, Callable[[Answer], None]]:
        stream_world = self.group.streams[stream]

        def serve(answer: Answer) -> None:
            log = stream_world.readable_log
            answer(Reply("watermarks", "cannot be read" if log is None else f"up to {log.end}", log))

        return Message(stream_world.title, self.name, SEGMENT_STORE, "read watermarks"), serve

    def _events_request(self, segment: StreamSegment) -> tuple[Message, Callable[[Answer], None]]:
        stored, offset = self._stored(segment), self._progress[segment].offset
        name = segment_name(segment[1])

        def serve(answer: Answer) -> None:
            stock = _Stock(stored.events, sealed=stored.sealed_ms is not None)
            answer(Reply("events", f"{name} up to {stored.length}", stock))

        title = self.group.streams[segment[0]].title
        return Message(title, self.name, SEGMENT_STORE, "read events", f"{name} from {offset}"), serve

    def _read(self, *, marks: bool) -> Steps[None]:
        """Read every owned segment as far as there are events and the allowance goes, and perhaps the marks."""
        stocks: dict[StreamSegment, _Stock] = {}
        if self._is_distant:
            stocks = yield from self._fetch(self._readable(), marks=marks)
            self._known_ends |= {segment for segment, stock in stocks.items() if stock.sealed}
        waiting = {}
        for segment in self._readable():
            if self._is_distant and segment not in stocks:
                continue
            stored = self._stored(segment)
            if self._progress[segment].events < stored.truncated_events:
                # It goes on where a truncated segment begins now.
                self._progress[segment] = _Progress(stored.truncated_events, stored.end_of(stored.truncated_events))
            count = stocks[segment].events if self._is_distant else stored.events
            waiting[segment] = max(0, count - self._progress[segment].events)
        if self._part.rate_per_s is not None:
            waiting = _shared_out(waiting, int(self._allowance))
            self._allowance -= sum(waiting.values())
        for segment, count in waiting.items():
            if count > 0:
                before = self._progress[segment]
                events = before.events + count
                self._progress[segment] = _Progress(events, self._stored(segment).end_of(events))
                self._write(segment, before.offset, self._progress[segment].offset)

    def _readable(self) -> list[StreamSegment]:
        """The segments that it owns of the streams that are there."""
        return [segment for segment in self._progress if not self.group.streams[segment[0]].deleted]

    def _publish(self) -> Steps[None]:
        """Publish the position; in the document's design also the time passed in each stream."""
        offsets = self.offsets
        yield from self._change("publish", lambda state: state.publish(self.name, offsets))
        if self.group.by_time:
            yield from self._enter_times()

    def _enter_times(self) -> Steps[None]:
        """Put the time passed in each stream into the map of the group, if it is another one."""
        offsets = self.offsets
        for stream in list(self._seen.streams):

            def note(state: GroupState, stream: str = stream) -> bool:
                # By the state that is changed: a segment that has become free in it counts as everybody's own.
                reading = state.streams[stream]
                if not reading.owned(self.name):
                    return False
                return state.note_time(self.name, stream, self.windows.pass_marks(stream, reading, offsets))

            yield from self._change("time", note)

    def _complete(self) -> Steps[bool]:
        """Record the segments that are read to their end; whether there were any."""
        finished = [] if self._is_bound() else list(filter(self._is_at_end, self._readable()))
        for segment in finished:
            history = self.group.streams[segment[0]].history
            following = {
                successor.id: frozenset(before.id for before in history.predecessors(successor.id))
                for successor in history.successors(segment[1])
            }

            def complete(
                state: GroupState,
                segment: StreamSegment = segment,
                following: Mapping[int, frozenset[int]] = following,
            ) -> bool:
                return state.complete(self.name, segment, following, end=self._stored(segment).length)

            yield from self._change("complete", complete)
        return bool(finished)

    def _is_at_end(self, segment: StreamSegment) -> bool:
        stored = self._stored(segment)
        is_sealed = segment in self._known_ends if self._is_distant else stored.sealed_ms is not None
        return is_sealed and self._progress[segment].offset == stored.length

    def _report(self) -> Steps[None]:
        """Report for a checkpoint that waits for it; in the document's design with its offset in the marks segment."""
        pending = self._seen.pending
        if pending is None or self.name not in pending.waiting:
            return
        offsets = self.offsets
        marks = self.windows.marks_offsets(self._seen) if self.group.by_time else None
        yield from self._change("report", lambda state: state.report(self.name, offsets, marks))
        self._timers.refresh_ms = self.world.now_ms

    def _write(self, segment: StreamSegment, start: int, end: int) -> None:
        """Write down what was read, first what the group had read before."""
        stream, number = segment
        known = self.group.read_up_to.get(segment, 0)
        middle = min(max(known, start), end)
        lower = self.windows.last_seen[stream].lower
        for begin, stop, again in ((start, middle, True), (middle, end, False)):
            if begin < stop:
                self.group.write(
                    stream,
                    "reads",
                    reader=self.name,
                    segment_id=number,
                    from_offset=begin,
                    to_offset=stop,
                    again=again,
                    lower=lower,
                )
        self.group.read_up_to[segment] = max(known, end)


class RunningGroup(SharedState):
    """A group with its readers."""

    def __init__(
        self, world: World, part: ReaderGroup, streams: Iterable[StreamWorld], groups: Mapping[str, SharedState]
    ) -> None:
        super().__init__(world, part, streams, groups)
        self.readers: dict[str, ReaderProcess] = {}

    def start(self) -> None:
        """Bring the group to life: its starting position, then its readers."""
        super().start()
        for name in self.part.reader_names():
            self.add(name)

    def add(self, name: str, *, join: bool = False) -> None:
        """Start a reader; with `join` it still has to become a member."""
        reader = self.readers[name] = ReaderProcess(self, name)
        reader.do(reader.reading(join=join))


def _shared_out(waiting: dict[StreamSegment, int], allowance: int) -> dict[StreamSegment, int]:
    """As many events of each segment as wait there, and together not more than the allowance, evenly."""
    counts = dict.fromkeys(waiting, 0)
    for done, segment in enumerate(sorted(waiting, key=lambda segment: (waiting[segment], segment))):
        counts[segment] = min(waiting[segment], allowance // (len(waiting) - done))
        allowance -= counts[segment]
    return counts
