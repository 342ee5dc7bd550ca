"""Which watermark a log asks for: chosen on its first half, judged on its second, with what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import numpy as np

from wmlab.core.answers import Answer
from wmlab.core.traces import Trace
from wmlab.core.words import DAY_MS, grouped, rounded
from wmlab.strategies.comparison import Outcome, Windows, named, outcome
from wmlab.strategies.lateness import frontier
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import UNKNOWN, Share, Strategy, require_argument
from wmlab.strategies.model.targets import ConformalWatermark
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import Log, replayed, require_trace

_BLOCKS: Final = 8
_STUDENT: Final = 2.365
"""The 97.5% quantile of Student's distribution with 7 degrees of freedom, for a mean over 8 blocks."""
_ENOUGH: Final = 100
"""Late records that the target has to leave in each half, so that their share can be told from `_KEPT` times the target
at 95%: (1.96 / 0.2)^2, if they are independent."""
_KEPT: Final = 1.2
"""By how much a late share may exceed its target and still count as kept."""
_STEADY: Final = 2.0
"""By how much the upper end of the interval of a late share may exceed the target."""
_SIMPLER: Final = 1.05
"""How much more lag a constant bound may cost before another strategy is worth it."""
_EARLY: Final = 0.01
"""The share of records that arrive before they happen from which on the clocks count as skewed."""
_CONSTANT: Final = "the settings are those of a constant bound, which engines have"
_TREND: Final = 0.8
_GROWTH: Final = 1.5
"""The bounds of 8 stretches drift if their ranks correlate with time by so much, and they change by that factor."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Advice(Answer):
    """The strategy to take, and what to expect of it; times in ms, shares from 0 to 1.

    `late_share`, `lag_ms` and their `_range` (95%, from 8 stretches of the judged half) are what the strategy, as
    chosen on the first half, did on the second; `open_windows` is the mean and the most of windows that it kept open,
    if their length was given. `bound_ms` is the constant bound for the target, and `settings` how engines write it.
    `doubts` says why the log does not support an answer; it is empty if it does. `judged` has all candidates.
    """

    name: str
    target: float
    strategy: Strategy[Any]
    late_share: float
    late_range: tuple[float, float]
    lag_ms: int
    lag_range: tuple[int, int]
    open_windows: tuple[float, int] | None
    bound_ms: int
    settings: Mapping[str, str]
    reason: str
    assumed: tuple[str, ...]
    doubts: tuple[str, ...]
    judged: tuple[Outcome, ...]

    @property
    def supported(self) -> bool:
        """Whether the log supports the advice."""
        return not self.doubts

    def to_dict(self) -> dict[str, Any]:
        """The advice as dicts, lists and scalars."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("strategy", "judged")}
        judged = [{"name": o.name, "late_share": o.late_share, "lag_ms": o.lag_p50_ms} for o in self.judged]
        return fields | {"strategy": repr(self.strategy), "settings": dict(self.settings), "judged": judged}

    @property
    def sentence(self) -> str:
        """The advice in a few sentences."""
        if self.doubts:
            doubts = "; ".join(self.doubts)
            return f"The log {self.name!r} does not support a watermark for {self.target:.3%} late: {doubts}."
        low, high = self.late_range
        first, last = self.lag_range
        return (
            f"Take {named(self.strategy)} for {self.name!r}: expect {self.late_share:.3%} of the records late "
            f"({low:.3%} to {high:.3%}; target {self.target:.3%}) and a median lag of {rounded(self.lag_ms)} "
            f"({rounded(first)} to {rounded(last)}). {self.reason}"
        )

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *(f"  {name}: {text}" for name, text in self._details())])

    def _details(self) -> list[tuple[str, str]]:
        """What is assumed, and the settings of engines; nothing of advice that the log does not support."""
        return [] if self.doubts else [*(("assumed", text) for text in self.assumed), *self.settings.items()]

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{name}: {escape(text)}</li>" for name, text in self._details())
        return f"<p>{escape(self.sentence)}</p><ul>{rows}</ul>"


