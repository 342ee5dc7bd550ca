"""Generated logs for the tests of the strategies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from wmlab.strategies.model.strategy import Input, Record, Strategy, run


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


def xs(strategy: Strategy[Any], inputs: Iterable[Input]) -> list[int]:
    """X after each input."""
    return [step.x for step in run(strategy, inputs)]


def late(strategy: Strategy[Any], records: list[Record]) -> int:
    """How many records are late."""
    return sum(record.event_time < step.met for record, step in zip(records, run(strategy, records), strict=True))


def latenesses(times: list[int]) -> list[int]:
    """The lateness of each record, from the definition."""
    return [max(0, max(times[:index], default=time) - time) for index, time in enumerate(times)]
