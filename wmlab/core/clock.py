"""The simulated clock: what a run schedules on it, and its random numbers, one generator per name.

A party's draws depend on the scenario's seed and on its own name only, so that adding a writer leaves the draws
of the others as they were. Nothing here depends on wall time or on hash order.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import simpy
from simpy.events import NORMAL


def _act(timer: Any) -> None:
    timer.act(*timer.args)


class Timer(simpy.Event):
    """An event that happens after `delay` ms of simulated time and then calls `act(*args)`.

    What `simpy.Timeout` does, without a closure and a list of its own for what is to be called; so nothing else can
    wait for a timer.
    """

    _ok = True
    _value = None
    callbacks = (_act,)  # type: ignore[assignment]  # as SimPy reads it; all timers share it

    def __init__(self, env: simpy.Environment, delay: float, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.act = act
        self.args = args
        env.schedule(self, NORMAL, delay)


class Simulation:
    """One run in simulated time, from `start_ms` for `duration_ms`; the world of every model derives from it."""

    def __init__(self, *, start_ms: int, duration_ms: int, seed: int) -> None:
        self.env = simpy.Environment(initial_time=start_ms)
        self.start_ms = start_ms
        self.end_ms = start_ms + duration_ms
        self.seed = seed

    @property
    def now_ms(self) -> int:
        """The simulated clock."""
        return int(self.env.now)

    def after(self, delay_ms: float, act: Callable[..., None], *args: Any) -> None:
        """Call `act` after a delay."""
        Timer(self.env, delay_ms, act, args)

    def at(self, at_ms: float, act: Callable[..., None], *args: Any) -> None:
        """Call `act` at a time, or now if that is past."""
        Timer(self.env, max(0, at_ms - self.env.now), act, args)

    def draws(self, name: str) -> np.random.Generator:
        """The random numbers of the party called `name`."""
        return generator(self.seed, name)


def generator(seed: int, name: str) -> np.random.Generator:
    """The generator of the party called `name` under `seed`; the same in every process."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())])))
