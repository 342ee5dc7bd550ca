"""Epochs: what a stream is made of between two changes, and what makes a sequence of them a history.

An epoch lists all segments active in it, those it created and those carried over. Neither overlaps nor gaps are
admitted, and the key space never changes from one epoch to the next.

Source: PDP-33, Watermark Computation (epoch record); upstream classes `EpochRecord` and `RecordHelper`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.streams.model.keyspace import KeyRange, joined, overlap_free
from wmlab.streams.model.segment import Segment

EpochKind = Literal["create", "scale", "rolling"]
_ROUNDING = Fraction(1, 2**50)


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch and the segments active in it, ascending; `reference` is the epoch that a duplicate copies.

    Raises `ModelError` when there is no segment or one was created later. Source: upstream class `EpochRecord`.
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
        """The ids of its segments, ascending. Source: upstream class `EpochRecord`."""
        return tuple(segment.id for segment in self.segments)

    def __repr__(self) -> str:
        names = ", ".join(segment.name for segment in self.segments)
        copied = "" if self.reference is None else f" of {self.reference}"
        return f"Epoch({self.number} {self.kind}{copied}: {names})"


def checked_members(epochs: tuple[Epoch, ...]) -> tuple[Mapping[int, Segment], Mapping[int, int]]:
    """All segments by id, and the last epoch of each, if the epochs are a history.

    Raises `ModelError` unless the epochs are numbered 0, 1, 2 ..., each covers the key space of the first one once,
    and each segment is new in the epoch of its id and, once gone, stays away.
    Source: upstream classes `EpochRecord` and `RecordHelper`.
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
    """The ranges, for a message. Source: PDP-33, Watermark Computation."""
    return ", ".join(keys.text for keys in ranges)
