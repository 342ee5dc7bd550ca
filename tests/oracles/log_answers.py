"""A second computation of the facts of answers about a log: advice, comparison, and the curve of all constant bounds.

Strategies are stepped over the log record by record, intervals are computed from blocks with plain sums; the rules of
the answers are not used. The unseen half begins with the row of number `rows // 2`, from 0, in order of arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import ceil, floor
from typing import Any, Final

import numpy as np

from tests.oracles.logs import Replayed, column, replayed
from wmlab.core.traces import Trace
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import END, UNKNOWN

Values = dict[str, Any]
_BLOCKS: Final = 8
_STUDENT: Final = 2.365
_NORMAL: Final = 1.96


def differences(known: Values, said: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The labels whose values differ, those that are missing and those that are too many: computed, and said."""
    told = {label: said.get(label) for label in {*known, *said}}
    return {label: (known.get(label), value) for label, value in told.items() if not _same(known.get(label), value)}


def _same(known: Any, said: Any) -> bool:
    if isinstance(known, float) or isinstance(said, float):
        return known is not None and said is not None and abs(known - said) < 1e-9
    return bool(known == said)


def _without_none(values: Values) -> Values:
    """The values that are there; one of several alone, none of none."""
    single = {
        label: value[0] if isinstance(value, tuple) and len(value) == 1 else value for label, value in values.items()
    }
    return {label: value for label, value in single.items() if value is not None and value != ()}


