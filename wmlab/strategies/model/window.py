"""Quantiles of the last values of a stream, exact over a window and approximate over all of it.

The quantile at `share` of n values is the smallest of them that at least `share` of them do not exceed: the one of
rank ceil(share * n), counted from 1 in ascending order, and the least one for a share of 0. This is the inverse of
the empirical distribution function, without interpolation, so a quantile is always one of the values.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil, log, log1p
from typing import Final

_ROUNDING: Final = 1e-9
"""A share such as 0.07 is no exact double: 0.07 * 100 must have rank 7."""


def rank(share: float, count: int) -> int:
    """The rank from 1 to `count` of the quantile at `share`, from 0 to 1.

    >>> rank(0.95, 20), rank(0.07, 100), rank(0, 5), rank(1, 5)
    (19, 7, 1, 5)
    """
    return min(count, max(1, ceil(share * count - _ROUNDING)))


class SlidingWindow:
    """The last `size` values. Adding one costs O(log size) comparisons and one move within a list."""

    __slots__ = ("_arrived", "_ascending", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._arrived: deque[int] = deque()
        self._ascending: list[int] = []

    def __len__(self) -> int:
        return len(self._ascending)

    def add(self, value: int) -> None:
        """One more value, in place of the oldest one if the window is full."""
        ascending = self._ascending
        if len(ascending) == self._size:
            del ascending[bisect_left(ascending, self._arrived.popleft())]
        self._arrived.append(value)
        insort(ascending, value)

    def quantile(self, share: float) -> int:
        """The quantile at `share` of the values in the window, which must not be empty."""
        return self._ascending[rank(share, len(self._ascending)) - 1]

    def largest(self, count: int) -> list[int]:
        """The `count` largest values, in descending order; fewer if there are not as many."""
        return self._ascending[: -count - 1 : -1]

    def bound(self, share: float) -> int:
        """The quantile at `share` when one more value counts that is above all; the largest value stands for that one.

        The next value is at most this with a probability of at least `share`, if all come in an order that does not
        matter and there are enough of them: the quantile of conformal prediction.
        """
        count = len(self._ascending)
        return self._ascending[min(count, rank(share, count + 1)) - 1]


class QuantileSketch:
    """All values so far, none of them negative, counted in buckets that grow by a factor; a quantile is approximate.

    It is one of the values, at least the exact quantile, and above it by less than the share `accuracy`. 64-bit values
    fill at most ln(2^63) / ln(1 + accuracy) buckets, 4,400 for one percent. Source: DDSketch (Masson, Rim and Lee,
    VLDB 2019), with the largest value of a bucket in place of its middle and without a limit of buckets.
    """

    __slots__ = ("_buckets", "_width", "count")

    def __init__(self, accuracy: float) -> None:
        self._width = log1p(accuracy)
        self._buckets: dict[int, tuple[int, int]] = {}
        self.count = 0

    def add(self, value: int) -> None:
        """One more value."""
        bucket = int(log(value) / self._width) if value > 0 else -1
        held, largest = self._buckets.get(bucket, (0, 0))
        self._buckets[bucket] = held + 1, max(largest, value)
        self.count += 1

    def quantile(self, share: float) -> int:
        """The largest value of the bucket with the quantile at `share`; at least one value must have been added."""
        left = rank(share, self.count)
        for bucket in sorted(self._buckets):
            held, largest = self._buckets[bucket]
            left -= held
            if left <= 0:
                break
        return largest
