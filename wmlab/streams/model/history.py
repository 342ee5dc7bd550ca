"""The history of a stream: its epochs, and which segment follows which.

An epoch lists all segments that are active in it, those it created and those carried over; together they cover the key
space once, and the key space never changes. A scale seals some segments and replaces them over exactly the same keys.
A rolling transaction adds two duplicate epochs: one of the epoch the transaction began in, one of the epoch that was
active. Successors follow from the overlap of key ranges in neighbouring epochs; at every key a stream is one sequence
of segments with ascending ids.

Source: PDP-33, Watermark Computation; upstream classes `EpochRecord`, `RecordHelper`, `PersistentStreamBase`,
`ScaleOperationTask`, `CreateStreamTask` and `CommitRequestHandler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal

from wmlab.core.errors import ModelError
from wmlab.streams.model.segment import (
    Arithmetic,
    KeyRange,
    Segment,
    as_segment_id,
    even_ranges,
    gaps,
    joined_ranges,
    overlapping,
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
    _by_key: tuple[Segment, ...] = field(init=False, repr=False, compare=False)

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
        object.__setattr__(self, "_by_key", tuple(sorted(self.segments, key=lambda s: s.keys.low)))

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of its segments, ascending."""
        return tuple(segment.id for segment in self.segments)

    def overlapping(self, keys: KeyRange) -> tuple[Segment, ...]:
        """Its segments that share a key with a range, ascending."""
        return tuple(sorted(overlapping(self._by_key, keys), key=lambda s: s.id))

    def __repr__(self) -> str:
        copied = "" if self.reference is None else f" of {self.reference}"
        return f"Epoch({self.number} {self.kind}{copied}: {_names(self.segments)})"


