"""One reader of a group: it reads what it owns, publishes its position, and computes its time windows.

Two designs of time windows. "implementation": a tracker in the background compares the group's position with the
marks, one position at a time; of those that come meanwhile only the newest is kept. "document": the tracker compares
what the reader owns and what nobody owns; its window goes into the shared map, whose minimum is the lower bound.

Source: PDP-33, "Client Changes"; upstream `EventStreamReaderImpl`, `ReaderGroupStateManager` and
`WatermarkReaderImpl` with its `LatestItemSequentialProcessor`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import simpy

from wmlab.streams.model.group import GroupState, Membership, Place
from wmlab.streams.model.index import start_of
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import LatestItem, TimeWindow, Tracker
from wmlab.streams.scenario.parts import SEGMENT_STORE, ReaderGroup

if TYPE_CHECKING:
    from wmlab.streams.sim.group import Change, Group, State
    from wmlab.streams.sim.store import StoredSegment
    from wmlab.streams.sim.stream import StreamWorld


class Timers:
    """One reader's timers; with the fixed timer everything is due at every step. It may look from `refresh_ms` on."""

    def __init__(self, part: ReaderGroup, now_ms: int) -> None:
        self._part = part
        self._fixed = part.publish_timer == "fixed"
        self.refresh_ms = now_ms
        self._acquire_ms = now_ms
        self._publish_ms = now_ms + part.publish_every_ms

    @property
    def step_ms(self) -> int:
        """How often a reader reads."""
        return self._part.publish_every_ms if self._fixed else self._part.read_every_ms

    def check_due(self, now_ms: int, *, free: bool) -> bool:
        """Whether to look at the shared state now; `free`: the reader knows of segments that nobody owns."""
        due = self._fixed or now_ms >= self.refresh_ms or (free and now_ms >= self._acquire_ms)
        if due:
            self.refresh_ms = now_ms + self._part.group_refresh_ms
            self._acquire_ms = now_ms + self._part.publish_every_ms
        return due

    def publish_due(self, now_ms: int, readers: int, *, acquired: bool) -> bool:
        """Whether to publish at a check: after an acquisition, or (readers + 1) periods after the last time."""
        due = self._fixed or acquired or now_ms >= self._publish_ms
        if due:
            self._publish_ms = now_ms + (readers + 1) * self._part.publish_every_ms
        return due


class Follower:
    """The tracker of one stream, and the positions that it works on, each with the segments whose keys are known."""

    def __init__(self, group: Group, feed: StreamWorld, tracker: Tracker) -> None:
        self._group = group
        self._feed = feed
        self.tracker = tracker
        self._queue: LatestItem[tuple[ReaderPosition, Mapping[int, Segment]]] = LatestItem()

    def offer(self, position: ReaderPosition, segments: Mapping[int, Segment]) -> None:
        """A newer position: worked on at once, or next."""
        idle = not self._queue.working_on
        self._queue = self._queue.offer((position, segments))
        if idle:
            self._work()

    def _work(self, finished: Tracker | None = None) -> None:
        """Work on what is offered; `finished` is the tracker after a position that has taken its time."""
        part = self._group.part
        while True:
            if finished is not None:
                self.tracker, self._queue = finished, self._queue.done()
            if not self._queue.working_on:
                return
            finished = advance(self.tracker, *self._queue.working_on[0], self._feed)
            busy_ms = part.tracker_ms + ceil(part.mark_read_ms * (finished.fetched - self.tracker.fetched))
            if busy_ms:
                self._group.world.after(busy_ms, self._work, finished)
                return


def advance(tracker: Tracker, position: ReaderPosition, segments: Mapping[int, Segment], feed: StreamWorld) -> Tracker:
    """The tracker after a position: unmoved while the marks cannot be read, past what was truncated."""
    log = feed.readable_log
    return tracker if log is None else tracker.skip_truncated(log).advance(position, log, segments)


