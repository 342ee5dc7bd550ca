"""Positions: the offset of a writer, a reader group or a watermark in each segment, and how two of them compare.

A writer's position says what has been acknowledged to it; a stream cut is a position that covers the whole key
space; a reader group's position has the finished segments that still count at their end. An offset is a number of
bytes. What has no number has no number here either: `None` is "nothing acknowledged yet" in a writer's position.
(Pravega writes -1 for that and for a finished segment, and mistakes one for the other: issue 6510.)

Source: PDP-33, Controller Changes, Client Changes, Metadata ("position greater than or equal") and Watermark
Computation; upstream classes `WriterPosition`, `StreamCutReferenceRecord`, `PositionImpl`, `RecordHelper` and
`PersistentStreamBase`.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any, TypeVar

from wmlab.core.errors import ModelError
from wmlab.core.words import shown
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.segment import Segment, as_segment_id, overlapping, same_space, segment_name

PerSegment = TypeVar("PerSegment")


class Position(Mapping[int, int | None]):
    """Immutable, hashable map from segment id to offset in bytes.

    None: nothing acknowledged yet. Segments are given as ids or as "number@epoch" and kept in ascending order. Raises
    `ModelError` for a negative offset, and for a name that is not a segment.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[int, int | None] | Mapping[str, int | None] | None = None) -> None:
        by_segment: dict[int, int | None] = _checked_offsets(offsets)
        self._offsets = {segment: by_segment[segment] for segment in sorted(by_segment)}

    def __getitem__(self, segment: int) -> int | None:
        return self._offsets[segment]

    def __iter__(self) -> Iterator[int]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, segment: object) -> bool:
        return segment in self._offsets

    @property
    def offsets(self) -> Mapping[int, int | None]:
        """The offsets by ascending segment id."""
        return self._offsets

    def moved(self, changes: Mapping[int, int | None]) -> Position:
        """The position with other offsets in some segments; None: the segment leaves the position.

        Raises `ModelError` for a negative offset. Of many segments only those that change are looked at.
        """
        after = moved(self._offsets, _checked_offsets(changes).items())
        if not after.keys() <= self._offsets.keys():
            return Position(after)
        made = object.__new__(Position)
        made._offsets = after
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

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Position):
            return self._offsets == other._offsets
        return isinstance(other, Mapping) and self._offsets == dict(other)

    def __hash__(self) -> int:
        return hash(tuple(self._offsets.items()))

    def __repr__(self) -> str:
        texts = (f"{segment_name(segment)}: {'–' if offset is None else offset}" for segment, offset in self.items())
        return "{" + ", ".join(texts) + "}"


def behind_at_a_key(
    first: Mapping[int, int | None], second: Mapping[int, int | None], segments: Mapping[int, Segment]
) -> bool:
    """Whether `second` lies behind `first` at any key that both cover.

    At each key the latest segment of either position counts, together with its offset: an older segment, or the same
    one with a smaller offset, is behind; None is smaller than every offset. Keys that only one position covers are not
    compared. A segment that the stream never had is behind everything.
    """
    if any(segment not in segments for segment in second):
        return True
    known = [segment for segment in first if segment in segments]
    keys = sorted({segments[s].keys.low for s in (*known, *second)})
    for before, after in zip(_latest_at(keys, known, segments), _latest_at(keys, second, segments), strict=True):
        if before is None or after is None:
            continue
        if after < before or (after == before and is_less(second[after], first[before])):
            return True
    return False


def _latest_at(
    keys: Iterable[Fraction], members: Iterable[int], segments: Mapping[int, Segment]
) -> Iterator[int | None]:
    """The latest of some segments at each key, None where there is none; the keys are ascending."""
    ahead = sorted(members, key=lambda s: segments[s].keys.low, reverse=True)
    begun: list[int] = []  # a heap with the latest first; one that has ended leaves it when it comes to the top
    for key in keys:
        while ahead and segments[ahead[-1]].keys.low <= key:
            heappush(begun, -ahead.pop())
        while begun and segments[-begun[0]].keys.high <= key:
            heappop(begun)
        yield -begun[0] if begun else None


def floored(offsets: Mapping[int, int | None]) -> Position:
    """The position with offset 0 where nothing is acknowledged."""
    if isinstance(offsets, Position) and None not in offsets.values():
        return offsets
    return Position({segment: offset or 0 for segment, offset in offsets.items()})


def is_less(offset: int | None, other: int | None) -> bool:
    """Whether an offset is smaller than another one; None is smaller than every number."""
    return other is not None and (offset is None or offset < other)


def is_valid_cut(cut: Mapping[int, int | None], history: StreamHistory) -> bool:
    """Whether every segment is known and together they cover the key space once; epochs may be mixed."""
    known = all(segment in history.segments for segment in cut)
    return known and same_space((history.segments[segment].keys for segment in cut), [history.space])


