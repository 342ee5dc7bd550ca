"""Conformal inference: a bound that follows a desired share of late records.

Alpha is the share of latenesses that the bound may leave out. At each record it grows a little if the record was on
time, and shrinks a lot if it was late. No assumption is made on how latenesses are distributed or drift.

With N the records after the warm-up and alpha_1 = `target`, always

    late share - target = (alpha_1 - alpha_N+1) / (gamma N)

so the late share is within `bound(N)` as long as alpha stays within [-gamma, 1 + gamma]. It does where a watermark can
be taken back. A watermark cannot: what a bound too small has promised stays promised, and records may be late while
alpha is negative. Hence the warm-up: no watermark before enough latenesses are known.

Source: Gibbs and Candès, "Adaptive Conformal Inference Under Distribution Shift", NeurIPS 2021, without clamping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wmlab.strategies.model.percentiles import SlidingState, require_warm_up
from wmlab.strategies.model.strategy import (
    UNKNOWN,
    Input,
    Positive,
    PositiveReal,
    Record,
    ShareBetween,
    Strategy,
    earlier,
)


class Steered(NamedTuple):
    """X, alpha, and the records so far."""

    x: int
    alpha: float
    seen: SlidingState


@dataclass(frozen=True, slots=True)
class ConformalWatermark(Strategy[Steered]):
    """X = m - B, B = `SlidingWindow.bound` at 1 - alpha of the last `size` latenesses; X stays while alpha <= 0.

    `target` is the desired late share, `gamma` how fast alpha follows. The first `hold` records, the warm-up, make no
    watermark and do not change alpha. Native is X. See the module for rule and source.
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
        """The largest difference between `target` and the late share of so many records after warm-up; see the module.

        >>> round(ConformalWatermark(target=0.01).bound(100_000), 5)
        0.00199
        """
        return (max(self.target, 1 - self.target) + self.gamma) / (self.gamma * records)
