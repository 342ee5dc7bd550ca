"""A segment's offsets cut into intervals of constant bounds, and the table in which a position finds its interval.

A fresh tracker stops at the first watermark that is ahead of the position. Seen from one segment, only a watermark
that reaches further than all before it can be that first one, so each such step begins a new interval of offsets.
This holds for cuts that move back too (Pravega's own algorithm can make them).

The table is a regular grid over the offsets, of a width that is a power of two. A cell tells the interval at its
start or, when more intervals begin inside it, the complement of that; then a binary search over the few begins of
one cell decides. Its depth fits the fullest cell, so unevenly spread watermarks cost time and never the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from wmlab.streams.bounds.seen import ALWAYS, BELOW, NEVER, Extremes, Flags, Longs, Marks, Ranges, Runs

RECORD: Final = 5
"""Numbers in the record of an interval."""
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
    runs = Runs.of(marks, ranges)
    for segment in sorted(ranges.known.keys() | set(runs.segment.tolist())):
        place, reach = runs.cuts_of(segment, marks)
        older, newer = runs.sides(segment, *ranges.known.get(segment, (np.nan, np.nan)))
        never, mixed = newer & ~older, newer & older
        # A run that compares alike throughout is passed up to its last watermark, or stops the tracker at its first.
        other = np.where(never, runs.first, runs.last), np.where(never, NEVER, ALWAYS), ~mixed
        yield segment, _merged((place, reach, np.ones(len(place), np.bool_)), other, ~runs.naming(segment))


def of_gaps(log: Extremes) -> Iterator[tuple[int, int, Intervals]]:
    """One interval for all unknown segments with after < id < before, for neighbouring ids of the cuts.

    A segment of unknown range is compared with all segments of a cut, so the least and the most of them decide.
    """
    ids = np.unique(np.concatenate([log.least, log.most, [BELOW, NEVER]])).tolist()
    place = np.arange(len(log.seq))
    for after, before in pairwise(ids):
        older, newer = log.least <= after, log.most > after
        yield after, before, intervals(place, np.where(newer & ~older, NEVER, ALWAYS), ~(newer & older))


def _merged(own: tuple[Longs, Longs, Flags], other: tuple[Longs, Longs, Flags], which: Flags) -> Intervals:
    if not which.any():
        return intervals(*own)
    place, reach, decided = (np.append(mine, theirs[which]) for mine, theirs in zip(own, other, strict=True))
    order = np.argsort(place, kind="stable")
    return intervals(place[order], reach[order], decided[order])


@dataclass(frozen=True, slots=True)
class Lookup:
    """One segment's table in one row of numbers: first the cells of its grid, then a record per interval.

    A record is `RECORD` numbers: start, lower, upper, lower_seq, upper_seq. Cell `min(offset >> shift, last)` holds the
    index of the record at its start, or the complement of it when more records start inside the cell. Then `steps`
    are the jumps of a binary search for the last record that starts at or before the offset, largest first.
    """

    shift: int
    last: int
    steps: Longs
    numbers: pa.Array

    @classmethod
    def of(cls, marks: Marks, found: Intervals) -> Lookup:
        """The table of a segment with these intervals."""
        starts = found.starts
        wanted = max(2 * len(starts), min(_CELLS_PER_INTERVAL * len(starts), _MANY_CELLS))
        shift = (int(starts[-1]) // wanted).bit_length()
        last = int(starts[-1]) >> shift
        edges = np.arange(last + 1, dtype=np.int64) << shift
        first = np.searchsorted(starts, edges, side="right") - 1
        inside = np.append(np.searchsorted(starts, edges[1:], side="left"), len(starts)) - 1 - first
        index = len(edges) + RECORD * first
        steps = RECORD << np.arange(int(inside.max()).bit_length())[::-1]
        cells = pa.array(np.where(inside > 0, ~index, index))
        return cls(shift, last, steps, pa.concat_arrays([cells, _records(marks, found)]))


def _records(marks: Marks, found: Intervals) -> pa.Array:
    bounds = bounds_of(marks, found.lower, found.upper).values()
    values = np.column_stack([found.starts, *(bound.fill_null(0).to_numpy() for bound in bounds)])
    nowhere = np.zeros(len(found.starts), np.bool_)
    unknown = np.column_stack([nowhere, *(np.asarray(bound.is_null()) for bound in bounds)])
    return pa.array(values.ravel(), mask=unknown.ravel())


def bounds_of(log: Marks | Extremes, lower: Longs, upper: Longs) -> dict[str, pa.Array]:
    """Bounds by column, from the places of the watermarks that give them; null where there is none (-1)."""

    def at(values: Longs, place: Longs) -> pa.Array:
        return pa.array(values[np.maximum(place, 0)] if len(values) else place, mask=place < 0)

    return {
        "lower": at(log.lower, lower),
        "upper": at(log.upper, upper),
        "lower_seq": at(log.seq, lower),
        "upper_seq": at(log.seq, upper),
    }
