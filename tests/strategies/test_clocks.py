"""Suspects: which records are, how far they are ahead, and how many others each made late, by definition."""

from __future__ import annotations

import json
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmlab as wm
from tests.repetitions import repetitions
from tests.strategies.logs import DAY_MS, START_MS, ahead, changed, exponential, kept, sent, shifted, stamped, times
from tests.strategies.model.logs import lateness_before, logs, trace
from wmlab.core.errors import ModelError, TraceError
from wmlab.core.traces import Trace, load
from wmlab.strategies import suspect_records
from wmlab.strategies.clocks import ahead_limit_ms
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.strategy import Record
from wmlab.strategies.suspect_records import Suspects, suspects


def steady(rows: int = 400, writers: int = 4, seed: int = 1) -> Trace:
    """A record a second, which takes 3 s in the mean."""
    return sent(rows, exponential(3_000), writers=writers, seed=seed)


def late(records: list[Record], bound_ms: int) -> set[int]:
    """The arrivals and places of the records that are late for a bound, from the definition."""
    return {n for n, by_ms in enumerate(lateness_before(records)) if by_ms > bound_ms}


@settings(max_examples=repetitions(40, long=100))
@given(st.lists(st.tuples(st.integers(0, 199), st.integers(20_000, 10**6)), max_size=5), st.integers(0, 10))
def test_what_a_suspect_made_late_is_what_is_late_with_it_alone_and_not_without(
    wrong: list[tuple[int, int]], seed: int
) -> None:
    log = steady(200, seed=seed)
    for row, by_ms in wrong:
        log = ahead(log, row, by_ms)
    found, records = suspects(log, 0.05), [Record(*row) for row in log.events()]
    assert set(found.row_numbers) == {
        row for row, record in enumerate(records, start=1) if record.event_time > record.arrival_ms
    }
    clean = [record for row, record in enumerate(records, start=1) if row not in found.row_numbers]
    assert found.without_ms == lateness_curve(trace(clean)).bound_ms(0.05)
    assert found.bound_ms == lateness_curve(log).bound_ms(0.05)
    for suspect in found:
        record = records[suspect.row - 1]
        assert (record.event_time, record.arrival_ms, record.writer) == (
            suspect.event_time,
            suspect.arrival_ms,
            suspect.writer,
        )
        assert suspect.ahead_ms == record.event_time - record.arrival_ms
        before = [earlier.event_time for earlier in records[: suspect.row - 1]]
        assert suspect.moved_ms == max(0, record.event_time - max(before, default=min(r.event_time for r in records)))
        index = suspect.row - 1 - sum(row < suspect.row for row in found.row_numbers)
        alone = [*clean[:index], record, *clean[index:]]
        for bound_ms, count in ((found.without_ms, suspect.made_late), (0, suspect.made_late_at_0)):
            of_alone = {n - (n > index) for n in late(alone, bound_ms) if n != index}
            assert count == len(of_alone - late(clean, bound_ms))
    assert [suspect.made_late or 0 for suspect in found] == sorted(
        (suspect.made_late or 0 for suspect in found), reverse=True
    )


@settings(max_examples=repetitions(40, long=100))
@given(logs(times=3_000, live=True).filter(bool))
def test_the_clocks_of_writers_are_counted(records: list[Record]) -> None:
    found = suspects(trace(records))
    for clock in found.writers:
        mine = [(n, record) for n, record in enumerate(records, start=1) if record.writer == clock.writer]
        arrivals = [record.arrival_ms for _, record in mine]
        gaps = [b - a for a, b in pairwise(arrivals)]
        wrong = [n in found.row_numbers for n, _ in mine]
        assert clock.rows == len(mine)
        assert clock.early == sum(record.event_time > record.arrival_ms for _, record in mine)
        assert clock.suspects == sum(wrong)
        assert clock.steps == sum(a != b for a, b in pairwise(wrong))
        assert clock.silent_ms == max([*gaps, records[-1].arrival_ms - arrivals[-1]])


def test_a_log_in_order_and_the_logs_that_come_with_wmlab_have_none() -> None:
    found = suspects(steady())
    assert (len(found), found.writers.wrong, found.bound_ms) == (0, (), found.without_ms)
    assert found.sentence.startswith("No record of 'log' is more than ")
    assert "No clock of 4 writers" in repr(found)
    assert "<p>No record of" in found._repr_html_()
    for name in ("dengue", "flights", "quakes"):
        assert len(suspects(load(name))) == 0


def test_a_record_a_day_ahead_is_named_with_both_bounds_as_text_html_and_table() -> None:
    log = ahead(steady(), 100, DAY_MS)
    found = suspects(log)
    (suspect,) = found
    assert (suspect.kind, suspect.row, suspect.ahead_ms) == ("ahead", 101, DAY_MS)
    assert f"1 record (row 101 by arrival, of {suspect.writer}, stamped 2023-11-15 22:" in found.sentence
    assert f"is 1 d ahead of its arrival, which alone makes {suspect.made_late} others late" in found.sentence
    assert "The constant bound for 1.000% late is 23 h " in found.sentence
    assert "row by arrival  writer  event time" in repr(found)
    assert f"{suspect.writer} (steps)" in repr(found)
    assert found._repr_html_().count("<table>") == 2
    assert found.to_pandas()[["row", "ahead_ms"]].values.tolist() == [[101, DAY_MS]]
    assert found.writers.to_pandas().set_index("writer").loc[suspect.writer, "suspects"] == 1
    assert json.loads(found.to_json())["suspects"][0]["row"] == 101
    assert found.without() == log.without(rows=[101])
    assert found.without().rows == 399