class Windows:
    """The windows of a reader that begins now, by stream in `shown`; `value` is the shared state it has seen."""

    def __init__(self, group: Group, reader: str, value: Membership) -> None:
        self._group = group
        self._part = group.part
        self._reader = reader
        self._origin = value.origin
        self.shown = dict.fromkeys(group.feeds, TimeWindow(None, None))
        self._written: dict[str, TimeWindow] = {}
        self._passed = {stream: self._tracker(stream) for stream in group.feeds}
        self._compared: dict[str, frozenset[int]] = {}
        self._followers = {stream: Follower(group, feed, self._passed[stream]) for stream, feed in group.feeds.items()}

    def pass_marks(self, value: Membership) -> Mapping[str, TimeWindow]:
        """The document's step: the time passed in each stream of which the reader owns a segment, and what is ahead.

        A segment that it did not count before may be far behind: then it compares anew, and the time may go back.
        """
        times = {}
        for stream, state in value.streams.items():
            if not state.owned(self._reader):
                continue
            share = state.share_of(self._reader)
            counted = frozenset(share.offsets)
            if not counted <= self._compared.get(stream, frozenset()):
                self._passed[stream] = self._tracker(stream)
            self._compared[stream] = counted
            known = self._known(stream, state)
            self._passed[stream] = advance(self._passed[stream], share, known, self._group.feeds[stream])
            times[stream] = self._passed[stream].window
        return times

    def marks_offsets(self, value: Membership) -> Mapping[str, int]:
        """Where the reader is in the marks segments of the streams of which it owns a segment."""
        return {
            stream: start_of(self._group.feeds[stream].log, self._passed[stream].passed)
            for stream, state in value.streams.items()
            if state.owned(self._reader)
        }

    def look(self, value: Membership, places: Mapping[Place, int], *, due: bool) -> None:
        """Bring the windows up to date, and write them down when a check was `due` or they have changed."""
        for stream, state in value.streams.items():
            if self._group.feeds[stream].deleted:
                continue
            if self._part.time_windows:
                self.shown[stream] = self._bounds(stream, state, places, due=due)
            window = self.shown[stream]
            if due or self._written.get(stream) != window:
                self._written[stream] = window
                self._group.write(stream, "windows", reader=self._reader, lower=window.lower, upper=window.upper)

    def _bounds(self, stream: str, state: GroupState, places: Mapping[Place, int], *, due: bool) -> TimeWindow:
        if self._part.read_side == "document":
            return state.window
        position = state.position
        if self._part.own_position:
            own = {segment: places[stream, segment] for segment in position.offsets if (stream, segment) in places}
            position = ReaderPosition({**position.offsets, **own})
        if due or self._part.own_position:
            self._followers[stream].offer(position, self._known(stream, state))
        return self._followers[stream].tracker.window

    def _known(self, stream: str, state: GroupState) -> Mapping[int, Segment]:
        """The segments whose key ranges the group knows."""
        segments = self._group.feeds[stream].history.segments
        if not state.rangeless:
            return segments
        return {segment: known for segment, known in segments.items() if segment not in state.rangeless}

    def _tracker(self, stream: str) -> Tracker:
        offset = None if self._origin is None else self._origin[stream].marks_offset
        return Tracker() if offset is None else Tracker.resume(self._group.feeds[stream].log, offset)


Steps = Generator[simpy.Event]
Verdict = Generator[simpy.Event, None, bool]


class _Progress(NamedTuple):
    """How far a reader has read in a segment: the events before that place, and its offset."""

    events: int
    offset: int


