"""Delays and chances as endless streams of draws, taken from a generator in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from wmlab.scenario.network import Delay, Exponential, Fixed, LogNormal, Uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 256


def delays_ms(delay: Delay, draws: np.random.Generator) -> Iterator[int]:
    """Whole milliseconds, drawn as the scenario's value says; fractions are rounded to the nearest."""
    if isinstance(delay, Fixed):
        return repeat(delay.ms)
    return _drawn(delay, draws)


def _drawn(delay: Delay, draws: np.random.Generator) -> Iterator[int]:
    while True:
        yield from np.rint(_block(delay, draws)).astype(np.int64).tolist()


def _block(delay: Delay, draws: np.random.Generator) -> NDArray[np.float64]:
    match delay:
        case Uniform(low_ms=low, high_ms=high):
            return draws.integers(low, high + 1, _BLOCK).astype(np.float64)
        case Exponential(mean_ms=mean, least_ms=least):
            return least + draws.exponential(mean, _BLOCK)
        case LogNormal(median_ms=median, sigma=sigma):
            return draws.lognormal(np.log(median), sigma, _BLOCK)
        case Fixed(ms=ms):
            return np.full(_BLOCK, float(ms))


def chances(draws: np.random.Generator) -> Iterator[float]:
    """Even draws from [0, 1)."""
    while True:
        yield from draws.random(_BLOCK).tolist()
