"""Delays: how long something takes, as values of a scenario, and as endless streams of draws taken in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY
from itertools import repeat
from typing import Annotated

import numpy as np
from pydantic import Field

from wmlab.core.values import MAX_MS, MeanMs, Ms, Problem, tagged

_BLOCK = 256


@tagged
class Fixed:
    """Every message takes `ms`."""

    ms: Ms


@tagged
class Uniform:
    """Between `low_ms` and `high_ms`, both included, all equally likely."""

    low_ms: Ms
    high_ms: Ms

    def _problems(self) -> Iterator[Problem]:
        if self.low_ms > self.high_ms:
            yield Problem(("high_ms",), f"lies below low_ms, {self.low_ms} (got {self.high_ms})")


@tagged
class Exponential:
    """At least `least_ms`, and beyond that exponential with mean `mean_ms`."""

    mean_ms: MeanMs
    _: KW_ONLY
    least_ms: Ms = 0


@tagged
class LogNormal:
    """Log-normal: half of the messages take less than `median_ms`; `sigma` is the spread of the logarithm."""

    median_ms: Annotated[MeanMs, Field(gt=0)]
    sigma: Annotated[float, Field(ge=0, le=5, strict=True)]


Delay = Annotated[Fixed | Uniform | Exponential | LogNormal, Field(discriminator="kind")]
"""How long a message takes, one way, in whole milliseconds."""


def delays_ms(delay: Delay, draws: np.random.Generator) -> Iterator[int]:
    """Whole milliseconds, drawn as the scenario's value says; fractions are rounded to the nearest."""
    if isinstance(delay, Fixed):
        return repeat(delay.ms)
    return _drawn(delay, draws)


def _drawn(delay: Uniform | Exponential | LogNormal, draws: np.random.Generator) -> Iterator[int]:
    while True:
        match delay:
            case Uniform(low_ms=low, high_ms=high):
                block = draws.integers(low, high + 1, _BLOCK).astype(np.float64)
            case Exponential(mean_ms=mean, least_ms=least):
                block = least + draws.exponential(mean, _BLOCK)
            case LogNormal(median_ms=median, sigma=sigma):
                block = draws.lognormal(np.log(median), sigma, _BLOCK)
        yield from np.rint(block.clip(max=MAX_MS)).astype(np.int64).tolist()


def chances(draws: np.random.Generator) -> Iterator[float]:
    """Even draws from [0, 1)."""
    while True:
        yield from draws.random(_BLOCK).tolist()
