"""A clean log against the same log with one kind of dirt: the bound is about the same, or a doubt names the cause."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from wmlab.core.traces import TRACE_SCHEMA, Trace, load
from wmlab.strategies.advice import Advice, advise
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.replay import Log

TARGET = 0.01
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.object_], NDArray[np.object_]]


def made() -> Trace:
    """Five sensors for ten days, a record each 24 s; it takes a minute in the mean, from sensor to sensor 2 s more."""
    random = np.random.default_rng(7)
    number = np.arange(36_000)
    event = number * 24_000 + 1_700_000_000_000
    arrival = event + (random.exponential(60_000, len(number)) + 2_000 * (number % 5)).astype(np.int64)
    writer = np.array([f"s{n % 5}" for n in number], object)
    return ordered((event, arrival, writer, writer))


LOGS: dict[str, Callable[[], Trace]] = {
    "made": made,
    "flights": lambda: load("flights").between("2013-01-01", "2013-02-01"),
    "dengue": lambda: by_key(load("dengue")),
}


def by_key(log: Trace) -> Trace:
    """Each key is a writer."""
    return Trace(log.name, log.table.set_column(2, TRACE_SCHEMA[2], log.table["key"]))


def ordered(columns: Columns) -> Trace:
    order = np.argsort(columns[1], kind="stable")
    return Trace("log", pa.table([pa.array(column[order]) for column in columns], TRACE_SCHEMA))


def columns_of(log: Trace) -> Columns:
    event, arrival = (log.table[name].to_numpy().copy() for name in ("event_time", "arrival_ms"))
    writer, key = (np.array(log.table[name].to_pylist(), object) for name in ("writer", "key"))
    return event, arrival, writer, key


def a_day_ahead(columns: Columns) -> Columns:
    event, arrival, writer, key = columns
    event[len(event) // 3] = arrival[len(event) // 3] + DAY_MS
    return event, arrival, writer, key


def a_year_ahead(columns: Columns) -> Columns:
    event, arrival, writer, key = columns
    event[len(event) // 3] = arrival[len(event) // 3] + 365 * DAY_MS
    return event, arrival, writer, key


def clock_steps(columns: Columns) -> Columns:
    event, arrival, writer, key = columns
    random = np.random.default_rng(1)
    some = random.choice(len(event), len(event) // 100, replace=False)
    event[some] += HOUR_MS * random.choice([-1, 1], len(some))
    return event, arrival, writer, key


def duplicates(columns: Columns, later_ms: int = 0) -> Columns:
    some = np.random.default_rng(2).choice(len(columns[0]), len(columns[0]) // 100, replace=False)
    event, arrival, writer, key = (np.concatenate([column, column[some]]) for column in columns)
    arrival[len(columns[0]) :] += later_ms
    return event, arrival, writer, key


def much_later_duplicates(columns: Columns) -> Columns:
    event, arrival, _, _ = columns
    return duplicates(columns, later_ms=200 * int(np.median(np.maximum(arrival - event, 1))))


def a_day_missing(columns: Columns) -> Columns:
    event, arrival, writer, key = columns
    begin = int(np.median(event)) // DAY_MS * DAY_MS
    kept = (event < begin) | (event >= begin + DAY_MS)
    return event[kept], arrival[kept], writer[kept], key[kept]


def a_writer_dies(columns: Columns) -> Columns:
    event, arrival, writer, key = columns
    names, counts = np.unique(writer, return_counts=True)
    kept = (writer != names[counts.argmax()]) | (np.arange(len(event)) < len(event) * 2 // 3)
    return event[kept], arrival[kept], writer[kept], key[kept]


def ties(columns: Columns) -> Columns:
    """Arrivals by the minute, in the order of arrival."""
    event, arrival, writer, key = columns
    return event, arrival // 60_000 * 60_000, writer, key


def ties_by_event_time(columns: Columns) -> Columns:
    """Arrivals by the quarter of an hour, and those of one arrival by event time, as a database sorts them."""
    event, arrival, writer, key = columns
    arrival = arrival // 900_000 * 900_000
    order = np.lexsort((event, arrival))
    return event[order], arrival[order], writer[order], key[order]


DIRT = {
    "ahead": a_day_ahead,
    "ahead, too": a_year_ahead,
    "ahead, by steps": clock_steps,
    "duplicates": duplicates,
    "gap": a_day_missing,
    "silent writer": a_writer_dies,
    "ties": ties,
    "ties, sorted": ties_by_event_time,
}


@cache
def of(name: str) -> Advice:
    return advise(LOGS[name](), TARGET)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("dirt", DIRT)
def test_the_bound_is_that_of_the_clean_log_or_a_doubt_names_the_cause(name: str, dirt: str) -> None:
    clean = of(name)
    assert clean.supported
    advice = advise(ordered(DIRT[dirt](columns_of(LOGS[name]()))), TARGET)
    if not advice.supported:
        named = [doubt for doubt in advice.doubts if doubt.cause == dirt.split(",")[0]]
        assert named, advice.doubts
        assert named[0].bound_ms == advice.bound_ms
    else:
        assert advice.bound_ms == pytest.approx(clean.bound_ms, rel=0.1)
        assert advice.lag_ms == pytest.approx(clean.lag_ms, rel=0.1)


@pytest.mark.parametrize("name", ["made", "flights"])
def test_copies_that_come_much_later_are_said_to_be_copies(name: str) -> None:
    """In dengue, which has weeks and no names, most records are like another one anyway."""
    log = ordered(much_later_duplicates(columns_of(LOGS[name]())))
    advice = advise(log, TARGET)
    doubt = next(doubt for doubt in advice.doubts if doubt.cause == "duplicates")
    assert len(doubt.rows) == pytest.approx(log.rows / 101, rel=0.01)
    assert doubt.bound_ms == advice.bound_ms
    assert doubt.without_ms == pytest.approx(of(name).bound_ms, rel=0.01)


@pytest.mark.parametrize(("dirt", "cause"), [("ahead", "ahead"), ("ahead, too", "ahead"), ("ahead, by steps", "ahead")])
def test_records_ahead_of_a_log_of_short_delays_are_named_with_both_bounds(dirt: str, cause: str) -> None:
    log = ordered(DIRT[dirt](columns_of(made())))
    advice = advise(log, TARGET)
    doubt = next(doubt for doubt in advice.doubts if doubt.cause == cause)
    event, arrival = (log.table[name].to_numpy() for name in ("event_time", "arrival_ms"))
    assert doubt.rows == tuple(1 + np.flatnonzero(event > arrival))
    assert doubt.writers == tuple(sorted({log.table["writer"][row - 1].as_py() for row in doubt.rows}))
    kept = Trace("rest", log.table.filter(pa.array(event <= arrival)))
    assert (doubt.bound_ms, doubt.without_ms) == (
        lateness_curve(log).bound_ms(TARGET),
        lateness_curve(kept).bound_ms(TARGET),
    )
    assert doubt.without_ms == pytest.approx(of("made").bound_ms, rel=0.3)
    assert doubt.bound_ms > 10 * doubt.without_ms
    # The best guess does not follow them.
    assert isinstance(advice.strategy, Guarded)
    assert advice.lag_ms == pytest.approx(of("made").lag_ms, rel=0.3)


def test_one_record_of_twenty_thousand_a_day_ahead_is_named() -> None:
    random = np.random.default_rng(3)
    event = np.arange(20_000) * 1_000 + 1_700_000_000_000
    arrival = event + random.exponential(3_000, 20_000).astype(np.int64)
    event[9_000] += DAY_MS
    writer = np.array([f"w{n % 3}" for n in range(20_000)], object)
    log = ordered((event, arrival, writer, writer))
    advice = advise(log, TARGET)
    (doubt,) = advice.doubts
    row = int(np.argmax(log.table["event_time"].to_numpy()))
    assert (doubt.cause, doubt.rows, doubt.writers) == ("ahead", (row + 1,), ("w0",))
    assert doubt.bound_ms is not None
    assert doubt.without_ms is not None
    assert doubt.bound_ms > 0.9 * DAY_MS
    assert doubt.without_ms < 15_000
    assert "23 h 56 min with it and 12.0 s without" in str(doubt)
    assert isinstance(advice.strategy, Guarded)
    assert advice.late_share <= 1.2 * TARGET


def test_three_rows_of_1970_are_said_not_to_be_of_the_log() -> None:
    """They are late for any bound, so that they matter where no record may be."""
    event, arrival, writer, key = columns_of(made())
    event[[100, 5_000, 9_000]] = [0, 1_000, 60_000]
    log = ordered((event, arrival, writer, key))
    advice = advise(log, TARGET)
    assert advice.supported
    assert "3 records are not of this log, but from 1970-01-01 on" in advice.sentence
    assert "for no late record is 19 67" in advice.sentence
    assert advice.bound_ms == pytest.approx(of("made").bound_ms, rel=0.01)
    strict = advise(log, 0.00005)
    doubt = next(doubt for doubt in strict.doubts if doubt.cause == "older than the log")
    assert doubt.rows == tuple(1 + np.flatnonzero(Log.of(log).event < 10**9))
    assert doubt.bound_ms is not None
    assert doubt.without_ms is not None
    assert doubt.bound_ms > 1_000 * doubt.without_ms
