"""When a window is complete enough, judged by the delays seen so far and corrected for those that cannot be seen yet.

The delays of the records at hand are too short on the whole: of recent events only the fast records are there. With n_d
the records whose delay is at most d and whose age is at least d, and c_d those of them with delay d, the share of all
records with a delay of at most d is F(d) = product over k > d of (1 - c_k / n_k). Times are in whole buckets.

Source: Kalbfleisch and Lawless, "Inference Based on Retrospective Ascertainment", JASA 1989 (the product-limit estimate
under right truncation); Höhle and an der Heiden, "Bayesian Nowcasting during the STEC O104:H4 Outbreak", Biometrics
2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import UNKNOWN, Input, NotNegativeReal, Positive, Record, Share, Strategy, now_of


def arrived(ages: Sequence[Sequence[int]], z: float = 0.0) -> list[float]:
    """For each delay d from 0 on the share of records with a delay of at most d: F(d), or its lower bound for z > 0.

    `ages[a]` counts the records of an age of a buckets by delay, in lists of one length. The last share is 1: no longer
    delay is foreseen. The bound is F(d) exp(-z s) with Greenwood's variance s^2, the sum over k > d of
    c_k / (n_k (n_k - c_k)).
    """
    shares, share, variance, at_risk = [1.0], 1.0, 0.0, 0
    seen = [sum(column) for column in zip(*ages, strict=True)]
    for delay in range(len(ages) - 1, 0, -1):
        at_risk += sum(ages[delay])
        if seen[delay]:
            share *= 1 - seen[delay] / at_risk
            left = at_risk - seen[delay]
            variance += seen[delay] / (at_risk * left) if left else inf
            at_risk = left
        shares.append(share * exp(-z * sqrt(variance)) if share else 0.0)
    return shares[::-1]


class Cohorts:
    """The state: `counts` has for each bucket of event time the records by delay in buckets, `now` is the bucket now.

    `first` is the bucket of the first input.
    """

    __slots__ = ("counts", "first", "now", "x")

    def __init__(self) -> None:
        self.counts: dict[int, list[int]] = {}
        self.first: int | None = None
        self.now = self.x = UNKNOWN


@dataclass(frozen=True, slots=True)
class CompletenessWatermark(Strategy[Cohorts]):
    """X = the end of the last window up to which all are complete to a share of `share`, with `z` deviations to spare.

    The completeness of a window is the records seen over those expected, each counting 1 / F(its age), F by `arrived`
    over the events of the last `horizon`; it is looked at when a bucket of the clock ends. `window`, `bucket` and
    `horizon` are in the one unit of event and arrival time, the first and last multiples of `bucket`. Delays beyond the
    horizon are not foreseen, and for a horizon after the first input there is no watermark. Native is X.
    """

    window: Positive
    bucket: Positive
    horizon: Positive
    share: Share = 0.99
    z: NotNegativeReal = 1.645

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        for name, value in (("window", self.window), ("horizon", self.horizon)):
            if value % self.bucket:
                raise ModelError(
                    f"The {name} of {value} is no multiple of the bucket of {self.bucket}.",
                    remedy=f"Give a {name} of whole buckets.",
                )

    def start(self) -> Cohorts:
        return Cohorts()

    def step(self, state: Cohorts, given: Input) -> tuple[Cohorts, int, int]:
        if (now_ms := now_of(given)) is not None:
            now = now_ms // self.bucket
            state.first = now if state.first is None else state.first
            if now > state.now:
                state.now = now
                self._look(state)
            if isinstance(given, Record):
                event, buckets = given.event_time // self.bucket, self.horizon // self.bucket
                delay = max(0, state.now - event)
                if delay <= buckets:
                    state.counts.setdefault(event, [0] * (buckets + 1))[delay] += 1
        return state, state.x, state.x

    def _look(self, state: Cohorts) -> None:
        """Move X at the beginning of bucket `state.now`; an event of the bucket before has age 0."""
        buckets, per_window = self.horizon // self.bucket, self.window // self.bucket
        oldest = state.now - 1 - buckets
        for event in [event for event in state.counts if event < oldest]:
            del state.counts[event]
        if state.first is None or state.first > oldest:
            return
        none = [0] * (buckets + 1)
        shares = arrived([state.counts.get(state.now - 1 - age, none) for age in range(buckets + 1)], self.z)
        # Windows before the horizon are complete, however many the clock has passed.
        window = max(oldest // per_window, state.x // self.window)
        while self._complete(state, window * per_window, shares):
            window += 1
        state.x = max(state.x, window * self.window)

    def _complete(self, state: Cohorts, begin: int, shares: Sequence[float]) -> bool:
        seen = expected = 0.0
        for event in range(begin, begin + self.window // self.bucket):
            age = state.now - 1 - event
            share = (shares[age] if age < len(shares) else 1.0) if age >= 0 else 0.0
            if not share:
                return False
            # An empty bucket counts a little, so that a window without records has the share of its age.
            count = sum(state.counts.get(event, ())) or 1e-9
            seen += count
            expected += count / share
        return seen >= self.share * expected
