"""Generated logs for the tests of the strategies, as records and as traces, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from wmlab.core.traces import TRACE_SCHEMA, Trace
from wmlab.strategies.model.strategy import Input, Record, Strategy, Tick, run


@st.composite
def logs(
    draw: st.DrawFn, *, most: int = 60, times: int = 10**4, writers: str = "abc", gap_ms: int = 500, live: bool = False
) -> list[Record]:
    """Records in order of arrival, in the unit of milliseconds, with event times of any order up to `times`.

    Of a log that is `live`, event times follow the clock: they lie up to `times` before their arrival.
    """
    gaps = draw(
        st.lists(st.tuples(st.integers(0, gap_ms), st.integers(0, times), st.sampled_from(writers)), max_size=most)
    )
    now, records = 0, []
    for gap, time, writer in gaps:
        now += gap
        records.append(Record(now - time if live else time, now, writer, writer))
    return records


def trace(records: Sequence[Record]) -> Trace:
    """The records, in order of arrival, as a trace."""
    return Trace("log", pa.table([list(column) for column in zip(*records, strict=True)], TRACE_SCHEMA))


@dataclass(frozen=True, slots=True)
class Clock(Strategy[None]):
    """The wall clock less `behind_ms`, as the ticks give it."""

    behind_ms: int = 0

    def start(self) -> None:
        return None

    def step(self, state: None, given: Input) -> tuple[None, int, Any]:
        now = given.now_ms if isinstance(given, Tick) else given.arrival_ms if isinstance(given, Record) else 0
        return None, now - self.behind_ms, None


def xs(strategy: Strategy[Any], inputs: Iterable[Input]) -> list[int]:
    """X after each input."""
    return [step.x for step in run(strategy, inputs)]


def late(strategy: Strategy[Any], records: list[Record]) -> int:
    """How many records are late."""
    return sum(record.event_time < step.met for record, step in zip(records, run(strategy, records), strict=True))


def rising(records: list[Record], watermark: Callable[[list[Record]], int]) -> list[int]:
    """X after each record, by a watermark that is stated of the records so far and does not fall."""
    return list(accumulate((watermark(records[:count]) for count in range(1, len(records) + 1)), max))


def meeting(records: list[Record], watermark: Callable[[list[Record], int], int]) -> list[tuple[int, int]]:
    """As `rising`, what each record meets and X after it, by a watermark of the records so far and of the clock."""
    both = (watermark(records[:n], record.arrival_ms) for k, record in enumerate(records) for n in (k, k + 1))
    found = list(accumulate(both, max))
    return list(zip(found[::2], found[1::2], strict=True))


def mets_and_xs(strategy: Strategy[Any], records: list[Record]) -> list[tuple[int, int]]:
    """What each record meets, and X after it."""
    return [(step.met, step.x) for step in run(strategy, records)]


def by_writer(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of each writer that has any."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.writer, []).append(record)
    return found


def top(records: list[Record]) -> int:
    """The largest event time."""
    return max(record.event_time for record in records)


def latenesses(records: list[Record]) -> list[int]:
    """The lateness of each record, from the definition."""
    return [top(records[: n + 1]) - record.event_time for n, record in enumerate(records)]


def lateness_before(records: Sequence[Record]) -> list[int]:
    """By how much each record is behind the largest event time before it; 0 of the first."""
    tops = accumulate((record.event_time for record in records), max)
    return [0, *(max(0, top - record.event_time) for top, record in zip(tops, records[1:], strict=False))]
