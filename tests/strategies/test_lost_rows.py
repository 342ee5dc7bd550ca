"""Which records each strategy loses, whose and when, from the definition; and that wrong times are said first."""

from __future__ import annotations

import json

from hypothesis import given, settings

from tests.repetitions import repetitions
from tests.strategies.logs import START_MS, sent, stamped
from tests.strategies.model.logs import lateness_before, logs, trace
from wmlab.strategies.comparison import compare
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import Record


@settings(max_examples=repetitions(40, long=100))
@given(logs(times=3_000, live=True).filter(bool))
def test_the_lost_rows_are_those_below_the_largest_time_before_less_the_bound(records: list[Record]) -> None:
    bounds = (0, 200)
    found = compare(trace(records), [BoundedOutOfOrderness(bound) for bound in bounds]).lost_rows()
    late_by = lateness_before(records)
    expected = [
        (f"BoundedOutOfOrderness(bound={bound} ms)", n + 1, records[n].writer, by_ms - bound)
        for bound in bounds
        for n, by_ms in enumerate(late_by)
        if by_ms > bound
    ]
    frame = found.to_pandas()
    assert list(zip(*(frame[name] for name in ("strategy", "row", "writer", "late_by_ms")), strict=True)) == expected
    assert len(found) == len(expected)
    for loss in found.losses:
        mine = [row for row in expected if row[0] == loss.strategy and row[2] == loss.writer]
        assert (loss.lost, loss.late_by_max_ms) == (len(mine), max(row[3] for row in mine))
        arrivals = [records[row[1] - 1].arrival_ms for row in mine]
        assert (loss.first_ms, loss.last_ms) == (min(arrivals), max(arrivals))
        assert loss.rows == sum(record.writer == loss.writer for record in records)
    assert sum(loss.lost for loss in found.losses) == len(expected)


def test_the_sentence_says_whose_and_when() -> None:
    records = [Record(START_MS + 1_000 * n, START_MS + 1_000 * n, "a") for n in range(10)]
    records[5] = Record(START_MS, START_MS + 5_000, "b")
    records[7] = Record(START_MS + 6_000, START_MS + 7_000, "b")
    found = compare(trace(records), [BoundedOutOfOrderness(0), BoundedOutOfOrderness(10_000)]).lost_rows()
    assert found.sentence == (
        "BoundedOutOfOrderness(bound=0 ms) lost 1 record, all of b (1 of its 2, from 2023-11-14 22:13:25 UTC to "
        "2023-11-14 22:13:25 UTC)."
    )
    assert "50.00%" in repr(found)
    assert found._repr_html_().count("<tr>") == 2
    assert json.loads(found.to_json())["losses"][0]["writer"] == "b"
    none = compare(trace(records), [BoundedOutOfOrderness(10_000)]).lost_rows()
    assert (len(none), none.sentence) == (0, "No strategy lost a record of 'log'.")
    assert none.to_pandas().empty


def test_records_with_wrong_times_are_said_before_the_numbers_that_they_are_in() -> None:
    log = sent(200, lambda _, number: 50, writers=2)
    clean = compare(log, [BoundedOutOfOrderness(0)])
    assert clean.sentence.startswith("Over 200 records")
    found = compare(stamped(log, {row: row for row in (20, 22, 24)}), [BoundedOutOfOrderness(0)])
    assert found.sentence.startswith(
        "3 records of w0 have wrong times and are in all numbers here: wm.strategy.suspects(log) lists them, and its "
        "without() is the log without them. Over 200 records"
    )
