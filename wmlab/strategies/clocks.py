"""The clocks of a log: which records have a wrong time, and statistics about each writer's records.

A record is *ahead* if its event time is after its arrival, by more than clocks and delays of the log explain. It is
*older than the log* if its event time is before the first arrival by more than the log is long: the clock of a device
that was never set gives 1970. A writer that is behind as a whole, of which some records are not older, has no such
record. Both kinds have wrong times.

How far ahead is too far follows from the log. With d = event time - arrival, and q(s) its quantile at the share s, a
record is ahead above a limit: if d > `ahead_ms` = max(0, q(0.75) + 10 (q(0.75) - q(0.5))), rounded up to two digits.
Writers that are early in the median are left out of that, if they have at most half of the records. Of delays with an
exponential distribution of mean M the limit is 4 M, of a normal one 7 standard deviations after the mean.

A writer is *silent* where it sends nothing for more than ten times its usual gap, for more than a twentieth of the log,
and for more than twice its third longest gap, since a pause that it always makes is none. The usual gap is the 90%
quantile of the times between its arrivals. Where all writers are silent together none of them is. Its silence ends with
its next record, or with the log: it has gone if it is silent for longer than ever before when 99% of the records and
half of the writers have come to their end. Writers *come and go* if more than half of at least four are silent when the
log ends: visitors, vehicles, sessions.

A record is *early* if it arrives before it happens; of arrivals in whole seconds, before the second in which it does.

A writer of five records or more is *behind* if its fastest record is later than the delays of the log explain, and by
more than that is ahead of its own median: a slow way is no wrong clock, nor are uploads now and then. The writer's
offset is that of its fastest record. That a clock is behind is also said of a writer that is behind the others by a
whole number of quarter hours, and by ten times the spread of both: then its clock may be in another time zone. The
others are the writers nearest to their arrivals that have half of the records, so up to half of them may be behind.

A record is a *copy* if it repeats an earlier one with the same id and event time. The id is the key, where nearly all
records have a key of their own, or what the caller gives: a hash of all other columns, for instance. Where about as
many records have the id of one that is a tick of the event times older, they are alike by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace
from wmlab.core.words import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from wmlab.strategies.replay import Log, as_trace, before, group

_SPREADS: Final = 10
"""How many times the upper quartile is away from the median, a record has to be away from the quartile to be ahead."""
_MOST: Final = 0.5
"""The share of a writer's records from which on its clock, and not single records, is ahead or early."""
_USUAL: Final = 0.9
_LONGER: Final = 10
_OF_LOG: Final = 20
"""A silence is so many times longer than this quantile of the writer's gaps, and than the log divided by that."""
_HABIT: Final = 3
"""How many pauses of about one length are a habit of a writer."""
_ENDS: Final = 0.99
"""Of how many arrivals the last one is not after the end of the log, if most writers have ended by then."""
_HEARD: Final = 5
"""How many records a writer has at least whose clock can be called behind: a single one may just have taken long."""
_COPIES: Final = 0.1
"""The share of records that repeat another one up to which they are copies."""
_BY_CHANCE: Final = 3
"""How many times as many copies there are at least as records that are alike a tick apart."""
_TICKS: Final = (7 * DAY_MS, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS)
_ALIKE: Final = 0.95
"""The share of times that a tick has to explain."""

_QUARTER_MS: Final = 15 * MINUTE_MS
_ZONE_MS: Final = 26 * HOUR_MS
"""Time zones are whole quarters of an hour, and at most so far apart."""
_ZONE_OFF_MS: Final = 2 * SECOND_MS
_ZONE_OFF_MOST_MS: Final = 3 * MINUTE_MS
"""How far from a whole number of quarters a difference is in any case, and may be where delays spread."""
_COME_AND_GO: Final = 0.5
_FEW_WRITERS: Final = 4
_OF_ITS_OWN: Final = 0.9
"""The share of records with a key of their own from which on the key is an id."""

Flags = NDArray[np.bool_]
Silence = tuple[int, int]
"""From which arrival to which one a writer sends nothing, ms."""


class WrongTimes(NamedTuple):
    """Which records of a log are ahead of their arrival, which are older than the log, and the limit for the first."""

    ahead: Flags
    older: Flags
    limit_ms: int

    @property
    def either(self) -> Flags:
        """All of them."""
        return self.ahead | self.older


def wrong_times(trace: Trace) -> WrongTimes:
    """The records of a log with wrong times; see the module."""
    log, limit_ms = Log.of(trace), ahead_limit_ms(trace)
    ahead = log.event - log.arrival
    older = _older_than_the_log(log)
    if older.any():
        offsets, of = _offsets(log), pd.DataFrame({"ahead": ahead, "older": older}).groupby(log.writer)
        behind = offsets["zone"] & (offsets["offset_ms"] < 0)
        behind |= (of["ahead"].max() < _slow_limit_ms(log)) & ~of["older"].all()
        older &= ~behind.to_numpy()[log.writer]
    return WrongTimes(ahead > limit_ms, older, limit_ms)


