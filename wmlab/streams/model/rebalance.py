"""Rebalancing: which segment a reader gives back, and who takes a free one.

A reader's load is the sum over its segments of a weight: one each, the bytes that remain to be read, or how far the
segment's time is behind, on top of a weight for being there. A reader gives a segment back when the larger of its load
and that of the least loaded reader shrinks by it, and it gives the one with which it shrinks most, of
several the lightest.

Source: PDP-33, Future Possibilities (rebalancing by time instead of bytes); upstream class `ReaderGroupStateManager`.
"""

from __future__ import annotations

from collections.abc import Mapping

from wmlab.streams.model.membership import Place

Loads = Mapping[str, Mapping[Place, int]]
"""Of each reader, the weight of each segment that it owns."""


def to_release(loads: Loads, reader: str, *, gain: int = 1) -> Place | None:
    """The segment that a reader should give back, or None.

    Nothing is given back for less than `gain`, nor the last segment of a reader. Raises `KeyError` for an unknown
    reader. Source: upstream class `ReaderGroupStateManager` (findSegmentToReleaseIfRequired).
    """
    mine = loads[reader]
    load = sum(mine.values())
    least = min((sum(other.values()) for name, other in loads.items() if name != reader), default=load)
    if len(mine) < 2:
        return None
    larger = {place: max(load - weight, least + weight) for place, weight in mine.items()}
    best = min(mine, key=lambda place: (larger[place], mine[place], place))
    return best if load - larger[best] >= gain else None


def is_least_loaded(loads: Loads, reader: str) -> bool:
    """Whether a free segment is for this reader: the least loaded, of those the one with fewest segments, by name.

    Source: upstream class `ReaderGroupStateManager` (the acquire timer grows with the load).
    """
    return reader == min(loads, key=lambda name: (sum(loads[name].values()), len(loads[name]), name))


def fair_share(segments: int, readers: int) -> int:
    """How many segments a reader may own: its even share, rounded up.

    Source: upstream class `ReaderGroupStateManager` (calculateNumSegmentsToAcquire).
    """
    return -(-segments // max(1, readers))
