"""Strategies that are given a target: a late share, steered or spent over writers, or the completeness of windows.

At each record alpha, the share of latenesses that the bound may leave out, grows a little if the record was on time and
shrinks a lot if it was late. No assumption is made on how latenesses are distributed or drift.

With N the records after the warm-up and alpha_1 = `target`, always

    late share - target = (alpha_1 - alpha_N+1) / (gamma N)

so the late share is within `bound(N)` as long as alpha stays within [-gamma, 1 + gamma]. It does where a watermark can
be taken back. A watermark cannot: what a bound too small has promised stays promised, and records may be late while
alpha is negative. Hence the warm-up: no watermark before enough latenesses are known.

Each writer has a bound of its own, and the watermark is the least over writers. A punctual writer needs a short bound,
an erratic one a long one; one share p for each of them is not the best. The budgets p_w with sum n_w p_w = p N, which
minimise the sum of n_w B_w, are those at which one more late record of any writer would shorten that sum equally. That
sum is not the lag of the minimum, which the writer with the longest bound decides: one bound for all can lag less.

The delays of the records at hand are too short on the whole: of recent events only the fast records are there. With n_d
the records whose delay is at most d and whose age is at least d, and c_d those of them with delay d, the share of all
records with a delay of at most d is F(d) = product over k > d of (1 - c_k / n_k). Times are in whole buckets.

Source: Gibbs and Candès, "Adaptive Conformal Inference Under Distribution Shift", NeurIPS 2021, without clamping;
Kalbfleisch and Lawless, "Inference Based on Retrospective Ascertainment", JASA 1989 (the product-limit estimate under
right truncation); Höhle and an der Heiden, "Bayesian Nowcasting during the STEC O104:H4 Outbreak", Biometrics 2014.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from math import exp, inf, sqrt
from typing import NamedTuple

from wmlab.core.errors import ModelError
from wmlab.strategies.model.percentiles import SlidingState, require_warm_up
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
    now_of,
)
from wmlab.strategies.model.writers import Minimum


class Steered(NamedTuple):
    """X, alpha, and the records so far."""

    x: int
    alpha: float
    seen: SlidingState


@dataclass(frozen=True, slots=True)
class ConformalWatermark(Strategy[Steered]):
    """X = m - B, B = `SlidingWindow.bound` at 1 - alpha of the last `size` latenesses; X stays while alpha <= 0.

    `target` is the late share wanted, `gamma` how fast alpha follows. The first `hold` records, the warm-up, make
    no watermark and leave alpha as it is. Native is X. See the module for rule and source.
    """

    target: ShareBetween
    gamma: PositiveReal = 0.005
    size: Positive = 2_000
    hold: Positive = 1_000

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        require_warm_up(self.hold, self.size)

    def start(self) -> Steered:
        return Steered(UNKNOWN, self.target, SlidingState(self.size))

    def step(self, state: Steered, item: Input) -> tuple[Steered, int, int]:
        x, alpha, seen = state
        if isinstance(item, Record):
            if seen.count >= self.hold:
                alpha += self.gamma * (self.target - (item.event_time < x))
            seen.add(item.event_time)
            if seen.count >= self.hold and alpha > 0:
                x = max(x, earlier(seen.top, seen.window.bound(1 - alpha)))
        return Steered(x, alpha, seen), x, x

    def bound(self, records: int) -> float:
        """How far the late share of so many records after warm-up is from `target` at most; see the module for when.

        >>> round(ConformalWatermark(target=0.01).bound(100_000), 5)
        0.00199
        """
        return (max(self.target, 1 - self.target) + self.gamma) / (self.gamma * records)


def budgets(largest: Mapping[str, Sequence[int]], counts: Mapping[str, int], late: int) -> dict[str, int]:
    """The bound B_w of each writer, so that at most `late` latenesses of all are above their bounds.

    `largest` has the largest latenesses of each writer in descending order, late + 1 of them or all, `counts` how many
    it has. Of all bounds that leave out as many, none has a smaller sum of counts times bounds; up to `late` some may
    be left over, since the steps of a writer that save equally are taken together (its lower convex hull). Of late + 1
    latenesses no side goes beyond what may be spent, so fewer may be left over than of all.
    """
    taken = dict.fromkeys(largest, 0)
    for _, writer, last, records in merge(*(_sides(name, own, counts[name]) for name, own in largest.items())):
        late -= records
        if late < 0:
            break
        taken[writer] = last
    return {writer: values[taken[writer]] for writer, values in largest.items()}


def _sides(writer: str, values: Sequence[int], count: int) -> Iterator[tuple[float, str, int, int]]:
    """The sides of the lower convex hull of (index, value) for values that descend, from the steepest on, made as far
    as asked for: by how much a record of it changes the sum, the writer, the last index and the number of indices."""
    corner, end = 0, len(values) - 1
    while corner < end:
        top, fall, length = values[corner], 0, 1
        index, reach = corner, end
        while index < reach:
            index += 1
            if (top - values[index]) * length >= fall * (index - corner):
                fall, length = top - values[index], index - corner
                if fall:
                    reach = min(end, corner + (top - values[end]) * length // fall)  # Farther ones are flatter.
        corner += length
        yield -count * fall / length, writer, corner, length


@dataclass(slots=True)
class BudgetedState:
    """The records of each writer and of all, the bounds (none before the first plan), and the least watermark."""

    of: defaultdict[str, SlidingState]
    minimum: Minimum
    bounds: dict[str, int] = field(default_factory=dict)
    count: int = 0


@dataclass(frozen=True, slots=True)
class BudgetedMinimum(Strategy[BudgetedState]):
    """X = min over the writers w that are not idle of m_w - B_w, with bounds of `budgets` for a late share of `share`.

    The bounds are made anew after each `every` records, from the last `size` latenesses of each writer, counted against
    its own maximum; before that there is no watermark. A writer that is not in the plan has the largest bound of it.
    A writer is idle after `idle_ms` of arrival time (None: never). Native is X.
    """

    share: ShareBetween
    size: Positive = 2_000
    every: Positive = 1_000
    idle_ms: Positive | None = None

    def start(self) -> BudgetedState:
        return BudgetedState(defaultdict(lambda: SlidingState(self.size)), Minimum(self.idle_ms))

    def step(self, state: BudgetedState, item: Input) -> tuple[BudgetedState, int, int]:
        if not isinstance(item, Record):
            x = state.minimum.tell(item)
            return state, x, x
        writer, own = item.writer, state.of[item.writer]
        own.add(item.event_time)
        state.count += 1
        if state.count % self.every == 0:
            counts = {name: len(seen.window) for name, seen in state.of.items()}
            late = int(self.share * sum(counts.values()) + 1e-9)
            largest = {name: seen.window.largest(late + 1) for name, seen in state.of.items()}
            state.bounds = budgets(largest, counts, late)
        value = UNKNOWN
        if state.bounds:
            bound = state.bounds.get(writer)
            value = earlier(own.top, max(state.bounds.values()) if bound is None else bound)
        x = state.minimum.put(writer, value, item.arrival_ms)
        return state, x, x


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


@dataclass(slots=True)
class Cohorts:
    """The state: `counts` has for each bucket of event time the records by delay in buckets, `now` is the bucket now.

    `first` is the bucket of the first input.
    """

    counts: dict[int, list[int]] = field(default_factory=dict)
    first: int = END
    now: int = UNKNOWN
    x: int = UNKNOWN


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
    share: ShareBetween = 0.99
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

    def step(self, state: Cohorts, item: Input) -> tuple[Cohorts, int, int]:
        if (now_ms := now_of(item)) is not None:
            now = now_ms // self.bucket
            state.first = min(state.first, now)
            if now > state.now:
                state.now = now
                self._look(state)
            if isinstance(item, Record):
                event, buckets = item.event_time // self.bucket, self.horizon // self.bucket
                delay = max(0, state.now - event)
                if delay <= buckets:
                    state.counts.setdefault(event, [0] * (buckets + 1))[delay] += 1
        return state, state.x, state.x

    def _look(self, state: Cohorts) -> None:
        """Move X at the beginning of bucket `state.now`; an event of the bucket before has age 0."""
        buckets, per_window = self.horizon // self.bucket, self.window // self.bucket
        oldest = state.now - 1 - buckets
        state.counts = {event: counts for event, counts in state.counts.items() if event >= oldest}
        if state.first > oldest:
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
