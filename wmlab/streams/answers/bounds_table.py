"""The bounds at the position of a group, or those that a reader saw, over the clock, and what readers saw at polls.

The bound at a position is what the log says there; nobody need have seen it. The lower bound says that no event with a
smaller time is still to come, and the perfect watermark is the smallest time that really was still to come. The upper
bound is the largest time that a writer had noted ahead of the position; it is a hint and says nothing certain about
events (pravega/pravega#4182).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import compress

from wmlab.core.charts.scene import Value, longest_known, minus
from wmlab.core.facts import Head, Value as FactValue
from wmlab.streams.answers.head_labels import head_of
from wmlab.streams.answers.lag import SeenWindows
from wmlab.streams.answers.step_curves import lengths_ms


@dataclass(frozen=True, slots=True, order=True)
class Incident:
    """What happened to the stream: when (clock, ms), of which kind (scale, crash, silence and so on), and in words."""

    at_ms: int
    kind: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsTable:
    """The bounds at the position of a group, or those that one reader saw, ascending by `at_ms`; None is unknown.

    `perfect_watermark` is None as a whole if the table has no such column. `complete_log`: watermarks counted before
    they were emitted. `seen` has what readers of the group got at their polls.
    """

    stream: str
    group: str | None
    reader: str | None
    at_ms: list[int]
    lower: list[Value]
    upper: list[Value]
    perfect_watermark: list[Value] | None
    incidents: list[Incident]
    complete_log: bool = False
    seen: SeenWindows = field(default_factory=dict)

    @property
    def perfect(self) -> list[Value]:
        """The perfect watermark, unknown throughout if there is no such column."""
        return self.perfect_watermark or [None] * len(self.at_ms)

    def until(self, end_ms: int) -> BoundsTable:
        """The table with the bounds of its last row until `end_ms` (clock), where it ends before."""
        if self.at_ms[-1] >= end_ms:
            return self
        return replace(
            self,
            at_ms=[*self.at_ms, end_ms],
            lower=[*self.lower, self.lower[-1]],
            upper=[*self.upper, self.upper[-1]],
            perfect_watermark=None if self.perfect_watermark is None else [*self.perfect_watermark, None],
        )

    @property
    def is_above(self) -> list[bool]:
        """Of each row whether the lower bound is above the perfect watermark."""
        return [excess is not None and excess > 0 for excess in minus(self.lower, self.perfect)]

    @property
    def whose(self) -> str:
        """Which of the three bounds they are, as words behind their name."""
        whose = f" at the position of {self.group}" if self.group is not None else ""
        whose = f" seen by {self.reader}" if self.reader is not None else whose
        return f"{whose}{' in hindsight' if self.complete_log else ''}"


HeldBy = Callable[[int, int], tuple[str, ...]]
"""Who, or what, held a curve for longest from one moment to another (clock, ms); empty: it is not known."""


def bounds_head(table: BoundsTable, held: HeldBy = lambda *_: ()) -> Head:
    """Which bound it is, how it moved, when it stopped for longest and who held it then; all from the rows drawn."""
    known, above = _known(table.lower), _known(minus(table.lower, table.perfect))
    values: dict[str, FactValue] = {
        "bound": f"The lower bound{table.whose}",
        "last": known[-1] if known else None,
        "above perfect for": sum(compress(lengths_ms(table.at_ms), table.is_above)) if above else None,
        "above perfect by": max([0, *above]) if above else None,
    }
    if (stop := longest_known(table.at_ms, table.lower)) is not None:
        values |= {"longest stop": stop.length_ms, "at": stop.value, "from": stop.from_ms, "to": stop.to_ms}
        values["held by"] = held(stop.from_ms, stop.to_ms)
    return head_of("time bounds", values, clock_ms=table.at_ms[0])


def _known(values: Iterable[Value]) -> list[int]:
    return [value for value in values if value is not None]