def ahead_limit_ms(trace: Trace) -> int:
    """How far a record of the log may be ahead of its arrival, ms; see the module."""
    log = Log.of(trace)
    ahead = log.event - log.arrival
    early = (pd.Series(ahead).groupby(log.writer).median() > 0).to_numpy()[log.writer]
    # The limit is that of the writers that are not early as a whole, where they have half of the records.
    ahead = ahead[~early] if early.mean() <= _MOST else ahead
    middle, upper = np.quantile(ahead, (0.5, 0.75), method="inverted_cdf").tolist()
    return in_two_digits(max(0, upper + _SPREADS * (upper - middle)))


def in_two_digits(length_ms: float) -> int:
    """A length with two digits that count, the next one above.

    >>> in_two_digits(8_119_554), in_two_digits(99.5), in_two_digits(0)
    (8200000, 100, 0)
    """
    unit: int = 10 ** max(0, len(str(int(length_ms))) - 2)
    return unit * ceil(length_ms / unit)


def _older_than_the_log(log: Log) -> Any:
    """Whether the event time of a record is before the first arrival by more than the log is long, and it is rare."""
    first, last = int(log.arrival[0]), int(log.arrival[-1])
    before_it = log.event < first - max(last - first, 1)
    # Of a short log of old events many records are older than it is long: then these are the log.
    delay_ms = log.arrival - log.event
    usual_ms = np.quantile(delay_ms, 0.75, method="inverted_cdf")
    return before_it & (delay_ms > _SPREADS * max(0, usual_ms))


def copies(log: Log, ids: Any = None) -> Flags:
    """Which records are copies, see the module; `ids` has the id of each record.

    None is where more than a tenth of the records would be copies, or they are alike by chance: then the id is none.
    """
    if ids is None:
        if not key_is_id(log):
            return np.zeros(len(log.key), bool)
        ids = log.key
    frame = pd.DataFrame({"event": log.event, "writer": log.writer, "id": ids})
    repeated: Flags = frame.duplicated().to_numpy()
    if not repeated.any():
        return repeated
    different = frame[~repeated]
    alike = len(different.merge(different.assign(event=different["event"] + tick_ms(log.event))))
    is_known = repeated.mean() <= _COPIES and repeated.sum() > _BY_CHANCE * alike
    return repeated if is_known else np.zeros_like(repeated)


def early(log: Log) -> Flags:
    """Which records are early, see the module."""
    flags: Flags = log.event >= log.arrival + tick_ms(log.arrival)
    return flags


def tick_ms(times: Int64Array) -> int:
    """The largest of the usual units of clocks in which nearly all times are whole numbers, ms."""
    for tick in _TICKS:
        _, counts = np.unique(times % tick, return_counts=True)
        if counts.max() >= _ALIKE * len(times):
            return tick
    return 1


def key_is_id(log: Log) -> bool:
    """Whether the key names nearly every record of a writer, so that it can tell copies."""
    return len(pd.MultiIndex.from_arrays([log.writer, log.key]).unique()) >= _OF_ITS_OWN * len(log.key)


