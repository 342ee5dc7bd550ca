"""One thing to be done at one moment: the cheapest entry in the queue of the simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

    def __init__(self, env: simpy.Environment, delay: int, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.act = act
        self.args = args
        env.schedule(self, NORMAL, delay)
