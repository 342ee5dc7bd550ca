"""The windowed operator of a query in motion: what it has built, which windows fire, and what the probe is given.

Source: "Watermarking and Progress", Triggering windows; the rules are those of `wmlab.progress.model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wmlab.progress.model.firing import Fired, Firing, FiringRules, Late
from wmlab.progress.model.identifiers import ChunkBase, TupleBuffer
from wmlab.progress.model.join import JoinTables
from wmlab.progress.model.outputs import aggregated, joined
from wmlab.progress.model.slices import Windows
from wmlab.progress.scenario.origins import BUILD, Origins
from wmlab.progress.scenario.parts import Aggregate, Join, Query
from wmlab.progress.sim.steps import Filled


@dataclass(frozen=True, slots=True)
class Output:
    """A fired window as the probe is given it: one task per stamp, with the number of results of each."""

    window: Fired
    stamps: tuple[TupleBuffer, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """A slice of a join, with its records left and right."""

    start: int
    end: int
    left: int
    right: int


class Windowing:
    """The windows of one query: `firing` says when, `tables` hold what a join matches."""

    def __init__(self, query: Query, part: Aggregate | Join, origins: Origins, base: ChunkBase) -> None:
        slide = part.size_ms if part.slide_ms is None else part.slide_ms
        self.windows = Windows(part.size_ms, slide)
        self.firing = Firing(FiringRules(windows=self.windows, trigger=part.trigger, forget_fired=part.forget_fired))
        self.tables = JoinTables(self.windows) if isinstance(part, Join) else None
        self._sides = _sides(query, part, origins)
        self._origin = origins.ids[BUILD]
        self._base = base

    def build(self, buffer: Filled) -> tuple[Late, ...]:
        """Take the records of a buffer; those that come too late are named."""
        assert buffer.rows is not None
        times = buffer.rows.time.tolist()
        self.firing, late = self.firing.fill(times)
        if self.tables is not None:
            self.tables = self.tables.build(times, buffer.rows.key.tolist(), self._sides[buffer.stamp.origin])
        return late

    def advance(self, watermark: int | None) -> list[Output]:
        """The windows that the global watermark fires."""
        self.firing, fired = self.firing.advance(watermark)
        return [self._output(window) for window in fired]

    def end(self) -> list[Output]:
        """The windows that are left at the end of the stream."""
        self.firing, fired = self.firing.end()
        return [self._output(window) for window in fired]

    def collect(self, watermark: int | None) -> list[Collected]:
        """The slices that the probe has done with at its watermark."""
        if self.tables is None:
            return []
        before = self.tables
        self.tables, gone = before.collect(watermark)
        return [self._slice(before, start) for start in gone]

    def left_over(self) -> list[Collected]:
        """The slices that the probe has never thrown away."""
        tables = self.tables
        return [] if tables is None else [self._slice(tables, start) for start, _ in tables.slices]

    def slices(self, times: Sequence[int]) -> dict[int, int]:
        """How many of these times fall in each slice, by its start, ascending."""
        counts: dict[int, int] = {}
        for time in times:
            start = self.windows.slice_of(time)[0]
            counts[start] = counts.get(start, 0) + 1
        return dict(sorted(counts.items()))

    def _output(self, window: Fired) -> Output:
        if self.tables is None:
            return Output(window, aggregated(window, self._origin, self._base), (1,))
        pairs = self.tables.pairs(window.start, window.end)
        stamps = joined(window, len(pairs), self._origin, self._base)
        return Output(window, stamps, tuple(self.tables.matches(*pair) for pair in pairs) or (0,))

    def _slice(self, tables: JoinTables, start: int) -> Collected:
        return Collected(*self.windows.slice_of(start), *tables.records(start))


def _sides(query: Query, part: Aggregate | Join, origins: Origins) -> Mapping[int, int]:
    """The side of each origin of a join, 0 for left and 1 for right."""
    left = (part.left or (query.sources[0].name,)) if isinstance(part, Join) else ()
    return {origin: int(name not in left) for name, origin in origins.at_end.items()}
