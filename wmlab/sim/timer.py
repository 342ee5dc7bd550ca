"""One thing to be done at one moment: the cheapest entry in the queue of the simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy


class Timer(simpy.Event):
    """An event that happens after `delay` ms of simulated time and then calls `act(*args)`.

    What `simpy.Timeout` does, without a closure and a second list for what is to be called.
    """

    def __init__(self, env: simpy.Environment, delay: int, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.env = env
        self.callbacks = [self._call]
        self._value = None
        self._ok = True
        self._act = act
        self._args = args
        env.schedule(self, delay=delay)

    def _call(self, _: simpy.Event) -> None:
        self._act(*self._args)
