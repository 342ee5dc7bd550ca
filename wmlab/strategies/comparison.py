"""Strategies over one log, side by side: what each loses, how far it is behind, how much it keeps open.

Everything is stated in X, the exclusive form. The instants are the arrivals of records; after each of them a strategy
has an X, and the perfect watermark P is the least event time still to come. A strategy with a watermark for each key
is held against the P of the record's key.

A record below the X that it meets is late. What is lost of the late ones depends on the windows that they are for, see
`wmlab.strategies.windows`; without windows nobody can say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import zip_longest
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import COLUMNS_HINT, Cell, TableAnswer, pandas_frame, text_table
from wmlab.core.arguments import the_duration, the_flag, the_moment
from wmlab.core.errors import ModelError
from wmlab.core.facts import FactAnswer, Facts, Value, folded_facts
from wmlab.core.times import Int64Array
from wmlab.core.traces import TRACE_SCHEMA, Trace
from wmlab.core.words import counted, exactly, grouped, rounded, shown, wrapped
from wmlab.strategies.clocks import wrong_times
from wmlab.strategies.model.bounded import PerfectWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, NotNegative, Positive, Strategy, require_argument
from wmlab.strategies.replay import Log, PathOfX, as_trace, before, difference, median, paths_of_x
from wmlab.strategies.vocabulary import COMPARISON_HEADLINES, COMPARISON_LABELS, COMPARISON_NEXT
from wmlab.strategies.windows import LogWindows, WindowOutcome, Windows, window_outcome, windows_of

CONSECUTIVE: Final = 2_000
"""So many records in a row are looked at for the worst late share."""

LATE_ROWS: Final = pa.schema(
    [("strategy", pa.string()), ("row", pa.int64())]
    + [(column.name, column.type) for column in TRACE_SCHEMA]
    + [(name, pa.int64()) for name in ("met", "x", "perfect", "late_by_ms")]
    + [("lost", pa.bool_())]
)
"""One row for each strategy and late record, with the columns of a trace: its number in order of arrival, from 1; the X
that it meets, X and the perfect watermark after it, null where unknown or at the end; by how much it is late; whether
no window takes it, null without windows."""

_LENGTHS: Final = frozenset(
    {"bound", "bucket", "delay", "grace", "horizon", "lag", "lateness", "max_k", "wait", "window"}
)
"""Fields of strategies that are durations of event time, which is in ms in every log."""
_HALF: Final = 0.5
"""The late share above which a strategy is of no use: it loses most records."""
_STILL: Final = 3
"""A watermark stands still if its median lag beyond that of the records is this part of the log: one third."""
_OF_WINDOWS: Final = frozenset({"lost", "complete", "open", "never closed", "result after"})
_SHOWN: Final = 4
"""Writers that a name of a strategy has room for."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """The outcome of one strategy over the log; times in ms, shares from 0 to 1, None if a value is unknown.

    - `late`, `late_share`: the records whose event time is below the X that they meet; `worst_late_share`: the share in
      the worst 2,000 consecutive records.
    - `lag_*_ms`: arrival minus X; it needs clocks that agree. An unknown X has no lag and no gap, nor has the end of
      the perfect watermark.
    - `gap_p50_ms`: P - X, below 0 if X is not safe; it needs no clocks. `unsafe_share`: the share of instants with
      X > P.
    - `stall_ms`: the longest time for which X did not advance.

    About windows, None without windows:

    - `lost`, `lost_share`: the records that none of their windows accepts. `too_early`: those that are dropped since
      they are too early, which are no part of `lost`. `updates`: further results of a window within the allowed
      lateness, or of a session that continues after its result, one for each record.
    - `windows`, `unclosed`: how many windows have a record, and how many of them X has not closed when the clock ends.
    - `complete_mean`, `complete_least`: of the windows of each key, the mean and the least share of their records that
      are in the first result.
    - `open_max`: the most windows at an instant that have a record and whose end X has not reached.
    - `result_p50_ms`, `result_max_ms`: how long after its end the first result of a window is emitted; it needs clocks
      that agree. Windows that are not closed have none.
    """

    strategy: Strategy[Any]
    """The strategy."""
    rows: int
    """The number of records."""
    late: int
    worst_late_share: float
    lag_p50_ms: int | None
    """The median lag, in ms; None: no watermark."""
    lag_p95_ms: int | None
    """The 95% quantile of the lag, in ms."""
    lag_max_ms: int | None
    """The largest lag, in ms."""
    gap_p50_ms: int | None
    """The median of P - X, in ms; P is the perfect watermark."""
    unsafe_share: float
    stall_ms: int
    lost: int | None
    too_early: int | None
    updates: int | None
    windows: int | None
    unclosed: int | None
    complete_mean: float | None
    complete_least: float | None
    open_max: int | None
    result_p50_ms: int | None
    result_max_ms: int | None

    @property
    def name(self) -> str:
        """The strategy with its fields that differ from their defaults, see `short_name`."""
        return short_name(self.strategy)

    @property
    def late_share(self) -> float:
        """The share of late records."""
        return self.late / self.rows

    @property
    def lost_share(self) -> float | None:
        """The share of lost records."""
        return None if self.lost is None else self.lost / self.rows

    @property
    def missed(self) -> int:
        """The records that the strategy costs: those that windows lose, or the late ones if no windows are known."""
        return self.late if self.lost is None else self.lost

    @property
    def missed_share(self) -> float:
        """The share of these records."""
        return self.missed / self.rows

    def ahead_ms(self, perfect_lag_ms: int | None) -> int:
        """How far X is ahead of the arrivals in the median, if further than the perfect watermark; otherwise 0.

        The perfect watermark itself is ahead if it knows of a pause, or if the clock of the arrivals is slow.
        """
        lag_ms = self.lag_p50_ms or 0
        return -lag_ms if lag_ms < min(0, perfect_lag_ms or 0) else 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(FactAnswer, TableAnswer[Outcome]):
    """One outcome for each strategy, in the order in which they were given; `until_ms` is when the clock ends."""

    trace: Trace
    """The log."""
    windows: Windows | None
    """The windows in which losses count; None: only lateness counts."""
    until_ms: int
    outcomes: tuple[Outcome, ...]
    """One outcome a strategy, in the order in which they were given."""
    paths: tuple[PathOfX, ...] = field(repr=False)
    """For each strategy the X that each record meets, and the X after it."""

    entries = "outcomes"
    columns: ClassVar[Mapping[str, str]] = {
        "strategy": "its class, and its fields that are not default",
        "late": "records below the X that they meet",
        "lost": "records that no window of theirs takes any more",
        "worst 2 000": "the late share of the worst 2 000 records in a row",
        "lag p50": "arrival less X in the median; below 0 X is ahead of the arrivals",
        "p95": "the same that 95% of the instants do not exceed",
        "gap p50": "perfect watermark less X in the median: how much further X could be; below 0 it is not safe",
        "unsafe": "instants at which X is above the perfect watermark, so that a later record is late",
        "complete": "the mean share of the records of a window that are in its first result",
        "open": "the most windows that had a record and were not closed, at one instant",
        "never closed": "windows that X has not closed when the clock ends, with the last arrival or at until_ms",
        "result after": "how long after the end of its window a first result leaves, in the median",
        "stall": "the longest time for which X stood still",
    }
    """What each column of the printed table says."""
    heads = tuple(columns)
    schema = pa.schema(
        [("name", pa.string()), ("rows", pa.int64()), ("late", pa.int64()), ("late_share", pa.float64())]
        + [("worst_late_share", pa.float64())]
        + [(f"{kind}_ms", pa.int64()) for kind in ("lag_p50", "lag_p95", "lag_max", "gap_p50")]
        + [("unsafe_share", pa.float64()), ("stall_ms", pa.int64()), ("lost", pa.int64()), ("lost_share", pa.float64())]
        + [(name, pa.int64()) for name in ("too_early", "updates", "windows", "unclosed")]
        + [(f"complete_{kind}", pa.float64()) for kind in ("mean", "least")]
        + [(name, pa.int64()) for name in ("open_max", "result_p50_ms", "result_max_ms")]
    )

    def _heads(self) -> tuple[str, ...]:
        """The columns of the table; those of windows only if windows are known."""
        return tuple(name for name in self.columns if self.windows or name not in _OF_WINDOWS)

    def __getitem__(self, strategy: Strategy[Any]) -> Outcome:
        for outcome in self.outcomes:
            if outcome.strategy == strategy:
                return outcome
        known = ", ".join(outcome.name for outcome in self.outcomes)
        raise ModelError(f"{strategy!r} was not compared.", remedy=f"Ask for one of {known}.")

    def to_dict(self) -> dict[str, Any]:
        """The outcomes as dicts of numbers."""
        rows = [{name: getattr(outcome, name) for name in self.schema.names} for outcome in self.outcomes]
        windows = None if self.windows is None else asdict(self.windows)
        said = {"headline": self.headline, "facts": self.facts.to_dict()}
        return said | {"trace": self.trace.name, "windows": windows, "until_ms": self.until_ms, "outcomes": rows}

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        """Which strategy misses the fewest records, and which lags least, of those that are of use.

        Of use is one that has a watermark which moves (`moves`), is not ahead of the arrivals (`Outcome.ahead_ms`), and
        misses at most half of the records. The perfect watermark, which no engine can have, is left out.
        """
        log, pairs = Log.of(self.trace), list(zip(self.outcomes, self.paths, strict=True))
        perfect_lag_ms, wrong = log.perfect_lag_ms, wrong_times(self.trace).either
        possible = [o for o in self.outcomes if type(o.strategy) is not PerfectWatermark]
        known = [o for o in possible if o.lag_p50_ms is not None]
        ahead = [o for o in known if o.ahead_ms(perfect_lag_ms)]
        still = [o for o, path in pairs if o in known and not moves(log, path.x, o.lag_p50_ms)]
        most = [o for o in known if o not in ahead and o.missed_share > _HALF]
        facts: dict[str, Value] = {"log": self.trace.name, "records": self.trace.rows}
        facts["windows"] = None if self.windows is None else str(self.windows)
        if usable := [o for o in known if o not in (*ahead, *most, *still)]:
            best = min(usable, key=lambda o: (o.missed, o.lag_p50_ms))
            first = min(usable, key=lambda o: (o.lag_p50_ms or 0, o.missed))
            facts |= {"misses least": best.name, "misses": best.missed_share, "its lag": best.lag_p50_ms}
            facts["misses fewer"] = tuple(o.name for o in known if o.missed < best.missed)
            if first is not best:
                facts |= {"lags least": first.name, "it misses": first.missed_share, "the least lag": first.lag_p50_ms}
        facts |= {
            "misses most records": tuple(o.name for o in most),
            "ahead": tuple(o.name for o in ahead),
            "ahead by": tuple(o.ahead_ms(perfect_lag_ms) for o in ahead),
            "stands still": tuple(o.name for o in still),
            "without a watermark": tuple(o.name for o in possible if o not in known),
        }
        if count := int(wrong.sum()):
            whose = pc.unique(self.trace.table["writer"].filter(pa.array(wrong))).to_pylist()
            facts |= {"wrong times": count, "wrong times of": tuple(sorted(whose))}
        return Facts(COMPARISON_LABELS, facts)

    @property
    def templates(self) -> tuple[str, ...]:  # type: ignore[override]
        """What misses least, and what lags least or that times are wrong."""
        return self.facts.chosen(COMPARISON_HEADLINES, COMPARISON_NEXT)

    def late_rows(self) -> Any:
        """A data frame of the late records of each strategy, as `LATE_ROWS` has them.

        With windows `lost` says which of them no window takes; each record that is lost is late.
        """
        log, parts = Log.of(self.trace), []
        for outcome, path in zip(self.outcomes, self.paths, strict=True):
            met, ends = path.met, log.ends_by_key if outcome.strategy.keyed else log.ends
            late = log.event < met
            lost = pa.nulls(outcome.late, pa.bool_()) if self.windows is None else self.windows.lost(log, met)[late]
            columns = [pa.repeat(outcome.name, outcome.late), np.flatnonzero(late) + 1]
            columns += self.trace.table.filter(pa.array(late)).columns
            columns += [_known(times[late]) for times in (met, path.x, ends)]
            parts.append(pa.table([*columns, difference(met, log.event, late), lost], LATE_ROWS))
        return pandas_frame(pa.concat_tables(parts))

    def _repr_html_(self) -> str:
        return TableAnswer._repr_html_(self) + folded_facts(self.facts)

    def __repr__(self) -> str:
        rows = [self._heads(), *([str(cell) for cell in row] for row in self._rows())]
        return "\n".join([wrapped(self.sentence), *text_table(rows, right=range(1, len(rows[0]))), COLUMNS_HINT])

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for o in self.outcomes:
            late = (f"{o.late_share:.3%}", _cell(o.lost_share, "{:.3%}".format), f"{o.worst_late_share:.2%}")
            lags = (*map(_cell, (o.lag_p50_ms, o.lag_p95_ms, o.gap_p50_ms)), f"{o.unsafe_share:.1%}")
            windows = (_cell(o.complete_mean, "{:.2%}".format), _cell(o.open_max, grouped), _cell(o.unclosed, grouped))
            results = (_cell(o.result_p50_ms), rounded(o.stall_ms))
            cells = zip(self.columns, (o.name, *late, *lags, *windows, *results), strict=True)
            yield tuple(cell for name, cell in cells if name in self._heads())


def compare(
    trace: Trace | Any,
    strategies: Iterable[Strategy[Any]],
    *,
    window_ms: int | str | None = None,
    slide_ms: int | str | None = None,
    gap_ms: int | str | None = None,
    allowed_lateness_ms: int | str = 0,
    until_ms: int | str | None = None,
    early_ms: int | str | None = None,
    output_ms: int | str | None = None,
    tick_ms: int | str | None = None,
    ends: bool = False,
) -> Comparison:
    """Run strategies over a log, each record at its arrival, and measure them in the same terms.

    The log is a trace, or a data frame with the columns of one.

    Windows of each key show what a strategy loses, completes and keeps open: `window_ms` long and tumbling, or sliding
    by `slide_ms`, or sessions with a gap of `gap_ms`. They accept records for `allowed_lateness_ms` after their first
    result; with `early_ms`, tumbling windows drop a record that is more than this after the end of the window that X is
    in. Results are emitted when their window closes; with `output_ms`, the period of epochs, commits or emissions,
    at its next multiple on the wall clock.

    The wall clock ticks every `tick_ms`; by default 10,000 times over the log, never for 0. It ends with the last
    arrival, or at `until_ms`: a moment of the clock, or a text such as "20s" that counts from the first arrival.
    With `ends` the input ends then, so that each window is closed.
    Durations are in ms, or texts. Raises `ModelError` for no strategies, for anything but strategies or a trace, for a
    length or period that is too small, for an end before the last arrival, and for times whose difference does not fit
    into 64 bits.
    """
    ends = the_flag(ends, "ends", ModelError)
    chosen = list(strategies) if isinstance(strategies, Iterable) else [strategies]
    if not chosen or not all(isinstance(strategy, Strategy) for strategy in chosen):
        raise ModelError(
            f"strategies is {shown(strategies)}.", remedy="Give some, for example [BoundedOutOfOrderness(60_000)]."
        )
    windows = windows_of(window_ms, slide_ms, gap_ms, allowed_lateness_ms, early_ms)
    tick_ms = None if tick_ms is None else the_duration(tick_ms, ModelError, name="tick_ms")
    require_argument("tick_ms", tick_ms, NotNegative | None)
    output_ms = None if output_ms is None else the_duration(output_ms, ModelError, name="output_ms")
    require_argument("output_ms", output_ms, Positive | None)
    trace = as_trace(trace)
    first_ms, last_ms = trace.span_ms
    end_ms = None if until_ms is None else the_moment(until_ms, ModelError, name="until_ms", start_ms=first_ms)
    log = Log.of(trace)
    of_log = None if windows is None else LogWindows.of(log, windows)
    paths = paths_of_x(trace, chosen, tick_ms=tick_ms, until_ms=end_ms, ends=ends)
    outcomes = [outcome(strategy, log, path, of_log, output_ms) for strategy, path in zip(chosen, paths, strict=True)]
    return Comparison(trace, windows, last_ms if end_ms is None else end_ms, tuple(outcomes), tuple(paths))


def moves(log: Log, x: Int64Array, lag_ms: int | None) -> bool:
    """Whether X rises over the records of a log, and its median lag beyond their median delay is below a third of it.

    Without their delay the rule would call each watermark of a short log of old events one that stands still.
    """
    if lag_ms is None or int(x.max()) <= int(x[0]):
        return False
    beyond_ms = lag_ms - max(0, median(difference(log.arrival, log.event)))
    return _STILL * beyond_ms < int(log.arrival[-1] - log.arrival[0])


def outcome(
    strategy: Strategy[Any],
    log: Log,
    path: PathOfX,
    windows: LogWindows | None = None,
    output_ms: int | None = None,
) -> Outcome:
    """The measures of one strategy over a log, from its X."""
    met, x = path.met, path.x
    late, ends = log.event < met, log.ends_by_key if strategy.keyed else log.ends
    groups = log.key.astype(np.int64) if strategy.keyed else np.zeros(len(x), np.int64)
    known = x != UNKNOWN
    timed = known & (x != END)
    both = timed & (ends != END)
    of_windows = window_outcome(log, path, groups, windows, output_ms)._asdict() if windows else {}
    return Outcome(
        strategy=strategy,
        rows=len(x),
        late=int(late.sum()),
        worst_late_share=_worst(late),
        **_quantiles("lag", difference(log.arrival, x, timed), p50=0.5, p95=0.95, max=1),
        **_quantiles("gap", difference(ends, x, both), p50=0.5),
        unsafe_share=float((x > ends).mean()),
        stall_ms=_stall(log.arrival, x, groups),
        **(of_windows or dict.fromkeys(WindowOutcome._fields)),
    )


def _worst(late: Any) -> float:
    """The worst late share of so many records in a row; of all, if there are fewer."""
    total, size = np.append(0, np.cumsum(late)), min(CONSECUTIVE, len(late))
    return float((total[size:] - total[:-size]).max() / size)


def _stall(arrival: Int64Array, x: Int64Array, groups: Any) -> int:
    """The longest time between two changes of X, of its group, or from the last change to its last record."""
    moved = pd.Series(x).groupby(groups).shift(1, fill_value=UNKNOWN).to_numpy() != x
    moved |= ~pd.Series(groups).duplicated().to_numpy()
    since = before(np.where(moved, arrival, UNKNOWN), groups)
    return int(difference(arrival, since, since != UNKNOWN).max(initial=0))


def _quantiles(of: str, values: Int64Array, **shares: float) -> dict[str, Any]:
    """The measures "{of}_{name}_ms": the quantile of the values at the share of each name."""
    quantiles = np.quantile(values, list(shares.values()), method="inverted_cdf").tolist() if len(values) else []
    return {f"{of}_{name}_ms": value for name, value in zip_longest(shares, quantiles)}


def _known(times: Int64Array) -> pa.Array:
    return pa.array(times, mask=(times == UNKNOWN) | (times == END))


def short_name(strategy: Any) -> str:
    """A strategy with the fields that are not default, durations as people read them: "Flink(bound=45 min)"."""
    parts = [
        _field_text(f.name, getattr(strategy, f.name))
        for f in fields(strategy)
        if f.repr and getattr(strategy, f.name) != f.default
    ]
    return f"{type(strategy).__name__}({', '.join(parts)})"


def _field_text(name: str, value: object) -> str:
    """A field of a strategy: "bound=45 min"; of many writers the first and the last; a strategy by `short_name`."""
    if isinstance(value, Strategy):
        return f"{name}={short_name(value)}"
    if isinstance(value, int) and (name.endswith("_ms") or name in _LENGTHS):
        return f"{name.removesuffix('_ms')}={exactly(value)}"
    if isinstance(value, tuple) and len(value) > _SHOWN:
        return f"{name}=({shown(value[0])}, …, {shown(value[-1])})"
    return f"{name}={shown(value)}"


def missed_text(outcome: Outcome) -> str:
    """What a strategy costs in records: "0.100% lost, 5.000% late", or of records alone "5.000% late"."""
    late = f"{outcome.late_share:.3%} late"
    return late if outcome.lost_share is None else f"{outcome.lost_share:.3%} lost, {late}"


def never_closed(outcome: Outcome) -> str:
    """How many windows a strategy has not closed when the clock ends: "3 of 14 windows never close"."""
    count, windows = outcome.unclosed or 0, outcome.windows or 0
    close = "closes" if count == 1 else "close"
    return f"{grouped(count)} of {counted(windows, 'window')} never {close}"


def _cell(value: Any, write: Callable[[Any], str] = rounded) -> str:
    """A measure in words, by default a length; that a strategy has none is a dash."""
    return "–" if value is None else write(value)