class Reader:
    """A reader object: what it owns and has read, its copy of the shared state, and its windows."""

    def __init__(self, group: Group, name: str, *, join: bool) -> None:
        self.group = group
        self.name = name
        self.paused_until: float = group.world.now_ms
        self._world = group.world
        self._part = group.part
        self._seen = group.shared
        self._generation = self._seen.value.generation
        self._timers = Timers(group.part, group.world.now_ms)
        self._allowance = 0.0
        self._progress: dict[Place, _Progress] = {}
        self._leaving: set[Place] = set()
        self.windows = Windows(group, name, self._seen.value)
        self._process = group.world.env.process(self._running(join=join))

    @property
    def alive(self) -> bool:
        """Whether the reader is running."""
        return self._process.is_alive

    @property
    def places(self) -> dict[Place, int]:
        """The offset that it has reached in each segment it owns."""
        return {place: progress.offset for place, progress in self._progress.items()}

    def stop(self) -> None:
        """End at once, without a word to anybody."""
        if isinstance(self._process.target, simpy.events.Initialize):
            # A process that is about to start cannot be interrupted yet.
            self._world.after(0, self.stop)
        elif self.alive:
            self._process.interrupt()

    def _running(self, *, join: bool) -> Steps:
        """Read until stopped or taken out of the group: a turn at every step of the timers."""
        step, begun = self._timers.step_ms, self._world.now_ms
        try:
            if join:
                yield from self._change("join", lambda value: value.add_reader(self.name))
            while True:
                yield self._world.env.timeout(step - (self._world.now_ms - begun) % step)
                if all(feed.deleted for feed in self.group.feeds.values()):
                    return
                # Everything that it needs is in the segment store.
                cut_off = self._world.network.is_separated(self.name, SEGMENT_STORE)
                if self._world.now_ms >= self.paused_until and not cut_off and not (yield from self._turn()):
                    return
        except simpy.Interrupt:
            return

    def give_back(self, place: Place) -> Steps:
        """Release a segment where it stands, if it is owned."""
        progress = self._progress.pop(place, None)
        if progress is None:
            return

        def released(value: Membership) -> Membership | None:
            owner = value.streams[place[0]].owners.get(place[1])
            return value.release(self.name, place, progress.offset) if owner == self.name else None

        self._leaving.add(place)
        yield from self._change("release", released)
        self._leaving.discard(place)

    def _turn(self) -> Verdict:
        """Read what is there and do what is due; False when somebody has taken the reader out of the group."""
        if self._part.rate_per_s is not None:
            # What was not used lapses, but for the fraction of an event.
            self._allowance = self._allowance % 1 + self._part.rate_per_s * self._timers.step_ms / 1_000
        due = self._timers.check_due(self._world.now_ms, free=self._seen.value.has_unassigned)
        if due:
            self._learn((yield from self.group.fetch(self.name)))
            if self.name not in self._seen.value.readers:
                return False
        yield from self._report()
        more = True
        while more:
            acquired = due and (yield from self._acquire())
            self._read()
            readers = len(self._seen.value.readers)
            if due and self._timers.publish_due(self._world.now_ms, readers, acquired=acquired):
                yield from self._publish()
            more = yield from self._complete()
        if due and not self._is_bound():
            place = self.group.balance.to_release(self._seen.value, self.name)
            if place is not None:
                yield from self.give_back(place)
        self.windows.look(self._seen.value, self.places, due=due)
        return True

    def _change(self, operation: str, change: Change) -> Steps:
        self._learn((yield from self.group.update(self._seen, self.name, operation, change)))

    def _learn(self, state: State) -> None:
        """Take over a newer state: begin anew after a reset, hold what is owned and nothing else."""
        self._seen = state
        value = state.value
        if value.generation != self._generation:
            self._generation = value.generation
            self._progress = {}
            self.windows = Windows(self.group, self.name, value)
            self.group.happened("anew", "reader", self.name, f"{self.name} begins anew")
        owned = tuple(place for place in value.owned(self.name) if place not in self._leaving)
        if tuple(self._progress) != owned:
            self._progress = {place: self._progress.get(place) or self._resumed(value, place) for place in owned}

    def _resumed(self, value: Membership, place: Place) -> _Progress:
        offset = value.streams[place[0]].resume[place[1]]
        return _Progress(self._stored(place).events_at(offset), offset)

    def _stored(self, place: Place) -> StoredSegment:
        return self.group.feeds[place[0]].store[place[1]]

    def _is_bound(self) -> bool:
        """Whether it has reported for a checkpoint that others have yet to report for: then segments stay put."""
        pending = self._seen.value.pending
        return pending is not None and self.name not in pending.waiting

    def _acquire(self) -> Verdict:
        """Take free segments; whether there were any."""
        if self._is_bound() or not self._seen.value.has_unassigned:
            return False
        before = len(self._progress)
        yield from self._change("acquire", lambda value: self.group.balance.acquired(value, self.name))
        return len(self._progress) > before

    def _read(self) -> None:
        """Read every owned segment as far as there are events and the allowance goes."""
        waiting = {}
        for place in self._readable():
            stored = self._stored(place)
            if self._progress[place].events < stored.truncated_events:
                # It goes on where a truncated segment begins now.
                self._progress[place] = _Progress(stored.truncated_events, stored.end_of(stored.truncated_events))
            waiting[place] = self._limit(place) - self._progress[place].events
        if self._part.rate_per_s is not None:
            waiting = _shared_out(waiting, int(self._allowance))
            self._allowance -= sum(waiting.values())
        for place, count in waiting.items():
            if count > 0:
                before = self._progress[place]
                events = before.events + count
                self._progress[place] = _Progress(events, self._stored(place).end_of(events))
                self._write(place, before.offset, self._progress[place].offset)

    def _readable(self) -> list[Place]:
        """The segments that it owns of the streams that are there."""
        return [place for place in self._progress if not self.group.feeds[place[0]].deleted]

    def _limit(self, place: Place) -> int:
        """How many events of a segment there are for the group."""
        stored, end = self._stored(place), self._end(place)
        return stored.events if end is None else stored.events_at(end)

    def _end(self, place: Place) -> int | None:
        """Where the group is to stop in a segment."""
        return self._seen.value.streams[place[0]].ends.get(place[1])

    def _publish(self) -> Steps:
        """Publish the position; in the document's design also the time passed in each stream, if it is another one."""
        offsets = self.places
        yield from self._change("publish", lambda value: value.publish(self.name, offsets))
        if self.group.by_time:
            for stream, window in self.windows.pass_marks(self._seen.value).items():

                def noted(value: Membership, stream: str = stream, window: TimeWindow = window) -> Membership | None:
                    times = value.streams[stream].times
                    if self.name not in times or times[self.name] == window:
                        return None
                    return value.note_time(self.name, stream, window)

                yield from self._change("time", noted)

    def _complete(self) -> Verdict:
        """Record the segments that are read to their end; whether there were any."""
        done = [] if self._is_bound() else list(filter(self._is_at_end, self._readable()))
        for stream, segment in done:
            history = self.group.feeds[stream].history
            following = {
                successor.id: frozenset(before.id for before in history.predecessors(successor.id))
                for successor in history.successors(segment)
            }

            def completed(value: Membership, place: Place = (stream, segment)) -> Membership | None:
                owner = value.streams[place[0]].owners.get(place[1])
                return value.complete(self.name, place, following) if owner == self.name else None  # noqa: B023

            yield from self._change("complete", completed)
        return bool(done)

    def _is_at_end(self, place: Place) -> bool:
        stored, progress, end = self._stored(place), self._progress[place], self._end(place)
        if end is not None and stored.length >= end:
            return progress.events == self._limit(place)
        return stored.sealed_ms is not None and progress.offset == stored.length

    def _report(self) -> Steps:
        """Report for a checkpoint that waits for it; in the document's design with the place in the marks."""
        pending = self._seen.value.pending
        if pending is None or self.name not in pending.waiting:
            return
        offsets = self.places
        marks = self.windows.marks_offsets(self._seen.value) if self.group.by_time else None

        def reported(value: Membership) -> Membership | None:
            expected = value.pending is not None and self.name in value.pending.waiting
            return value.report(self.name, offsets, marks) if expected else None

        yield from self._change("report", reported)
        self._timers.refresh_ms = self._world.now_ms

    def _write(self, place: Place, start: int, end: int) -> None:
        """Write down what was read, first what the group had read before."""
        known = self.group.read_up_to.get(place, 0)
        middle = min(max(known, start), end)
        lower = self.windows.shown[place[0]].lower
        for begin, stop, again in ((start, middle, True), (middle, end, False)):
            if begin < stop:
                span = {"segment_id": place[1], "from_offset": begin, "to_offset": stop}
                self.group.write(place[0], "reads", reader=self.name, **span, again=again, lower=lower)
        self.group.read_up_to[place] = max(known, end)


def _shared_out(waiting: dict[Place, int], allowance: int) -> dict[Place, int]:
    """As many events of each segment as wait there, and together not more than the allowance, evenly."""
    counts = dict.fromkeys(waiting, 0)
    for done, place in enumerate(sorted(waiting, key=lambda place: (waiting[place], place))):
        counts[place] = min(waiting[place], allowance // (len(waiting) - done))
        allowance -= counts[place]
    return counts
