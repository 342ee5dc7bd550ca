"""Which segment a writer sends a key to, as it believes right now.

A writer learns of a seal only when the store refuses an append, and then replaces the sealed segment by its
successors, but only where it had routed to that segment (upstream `StreamSegments.withReplacementRange`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from wmlab.model.segment import Segment

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
        # A key n/2**64 lies at or above `low` exactly when n >= ceil(low * 2**64).
        lows = np.array([-(-route.low.numerator * _KEYS // route.low.denominator) for route in self.routes], np.uint64)
        place = np.searchsorted(lows, keys, side="right") - 1
        batches: dict[int, list[NDArray[np.int64]]] = {}
        for index in np.unique(place):
            batches.setdefault(self.routes[index].segment_id, []).append(events[place == index])
        return [
            (segment_id, np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0])
            for segment_id, parts in batches.items()
        ]