@dataclass(frozen=True, slots=True)
class StreamHistory:
    """All epochs of a stream, from epoch 0 to the active one; `segments` has every segment by id, ascending.

    `space` is the key space: [0, 1), or a little less for ranges made in doubles.

    Raises `ModelError` unless the epochs are numbered 0, 1, 2 ..., each covers the key space of the first one once,
    and each segment is new in the epoch of its id and, once gone, stays away.
    """

    epochs: tuple[Epoch, ...]
    segments: Mapping[int, Segment] = field(init=False, repr=False, compare=False)
    space: KeyRange = field(init=False, repr=False, compare=False)
    _last_epoch: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _over_keys: dict[int, frozenset[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _gaps: dict[frozenset[int], tuple[KeyRange, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        numbers = [epoch.number for epoch in self.epochs]
        if not numbers or numbers != list(range(len(numbers))):
            raise ModelError(f"The epochs are numbered {numbers}.", remedy="Number them 0, 1, 2 and so on.")
        space = joined_ranges(segment.keys for segment in self.epochs[0].segments)
        if len(space) != 1 or space[0].low != 0 or space[0].high < 1 - _ROUNDING:
            raise ModelError(
                f"Epoch 0 covers only {_texts(space)}.", remedy="Give ranges that cover the key space 0..1 without gap."
            )
        segments: dict[int, Segment] = {}
        for epoch in self.epochs:
            if not same_space((segment.keys for segment in epoch.segments), space):
                raise ModelError(
                    f"The segments of epoch {epoch.number} do not cover {_texts(space)} once: "
                    f"{_names(epoch.segments)}.",
                    remedy="Give ranges without overlap and without gap.",
                )
            for segment in epoch.segments:
                known = segment.id in segments
                if not known and segment.epoch != epoch.number:
                    raise ModelError(
                        f"Segment {segment.name} first appears in epoch {epoch.number}.",
                        remedy="Let it appear first in the epoch of its name.",
                    )
                if known and (segments[segment.id] != segment or self._last_epoch[segment.id] != epoch.number - 1):
                    raise ModelError(
                        f"Segment {segment.name} of epoch {epoch.number} has changed its range or was sealed before.",
                        remedy="Give every new segment a new number.",
                    )
                segments[segment.id] = segment
                self._last_epoch[segment.id] = epoch.number
        object.__setattr__(self, "segments", MappingProxyType(segments))
        object.__setattr__(self, "space", space[0])

    def __reduce__(self) -> tuple[type[StreamHistory], tuple[tuple[Epoch, ...]]]:
        return StreamHistory, (self.epochs,)

    @classmethod
    def create(
        cls, segments: int | Sequence[KeyRange], *, first_number: int = 0, arithmetic: Arithmetic = "exact"
    ) -> StreamHistory:
        """A new stream, divided evenly into a count or along given ranges.

        A re-created stream continues the numbers: `first_number` is then one more than the highest ever used.
        Raises `ModelError` when the ranges do not cover the key space once.
        """
        ranges = even_ranges(segments, arithmetic=arithmetic) if isinstance(segments, int) else tuple(segments)
        return cls((Epoch(0, "create", _numbered(ranges, first_number, 0)),))

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> StreamHistory:
        """The history in which these segments came to be: the new ones of an epoch replace those over the same keys.

        Which epochs were rolled is not known from segments. Raises `ModelError` as the constructor.
        """
        epochs: list[Epoch] = []
        for number, created in groupby(sorted(segments, key=lambda segment: segment.id), key=lambda s: s.epoch):
            new = tuple(created)
            before = epochs[-1].segments if epochs else ()
            replaced = {old.id for segment in new if epochs for old in epochs[-1].overlapping(segment.keys)}
            unchanged = tuple(old for old in before if old.id not in replaced)
            epochs.append(Epoch(number, "scale" if epochs else "create", unchanged + new))
        return cls(tuple(epochs))

    @classmethod
    def recorded(cls, rows: Iterable[Mapping[str, Any]], segments: Mapping[int, Segment]) -> StreamHistory:
        """The history in rows of the table `epochs`; raises `ModelError` as the constructor, and without a segment."""
        epochs = []
        for row in sorted(rows, key=lambda row: int(row["epoch"])):
            if strangers := [i for i in row["segment_ids"] if i not in segments]:
                raise ModelError(
                    f"Epoch {row['epoch']} lists {segment_name(strangers[0])}, which is not in the segments table.",
                    remedy="Give every segment of every epoch.",
                )
            epochs.append(Epoch(row["epoch"], row["kind"], tuple(segments[i] for i in row["segment_ids"])))
        return cls(tuple(epochs))

    def append(self, epoch: Epoch) -> StreamHistory:
        """The history with one more epoch. Raises `ModelError` as the constructor."""
        return StreamHistory((*self.epochs, epoch))

    def scale(self, seal: Iterable[int | str], into: int | Sequence[KeyRange]) -> StreamHistory:
        """The history after sealing active segments and replacing them, by a count of even parts or given ranges.

        New numbers continue after the highest of the active epoch. Raises `ModelError` when a sealed segment is not
        active, or when the new ranges do not cover exactly the sealed keys. A count for segments that do not adjoin
        raises it, too.
        """
        wanted = dict.fromkeys(sorted(as_segment_id(segment) for segment in seal))
        if not wanted or not wanted.keys() <= set(self.active.ids):
            raise ModelError(
                f"Cannot seal {', '.join(map(segment_name, wanted)) or 'nothing'}: "
                f"not active in epoch {self.active.number}.",
                remedy=f"Seal some of {_names(self.active.segments)}.",
            )
        sealed = [self.segments[identifier] for identifier in wanted]
        ranges = _parts(sealed, into) if isinstance(into, int) else tuple(sorted(into))
        if not same_space((segment.keys for segment in sealed), ranges):
            raise ModelError(
                f"The new ranges {_texts(ranges)} do not cover exactly the keys of {_names(sealed)}.",
                remedy=f"Give ranges that cover {_texts(joined_ranges(s.keys for s in sealed))} without overlap.",
            )
        number = max(segment.number for segment in self.active.segments) + 1
        epoch = self.active.number + 1
        unchanged = tuple(segment for segment in self.active.segments if segment.id not in wanted)
        return self.append(Epoch(epoch, "scale", unchanged + _numbered(ranges, number, epoch)))

    def roll(self, txn_epoch: int) -> StreamHistory:
        """The history after committing a transaction that was begun in an older epoch: two duplicate epochs.

        The first copies the transaction's epoch, the second the active one: numbers repeat, ids do not. Raises
        `ModelError` when the transaction can be merged without it: its epoch is the active one or a copy of the same.
        """
        if self.origin(txn_epoch) == self.origin(self.active.number):
            raise ModelError(
                f"A transaction of epoch {txn_epoch} needs no rolling: epoch {self.active.number} has its ranges.",
                remedy="Merge it into the active epoch.",
            )
        rolled = self
        for copied in (self.epochs[txn_epoch], self.active):
            number = rolled.active.number + 1
            segments = tuple(Segment(s.number, number, s.keys) for s in copied.segments)
            rolled = rolled.append(Epoch(number, "rolling", segments, self.origin(copied.number)))
        return rolled

    def origin(self, number: int) -> int:
        """The epoch that an epoch copies, or itself if it is not a duplicate. Raises `ModelError` if there is none."""
        reference = self.epoch(number).reference
        return number if reference is None else reference

    @property
    def active(self) -> Epoch:
        """The last epoch."""
        return self.epochs[-1]

    def epoch(self, number: int) -> Epoch:
        """The epoch of that number. Raises `ModelError` if there is none."""
        if not 0 <= number < len(self.epochs):
            raise ModelError(
                f"The stream has no epoch {number}.", remedy=f"Give an epoch between 0 and {self.active.number}."
            )
        return self.epochs[number]

    def segment(self, identifier: int) -> Segment:
        """The segment of that id. Raises `ModelError` if it never existed."""
        if identifier not in self.segments:
            raise ModelError(
                f"The stream never had a segment {segment_name(identifier)}.",
                remedy=f"Name one of {_names(self.segments.values())}.",
            )
        return self.segments[identifier]

    def successors(self, identifier: int) -> tuple[Segment, ...]:
        """The segments of the next epoch that took over a segment's keys; none while it is active.

        Raises `ModelError` if it never existed.
        """
        segment = self.segment(identifier)
        last = self._last_epoch[identifier]
        return () if last == self.active.number else self.epochs[last + 1].overlapping(segment.keys)

    def predecessors(self, identifier: int) -> tuple[Segment, ...]:
        """The segments whose keys a segment took over at its creation; none in epoch 0.

        Raises `ModelError` if it never existed.
        """
        segment = self.segment(identifier)
        return () if segment.epoch == 0 else self.epochs[segment.epoch - 1].overlapping(segment.keys)

    def ancestors(self, identifier: int) -> tuple[Segment, ...]:
        """All transitive predecessors, ascending. Raises `ModelError` if the segment never existed."""
        ancestors: dict[int, Segment] = {}
        waiting = list(self.predecessors(identifier))
        while waiting:
            segment = waiting.pop()
            if segment.id not in ancestors:
                ancestors[segment.id] = segment
                waiting += self.predecessors(segment.id)
        return tuple(ancestors[ancestor] for ancestor in sorted(ancestors))

    def lineage_of(self, identifier: int) -> frozenset[int]:
        """The ids of all transitive predecessors and successors of a segment.

        Raises `ModelError` if it never existed.
        """
        lineage = {ancestor.id for ancestor in self.ancestors(identifier)}
        waiting = [identifier]
        while waiting:
            new = {successor.id for successor in self.successors(waiting.pop())} - lineage
            lineage |= new
            waiting += new
        return frozenset(lineage)

    def over_keys_of(self, identifier: int) -> frozenset[int]:
        """The ids of all segments of all epochs that share a key with a segment, its own included.

        Raises `ModelError` if it never existed.
        """
        if (ids := self._over_keys.get(identifier)) is None:
            ids = self._over_keys[identifier] = frozenset(self._ids_over(self.segment(identifier).keys))
        return ids

    def _ids_over(self, keys: KeyRange) -> Iterator[int]:
        number = 0
        while number < len(self.epochs):
            ids = [segment.id for segment in self.epochs[number].overlapping(keys)]
            yield from ids
            number = 1 + min(map(self._last_epoch.__getitem__, ids))  # until then these keys have the same segments

    def gaps(self, cut: Iterable[int]) -> tuple[KeyRange, ...]:
        """The parts of the key space that no segment of a cut covers, ascending; all segments are known."""
        members = frozenset(cut)
        if (missing := self._gaps.get(members)) is None:
            # A log has thousands of cuts in few sets of segments.
            missing = self._gaps[members] = gaps((self.segments[member].keys for member in members), within=self.space)
        return missing

    def spans(self, cut: Mapping[int, int | None]) -> Mapping[int, int]:
        """Epoch of each segment of a cut: the last with the segment, not later than its newest segment's creation.

        Raises `ModelError` for an unknown segment.
        """
        newest = max((self.segment(identifier).epoch for identifier in cut), default=0)
        return {identifier: min(self._last_epoch[identifier], newest) for identifier in cut}

    def __repr__(self) -> str:
        return f"StreamHistory({', '.join(map(repr, self.epochs))})"


def _names(segments: Iterable[Segment]) -> str:
    return ", ".join(segment.name for segment in segments)


def _texts(ranges: Iterable[KeyRange]) -> str:
    return ", ".join(keys.text for keys in ranges)


def _numbered(ranges: Iterable[KeyRange], first: int, epoch: int) -> tuple[Segment, ...]:
    return tuple(Segment(number, epoch, keys) for number, keys in enumerate(ranges, first))


def _parts(sealed: Sequence[Segment], count: int) -> tuple[KeyRange, ...]:
    union = joined_ranges(segment.keys for segment in sealed)
    if len(union) != 1:
        raise ModelError(
            f"The keys of {_names(sealed)} do not adjoin: {_texts(union)}.",
            remedy="Seal neighbours, or give the new ranges one by one.",
        )
    low, width = union[0].low, union[0].high - union[0].low
    return tuple(KeyRange(low + width * r.low, low + width * r.high) for r in even_ranges(count))
