"""The history of a stream: its epochs, which segment follows which, and what lies between two stream cuts.

An epoch lists all segments that are active in it, those it created and those carried over; together they cover the key
space once, and the key space never changes. A scale seals some segments and replaces them over exactly the same keys.
A rolling transaction adds two duplicate epochs: one of the epoch the transaction began in, one of the epoch that was
active. Successors follow from the overlap of key ranges in neighbouring epochs.

At every key a stream is one sequence of segments with ascending ids. The segments between two cuts are, key by key,
those from the first cut's segment to the second cut's, both included.

Source: PDP-33, Watermark Computation, and PDP-33, Future Possibilities; upstream classes `EpochRecord`, `RecordHelper`
and `PersistentStreamBase`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.streams.model.segment import (
    Arithmetic,
    KeyRange,
    Segment,
    as_segment_id,
    even_ranges,
    joined,
    overlap_free,
    same_space,
    segment_name,
)

EpochKind = Literal["create", "scale", "rolling"]
_ROUNDING = Fraction(1, 2**50)


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch and the segments active in it, ascending; `reference` is the epoch that a duplicate copies.

    Raises `ModelError` when there is no segment or one was created later.
    """

    number: int
    kind: EpochKind
    segments: tuple[Segment, ...]
    reference: int | None = None

    def __post_init__(self) -> None:
        if not self.segments:
            raise ModelError(f"Epoch {self.number} has no segments.", remedy="Give at least one segment.")
        for segment in self.segments:
            if segment.epoch > self.number:
                raise ModelError(
                    f"Segment {segment.name} is in epoch {self.number}, before its creation.",
                    remedy="List only segments created in this epoch or before.",
                )
        object.__setattr__(self, "segments", tuple(sorted(self.segments, key=lambda s: s.id)))

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of its segments, ascending."""
        return tuple(segment.id for segment in self.segments)

    def __repr__(self) -> str:
        names = ", ".join(segment.name for segment in self.segments)
        copied = "" if self.reference is None else f" of {self.reference}"
        return f"Epoch({self.number} {self.kind}{copied}: {names})"


def checked_members(epochs: tuple[Epoch, ...]) -> tuple[Mapping[int, Segment], Mapping[int, int]]:
    """All segments by id, and the last epoch of each, if the epochs are a history.

    Raises `ModelError` unless the epochs are numbered 0, 1, 2 ..., each covers the key space of the first one once,
    and each segment is new in the epoch of its id and, once gone, stays away.
    """
    _refuse_bad_numbers(epochs)
    space = _space_of_first(epochs[0])
    segments: dict[int, Segment] = {}
    last_epoch: dict[int, int] = {}
    for epoch in epochs:
        _refuse_bad_cover(epoch, space)
        for segment in epoch.segments:
            _refuse_bad_member(segment, epoch, segments.get(segment.id), last_epoch.get(segment.id))
            segments[segment.id] = segment
            last_epoch[segment.id] = epoch.number
    return segments, last_epoch


def _refuse_bad_numbers(epochs: tuple[Epoch, ...]) -> None:
    numbers = [epoch.number for epoch in epochs]
    if not numbers or numbers != list(range(len(numbers))):
        raise ModelError(f"The epochs are numbered {numbers}.", remedy="Number them 0, 1, 2 and so on.")


def _space_of_first(epoch: Epoch) -> tuple[KeyRange, ...]:
    space = joined(segment.keys for segment in epoch.segments)
    if len(space) != 1 or space[0].low != 0 or space[0].high < 1 - _ROUNDING:
        raise ModelError(
            f"Epoch 0 covers only {texts(space)}.", remedy="Give ranges that cover the key space 0..1 without gap."
        )
    return space


def _refuse_bad_cover(epoch: Epoch, space: tuple[KeyRange, ...]) -> None:
    ranges = [segment.keys for segment in epoch.segments]
    if not overlap_free(ranges) or joined(ranges) != space:
        raise ModelError(
            f"The segments of epoch {epoch.number} do not cover {texts(space)} once: {names(epoch.segments)}.",
            remedy="Give ranges without overlap and without gap.",
        )


def _refuse_bad_member(segment: Segment, epoch: Epoch, known: Segment | None, last_epoch: int | None) -> None:
    if known is None and segment.epoch != epoch.number:
        raise ModelError(
            f"Segment {segment.name} first appears in epoch {epoch.number}.",
            remedy="Let it appear first in the epoch of its name.",
        )
    if known is not None and (known != segment or last_epoch != epoch.number - 1):
        raise ModelError(
            f"Segment {segment.name} of epoch {epoch.number} has changed its range or was sealed before.",
            remedy="Give every new segment a new number.",
        )


def names(segments: Iterable[Segment]) -> str:
    """Their names, for a message. Source: upstream class `NameUtils`."""
    return ", ".join(segment.name for segment in segments)


def texts(ranges: Iterable[KeyRange]) -> str:
    """The ranges, for a message."""
    return ", ".join(keys.text for keys in ranges)


Cut = Mapping[Segment, int | None]
"""A stream cut with its ranges: offset in bytes per segment, None for the tail of a segment."""


def segments_between(start: Cut, end: Cut, candidates: Iterable[Segment]) -> tuple[Segment, ...]:
    """The candidates that lie between the cuts at one key at least, ascending.

    Raises `ModelError` when `end` lies before `start` at any key.
    """
    refuse_backwards(start, end)
    found = []
    for segment in candidates:
        before = [s for s in start if s.id <= segment.id and s.keys.overlaps(segment.keys)]
        after = [s for s in end if s.id >= segment.id and s.keys.overlaps(segment.keys)]
        if any(left.keys.overlaps(right.keys) for left in before for right in after):
            found.append(segment)
    return tuple(sorted(found, key=lambda s: s.id))


def refuse_backwards(start: Cut, end: Cut) -> None:
    """Nothing, or `ModelError` when `end` lies before `start` at any key."""
    for left, begin in start.items():
        for right, stop in end.items():
            if left.keys.overlaps(right.keys) and _is_behind(right, stop, left, begin):
                raise ModelError(
                    f"The second cut lies before the first: {right.name} at {stop} against {left.name} at {begin}.",
                    remedy="Give the earlier cut first.",
                )


def bytes_between(start: Cut, end: Cut, candidates: Iterable[Segment], sealed_bytes: Mapping[int, int]) -> int:
    """Bytes between the cuts; `sealed_bytes` is the length of each segment that `end` gives no offset for.

    Raises `ModelError` as `segments_between`, or when a length is missing.
    """
    total = 0
    for segment in segments_between(start, end, candidates):
        stop = end.get(segment)
        if stop is None and segment.id not in sealed_bytes:
            raise ModelError(f"The length of {segment.name} is missing.", remedy="Give the length of every segment.")
        total += (sealed_bytes[segment.id] if stop is None else stop) - (start.get(segment) or 0)
    return total


def _is_behind(segment: Segment, offset: int | None, other: Segment, other_offset: int | None) -> bool:
    if segment.id != other.id or offset is None:
        return segment.id < other.id
    return other_offset is None or offset < other_offset


@dataclass(frozen=True, slots=True)
class StreamHistory:
    """All epochs of a stream, from epoch 0 to the active one.

    Raises `ModelError` unless the epochs are numbered 0, 1, 2 ..., each covers the key space of the first one once,
    and each segment is new in the epoch of its id and, once gone, stays away.
    """

    epochs: tuple[Epoch, ...]
    segments: Mapping[int, Segment] = field(init=False, repr=False, compare=False)
    _last_epoch: Mapping[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        segments, last_epoch = checked_members(self.epochs)
        object.__setattr__(self, "segments", MappingProxyType(segments))
        object.__setattr__(self, "_last_epoch", MappingProxyType(last_epoch))

    def __reduce__(self) -> tuple[type[StreamHistory], tuple[tuple[Epoch, ...]]]:
        return StreamHistory, (self.epochs,)

    @classmethod
    def create(
        cls, segments: int | Sequence[KeyRange], *, first_number: int = 0, arithmetic: Arithmetic = "exact"
    ) -> StreamHistory:
        """A new stream, divided evenly into a count or along given ranges.

        A re-created stream continues the numbers: `first_number` is then one more than the highest ever used.
        Raises `ModelError` when the ranges do not cover the key space once. Source: upstream `CreateStreamTask`.
        """
        ranges = even_ranges(segments, arithmetic=arithmetic) if isinstance(segments, int) else tuple(segments)
        created = tuple(Segment(first_number + i, 0, keys) for i, keys in enumerate(ranges))
        return cls((Epoch(0, "create", created),))

    def append(self, epoch: Epoch) -> StreamHistory:
        """The history with one more epoch. Raises `ModelError` as the constructor."""
        return StreamHistory((*self.epochs, epoch))

    def scale(self, seal: Iterable[int | str], into: int | Sequence[KeyRange]) -> StreamHistory:
        """The history after sealing active segments and replacing them, by a count of even parts or given ranges.

        New numbers continue after the highest of the active epoch. Raises `ModelError` when a sealed segment is not
        active, when the new ranges do not cover exactly the sealed keys, or when a count is given for segments that
        do not adjoin. Source: upstream class `RecordHelper` (canScaleFor) and `ScaleOperationTask`.
        """
        sealed = self._active_segments(seal)
        ranges = _parts(sealed, into) if isinstance(into, int) else tuple(sorted(into))
        if not same_space((segment.keys for segment in sealed), ranges):
            raise ModelError(
                f"The new ranges {texts(ranges)} do not cover exactly the keys of {names(sealed)}.",
                remedy=f"Give ranges that cover {texts(joined(s.keys for s in sealed))} without overlap.",
            )
        number = max(segment.number for segment in self.active.segments) + 1
        epoch = self.active.number + 1
        created = tuple(Segment(number + i, epoch, keys) for i, keys in enumerate(ranges))
        kept = tuple(segment for segment in self.active.segments if segment not in sealed)
        return self.append(Epoch(epoch, "scale", kept + created))

    def roll(self, txn_epoch: int) -> StreamHistory:
        """The history after committing a transaction that was begun in an older epoch: two duplicate epochs.

        The first copies the transaction's epoch, the second the active one: numbers repeat, ids do not. Raises
        `ModelError` when the transaction can be merged without it: its epoch is the active one or a copy of the same.
        Source: upstream class `CommitRequestHandler` (rolling transaction).
        """
        copied = self.epoch(txn_epoch)
        if self.origin(txn_epoch) == self.origin(self.active.number):
            raise ModelError(
                f"A transaction of epoch {txn_epoch} needs no rolling: epoch {self.active.number} has its ranges.",
                remedy="Merge it into the active epoch.",
            )
        with_copy = self.append(self._duplicate(copied, 1))
        return with_copy.append(self._duplicate(self.active, 2))

    def origin(self, number: int) -> int:
        """The epoch that an epoch copies, or itself if it is no duplicate. Raises `ModelError` if there is none.

        Source: upstream class `EpochRecord` (reference epoch).
        """
        reference = self.epoch(number).reference
        return number if reference is None else reference

    @property
    def active(self) -> Epoch:
        """The last epoch. Source: upstream class `PersistentStreamBase` (active epoch)."""
        return self.epochs[-1]

    @property
    def space(self) -> KeyRange:
        """The key space: [0, 1), or a little less for ranges made in doubles. Source: upstream `CreateStreamTask`."""
        return joined(segment.keys for segment in self.epochs[0].segments)[0]

    def epoch(self, number: int) -> Epoch:
        """The epoch of that number. Raises `ModelError` if there is none."""
        if not 0 <= number < len(self.epochs):
            raise ModelError(
                f"The stream has no epoch {number}.", remedy=f"Give an epoch between 0 and {self.active.number}."
            )
        return self.epochs[number]

    def segment(self, identifier: int) -> Segment:
        """The segment of that id. Raises `ModelError` if it never existed. Source: upstream `StreamSegmentRecord`."""
        if identifier not in self.segments:
            raise ModelError(
                f"The stream never had a segment {segment_name(identifier)}.",
                remedy=f"Name one of {names(self.segments.values())}.",
            )
        return self.segments[identifier]

    def last_epoch(self, identifier: int) -> int:
        """The last epoch in which the segment is active. Raises `ModelError` if it never existed.

        Source: upstream class `PersistentStreamBase` (stream cut span).
        """
        return self._last_epoch[self.segment(identifier).id]

    def at(self, key: Fraction, epoch: int | None = None) -> Segment:
        """The segment that holds the key, in the active or the given epoch.

        Raises `ModelError` for a key or epoch outside the stream. Source: upstream class `StreamSegments`.
        """
        chosen = self.active if epoch is None else self.epoch(epoch)
        for segment in chosen.segments:
            if segment.keys.contains(key):
                return segment
        raise ModelError(f"No segment holds key {key}.", remedy=f"Give a key in {self.space.text}.")

    def successors(self, identifier: int) -> tuple[Segment, ...]:
        """The segments that took over a segment's keys when it was sealed; none while it is active.

        Raises `ModelError` if it never existed. Source: upstream class `PersistentStreamBase` (getSuccessors).
        """
        segment, last = self.segment(identifier), self.last_epoch(identifier)
        return () if last == self.active.number else _overlapping(segment, self.epochs[last + 1])

    def predecessors(self, identifier: int) -> tuple[Segment, ...]:
        """The segments whose keys a segment took over at its creation; none in epoch 0.

        Raises `ModelError` if it never existed. Source: upstream class `PersistentStreamBase` (getPredecessors).
        """
        segment = self.segment(identifier)
        return () if segment.epoch == 0 else _overlapping(segment, self.epochs[segment.epoch - 1])

    def ancestors(self, identifier: int) -> tuple[Segment, ...]:
        """All transitive predecessors, ascending. Raises and source: as `predecessors`."""
        return self._closure(identifier, forward=False)

    def descendants(self, identifier: int) -> tuple[Segment, ...]:
        """All transitive successors, ascending. Raises and source: as `successors`."""
        return self._closure(identifier, forward=True)

    def segments_between(self, frm: Mapping[int, int | None], to: Mapping[int, int | None]) -> tuple[Segment, ...]:
        """The segments from one stream cut to another, both included, ascending; None counts as offset 0.

        An empty `frm` is the head of epoch 0, an empty `to` the active epoch. Raises `ModelError` when a cut does not
        cover the key space or `to` lies before `frm` at any key.
        """
        return segments_between(*self._ends(frm, to), self.segments.values())

    def bytes_between(
        self, frm: Mapping[int, int | None], to: Mapping[int, int | None], sealed_bytes: Mapping[int, int]
    ) -> int:
        """Bytes from one stream cut to another, given the final length of the sealed segments on the way.

        Raises `ModelError` as `segments_between`, or when a length is missing.
        """
        return bytes_between(*self._ends(frm, to), self.segments.values(), sealed_bytes)

    def spans(self, cut: Mapping[int, int | None]) -> Mapping[int, int]:
        """Epoch of each segment of a cut: the last with the segment, not later than its newest segment's creation.

        Raises `ModelError` for an unknown segment. Source: upstream class `PersistentStreamBase` (stream cut span).
        """
        newest = max((self.segment(i).epoch for i in cut), default=0)
        return {i: min(self.last_epoch(i), newest) for i in cut}

    def _ends(self, frm: Mapping[int, int | None], to: Mapping[int, int | None]) -> tuple[Cut, Cut]:
        start = self._covering(frm) if frm else dict.fromkeys(self.epochs[0].segments, 0)
        return start, self._covering(to) if to else dict.fromkeys(self.active.segments)

    def _covering(self, cut: Mapping[int, int | None]) -> Cut:
        found = {self.segment(i): offset or 0 for i, offset in cut.items()}
        ranges = [segment.keys for segment in found]
        if not overlap_free(ranges) or joined(ranges) != (self.space,):
            raise ModelError(
                f"{names(found)} is not a stream cut.", remedy=f"Name segments that cover {self.space.text} once."
            )
        return found

    def _closure(self, identifier: int, *, forward: bool) -> tuple[Segment, ...]:
        step = self.successors if forward else self.predecessors
        found: dict[int, Segment] = {}
        waiting = list(step(identifier))
        while waiting:
            segment = waiting.pop()
            if segment.id not in found:
                found[segment.id] = segment
                waiting.extend(step(segment.id))
        return tuple(found[i] for i in sorted(found))

    def _active_segments(self, named: Iterable[int | str]) -> tuple[Segment, ...]:
        wanted = sorted({as_segment_id(segment) for segment in named})
        if not wanted or not set(wanted) <= set(self.active.ids):
            asked = ", ".join(segment_name(i) for i in wanted) or "nothing"
            raise ModelError(
                f"Cannot seal {asked}: not active in epoch {self.active.number}.",
                remedy=f"Seal some of {names(self.active.segments)}.",
            )
        return tuple(self.segments[i] for i in wanted)

    def _duplicate(self, copied: Epoch, ahead: int) -> Epoch:
        number = self.active.number + ahead
        segments = tuple(Segment(s.number, number, s.keys) for s in copied.segments)
        return Epoch(number, "rolling", segments, self.origin(copied.number))

    def __repr__(self) -> str:
        return f"StreamHistory({', '.join(map(repr, self.epochs))})"


def _overlapping(segment: Segment, epoch: Epoch) -> tuple[Segment, ...]:
    return tuple(s for s in epoch.segments if s.keys.overlaps(segment.keys))


def _parts(sealed: tuple[Segment, ...], count: int) -> tuple[KeyRange, ...]:
    union = joined(segment.keys for segment in sealed)
    if len(union) != 1:
        raise ModelError(
            f"The keys of {names(sealed)} do not adjoin: {texts(union)}.",
            remedy="Seal neighbours, or give the new ranges one by one.",
        )
    low, width = union[0].low, union[0].high - union[0].low
    return tuple(KeyRange(low + width * r.low, low + width * r.high) for r in even_ranges(count))
