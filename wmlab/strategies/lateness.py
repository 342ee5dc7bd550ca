"""The lateness of a log, and with it the late share of every constant bound at once: the lateness curve.

A record is late by l = max(0, m - e), with m the largest event time before it. For the watermark X = m - B it is late
if and only if l > B. So the late share as a function of B is the survival function of l, which one pass gives, exact
to the row; no strategy has to be run. The same holds for each writer or key with a watermark of its own.

A window of a fixed length loses a record if X is above the record's deadline (`wmlab.strategies.windows`). With the
deadline in place of the event time the curve is that of the lost records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from wmlab.core.answers import pandas_frame
from wmlab.core.errors import ModelError
from wmlab.core.facts import FactAnswer, Facts, Value
from wmlab.core.times import Int64Array
from wmlab.core.traces import Trace
from wmlab.strategies.model.percentiles import within
from wmlab.strategies.replay import as_trace, before, difference, group
from wmlab.strategies.vocabulary import CURVE_HEADLINE, CURVE_LABELS
from wmlab.strategies.windows import Windows, windows_of

_DENSE: Final = 4
"""How wide values may be spread, in lengths of the log, so that counting each is cheaper than sorting all."""


_KNEE_SHARES: Final = 4
_KNEE_DEPTH: Final = 4
_KNEE_LESS: Final = 4
"""Up to how many times the late share a knee is looked for, of how many parts of the fall of the lag it has to be below
the line by one, and how many times smaller its lag has to be."""


class Knee(NamedTuple):
    """A bound, ms, that loses only a little more than one with a far longer lag, and its late share, from 0 to 1."""

    bound_ms: int
    """The bound, in ms."""
    late_share: float
    """The share of late records with that bound."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class LatenessCurve(FactAnswer):
    """How many records are late for each bound B of X = m - B, and the latency that B costs.

    `lateness` has the distinct latenesses above 0 in ascending order, ms, and `above[i]` is the number of records that
    are late by at least `lateness[i]`. `base_lag_ms` is the median of arrival time minus m, the lag for B = 0, from
    which the lag for any B follows. `groups` has the curve of each writer or key, if each has its own watermark. With
    `windows`, "late" means lost: no window accepts the record.
    """

    name: str
    """The name of the log."""
    rows: int
    """The number of records."""
    lateness: Int64Array
    above: Int64Array
    """How many records are late by at least each of `lateness`."""
    base_lag_ms: int
    by: str | None = None
    """What has its own curve in `groups`: each writer or each key; None: nothing."""
    groups: Mapping[str, LatenessCurve] = field(default_factory=dict)
    windows: Windows | None = None
    schema: ClassVar[pa.Schema] = pa.schema({"bound_ms": pa.int64(), "late": pa.int64(), "late_share": pa.float64()})

    def late(self, bound_ms: Any) -> Any:
        """How many records are late for B = `bound_ms`, a number or an array of numbers not below 0."""
        if np.any(np.asarray(bound_ms) < 0):
            raise ModelError(f"The bound {bound_ms!r} is negative.", remedy="Give bounds of 0 or more.")
        counts = np.append(self.above, 0)[np.searchsorted(self.lateness, bound_ms, side="right")]
        return int(counts) if np.ndim(bound_ms) == 0 else counts

    def late_share(self, bound_ms: Any) -> Any:
        """The late share, 0 to 1, as `late`."""
        return self.late(bound_ms) / self.rows

    def bound_ms(self, late_share: float) -> int:
        """The smallest B at which at most that share of the records is late."""
        steps = np.append(0, self.lateness)
        most = within(float(late_share), self.rows)
        return int(steps[np.searchsorted(-np.append(self.above, 0), -most, side="left")])

    def lag_ms(self, bound_ms: int) -> int:
        """The median of arrival time minus X for B = `bound_ms`."""
        return self.base_lag_ms + bound_ms

    def knee(self, late_share: float) -> Knee | None:
        """The bound from which on the bound for `late_share` serves only a tail of few records; None without a tail.

        The candidates are the bounds between the one for four times the share and the one for the share. The knee is
        the candidate with the lag farthest below the straight line, over the late share, between these two. It counts
        if that distance is at least a quarter of the difference of their lags, and if its lag is at most a quarter of
        the lag for the share; lags below 1 ms, from clocks that are early, count as 1 ms. So there is no knee if the
        bound falls evenly with the share, or with exponential delays, which have lags of 4.6 and 3.2 means for 1% and
        4%. Raises `ModelError` for a value that is not a share.
        """
        largest, least = self.bound_ms(late_share), self.bound_ms(min(1.0, _KNEE_SHARES * late_share))
        between = self.lateness[(self.lateness >= least) & (self.lateness <= largest)]
        bounds = np.unique(np.concatenate([[least], between, [largest]]))
        if len(bounds) < 2:
            return None
        shares, lags = self.late_share(bounds), np.maximum(self.base_lag_ms + bounds, 1)
        below = np.interp(shares, [shares[-1], shares[0]], [lags[-1], lags[0]]) - lags
        farthest = int(np.argmax(below))
        if _KNEE_DEPTH * below[farthest] < lags[-1] - lags[0] or _KNEE_LESS * lags[farthest] > lags[-1]:
            return None
        return Knee(int(bounds[farthest]), float(shares[farthest]))

    def to_dict(self) -> dict[str, Any]:
        """The curve as dicts, lists and numbers."""
        plain = {name: getattr(self, name) for name in ("name", "rows", "by", "base_lag_ms")}
        groups = {name: curve.to_dict() for name, curve in self.groups.items()}
        return plain | {"lateness": self.lateness.tolist(), "above": self.above.tolist(), "groups": groups}

    def to_pandas(self) -> Any:
        """One row for each B at which the late share changes: bound_ms, late, late_share."""
        bounds = np.append(0, self.lateness)
        return pandas_frame(pa.table([bounds, self.late(bounds), self.late_share(bounds)], self.schema))

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        """Which bounds miss how many records."""
        facts: dict[str, Value] = {"log": self.name, "records": self.rows, "by": self.by}
        facts["windows"] = None if self.windows is None else str(self.windows)
        bounds = {"bound for 1%": 0.01, "bound for 0.1%": 0.001, "bound for none": 0.0}
        facts |= {"missed at 0": self.late(0) / self.rows} | {name: self.bound_ms(of) for name, of in bounds.items()}
        return Facts(CURVE_LABELS, facts)

    @property
    def templates(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the bounds 0, for 1% and for none miss."""
        return (CURVE_HEADLINE,)


def lateness_curve(
    trace: Trace | Any,
    by: str | None = None,
    *,
    window_ms: int | str | None = None,
    slide_ms: int | str | None = None,
    allowed_lateness_ms: int | str = 0,
) -> LatenessCurve:
    """The late share of every constant bound over a log, with one watermark, or one for each "writer" or "key".

    With windows, tumbling or sliding, it is the share of records that no window accepts; see `wm.strategy.compare`.
    Raises `ModelError` for anything but a log, for another `by` or an invalid length, and for times whose difference
    does not fit into 64 bits.
    """
    return curve_of(trace, windows_of(window_ms, slide_ms, None, allowed_lateness_ms), by)


def curve_of(trace: Trace | Any, windows: Windows | None = None, by: str | None = None) -> LatenessCurve:
    """The curve of late records, or of those that windows lose; of sessions it is never below that."""
    trace = as_trace(trace)
    event, arrival = (trace.table[name].to_numpy() for name in ("event_time", "arrival_ms"))
    groups, names = (None, []) if by is None else group(trace, by)
    top = np.maximum(before(event, groups), event)
    deadline = event if windows is None else windows.deadlines(event)
    late_by, lag = difference(np.maximum(top, deadline), deadline), difference(arrival, top)
    whole = replace(_curve(trace.name, late_by, lag), windows=windows)
    if groups is None:
        return whole
    order = np.argsort(groups, kind="stable")
    cuts = np.cumsum(np.bincount(groups, minlength=len(names)))[:-1]
    parts = zip(names, np.split(late_by[order], cuts), np.split(lag[order], cuts), strict=True)
    each = {name: _curve(name, mine, lags) for name, mine, lags in parts}
    return replace(whole, by=by, groups=each)


def _curve(name: str, late_by: Int64Array, lag: Int64Array) -> LatenessCurve:
    values, counts = _counted(late_by)
    lags, of_lag = _counted(lag)
    middle = lags[np.searchsorted(np.cumsum(of_lag), (len(lag) + 1) // 2)]
    late = values > 0
    return of_counts(name, len(late_by), values[late], counts[late], int(middle))


def _counted(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The different values in ascending order, and how many there are of each."""
    least = values.min()
    if int(values.max()) - int(least) >= _DENSE * len(values):
        return np.unique(values, return_counts=True)
    counts = np.bincount(values - least)
    indices = np.flatnonzero(counts)
    return indices + least, counts[indices]


def of_counts(name: str, rows: int, lateness: Int64Array, counts: Int64Array, base_lag_ms: int) -> LatenessCurve:
    """The curve of `rows` records; `counts[i]` of them are late by `lateness[i]` ms, ascending and above 0."""
    above = np.cumsum(counts[::-1])[::-1]
    return LatenessCurve(name=name, rows=rows, lateness=lateness, above=above, base_lag_ms=base_lag_ms)
