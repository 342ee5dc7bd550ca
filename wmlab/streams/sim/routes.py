"""Which segment a writer sends a key to, as it believes right now.

A writer learns of a seal only when the store refuses an append, and then replaces the sealed segment by its
successors, but only where it had routed to that segment (upstream `StreamSegments.withReplacementRange`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from wmlab.streams.model.segment import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEYS = 2**64


@dataclass(frozen=True, slots=True)
class Route:
    """The keys from `low` to `high`, half open, go to `segment_id`."""

    low: Fraction
    high: Fraction
    segment_id: int


@dataclass(frozen=True, slots=True)
class Routes:
    """A writer's view of the key space: routes in ascending order of key."""

    routes: tuple[Route, ...]
    _lows: NDArray[np.uint64] = field(init=False, repr=False, compare=False)
    _narrow: np.dtype[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A key n/2**64 lies at or above `low` exactly when n >= ceil(low * 2**64).
        lows = [-(-route.low.numerator * _KEYS // route.low.denominator) for route in self.routes]
        object.__setattr__(self, "_lows", np.array(lows, np.uint64))
        object.__setattr__(self, "_narrow", np.min_scalar_type(len(lows)))

    @staticmethod
    def of(segments: Iterable[Segment]) -> Routes:
        """Route every key to the segment that holds it."""
        routes = [Route(segment.keys.low, segment.keys.high, segment.id) for segment in segments]
        return Routes(tuple(sorted(routes, key=lambda route: route.low)))

    def replace(self, sealed_id: int, successors: Sequence[Segment]) -> Routes:
        """Send the keys of a sealed segment to its successors instead."""
        routes: list[Route] = []
        for route in self.routes:
            if route.segment_id != sealed_id:
                routes.append(route)
                continue
            for successor in successors:
                low, high = max(route.low, successor.keys.low), min(route.high, successor.keys.high)
                if low < high:
                    routes.append(Route(low, high, successor.id))
        return Routes(tuple(sorted(routes, key=lambda route: route.low)))

    def split(self, keys: NDArray[np.uint64], events: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
        """The events of a batch by segment, ascending by key range, each in the order of the batch."""
        if len(self.routes) == 1:
            return [(self.routes[0].segment_id, events)]
        # Narrow integers are sorted in linear time; the sort is stable, which keeps the order of the batch.
        place = self._lows.searchsorted(keys, side="right").astype(self._narrow)
        by_place = events[place.argsort(kind="stable")]
        batches: dict[int, NDArray[np.int64]] = {}
        end = 0
        for index, count in enumerate(np.bincount(place).tolist()):
            if count:
                segment_id, part = self.routes[index - 1].segment_id, by_place[end : end + count]
                end += count
                other = batches.get(segment_id)
                batches[segment_id] = part if other is None else np.sort(np.concatenate([other, part]))
        return list(batches.items())
