"""Segments: the parts of a stream, their names, and the ranges of keys that they divide among them.

A segment's 64-bit id is epoch * 2^32 + number. So of two segments over the same key the later one has the larger id.
People write it as "number@epoch".

Key ranges are half-open intervals of the key space [0, 1) with exact rational bounds. Pravega computes the ranges of a
new stream in doubles; for 49, 98, 103 and 79 other counts up to 1000 the last range then ends just below 1. Its
completeness test can never succeed. `even_ranges` offers both arithmetics.

The hash of a routing key is not Pravega's; it keeps what matters to watermarks: it is stable, equal keys go to the same
key range, and different keys spread evenly.

Source: PDP-33, Overview and Watermark Computation; upstream classes `NameUtils`, `SegmentWithRange`, `RecordHelper`,
`StreamSegmentRecord`, `HashHelper`, `WatermarkWorkflow` and `CreateStreamTask`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from itertools import pairwise
from numbers import Integral
from typing import Literal

from wmlab.core import words
from wmlab.core.errors import ModelError

Arithmetic = Literal["exact", "double"]


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """Half-open range [low, high) with 0 <= low < high <= 1, as exact rationals.

    Raises `ModelError` when the bounds are reversed, equal or outside [0, 1].
    """

    low: Fraction
    high: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise ModelError(
                f"{self.low}..{self.high} is not a key range.", remedy="Give bounds with 0 <= low < high <= 1."
            )

    @classmethod
    def of(cls, low: Fraction | int | str | float, high: Fraction | int | str | float) -> KeyRange:
        """A range from anything a rational can be made of: 0, "1/3", 0.5; doubles are taken exactly.

        Raises `ModelError` for text that is not a rational.
        """
        return cls(_rational(low), _rational(high))

    @classmethod
    def parse(cls, text: str) -> KeyRange:
        """The inverse of `text`. Raises `ModelError` for anything else."""
        low, separator, high = text.partition("..")
        if not separator:
            raise ModelError(f"{text!r} is not a key range.", remedy='Write it as "low..high", for example "1/3..2/3".')
        return cls.of(low, high)

    @property
    def text(self) -> str:
        """The exact range in one word, for example "1/3..2/3"."""
        return f"{self.low}..{self.high}"

    def overlaps(self, other: KeyRange) -> bool:
        """Whether the two ranges share a key; touching ranges do not."""
        return self.low < other.high and other.low < self.high

    def __repr__(self) -> str:
        return f"KeyRange({self.text})"


WHOLE = KeyRange(Fraction(0), Fraction(1))
"""The whole key space."""


def even_ranges(count: int, *, arithmetic: Arithmetic = "exact") -> tuple[KeyRange, ...]:
    """The ranges of a new stream with `count` segments, ascending.

    "exact" divides in rationals; "double" repeats Pravega's i * (1.0 / count), whose last high may be below 1.
    Raises `ModelError` for a count below 1.
    """
    if count < 1:
        raise ModelError(f"A stream cannot have {count} segments.", remedy="Give at least one segment.")
    width = Fraction(1, count) if arithmetic == "exact" else 1.0 / count
    return tuple(KeyRange(low, high) for low, high in pairwise(Fraction(i * width) for i in range(count + 1)))


def gaps(ranges: Iterable[KeyRange], *, within: KeyRange = WHOLE) -> tuple[KeyRange, ...]:
    """The parts of `within` that no range covers, ascending and as large as possible; overlaps are admitted."""
    missing = []
    reached = within.low
    for keys in sorted(ranges):
        if keys.low >= within.high:
            break
        if keys.low > reached:
            missing.append(KeyRange(reached, keys.low))
        reached = max(reached, keys.high)
    if reached < within.high:
        missing.append(KeyRange(reached, within.high))
    return tuple(missing)


def joined_ranges(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """The same key space in as few ranges as possible, ascending."""
    result: list[KeyRange] = []
    for keys in sorted(ranges):
        if result and keys.low <= result[-1].high:
            result[-1] = KeyRange(result[-1].low, max(result[-1].high, keys.high))
        else:
            result.append(keys)
    return tuple(result)


def same_space(a: Iterable[KeyRange], b: Iterable[KeyRange]) -> bool:
    """Whether both sets are free of overlaps and cover exactly the same keys; Pravega tests that on doubles."""
    first, second = sorted(a), sorted(b)
    are_free = all(left.high <= right.low for ranges in (first, second) for left, right in pairwise(ranges))
    return are_free and joined_ranges(first) == joined_ranges(second)


def _rational(value: Fraction | int | str | float) -> Fraction:
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise ModelError(f"{value!r} is not a number.", remedy='Give a number or a rational such as "1/3".') from error


_NUMBER_BITS = 32
_LIMIT = 2**31
_END = _LIMIT << _NUMBER_BITS
_NAME = re.compile(r"([0-9]{1,10})@([0-9]{1,10})")


def segment_id(number: int, epoch: int) -> int:
    """The 64-bit id epoch * 2^32 + number. Raises `ModelError` unless both are in 0 .. 2^31 - 1."""
    if not (0 <= number < _LIMIT and 0 <= epoch < _LIMIT):
        raise ModelError(
            f"{number}@{epoch} is not a segment.", remedy="Give a number and an epoch between 0 and 2^31 - 1."
        )
    return (epoch << _NUMBER_BITS) + number


def split_id(identifier: int) -> tuple[int, int]:
    """(number, epoch) of a 64-bit id. Raises `ModelError` for an id that `segment_id` cannot give."""
    number, epoch = identifier & (2**_NUMBER_BITS - 1), identifier >> _NUMBER_BITS
    if segment_id(number, epoch) != identifier:
        raise ModelError(f"{identifier} is not a segment id.", remedy='Give epoch * 2^32 + number, or "number@epoch".')
    return number, epoch


def segment_name(segment: int | str) -> str:
    """The name of a segment, "number@epoch", as charts and answers write it: of 4294967298 it is "2@1".

    Raises `ModelError` for what is neither an id of the tables nor such a name.
    """
    return words.number_at_epoch(as_segment_id(segment))


def parse_segment(text: str) -> int:
    """The id of "number@epoch". Raises `ModelError` for other text."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise ModelError(f"{text!r} is not a segment.", remedy='Write it as "number@epoch", for example "0@0".')
    return segment_id(int(match[1]), int(match[2]))