def _middle(values: list[int]) -> int | None:
    return sorted(values)[(len(values) - 1) // 2] if values else None


def _lags(run: Replayed, rows: slice) -> list[int]:
    """Arrival less X of the records that have one."""
    x, arrival = run.x[rows], column(run.log, "arrival_ms")[rows]
    return (arrival - x)[(x != UNKNOWN) & (x != END)].tolist()  # type: ignore[no-any-return]


def _interval(of_blocks: list[float], whole: float) -> tuple[float, float]:
    count = len(of_blocks)
    if count < 2:
        return whole, whole
    off = _STUDENT * (sum((each - whole) ** 2 for each in of_blocks) / (count - 1) / count) ** 0.5
    return whole - off, whole + off


def missed_interval(run: Replayed) -> tuple[float, float]:
    """The interval of the share missed on the unseen half: that of its blocks, or of Wilson where that is wider."""
    missed = run.missed[run.middle :].tolist()
    whole, rows = sum(missed) / len(missed), len(missed)
    blocks = [block for block in np.array_split(missed, _BLOCKS) if len(block)]
    low, high = _interval([sum(block.tolist()) / len(block) for block in blocks], whole)
    wide = _NORMAL**2 / rows
    off = (wide * (whole * (1 - whole) + wide / 4)) ** 0.5
    wilson = [(whole + wide / 2 + sign * off) / (1 + wide) for sign in (-1, 1)]
    return max(0.0, min(low, wilson[0])), min(1.0, max(high, wilson[1]))


def lag_interval(run: Replayed) -> tuple[int, int]:
    """The interval of the median lag on the unseen half, by that of its blocks."""
    lags = _lags(run, slice(run.middle, None))
    if not lags:
        return 0, 0
    blocks = [_middle(block.tolist()) for block in np.array_split(lags, _BLOCKS) if len(block)]
    low, high = _interval([float(each) for each in blocks if each is not None], float(_middle(lags) or 0))
    return floor(low), ceil(high)


def advice_facts(log: Trace, target: float, advice: Any, window_ms: int | None) -> Values:
    """The facts of an advice that say what its strategies do."""
    run = replayed(log, advice.strategy, window_ms)
    (least, most), (first, last) = missed_interval(run), lag_interval(run)
    event = column(log, "event_time")
    known: Values = {
        "log": log.name,
        "strategy": advice.unseen.name,
        "target": target,
        "missed": run.missed_share,
        "missed at least": least,
        "missed at most": most,
        "late": None if window_ms is None else float((event < run.met)[run.middle :].mean()),
        "lag": run.lag_ms,
        "least lag": first,
        "largest lag": last,
    }
    return _without_none(known)


def whole_log(log: Trace, target: float, advice: Any, window_ms: int | None) -> tuple[float, int | None, int, int]:
    """What the advised strategy misses over the whole log, its median lag there, the first record of the unseen half
    from 1, and the constant bound that the whole log needs."""
    run = replayed(log, advice.strategy, window_ms)
    bound_ms = _least_bound_ms(_late_by(log, window_ms), target)
    return float(run.missed.mean()), _middle(_lags(run, slice(None))), run.middle + 1, bound_ms


def advice_kinds(log: Trace, target: float, advice: Any, window_ms: int | None) -> set[str]:
    """The kinds of findings that stand for the numbers of an advice, "one tail" apart."""
    run = replayed(log, advice.strategy, window_ms)
    (_, most), (first, last) = missed_interval(run), lag_interval(run)
    few = (log.rows - run.middle) * target < 100
    kinds = {"few records"} if few else set()
    if run.missed_share > target:
        kinds.add("target missed")
    elif most > target and not few:
        kinds.add("not sure")
    misses = bool(run.missed[: max(1, run.middle)].any() or run.missed[run.middle :].any())
    if last - first > abs(run.lag_ms or 0) and misses:
        kinds.add("wide lag")
    if run.is_dead:
        kinds.add("stands still")
    elif gone_writers(log, advice.strategy, run.lag_ms or 0):
        kinds.add("silent writer")
    return kinds


def gone_writers(log: Trace, strategy: Any, lag_ms: int) -> tuple[str, ...]:
    """The writers without which a minimum over writers stands still when the log ends."""
    inner = getattr(strategy, "inner", strategy)
    if type(inner).__name__ != "PerWriterMinimum" or inner.idle_ms is not None:
        return ()
    arrival, writer = column(log, "arrival_ms"), column(log, "writer")
    lasts = sorted(int(arrival[writer == name].max()) for name in set(writer.tolist()))
    end_ms = max(int(arrival[int(0.99 * (len(arrival) - 1))]), lasts[len(lasts) // 2])
    gone = []
    for name in sorted(set(writer.tolist())):
        mine = arrival[writer == name]
        at_end_ms = end_ms - int(mine[-1])
        if at_end_ms > max([0, *np.diff(mine).tolist()]) and at_end_ms > 10 * abs(lag_ms):
            gone.append(name)
    return tuple(gone)


def tail_faults(log: Trace, target: float, advice: Any, window_ms: int | None) -> dict[str, Any]:
    """What a finding "one tail" says that its two bounds deny, for the advised kind and for a constant bound.

    The larger one has to keep the target: between two bounds that miss it there is nothing to choose.
    """
    (tail,) = [each.facts for each in advice.findings if each.kind == "one tail"]
    kinds = {type(each).__name__: each for each in (advice.strategy, advice.judged[0].strategy)}
    faults: dict[str, Any] = {}
    for name, strategy in kinds.items():
        if "bound" not in {each.name for each in fields(getattr(strategy, "inner", strategy))}:
            continue
        of = [_with_bound(strategy, tail[label]) for label in ("bound", "bound without")]
        larger, smaller = (replayed(log, each, window_ms) for each in of)
        known = {
            "larger share": float(smaller.missed.mean()),
            "lag": _middle(_lags(larger, slice(None))),
            "records": int((smaller.missed & ~larger.missed).sum()),
        }
        faults[name] = differences(known, {label: tail.get(label) for label in known})
        if larger.missed.mean() > target:
            faults[name]["target"] = target, float(larger.missed.mean())
        if not faults[name]:
            return {}
    return faults


def constant_faults(log: Trace, target: float, advice: Any, window_ms: int | None) -> dict[str, Any]:
    """A constant bound that is not the one of the tuning half, with k - 2 sqrt(k) missed records of k that may be.

    It is smaller where X would be a third of the shorter half behind the records of the tuning half, in the medians.
    """
    half, said_ms = Trace("half", log.table.slice(0, max(1, log.rows // 2))), advice.judged[0].strategy.bound
    admitted = target * half.rows
    share = max(0.0, admitted - 2 * admitted**0.5) / half.rows
    needed_ms = _least_bound_ms(_late_by(log, window_ms)[: half.rows], share)
    arrival = column(log, "arrival_ms").tolist()
    between = arrival[log.rows // 2]
    third_ms = (min(between - arrival[0], arrival[-1] - between) - 1) // 3
    lag_ms = _middle(_lags(replayed(half, BoundedOutOfOrderness(0)), slice(None))) or 0
    delays = (column(half, "arrival_ms") - column(half, "event_time")).tolist()
    most_ms = max(0, third_ms + max(0, _middle(delays) or 0) - max(0, lag_ms))
    known_ms = min(needed_ms, most_ms)
    return {} if said_ms == known_ms else {"constant bound": (known_ms, said_ms)}


def _with_bound(strategy: Any, bound_ms: int) -> Any:
    if hasattr(strategy, "inner"):
        return replace(strategy, inner=_with_bound(strategy.inner, bound_ms))
    return replace(strategy, bound=bound_ms)


def comparison_facts(log: Trace, comparison: Any, window_ms: int | None) -> Values:
    """The facts of a comparison, but for those about wrong times; no perfect watermark is among its strategies."""
    runs = {outcome.name: replayed(log, outcome.strategy, window_ms) for outcome in comparison}
    lags = {name: _middle(_lags(run, slice(None))) for name, run in runs.items()}
    misses = {name: float(run.missed.mean()) for name, run in runs.items()}
    event, arrival = column(log, "event_time").tolist(), column(log, "arrival_ms").tolist()
    ends = [min(event[row + 1 :]) for row in range(len(event) - 1)]
    perfect_ms = _middle([at - end for at, end in zip(arrival, ends, strict=False)]) or 0
    known = {name: lag for name, lag in lags.items() if lag is not None}
    ahead = [name for name, lag in known.items() if lag < min(0, perfect_ms)]
    usable = [name for name in known if name not in ahead and misses[name] <= 0.5 and not stands_still(runs[name])]
    facts: Values = {"log": log.name, "records": log.rows}
    if usable:
        best = min(usable, key=lambda name: (misses[name], known[name]))
        quick = min(usable, key=lambda name: (known[name], misses[name]))
        facts |= {"misses least": best, "misses": misses[best], "its lag": known[best]}
        facts["misses fewer"] = tuple(name for name in known if misses[name] < misses[best])
        if quick != best:
            facts |= {"lags least": quick, "it misses": misses[quick], "the least lag": known[quick]}
    facts |= {
        "misses most records": tuple(name for name in known if name not in ahead and misses[name] > 0.5),
        "stands still": tuple(name for name in known if stands_still(runs[name])),
        "ahead": tuple(ahead),
        "ahead by": tuple(-known[name] for name in ahead),
        "without a watermark": tuple(name for name in lags if name not in known),
    }
    return _without_none(facts)


def stands_still(run: Replayed) -> bool:
    """Whether X never rises over the log, or its median lag beyond the median delay is a third of the log's length."""
    arrival, event = (column(run.log, name) for name in ("arrival_ms", "event_time"))
    delay_ms = _middle((arrival - event).tolist()) or 0
    beyond_ms = (_middle(_lags(run, slice(None))) or 0) - max(0, delay_ms)
    return bool(run.x.max() <= run.x[0] or 3 * beyond_ms >= arrival[-1] - arrival[0])


def curve_facts(log: Trace, window_ms: int | None) -> Values:
    """The facts of the curve of all constant bounds."""
    late_by = _late_by(log, window_ms)
    facts: Values = {"log": log.name, "records": log.rows, "missed at 0": sum(map(bool, late_by)) / len(late_by)}
    bounds = {"bound for 1%": 0.01, "bound for 0.1%": 0.001, "bound for none": 0.0}
    return facts | {label: _least_bound_ms(late_by, share) for label, share in bounds.items()}


def _late_by(log: Trace, window_ms: int | None) -> list[int]:
    """By how much each record, or the last instant of its window, is behind the largest event time before it."""
    late_by, largest = [], None
    for time in column(log, "event_time").tolist():
        last = time if window_ms is None else time // window_ms * window_ms + window_ms - 1
        late_by.append(0 if largest is None else max(0, largest - last))
        largest = time if largest is None else max(largest, time)
    return late_by


def _least_bound_ms(late_by: list[int], share: float) -> int:
    """The least of the constant bounds that miss at most a share."""
    may_miss = next(count for count in range(len(late_by), -1, -1) if count / len(late_by) <= share)
    return 0 if may_miss == len(late_by) else sorted(late_by, reverse=True)[may_miss]
