"""The clocks of a log: which records have wrong times, what each writer shows, by definition, and what they change."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import wmlab as wm
from tests.repetitions import repetitions
from tests.strategies.logs import DAY_MS, START_MS, ahead, changed, exponential, kept, sent, shifted, stamped, times
from tests.strategies.model.logs import lateness_before, logs, trace
from wmlab.core.errors import ModelError, TraceError
from wmlab.core.traces import Trace, load
from wmlab.strategies.clocks import ahead_limit_ms, each_writer, writer_clocks, wrong_times
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.log_profile import profile
from wmlab.strategies.model.strategy import Record


def steady(rows: int = 400, writers: int = 4, seed: int = 1) -> Trace:
    """A record a second, which takes 3 s in the mean."""
    return sent(rows, exponential(3_000), writers=writers, seed=seed)


def late(records: list[Record], bound_ms: int) -> list[Record]:
    """The records that are late for a bound, from the definition."""
    return [record for record, by_ms in zip(records, lateness_before(records), strict=True) if by_ms > bound_ms]


@settings(max_examples=repetitions(40, long=100))
@given(st.lists(st.tuples(st.integers(0, 199), st.integers(20_000, 10**6)), min_size=1, max_size=5), st.integers(0, 10))
def test_the_effect_of_wrong_times_is_that_of_the_log_with_and_without_them(
    wrong: list[tuple[int, int]], seed: int
) -> None:
    log = steady(200, seed=seed)
    for row, by_ms in wrong:
        log = ahead(log, row, by_ms)
    finding = profile(log, late_share=0.05)["wrong times"]
    records = [Record(*row) for row in log.events()]
    ahead_of = [row for row, record in enumerate(records, start=1) if record.event_time > record.arrival_ms]
    assert list(finding.rows) == ahead_of
    clean = [record for row, record in enumerate(records, start=1) if row not in ahead_of]
    assert finding.without_ms is not None
    assert finding.without_ms == lateness_curve(trace(clean)).bound_ms(0.05)
    assert finding.bound_ms == lateness_curve(log).bound_ms(0.05)
    dirty = [records[row - 1] for row in ahead_of]
    others = [record for record in late(records, finding.without_ms) if record not in dirty]
    assert finding.facts["late by them"] == len(others) - len(late(clean, finding.without_ms))


@settings(max_examples=repetitions(40, long=100))
@given(logs(times=3_000, live=True).filter(bool))
def test_the_clocks_of_writers_are_counted(records: list[Record]) -> None:
    log = trace(records)
    rows = wrong_times(log).either.tolist()
    # The arrivals end where those of most writers do, or nearly all of them.
    ends = sorted({record.writer: record.arrival_ms for record in records}.values())
    end_ms = max(ends[len(ends) // 2], records[99 * (len(records) - 1) // 100].arrival_ms)
    for clock in each_writer(writer_clocks(log)):
        mine = [(n, record) for n, record in enumerate(records) if record.writer == clock.writer]
        arrivals = [record.arrival_ms for _, record in mine]
        gaps = [b - a for a, b in pairwise(arrivals)]
        wrong = [rows[n] for n, _ in mine]
        assert clock.rows == len(mine)
        assert clock.early == sum(record.event_time > record.arrival_ms for _, record in mine)
        assert clock.wrong == sum(wrong)
        assert clock.steps == sum(a != b for a, b in pairwise(wrong))
        assert clock.silent_ms == max([*gaps, end_ms - arrivals[-1], 0])


def test_a_log_in_order_and_the_logs_that_come_with_wmlab_have_no_wrong_times() -> None:
    assert profile(steady()).findings == ()
    for name in ("dengue", "flights", "quakes"):
        assert not wrong_times(load(name)).either.any()


def test_a_record_a_day_ahead_is_named_with_both_bounds() -> None:
    log = ahead(steady(), 100, DAY_MS)
    found = profile(log)
    finding = found["wrong times"]
    assert (finding.rows, finding.count) == ((101,), 1)
    (writer,) = finding.writers
    assert (finding.writers, finding.facts["worst row"]) == ((writer,), 101)
    assert (finding.facts["ahead"], finding.facts["farthest ahead"]) == (1, DAY_MS)
    assert "The constant bound is 23 h " in finding.sentence
    event, _ = times(log.without(rows=[101]))
    top = np.maximum.accumulate(times(log)[0])[np.arange(log.rows) != 100]
    without = np.maximum.accumulate(event)
    late = [int((event < each - finding.without_ms).sum()) for each in (top, without)]
    assert finding.facts["late by them"] == late[0] - late[1] > 0
    assert found.writers.set_index("writer").loc[writer, ["wrong", "clock"]].tolist() == [1, "steps"]
    assert found.without() == log.without(rows=[101])
    assert found.to_dict()["findings"][0]["rows"] == (101,)


def test_records_of_1970_are_of_no_log_and_no_others_are_late_because_of_them() -> None:
    finding = profile(stamped(steady(), {row: row for row in (30, 40, 50)}))["wrong times"]
    assert (finding.rows, finding.facts["late by them"]) == ((31, 41, 51), 0)
    assert finding.facts["older"] == 3
    assert "1970-01-01" in repr(finding.facts)


@pytest.mark.parametrize(
    ("early_ms", "text"),
    [
        (5, "1970-01-01 00:00:00 UTC"),
        (-2_082_844_800_000, "1904-01-01 00:00:00 UTC"),
        (-1, "1969-12-31 23:59:59 UTC"),
    ],
)
def test_the_arrivals_say_whether_a_time_before_1973_is_a_date(early_ms: int, text: str) -> None:
    log = stamped(steady(), {30: early_ms})
    assert text in repr(profile(log)["wrong times"].facts)
    event, arrival = times(ahead(log, 60, DAY_MS))
    since_start = profile(changed(log, event_time=event - START_MS, arrival_ms=arrival - START_MS))
    assert "UTC" not in repr(since_start["wrong times"].facts)
    assert since_start["wrong times"].rows == (31, 61)


@pytest.mark.parametrize(("shift_ms", "clock"), [(3_000_000, "ahead"), (-200_000, "behind"), (9_000, "early"), (0, "")])
def test_the_clock_of_a_writer_is_ahead_or_early_or_behind(shift_ms: int, clock: str) -> None:
    found = profile(shifted(steady(500, writers=5), shift_ms, "w2"))
    clocks = found.writers.set_index("writer")
    assert clocks["clock"].to_dict() == dict.fromkeys(("w0", "w1", "w3", "w4"), "") | {"w2": clock}
    of_w2 = clocks.loc["w2"]
    assert of_w2["offset_ms"] == pytest.approx(shift_ms, abs=3_000)
    assert (of_w2["early_share"] > 0.9) == (shift_ms > 0)
    assert (of_w2["wrong"] == of_w2["rows"] == 100) == (clock == "ahead")


def test_a_writer_that_stops_is_silent_until_the_end() -> None:
    log = steady()
    found = profile(kept(log, (log.table["writer"].to_numpy() != "w1") | (np.arange(log.rows) < 200)))
    assert found.writers.loc[found.writers["silent_at_end"], "writer"].tolist() == ["w1"]
    assert found["silent"].facts["to"] == log.span_ms[1]


def test_the_limit_is_above_what_delays_explain() -> None:
    """Of exponential delays the limit is above 0, and a quarter of wrong records does not raise it beyond them."""
    log = steady(4_000)
    assert 5_000 < ahead_limit_ms(log) < 20_000
    arrivals = times(log)[1].tolist()
    assert ahead_limit_ms(stamped(log, {row: arrivals[row] + DAY_MS for row in range(0, 4_000, 5)})) < DAY_MS


@pytest.mark.parametrize("wrong", [{"late_share": 0}, {"late_share": 2}])
def test_a_share_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        profile(steady(), **wrong)


def test_a_log_without_writers_and_rows() -> None:
    log = steady()
    rest = log.without("w1", "w3", rows=[1, 2, 6])
    assert rest.writer_names == ("w0", "w2")
    assert [*rest.events()] == [
        r for n, r in enumerate(log.events()) if r.writer in ("w0", "w2") and n not in (0, 1, 5)
    ]
    assert log.without() == log
    for arguments, reason in (
        (("w9",), "'w9'"),
        (("w0", "w1", "w2", "w3"), "nothing of trace 'log' is left"),
    ):
        with pytest.raises(TraceError, match=reason):
            log.without(*arguments)
    for number in (0, 401):
        with pytest.raises(TraceError, match=rf"has no {number}(?s:.*)rows from 1 to 400"):
            log.without(rows=[number])


def test_the_names_of_the_namespace_are_no_modules() -> None:
    """A module that is called as its function would hide it as soon as it is imported."""
    for name in wm.strategy.__all__:
        assert not isinstance(getattr(wm.strategy, name), ModuleType) or name in ("chart", "spark")
