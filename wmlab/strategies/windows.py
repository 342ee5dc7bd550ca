"""Windows over a log: few late records are lost, because a window drops records only by its own end.

A record at t is *late* if t < X. It is *lost* if no window that it belongs to takes it any more. A window that ends
before `end` has its first result when X reaches `end`, and takes records until X reaches `end` plus the allowed
lateness; each record that it takes in between gives a further result, as the default trigger of Flink does. So a record
of a fixed window is lost if and only if X > deadline, where `deadline` is the last instant of its last window plus the
allowed lateness; for a window of one instant that is its event time.

A session has no end of its own: a record at t joins the sessions of its key that are at most the gap away and are still
taken. The joined session is dropped only if its end, the last time plus the gap, has been reached. So a record that
comes behind its own end is kept where it joins a session that goes on. Source: `WindowOperator` and `MergingWindowSet`
of Flink 2.3; sessions that touch are one, as in Flink, Kafka Streams and Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wmlab.core.arguments import the_duration
from wmlab.core.errors import ModelError
from wmlab.core.times import Int64Array
from wmlab.core.words import exactly, grouped
from wmlab.strategies.model.strategy import END, UNKNOWN
from wmlab.strategies.replay import Log, PathOfX, difference

_MOST_PAIRS: Final = 50_000_000
"""Pairs of a record and a window that fit in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Windows of each key over event time, ms, from 1970 on: tumbling, sliding if `slide_ms` is less, or sessions.

    Sessions have a `gap_ms` and no `size_ms`. `windows_of` makes them from the arguments of a user.
    """

    size_ms: int | None = None
    slide_ms: int | None = None
    gap_ms: int | None = None
    allowed_lateness_ms: int = 0
    """How long after its end a window still takes rows, in ms."""
    early_ms: int | None = None
    """How long after the end of the window that X is in the event time of a row may be, in ms; None: any."""

    def __str__(self) -> str:
        if self.gap_ms is not None:
            text = f"sessions with a gap of {exactly(self.gap_ms)}"
        else:
            text = f"windows of {exactly(self.size_ms or 0)}"
            text += f" every {exactly(self.slide_ms)}" if self.slide_ms != self.size_ms and self.slide_ms else ""
        late_ms = self.allowed_lateness_ms
        text += f" with an allowed lateness of {exactly(late_ms)}" if late_ms else ""
        return text if self.early_ms is None else f"{text}, no row {exactly(self.early_ms)} early"

    def deadlines(self, event: Int64Array) -> Int64Array:
        """The largest X at which some window accepts each record; for a session, that of the record alone."""
        if self.gap_ms is not None:
            return _later(event, self.gap_ms - 1 + self.allowed_lateness_ms)
        slide_ms = self.slide_ms or 1
        return _later(event, (self.size_ms or 0) - event % slide_ms - 1 + self.allowed_lateness_ms)

    def too_early(self, event: Int64Array, met: Int64Array) -> NDArray[np.bool_]:
        """Which records are dropped since they are too early for the X that they meet, where that is known."""
        known = (met != UNKNOWN) & (met != END)
        if self.early_ms is None or self.size_ms is None:
            return np.zeros(len(event), bool)
        met = np.where(known, met, 0)
        early: NDArray[np.bool_] = known & (event > _later(met - met % self.size_ms, self.size_ms + self.early_ms))
        return early

    def lost(self, log: Log, met: Int64Array) -> NDArray[np.bool_]:
        """Which records no window accepts, by the X that each of them meets."""
        if self.gap_ms is not None:
            return _run_sessions(log, met, self).lost
        return self.deadlines(log.event) < met


def windows_of(
    window_ms: int | str | None = None,
    slide_ms: int | str | None = None,
    gap_ms: int | str | None = None,
    allowed_lateness_ms: int | str = 0,
    early_ms: int | str | None = None,
) -> Windows | None:
    """The windows that a user asks for, with durations in ms or as text; None if no length is given.

    Raises `ModelError` for a length below 1 ms, an allowed lateness or `early_ms` below 0, a slide without or above a
    window, a gap as well as a window, and `early_ms` without tumbling windows.
    """
    given = {"window_ms": window_ms, "slide_ms": slide_ms, "gap_ms": gap_ms}
    lengths = {name: _length(name, value, least=1) for name, value in given.items() if value is not None}
    late_ms = _length("allowed_lateness_ms", allowed_lateness_ms, least=0)
    size_ms, slide, gap = (lengths.get(name) for name in given)
    if gap is not None and len(lengths) > 1:
        raise ModelError("gap_ms is given with window_ms or slide_ms.", remedy="Give a gap for sessions alone.")
    if slide is not None and (size_ms is None or slide > size_ms):
        raise ModelError(
            f"slide_ms is {slide}, with window_ms {size_ms}.",
            remedy="Give a window_ms, and a slide_ms of at most that.",
        )
    soon_ms = None if early_ms is None else _length("early_ms", early_ms, least=0)
    if soon_ms is not None and list(lengths) != ["window_ms"]:
        raise ModelError(f"early_ms is {soon_ms}, without tumbling windows.", remedy="Give it with window_ms alone.")
    if not lengths:
        if late_ms:
            problem = f"allowed_lateness_ms is {late_ms}, and no window is given."
            raise ModelError(problem, remedy="Give window_ms or gap_ms.")
        return None
    return Windows(
        size_ms=size_ms, slide_ms=slide or size_ms, gap_ms=gap, allowed_lateness_ms=late_ms, early_ms=soon_ms
    )


def _length(name: str, offered: object, *, least: int) -> int:
    length_ms = the_duration(offered, ModelError, name=name)
    if not least <= length_ms <= 2**62:
        raise ModelError(f"{name} is {length_ms}.", remedy=f"Give a number of {least} or more, at most 2**62.")
    return length_ms


def _later(times: Int64Array, by_ms: Any) -> Int64Array:
    """The times plus a length of 0 or more, `END` beyond 64 bits."""
    by_ms = np.minimum(by_ms, END - 1)
    return np.where(times > END - by_ms, END, times + by_ms)


@dataclass(frozen=True, slots=True, eq=False)
class LogWindows:
    """The windows of each key in which a log has records.

    `record` and `of_record` are the pairs of a record and a window that it belongs to, in order of arrival; `ends` are
    where the windows end, `sizes` how many records each has. Sessions are those of the complete log.
    """

    windows: Windows
    record: NDArray[np.int64]
    of_record: Int64Array
    sizes: Int64Array
    ends: Int64Array

    @classmethod
    def of(cls, log: Log, windows: Windows) -> LogWindows:
        """Those of a log; raises `ModelError` where sliding windows overlap so much that they do not fit in memory."""
        record, ends, key = _sessions(log, windows.gap_ms) if windows.gap_ms else _sliding(log, windows)
        # Windows are numbered before keys are multiplied in: numbers are below the pairs, whatever the times.
        different, number = np.unique(ends, return_inverse=True)
        names, of_record = np.unique(key * len(different) + number, return_inverse=True)
        return cls(windows, record, of_record, np.bincount(of_record), different[names % len(different)])


def _sliding(log: Log, windows: Windows) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The pairs of a record, the end of a window that it belongs to, and its key."""
    size_ms, slide_ms = windows.size_ms or 1, windows.slide_ms or 1
    most = -(-size_ms // slide_ms)
    if most * len(log.event) > _MOST_PAIRS:
        least = -(-size_ms // max(1, _MOST_PAIRS // len(log.event)))
        raise ModelError(
            f"slide_ms is {slide_ms}: each record belongs to {grouped(most)} windows.",
            remedy=f"Give a slide_ms of {least} or more.",
        )
    left = size_ms - log.event % slide_ms
    records, ends = [], []
    for earlier in range(most):
        inside = np.flatnonzero(left > earlier * slide_ms)
        records.append(inside)
        ends.append(_later(log.event[inside], left[inside] - earlier * slide_ms))
    record, end = np.concatenate(records), np.concatenate(ends)
    order = np.argsort(record, kind="stable")
    return record[order], end[order], log.key[record[order]].astype(np.int64)


def _sessions(log: Log, gap_ms: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The same of the sessions of the complete log."""
    order = np.lexsort((log.event, log.key))
    event, key = log.event[order], log.key[order].astype(np.int64)
    # As unsigned, since two times of 64 bits may be farther apart than 64 bits with a sign.
    apart = np.diff(event.astype(np.uint64)) > np.uint64(gap_ms)
    begins = np.flatnonzero(np.append(True, (np.diff(key) != 0) | apart))
    lasts = event[np.append(begins[1:], len(event)) - 1]
    ends = np.repeat(_later(lasts, gap_ms), np.diff(np.append(begins, len(event))))
    back = np.argsort(order)
    return np.arange(len(event)), ends[back], key[back]


@dataclass(slots=True)
class _Session:
    """A session that takes records: its first and last time, its records, and whether it has had a result.

    `of_log` is the session of the complete log that its records belong to.
    """

    first: int
    last: int
    records: int
    of_log: int
    has_fired: bool = False

    def join(self, other: _Session) -> None:
        """Become one with another session, which has had a result if one of them has."""
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.records += other.records
        self.has_fired |= other.has_fired


@dataclass(slots=True, eq=False)
class _SessionsOfKey:
    """The sessions of one key that take records; `first_results` is shared by all keys."""

    gap_ms: int
    late_ms: int
    first_results: Int64Array
    live: list[_Session] = field(default_factory=list)

    def advance(self, x: int) -> None:
        """The sessions that X has passed have their first result, and those behind the lateness take no more."""
        for session in self.live:
            if session.last + self.gap_ms <= x and not session.has_fired:
                session.has_fired = True
                self.first_results[session.of_log] = max(self.first_results[session.of_log], session.records)
        self.live = [session for session in self.live if session.last + self.gap_ms + self.late_ms > x]

    def take(self, time: int, x: int, of_log: int) -> _Session | None:
        """The session that a record is in, together with those that it touches; None if it is dropped."""
        self.advance(x)
        mine, others = _Session(time, time, 0, of_log), []
        for session in self.live:
            if session.first - self.gap_ms <= time <= session.last + self.gap_ms:
                mine.join(session)
            else:
                others.append(session)
        if not mine.records and time + self.gap_ms + self.late_ms <= x:
            return None
        mine.records += 1
        self.live = [*others, mine]
        return mine


class SessionRun(NamedTuple):
    """What sessions make of a log: the lost records, how many further results, and the largest first result of each
    session of the complete log, in records."""

    lost: NDArray[np.bool_]
    updates: int
    first_results: Int64Array


def _run_sessions(log: Log, met: Int64Array, windows: Windows, of_log: Int64Array | None = None) -> SessionRun:
    """What the sessions of each key do with the records, by the X that each of them meets."""
    of_log = np.zeros(len(met), np.int64) if of_log is None else of_log
    first_results = np.zeros(int(of_log.max()) + 1, np.int64)
    names = np.unique(log.key).tolist()
    keys = {key: _SessionsOfKey(windows.gap_ms or 0, windows.allowed_lateness_ms, first_results) for key in names}
    columns = (column.tolist() for column in (log.event, log.key, met, of_log))
    lost, updates = np.zeros(len(met), bool), 0
    for row, (time, key, x, number) in enumerate(zip(*columns, strict=True)):
        session = keys[key].take(time, x, number)
        if session is None:
            lost[row] = True
        else:
            updates += session.has_fired
    for sessions in keys.values():
        sessions.advance(END)
    return SessionRun(lost, updates, first_results)


class WindowOutcome(NamedTuple):
    """What windows make of the X of a strategy, see `Outcome`."""

    lost: int
    too_early: int
    updates: int
    windows: int
    unclosed: int
    complete_mean: float
    complete_least: float
    open_max: int
    result_p50_ms: int | None
    result_max_ms: int | None


def window_outcome(
    log: Log, path: PathOfX, groups: Int64Array, of: LogWindows, output_ms: int | None = None
) -> WindowOutcome:
    """The measures of windows, from the X that each record meets and the moments at which X rises.

    `groups` has for each record what has its own X: its key, or 0 for all. Results leave when their window closes;
    with `output_ms` at the next multiple of that on the wall clock.
    """
    rows, count, late_ms = len(path.met), len(of.ends), of.windows.allowed_lateness_ms
    ends, x = of.ends[of.of_record], path.met[of.record]
    early = of.windows.too_early(log.event, path.met)
    in_first, taken = (x < ends) & ~early[of.record], x < _later(ends, late_ms)
    if of.windows.gap_ms:
        run = _run_sessions(log, path.met, of.windows, of.of_record)
        lost, updates, complete = run.lost, run.updates, run.first_results / of.sizes
        in_first &= ~lost
    else:
        lost = np.ones(rows, bool)
        lost[of.record[taken]] = False
        updates = int((taken & ~in_first).sum())
        complete = np.bincount(of.of_record[in_first], minlength=count) / of.sizes
    # A window is open from its first record that counts until the first instant at which X reaches its end.
    opened = np.full(count, rows)
    opened[of.of_record[in_first][::-1]] = of.record[in_first][::-1]
    group = np.empty(count, np.int64)
    group[of.of_record] = groups[of.record]
    reached = _first_reached(of.ends, group, pd.Series(path.x).groupby(groups).cummax().to_numpy(), groups)
    closed = np.maximum(np.where(reached < 0, rows, reached), opened)
    change = np.bincount(opened, minlength=rows + 1) - np.bincount(closed, minlength=rows + 1)
    open_now = np.cumsum(change)[:rows]
    closed_ms = _closed_ms(log, path, groups, of.ends, group)
    is_closed = closed_ms != END
    if output_ms:
        closed_ms = np.where(is_closed, -(-closed_ms // output_ms) * output_ms, END)
    delays = np.sort(difference(closed_ms, of.ends, is_closed & (opened < rows) & (of.ends != END)))
    return WindowOutcome(
        lost=int(lost.sum()),
        too_early=int(early.sum()),
        updates=updates,
        windows=count,
        unclosed=int((~is_closed).sum()),
        complete_mean=float(complete.mean()),
        complete_least=float(complete.min()),
        open_max=int(open_now.max()),
        result_p50_ms=int(delays[(len(delays) - 1) // 2]) if len(delays) else None,
        result_max_ms=int(delays[-1]) if len(delays) else None,
    )


def _closed_ms(log: Log, path: PathOfX, groups: Int64Array, ends: Int64Array, group: Int64Array) -> Int64Array:
    """When X reaches the end of each window, on the wall clock; `END` where it does not."""
    if path.rises is None or groups.any():
        at_ms, risen = log.arrival, pd.Series(path.x).groupby(groups).cummax().to_numpy()
        reached = _first_reached(ends, group, risen, groups)
    else:
        at_ms, risen = path.rises
        reached = _first_reached(ends, group, risen, np.zeros_like(risen))
    closed_ms = np.where(reached < 0, END, at_ms[np.maximum(reached, 0)] if len(at_ms) else END)
    # Of a watermark for each key nothing but the least of all is known after a tick.
    return np.where((closed_ms == END) & (ends <= path.last_x), path.end_ms, closed_ms)


def _first_reached(ends: Int64Array, group: Int64Array, risen: Int64Array, groups: Int64Array) -> Int64Array:
    """The index of the first of the rising X of its group that is not below each end; -1 where none is."""
    wanted = pd.DataFrame({"end": ends, "group": group, "window": np.arange(len(ends))}).sort_values("end")
    closings = pd.DataFrame({"end": risen, "group": groups, "index": np.arange(len(risen))})
    closings = closings.sort_values("end", kind="stable")
    both = pd.merge_asof(wanted, closings, on="end", by="group", direction="forward")
    indices = np.empty(len(ends), np.int64)
    indices[both["window"].to_numpy()] = both["index"].fillna(-1).to_numpy(np.int64)
    return indices
