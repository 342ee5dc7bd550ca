"""A log as a job with alignment reads it: what it costs in time, and what it spares in state."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import logs, trace
from wmlab.strategies.comparison import compare
from wmlab.strategies.model.alignment import Alignment
from wmlab.strategies.model.strategy import Record
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import aligned

SPEEDS: Final = (("backlog", 100), ("live", 1_000))
"""The sources, and the milliseconds between their records."""


@given(logs().filter(bool), st.integers(0, 3_000))
def test_every_record_is_read_at_its_arrival_or_later(log: list[Record], drift: int) -> None:
    given_log, read = trace(log), aligned(trace(log), Alignment(drift, 100))
    assert read.name == "log, aligned"
    names = ["event_time", "writer", "key"]
    order = [(name, "ascending") for name in names]
    assert read.table.select(names).sort_by(order) == given_log.table.select(names).sort_by(order)
    arrivals = [sorted(each.table["arrival_ms"].to_pylist()) for each in (given_log, read)]
    assert all(before <= after for before, after in zip(*arrivals, strict=True))


def test_a_source_that_catches_up_keeps_windows_open_unless_it_waits_for_the_others() -> None:
    # Both have a record every second; "backlog" is read at ten times that speed.
    records = [Record(1_000 * n, arrival * n, name) for n in range(600) for name, arrival in SPEEDS]
    log = trace(sorted(records, key=lambda record: record.arrival_ms))
    read = aligned(log, Alignment(30_000))
    strategy = PerWriterMinimum(writers=("backlog", "live"))
    without, with_it = (compare(each, [strategy], window_ms=10_000)[strategy] for each in (log, read))
    assert (without.late, with_it.late) == (0, 0)
    assert (without.open_max, with_it.open_max) == (55, 5)
    ends = [[e.arrival_ms for e in each.events() if e.writer == "backlog"][-1] for each in (log, read)]
    assert ends == [59_900, 569_000]
