"""A chart's axis: a range of time, and how to read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wmlab.core.charts.steps import Value
from wmlab.core.charts.ticks import Tick, Unit, duration_ticks, instant_ticks, years


@dataclass(frozen=True, slots=True)
class Axis:
    """A range in ms and how to read it: as instants in UTC, or as durations in `unit`."""

    name: str
    low: int
    high: int
    instants: bool
    unit: Unit

    @property
    def title(self) -> str:
        """Name and unit."""
        if self.instants:
            return f"{self.name} (UTC, {years(self.low, self.high)})"
        return f"{self.name} ({self.unit.symbol})"

    def ticks(self, count: int) -> list[Tick]:
        """At most `count` + 1 ticks inside the range."""
        if self.instants:
            return instant_ticks(self.low, self.high, count=count)
        return duration_ticks(self.low, self.high, count=count, unit=self.unit)

    def plotted(self, values: Iterable[Value]) -> list[float | None]:
        """Values as a plotly axis takes them: ms for instants, otherwise numbers of the unit."""
        if self.instants:
            return list(values)
        return [None if value is None else self.unit.scale(value) for value in values]


def unlabelled(labels: Sequence[object | None]) -> str:
    """What to add to the subtitle if some happenings have no room for their label."""
    count = labels.count(None)
    if not count:
        return ""
    if len(labels) == 1:
        return " What happened is marked without a label."
    return f" {count} of {len(labels)} happenings are marked without a label."
