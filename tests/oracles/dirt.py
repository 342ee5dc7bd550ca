"""Logs with planted dirt, and what has to be found in each: kinds, rows, writers, counts, effects; and nothing else.

A clean log has writers that send evenly; each case spoils one thing, or two, and keeps the book. What a finding says of
a constant bound is computed again here, row by row; what it says of rows is compared with the book.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wmlab.core.traces import Trace, load

START_MS: Final = 1_700_000_000_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
ROWS: Final = 3_000
Book = dict[str, tuple[tuple[int, ...], tuple[str, ...], int]]
"""Kinds of findings, each with its rows by arrival from 1, its writers, and how many rows of the source it is about."""


@dataclass(eq=False)
class Dirty:
    """A log that is being spoiled: its rows in any order, and which of them are dirty in which way."""

    random: np.random.Generator
    frame: pd.DataFrame
    every_ms: int
    whole: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Kinds of findings about writers as a whole, or about the log, which name no writer."""
    of_writers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Kinds of findings about all rows of some writers."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """How the log has to be loaded."""

    @property
    def names(self) -> list[str]:
        """The writers."""
        return sorted(set(self.frame["writer"]))

    @property
    def usual_ms(self) -> int:
        """The median delay."""
        return int(np.median(self.frame["arrival_ms"] - self.frame["event_time"]))

    def some(self, most: int) -> NDArray[np.int64]:
        """A few rows, by chance."""
        count = max(1, min(most, len(self.frame) // 100))
        return self.random.choice(len(self.frame), count, replace=False)

    def keep(self, rows: Any) -> None:
        """Leave out all other rows."""
        self.frame = self.frame[rows].reset_index(drop=True)

    def mark(self, kind: str, rows: Any) -> None:
        """Note that some rows have a fault."""
        self.frame[kind] = self.frame.index.isin(rows) | self.frame.get(kind, False)


def clean(seed: int) -> Dirty:
    """Three to six writers that send evenly, with delays of an exponential distribution."""
    random = np.random.default_rng(seed)
    writers, every_ms = int(random.integers(3, 7)), int(random.choice([100, 1_000]))
    number = np.arange(ROWS)
    event = START_MS + every_ms * number + random.integers(0, every_ms, ROWS)
    frame = pd.DataFrame({"event_time": event, "arrival_ms": event})
    frame["arrival_ms"] += random.exponential(5 * every_ms, ROWS).astype(np.int64)
    frame["writer"] = [f"w{n:02}" for n in number % writers]
    frame["key"], frame["share"] = [f"r{n}" for n in number], number / ROWS
    return Dirty(random, frame, every_ms)


def _ahead(log: Dirty) -> None:
    rows = log.some(8)
    span_ms = int(log.frame["arrival_ms"].max() - log.frame["arrival_ms"].min()) + DAY_MS
    log.frame.loc[rows, "event_time"] += span_ms * log.random.integers(1, 300, len(rows))
    log.mark("wrong times", rows)


def _old(log: Dirty) -> None:
    rows = log.some(8)
    log.frame.loc[rows, "event_time"] = log.random.integers(0, DAY_MS, len(rows))
    log.mark("wrong times", rows)


def _half_ahead(log: Dirty) -> None:
    """Half of the rows of a writer, not most of them: its other rows stay."""
    rows = np.flatnonzero(log.frame["writer"] == log.names[1])[::2]
    log.frame.loc[rows, "event_time"] += 30 * DAY_MS
    log.mark("wrong times", rows)


def _mostly_ahead(log: Dirty) -> None:
    """Most rows of a writer: of its others nobody knows the clock either."""
    rows = np.flatnonzero(log.frame["writer"] == log.names[1])
    log.frame.loc[rows[: len(rows) * 3 // 4], "event_time"] += 30 * DAY_MS
    log.of_writers["wrong times"] = (log.names[1],)


def _early_rows(log: Dirty, share: float) -> None:
    """So many rows arrive a little before they happen; up to a hundredth of all that says nothing of the clocks."""
    rows = log.random.choice(len(log.frame), round(share * len(log.frame)), replace=False)
    log.frame.loc[rows, "event_time"] = log.frame.loc[rows, "arrival_ms"] + log.every_ms
    if share > 0.01:
        log.whole["early"] = tuple(sorted(set(log.frame.loc[rows, "writer"])))


def _copies(log: Dirty) -> None:
    again = log.frame.iloc[log.some(20)].assign(copies=True)
    again["arrival_ms"] += 3 * log.usual_ms
    log.frame = pd.concat([log.frame.assign(copies=False), again], ignore_index=True)


def _clock(log: Dirty) -> None:
    log.frame.loc[log.frame["writer"] == log.names[0], "event_time"] += 200 * log.usual_ms
    log.of_writers["wrong times"] = (log.names[0],)


def _zone(log: Dirty) -> None:
    quarters = int(log.random.choice([4, 8, 22]))
    log.frame.loc[log.frame["writer"] == log.names[-1], "event_time"] -= quarters * HOUR_MS // 4
    log.of_writers["behind"] = (log.names[-1],)


def _slow_clock(log: Dirty) -> None:
    log.frame.loc[log.frame["writer"] == log.names[1], "event_time"] -= 40 * log.usual_ms + 7 * 60_000
    log.of_writers["behind"] = (log.names[1],)


def _early_writer(log: Dirty) -> None:
    log.frame.loc[log.frame["writer"] == log.names[1], "event_time"] += 3 * log.usual_ms
    log.of_writers["early"] = (log.names[1],)


def _all_early(log: Dirty) -> None:
    log.frame["event_time"] += int(log.random.choice([1, 2, 22])) * HOUR_MS
    log.whole["early"] = tuple(log.names)


def _local(log: Dirty, *quarters: int) -> None:
    """All times a whole number of quarter hours behind: from one hour to 14, as the zones of the earth are."""
    chosen = int(log.random.choice(quarters or [4, 16, 22, 56]))
    log.frame["event_time"] -= chosen * HOUR_MS // 4
    if 4 <= chosen <= 56:
        log.whole["local times"] = ()


def _unit(log: Dirty) -> None:
    log.frame["event_time"] //= 1_000
    log.whole["unit"] = ()


def _bad(log: Dirty) -> None:
    once = np.flatnonzero(~log.frame["key"].duplicated(keep=False))
    rows = log.random.choice(once, 30, replace=False)
    log.frame["event_time"] = log.frame["event_time"].astype(object)
    log.frame.loc[rows, "event_time"] = [f"on day {n}" for n in rows]
    log.mark("bad rows", rows)
    log.arguments["bad_rows"] = "drop"


def _ties(log: Dirty) -> None:
    tick_ms = max(1, 20 * int(np.median(np.diff(np.sort(log.frame["arrival_ms"])))))
    log.frame["arrival_ms"] += -log.frame["arrival_ms"] % tick_ms
    log.whole["ties"] = ()


def _gap(log: Dirty) -> None:
    log.keep((log.frame["share"] < 0.4) | (log.frame["share"] > 0.6))
    log.whole["all silent"] = ()


def _without(log: Dirty, writer: str, begin: float, end: float) -> None:
    """Take out what a writer sends in a part of the log."""
    share = log.frame["share"]
    log.keep(~((log.frame["writer"] == writer) & (share > begin) & (share < end)))


def _pause(log: Dirty) -> None:
    _without(log, log.names[0], 0.3, 0.55)
    log.whole["silent"] = (log.names[0],)


def _two_pauses(log: Dirty) -> None:
    """The longer one comes second; two are no habit."""
    for begin, end in ((0.15, 0.3), (0.5, 0.75)):
        _without(log, log.names[0], begin, end)
    log.whole["silent"] = (log.names[0],)


def _three_pauses(log: Dirty) -> None:
    """Three of about one length are a habit."""
    for begin in (0.1, 0.4, 0.7):
        _without(log, log.names[0], begin, begin + 0.15)


def _gone(log: Dirty) -> None:
    _without(log, log.names[2], 0.6, 1.1)
    log.whole["silent"] = (log.names[2],)


def _comes(log: Dirty) -> None:
    _without(log, log.names[1], -0.1, 0.5)


def _habit(log: Dirty) -> None:
    """A writer that is silent for most of each tenth of the log."""
    for begin in np.arange(0, 1, 0.1):
        _without(log, log.names[0], begin + 0.02, begin + 0.1)


def _stragglers(log: Dirty) -> None:
    """Two rows of one writer, which arrive long after all others."""
    last_ms = int(log.frame["arrival_ms"].max() - log.frame["arrival_ms"].min())
    rows = np.flatnonzero(log.frame["writer"] == log.names[1])[-2:]
    log.frame.loc[rows, "arrival_ms"] += [last_ms // 4, last_ms // 3]


def _bursts(log: Dirty) -> None:
    """All rows of a fiftieth of the log arrive together, in the order of their event times."""
    first, last = log.frame["arrival_ms"].min(), log.frame["arrival_ms"].max()
    every_ms = int(last - first) // 50
    burst = -(-(log.frame["arrival_ms"] - first) // every_ms)
    log.frame["arrival_ms"] = (
        first + burst * every_ms + log.frame.groupby(burst)["event_time"].rank(method="first").astype(int)
    )


def _slow_way(log: Dirty) -> None:
    """A writer whose delays are ten times as long; its fastest rows are as fast as all others."""
    mine = log.frame["writer"] == log.names[1]
    log.frame.loc[mine, "arrival_ms"] += 9 * (log.frame["arrival_ms"] - log.frame["event_time"])[mine]


def _uploads(log: Dirty) -> None:
    """A writer whose rows of a tenth of the log arrive together, some time after its end: its clock is right."""
    mine, arrival = log.frame["writer"] == log.names[1], log.frame["arrival_ms"]
    first, every_ms = int(arrival.min()), int(arrival.max() - arrival.min()) // 10
    at = first + -(-(log.frame["event_time"] - first) // every_ms) * every_ms + every_ms // 4
    log.frame.loc[mine, "arrival_ms"] = np.maximum(arrival, at)[mine] + np.arange(len(log.frame))[mine] % 50


def _whole_seconds(log: Dirty) -> None:
    """Arrivals without a fraction: about half of the rows have a later event time in the same second, and no order."""
    log.frame["event_time"] = log.frame["arrival_ms"] - log.random.exponential(700, len(log.frame)).astype(int)
    log.frame["arrival_ms"] = log.frame["arrival_ms"] // 1_000 * 1_000
    log.whole["ties"] = ()


def _alike(log: Dirty) -> None:
    """Event times without a fraction, and no other column that tells two rows of one writer and second apart."""
    begin, end = log.frame["event_time"].min(), log.frame["event_time"].max()
    spread = begin + log.random.integers(0, 20 * (end - begin), len(log.frame))
    log.frame["arrival_ms"] += spread - log.frame["event_time"]
    log.frame["event_time"], log.frame["key"] = spread // 1_000 * 1_000, "ok"


def _rare(log: Dirty) -> None:
    """A writer that is heard once near the end, by a record that takes long: of one nobody knows the clock."""
    row = len(log.frame) - 1 - int(log.random.choice(60))
    log.frame.loc[row, "writer"] = "rare"
    log.frame.loc[row, "arrival_ms"] += 60 * log.usual_ms


SPOILED: Final[dict[str, Callable[[Dirty], None]]] = {
    "clean": lambda log: None,
    "ahead": _ahead,
    "old": _old,
    "copies": _copies,
    "clock": _clock,
    "zone": _zone,
    "slow clock": _slow_clock,
    "early writer": _early_writer,
    "all early": _all_early,
    "local": _local,
    "an hour": lambda log: _local(log, 4),
    "14 hours": lambda log: _local(log, 56),
    "three quarters": lambda log: _local(log, 3),
    "half ahead": _half_ahead,
    "mostly ahead": _mostly_ahead,
    "early rows": lambda log: _early_rows(log, 0.02),
    "few early rows": lambda log: _early_rows(log, 0.008),
    "unit": _unit,
    "bad": _bad,
    "ties": _ties,
    "gap": _gap,
    "pause": _pause,
    "two pauses": _two_pauses,
    "three pauses": _three_pauses,
    "gone": _gone,
    "comes": _comes,
    "habit": _habit,
    "stragglers": _stragglers,
    "bursts": _bursts,
    "slow way": _slow_way,
    "rare": _rare,
    "uploads": _uploads,
    "whole seconds": _whole_seconds,
    "alike": _alike,
}
"""How a log can be spoiled; some of these ways are none."""
PAIRS: Final = (
    ("ahead", "old"),
    ("ahead", "copies"),
    ("old", "copies"),
    ("copies", "zone"),
    ("copies", "pause"),
    ("ahead", "pause"),
    ("zone", "gone"),
    ("clock", "gone"),
    ("gap", "copies"),
    ("copies", "bad"),
    ("local", "bad"),
    ("slow way", "ahead"),
    ("early writer", "pause"),
    ("stragglers", "old"),
)
"""Two ways at once."""


@dataclass(frozen=True, eq=False)
class Spoiled:
    """A log as it is loaded, and its book."""

    trace: Trace
    book: Book


def spoiled(seed: int, *ways: str) -> Spoiled:
    """The log of a seed, spoiled in these ways, by arrival."""
    log = clean(seed)
    for way in ways:
        SPOILED[way](log)
    frame = log.frame.sort_values("arrival_ms", kind="stable").reset_index(drop=True)
    columns = ["event_time", "arrival_ms", "writer", "key"]
    trace = load(frame[columns], name="spoiled", **log.arguments)
    bad = frame.pop("bad rows").to_numpy(bool) if "bad rows" in frame else np.zeros(len(frame), bool)
    frame = frame[~bad].reset_index(drop=True)
    book: Book = {"bad rows": ((), (), int(bad.sum()))} if bad.any() else {}
    flags = {kind: frame[kind].to_numpy(bool) for kind in ("wrong times", "copies") if kind in frame}
    for kind, writers in log.of_writers.items():
        flags[kind] = flags.get(kind, np.zeros(len(frame), bool)) | np.isin(frame["writer"], writers)
    for kind, rows in flags.items():
        numbers = tuple((np.flatnonzero(rows) + 1).tolist())
        book[kind] = numbers, tuple(sorted(set(frame["writer"][rows]))), len(numbers)
    for kind, writers in log.whole.items():
        book[kind] = (), tuple(sorted(writers)), _about(kind, frame)
    return Spoiled(trace, book)


def _about(kind: str, frame: pd.DataFrame) -> int:
    """How many rows a finding is about that names none."""
    match kind:
        case "early":
            return int((frame["event_time"] > frame["arrival_ms"]).sum())
        case "ties":
            return int(frame["arrival_ms"].duplicated(keep=False).sum())
        case "unit" | "local times":
            return len(frame)
    return 0


def least_bound_ms(event: Sequence[int], share: float) -> int:
    """The least constant bound with which at most that share of records is late."""
    late_by, largest = [], event[0]
    for time in event:
        late_by.append(max(0, largest - time))
        largest = max(largest, time)
    may_miss = next(count for count in range(len(late_by), -1, -1) if count / len(late_by) <= share)
    return 0 if may_miss == len(late_by) else sorted(late_by, reverse=True)[may_miss]


def late_rows(event: Sequence[int], bound_ms: int) -> set[int]:
    """The numbers of the records, from 1, that are late for a constant bound."""
    late, largest = set(), event[0]
    for row, time in enumerate(event, start=1):
        if time < largest - bound_ms:
            late.add(row)
        largest = max(largest, time)
    return late


def effects(log: Trace, rows: Sequence[int], share: float) -> tuple[int, int, int] | None:
    """The constant bound of a log, that without some rows, and how many others are late only because of them."""
    event, out = log.table["event_time"].to_pylist(), set(rows)
    rest = [time for row, time in enumerate(event, start=1) if row not in out]
    if not rest:
        return None
    without_ms = least_bound_ms(rest, share)
    others = len(late_rows(event, without_ms) - out)
    return least_bound_ms(event, share), without_ms, others - len(late_rows(rest, without_ms))
