"""What a reader group needs of a stream: its segments, their bytes, and its marks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from wmlab.model.history import StreamHistory
from wmlab.model.index import MarksIndex
from wmlab.model.log import MarksLog, Watermark
from wmlab.sim.store import SegmentStore

if TYPE_CHECKING:
    from wmlab.sim.world import World


class Feed(Protocol):
    """One stream, as its readers see it at this moment."""

    @property
    def name(self) -> str:
        """The stream's name."""

    @property
    def history(self) -> StreamHistory:
        """Its epochs up to now."""

    @property
    def store(self) -> SegmentStore:
        """The bytes of its segments."""

    @property
    def log(self) -> MarksLog[Watermark]:
        """Its marks segment."""

    @property
    def index(self) -> MarksIndex:
        """The index of its marks segment."""


class WorldFeed:
    """The stream of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._world.scenario.stream.name

    @property
    def history(self) -> StreamHistory:
        """Its epochs up to now."""
        return self._world.history

    @property
    def store(self) -> SegmentStore:
        """The bytes of its segments."""
        return self._world.store

    @property
    def log(self) -> MarksLog[Watermark]:
        """Its marks segment."""
        return self._world.controller.log

    @property
    def index(self) -> MarksIndex:
        """The index of its marks segment."""
        return self._world.controller.index.content


def successors(feed: Feed, segment: int) -> Mapping[int, frozenset[int]]:
    """The successors of a segment, each with all its predecessors."""
    return {
        successor.id: frozenset(before.id for before in feed.history.predecessors(successor.id))
        for successor in feed.history.successors(segment)
    }
