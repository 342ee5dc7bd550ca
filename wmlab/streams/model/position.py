"""Positions: how far a writer, a reader group or a watermark has come in each segment.

A writer's position says what has been acknowledged to it; a stream cut is a position that covers the whole key
space; a reader group's position may also contain segments that are finished. An offset is a number of bytes. What
has no number has no number here either: `None` is "nothing acknowledged yet" in a writer's position, and a finished
segment is a member of `finished`. (Pravega writes -1 for both, and mistakes one for the other: issue 6510.)

Source: PDP-33, Watermark Computation (position against stream cut); upstream classes `WriterPosition`,
`StreamCutReferenceRecord` and `WatermarkReaderImpl`.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heappush

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.segment import Segment, as_segment_id, joined, overlap_free, segment_name


class Position(Mapping[int, int | None]):
    """Immutable, hashable map from segment id to offset in bytes; None: nothing acknowledged yet.

    Segments are given as ids or as "number@epoch" and kept in ascending order. Raises `ModelError` for a negative
    offset or a name that is not a segment. Source: PDP-33, Controller Changes; upstream class `WriterPosition`.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[int, int | None] | Mapping[str, int | None] | None = None) -> None:
        given = {as_segment_id(segment): offset for segment, offset in (offsets or {}).items()}
        _refuse_negative(given)
        self._offsets = {segment: given[segment] for segment in sorted(given)}

    def __getitem__(self, segment: int) -> int | None:
        return self._offsets[segment]

    def __iter__(self) -> Iterator[int]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, segment: object) -> bool:
        return segment in self._offsets

    def replaced(self, segment: int, offset: int) -> Position:
        """The position with another offset in a segment that it has. Raises `ModelError` for a negative offset."""
        if offset < 0:
            _refuse_negative({segment: offset})
        made = object.__new__(Position)
        made._offsets = {**self._offsets, segment: offset}
        return made

    def keys(self) -> KeysView[int]:
        """The segment ids, ascending."""
        return self._offsets.keys()

    def values(self) -> ValuesView[int | None]:
        """The offsets by ascending segment id."""
        return self._offsets.values()

    def items(self) -> ItemsView[int, int | None]:
        """Segment ids and offsets, ascending."""
        return self._offsets.items()

    def __hash__(self) -> int:
        return hash(tuple(self._offsets.items()))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{segment_name(s)}: {'–' if o is None else o}" for s, o in self.items()) + "}"


StreamCut = Position
"""A position used as a stream cut: it covers the whole key space."""


@dataclass(frozen=True, slots=True)
class ReaderPosition:
    """A reader group's position: offsets of open segments, and the segments it finished but has not released.

    Segments are given as ids or as "number@epoch"; a segment is in one of the two, never in both. Raises `ModelError`
    for a negative offset or a segment in both. Source: PDP-33, Client Changes; upstream class `PositionImpl`.
    """

    offsets: Mapping[int, int]
    finished: frozenset[int]

    def __init__(
        self,
        offsets: Mapping[int, int] | Mapping[str, int] | None = None,
        finished: Iterable[int] | Iterable[str] = (),
    ) -> None:
        given = {as_segment_id(segment): offset for segment, offset in (offsets or {}).items()}
        ended = frozenset(as_segment_id(segment) for segment in finished)
        _refuse_negative(given)
        if both := sorted(ended & given.keys()):
            raise ModelError(
                f"Segment {segment_name(both[0])} is finished and has an offset.",
                remedy="List it either among the offsets or among the finished segments.",
            )
        object.__setattr__(self, "offsets", {segment: given[segment] for segment in sorted(given)})
        object.__setattr__(self, "finished", ended)

    def __hash__(self) -> int:
        return hash((tuple(self.offsets.items()), self.finished))

    def __repr__(self) -> str:
        texts = {segment: str(offset) for segment, offset in self.offsets.items()}
        texts |= dict.fromkeys(self.finished, "end")
        return "{" + ", ".join(f"{segment_name(s)}: {texts[s]}" for s in sorted(texts)) + "}"


class Order(StrEnum):
    """How a first stream cut lies to a second one. Source: upstream class `StreamCutComparison`."""

    BEFORE = "before"
    EQUAL_OR_AFTER = "equal or after"
    OVERLAPS = "overlaps"


def compare_cuts(first: Mapping[int, int | None], second: Mapping[int, int | None], history: StreamHistory) -> Order:
    """Where `first` lies against `second`, compared at every key that both cover.

    At a key the larger segment id is later; in the same segment the larger offset is later, None counting as 0.
    Nowhere behind is EQUAL_OR_AFTER, nowhere ahead (and somewhere behind) is BEFORE, anything else OVERLAPS.
    Raises `ModelError` for an unknown segment. Source: upstream class `PersistentStreamBase` (compareStreamCut).
    """
    ahead = behind = False
    for mine in (history.segment(s) for s in first):
        for theirs in (history.segment(s) for s in second):
            if mine.keys.overlaps(theirs.keys):
                left, right = (mine.id, first[mine.id] or 0), (theirs.id, second[theirs.id] or 0)
                ahead, behind = ahead or left > right, behind or left < right
    if not behind:
        return Order.EQUAL_OR_AFTER
    return Order.OVERLAPS if ahead else Order.BEFORE


def is_valid_cut(cut: Mapping[int, int | None], history: StreamHistory) -> bool:
    """Whether every segment is known and together they cover the key space once; epochs may be mixed.

    Source: upstream class `RecordHelper` (validateStreamCut).
    """
    if any(segment not in history.segments for segment in cut):
        return False
    ranges = [history.segment(segment).keys for segment in cut]
    return overlap_free(ranges) and joined(ranges) == (history.space,)


def is_lineage_valid(cut: Mapping[int, int | None], history: StreamHistory) -> bool:
    """Whether a reader can be at the cut: no segment of it waits for an ancestor that the cut has not passed.

    A segment becomes readable when all its predecessors are finished. So every transitive predecessor of a segment
    of the cut has to lie before the cut at each of its keys. Raises `ModelError` for an unknown segment.
    Source: wmlab's own check (PDP-33, Watermark Computation, promises a well-formed cut and checks key ranges only).
    """
    return first_unpassed_ancestor(cut, history) is None


def first_unpassed_ancestor(cut: Mapping[int, int | None], history: StreamHistory) -> Segment | None:
    """The latest transitive predecessor of the cut that the cut has not passed, or None if there is none.

    Raises `ModelError` for an unknown segment.
    """
    members = [history.segment(segment) for segment in cut]
    earliest = min(cut, default=0)
    seen: set[int] = set()
    # Predecessors have smaller ids: walking from the largest id down meets every ancestor, and below the earliest
    # segment of the cut there is nothing left that a segment of the cut could wait for.
    waiting = [-segment for segment in cut]
    heapify(waiting)
    while waiting and (identifier := -heappop(waiting)) >= earliest:
        for ancestor in history.predecessors(identifier):
            if ancestor.id not in seen:
                seen.add(ancestor.id)
                heappush(waiting, -ancestor.id)
        if identifier in seen and any(
            m.id <= identifier and m.keys.overlaps(history.segment(identifier).keys) for m in members
        ):
            return history.segment(identifier)
    return None


def _refuse_negative(offsets: Mapping[int, int | None]) -> None:
    for segment, offset in offsets.items():
        if offset is not None and offset < 0:
            raise ModelError(
                f"Offset {offset} of segment {segment_name(segment)} is negative.",
                remedy="Give None for 'nothing acknowledged yet', and list finished segments as finished.",
            )
