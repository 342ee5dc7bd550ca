"""A windowed join: what both sides have built in each slice, which pairs of slices the probe matches, and when it ends.

    call      side    does
    build     build   adds the records of a buffer to the table of their slice and side
    pairs     probe   the pairs of slices of a window in which both sides have records; each is a task and a chunk
    matches   probe   how many pairs of records with equal keys a pair of slices has
    collect   probe   throws away the slices [s, e) with e + size < W, W being the watermark of the probe

The probe's watermark is that of the join's own outputs, which carry the start of their window: a slice is needed until
no window that holds it can still be probed.

Source: "Watermarking and Progress", Triggering windows; upstream classes `StreamJoinOperatorHandler`,
`StreamJoinProbePhysicalOperator` and `DefaultTimeBasedSliceStore` (garbage collection of slices).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wmlab.core.errors import ModelError
from wmlab.progress.model.number_map import NumberMap
from wmlab.progress.model.slices import Windows

Side = Literal[0, 1]
"""0: left, 1: right."""
Tables = tuple[NumberMap[int], NumberMap[int]]
"""Of one slice, left and right: how many records each key has."""
_EMPTY: Tables = (NumberMap(), NumberMap())


@dataclass(frozen=True, slots=True)
class JoinTables:
    """The tables of all slices, by the start of the slice. Source: as the module."""

    windows: Windows
    slices: NumberMap[Tables] = field(default_factory=NumberMap)

    def build(self, times: Sequence[int], keys: Sequence[int], side: int) -> JoinTables:
        """The tables after the records of one buffer of a side; `times` and `keys` are parallel.

        Raises `ModelError` for a side that does not exist and for a negative time or key. Source: as the module.
        """
        if side not in (0, 1):
            raise ModelError(f"There is no side {side} of a join.", remedy="Give 0 for left or 1 for right.")
        slices = self.slices
        for time, key in zip(times, keys, strict=True):
            start, _ = self.windows.slice_of(time)
            left, right = slices.get(start) or _EMPTY
            mine = (left, right)[side]
            mine = mine.put(key, (mine.get(key) or 0) + 1)
            slices = slices.put(start, (mine, right) if side == 0 else (left, mine))
        return replace(self, slices=slices)

    def records(self, start: int) -> tuple[int, int]:
        """How many records the slice has left and right. Source: as the module."""
        left, right = self.slices.get(start) or _EMPTY
        return sum(count for _, count in left), sum(count for _, count in right)

    def pairs(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """The pairs (left slice, right slice) of the window [start, end), by the starts of the slices.

        Source: upstream class `StreamJoinOperatorHandler` (triggering of slices).
        """
        left, right = [], []
        while start < end:
            tables = self.slices.get(start) or _EMPTY
            left += [start] if tables[0] else []
            right += [start] if tables[1] else []
            start = self.windows.slice_of(start)[1]
        return tuple((one, other) for one in left for other in right)

    def matches(self, left: int, right: int) -> int:
        """How many pairs of records of two slices have equal keys.

        Source: upstream class `StreamJoinProbePhysicalOperator`.
        """
        ours, theirs = (self.slices.get(left) or _EMPTY)[0], (self.slices.get(right) or _EMPTY)[1]
        return sum(count * (theirs.get(key) or 0) for key, count in ours)

    def collect(self, watermark: int | None) -> tuple[JoinTables, tuple[int, ...]]:
        """The tables without the slices that the probe has done with, and the starts of these, ascending.

        `watermark` is the probe's, None: unknown. Source: upstream class `DefaultTimeBasedSliceStore`.
        """
        kept: NumberMap[Tables] = self.slices
        gone: list[int] = []
        while watermark is not None and (first := kept.first()) is not None:
            if self.windows.slice_of(first[0])[1] + self.windows.size >= watermark:
                break
            kept = kept.without(first[0])
            gone.append(first[0])
        return (replace(self, slices=kept), tuple(gone)) if gone else (self, ())
