"""Which records each strategy makes late, from the definition; and that wrong times are said first."""

from __future__ import annotations

from hypothesis import given, settings

from tests.repetitions import repetitions
from tests.strategies.logs import sent, stamped
from tests.strategies.model.logs import lateness_before, logs, trace
from wmlab.strategies.comparison import compare
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import Record


@settings(max_examples=repetitions(40, long=100))
@given(logs(times=3_000, live=True).filter(bool))
def test_the_late_rows_are_those_below_the_largest_time_before_less_the_bound(records: list[Record]) -> None:
    bounds = (0, 200)
    frame = compare(trace(records), [BoundedOutOfOrderness(bound) for bound in bounds]).late_rows()
    expected = [
        (f"BoundedOutOfOrderness(bound={bound} ms)", n + 1, records[n].writer, by_ms - bound)
        for bound in bounds
        for n, by_ms in enumerate(lateness_before(records))
        if by_ms > bound
    ]
    assert list(zip(*(frame[name] for name in ("strategy", "row", "writer", "late_by_ms")), strict=True)) == expected
    assert frame["lost"].isna().all()
    assert (frame["perfect"].isna() == (frame["row"] == len(records))).all()


def test_records_with_wrong_times_are_said_before_the_numbers_that_they_are_in() -> None:
    log = sent(200, lambda _, number: 50, writers=2)
    clean = compare(log, [BoundedOutOfOrderness(0)])
    assert "wrong times" not in clean.facts
    found = compare(stamped(log, {row: row for row in (20, 22, 24)}), [BoundedOutOfOrderness(0)])
    assert (found.facts["wrong times"], found.facts["wrong times of"]) == (3, "w0")
