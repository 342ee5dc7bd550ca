"""Step curves over time: how long each row holds, and the lag of a bound that stands still while the clock goes on.

A row holds from its time until that of the next row; the last one begins where the curve ends and has no length. What a
sentence says of a curve is computed from these intervals, so that it does not depend on how many rows there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from wmlab.core.charts.axis import Piece


def lengths_ms(at_ms: Sequence[int]) -> list[int]:
    """How long each row holds, in ms; the times ascend."""
    return [*(after - before for before, after in pairwise(at_ms)), *[0][: len(at_ms)]]


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """For how long which value was taken: in piece i each value from `first[i]` to `last[i]` for an equal time.

    All in ms. `weight` is the time of each piece, 1 for each if no piece has any.
    """

    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    weight: npt.NDArray[np.int64]

    @classmethod
    def of(cls, first: Iterable[int], last: Iterable[int], lengths: Iterable[int]) -> Spread:
        """From pieces with their lengths in ms."""
        begin, end, weight = (np.fromiter(values, np.int64) for values in (first, last, lengths))
        return cls(begin, end, weight if weight.any() else np.ones_like(weight))

    @property
    def pieces(self) -> list[Piece]:
        """The pieces, as an axis takes them."""
        return list(zip(self.first.tolist(), self.last.tolist(), self.weight.tolist(), strict=True))

    @property
    def total_ms(self) -> int:
        """The time of all pieces."""
        return int(self.weight.sum())

    def time_below(self, value: int) -> float:
        """For how long the value was less, in ms."""
        inside = np.clip(value - self.first, 0, self.last - self.first) / np.maximum(self.last - self.first, 1)
        return float((self.weight * np.where(self.last == self.first, self.first < value, inside)).sum())

    @property
    def median(self) -> int:
        """The least whole number such that the value was not larger for half of the time, or more."""
        low, high = int(self.first.min()), int(self.last.max())
        while low < high:
            middle = (low + high) // 2
            if 2 * self._time_up_to(middle) >= self.total_ms:
                high = middle
            else:
                low = middle + 1
        return low

    def _time_up_to(self, value: int) -> float:
        """For how long the value was this, or less, in ms."""
        return self.time_below(value) + float(self.weight[(self.first == value) & (self.last == value)].sum())

    @property
    def largest(self) -> int:
        """The largest value."""
        return int(self.last.max())