def test_records_of_1970_are_of_no_log_and_no_others_are_late_because_of_them() -> None:
    found = suspects(stamped(steady(), {row: row for row in (30, 40, 50)}))
    assert found.row_numbers == (31, 41, 51)
    assert {suspect.kind for suspect in found} == {"older than the log"}
    assert {suspect.made_late for suspect in found} == {0}
    assert "3 records are not of this log, but from 1970-01-01 on" in found.sentence
    assert found.lossless_ms > 10_000 * found.lossless_without_ms


@pytest.mark.parametrize(
    ("early_ms", "text"),
    [
        (5, "1970-01-01 00:00:00.005 UTC"),
        (-2_082_844_800_000, "1904-01-01 00:00:00 UTC"),
        (-1, "1969-12-31 23:59:59.9"),
    ],
)
def test_the_arrivals_say_whether_a_time_before_1973_is_a_date(early_ms: int, text: str) -> None:
    log = stamped(steady(), {30: early_ms})
    assert text in suspects(log).sentence
    event, arrival = times(ahead(log, 60, DAY_MS))
    since_start = suspects(changed(log, event_time=event - START_MS, arrival_ms=arrival - START_MS))
    assert "UTC" not in repr(since_start)
    assert "row 61 by arrival, of w0, stamped 1 d 1 min" in since_start.sentence


@pytest.mark.parametrize(
    ("shift_ms", "clock"), [(3_600_000, "ahead"), (-200_000, "behind"), (9_000, "early"), (0, None)]
)
def test_the_clock_of_a_writer_is_ahead_or_early_or_behind(shift_ms: int, clock: str | None) -> None:
    found = suspects(shifted(steady(500, writers=5), shift_ms, "w2"))
    assert {of.writer: of.clock for of in found.writers} == dict.fromkeys(("w0", "w1", "w3", "w4")) | {"w2": clock}
    of_w2 = found.writers["w2"]
    assert of_w2.offset_ms == pytest.approx(shift_ms, abs=3_000)
    assert (of_w2.early_share > 0.9) == (shift_ms > 0)
    assert (of_w2.suspects == of_w2.rows == 100) == (clock == "ahead")
    assert ("all 100 of w2" in found.sentence) == (clock == "ahead")
    with pytest.raises(ModelError, match="no writer 'w9'"):
        found.writers["w9"]


def test_a_writer_that_stops_is_silent_until_the_end() -> None:
    log = steady()
    found = suspects(kept(log, (log.table["writer"].to_numpy() != "w1") | (np.arange(log.rows) < 200)))
    assert [clock.writer for clock in found.writers if clock.silent_at_end] == ["w1"]
    assert "until the end" in repr(found.writers)


def test_what_many_suspects_made_late_is_counted_of_those_that_moved_most(monkeypatch: pytest.MonkeyPatch) -> None:
    log = steady()
    for n, row in enumerate(range(100, 130)):
        log = ahead(log, row, DAY_MS + n * 10_000)
    every = suspects(log)
    monkeypatch.setattr(suspect_records, "_COUNTED", 10)
    some = suspects(log)
    assert len(some) == len(every) == 30
    counted = {suspect.row: suspect.made_late for suspect in some if suspect.made_late is not None}
    assert len(counted) == 10
    assert 101 in counted
    assert counted.items() <= {suspect.row: suspect.made_late for suspect in every}.items()
    assert "and 10 more" in repr(some)


def test_the_limit_is_above_what_delays_explain() -> None:
    """Of exponential delays the limit is above 0, and a quarter of wrong records does not raise it beyond them."""
    log = steady(4_000)
    assert 5_000 < ahead_limit_ms(log) < 20_000
    arrivals = times(log)[1].tolist()
    assert ahead_limit_ms(stamped(log, {row: arrivals[row] + DAY_MS for row in range(0, 4_000, 5)})) < DAY_MS


@pytest.mark.parametrize("wrong", [{"late_share": 0}, {"late_share": 2}, {"trace": 5}])
def test_what_is_no_log_or_no_share_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        suspects(**{"trace": steady(), "late_share": 0.01} | wrong)


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
    assert isinstance(log, Trace)
    assert isinstance(suspects(log), Suspects)


def test_the_names_of_the_namespace_are_no_modules() -> None:
    """A module that is called as its function would hide it as soon as it is imported."""
    for name in wm.strategy.__all__:
        assert not isinstance(getattr(wm.strategy, name), ModuleType) or name in ("chart", "spark")