def writer_clocks(trace: Trace | Any, ids: Any = None) -> pd.DataFrame:
    """Statistics about the records of each writer, one row each; times in ms, shares from 0 to 1.

    `first_event_time` and `last_event_time` are the smallest and the largest event time of the records without a wrong
    time, missing if all are wrong; `first_arrival_ms` and `last_arrival_ms` those of all arrivals. `offset_ms` is the
    largest event time minus arrival of a right time, minus that of the others: above 0 the clock is ahead. In another
    time zone it is the difference of the medians.
    `early` counts the records that arrive before they happen, `out_of_order` those older than a record before them,
    `copies` and `wrong` those of the module, `steps` how often the writer changes from wrong
    times to right ones, or back. `silent_ms` is the longest time without a record, until the end of the log;
    `silent_at_end` is whether that is the time before the end. `silences` are pairs of arrivals. `clock` says what is
    wrong: "ahead" or "older than the log" if most records are, "steps" if some are, "early" if most records arrive
    before they happen, "behind"; empty: nothing. `zone` is whether it is off by whole quarters of an hour.

    Writers with most wrong times come first, then those early most often, and those that are silent.
    Raises `ModelError` for anything but a log.
    """
    trace = as_trace(trace)
    log, wrong = Log.of(trace), wrong_times(trace)
    writer, names = group(trace, "writer")
    frame = pd.DataFrame({"writer": writer, "ahead": log.event - log.arrival, "wrong": wrong.either})
    frame["older"], frame["early"], frame["arrival"] = wrong.older, early(log), log.arrival
    frame["out_of_order"] = log.event < before(log.event)
    frame["copies"] = copies(log, ids)
    frame["good"] = pd.Series(log.event).where(~wrong.either).astype("Int64")
    last = frame.groupby("writer")["wrong"].shift(1)
    frame["changed"] = last.notna() & (last != frame["wrong"])
    frame["quiet"] = frame.groupby("writer")["arrival"].diff().fillna(0).astype(np.int64)
    of = frame.groupby("writer")
    at_end, quiet = (end_ms(log) - of["arrival"].max()).clip(lower=0), of["quiet"].max()
    offsets, fastest = _offsets(log), of["ahead"].max()
    if not wrong.either.all():
        fastest = frame[~frame["wrong"]].groupby("writer")["ahead"].max().reindex(fastest.index).fillna(fastest)
    typical = int(np.quantile(fastest.to_numpy(), 0.5, method="inverted_cdf"))
    offset = offsets["offset_ms"].where(offsets["zone"], (fastest - typical).astype(np.int64))
    table = pd.DataFrame(
        {
            "rows": of.size(),
            "first_event_time": of["good"].min(),
            "last_event_time": of["good"].max(),
            "first_arrival_ms": of["arrival"].min(),
            "last_arrival_ms": of["arrival"].max(),
            "offset_ms": offset,
            "early": of["early"].sum(),
            "early_share": of["early"].mean(),
            "out_of_order": of["out_of_order"].sum(),
            "copies": of["copies"].sum(),
            "wrong": of["wrong"].sum(),
            "steps": of["changed"].sum(),
            "silent_ms": np.maximum(quiet, at_end),
            "silent_at_end": at_end > quiet,
            "zone": offsets["zone"],
        }
    )
    silences = _silences(log)
    table["silences"] = pd.Series({index: tuple(silences.get(index, ())) for index in table.index})
    slow = (fastest < _slow_limit_ms(log)) & (typical - fastest > fastest - of["ahead"].median())
    slow |= offsets["zone"] & (offsets["offset_ms"] < 0)
    slow &= of.size() >= _HEARD
    older = of["older"].sum()
    table["clock"] = [
        _fault(row.rows, row.wrong, older[index], row.early, is_slow=bool(slow[index]))
        for index, row in zip(table.index, each_writer(table), strict=True)
    ]
    table.insert(0, "writer", [names[index] for index in table.index])
    order = pd.DataFrame(
        {
            "wrong": -table["wrong"],
            "early": -table["early_share"],
            "silences": -table["silences"].map(len),
            "behind": table["clock"] != "behind",
            "offset": -table["offset_ms"].abs(),
            "name": table["writer"],
        }
    )
    return table.loc[order.sort_values(list(order.columns), kind="stable").index].reset_index(drop=True)


def each_writer(clocks: Any) -> Iterator[Any]:
    """The rows of `writer_clocks`, with its columns as attributes."""
    yield from clocks.itertuples(index=False)


def _offsets(log: Log) -> pd.DataFrame:
    """By how much the clock of each writer is off the others, ms, and whether that looks like a time zone."""
    frame = pd.DataFrame({"writer": log.writer, "ahead": log.event - log.arrival})
    of = frame.groupby("writer")["ahead"]
    # As a quantile of numpy, a median that is one of the values.
    middle = of.quantile(0.5, interpolation="lower").astype(np.int64)
    spread = of.quantile(0.75) - of.quantile(0.25)
    half = _nearest(of)
    both = spread + float(np.median(spread[half]))
    offset = middle - int(np.quantile(middle[half].to_numpy(), 0.5, method="inverted_cdf"))
    quarters = (offset / _QUARTER_MS).round()
    off = (offset - quarters * _QUARTER_MS).abs()
    zone = (quarters != 0) & (off <= np.clip(2 * both, _ZONE_OFF_MS, _ZONE_OFF_MOST_MS))
    zone &= (offset.abs() >= _SPREADS * both) & (offset.abs() <= _ZONE_MS)
    typical = int(np.quantile(middle.to_numpy(), 0.5, method="inverted_cdf"))
    return pd.DataFrame({"offset_ms": offset.where(zone, middle - typical), "zone": zone})


def come_and_go(clocks: pd.DataFrame, end_ms: int) -> bool:
    """Whether writers come and go, see the module; `end_ms` is the last arrival of the log."""
    left = sum(bool(silences) and silences[-1][1] == end_ms for silences in clocks["silences"])
    return len(clocks) >= _FEW_WRITERS and left > _COME_AND_GO * len(clocks)


