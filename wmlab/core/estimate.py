"""An estimate of a run from its scenario, before it starts: events, steps, memory and time.

A step is one turn of the simulator: a batch, a noted time, a cycle, a look of a reader. The counts are upper ones for a
run without faults, within a factor of a few. What a step takes was measured on one core of an ordinary machine. So the
time of a run of some seconds is right within a factor of two there; see `python -m benchmarks growth`.
"""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from typing import Final

from wmlab.core.answers import html_table
from wmlab.core.errors import ScenarioError
from wmlab.core.words import counted, grouped, rounded

MOST_S: Final = 7 * 86_400
"""A run that would take longer than a week is refused."""
_EVENT_BYTES: Final = 150
_LEFT_OUT: Final = "events outside the run"


@dataclass(frozen=True, slots=True)
class Cost:
    """How often something happens in a run, the field of the scenario that decides it, and what each leaves behind.

    `events` are moved as whole arrays and cost far less than anything else, which is counted in steps. `us_each` is how
    many microseconds of one core each of them takes.
    """

    what: str
    field: str
    count: int
    bytes_each: int
    us_each: float

    @staticmethod
    def of_events(field: str, count: float, us_each: float) -> Cost:
        """The cost of events, or of the rows of a log."""
        return Cost("events", field, int(count), _EVENT_BYTES, us_each)

    @staticmethod
    def of_left_out(field: str, count: int) -> Cost:
        """The events of a trace that begin after the end of the run, or arrived before its writer starts."""
        return Cost(_LEFT_OUT, field, count, 0, 0)

    @property
    def memory_bytes(self) -> int:
        """What all of them together leave behind."""
        return self.count * self.bytes_each

    @property
    def us(self) -> int:
        """How many microseconds all of them together take."""
        return int(self.count * self.us_each)


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """An estimate of a run of the scenario called `name`."""

    name: str
    costs: tuple[Cost, ...]

    @property
    def events(self) -> int:
        """How many events there will be."""
        return sum(cost.count for cost in self.costs if cost.what == "events")

    @property
    def steps(self) -> int:
        """How many steps the simulator will take."""
        return sum(cost.count for cost in self.costs if cost.what not in ("events", _LEFT_OUT))

    @property
    def left_out(self) -> int:
        """How many events of traces are not replayed, because they lie outside the run."""
        return sum(cost.count for cost in self.costs if cost.what == _LEFT_OUT)

    @property
    def memory_bytes(self) -> int:
        """How much memory the rows and events of the run will take."""
        return sum(cost.memory_bytes for cost in self.costs)

    @property
    def seconds(self) -> int:
        """How long the run will take on an ordinary machine, in seconds; its start is not counted."""
        return sum(cost.us for cost in self.costs) // 1_000_000

    def require_room(self) -> None:
        """Raise `ScenarioError` if the run cannot fit in the memory of this machine, or would never end."""
        room_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if self.memory_bytes > room_bytes:
            worst = max(self.costs, key=lambda cost: cost.memory_bytes)
            needs = f"{_bytes(self.memory_bytes)} of memory, of which there are {_bytes(room_bytes)}"
        elif self.seconds > MOST_S:
            worst = max(self.costs, key=lambda cost: cost.us)
            needs = f"{rounded(self.seconds * 1_000)} of computing"
        else:
            return
        raise ScenarioError(
            f"the scenario {self.name!r} would need about {needs}: "
            f"{worst.field} makes {_about(worst.count)} {worst.what}.",
            remedy=f"change {worst.field}, or shorten duration_ms; scenario.estimate() shows what each field costs.",
        )

    def __repr__(self) -> str:
        time = "less than a minute" if self.seconds < 60 else rounded(self.seconds * 1_000)
        missing = f"; {counted(self.left_out, 'event')} of traces outside the run" if self.left_out else ""
        return (
            f"{self.name}: about {_about(self.events)} events and {_about(self.steps)} steps, "
            f"{_bytes(self.memory_bytes)} of memory, {time}{missing}"
        )

    def _repr_html_(self) -> str:
        costs = sorted((cost for cost in self.costs if cost.count), key=lambda cost: (-cost.memory_bytes, cost.field))
        rows = [(cost.field, f"{_about(cost.count)} {cost.what}", _bytes(cost.memory_bytes)) for cost in costs]
        return html_table(html.escape(repr(self)), ("field", "makes about", "memory"), rows)


def _about(count: int) -> str:
    """A number to two digits: "1 200", "35 000 000"; beyond a million millions as a power of ten."""
    if count >= 10**12:
        return f"{count:.1e}" if count < 10**300 else "endlessly many"
    return grouped(round(count, 2 - len(str(count))))


def _bytes(count: int) -> str:
    for unit in ("MB", "GB", "TB", "PB"):
        count = -(-count // 1_000) if unit != "MB" else -(-count // 1_000_000)
        if count < 1_000:
            break
    return f"{_about(count)} {unit}"