def is_lineage_valid(cut: Mapping[int, int | None], history: StreamHistory) -> bool:
    """Whether a reader can be at the cut: no segment of it waits for an ancestor that the cut has not passed.

    A segment becomes readable when all its predecessors are finished. So every transitive predecessor of a segment
    of the cut has to lie before the cut at each of its keys. Raises `ModelError` for an unknown segment.
    Source: wmlab's own check (PDP-33, Watermark Computation, has key ranges checked only).
    """
    return first_unpassed_ancestor(cut, history) is None


def first_unpassed_ancestor(cut: Mapping[int, int | None], history: StreamHistory) -> Segment | None:
    """The latest transitive predecessor of the cut that the cut has not passed, or None if there is none.

    Raises `ModelError` for an unknown segment.
    """
    for segment in cut:
        history.segment(segment)
    earliest, latest = min(cut, default=0), max(cut, default=0)
    ancestors: set[int] = set()
    # Predecessors have smaller ids: walking from the largest id down meets every ancestor, and below the earliest
    # segment of the cut there is nothing left that a segment of the cut could wait for.
    for identifier in reversed([known for known in history.segments if earliest <= known <= latest]):
        if identifier in ancestors and any(m <= identifier and m in cut for m in history.over_keys_of(identifier)):
            return history.segments[identifier]
        if identifier in ancestors or identifier in cut:
            ancestors.update(segment.id for segment in history.predecessors(identifier))
    return None


def segments_between(
    frm: Mapping[int, int | None], to: Mapping[int, int | None], history: StreamHistory
) -> tuple[Segment, ...]:
    """The segments from one stream cut to another, both included, ascending; None counts as offset 0.

    Key by key these are the segments from that of the first cut to that of the second. An empty `frm` is the head of
    epoch 0, an empty `to` the active epoch. Raises `ModelError` when a cut does not cover the key space or `to` lies
    before `frm` at any key.
    """
    start, end = _covering(frm or history.epochs[0].ids, history), _covering(to or history.active.ids, history)
    if to and behind_at_a_key(floored(frm), floored(to), history.segments):
        raise ModelError(f"The second cut, {to}, lies before the first, {frm}.", remedy="Give the earlier cut first.")
    end.sort(key=lambda segment: segment.keys)
    between = {
        segment
        for left in start
        for right in overlapping(end, left.keys)
        for segment in history.over_keys_of(left.id) & history.over_keys_of(right.id)
        if left.id <= segment <= right.id
    }
    return tuple(history.segments[segment] for segment in sorted(between))


def segment_bytes_between(
    frm: Mapping[int, int | None], to: Mapping[int, int | None], history: StreamHistory, sealed_bytes: Mapping[int, int]
) -> Mapping[int, int]:
    """Bytes of each segment from one stream cut to another; `sealed_bytes` has the lengths of those that `to` lacks.

    Raises `ModelError` as `segments_between`, when a length is missing, or where `to` lies before `frm`.
    """
    bytes_of = {}
    for segment in segments_between(frm, to, history):
        if segment.id not in to and segment.id not in sealed_bytes:
            raise ModelError(f"The length of {segment.name} is missing.", remedy="Give the length of every segment.")
        start = frm.get(segment.id) or 0
        stop = (to[segment.id] or 0) if segment.id in to else sealed_bytes[segment.id]
        if stop < start:
            raise ModelError(f"{segment.name} would end at {stop} and begin at {start}.", remedy="Give a later cut.")
        bytes_of[segment.id] = stop - start
    return bytes_of


def moved(state: Mapping[int, PerSegment], changes: Iterable[tuple[int, PerSegment | None]]) -> dict[int, PerSegment]:
    """What there is of each segment after an update, in which None stands for a segment that has gone."""
    after = dict(state)
    for segment, changed in changes:
        if changed is None:
            after.pop(segment, None)
        else:
            after[segment] = changed
    return after


def _covering(cut: Iterable[int], history: StreamHistory) -> list[Segment]:
    segments = [history.segment(identifier) for identifier in cut]
    if not same_space((segment.keys for segment in segments), [history.space]):
        raise ModelError(
            f"{', '.join(segment.name for segment in segments)} is not a stream cut.",
            remedy=f"Name segments that cover {history.space.text} once.",
        )
    return segments


def _checked_offsets(offsets: Mapping[Any, Any] | None) -> dict[int, Any]:
    """Offsets by segment id; raises `ModelError` for anything but a map of segments to offsets of 0 or more."""
    try:
        by_segment = {
            as_segment_id(segment): offset for segment, offset in ({} if offsets is None else offsets).items()
        }
        negative = [segment for segment, offset in by_segment.items() if offset is not None and offset < 0]
    except (AttributeError, TypeError):
        raise ModelError(
            f"{shown(offsets)} is not a position.", remedy='Give a map of offsets, as in {"0@0": 1_000}.'
        ) from None
    if negative:
        raise ModelError(
            f"Offset {by_segment[negative[0]]} of segment {segment_name(negative[0])} is negative.",
            remedy="Give None for 'nothing acknowledged yet'.",
        )
    return by_segment
