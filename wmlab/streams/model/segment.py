"""Segments: what a stream is cut into, and how they are named.

A segment has a number, the epoch that created it, and a key range. Its 64-bit id is epoch * 2^32 + number, so that
of two segments over the same key the later one has the larger id. People write it as "number@epoch".

Source: PDP-33, Watermark Computation (successor relation); upstream class `NameUtils`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wmlab.core import words
from wmlab.core.errors import ModelError
from wmlab.streams.model.keyspace import KeyRange

_NUMBER_BITS = 32
_LIMIT = 2**31
_NAME = re.compile(r"(\d+)@(\d+)")


def segment_id(number: int, epoch: int) -> int:
    """The 64-bit id epoch * 2^32 + number.

    Raises `ModelError` unless both are in 0 .. 2^31 - 1. Source: upstream class `NameUtils` (computeSegmentId).
    """
    if not (0 <= number < _LIMIT and 0 <= epoch < _LIMIT):
        raise ModelError(
            f"{number}@{epoch} is not a segment.", remedy="Give a number and an epoch between 0 and 2^31 - 1."
        )
    return (epoch << _NUMBER_BITS) + number


def split_id(identifier: int) -> tuple[int, int]:
    """(number, epoch) of a 64-bit id.

    Raises `ModelError` for an id that `segment_id` cannot give. Source: upstream class `NameUtils`.
    """
    number, epoch = identifier & (2**_NUMBER_BITS - 1), identifier >> _NUMBER_BITS
    if segment_id(number, epoch) != identifier:
        raise ModelError(f"{identifier} is not a segment id.", remedy="Give epoch * 2^32 + number.")
    return number, epoch


def segment_name(identifier: int) -> str:
    """The id as "number@epoch". Raises `ModelError` for a negative id. Source: upstream class `NameUtils`."""
    split_id(identifier)
    return words.segment_name(identifier)


def parse_segment(text: str) -> int:
    """The id of "number@epoch". Raises `ModelError` for other text. Source: upstream class `NameUtils`."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise ModelError(f"{text!r} is not a segment.", remedy='Write it as "number@epoch", for example "0@0".')
    return segment_id(int(match[1]), int(match[2]))


def as_segment_id(segment: int | str) -> int:
    """The id, given either as such or as "number@epoch".

    Raises `ModelError` when it is neither. Source: upstream class `NameUtils`.
    """
    if isinstance(segment, str):
        return parse_segment(segment)
    split_id(segment)
    return segment


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment: number, creation epoch, key range.

    Source: PDP-33, Watermark Computation; upstream class `StreamSegmentRecord`.
    """

    number: int
    epoch: int
    keys: KeyRange

    def __post_init__(self) -> None:
        segment_id(self.number, self.epoch)

    @property
    def id(self) -> int:
        """The 64-bit id epoch * 2^32 + number. Source: upstream class `NameUtils`."""
        return (self.epoch << _NUMBER_BITS) + self.number

    @property
    def name(self) -> str:
        """ "number@epoch". Source: upstream class `NameUtils`."""
        return f"{self.number}@{self.epoch}"

    def __repr__(self) -> str:
        return f"Segment({self.name} {self.keys.text})"
