"""What a reader group needs of a stream: its segments, their bytes, its marks, and where its rows go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from wmlab.model.history import StreamHistory
from wmlab.model.index import MarksIndex
from wmlab.model.log import MarksLog, Watermark
from wmlab.sim.journal import Journal
from wmlab.sim.store import SegmentStore


class Feed(Protocol):
    """One stream, as its readers see it; `head` is where a new group begins."""

    name: str
    history: StreamHistory
    store: SegmentStore
    journal: Journal
    head: dict[int, int]
    log: MarksLog[Watermark]
    deleted: bool

    @property
    def readable_log(self) -> MarksLog[Watermark] | None:
        """Its marks segment; None while that cannot be read."""

    @property
    def index(self) -> MarksIndex:
        """The index of its marks segment."""

    def happened(self, kind: str, target: str, detail: str) -> None:
        """Write down something that was made to happen."""


def successors(feed: Feed, segment: int) -> Mapping[int, frozenset[int]]:
    """The successors of a segment, each with all its predecessors."""
    return {
        successor.id: frozenset(before.id for before in feed.history.predecessors(successor.id))
        for successor in feed.history.successors(segment)
    }
