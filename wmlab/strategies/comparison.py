"""Strategies over one log, side by side: what each loses, how far it is behind, how much it keeps open.

Everything is stated in X, the exclusive form. The instants are the arrivals of records; after each of them a strategy
has an X, and the perfect watermark P is the least event time still to come. A strategy with a watermark for each key
is held against the P of the record's key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import COLUMNS_HINT, Cell, TableAnswer, text_table
from wmlab.core.arguments import the_duration
from wmlab.core.errors import ModelError
from wmlab.core.times import Int64Array
from wmlab.core.traces import TRACE_SCHEMA, Trace
from wmlab.core.words import counted, exactly, grouped, listed, rounded, shown
from wmlab.strategies.clocks import wrong_times
from wmlab.strategies.lost_rows import LOST_ROWS, LostRows
from wmlab.strategies.model.bounded import PerfectWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, NotNegative, Positive, Strategy, require_argument
from wmlab.strategies.replay import Log, as_trace, before, difference, x_of_records

CONSECUTIVE: Final = 2_000
"""So many records in a row are looked at for the worst late share."""

RECORDS: Final = pa.schema(
    [("strategy", pa.string()), ("row", pa.int64())]
    + [(column.name, column.type) for column in TRACE_SCHEMA]
    + [(name, pa.int64()) for name in ("met", "x", "perfect", "late_by_ms")]
)
"""One row for each strategy and record, with the columns of a trace: its number in order of arrival, from 1; the X that
it meets, X and the perfect watermark after it, null where unknown or at the end; by how much it is late, 0 if not."""

_LENGTHS: Final = frozenset(
    {"bound", "bucket", "delay", "grace", "horizon", "lag", "lateness", "max_k", "wait", "window"}
)
"""Fields of strategies that are durations of event time, which is in ms in every log."""
_HALF: Final = 0.5
"""The late share above which a strategy is of no use: it loses most records."""
_NAMED: Final = 3
"""Strategies ahead of the arrivals that a sentence names."""
_SHOWN: Final = 4
"""Writers that a name of a strategy has room for."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """What one strategy gave over the log; times in ms, shares from 0 to 1, None where nothing can be said.

    - `late`, `late_share`: the records whose event time is below the X that they meet; `worst_late_share`: of the worst
      2,000 records in a row.
    - `lag_*_ms`: arrival less X; it needs clocks that agree. `held_share`: the instants at which X is unknown, which
      have no lag and no gap; nor has the end of the perfect watermark.
    - `gap_*_ms`: P - X, below 0 where X is not safe; it needs no clocks. `unsafe_share`: the instants with X > P.
    - `complete_mean`, `complete_least`, `complete_share`: of the windows of each key, the mean and the least share of
      their records that came before X reached the window's end, and how many windows have all.
    - `open_max`, `open_mean`: windows that have a record and whose end X has not reached, over the instants.
    - `stall_ms`: the longest time for which X stood still. `silence_ms`: the longest silence of a writer that ended and
      that X did not wait for: X passed all that the writer had sent before.
    """

    strategy: Strategy[Any]
    rows: int
    late: int
    worst_late_share: float
    late_by_max_ms: int
    lag_p50_ms: int | None
    lag_p95_ms: int | None
    lag_max_ms: int | None
    gap_p50_ms: int | None
    gap_p95_ms: int | None
    unsafe_share: float
    held_share: float
    complete_mean: float | None
    complete_least: float | None
    complete_share: float | None
    open_max: int | None
    open_mean: float | None
    stall_ms: int
    silence_ms: int

    @property
    def name(self) -> str:
        """The strategy with what is not as by default, see `named`."""
        return named(self.strategy)

    @property
    def late_share(self) -> float:
        """The share of late records."""
        return self.late / self.rows

    def ahead_ms(self, perfect_lag_ms: int | None) -> int:
        """By how much X is ahead of the arrivals in the median, if by more than the perfect watermark; otherwise 0.

        The perfect watermark is ahead itself where it knows of a pause, and where a clock of arrivals is slow.
        """
        lag_ms = self.lag_p50_ms or 0
        return -lag_ms if lag_ms < min(0, perfect_lag_ms or 0) else 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(TableAnswer[Outcome]):
    """One outcome for each strategy, in the order in which they were given."""

    trace: Trace
    window_ms: int | None
    outcomes: tuple[Outcome, ...]
    steps: tuple[tuple[Int64Array, Int64Array], ...] = field(repr=False)
    """For each strategy the X that each record meets, and the X after it."""

    entries = "outcomes"
    columns: ClassVar[Mapping[str, str]] = {
        "strategy": "its class, and what is not as by default",
        "late": "records below the X that they meet",
        "worst 2 000": "the late share of the worst 2 000 records in a row",
        "lag p50": "arrival less X in the median; below 0 X is ahead of the arrivals",
        "p95": "the same that 95% of the instants do not exceed",
        "gap p50": "perfect watermark less X in the median: how much further X could be; below 0 it is not safe",
        "unsafe": "instants at which X is above the perfect watermark, so that a later record is late",
        "complete": "the mean share of the records of a window that came before X closed it",
        "open": "the most windows that had a record and were not closed, at one instant",
        "stall": "the longest time for which X stood still",
        "silence": "the longest silence of a writer that X did not wait for: X passed all that it had sent",
    }
    """What each column of the printed table says."""
    heads = tuple(columns)
    schema = pa.schema(
        [("name", pa.string()), ("rows", pa.int64()), ("late", pa.int64()), ("late_share", pa.float64())]
        + [("worst_late_share", pa.float64()), ("late_by_max_ms", pa.int64())]
        + [(f"{kind}_ms", pa.int64()) for kind in ("lag_p50", "lag_p95", "lag_max", "gap_p50", "gap_p95")]
        + [(f"{kind}_share", pa.float64()) for kind in ("unsafe", "held")]
        + [(f"complete_{kind}", pa.float64()) for kind in ("mean", "least", "share")]
        + [("open_max", pa.int64()), ("open_mean", pa.float64()), ("stall_ms", pa.int64()), ("silence_ms", pa.int64())]
    )

    def __getitem__(self, strategy: Strategy[Any]) -> Outcome:
        for outcome in self.outcomes:
            if outcome.strategy == strategy:
                return outcome
        known = ", ".join(outcome.name for outcome in self.outcomes)
        raise ModelError(f"{strategy!r} was not compared.", remedy=f"Ask for one of {known}.")

    def to_dict(self) -> dict[str, Any]:
        """The outcomes as dicts of numbers."""
        rows = [{name: getattr(outcome, name) for name in self.schema.names} for outcome in self.outcomes]
        return {"trace": self.trace.name, "window_ms": self.window_ms, "outcomes": rows}

    @property
    def sentence(self) -> str:
        """Which strategy with a watermark loses the least, and which is the least behind; and which are of no use.

        Records with wrong times, which all these numbers include, are said first. The least behind is sought among
        those that are not ahead of the arrivals, see `Outcome.ahead_ms`, and lose at most half of the records.
        """
        causal = [o for o in self.outcomes if o.lag_p50_ms is not None and type(o.strategy) is not PerfectWatermark]
        over = f"{self._of_wrong_times()}Over {grouped(self.trace.rows)} records of {self.trace.name!r}"
        perfect_lag_ms = Log.of(self.trace).perfect_lag_ms
        ahead = [o for o in causal if o.ahead_ms(perfect_lag_ms)]
        usable = [o for o in causal if o not in ahead and o.late_share <= _HALF]
        least = min(usable or causal or self.outcomes, key=lambda o: (o.late, o.lag_p50_ms is None, o.lag_p50_ms or 0))
        if not usable and causal:
            text = f"{over}, no strategy is of use"
            if least not in ahead:
                text += f"; {least.name} loses the least, {least.late_share:.3%} for {said_lag(least.lag_p50_ms or 0)}"
        else:
            first = min(usable or self.outcomes, key=lambda o: (o.lag_p50_ms is None, o.lag_p50_ms or 0))
            of = " of those that lose at most half" if len(usable) + len(ahead) < len(causal) else ""
            least_late = f"({least.late_share:.3%}, lag {_time(least.lag_p50_ms)})"
            if first is least:
                text = f"{over}, {least.name} loses the least and is the least behind{of} {least_late}"
            else:
                text = f"{over}, {least.name} loses the least {least_late}, and {first.name} is the least behind{of} "
                text += f"({_time(first.lag_p50_ms)}, {first.late_share:.3%} late)"
        return f"{text}{said_ahead(ahead)}."

    def _of_wrong_times(self) -> str:
        """How many records have wrong times, and what to do about it, as a sentence; empty if none has."""
        wrong = wrong_times(self.trace).either
        count = int(wrong.sum())
        if not count:
            return ""
        owners = sorted(pc.unique(self.trace.table["writer"].filter(pa.array(wrong))).to_pylist())
        has, it = ("has a wrong time", "it") if count == 1 else ("have wrong times", "them")
        return (
            f"{counted(count, 'record')} of {listed(owners, most=_NAMED)} {has} and {'is' if count == 1 else 'are'} in "
            f"all numbers here: wm.strategy.suspects(log) lists {it}, and its without() is the log without {it}. "
        )

    def records(self) -> pa.Table:
        """One row for each strategy and record, as `RECORDS` has it: what `spark.createDataFrame` takes."""
        log, table = Log.of(self.trace), self.trace.table
        parts = []
        for outcome, (met, x) in zip(self.outcomes, self.steps, strict=True):
            columns = [pa.repeat(outcome.name, outcome.rows), np.arange(1, outcome.rows + 1), *table.columns]
            columns += [_known(times) for times in (met, x, log.ends_by_key if outcome.strategy.keyed else log.ends)]
            late_by, late = np.zeros_like(met), log.event < met
            late_by[late] = difference(met, log.event, late)
            parts.append(pa.table([*columns, late_by], RECORDS))
        return pa.concat_tables(parts)

    def lost_rows(self) -> LostRows:
        """The late records of each strategy: which, whose and when."""
        records = self.records()
        lost = records.filter(pc.greater(records["late_by_ms"], 0))
        counts = {value["values"]: value["counts"] for value in pc.value_counts(self.trace.table["writer"]).to_pylist()}
        return LostRows(self.trace.name, lost.select(LOST_ROWS.names), counts, Log.of(self.trace).clock_ms)

    def __repr__(self) -> str:
        rows = [self.heads, *([str(cell) for cell in row] for row in self._rows())]
        return "\n".join([self.sentence, *text_table(rows, right=range(1, len(self.heads))), COLUMNS_HINT])

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for o in self.outcomes:
            lags = (_time(o.lag_p50_ms), _time(o.lag_p95_ms), _time(o.gap_p50_ms), f"{o.unsafe_share:.1%}")
            complete = "–" if o.complete_mean is None else f"{o.complete_mean:.2%}"
            open_windows = "–" if o.open_max is None else grouped(o.open_max)
            late = (f"{o.late_share:.3%}", f"{o.worst_late_share:.2%}")
            yield o.name, *late, *lags, complete, open_windows, rounded(o.stall_ms), rounded(o.silence_ms)


def compare(
    trace: Trace | Any, strategies: Iterable[Strategy[Any]], *, window_ms: int | None = None, tick_ms: int | None = None
) -> Comparison:
    """Run strategies over a log, each record at its arrival, and measure them in the same terms.

    The log is a trace, or a data frame with the columns of one.

    With `window_ms`, tumbling windows of each key say what a strategy completes and keeps open. The wall clock is given
    every `tick_ms`; by default 10,000 times over the log, never for 0.
    Raises `ModelError` for no strategies, what is none or no trace, a length or period below its least, and for times
    whose distance does not fit into 64 bits.
    """
    chosen = list(strategies) if isinstance(strategies, Iterable) else [strategies]
    if not chosen or not all(isinstance(strategy, Strategy) for strategy in chosen):
        raise ModelError(
            f"strategies is {shown(strategies)}.", remedy="Give some, for example [BoundedOutOfOrderness(60_000)]."
        )
    window_ms = None if window_ms is None else the_duration(window_ms, ModelError, name="window_ms")
    tick_ms = None if tick_ms is None else the_duration(tick_ms, ModelError, name="tick_ms")
    require_argument("tick_ms", tick_ms, NotNegative | None)
    trace = as_trace(trace)
    log = Log.of(trace)
    windows = None if window_ms is None else LogWindows.of(log, window_ms)
    steps = x_of_records(trace, chosen, tick_ms=tick_ms)
    outcomes = [outcome(strategy, log, met, x, windows) for strategy, (met, x) in zip(chosen, steps, strict=True)]
    return Comparison(trace, window_ms, tuple(outcomes), tuple(steps))


@dataclass(frozen=True, slots=True, eq=False)
class LogWindows:
    """The tumbling windows of each key in which a log has records: that of each record, and their sizes and ends."""

    of_record: Int64Array
    sizes: Int64Array
    ends: Int64Array

    @classmethod
    def of(cls, log: Log, window_ms: int) -> LogWindows:
        """Those of `window_ms`; raises `ModelError` if it is below 1."""
        require_argument("window_ms", window_ms, Positive)
        left = window_ms - log.event % window_ms
        # An end beyond 64 bits is reached by the end of the input only.
        ends = np.where(log.event > END - left, END, log.event + left)
        # Windows are numbered before keys are multiplied in: numbers are below the rows, whatever the times.
        windows, number = np.unique(ends, return_inverse=True)
        names, of_record = np.unique(log.key.astype(np.int64) * len(windows) + number, return_inverse=True)
        return cls(of_record, np.bincount(of_record), windows[names % len(windows)])


def outcome(
    strategy: Strategy[Any], log: Log, met: Int64Array, x: Int64Array, windows: LogWindows | None = None
) -> Outcome:
    """The measures of one strategy, from the X that each record meets and the X after it."""
    late, ends = log.event < met, log.ends_by_key if strategy.keyed else log.ends
    groups = log.key if strategy.keyed else np.zeros_like(log.key)
    known = x != UNKNOWN
    timed = known & (x != END)
    both = timed & (ends != END)
    return Outcome(
        strategy=strategy,
        rows=len(x),
        late=int(late.sum()),
        worst_late_share=_worst(late),
        late_by_max_ms=int(difference(met, log.event, late).max(initial=0)),
        **_quantiles("lag", difference(log.arrival, x, timed), p50=0.5, p95=0.95, max=1),
        **_quantiles("gap", difference(ends, x, both), p50=0.5, p95=0.95),
        unsafe_share=float((x > ends).mean()),
        held_share=float((~known).mean()),
        stall_ms=_stall(log.arrival, x, groups),
        silence_ms=_silence(log, met),
        **(_windows(met, x, groups, windows) if windows else dict.fromkeys(_WINDOWED)),
    )


def _worst(late: Any) -> float:
    """The worst late share of so many records in a row; of all, if there are fewer."""
    total, size = np.append(0, np.cumsum(late)), min(CONSECUTIVE, len(late))
    return float((total[size:] - total[:-size]).max() / size)


_WINDOWED: Final = ("complete_mean", "complete_least", "complete_share", "open_max", "open_mean")


def _windows(met: Int64Array, x: Int64Array, groups: Any, windows: LogWindows) -> dict[str, Any]:
    """The measures of windows, from the X that each record meets, and the X of its group after it."""
    rows, count = len(x), len(windows.ends)
    counted = np.flatnonzero(met < windows.ends[windows.of_record])
    inside = windows.of_record[counted]
    complete = np.bincount(inside, minlength=count) / windows.sizes
    # A window is open from its first record that counts until the first instant at which X reaches its end.
    opened = np.full(count, rows)
    opened[inside[::-1]] = counted[::-1]
    begun = opened < rows
    opened = opened[begun]
    ends = pd.DataFrame({"end": windows.ends[begun], "group": groups[opened], "opened": opened})
    reached = pd.DataFrame({"end": pd.Series(x).groupby(groups).cummax(), "group": groups, "row": range(rows)})
    ends, reached = (frame.sort_values("end", kind="stable") for frame in (ends, reached))
    closing = pd.merge_asof(ends, reached, on="end", by="group", direction="forward")
    closed = np.maximum(closing["row"].fillna(rows).astype(int), closing["opened"])
    change = np.bincount(opened, minlength=rows + 1) - np.bincount(closed, minlength=rows + 1)
    open_now = np.cumsum(change)[:rows]
    values = (complete.mean(), complete.min(), (complete == 1).mean(), open_now.max(), open_now.mean())
    return {name: value.item() for name, value in zip(_WINDOWED, values, strict=True)}


def _stall(arrival: Int64Array, x: Int64Array, groups: Any) -> int:
    """The longest time between two changes of X, of its group, or from the last change to its last record."""
    moved = pd.Series(x).groupby(groups).shift(1, fill_value=UNKNOWN).to_numpy() != x
    moved |= ~pd.Series(groups).duplicated().to_numpy()
    since = before(np.where(moved, arrival, UNKNOWN), groups)
    return int(difference(arrival, since, since != UNKNOWN).max(initial=0))


def _silence(log: Log, met: Int64Array) -> int:
    """The longest time between two records of a writer at whose end X is above all that it had sent."""
    sent, since = log.last_of_writer
    passed = (since != UNKNOWN) & (met > sent)
    return int(difference(log.arrival, since, passed).max(initial=0))


def _quantiles(of: str, values: Int64Array, **shares: float) -> dict[str, Any]:
    """The measures "{of}_{name}_ms": the quantile of the values at the share of each name."""
    quantiles = np.quantile(values, list(shares.values()), method="inverted_cdf").tolist() if len(values) else []
    return {f"{of}_{name}_ms": value for name, value in zip_longest(shares, quantiles)}


def _known(times: Int64Array) -> pa.Array:
    return pa.array(times, mask=(times == UNKNOWN) | (times == END))


def named(strategy: Any) -> str:
    """A strategy with what is not as by default, durations as people read them: "Flink(bound=45 min)"."""
    parts = [
        _in_words(f.name, getattr(strategy, f.name))
        for f in fields(strategy)
        if f.repr and getattr(strategy, f.name) != f.default
    ]
    return f"{type(strategy).__name__}({', '.join(parts)})"


def _in_words(name: str, value: object) -> str:
    """A field of a strategy: "bound=45 min"; of many writers the first and the last; a strategy within as `named`."""
    if isinstance(value, Strategy):
        return f"{name}={named(value)}"
    if isinstance(value, int) and (name.endswith("_ms") or name in _LENGTHS):
        return f"{name.removesuffix('_ms')}={exactly(value)}"
    if isinstance(value, tuple) and len(value) > _SHOWN:
        return f"{name}=({shown(value[0])}, …, {shown(value[-1])})"
    return f"{name}={shown(value)}"


def said_ahead(ahead: Sequence[Outcome]) -> str:
    """Of strategies that are ahead of the arrivals by how much, as a part of a sentence; "" for none."""
    parts = [
        f"{o.name} is ahead of the arrivals by {rounded(-(o.lag_p50_ms or 0))} in the median, "
        f"{o.late_share:.3%} late{': not usable' if o.late_share > _HALF else ''}"
        for o in ahead[:_NAMED]
    ]
    more = [f"{len(ahead) - _NAMED} more are ahead of the arrivals"] if len(ahead) > _NAMED else []
    return "".join(f"; {part}" for part in (*parts, *more))


def said_lag(lag_ms: int) -> str:
    """A median lag in words: "a median lag of 1.2 s", or "a median lag of −1.2 s, ahead of the arrivals"."""
    return f"a median lag of {rounded(lag_ms)}{', ahead of the arrivals' if lag_ms < 0 else ''}"


def _time(length_ms: int | None) -> str:
    return "–" if length_ms is None else rounded(length_ms)
