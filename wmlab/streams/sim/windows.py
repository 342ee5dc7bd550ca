"""The time windows of one reader object, a stream each: how they come about, and what is written down.

Two designs. "implementation": the trackers compare the group's position with the marks. "document": they compare what
the reader owns and what nobody owns; the time passed goes into the shared map, and the lower bound is its minimum.

Source: PDP-33, "Client Changes"; upstream `WatermarkReaderImpl` and `EventStreamReaderImpl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wmlab.core.errors import ModelError
from wmlab.streams.model.group import GroupState
from wmlab.streams.model.index import start_of
from wmlab.streams.model.membership import Membership, Place
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import TimeWindow, Tracker
from wmlab.streams.sim.follower import Follower, advance

if TYPE_CHECKING:
    from wmlab.streams.sim.group import Group

_UNKNOWN = TimeWindow(None, None)


class Windows:
    """The windows of a reader that begins now; `value` is the shared state it has seen."""

    def __init__(self, group: Group, reader: str, value: Membership) -> None:
        self._group = group
        self._part = group.part
        self._reader = reader
        self._origin = value.origin
        self._shown = dict.fromkeys(group.feeds, _UNKNOWN)
        self._written: dict[str, TimeWindow] = {}
        self._passed = {stream: self._tracker(stream) for stream in group.feeds}
        self._compared: dict[str, frozenset[int]] = {}
        self._followers = {
            stream: Follower(group.world, group.part, feed, self._passed[stream])
            for stream, feed in group.feeds.items()
        }

    def current(self, stream: str) -> TimeWindow:
        """The window of one stream, as the application asks for it.

        Raises `ModelError` for a stream that the group does not read.
        """
        if stream not in self._shown:
            raise ModelError(
                f"Group {self._part.name} does not read a stream {stream!r}.",
                remedy=f"Ask for one of {', '.join(self._shown)}.",
            )
        return self._shown[stream]

    def pass_marks(self, value: Membership) -> Mapping[str, int | None]:
        """The document's step: the time passed in each stream of which the reader owns a segment.

        A segment that it did not count before may be far behind: then it compares anew, and the time may go back.
        """
        times = {}
        for stream, state in value.streams.items():
            if not state.owned(self._reader):
                continue
            share = state.share_of(self._reader)
            counted = frozenset(share.offsets) | share.finished
            if not counted <= self._compared.get(stream, frozenset()):
                self._passed[stream] = self._tracker(stream)
            self._compared[stream] = counted
            known = self._known(stream, state)
            self._passed[stream] = advance(self._passed[stream], share, known, self._group.feeds[stream])
            times[stream] = self._passed[stream].passed
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
                self._shown[stream] = self._bounds(stream, state, places, due=due)
            if due or self._written.get(stream) != self._shown[stream]:
                self._write(stream, self._shown[stream])

    def _bounds(self, stream: str, state: GroupState, places: Mapping[Place, int], *, due: bool) -> TimeWindow:
        if self._part.read_side == "document":
            return TimeWindow(state.time, None)
        position = state.position
        if self._part.own_position:
            own = {segment: places[stream, segment] for segment in position.offsets if (stream, segment) in places}
            position = ReaderPosition({**position.offsets, **own}, position.finished)
        if due or self._part.own_position:
            self._followers[stream].offer(position, self._known(stream, state))
        return self._followers[stream].window

    def _known(self, stream: str, state: GroupState) -> Mapping[int, Segment]:
        """The segments whose key ranges the group knows."""
        segments = self._group.feeds[stream].history.segments
        if not state.rangeless:
            return segments
        return {segment: known for segment, known in segments.items() if segment not in state.rangeless}

    def _tracker(self, stream: str) -> Tracker:
        offset = None if self._origin is None else self._origin.places[stream].marks_offset
        return Tracker.start() if offset is None else Tracker.resume(self._group.feeds[stream].log, offset)

    def _write(self, stream: str, window: TimeWindow) -> None:
        self._written[stream] = window
        self._group.feeds[stream].journal.write(
            "windows",
            group=self._part.name,
            reader=self._reader,
            lower=window.lower,
            upper=window.upper,
            at_ms=self._group.world.now_ms,
        )
