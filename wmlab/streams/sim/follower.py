"""A reader's tracker of one stream's marks at work: in the background, and one position at a time.

Source: upstream `WatermarkReaderImpl` with its `LatestItemSequentialProcessor`. While it works on a position, only
the newest of those that come is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING

from wmlab.streams.model.latest import LatestItem
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import TimeWindow, Tracker
from wmlab.streams.scenario.reader_group import ReaderGroup

if TYPE_CHECKING:
    from wmlab.streams.sim.stream import StreamWorld
    from wmlab.streams.sim.world import World

Compared = tuple[ReaderPosition, Mapping[int, Segment]]
"""A position, and the segments whose key ranges the group knows."""


class Follower:
    """The tracker, and what it is working on."""

    def __init__(self, world: World, part: ReaderGroup, feed: StreamWorld, tracker: Tracker) -> None:
        self._world = world
        self._part = part
        self._feed = feed
        self._tracker = tracker
        self._queue: LatestItem[Compared] = LatestItem()

    @property
    def window(self) -> TimeWindow:
        """The window of the last position that is worked through."""
        return self._tracker.window

    def offer(self, position: ReaderPosition, segments: Mapping[int, Segment]) -> None:
        """A newer position: worked on at once, or next."""
        idle = not self._queue.working_on
        self._queue = self._queue.offer((position, segments))
        if idle:
            self._work()

    def _work(self) -> None:
        while self._queue.working_on:
            found = advance(self._tracker, *self._queue.working_on[0], self._feed)
            fetched = found.fetched - self._tracker.fetched
            busy_ms = self._part.tracker_ms + ceil(self._part.mark_read_ms * fetched)
            if busy_ms:
                self._world.after(busy_ms, self._finish, found)
                return
            self._tracker, self._queue = found, self._queue.done()

    def _finish(self, found: Tracker) -> None:
        self._tracker, self._queue = found, self._queue.done()
        self._work()


def advance(tracker: Tracker, position: ReaderPosition, segments: Mapping[int, Segment], feed: StreamWorld) -> Tracker:
    """The tracker after a position: unmoved while the marks cannot be read, past what was truncated."""
    log = feed.readable_log
    return tracker if log is None else tracker.skip_truncated(log).advance(position, log, segments)
