"""A late share that is steered: adaptive conformal inference (ACI) on the latenesses.

At each record alpha, the share of latenesses that the bound may leave out, grows a little if the record was on time and
shrinks a lot if it was late. No assumption is made on how latenesses are distributed or drift.

With N the records behind the hold and alpha_1 = `target`, always

    late share - target = (alpha_1 - alpha_N+1) / (gamma N)

so the late share is within `bound(N)` as long as alpha stays within [-gamma, 1 + gamma]. It does where a watermark can
be taken back. A watermark cannot: what a bound too small has promised stays promised, and records may be late while
alpha is negative. Hence the hold: no watermark before enough latenesses are known.

Source: Gibbs and Candès, "Adaptive Conformal Inference Under Distribution Shift", NeurIPS 2021, without clamping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wmlab.strategies.model.percentiles import Seen, require_hold
from wmlab.strategies.model.strategy import UNKNOWN, Input, Positive, PositiveReal, Record, Share, Strategy, minus


class Steered(NamedTuple):
    """X, alpha, and the records so far."""

    x: int
    alpha: float
    seen: Seen


@dataclass(frozen=True, slots=True)
class ConformalWatermark(Strategy[Steered]):
    """X = m - B, B = `SlidingWindow.bound` at 1 - alpha of the last `size` latenesses; X stays while alpha <= 0.

    `target` is the late share wanted, `gamma` how fast alpha follows. The first `hold` records make no watermark and
    leave alpha as it is. Native is X. See the module for rule and source.
    """

    target: Share
    gamma: PositiveReal = 0.005
    size: Positive = 2_000
    hold: Positive = 1_000

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        require_hold(self.hold, self.size)

    def start(self) -> Steered:
        return Steered(UNKNOWN, self.target, Seen(self.size))

    def step(self, state: Steered, given: Input) -> tuple[Steered, int, int]:
        x, alpha, seen = state
        if isinstance(given, Record):
            if seen.count >= self.hold:
                alpha += self.gamma * (self.target - (given.event_time < x))
            seen.add(given.event_time)
            if seen.count >= self.hold and alpha > 0:
                x = max(x, minus(seen.top, seen.window.bound(1 - alpha)))
        return Steered(x, alpha, seen), x, x

    def bound(self, records: int) -> float:
        """How far the late share of so many records behind the hold is from `target` at most; see the module for when.

        >>> round(ConformalWatermark(target=0.01).bound(100_000), 5)
        0.00199
        """
        return (max(self.target, 1 - self.target) + self.gamma) / (self.gamma * records)