def advise(trace: Trace, late_share: float = 0.001, *, window_ms: int | None = None) -> Advice:
    """Which strategy keeps the late share of a log at or below `late_share` for the least lag.

    A constant bound and a least over writers get their bound from the first half; conformal inference steers itself.
    All run over the whole log and are judged on the second half. Of those that keep the target there, the constant
    bound is taken unless another has a median lag that is clearly less. What is advised has its bound from the whole
    log. Where the log is too short, drifts, or has skewed clocks, or the best watermark stalls, `doubts` says so.
    Raises `ModelError` for a target that is not between 0 and 1, or a window below 1 ms.
    """
    require_argument("late_share", late_share, Share)
    require_trace(trace)
    middle = trace.rows // 2
    first = Trace(trace.name, trace.table.slice(0, max(1, middle)))
    first_bound = frontier(first).bound_ms(late_share)
    candidates = _candidates(first, first_bound, late_share)
    log = Log.of(trace)
    half = log.of_rows(slice(middle, None))
    windows = None if window_ms is None else Windows.of(half, window_ms)
    steps = replayed(trace, candidates, tick_ms=0)
    taken = zip(candidates, steps, strict=True)
    judged = [outcome(strategy, half, met[middle:], x[middle:], windows) for strategy, (met, x) in taken]
    ranges = [_range(half.event < met[middle:]) for met, _ in steps]
    place = _chosen(judged, ranges, late_share)
    best, (_, x) = judged[place], steps[place]
    known = x[middle:] != UNKNOWN
    least, most = _range((half.arrival - x[middle:])[known], np.median) if known.any() else (0, 0)
    bound, lossless = map(frontier(trace).bound_ms, (late_share, 0))
    doubts = _doubts(trace, late_share, best, ranges[place][1])
    lossless_lag_ms = (judged[0].lag_p50_ms or 0) + lossless - first_bound
    if not doubts and (best.lag_p50_ms or 0) > lossless_lag_ms:
        stalls = f"{named(best.strategy)} stalls: its median lag is {rounded(best.lag_p50_ms or 0)}"
        doubts = (f"{stalls}, where a constant bound of {rounded(lossless)} leaves no record late",)
    return Advice(
        name=trace.name,
        target=late_share,
        strategy=_candidates(trace, bound, late_share)[place],
        late_share=best.late_share,
        late_range=(max(0.0, ranges[place][0]), ranges[place][1]),
        lag_ms=best.lag_p50_ms or 0,
        lag_range=(int(least), int(most)),
        open_windows=None if best.open_mean is None else (best.open_mean, best.open_max or 0),
        bound_ms=bound,
        settings=settings(bound),
        reason=_reason(judged, place),
        assumed=_assumed(best.strategy),
        doubts=doubts,
        judged=tuple(judged),
    )


def settings(bound_ms: int) -> dict[str, str]:
    """How engines write a constant bound: Flink SQL, Spark, Kafka Streams, Beam.

    A row at the watermark of Flink is late, so its statement has one millisecond more; `BoundedOutOfOrderness` of Flink
    does the same by itself.

    >>> settings(90_061_500)["Flink SQL"]
    "WATERMARK FOR event_time AS event_time - INTERVAL '1 01:01:01.501' DAY TO SECOND(3)"
    """
    days, rest = divmod(bound_ms + 1, DAY_MS)
    seconds, ms = divmod(rest, 1_000)
    clock = f"{days} {seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
    precision = f"({len(str(days))})" if days > 99 else ""
    return {
        "Flink SQL": f"WATERMARK FOR event_time AS event_time - INTERVAL '{clock}' DAY{precision} TO SECOND(3)",
        "Spark": f'.withWatermark("event_time", "{bound_ms} milliseconds")',
        "Kafka Streams": f"TimeWindows.ofSizeAndGrace(size, Duration.ofMillis({bound_ms}L))",
        "Beam": f"new CustomTimestampPolicyWithLimitedDelay<>(timestamp, Duration.millis({bound_ms}L), previous)",
    }


