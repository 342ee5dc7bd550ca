"""A strategy over a log: the X that each record meets and the X after it; and the log's own statistics.

Arrays have one entry a record, in order of arrival. A `group` is an array of small integers: what has its own
watermark, a writer or a key.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from numpy.typing import NDArray

from wmlab.core.errors import ModelError, TraceError
from wmlab.core.log_files import is_frame
from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace, load
from wmlab.core.words import grouped, shown
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Input, Record, Strategy, Tick, now_of, steps

XOfRecords = tuple[Int64Array, Int64Array]
"""The X that each record meets, and the X after it."""


class PathOfX(NamedTuple):
    """The X of a strategy over a log: what each record meets, what it is after it, and when it rises in between.

    `rises` are the moments of the wall clock at which X is larger than ever before, and X then; None where only the
    records are known. `last_x` is X when the clock ends, at `end_ms`.
    """

    met: Int64Array
    x: Int64Array
    rises: tuple[Int64Array, Int64Array] | None
    end_ms: int
    last_x: int


_TICKS: Final = 10_000
_MOST_TICKS: Final = 10_000_000


@dataclass(frozen=True, eq=False)
class Log:
    """The columns of a trace as arrays; `writer` and `key` are groups. What is the same for all strategies is
    computed once."""

    event: Int64Array
    arrival: Int64Array
    writer: NDArray[np.int32]
    key: NDArray[np.int32]

    @classmethod
    def of(cls, trace: Trace) -> Log:
        """The columns of `trace`, or of a data frame with the columns of one; raises `ModelError` for anything else."""
        trace = as_trace(trace)
        return cls(
            *(trace.table[name].to_numpy() for name in ("event_time", "arrival_ms")),
            *(group(trace, name)[0] for name in ("writer", "key")),
        )

    @cached_property
    def ends(self) -> Int64Array:
        """The perfect watermark after each record."""
        return perfect(self.event)

    @cached_property
    def ends_by_key(self) -> Int64Array:
        """The perfect watermark of the record's key."""
        return perfect(self.event, self.key)

    @cached_property
    def perfect_lag_ms(self) -> int | None:
        """The median of arrival minus the perfect watermark, below 0 if it knows of a pause; None for one record."""
        timed = self.ends != END
        lags = difference(self.arrival, self.ends, timed)
        return int(np.quantile(lags, 0.5, method="inverted_cdf")) if len(lags) else None

    @cached_property
    def clock_ms(self) -> int:
        """The arrival in the middle, which says whether the times of the log are ms since 1970, as `moment` asks."""
        return int(self.arrival[len(self.arrival) // 2])

    def of_rows(self, rows: slice) -> Log:
        """Some rows of the log."""
        return Log(self.event[rows], self.arrival[rows], self.writer[rows], self.key[rows])


def as_trace(trace: Any) -> Trace:
    """A trace as it is; of a data frame with the columns of one, as `wm.spark.of_log` gives, what `load` reads in it.

    Raises `ModelError` for anything else, and for a time that stands for "unknown" or for the end of the input;
    `TraceError` for a frame that is not a trace.
    """
    if is_frame(trace):
        try:
            trace = load(trace)
        except TraceError as wrong:
            raise TraceError(
                wrong.problem, remedy=f"make the frame a trace with wm.trace.load(frame, ...), and there {wrong.remedy}"
            ) from None
    if not isinstance(trace, Trace):
        raise ModelError(f"{shown(trace)} is not a trace.", remedy="Give what wm.trace.load(...) returns.")
    for name in ("event_time", "arrival_ms"):
        for reserved in (UNKNOWN, END):
            if (row := pc.index(trace.table[name], reserved).as_py()) >= 0:
                raise ModelError(
                    f"Record {row + 1} of {trace.name!r}, in order of arrival, has {name} {reserved}, no time.",
                    remedy="Leave it out, or correct its time.",
                )
    return trace


def difference(left: Int64Array, right: Int64Array, chosen: NDArray[np.bool_] | None = None) -> Int64Array:
    """`left - right` of all records, or of those that are chosen; exact, or a `ModelError` that names the record."""
    first, second = (left, right) if chosen is None else (left[chosen], right[chosen])
    distance: Int64Array = first - second
    # A difference beyond 64 bits comes out with the sign of what was taken away.
    if len(beyond := np.flatnonzero(((first ^ second) & (first ^ distance)) < 0)):
        row = int(beyond[0]) if chosen is None else int(np.flatnonzero(chosen)[beyond[0]])
        more = f", and that of {grouped(len(beyond) - 1)} more" if len(beyond) > 1 else ""
        raise ModelError(
            f"The distance of {first[beyond[0]]} and {second[beyond[0]]}, of record {row + 1} in order of "
            f"arrival{more}, is beyond 64 bits.",
            remedy="Leave these records out, or correct their times.",
        )
    return distance


def median(values: Int64Array) -> int:
    """The lower one of the two values in the middle; 0 of none."""
    return int(np.quantile(values, 0.5, method="inverted_cdf")) if len(values) else 0


def group(trace: Trace, column: str) -> tuple[NDArray[np.int32], list[str]]:
    """The group of each record by its writer or key, and the names of the groups."""
    if column not in ("writer", "key"):
        raise ModelError(f"A log has no groups by {column!r}.", remedy="Choose by='writer', by='key' or by=None.")
    encoded = trace.table[column].combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def before(times: Int64Array, groups: Any = None) -> Int64Array:
    """The largest time before each record, of its group if there are groups; `UNKNOWN` where there is none."""
    if groups is None:
        return np.concatenate([[UNKNOWN], np.maximum.accumulate(times)[:-1]])
    return _shifted(pd.Series(times).groupby(groups).cummax(), groups, UNKNOWN)


def perfect(times: Int64Array, groups: Any = None) -> Int64Array:
    """The perfect watermark after each record, the least time of all later ones (of its group); `END` if none is.

    It needs the whole log: no strategy can know it.
    """
    if groups is None:
        return np.concatenate([np.minimum.accumulate(times[::-1])[-2::-1], [END]])
    backwards = groups[::-1]
    return _shifted(pd.Series(times[::-1]).groupby(backwards).cummin(), backwards, END)[::-1]


def _shifted(series: Any, groups: Any, first: int) -> Int64Array:
    shifted: Int64Array = series.groupby(groups).shift(1, fill_value=first).to_numpy()
    return shifted


def inputs(trace: Trace, tick_ms: int | None = None, until_ms: int | None = None) -> Iterator[Input]:
    """What a strategy is given: each record, and the wall clock every `tick_ms` from the first arrival on.

    A tick comes after the records of its moment. By default there are 10,000 ticks over the log; 0 gives none. The
    clock ends with the last arrival, or at `until_ms`, with a last tick there. Raises `ModelError` for an end before
    the last arrival, and for more than ten million ticks, which would not fit in memory.
    """
    trace = as_trace(trace)
    first, last = trace.span_ms
    end = last if until_ms is None else until_ms
    if end < last:
        raise ModelError(f"until_ms is {end}, before the last arrival.", remedy=f"Give {last} or more.")
    every = max(1, (end - first) // _TICKS) if tick_ms is None else tick_ms
    if every and (count := (end - first) // every) > _MOST_TICKS:
        least = (end - first) // _MOST_TICKS + 1
        raise ModelError(
            f"tick_ms is {every}, for {grouped(count)} ticks over the log.", remedy=f"Give {least} or more."
        )
    due = first if every else END
    for record in map(Record, *(column.to_pylist() for column in trace.table.columns)):
        while due < record.arrival_ms:
            yield Tick(due)
            due += every
        yield record
    if until_ms is not None:
        yield from map(Tick, range(due, end, every or 1))
        yield Tick(end)


def x_of_records(trace: Trace, strategies: Iterable[Strategy[Any]], *, tick_ms: int | None = None) -> list[XOfRecords]:
    """What `XOfRecords` has of each strategy over the log."""
    return [(path.met, path.x) for path in paths_of_x(trace, strategies, tick_ms=tick_ms)]


def path_of_records(log: Log, met: Int64Array, x: Int64Array) -> PathOfX:
    """A path of which only the records are known."""
    return PathOfX(met, x, None, int(log.arrival[-1]), int(x[-1]))


def paths_of_x(
    trace: Trace,
    strategies: Iterable[Strategy[Any]],
    *,
    tick_ms: int | None = None,
    until_ms: int | None = None,
    ends: bool = False,
) -> list[PathOfX]:
    """The X of each strategy over the log, until the clock ends at `until_ms`; with `ends` so does the input."""
    items = [*inputs(trace, tick_ms, until_ms), *([EndOfInput()] if ends else [])]
    end_ms = trace.span_ms[1] if until_ms is None else until_ms
    return [_path_of(strategy, items, end_ms) for strategy in strategies]


def _path_of(strategy: Strategy[Any], items: Sequence[Input | EndOfInput], end_ms: int) -> PathOfX:
    met, after, risen_ms, risen = array("q"), array("q"), array("q"), array("q")
    largest = x = UNKNOWN
    for item, (before, x, _) in zip(items, steps(strategy, items), strict=True):
        try:
            if type(item) is Record:
                met.append(before)
                after.append(x)
            if x > largest:
                risen.append(x)
                risen_ms.append(end_ms if isinstance(item, EndOfInput) else now_of(item))
                largest = x
        except OverflowError:
            raise ModelError(
                f"{shown(strategy)} has the watermark {x} after record {len(met)} in order of arrival.",
                remedy="Give watermarks within 64 bits.",
            ) from None
    rises = np.array(risen_ms, np.int64), np.array(risen, np.int64)
    return PathOfX(np.array(met), np.array(after), rises, end_ms, x)
