"""A segment's offsets cut into intervals of constant bounds, and the table in which a position finds its interval.

A fresh tracker stops at the first watermark that is ahead of the position. Seen from one segment, only a watermark
that reaches further than all before it can be that first one, so each such step begins a new interval of offsets.
This holds for cuts that move back too (Pravega's own algorithm can make them).

The table is a regular grid over the offsets, of a width that is a power of two. A cell holds the interval at its
start or, when more intervals begin inside it, the complement of that; then a binary search over the few begins of
one cell decides. Its depth fits the fullest cell, so unevenly spread watermarks cost time and never the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from wmlab.spark.seen import ALWAYS, FIRST, NEVER, Flags, Longs, Marks, Ranges, Runs

_CELLS_PER_INTERVAL: Final = 8
_MANY_CELLS: Final = 1 << 16
"""From here on two cells per interval have to do: the table is sent to every executor."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of offsets: `starts` ascending from 0, the last one open; places in the log, -1: none."""

    starts: Longs
    lower: Longs
    upper: Longs


def intervals(place: Longs, reach: Longs, decided: Flags) -> Intervals:
    """The intervals of a segment that passes the watermark at `place[i]` from offset `reach[i]` on.

    Places ascend. Where not `decided`, the watermark is undecided ("mixed") at every offset.
    """
    furthest = np.maximum.accumulate(np.append(ALWAYS, np.where(decided, reach, ALWAYS)))
    stops = np.flatnonzero(decided & (reach > furthest[:-1]))
    passed = np.maximum.accumulate(np.append(-1, np.where(decided, place, -1)))
    starts, lower, upper = furthest[:-1][stops], passed[:-1][stops], place[stops]
    if furthest[-1] < NEVER:
        mixed = place[~decided]
        starts, lower = np.append(starts, furthest[-1]), np.append(lower, passed[-1])
        upper = np.append(upper, mixed[-1] if len(mixed) else -1)
    return Intervals(starts, lower, upper)


def of_segments(marks: Marks, ranges: Ranges) -> Iterator[tuple[int, Intervals]]:
    """The intervals of every segment that is known or named in a cut, by id."""
    runs, named = Runs.of(marks, ranges), marks.by_segment()
    for segment in sorted(named.keys() | ranges.known.keys()):
        place, reach = named.get(segment, (_NONE, _NONE))
        low, high = ranges.known.get(segment, (np.nan, np.nan))
        other = _whole_runs(runs, *runs.sides(segment, low, high), ~runs.naming(segment))
        yield segment, _merged((place, reach, np.ones(len(place), np.bool_)), other)


def of_gaps(marks: Marks, ranges: Ranges) -> Iterator[tuple[int, int, Intervals]]:
    """One interval for all unknown segments with after < id < before, for the neighbouring ids of all cuts."""
    runs = Runs.of(marks, ranges)
    ids = [FIRST, *np.unique(runs.segment).tolist(), NEVER]
    everywhere = np.ones(len(runs.first), np.bool_)
    for after, before in zip(ids[:-1], ids[1:], strict=True):
        older, newer = runs.sides(after, np.nan, np.nan)
        yield after, before, intervals(*_whole_runs(runs, older, newer, everywhere))


def _whole_runs(runs: Runs, older: Flags, newer: Flags, which: Flags) -> tuple[Longs, Longs, Flags]:
    """Places, reaches and decidedness of runs that compare alike from their first watermark to their last.

    A run is passed up to its last watermark, or it stops the tracker at its first.
    """
    never = newer & ~older
    place = np.where(never, runs.first, runs.last)
    return place[which], np.where(never, NEVER, ALWAYS)[which], ~(older & newer)[which]


def _merged(own: tuple[Longs, Longs, Flags], other: tuple[Longs, Longs, Flags]) -> Intervals:
    if not len(other[0]):
        return intervals(*own)
    place, reach, decided = (np.concatenate(pair) for pair in zip(own, other, strict=True))
    order = np.argsort(place, kind="stable")
    return intervals(place[order], reach[order], decided[order])


_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Grid:
    """Where to look for an offset: cell `min(offset >> shift, last)` of `first`, then by `steps` through the starts.

    `first` holds a place in the intervals, or its complement when the cell has further starts; `steps` are the jumps
    of the binary search, largest first.
    """

    shift: int
    last: int
    first: Longs
    steps: Longs

    @classmethod
    def over(cls, starts: Longs) -> Grid:
        """The grid over intervals that start there."""
        wanted = max(2 * len(starts), min(_CELLS_PER_INTERVAL * len(starts), _MANY_CELLS))
        top = int(starts[-1])
        shift = max(0, (top // wanted).bit_length())
        last = top >> shift
        edges = np.arange(last + 1, dtype=np.int64) << shift
        first = np.searchsorted(starts, edges, side="right") - 1
        inside = np.append(np.searchsorted(starts, edges[1:], side="left"), len(starts)) - 1 - first
        depth = int(inside.max()).bit_length()
        return cls(shift, last, np.where(inside > 0, ~first, first), 1 << np.arange(depth)[::-1])


def bounds_of(marks: Marks, found: Intervals) -> dict[str, pa.Array]:
    """The bounds of the intervals, by column; null: unknown."""

    def at(values: Longs, place: Longs) -> pa.Array:
        return pa.array(values[place], mask=place < 0)

    return {
        "lower": at(marks.lower, found.lower),
        "upper": at(marks.upper, found.upper),
        "lower_seq": at(marks.seq, found.lower),
        "upper_seq": at(marks.seq, found.upper),
    }