def _candidates(trace: Trace, bound_ms: int, target: float) -> list[Strategy[Any]]:
    """A constant bound first, and what may keep the target for less lag."""
    hold = min(1_000, max(1, trace.rows // 10))
    found: list[Strategy[Any]] = [BoundedOutOfOrderness(bound_ms), ConformalWatermark(target, hold=hold)]
    if len(trace.writer_names) > 1:
        found.append(PerWriterMinimum(frontier(trace, "writer").bound_ms(target), writers=trace.writer_names))
    return found


def _chosen(judged: list[Outcome], ranges: list[tuple[float, float]], target: float) -> int:
    """The place of the constant bound if it keeps the target for about the least lag, else of who has the least."""
    kept = [
        n
        for n, o in enumerate(judged)
        if o.late_share <= _KEPT * target and ranges[n][1] <= _STEADY * target and o.lag_p50_ms is not None
    ]
    if not kept:
        return min(range(len(judged)), key=lambda n: judged[n].late)
    least = min(kept, key=lambda n: judged[n].lag_p50_ms or 0)
    simple, lag = judged[0].lag_p50_ms or 0, judged[least].lag_p50_ms or 0
    return 0 if 0 in kept and simple <= lag + (_SIMPLER - 1) * abs(lag) else least


def _range(values: Any, middle: Callable[[Any], Any] = np.mean) -> tuple[float, float]:
    """The 95% interval of the mean over blocks of the `middle` of each."""
    blocks = np.array([middle(block) for block in np.array_split(values, _BLOCKS) if len(block)])
    off = _STUDENT * float(blocks.std(ddof=1)) / len(blocks) ** 0.5 if len(blocks) > 1 else 0.0
    return float(blocks.mean()) - off, float(blocks.mean()) + off


def _doubts(trace: Trace, target: float, best: Outcome, most: float) -> tuple[str, ...]:
    found = []
    if best.rows * target < _ENOUGH:
        need = grouped(int(2 * _ENOUGH / target))
        found.append(f"it is too short, {grouped(trace.rows)} records where {need} are needed")
    if best.late_share > _KEPT * target:
        drifts = " and its lateness drifts" if _drifts(trace, target) else ""
        found.append(f"no strategy chosen on its first half keeps the target on its second{drifts}")
    elif most > _STEADY * target:
        found.append(f"its late share is unsteady, up to {most:.3%} at 95%")
    if trace.early > _EARLY * trace.rows:
        found.append(f"its clocks are skewed, {trace.early / trace.rows:.1%} of the records arrive before they happen")
    return tuple(found)


def _drifts(trace: Trace, target: float) -> bool:
    """Whether the bound for the target rises or falls along 8 stretches: its ranks follow time, by a lot."""
    size = max(1, trace.rows // _BLOCKS)
    parts = [trace.table.slice(n * size, size) for n in range(min(_BLOCKS, trace.rows))]
    bounds = np.array([frontier(Trace(trace.name, part)).bound_ms(target) for part in parts])
    if len(bounds) < _BLOCKS or bounds.max() <= _GROWTH * bounds.min():
        return False
    ranks = np.argsort(np.argsort(bounds, kind="stable"))
    return bool(abs(np.corrcoef(ranks, np.arange(_BLOCKS))[0, 1]) >= _TREND)


def _reason(judged: list[Outcome], place: int) -> str:
    constant = judged[0]
    if place == 0:
        return "A constant bound keeps the target on the unseen half, and nothing is clearly less behind."
    what = f"{constant.late_share:.3%} late for a lag of {rounded(constant.lag_p50_ms or 0)}"
    return f"On the unseen half the constant bound of the first has {what}."


def _assumed(strategy: Strategy[Any]) -> tuple[str, ...]:
    if isinstance(strategy, BoundedOutOfOrderness):
        return ("what comes is as late as what came",)
    if isinstance(strategy, PerWriterMinimum):
        return ("all writers keep sending, and each stays as late as it was", _CONSTANT)
    return ("lateness changes slowly against the last 2 000 records", _CONSTANT)