def as_segment_id(segment: int | str) -> int:
    """The id of a segment, epoch * 2^32 + number, as tables have it in `segment_id`: of "2@1" it is 4294967298.

    An id stays as it is. Raises `ModelError` for what is neither an id nor a name "number@epoch".
    """
    if type(segment) is int and 0 <= segment < _END and segment & (2**_NUMBER_BITS - 1) < _LIMIT:
        return segment  # what nearly all are: looking for other kinds of whole numbers costs five times as much
    if isinstance(segment, str):
        return parse_segment(segment)
    if isinstance(segment, bool) or not isinstance(segment, Integral):
        raise ModelError(
            f"{words.shown(segment)} is not a segment.",
            remedy='Write it as "number@epoch", for example "2@1", or give its id, epoch * 2^32 + number.',
        )
    split_id(int(segment))
    return int(segment)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment: number, creation epoch, key range."""

    number: int
    epoch: int
    keys: KeyRange

    def __post_init__(self) -> None:
        segment_id(self.number, self.epoch)

    @classmethod
    def parse(cls, identifier: int, keys: str) -> Segment:
        """The segment with this 64-bit id and the key range of this text; raises `ModelError` for any other."""
        return cls(*split_id(identifier), KeyRange.parse(keys))

    @property
    def id(self) -> int:
        """The 64-bit id epoch * 2^32 + number."""
        return (self.epoch << _NUMBER_BITS) + self.number

    @property
    def name(self) -> str:
        """ "number@epoch"."""
        return f"{self.number}@{self.epoch}"

    def __repr__(self) -> str:
        return f"Segment({self.name} {self.keys.text})"


def overlapping(division: Sequence[Segment], keys: KeyRange) -> Sequence[Segment]:
    """Of segments that do not overlap, ascending by key: those that share a key with a range."""
    first = bisect_right(division, keys.low, key=lambda segment: segment.keys.high)
    return division[first : bisect_left(division, keys.high, first, key=lambda segment: segment.keys.low)]


def key_of(text: str) -> Fraction:
    """The key in [0, 1) of a routing key, a multiple of 2^-64."""
    return Fraction(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big"), 2**64)
