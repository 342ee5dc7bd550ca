"""What a little more loss would save: the knee of the curve of an advised watermark, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wmlab.core.traces import Trace
from wmlab.core.words import listed, rounded
from wmlab.strategies.candidates import OpenBound, bound_of, rebound
from wmlab.strategies.comparison import named
from wmlab.strategies.judging import JudgedCandidate
from wmlab.strategies.model.strategy import UNKNOWN, Strategy
from wmlab.strategies.replay import Log
from wmlab.strategies.windows import Windows

_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff:
    """Two bounds of one kind of watermark over a whole log: that of `strategy`, and a far smaller one, of `smaller`.

    `late_share` and `lag_ms` (the median) are those of the first, `smaller_late_share` and `smaller_lag_ms` those of
    the second, as `compare` has them. `smaller` has the bound of `LatenessCurve.knee`. `writers` are those of several
    who have at least half of the records between.
    """

    strategy: Strategy[Any]
    late_share: float
    lag_ms: int
    smaller: Strategy[Any]
    smaller_late_share: float
    smaller_lag_ms: int
    writers: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What the larger bound costs, and for which records."""
        whose = f", most of them of {listed(self.writers, most=_NAMED)}" if self.writers else ""
        return (
            f"Over the whole log, {self.late_share:.3%} late costs a median lag of {rounded(self.lag_ms)} with "
            f"{named(self.strategy)}, and {self.smaller_late_share:.3%} late costs {rounded(self.smaller_lag_ms)} with "
            f"{named(self.smaller)}: the rest is one tail of {self.smaller_late_share - self.late_share:.3%} of the "
            f"records{whose}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The two bounds as dicts of numbers."""
        names = ("late_share", "lag_ms", "smaller_late_share", "smaller_lag_ms", "writers")
        fields = {name: getattr(self, name) for name in names}
        return fields | {"strategy": repr(self.strategy), "smaller": repr(self.smaller)}


def cheapest_trade_off(
    judged: Iterable[JudgedCandidate], trace: Trace, windows: Windows | None = None
) -> TradeOff | None:
    """Of those of some candidates the one whose smaller bound has the least lag; None if no curve has a knee."""
    trade_offs = [traded for each in judged if (traded := trade_off(each, trace, windows)) is not None]
    return min(trade_offs, key=lambda traded: traded.smaller_lag_ms, default=None)


def trade_off(judged: JudgedCandidate, trace: Trace, windows: Windows | None = None) -> TradeOff | None:
    """The far smaller bound that loses little more, if the curve of a candidate with a bound has a knee; else None."""
    strategy, log = judged.strategy, Log.of(trace)
    bound_ms = bound_of(strategy)
    if bound_ms is None:
        return None
    make = rebound(strategy)
    met, x = (np.where(times == UNKNOWN, UNKNOWN, times + bound_ms) for times in (judged.met, judged.x))
    curve = OpenBound(make, log, met, x, windows).curve(slice(None))
    late_share = curve.late_share(bound_ms)
    knee = curve.knee(late_share)
    if knee is None:
        return None
    deadline = log.event if windows is None else windows.deadlines(log.event)
    between = (met != UNKNOWN) & (deadline < met - knee.bound_ms) & (deadline >= met - bound_ms)
    owners = Counter(trace.table["writer"].filter(pa.array(between)).to_pylist())
    several = len(trace.writer_names) > 1
    return TradeOff(
        strategy=strategy,
        late_share=late_share,
        lag_ms=curve.lag_ms(bound_ms),
        smaller=make(knee.bound_ms),
        smaller_late_share=knee.late_share,
        smaller_lag_ms=curve.lag_ms(knee.bound_ms),
        writers=tuple(sorted(name for name, count in owners.items() if several and 2 * count >= between.sum())),
    )
