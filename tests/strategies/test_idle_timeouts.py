"""The cost of an idle timeout, against its definition moment by moment."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies.model.logs import logs, trace
from wmlab.core.errors import ModelError
from wmlab.strategies.comparison import compare
from wmlab.strategies.idle_timeouts import IDLE_COSTS, idle_costs, idle_costs_text
from wmlab.strategies.model.engines import RisingWave
from wmlab.strategies.model.flink import Flink
from wmlab.strategies.model.strategy import Record, run
from wmlab.strategies.model.writers import PerWriterMinimum

records_of = st.one_of(logs(times=40, gap_ms=6), logs(times=60, gap_ms=9, live=True, writers="abcdef")).filter(bool)
TIMEOUTS = (1, 3, 7, 20, 99)


def late_rows(strategy, records):
    return {
        row
        for row, (of, step) in enumerate(zip(records, run(strategy, records), strict=True))
        if of.event_time < step.met
    }


@settings(max_examples=60)
@given(records_of, st.sampled_from([0, 0, 3, 20]))
def test_late_because_of_a_timeout_are_the_records_that_are_in_time_without_one(records, bound):
    without = late_rows(PerWriterMinimum(bound), records)
    costs = idle_costs(trace(records), TIMEOUTS, bound)
    for timeout, count in zip(costs["timeout_ms"], costs["late"], strict=True):
        late = late_rows(RisingWave(bound, timeout), records)
        assert without <= late
        assert count == len(late - without), timeout
    assert costs["late"].is_monotonic_decreasing
    assert (costs["late_share"] * len(records)).round().tolist() == costs["late"].tolist()


def test_rows_that_flink_drops_for_a_timeout_are_late_because_of_it():
    p0 = [Record(1_000 * n, 1_000 * n, "p0") for n in range(60)]
    p1 = [Record(1_000 * n, 1_000 * n if n < 10 else 30_000 + 50 * n, "p1") for n in range(30)]
    log = trace(sorted([*p0, *p1], key=lambda record: record.arrival_ms))
    (flink,) = compare(log, [Flink(1_000, idle_ms=5_000)])
    costs = idle_costs(log, ["5 s", "20 s", "22 s"], "1 s")
    # Flink probes every 200 ms, and its bound leaves a millisecond more.
    assert costs["late"].tolist() == [flink.late, 19, 0]


@given(records_of, st.integers(1, 60))
def test_false_idles_are_silences_longer_than_the_timeout_that_end(records, timeout):
    last, count = {}, 0
    for record in records:
        count += record.arrival_ms - last.get(record.writer, record.arrival_ms) > timeout
        last[record.writer] = record.arrival_ms
    assert idle_costs(trace(records), timeout)["false_idles"].tolist() == [count]


def holds(records, timeout):
    """How long each silence holds the watermark: moment by moment, from the definition."""
    lengths = []
    for row, record in enumerate(records):
        of = record.writer
        largest = max(r.event_time for r in records[: row + 1] if r.writer == of)
        later = (n for n in range(row + 1, len(records)) if records[n].writer == of)
        end = next(later, len(records) - 1)
        held = 0
        for now in range(record.arrival_ms, records[end].arrival_ms):
            so_far = [r.event_time for r in records[:end] if r.arrival_ms <= now]
            held += max(so_far) > largest and now < record.arrival_ms + timeout
        lengths.append(held)
    return lengths


@settings(max_examples=40)
@given(logs(times=40, gap_ms=6, most=12).filter(bool), st.integers(1, 30))
def test_a_silent_writer_holds_the_watermark_from_when_another_is_ahead_until_it_sends_or_is_idle(records, timeout):
    costs = idle_costs(trace(records), timeout).iloc[0]
    lengths = holds(records, timeout)
    assert (costs["longest_hold_ms"], costs["held_ms"]) == (max(lengths), sum(lengths))


OUTAGE = [
    *(
        Record(time, time, writer)
        for time in range(100)
        for writer in ("a", "b")
        if writer == "a" or not 20 < time < 70
    ),
    Record(60, 100, "b"),
    Record(99, 101, "b"),
]
"""Two writers, of which one is silent for 50 ms and brings one record of that time at the end."""


def test_one_outage_is_one_false_idle_and_its_record_is_late_below_the_length_of_the_outage():
    assert idle_costs(trace(OUTAGE), [49, 50, "49 ms"])["false_idles"].tolist() == [1, 0, 1]
    brought = [record for record in OUTAGE if record.writer == "a" or record.event_time <= 20]
    costs = idle_costs(trace([*brought, Record(60, 100, "b")]), [10, 79, 80, 1_000])
    assert list(costs.columns) == IDLE_COSTS.names
    assert costs["late"].tolist() == [1, 1, 0, 0]
    assert costs["longest_hold_ms"].tolist() == [9, 78, 79, 79]
    rows = costs.to_dict("records")
    assert idle_costs_text(rows[1]) == (
        "makes 1 late. A writer that is declared idle comes back 1 time. "
        "A silent one holds the watermark for up to 78 ms"
    )
    assert idle_costs_text(rows[2]).startswith("makes none late. ")


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda log: idle_costs(log, 5, -1), "bound: input should be greater than or equal to 0"),
        (lambda log: idle_costs(log, 5, "soon"), "bound is 'soon'"),
        (lambda log: idle_costs("flights", 5), "'flights' is not a trace"),
        (lambda log: idle_costs(log, [1, -1]), "timeouts_ms.* greater than 0"),
        (lambda log: idle_costs(log, "soon"), "timeouts_ms is 'soon'"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, problem):
    with pytest.raises(ModelError, match=problem):
        ask(trace(OUTAGE))
