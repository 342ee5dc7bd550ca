"""The logs of the tests of strategies: real and generated ones, and the kinds of dirt that a log can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmlab.core.traces import TRACE_SCHEMA, Trace, load

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
START_MS: Final = 1_700_000_000_000
"""The first event time of generated logs, a moment of 2023-11-14."""
Times = NDArray[np.int64]
Delays = Callable[[np.random.Generator, Times], Any]
"""Draws the delay of each record in ms, given a generator and the numbers of the records from 0."""


def ordered(
    event: Iterable[Any], arrival: Iterable[Any], writer: Iterable[Any], key: Iterable[Any] | None = None
) -> Trace:
    """A log of these columns, by arrival; rows of one arrival keep their order. By default each writer is a key."""
    columns = [np.asarray(column) for column in (event, arrival, writer, writer if key is None else key)]
    order = np.argsort(columns[1], kind="stable")
    return Trace("log", pa.table([column[order] for column in columns], TRACE_SCHEMA))


def sent(rows: int, delays: Delays, *, writers: int = 1, every_ms: int = 1_000, seed: int = 1) -> Trace:
    """A record each `every_ms`, by one writer after the other."""
    number = np.arange(rows)
    event = START_MS + every_ms * number
    delay = np.asarray(delays(np.random.default_rng(seed), number)).astype(np.int64)
    return ordered(event, event + delay, [f"w{n}" for n in number % writers])


def exponential(mean_ms: float) -> Delays:
    return lambda random, number: random.exponential(mean_ms, len(number))


@cache
def flights(until: str) -> Trace:
    """The flights of 2013 before a day."""
    return load("flights").between("2013-01-01", until)


def times(log: Trace) -> tuple[Times, Times]:
    """The event times and the arrivals, as arrays that can be changed."""
    event, arrival = (log.table[name].to_numpy().copy() for name in ("event_time", "arrival_ms"))
    return event, arrival


def changed(log: Trace, **columns: Iterable[Any]) -> Trace:
    """The log with other values in some columns, by arrival."""
    return ordered(*(columns.get(name, log.table[name].to_numpy()) for name in TRACE_SCHEMA.names))


def kept(log: Trace, rows: NDArray[np.bool_]) -> Trace:
    """The rows of a log for which `rows` is true."""
    return Trace(log.name, log.table.filter(pa.array(rows)))


def stamped(log: Trace, event_times: Mapping[int, int]) -> Trace:
    """The log with other event times in some rows, which count from 0."""
    event, _ = times(log)
    event[[*event_times]] = [*event_times.values()]
    return changed(log, event_time=event)


def ahead(log: Trace, row: int, by_ms: int) -> Trace:
    """The log with one event time that is so much ahead of its arrival."""
    return stamped(log, {row: times(log)[1][row] + by_ms})


def shifted(log: Trace, by_ms: int, *writers: str) -> Trace:
    """The log with the clocks of some writers set forward."""
    moved = np.isin(log.table["writer"].to_numpy().astype(str), writers)
    return changed(log, event_time=times(log)[0] + by_ms * moved)


def clock_steps(log: Trace) -> Trace:
    """One record of a hundred is stamped an hour too late or too early."""
    random, (event, _) = np.random.default_rng(1), times(log)
    some = random.choice(log.rows, log.rows // 100, replace=False)
    event[some] += HOUR_MS * random.choice([-1, 1], len(some))
    return changed(log, event_time=event)


def duplicates(log: Trace, later_ms: int = 0) -> Trace:
    """One record of a hundred comes twice."""
    some = np.random.default_rng(2).choice(log.rows, log.rows // 100, replace=False)
    columns = [log.table[name].to_numpy() for name in TRACE_SCHEMA.names]
    copies = [column[some] for column in columns]
    copies[1] = copies[1] + later_ms
    return ordered(*(np.concatenate(both) for both in zip(columns, copies, strict=True)))


def a_day_missing(log: Trace) -> Trace:
    event, _ = times(log)
    return kept(log, event // DAY_MS != np.median(event) // DAY_MS)


def a_writer_dies(log: Trace) -> Trace:
    """The writer with the most records sends none in the last third."""
    writer = log.table["writer"].to_numpy().astype(str)
    names, counts = np.unique(writer, return_counts=True)
    return kept(log, (writer != names[counts.argmax()]) | (np.arange(log.rows) < log.rows * 2 // 3))


def ties(log: Trace, of_ms: int = 60_000) -> Trace:
    """Arrivals by the minute, in the order of arrival."""
    return changed(log, arrival_ms=times(log)[1] // of_ms * of_ms)


def ties_by_event_time(log: Trace) -> Trace:
    """Arrivals by the quarter of an hour, and those of one arrival by event time, as a database sorts them."""
    by_quarter = ties(log, 900_000).table
    return Trace("log", by_quarter.sort_by([("arrival_ms", "ascending"), ("event_time", "ascending")]))


DIRT: Final[dict[str, Callable[[Trace], Trace]]] = {
    "wrong times": lambda log: ahead(log, log.rows // 3, DAY_MS),
    "wrong times, too": lambda log: ahead(log, log.rows // 3, 365 * DAY_MS),
    "wrong times, by steps": clock_steps,
    "copies": duplicates,
    "gap": a_day_missing,
    "silent writer": a_writer_dies,
    "ties": ties,
    "ties, sorted": ties_by_event_time,
}
"""Kinds of dirt; before a comma stands the kind of the finding that names it."""
