"""Who takes a free segment and who gives one back, in a running group.

Source: upstream `ReaderGroupStateManager`; PDP-33, "Future Possibilities", for time instead of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wmlab.streams.model.index import window_at
from wmlab.streams.model.membership import Membership, Place
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.rebalance import fair_share, is_least_loaded, to_release

if TYPE_CHECKING:
    from wmlab.streams.sim.group import Group

_PATIENCE = 3


class Balance:
    """The rules of one group: `segments` by number, `bytes` by what remains, `time` by what the segments lag behind."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._by = group.part.rebalance
        self._free_since: dict[Place, int] = {}
        self.kept_free: dict[Place, int] = {}
        self.given_back: set[Place] = set()
        self.members_changed = False

    def note(self, before: Membership, after: Membership) -> None:
        """Remember since when segments are free."""
        if any(state.owners is not before.streams[name].owners for name, state in after.streams.items()):
            now = self._group.world.now_ms
            self._free_since = {place: self._free_since.get(place, now) for place in after.unassigned}
            self.given_back &= self._free_since.keys()

    def acquired(self, value: Membership, reader: str) -> Membership | None:
        """The state after a reader has taken the free segments that are for it, None when none is."""
        if reader not in value.readers:
            return None
        taken = value
        while (place := self._next(taken, reader)) is not None:
            taken = taken.acquire(reader, place)
        return None if taken is value else taken

    def _next(self, value: Membership, reader: str) -> Place | None:
        now = self._group.world.now_ms
        free = [place for place in value.unassigned if self.kept_free.get(place, 0) <= now]
        if not free:
            return None
        if self._by == "segments":
            return free[0] if len(value.owned(reader)) < fair_share(value.size, len(value.readers)) else None
        if is_least_loaded(self._loads(value), reader):
            return free[0]
        # Nobody's yet: for anybody with less than a fair share. Given back: for the least loaded reader, which may be
        # gone without a word; what nobody takes is for everybody.
        short = len(value.owned(reader)) < fair_share(value.size, len(value.readers))
        patience_ms = _PATIENCE * self._group.part.publish_every_ms
        return next(
            (
                place
                for place in free
                if (short and place not in self.given_back) or now - self._free_since.get(place, now) > patience_ms
            ),
            None,
        )

    def to_release(self, value: Membership, reader: str) -> Place | None:
        """The segment that a reader should give back now, if any; not while segments are free."""
        if self._by == "segments" and not self.members_changed:
            return None
        if reader not in value.readers or value.has_unassigned:
            return None
        if self._by == "segments":
            return to_release({r: dict.fromkeys(value.owned(r), 1) for r in sorted(value.readers)}, reader)
        place = to_release(self._loads(value), reader, gain=self._slack)
        if place is not None:
            self.given_back.add(place)
        return place

    @property
    def _slack(self) -> int:
        """What a segment weighs for being there, and the least gain for which one moves."""
        part = self._group.part
        return max(1, part.rebalance_slack_bytes if self._by == "bytes" else part.rebalance_slack_ms)

    def _loads(self, value: Membership) -> Mapping[str, Mapping[Place, int]]:
        return {
            reader: {place: self._slack + self._lag(value, place) for place in value.owned(reader)}
            for reader in sorted(value.readers)
        }

    def _lag(self, value: Membership, place: Place) -> int:
        """Bytes that remain in a segment, or how far its time is behind the last mark."""
        stream, segment = place
        feed, offset = self._group.feeds[stream], value.streams[stream].offsets[segment]
        if feed.deleted:
            return 0
        if self._by == "bytes":
            return max(0, feed.store[segment].length - offset)
        if not feed.log.entries:
            return 0
        here = window_at(feed.index, feed.log, ReaderPosition({segment: offset}), feed.history.segments).lower
        first, last = feed.log.entries[0][1].lower, feed.log.entries[-1][1].lower
        return last - (first if here is None else here)
