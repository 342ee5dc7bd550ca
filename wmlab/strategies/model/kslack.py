"""K-slack: a buffer that sorts records and holds each of them for K units of event time.

The watermark is what it releases up to: X = m - K. With a constant K it is `BoundedOutOfOrderness(K)`.

Source: Mutschler and Philippsen, "Distributed Low-Latency Out-of-Order Event Processing for High Data Rate Sensor
Streams", IPDPS 2013 (MP); Ji et al., "Quality-Driven Processing of Sliding Window Aggregates over Out-of-Order Data
Streams", DEBS 2015 (AQ); the extension siddhi-execution-reorder, classes `KSlackExtension`, `AlphaKSlackExtension` and
`WindowCoverage`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple

from wmlab.strategies.model.strategy import (
    END,
    UNKNOWN,
    Input,
    NotNegativeReal,
    Positive,
    PositiveReal,
    Record,
    ShareBetween,
    Strategy,
    earlier,
)


class Slack(NamedTuple):
    """The largest event time, X, K, and the least event time since the largest one last grew (`END`: none)."""

    top: int
    x: int
    k: int
    least: int


@dataclass(frozen=True, slots=True)
class MPKSlack(Strategy[Slack]):
    """X = m - K. When m grows, K becomes the largest delay of a record since m last grew, if that is larger.

    The delay is the new m less the event time. `max_k` limits K, in units of event time (None: no limit). Native is X.
    """

    max_k: Positive | None = None

    def start(self) -> Slack:
        return Slack(UNKNOWN, UNKNOWN, 0, END)

    def step(self, state: Slack, item: Input) -> tuple[Slack, int, int]:
        top, x, k, least = state
        if isinstance(item, Record):
            time = item.event_time
            if time <= top:
                state = Slack(top, x, k, min(least, time))
            else:
                k = self.grown(k, time, least)
                state = Slack(time, max(x, earlier(time, k)), k, END)
        return state, state.x, state.x

    def grown(self, k: int, top: int, least: int) -> int:
        """K when m has grown to `top` and the least event time since it last grew is `least`."""
        k = max(k, top - least)
        return k if self.max_k is None else min(k, self.max_k)


CoverageRule = Literal["derived", "siddhi"]


def coverage(
    error: float, z: float, count: int, *, mean: float = 1.0, variance: float = 0.0, rule: CoverageRule = "derived"
) -> float:
    """The share of `count` values that an aggregate needs, to be off by more than `error` only beyond `z` deviations.

    With q = z^2 (mean^2 + variance) / (count mean^2) it is the theta above 1 - error at which the distance to it is
    that of z deviations, (theta - (1 - error))^2 = q theta (1 - theta): the larger root. Siddhi takes the smaller one,
    which lies below those of 1 + error that it looks at, too, and squares the variance once more.
    """
    spread = variance**2 if rule == "siddhi" else variance
    q = z**2 * (mean**2 + spread) / (count * mean**2)
    apart = sqrt(q * (q + 4 * error * (1 - error)))
    return (2 * (1 - error) + q + (apart if rule == "derived" else -apart)) / (2 * (1 + q))


class Steering:
    """The state of AQ-K-slack: `mp` is that of `rule`, MP-K-slack, `recent` the last records and whether on time."""

    __slots__ = ("alpha", "count", "error", "mp", "recent", "rule", "x")

    def __init__(self, rule: MPKSlack, most: int) -> None:
        self.rule, self.mp, self.x = rule, rule.start(), UNKNOWN
        self.alpha, self.error, self.count = 1.0, 0.0, 0
        self.recent: deque[tuple[int, bool]] = deque(maxlen=most)


@dataclass(frozen=True, slots=True)
class AQKSlack(Strategy[Steering]):
    """X = m - K, K = alpha K_MP: the slack with which an aggregate is wrong by at most `error`, with `confidence`.

    After each `batch` records, alpha changes by 0.5 e + 0.8 (e - e of the previous batch), within 0 and 1, from 1. Here
    e is the coverage needed by a batch (see `coverage`) minus the coverage reached: the share of records on time among
    those with event times in [m - K - `window`, m - K], of the last ten batches; 1 if there is none. `mean` and
    `variance` are those of the aggregated values; 1 and 0 for a count. Native is X. `rule="siddhi"` takes Siddhi's
    coverage.
    """

    window: Positive
    error: ShareBetween = 0.03
    confidence: ShareBetween = 0.95
    batch: Positive = 1_000
    mean: PositiveReal = 1.0
    variance: NotNegativeReal = 0.0
    max_k: Positive | None = None
    """The largest slack, in ms; None: no limit."""
    rule: CoverageRule = "derived"

    def start(self) -> Steering:
        return Steering(MPKSlack(self.max_k), 10 * self.batch)

    def step(self, state: Steering, item: Input) -> tuple[Steering, int, int]:
        if isinstance(item, Record):
            state.recent.append((item.event_time, item.event_time >= state.x))
            before = state.mp.top
            state.mp, _, _ = state.rule.step(state.mp, item)
            if state.mp.top > before:
                state.x = max(state.x, earlier(state.mp.top, self.k(state)))
            state.count += 1
            if state.count == self.batch:
                self._steer(state)
        return state, state.x, state.x

    def k(self, state: Steering) -> int:
        """K in this state."""
        return round(state.alpha * state.mp.k)

    def needed(self) -> float:
        """The coverage that a batch needs."""
        z = NormalDist().inv_cdf((1 + self.confidence) / 2)
        return coverage(self.error, z, self.batch, mean=self.mean, variance=self.variance, rule=self.rule)

    def _steer(self, state: Steering) -> None:
        end = state.mp.top - self.k(state)
        on_time = [fine for time, fine in state.recent if end - self.window <= time <= end]
        error = self.needed() - (sum(on_time) / len(on_time) if on_time else 1.0)
        moved = state.alpha + 0.5 * error + 0.8 * (error - state.error)
        state.alpha, state.error, state.count = min(1.0, max(0.0, moved)), error, 0
