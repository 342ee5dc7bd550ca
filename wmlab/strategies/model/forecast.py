"""When a watermark will pass a time: how fast it moves, from samples of it, and where it will be.

Methods: the last rate against those before, exponentially weighted; a Kalman filter of a level that moves at a constant
rate; the same with less weight for outliers, and a quick turn where they last. Source: the predictors of the fork
Watermark-Prediction-NES of NebulaStream, whose noises are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign, sqrt
from typing import Any, Final, Literal

from wmlab.core.errors import ModelError
from wmlab.strategies.model.strategy import (
    END,
    UNKNOWN,
    Input,
    Record,
    Strategy,
    now_of,
    require_not_negative,
    require_positive,
)

Method = Literal["weighted", "kalman", "robust"]
_OUTLIER: Final = 3.0
"""Standard deviations from which on a sample counts as an outlier; as many of one sign in a row are a turn."""
_FADING: Final = 1.05
_TURN: Final = 1e4
_UNKNOWN_RATE: Final = 1e6
"""The variance of the rate, in ms of X in a ms, before it has been seen."""


@dataclass(slots=True)
class Line:
    """The level of X at a moment, its rate in ms in a ms, their covariances, and outliers of one sign in a row."""

    now_ms: int
    level: float
    rate: float = 0.0
    level_variance: float = 0.0
    covariance: float = 0.0
    rate_variance: float = _UNKNOWN_RATE
    outliers: int = 0
    samples: int = 1

    def at(self, now_ms: int) -> float:
        """The level at another moment."""
        return self.level + self.rate * (now_ms - self.now_ms)

    def passes(self, time: int) -> int | None:
        """When X will pass `time`, in ms of the wall clock; None if it does not move."""
        return self.now_ms + round((time - self.level) / self.rate) if self.rate > 0 else None


@dataclass(slots=True)
class ForecastState:
    """The state and X of the strategy, and the line through its samples, None before the first one."""

    inner: Any
    x: int = UNKNOWN
    line: Line | None = None


@dataclass(frozen=True, slots=True)
class Forecast(Strategy[ForecastState]):
    """The X of another strategy; native is where X will be `horizon_ms` later, `UNKNOWN` before two samples.

    A sample is taken every `every_ms`. `weight` is the share of the newest rate, from 0 to 1 ("weighted"). `noise_ms`
    is the standard deviation of X around the line, `change` that of its rate after a second ("kalman", "robust").
    Raises `ModelError` for a strategy with a watermark for each key.
    """

    strategy: Strategy[Any]
    horizon_ms: int
    every_ms: int = 1_000
    method: Method = "kalman"
    weight: float = 0.3
    noise_ms: float = 1_000.0
    change: float = 0.01

    def __post_init__(self) -> None:
        require_positive(every_ms=self.every_ms, noise_ms=self.noise_ms, weight=self.weight)
        require_not_negative(horizon_ms=self.horizon_ms, change=self.change)
        if self.strategy.keyed:
            raise ModelError(
                f"{type(self.strategy).__name__} has a watermark for each key.", remedy="Give a strategy with one."
            )

    def start(self) -> ForecastState:
        return ForecastState(self.strategy.start())

    def met(self, state: ForecastState, x: int, record: Record) -> int:
        return self.strategy.met(state.inner, x, record)

    def step(self, state: ForecastState, given: Input) -> tuple[ForecastState, int, int]:
        state.inner, state.x, _ = self.strategy.step(state.inner, given)
        now, line = now_of(given), state.line
        if now is not None and UNKNOWN < state.x < END:
            if line is None:
                line = state.line = Line(now, state.x, level_variance=self.noise_ms**2)
            elif now >= line.now_ms + self.every_ms:
                self._sample(line, now, state.x)
        if line is None or line.samples < 2 or state.x == END:
            return state, state.x, state.x if state.x == END else UNKNOWN
        ahead = line.at((line.now_ms if now is None else now) + self.horizon_ms)
        return state, state.x, max(state.x, round(ahead))

    def _sample(self, line: Line, now: int, x: int) -> None:
        """Moves the line to `now` and corrects it by what X is."""
        passed = now - line.now_ms
        line.samples += 1
        if self.method == "weighted":
            rate = (x - line.level) / passed
            line.rate = rate if line.samples == 2 else self.weight * rate + (1 - self.weight) * line.rate
            line.level, line.now_ms = x, now
            return
        fading = _FADING if self.method == "robust" else 1.0
        line.level, line.now_ms = line.at(now), now
        line.level_variance = fading * (
            line.level_variance + passed * (2 * line.covariance + passed * line.rate_variance)
        )
        line.covariance = fading * (line.covariance + passed * line.rate_variance)
        line.rate_variance *= fading
        self._noise(line, passed, 1.0)
        noise, away = self.noise_ms**2, x - line.level
        if self.method == "robust":
            scaled = away / sqrt(line.level_variance + noise)
            same = line.outliers * scaled >= 0
            line.outliers = (same * line.outliers + int(copysign(1, scaled))) if abs(scaled) > _OUTLIER else 0
            if abs(line.outliers) == _OUTLIER:
                self._noise(line, passed, _TURN)
                scaled, line.outliers = away / sqrt(line.level_variance + noise), 0
            noise *= sqrt(1 + (scaled / _OUTLIER) ** 2)
        gain, turn = (part / (line.level_variance + noise) for part in (line.level_variance, line.covariance))
        line.level += gain * away
        line.rate += turn * away
        line.rate_variance -= turn * line.covariance
        line.covariance *= 1 - gain
        line.level_variance *= 1 - gain

    def _noise(self, line: Line, passed: int, times: float) -> None:
        """Adds what the rate may have changed by since the last sample."""
        variance = times * self.change**2 / 1_000
        line.level_variance += variance * passed**3 / 3
        line.covariance += variance * passed**2 / 2
        line.rate_variance += variance * passed