def _fault(rows: int, wrong: int, older: int, early: int, *, is_slow: bool) -> str:
    """What is wrong with a clock, by how many of its times are wrong, of these older than the log, and early."""
    if wrong > _MOST * rows:
        return "older than the log" if older > wrong // 2 else "ahead"
    if wrong:
        return "steps"
    if early > _MOST * rows:
        return "early"
    return "behind" if is_slow else ""


def _silences(log: Log) -> dict[int, list[Silence]]:
    """The silences of each writer that has any; a writer of one arrival is held against the gaps of all writers.

    What all writers are silent for together counts for none of them: their clocks stand still meanwhile.
    """
    last, end = int(log.arrival[-1]), end_ms(log)
    order = np.argsort(log.writer, kind="stable")
    cuts = np.cumsum(np.bincount(log.writer))[:-1]
    arrivals = [np.unique(times) for times in np.split(log.arrival[order], cuts)]
    awake = _awake_ms(log.arrival, len(arrivals))
    gaps = [np.diff(awake(times)) for times in arrivals]
    usual_ms = _usual_ms(np.concatenate(gaps))
    span_ms = int(awake(np.array([end]))[0] - awake(log.arrival[:1])[0])
    silences: dict[int, list[Silence]] = {}
    for writer, (times, of_writer) in enumerate(zip(arrivals, gaps, strict=True)):
        most_ms = max(_LONGER * (_usual_ms(of_writer) if len(of_writer) else usual_ms), span_ms // _OF_LOG)
        most_ms = max(most_ms, _habit_ms(of_writer))
        at_end_ms = int(np.subtract(*awake(np.array([end, min(end, int(times[-1]))]))))
        spans = [(int(times[n]), int(times[n + 1])) for n in np.flatnonzero(of_writer > most_ms)]
        # A writer whose last pause is no longer than one before has not gone.
        if at_end_ms > max(most_ms, int(of_writer.max(initial=0))):
            spans.append((int(times[-1]), last))
        if spans:
            silences[writer] = spans
    return silences


def end_ms(log: Log) -> int:
    """Where the arrivals of the log end for most writers: its last rows may be stragglers."""
    writers = np.sort(pd.Series(log.arrival).groupby(log.writer).max().to_numpy())
    nearly_all = log.arrival[int(_ENDS * (len(log.arrival) - 1))]
    return int(max(nearly_all, writers[len(writers) // 2]))


def common_silences(log: Log) -> list[Silence]:
    """The arrivals between which no writer of several sends anything, by the rule for one writer."""
    if len(np.unique(log.writer)) < 2:
        return []
    times = np.unique(log.arrival[log.arrival <= end_ms(log)])
    gaps = np.diff(times)
    most_ms = max(_LONGER * _usual_ms(gaps), int(times[-1] - times[0]) // _OF_LOG, _habit_ms(gaps))
    return [(int(times[n]), int(times[n + 1])) for n in np.flatnonzero(gaps > most_ms)]


def _habit_ms(gaps: Int64Array) -> int:
    """Up to which length the pauses are such as a writer always makes: twice the third longest."""
    return 2 * int(np.partition(gaps, -_HABIT)[-_HABIT]) if len(gaps) >= _HABIT else 0


def _awake_ms(arrival: Int64Array, writers: int) -> Callable[[Int64Array], Int64Array]:
    """A clock that stands still while no writer of several sends anything for longer than is usual."""
    times = np.unique(arrival)
    gaps = np.diff(times)
    paused = np.where((gaps > _LONGER * _usual_ms(gaps)) & (writers > 1), gaps, 0)
    so_far = np.append(0, np.cumsum(paused))
    return lambda at: at - so_far[np.searchsorted(times, at, side="right") - 1]


def _usual_ms(gaps: Int64Array) -> int:
    return int(np.quantile(gaps, _USUAL, method="inverted_cdf")) if len(gaps) else 0


def _slow_limit_ms(log: Log) -> int:
    """What event time less arrival is below if the clock is behind, or the delay longer than those of others are.

    The others are the writers nearest to their arrivals that have half of the records.
    """
    ahead = log.event - log.arrival
    nearest = _nearest(pd.Series(ahead).groupby(log.writer))
    lower, middle = np.quantile(ahead[np.isin(log.writer, nearest)], (0.25, 0.5), method="inverted_cdf").tolist()
    return int(lower - _SPREADS * (middle - lower))


def _nearest(of: Any) -> Any:
    """The writers nearest to their arrivals that have half of the records; those that are early come last."""
    # As a quantile of numpy, a median that is one of the values.
    middle = of.quantile(0.5, interpolation="lower")
    nearest = pd.DataFrame({"early": middle > 0, "far": -middle, "rows": of.size()}).sort_values(["early", "far"])
    return nearest.index[: 1 + int(np.searchsorted(nearest["rows"].cumsum().to_numpy(), nearest["rows"].sum() / 2))]
